"""Confidence intervals: what they cover, and what they allow for.

- ``allowance``: The allowance of an interval for noise in its own variance that is independent of the estimate's noise.
- ``assemble``: From released sums to an estimate and an interval that covers sampling error and every draw of noise.
- ``bernstein``: An interval for a mean of bounded scores that holds at any sample size: no normal approximation
  anywhere.
- ``confounding``: Words about confounding, and what declared or hidden confounding asks of an interval. All of it
  post-processing.
- ``people``: The people of whom `plan` speaks: a population that nobody is, as the planner's reader assumes it.
- ``public_people``: The people of whom `plan` speaks where covariates and treatments are public: those of the run.
- ``served``: The number of cells that a budget can serve, from public facts alone.
"""
