"""Minimal-noise balancing weights on public covariates and treatments.

- ``cap``: The largest weight: from a grid, by what noise, sampling and imbalance cost together. Public, so free.
- ``cells``: Cells of coarse covariates: units that agree in every covariate of few values.
- ``dual``: Balancing weights of one arm: the dual of a quadratic programme, by Newton's method on sums over segments of
  rows.
- ``expected``: What a planner can say of balancing before a row is read: the weights and interval of a stand-in
  population.
- ``features``: What is balanced: features of public covariates, each with the share of the outcome that it may explain.
- ``imbalance``: What a matching on public scores leaves of the arms' differences: public, so measured and allowed for.
- ``stages``: The stages of a balancing study behind its weights: one draw, and the interval.
- ``weights``: From public covariates and treatments to every unit's weight.
"""
