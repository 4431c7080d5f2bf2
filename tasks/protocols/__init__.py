"""Protocols: many questions answered together; ``docs/proofs/questions.md``.

- ``blocks``: Exact sums over the rows of each subgroup: a release has a block of numbers for each, and a row fills one
  of them.
- ``calibration``: Calibration by negative controls (Schuemie, Hripcsak, Ryan, Madigan and Suchard 2018, PNAS 115:2571).
- ``difference``: A protocol by arm means, of a randomised trial or unadjusted: every outcome in every subgroup, from
  one release.
- ``drawn``: The five joint releases of a protocol, read as those of its questions: by subgroup, outcome and side.
- ``effects``: What the questions of a protocol answer: effects with the law of their errors, and how arms are balanced.
- ``expected``: What a planner can say of a protocol before a row is read: expected intervals of every outcome.
- ``failed``: What a failed gate is called wherever somebody looks: on a terminal, by an exit code, in Prefect.
- ``files``: The table of a protocol's release as files that other tools read: answers.csv and answers.parquet.
- ``findings``: From answers with their errors to what the release holds: table, balance, gates, calibration.
- ``gates``: Balance, overlap, and the gates that were declared on them. Post-processing of released values.
- ``measures``: Ratios of two arms' risks, and odds ratios, from released arm means: post-processing that costs nothing.
- ``parts``: Answers with the parts of their error, and how they become intervals: one by one, and all together.
- ``questions``: Every question of a protocol as a plain adjustment: what is asked of each joint release, and what all
  say together.
- ``read``: What noisy sums of a subgroup say of one of its questions, in the terms of a study of one.
- ``recipe``: What a protocol by regression spends on its five joint releases: decided before a row is read, from public
  facts.
- ``releases``: The exact sums of a protocol's five joint releases: what a subgroup's block of each holds.
- ``label/``: Protocols at label level: everything but the outcomes is public.
"""
