"""Documents between sites and a coordinator: terms of a round, bundles, pooled releases.

- ``pooled``: Report what sites found together.
- ``round``: Call sites to a round, and bundle what each of them sends.
- ``series``: Report what the released blocks of a dataset say together, over time.
"""
