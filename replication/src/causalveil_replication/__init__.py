"""The papers' experiments made again, and the accuracy study: `replicate`. No part of the product.

- ``commands``: The commands of `replicate`: the tables and figures of the papers, made again with this code on public
  data.
- ``evidence``: `replicate evidence`: every experiment of the five papers on one page, printed numbers beside ours.
- ``figures``: Write pages of a replication: Markdown with tables and figures; plots are the product's.
- ``items``: What a paper printed beside what our tables say of it: one item of the evidence page.
- ``kept``: Rows of a long replication, kept as soon as a part of it is done, so that an interrupted command goes on
  there.
- ``main``: The `replicate` command: tables, figures and pages of the papers' experiments, and the accuracy study.
- ``pieces``: Pieces of a replication, kept as they are done, so that an interrupted command goes on where it was.
- ``accuracy/``: How right answers are: error, coverage and width of every estimator on populations whose effect is
  known.
- ``competitors/``: Estimators of other authors, and simpler ones, that the papers compare with: for replications, not
  for studies.
- ``kusner2016/``: Kusner, Sun, Sridharan & Weinberger 2016, *Private Causal Inference*: `replicate direction`.
- ``lee2019/``: Lee, Gresele, Park & Muandet 2019, private weighting and private propensity scores: `replicate
  weighting`.
- ``schroeder2025/``: Schröder, Hartenstein & Feuerriegel 2025, private confidence intervals: `replicate intervals`.
- ``yuan2026/``: Yuan et al. 2026, private matching: `replicate matching`.
"""
