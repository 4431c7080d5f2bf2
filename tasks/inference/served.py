"""The number of cells that a budget can serve, from public facts alone."""

from __future__ import annotations

from causalveil.schemas.errors import StudyError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.protocols.study import JointStudy


def check_cells(units: int, groups: int, arms: int, least: float) -> None:
    """Refuse so many subgroups that cells of equal size would have less than ``least`` units.

    Raises:
        StudyError: says how many the budget can serve.
    """
    most = int(units / (least * arms))
    if groups > 1 and most < groups:
        raise StudyError(
            f"{groups} subgroups of {arms} arms are more cells than this budget can serve on {units:,} units: it can "
            f"serve {most} subgroup{'' if most == 1 else 's'}; ask for fewer levels, or for more epsilon"
        )


def counted_units(study: JointStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """Return how many units a plan takes to be eligible: all where the study is about everybody."""
    if not study.where:
        return float(sizes.units)
    return sizes.units * stand_in.eligible_share
