"""People who are too few to be seen through the noise of a study of times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.schemas.plan import Sizes
from causalveil.tasks.survival.joint import JointCells, grid_of


@dataclass(frozen=True)
class FewestFollowed:
    """Numbers of people of an arm who must be followed to the horizon to be seen.

    ``everybody``: of all units; ``subgroup``: of one subgroup.
    """

    everybody: float
    subgroup: float


def fewest_followed(study: SurvivalStudy, units: int) -> FewestFollowed:
    """Return how many people of an arm must be followed so that noise does not hide them.

    They are followed to the horizon.

    The noise is that of the study's own cells, whose law is public: no row is read.

    Args:
        study: the study.
        units: n.
    """
    sizes = Sizes(units=units, train=units, estimation=units)
    rows = JointCells.read(np.zeros(grid_of(study, units).numbers), study, sizes).asked(study)
    everybody = max(one.both.fewest_followed for one in rows if one.group is None)
    subgroup = max((one.both.fewest_followed for one in rows if one.group is not None), default=everybody)
    return FewestFollowed(everybody, subgroup)


def noise_at_risk(study: SurvivalStudy, sizes: Sizes) -> float:
    """Return the deviation of the noise on people of an arm at risk in the last interval."""
    cells = JointCells.read(np.zeros(grid_of(study, sizes.units).numbers), study, sizes)
    return float(cells.two_arms(cells.members(None), 1).at_risk_error[:, -1].max())
