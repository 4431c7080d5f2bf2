"""Inverse probability weighting with a private propensity model.

- ``allowance``: What a private propensity model may leave of confounding, and the allowance for it.
- ``expected``: Foresee widths, units needed and the bias from noisy scores, before a row is read.
- ``interval``: Inverse probability weighting: from released sums to an estimate and its interval.
- ``perturb``: The one draw of noise on the estimation units: on all sums of ``weigh`` jointly.
- ``public_scores``: Hajek weighting where covariates and treatments are public: noise of the weights that are used, and
  of no others.
- ``weights``: Inverse probability weights, and the sums over the estimation units that an effect is made of.
"""
