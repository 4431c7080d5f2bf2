"""Lee, Gresele, Park & Muandet 2019, private weighting and private propensity scores: `replicate weighting`.

- ``command``: `replicate weighting`: the experiments of Lee et al. 2019, both papers, with this code and seeded noise.
- ``data``: The data of Lee, Gresele, Park and Muandet (2019), both papers, for `replicate weighting`.
- ``estimates``: Estimates on private scores, as the papers define or name them: weighting, stratification, matching.
- ``formulas``: What Lee et al. (2019) prove of private scores, as computed quantities: as printed, and as it holds.
- ``items``: The experiments of Lee, Gresele, Park and Muandet (2019), two papers, beside ours.
- ``page``: The page and the figures of `replicate weighting`.
- ``runs``: The runs of `replicate weighting`: every draw is kept, so that an interrupted command goes on.
- ``tables``: From draws to the tables of `replicate weighting`.
"""
