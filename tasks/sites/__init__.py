"""Bundles of sites: signing, checking, pooling.

- ``accept``: Acceptance of bundles by a coordinator.
- ``asked``: The table that sites or blocks are asked for: its rows, and how far each effect may reach.
- ``bundle``: Making and opening bundles: one release under one site's Ed25519 signature.
- ``combined``: One question over several sites or blocks: each one's answer, and the pooled row.
- ``pool``: Combining what several sites or blocks released.
- ``pooled_release``: From accepted bundles to the pooled release: one table over the sites, row by row.
- ``pooled_times``: Times to an event over sites by released cells: arms are compared within sites.
- ``series``: A series: the released blocks of one dataset together, at no charge.
- ``terms``: The terms of a round: signed by the coordinator, checked by every site before it answers.
"""
