"""Protocols: many questions answered together; ``docs/proofs/questions.md``.

- ``calibration``: Calibration by negative controls (Schuemie, Hripcsak, Ryan, Madigan and Suchard 2018, PNAS 115:2571).
- ``difference``: A protocol by arm means, of a randomised trial or unadjusted: every outcome in every subgroup, from
  one release.
- ``drawn``: The five joint releases of a protocol, read as those of its questions: by subgroup, outcome and side.
- ``expected``: Planning of a protocol before a row is read: expected intervals of every outcome.
- ``failed``: Names of a failed gate: on a terminal, by an exit code, in Prefect.
- ``files``: The table of a protocol's release as files that other tools read: answers.csv and answers.parquet.
- ``findings``: From answers with the law of their errors to what the release holds: table, balance, gates, calibration.
- ``gates``: Balance, overlap, and the gates that were declared on them. Post-processing of released values.
- ``parts``: Answers with the parts of their error, and how they become intervals: one by one, and all together.
- ``questions``: Every question of a protocol as a plain adjustment: what is asked of each joint release, and what all
  say together.
- ``recipe``: Recipe of a protocol by regression: the budget of five joint releases, by public facts, before a row is
  read.
- ``releases``: The exact sums of a protocol's five joint releases: what a subgroup's block of each holds.
- ``label/``: Protocols at label level: everything but the outcomes is public.
"""
