"""The `causalveil` command: arguments in, documents and tables out. No order of stages, no arithmetic.

- ``audit``: `causalveil audit`: what happened in a run, from the ledger's verified chain and from Prefect's record.
- ``audit_page``: What happened in a run, from the ledger's verified chain and from Prefect's record, as a page of
  Markdown.
- ``audit_prefect``: Prefect's part of an audit trail: every flow run that has the run's name, its states and those of
  its stages.
- ``desk``: `causalveil desk` and `ledger export`: what the owner sees and hands on.
- ``extract``: `causalveil extract`: from a warehouse to the partitions that a study reads.
- ``ledger``: `causalveil ledger`: what the data's owner and the auditor do.
- ``main``: The `causalveil` command. Every command has --help and --json: one JSON document on standard output.
- ``options``: Options that several commands share.
- ``outlook``: `causalveil ledger forecast` and `ledger chart`: how long a dataset's budget lasts, and how it burned
  down.
- ``owner``: What a data owner does beside granting: `causalveil owner key` makes the key, `causalveil admit` checks all
  rows.
- ``panel``: The panel that a run ends with: the answer, what was adjusted for, its limits, its cost, and where the rest
  stands.
- ``report``: `causalveil report`: a release as a page for people.
- ``show``: What a person sees: rich tables on a terminal, one JSON document for scripts. Released and declared values
  only.
- ``show_sites``: What a person sees of bundles and pooled releases. All of it is in the documents themselves.
- ``sites``: `causalveil bundle` and `causalveil pool`: what a site sends, and what a coordinator makes of it.
- ``stop``: Ctrl-C and SIGTERM: a run unwinds, so that its scratch goes, and one line says what it holds and how to go
  on.
- ``protocols/``: Commands and screens of protocols.
- ``start/``: Commands of the first hour: draft, check, find ranges.
"""
