"""People who are too few to be seen through the noise of a study of times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol, times_table
from causalveil.schemas.plan import Sizes
from causalveil.tasks.survival.curves import grid_of
from causalveil.tasks.survival.effects import TwoArms
from causalveil.tasks.survival.joint import JointCells, joint_grid
from causalveil.tasks.survival.strategy import mechanism, read_cells


@dataclass(frozen=True)
class FewestFollowed:
    """Numbers of people of an arm who must be followed to the horizon to be seen.

    ``everybody``: of all units; ``subgroup``: of one subgroup.
    """

    everybody: float
    subgroup: float


def fewest_followed(study: SurvivalStudy | SurvivalProtocol, units: int) -> FewestFollowed:
    """Return how many people of an arm must be followed so that noise does not hide them.

    They are followed to the horizon.

    The noise is that of the study's own cells, whose law is public: no row is read.

    Args:
        study: the study.
        units: n.
    """
    sizes = Sizes(units=units, train=units, estimation=units)
    if isinstance(study, SurvivalStudy) and not study.covariates:
        study = times_table(study)
    if isinstance(study, SurvivalStudy):
        grid = grid_of(study, units)
        least = TwoArms(read_cells(np.zeros(grid.numbers), grid, units, mechanism(study))).fewest_followed
        return FewestFollowed(least, least)
    asked = JointCells.read(np.zeros(joint_grid(study, units).numbers), study, sizes).asked(study)
    everybody = max(one.both.fewest_followed for one in asked if one.group is None)
    subgroup = max((one.both.fewest_followed for one in asked if one.group is not None), default=everybody)
    return FewestFollowed(everybody, subgroup)
