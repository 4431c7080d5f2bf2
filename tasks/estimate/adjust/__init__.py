"""Covariate adjustment from five noisy releases, which several estimators share.

- ``features``: Functions of one row alone, for many rows.
- ``five_releases``: The five releases.
- ``interval``: The estimate and the law of its error: all that the releases leave possible.
- ``posterior``: Compute a posterior that knows its noise, and what follows from its draws.
- ``questions``: Read the five releases of a table as those of each of its questions.
- ``recipe``: Recipe of the five releases of a table.
- ``released``: Results of the five releases.
- ``releases``: The exact sums of a table's five releases: what a subgroup's block of each holds.
- ``scales``: Read scales from release 1 and moments from release 2.
- ``screen``: Candidate curves, and which of them are kept.
- ``sums``: Exact sums over rows of the five releases.
- ``terms``: Declared terms as features: functions of one row that release 1 scales, at no cost.
"""
