"""Bundles of sites: signing, checking, pooling.

- ``accept``: Acceptance of bundles by a coordinator: one from each expected site, of this round and study, under a
  trusted key.
- ``bundle``: Making and opening bundles: one release under one site's Ed25519 signature.
- ``pool``: Combining what several sites or blocks released: fixed and random effects, heterogeneity,
  leave-one-site-out.
- ``pooled_protocol``: A protocol over several sites: its tables pooled cell by cell, and with them negative controls
  and balance.
- ``pooled_release``: From accepted bundles to the pooled release: what the sites said, pooled, with everybody's part
  stated.
- ``pooled_times``: Effects on the time to an event over several sites: every measure pooled as an effect is.
- ``series``: A series: the released blocks of one dataset together, at no charge.
"""
