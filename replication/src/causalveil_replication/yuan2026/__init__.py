"""Yuan et al. 2026, private matching: `replicate matching`.

- ``bound``: Theorem 3 of Yuan et al. 2026 as a number: the bound on the squared error of an arm's sum, beside that
  error.
- ``command``: `replicate matching`: the experiments of Yuan et al. 2026 (PrivATE), with this code and seeded noise.
- ``costs``: Tables IV and V of Yuan et al. 2026: seconds and memory of one release, each measured in a process of its
  own.
- ``data``: The four data sets of Yuan et al. 2026 (section IV, appendix A-E), each with the ranges that a study
  declares of it.
- ``errors``: How far private matching is from matching without privacy: the measure of Yuan et al. 2026, section IV-A.
- ``items``: The experiments of Yuan et al. (2026), private matching, beside ours.
- ``page``: The page and the figures of `replicate matching`.
- ``page_doors``: The page's parts on what the paper says in words, and on who deserves a door: wins that are not the
  estimate's own.
- ``page_rivals``: The page's part on the competitors: who won where, what the paper says of them, and what each costs.
- ``page_sweeps``: The page's part on error coefficients, caps by N, shares of the budget and Theorem 3.
- ``rivals``: Figure 2 of Yuan et al. 2026 with its competitors: every estimator on the same orders of the same units.
- ``runs``: Runs of private matching by setting: Figures 2, 3, 5, 7, 8 and 10 of Yuan et al. 2026.
- ``sweeps``: Figures 4, 6, 9, 11 and 12 of Yuan et al. 2026: the error coefficients c and h, and how the budget is
  divided.
- ``tables``: The tables of `replicate matching`, piece by piece; what is done is kept, so that it is done once.
"""
