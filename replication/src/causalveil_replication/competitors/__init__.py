"""Estimators of other authors, and simpler ones, that the papers compare with: for replications, not for studies.

- ``aim``: AIM (McKenna, Mullins, Sheldon and Miklau 2022) by its definition, then matching on what it made.
- ``coded``: Tables as synthesisers see them: every column a code, and back to rows for the estimate without privacy.
- ``competitor``: What a competitor is: a title, whose privacy it keeps in which sense, and how it is fitted and
  released.
- ``graphical``: Private-PGM (McKenna, Sheldon and Miklau 2019): the graphical model of highest entropy that fits noisy
  tables.
- ``mechanisms``: Draw by mechanisms that only competitors use: smooth sensitivity and the exponential mechanism.
- ``models``: Estimators of the other papers: weighting by a private score (Lee et al. 2019) and DPCI (Schröder et al.
  2025).
- ``ours``: This project's own estimators beside the competitors', each as a study runs it.
- ``packaged``: PrivSyn as the package privsyn-core ships it, in a Python environment of its own, then matching on what
  it made.
- ``privsyn``: PrivSyn (Zhang, Wang, Honorio, Li, Backes, He, Chen and Zhang 2021) by its definition, then matching on
  what it made.
- ``several_valued``: Private matching where treatment has several values, as Yuan et al. (2026) sketch it in section V.
- ``split``: Estimators that split the units into disjoint groups, so that a unit touches one group's estimate alone.
- ``strata``: Estimators on declared strata: exact matching with smooth sensitivity, and blocks whose tables are
  released.
"""
