"""Documents between sites and a coordinator: terms of a round, bundles, pooled releases.

- ``pooled``: Combine releases: of several sites, and of blocks of one dataset over time.
- ``round``: Call sites to a round, and bundle what each of them sends.
"""
