"""The asymptotic guarantee (Schröder, Hartenstein and Feuerriegel 2025).

- ``influence``: The asymptotic intervals of Schröder, Hartenstein and Feuerriegel (2025), as printed.
- ``learners``: Nuisance models of the asymptotic guarantee, by name, from a closed registry.
- ``stages``: The asymptotic guarantee as a study asks for it: charges, stage, interval.
"""
