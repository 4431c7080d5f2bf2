"""Time to event: one release of the cells of all people, and curves, risks and tests read off it.

- ``adjusted``: Adjusted effects: pseudo-outcomes of the released cells are a bounded outcome, for which five releases
  adjust.
- ``curves``: Curves of one arm as functions of its cells: people at risk, survival, cumulative incidence, restricted
  mean.
- ``effects``: Differences between the arms with their intervals, bands of both curves, and the log-rank test.
- ``expected``: Planning before a row is read: the same variances at the expected cells of exponential curves.
- ``findings``: From noisy cells to what the release says: measures with intervals, curves with bands, the log-rank
  test.
- ``grid``: The grid of a study of times: how many intervals until the horizon, and the cells that a person may be in.
- ``joint``: Many questions of one release of cells: each question has a part of the cells, and all of them one
  covariance.
- ``joint_answers``: A protocol of times: its rows, the one release of cells, and the table of answers with curves by
  subgroup and arm.
- ``joint_expected``: Planning of a protocol of times before a row is read, and how many subgroups its budget can serve.
- ``pseudo``: Pseudo-outcomes of the cells: a public table, made of released cells alone.
- ``stages``: The stages of a study of times: rows, the one release of cells, and the answers read off it.
- ``strategy``: Release of the cells: square roots of suffix sums, kind by kind, and the counts that are read off it.
"""
