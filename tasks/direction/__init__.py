"""Causal direction between two variables by additive noise models.

- ``answers``: From released draws to directions: post-processing of released and public values alone.
- ``dependence``: Measures of dependence of two vectors: the four scores of additive-noise-model direction finding.
- ``draws``: Every draw that a direction study makes, from public facts alone: which scores, on whose units, at what
  cost.
- ``expected``: A stand-in pair for planning: a curve that everybody knows, not the data.
- ``kernel_ridge``: Residuals of each variable given the other: kernel ridge regressions in both directions.
- ``sensitivity``: Sensitivities of direction finding, distances for propose-test-release, and how surely noise keeps an
  order.
- ``stages``: Direction of cause between two variables: regress, score, answer (Kusner et al. 2016, Algorithm 1, made
  private).
"""
