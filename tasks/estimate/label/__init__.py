"""Tables at label level: everything but the outcomes is public.

- ``balancing``: Compute minimal-noise balancing weights on public covariates and treatments.
- ``comparisons``: Answer a table at label level: its comparisons, their weights, the one draw, the answers.
- ``weighings``: Weigh units by public columns: equally, by inverse propensity, or by matching.
"""
