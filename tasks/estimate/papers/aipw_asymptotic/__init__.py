"""The asymptotic guarantee (Schröder, Hartenstein and Feuerriegel 2025).

- ``influence``: Compute the asymptotic intervals of Schröder, Hartenstein and Feuerriegel (2025).
- ``learners``: Fit nuisance models of the asymptotic guarantee, by name, from a closed registry.
- ``stages``: Run the asymptotic guarantee for a study: charges, stage, interval.
"""
