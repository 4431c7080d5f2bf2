"""Kusner, Sun, Sridharan & Weinberger 2016, *Private Causal Inference*: `replicate direction`.

- ``claims``: Two statements that the paper takes from elsewhere: its Theorem 4(1), and Corollary 3.21 of Dwork and Roth
  (2014).
- ``command``: `replicate direction`: the experiments of Kusner et al. 2016, with this code and seeded noise.
- ``items``: The experiments of Kusner, Sun, Sridharan and Weinberger (2016) beside ours.
- ``neighbours``: Add-remove neighbours beside replace-one, as a computed comparison: how far one unit can move each
  score.
- ``page``: The page, the tables and the figures of `replicate direction`.
- ``pairs``: Mooij et al.'s (2016) cause-effect pairs, as the package `cdt` distributes them: 99 pairs, the cause always
  first.
- ``references``: What Kusner et al. (2016) name beside their private scores: references without privacy, and IQR's null
  rate.
- ``runs``: How often direction finding is right on pairs whose direction is known, without and with privacy.
- ``tables``: The tables of `replicate direction`.
"""
