"""Covariate adjustment from five noisy releases, which several estimators share.

- ``features``: Encode rows as features: lines, curves and declared terms of one row, in the unit ball.
- ``five_releases``: Draw the five releases of an adjustment, each once those before it are set.
- ``interval``: Compute the estimate of an adjustment and the law of its error.
- ``posterior``: Draw slopes, arms' means and second moments from their posterior given releases.
- ``profiles``: Read release 3 as curves of outcome and treatment along each number.
- ``questions``: Read the five releases of a table as those of each of its questions, and adjust each.
- ``recipe``: Recipe of the five releases of a table.
- ``released``: Hold what the five releases say: noisy means, and deviations of their noise.
- ``releases``: The exact sums of a table's five releases: what a subgroup's block of each holds.
- ``scales``: Read release 1 as scales of columns, and release 2 as moments of standardised features.
- ``screen``: Make candidate curves, and decide which of them are kept.
- ``sums``: Exact sums over rows of the five releases.
- ``terms``: Declared terms as features: functions of one row that release 1 scales, at no cost.
"""
