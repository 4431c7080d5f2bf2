"""Covariate adjustment from five noisy releases, which several estimators share.

- ``decide``: Slopes, balancing weights, cuts of scores and the law of the error.
- ``drawn``: The five releases of a table, read as those of its questions.
- ``features``: Functions of one row alone, for many rows.
- ``five_releases``: The five releases.
- ``interval``: The estimate and the law of its error: all that the releases leave possible.
- ``moments``: Moments of standardised features around their mean.
- ``posterior``: A posterior that knows its noise.
- ``questions``: Every question of a protocol as a plain adjustment.
- ``recipe``: Recipe of the five releases of a table.
- ``released``: Results of the five releases.
- ``releases``: The exact sums of a table's five releases: what a subgroup's block of each holds.
- ``scales``: Scales by release 1: arms, where columns lie, and which lines and tails they have.
- ``screen``: Candidate curves, and which of them are kept.
- ``sums``: Exact sums over rows of the five releases.
- ``terms``: Declared terms as features: functions of one row that release 1 scales, at no cost.
"""
