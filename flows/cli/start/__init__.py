"""Commands of the first hour: draft, check, find ranges.

- ``check``: `causalveil check` and `causalveil ranges`: problems of a study, and ranges of numbers, before a run.
- ``init``: `causalveil init`: from a file to a contract, a study and partitions. What is not said by options is asked.
- ``server``: `causalveil server`: one Prefect server of the user's own, which later runs find by themselves.
- ``wizard``: Questions of `causalveil init` in a terminal, and the one sentence where there is no terminal to ask in.
"""
