"""Causal direction between two variables by additive noise models.

- ``answers``: From released draws to directions, and what a plan expects of them; released and public values alone.
- ``draws``: Every draw that a direction study makes, from public facts alone: which scores, on whose units, at what
  cost.
- ``scores``: Scores of the two directions between two variables: residuals of kernel ridge regressions, and their
  dependence.
- ``sensitivity``: Sensitivities of direction finding, distances for propose-test-release, and how surely noise keeps an
  order.
- ``stages``: Direction of cause between two variables: regress, score, answer (Kusner et al. 2016, Algorithm 1, made
  private).
"""
