"""The order of each estimator's stages, which reads like its paper's algorithm box.

- ``aipw``: AIPW with cross-fitting, by the equations of Schröder, Hartenstein and Feuerriegel (2025).
- ``balancing``: Minimal-noise balancing weights on public covariates and treatments.
- ``difference``: Differences of arm means, of a randomised trial or unadjusted.
- ``direction``: Causal direction between two variables by additive noise models.
- ``estimator``: An estimator: its stages, in order, and what can be expected of them.
- ``ipw``: Inverse probability weighting with two private steps.
- ``label``: The stages at level label: weights are public, outcomes private.
- ``matching``: PrivATE: matching on a private propensity score (Yuan et al. 2026, Algorithm 4).
- ``regression``: Covariate adjustment from noisy moments: stages of five releases, and their plan.
- ``rehearsal``: Rehearsals of an estimator's own stages on people made of public facts.
- ``stage``: A stage of a flow.
- ``survival``: Times to an event (``docs/proofs/survival.md``):
- ``table``: Read expected half-widths of a table's questions off one rehearsal.
- ``table_plan``: Rehearse a table, and report the expected half-widths of its questions in a plan.
- ``words``: Remarks of `plan` that estimators share; their sentences stand in ``schemas/remarks.py``.
"""
