"""The `causalveil` command: arguments in, documents out; no order of stages, no arithmetic.

- ``audit``: `causalveil audit` and `causalveil server`.
- ``init``: `causalveil init`, `check` and `ranges`: what comes before a first run.
- ``main``: The `causalveil` command.
- ``owner``: Commands of a data owner and of an auditor.
- ``releases``: `causalveil report`, `series`, `bundle` and `pool`.
- ``show``: Options that several commands share, and their output for a person or a script.
- ``wizard``: Questions of `causalveil init` in a terminal.
"""
