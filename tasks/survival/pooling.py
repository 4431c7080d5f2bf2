"""Pooling of strata of censoring that noise hides.

A stratum holds the people of one combination of the levels of ``censoring.by``, and each arm of it has a curve of
censoring of its own. Where too few people of an arm are seen until the measure ends, strata are pooled in the order of
``division``. Noisy counts and public numbers alone decide: ``docs/proofs/survival.md``, section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.tasks.machine.arrays import IntArray
from causalveil.tasks.survival.division import divided
from causalveil.tasks.survival.effects import TwoArms
from causalveil.tasks.survival.strategy import FEWEST, NoisyCells

# People of a stratum's arm are above so many deviations of noise. At 2 or 3 a curve of censoring that noise moves below
# the floor costs up to half and a fifteenth of the answers, and from 6 on strata are pooled that tell their curves.
POOL_DEVIATIONS = 4.0


@dataclass(frozen=True)
class CensoringStrata:
    """Strata of censoring after pooling.

    Attributes:
        both: both arms of each.
        members: the combinations of levels that each holds.
        of_group: the stratum of each group of cells that was released, shape (groups,).
    """

    both: tuple[TwoArms, ...]
    members: tuple[IntArray, ...]
    of_group: IntArray

    @classmethod
    def one(cls, both: TwoArms) -> CensoringStrata:
        """Return all people as one stratum."""
        grid = both.grid
        return cls((both,), (np.arange(max(len(grid.strata), 1)),), np.zeros(grid.groups, dtype=np.int64))


def pool_strata(study: SurvivalStudy, whole: TwoArms, groups: Sequence[NoisyCells], until: int) -> CensoringStrata:
    """Pool strata in which too few people of an arm are seen until an interval ends.

    Args:
        study: the study.
        whole: everybody's cells.
        groups: cells as they were released, whose noises are independent and of one law.
        until: the interval.
    """
    own = np.array(whole.grid.strata)

    def both(members: IntArray) -> TwoArms:
        places = np.unique(own[members]).tolist()
        counts = np.sum([groups[place].counts for place in places], axis=0)
        units = max(round(float(counts.sum())), FEWEST)
        return TwoArms(NoisyCells(whole.grid, units, counts, groups[0].noise * len(places)))

    def seen(members: IntArray) -> bool:
        # Of a part of what was released together nothing is known.
        together = np.count_nonzero(np.isin(own, own[members])) == len(members)
        return together and both(members).until(until).seen_by(POOL_DEVIATIONS) == until

    members = divided(study.censoring.shape, seen)
    if len(members) == 1:
        return CensoringStrata.one(whole)
    of_group = np.zeros(len(groups), dtype=np.int64)
    for place, one in enumerate(members):
        of_group[own[one]] = place
    return CensoringStrata(tuple(map(both, members)), tuple(members), of_group)


def pooled_words(study: SurvivalStudy, strata: CensoringStrata) -> tuple[list[str], list[str]]:
    """Return each pooled stratum in words, and the columns whose levels are pooled.

    Args:
        study: the study.
        strata: its strata.
    """
    censoring, texts, columns = study.censoring, list[str](), dict[str, None]()
    for members in strata.members:
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
