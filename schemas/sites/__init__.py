"""What travels between sites and a coordinator: terms of a round, bundles, pooled releases.

- ``bundle``: bundle.json: what a site sends to a coordinator. One release, and the site's signature over it and its
  round.
- ``pooled``: The release of a pooled study: what several sites found together. Computed from their releases alone.
- ``terms``: sites.yaml: a coordinator's call to several sites, written before anybody's answer is seen.
"""
