"""How right answers are: error, coverage and width of every estimator on populations whose effect is known.

- ``cells``: One cell of the benchmark: many runs of one estimator on one population at one size and budget.
- ``later``: Populations that were written after every estimator's formulas were frozen, each wrong for them in its own
  way.
- ``measure``: One run of a study's own stages on rows in memory, with seeded noise and no ledger, at several levels of
  confidence.
- ``methods``: Every estimator at every level, as populations whose effect is known are asked by it.
- ``populations``: Populations with a known effect of treatment, drawn by declared seeds.
- ``public_data``: Published tables in place of generators: what an interval should hold is least squares on the same
  rows.
"""
