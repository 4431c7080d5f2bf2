"""Bundles of sites: signing, checking, pooling.

- ``accept``: What a coordinator accepts: every expected site's one bundle, for this round, of this study, under a
  trusted key.
- ``bundle``: Making and opening bundles: one release under one site's Ed25519 signature.
- ``pool``: Combining what several sites or blocks released: fixed and random effects, heterogeneity,
  leave-one-site-out.
- ``pooled_protocol``: A protocol over several sites: its tables pooled cell by cell, and with them negative controls
  and balance.
- ``pooled_release``: From accepted bundles to the pooled release: what the sites said, pooled, with everybody's part
  stated.
- ``series``: A series: the released blocks of one dataset together, at no charge.
"""
