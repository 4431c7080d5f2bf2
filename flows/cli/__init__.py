"""The `causalveil` command: arguments in, documents and tables out. No order of stages, no arithmetic.

- ``audit``: `causalveil audit` and `causalveil server`: what happened in a run, and a Prefect server of one's own.
- ``init``: `causalveil init`, `check` and `ranges`: what comes before a first run.
- ``ledger``: `causalveil ledger`: what the data's owner and the auditor do.
- ``main``: The `causalveil` command. Every command has --help and --json: one JSON document on standard output.
- ``owner``: Commands of a data owner beside granting: a key, extracts, admission, the desk, and how long a budget
  lasts.
- ``releases``: `causalveil report`, `series`, `bundle` and `pool`: what is made of releases, at no charge.
- ``show``: Options that several commands share, and their output for a person or a script.
- ``show_sites``: Output for a person about bundles, pooled releases and series. All of it is in the documents
  themselves.
- ``stop``: Ctrl-C and SIGTERM: a run unwinds, so that its scratch goes, and one line says what it holds and how to go
  on.
- ``wizard``: Questions of `causalveil init` in a terminal, and the one sentence where there is no terminal to ask in.
"""
