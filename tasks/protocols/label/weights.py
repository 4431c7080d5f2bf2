"""Comparisons of a table as rows of their own, and their weights.

A comparison is a subgroup, and in it an arm and the reference; of all units and two arms it is everybody. Subgroups and
arms are public at label level, so cutting the rows apart by them reads nothing private. A comparison's rows keep the
order of their hashes; only pieces that hold a row are written. Weights are functions of public columns, and so free.
One weighting serves all outcomes: it is chosen for the noise of the first primary one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.protocols.study import EffectStudy
from causalveil.schemas.study import Estimand
from causalveil.tasks.balancing import weights as balancing
from causalveil.tasks.covariates import Columns
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.ipw import public_scores as ipw
from causalveil.tasks.machine.arrays import BoolArray
from causalveil.tasks.matching import public as matching
from causalveil.tasks.trial import difference
from causalveil.tasks.weighting.imbalance import Difference, Weighing, save_units
from causalveil.tasks.weighting.weighted_means import WeightedUnits, refuse_empty

T = TypeVar("T")
NAMES = ("x", "t", "u", "h")


@dataclass(frozen=True)
class PartEnclave(Enclave):
    """Some rows of another enclave, under a name of their own; can be pickled if the other can."""

    whole: Enclave
    name: str
    segments: int

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Leave an array of these rows alone."""
        self.whole.save(f"{name}-{self.name}", array)

    def load(self, name: str, segment: int | None = None) -> NDArray[Any]:
        """Load as of the whole, for these rows."""
        place = f"{name}-{self.name}"
        return self.whole.load(place if segment is None else f"{place}-{segment}")

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Compute as of the whole, for these rows."""
        return self.whole.once((self.name, key), compute)


@dataclass(frozen=True)
class Comparison:
    """A subgroup's arm against the reference: public facts.

    Attributes:
        group, arm: their names.
        name: of its rows in the enclave; empty where they are all rows.
        arms: units of the arm and of the reference.
        everybody: units of the subgroup, whatever their arm.
        segments: pieces that its rows are in.
        others: pieces that all rows of the subgroup are in, where these are more; else None.
    """

    group: str
    arm: str
    name: str
    arms: tuple[int, int]
    everybody: int
    segments: int
    others: int | None

    def rows(self, enclave: Enclave) -> Enclave:
        """Return the rows that are compared; t is 1 in the arm and 0 in the reference."""
        return PartEnclave(enclave, self.name, self.segments) if self.name else enclave

    def subgroup(self, enclave: Enclave) -> PartEnclave | None:
        """Return all rows of the subgroup, where these are more."""
        return None if self.others is None else PartEnclave(enclave, _subgroup(self.group), self.others)

    def weight(self, estimand: Estimand) -> int:
        """Return the units over whom the effect is averaged."""
        return {Estimand.ATE: self.everybody, Estimand.ATT: self.arms[0], Estimand.ATC: self.arms[1]}[estimand]


def _subgroup(group: str) -> str:
    # A level may be any text, so files are named by its bytes.
    return "all-" + group.encode().hex()


def compare_stage(study: EffectStudy, enclave: Enclave) -> tuple[Comparison, ...]:
    """Write the rows of each comparison, and say how many there are.

    They are written subgroup by subgroup, arm by arm; nothing is written where one holds all rows.
    """
    if len(study.groups) == 1 and len(study.arm_names) == 2 and not study.where:
        treated, units = _arms(enclave)
        arms = (treated, units - treated)
        return (Comparison(study.groups[0], study.arm_names[1], "", arms, units, enclave.segments, None),)
    found, several = list[Comparison](), len(study.arm_names) > 2
    for group, label in enumerate(study.groups):
        others, everybody = _write(enclave, _subgroup(label), group, None, several)
        for arm, name in enumerate(study.arm_names[1:], 1):
            place = f"{_subgroup(label)}-{arm}"
            segments, _ = _write(enclave, place, group, arm, True)
            treated, total = _arms(PartEnclave(enclave, place, segments))
            arms = (treated, total - treated)
            found.append(Comparison(label, name, place, arms, everybody, segments, others if several else None))
    return tuple(found)


def _arms(rows: Enclave) -> tuple[int, int]:
    """Return how many units are treated, and how many there are."""
    parts = [rows.load("t", segment) for segment in range(rows.segments)]
    return sum(int(np.count_nonzero(part)) for part in parts), sum(map(len, parts))


def _write(enclave: Enclave, place: str, group: int, arm: int | None, keep: bool) -> tuple[int, int]:
    """Write a subgroup's rows, of one arm and the reference or of all.

    Return how many pieces and rows there are.
    """
    pieces = rows = 0
    for segment in range(enclave.segments):
        g, t = enclave.load("g", segment), enclave.load("t", segment)
        chosen: BoolArray = (g == group) if arm is None else (g == group) & ((t == arm) | (t == 0))
        count = int(np.count_nonzero(chosen))
        if not count:
            continue
        if keep:
            for name in NAMES:
                values = enclave.load(name, segment)[chosen]
                if name == "t":
                    values = (values != 0).astype(np.uint8) if arm is None else (values == arm).astype(np.uint8)
                enclave.save(f"{name}-{place}-{pieces}", values)
        pieces, rows = pieces + 1, rows + count
    return pieces, rows


# By what the study of one question declares: the function that makes its weights.
Weigh = Callable[[Any, Enclave, float, Enclave | None], tuple[Weighing, WeightedUnits]]
METHODS: Mapping[type[EffectStudy], Weigh] = {
    BalancingStudy: balancing.weigh,
    DifferenceStudy: difference.weigh,
    IpwStudy: ipw.weigh,
    MatchingStudy: matching.weigh,
}


def weigh_stage(
    study: EffectStudy, enclave: Enclave, comparisons: Sequence[Comparison], louder: float
) -> tuple[Weighing | None, ...]:
    """Leave every unit's weight and the pairs of the variance.

    None where an arm is too small to be compared.

    Args:
        study: the study.
        enclave: its rows, cut apart.
        comparisons: all of them.
        louder: by how much the first primary outcome's noise is larger than that of a draw of its own.

    Raises:
        DataError: every arm is too small; nothing was drawn.
    """
    found, question, problem = list[Weighing | None](), study.questions[study.first], DataError("")
    for comparison in comparisons:
        rows = comparison.rows(enclave)
        try:
            refuse_empty(*comparison.arms)
            weighing, units = METHODS[type(question)](question, rows, louder, comparison.subgroup(enclave))
        except DataError as too_small:
            # Public facts alone: an arm is empty, has fewer units than neighbours are asked for, or none near enough.
            problem = too_small
            found.append(None)
            continue
        save_units(rows, units)
        if question.ADJUSTS:
            weighing = replace(weighing, differences=_differences(question, rows, units.weights))
        found.append(weighing)
    if not any(found):
        raise problem
    return tuple(found)


def _differences(study: EffectStudy, rows: Enclave, weights: NDArray[Any]) -> tuple[Difference, ...]:
    """Compute the arms' difference in each column, before and after weighting.

    One pass over the rows; weights are in their order.
    """
    columns = Columns.of(study)
    kept = list(columns.kept)
    plain, squares, weighted = (np.zeros((2, len(kept))) for _ in range(3))
    counts, totals, passed = np.zeros(2), np.zeros(2), 0
    for segment in range(rows.segments):
        x, t = rows.load("x", segment)[:, kept], rows.load("t", segment)
        own = np.asarray(weights[passed : passed + len(t)], dtype=np.float64)
        passed += len(t)
        for arm in (0, 1):
            chosen = t == arm
            plain[arm] += x[chosen].sum(axis=0)
            squares[arm] += np.square(x[chosen]).sum(axis=0)
            weighted[arm] += own[chosen] @ x[chosen]
            counts[arm] += np.count_nonzero(chosen)
            totals[arm] += own[chosen].sum()
    means = plain / counts[:, None]
    spread = np.sqrt(np.maximum(squares / counts[:, None] - means**2, 0).mean(axis=0))
    scale = np.where(spread > 1e-9, 1 / np.maximum(spread, 1e-9), 0.0)
    before, after = (means[1] - means[0]) * scale, (weighted[1] / totals[1] - weighted[0] / totals[0]) * scale
    return tuple(
        Difference(name, float(one), float(other))
        for name, one, other in zip(columns.names, before, after, strict=True)
    )
