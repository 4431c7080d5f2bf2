"""The order of each estimator's stages, which reads like its paper's algorithm box.

- ``aipw``: AIPW with cross-fitting: doubly robust scores of private outcome models and a known chance of treatment.
- ``balancing``: Minimal-noise balancing weights, covariates and treatments public, outcomes private
  (``docs/proofs/balancing.md``).
- ``difference``: The difference of arm means, of a randomised trial or unadjusted, with one release and its own private
  interval.
- ``direction``: Causal direction between two variables (Kusner, Sun, Sridharan & Weinberger 2016, Algorithm 1).
- ``estimator``: An estimator: its stages, in order, and what can be expected of them. Its budget is the sum over its
  stages.
- ``five_releases``: The stages of the five releases by which covariates are adjusted for: the same of every estimator
  that has them.
- ``foreseen``: A plan from public covariates and treatments of the study's own people, with outcomes that nobody has.
- ``ipw``: PP-IPW: inverse probability weighting with two private steps (Lee et al. 2019a, Algorithm 1).
- ``matching``: PrivATE: matching on a private propensity score (Yuan et al. 2026, Algorithm 4).
- ``protocol``: A protocol of many questions: joint releases, one table (``docs/proofs/questions.md``).
- ``regression``: Covariate adjustment from noisy moments: five releases on all units, read by one posterior that knows
  their noise.
- ``rehearsed``: The average answer of a study on people who do not exist: its own stages, a few times over, with seeded
  noise.
- ``shared``: Stages that several estimators share: how rows enter, and how they are cut into halves and folds.
- ``stage``: A stage of a flow: one object that has its name, its work, the charges that it alone may draw, and what it
  reads.
- ``survival``: The time to an event in two arms (``docs/proofs/survival.md``):
- ``survival_protocol``: A protocol of times to an event (``docs/proofs/survival.md``, section 10):
"""
