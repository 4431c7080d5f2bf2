"""Estimators: exact sums over rows, noisy sums read, and answers with intervals.

- ``answers``: Turn answers with the parts of their error into intervals, ratios and calibrated answers.
- ``clusters``: Estimate the correlation within clusters from one released number.
- ``contrasts``: Combine rows of a table into contrasts and ratios, with intervals.
- ``difference``: Estimate differences of arm means where treatment is private, in a trial or unadjusted.
- ``findings``: Assemble what a release holds of a table: answers, balance, gates, calibration.
- ``interval``: Compute an estimate and its interval from released sums, for every estimator.
- ``people``: Make the population of a plan from public facts.
- ``robustness``: Compute how strong an unmeasured confounder would have to be.
- ``adjust/``: Covariate adjustment from five noisy releases, which several estimators share.
- ``label/``: Tables at label level: everything but the outcomes is public.
- ``models/``: Models and sums that several estimators share.
- ``papers/``: Estimators that follow one paper each.
- ``times/``: Time to event: one release of the cells of all people, and what is read off it.
- ``weights/``: Weighting by public covariates and treatments, which several estimators share.
"""
