"""Bundles of sites: signing, checking, pooling.

- ``accept``: Acceptance of bundles by a coordinator.
- ``bundle``: Making and opening bundles: one release under one site's Ed25519 signature.
- ``pool``: Pool tables of sites or blocks into one table.
- ``pooled_release``: Make the pooled release of accepted bundles, of effects and of times.
- ``series``: A series: the released blocks of one dataset together, at no charge.
- ``terms``: The terms of a round: signed by the coordinator, checked by every site before it answers.
"""
