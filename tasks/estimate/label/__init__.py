"""Tables at label level: everything but the outcomes is public.

- ``balancing``: Compute minimal-noise balancing weights on public covariates and treatments.
- ``comparisons``: Answer a table at label level: its comparisons, their weights, the one draw, the answers.
- ``difference``: Weigh units for the difference of arm means where treatment is public: all alike.
- ``ipw``: Weigh by inverse chances of treatment (Hajek) where covariates and treatments are public.
- ``matching``: Match on a public propensity score, and measure the imbalance that is left.
"""
