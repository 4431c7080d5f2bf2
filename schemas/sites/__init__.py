"""Documents between sites and a coordinator: terms of a round, bundles, pooled releases.

- ``pooled``: Report what sites, or blocks of one dataset, found together.
- ``round``: Call sites to a round, and bundle what each of them sends.
"""
