"""Pooling of strata of censoring that noise hides.

A stratum holds the people of one combination of the levels of ``censoring.by`` in a subgroup, and each arm of it has a
curve of censoring of its own. Where too few people of an arm are seen until the measure ends, strata are pooled in the
order of ``division``. Noisy counts and public numbers alone decide: ``docs/proofs/survival.md``, section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.tasks.machine.arrays import IntArray
from causalveil.tasks.survival.division import divided
from causalveil.tasks.survival.joint import JointCells

# People of a stratum's arm are above so many deviations of noise. At 2 or 3 a curve of censoring that noise moves below
# the floor costs up to half and a fifteenth of the answers, and from 6 on strata are pooled that tell their curves.
POOL_DEVIATIONS = 4.0


@dataclass(frozen=True)
class Stratum:
    """A stratum of censoring after pooling.

    Attributes:
        members: the combinations of levels that it holds.
        places: its groups of cells.
    """

    members: IntArray
    places: tuple[int, ...]


def pool_strata(study: SurvivalStudy, cells: JointCells, group: int, until: int) -> tuple[Stratum, ...]:
    """Pool strata in which too few people of an arm are seen until an interval ends.

    Args:
        study: the study.
        cells: as they were released.
        group: the subgroup.
        until: the interval.
    """
    own = np.array(cells.grid.strata or (0,)) + cells.members(group)[0]

    def of(members: IntArray) -> Stratum:
        return Stratum(members, tuple(np.unique(own[members]).tolist()))

    def seen(members: IntArray) -> bool:
        # Of a part of what was released together nothing is known.
        together = np.count_nonzero(np.isin(own, own[members])) == len(members)
        pairs = (cells.two_arms(of(members).places, arm) for arm in range(1, cells.grid.arms))
        return together and all(both.seen_by(POOL_DEVIATIONS) >= until for both in pairs)

    return tuple(map(of, divided(study.censoring.shape, seen)))


def pooled_words(study: SurvivalStudy, strata: Sequence[Stratum]) -> tuple[list[str], list[str]]:
    """Return each pooled stratum in words, and the columns whose levels are pooled.

    Args:
        study: the study.
        strata: of a subgroup.
    """
    censoring, texts, columns = study.censoring, list[str](), dict[str, None]()
    for members in (one.members for one in strata):
        if len(members) == 1:
            continue
        parts = []
        # Strata are products: of each column they hold levels side by side.
        for name, places in zip(censoring.by, np.unravel_index(members, censoring.shape), strict=True):
            held, names = np.unique(places).tolist(), censoring.names(name)
            if len(held) > 1:
                columns[name] = None
            parts.append(f"{name}: {'any' if len(held) == len(names) > 1 else ' or '.join(names[one] for one in held)}")
        texts.append(", ".join(parts))
    return texts, list(columns)
