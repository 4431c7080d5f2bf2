"""Bundles of sites: signing, checking, pooling.

- ``accept``: Acceptance of bundles by a coordinator.
- ``asked``: The table that sites or blocks are asked for: its rows, and how far each effect may reach.
- ``bundle``: Making and opening bundles: one release under one site's Ed25519 signature.
- ``pool``: Combining what several sites or blocks released.
- ``pooled_protocol``: A protocol over several sites.
- ``pooled_release``: From accepted bundles to the pooled release.
- ``pooled_times``: Times to an event over sites: measures are pooled as effects, or by released cells.
- ``series``: A series: the released blocks of one dataset together, at no charge.
- ``terms``: The terms of a round: signed by the coordinator, checked by every site before it answers.
"""
