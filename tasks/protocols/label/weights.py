"""Comparisons of a protocol as rows of their own, and their weights.

Weights are by balancing or by matching.

A comparison is a subgroup, and in it an arm and the reference. Subgroups and arms are public at label level, so cutting
the rows apart by them reads nothing private. A comparison's rows keep the order of their hashes; only pieces that hold
a row are written. Weights are functions of public columns, and so free. One weighting serves all outcomes: it is chosen
for the noise of the first primary one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.schemas.study import Estimand
from causalveil.tasks.balancing.stages import balance
from causalveil.tasks.covariates import Columns
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.machine.arrays import BoolArray, ByteArray, FloatArray, IntArray
from causalveil.tasks.matching import scores as matching_scores
from causalveil.tasks.matching import weights as matched
from causalveil.tasks.matching import weights as matching_weights
from causalveil.tasks.matching.weights import Reuse, Weighted, with_imbalance
from causalveil.tasks.models.logistic import fit
from causalveil.tasks.models.nearest import PairArray, traversal
from causalveil.tasks.weighting.imbalance import Balance
from causalveil.tasks.weighting.weighted_means import WeightedUnits, exact_sums

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
        name: of its rows in the enclave.
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

    def rows(self, enclave: Enclave) -> PartEnclave:
        """Return the rows that are compared; t is 1 in the arm and 0 in the reference."""
        return PartEnclave(enclave, self.name, self.segments)

    def subgroup(self, enclave: Enclave) -> PartEnclave | None:
        """Return all rows of the subgroup, where these are more."""
        return None if self.others is None else PartEnclave(enclave, _subgroup(self.group), self.others)

    def weight(self, estimand: Estimand) -> int:
        """Return the units over whom the effect is averaged."""
        return {Estimand.ATE: self.everybody, Estimand.ATT: self.arms[0], Estimand.ATC: self.arms[1]}[estimand]


def _subgroup(group: str) -> str:
    # A level may be any text, so files are named by its bytes.
    return "all-" + group.encode().hex()


def compare_stage(study: ProtocolStudy, enclave: Enclave) -> tuple[Comparison, ...]:
    """Write the rows of each comparison, and say how many there are.

    They are written subgroup by subgroup, arm by arm.
    """
    found, several = list[Comparison](), len(study.arm_names) > 2
    for group, label in enumerate(study.groups):
        others, everybody = _write(enclave, _subgroup(label), group, None, several)
        for arm, name in enumerate(study.arm_names[1:], 1):
            place = f"{_subgroup(label)}-{arm}"
            segments, _ = _write(enclave, place, group, arm, True)
            part = PartEnclave(enclave, place, segments)
            treated = sum(int(np.count_nonzero(part.load("t", segment))) for segment in range(segments))
            total = sum(len(part.load("t", segment)) for segment in range(segments))
            arms = (treated, total - treated)
            found.append(Comparison(label, name, place, arms, everybody, segments, others if several else None))
    return tuple(found)


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


WEIGHTS, PAIRS, ORDER = "weights", "pairs-{}", "order"
Numbers = Callable[[FloatArray, float], tuple[Fraction, Fraction]]


@dataclass(frozen=True)
class Difference:
    """The difference of the arms in a covariate, before and after weighting.

    It is in the covariate's standard deviations within arms.
    """

    covariate: str
    before: float
    after: float


@dataclass(frozen=True)
class Weighing:
    """Public facts about a comparison's weights.

    ``effective``: the smaller share of an arm's units that the weights leave effective.
    """

    found: Balance | Reuse
    differences: tuple[Difference, ...]
    effective: float


def weigh_stage(
    study: ProtocolStudy, enclave: Enclave, comparisons: Sequence[Comparison], louder: float
) -> tuple[Weighing | None, ...]:
    """Leave every unit's weight and the pairs of the variance.

    None where an arm is too small to be compared.

    Args:
        study: the study.
        enclave: its rows, cut apart.
        comparisons: all of them.
        louder: by how much the first primary outcome's noise is larger than that of a draw of its own.
    """
    return tuple(_weigh(study, enclave, comparison, louder) for comparison in comparisons)


def _weigh(study: ProtocolStudy, enclave: Enclave, comparison: Comparison, louder: float) -> Weighing | None:
    rows, question = comparison.rows(enclave), study.questions[study.first]
    if min(comparison.arms) < 1:
        return None
    order: IntArray = np.arange(sum(comparison.arms))
    try:
        if isinstance(question, BalancingStudy):
            found, units = balance(question, rows, louder, comparison.subgroup(enclave))
            _leave(rows, units.weights, units.pairs, order)
            effective = [own / units_ for own, units_ in zip(found.weights.effective, comparison.arms, strict=True)]
            return Weighing(found, _differences(question, rows, units.weights), min(effective))
        matching = cast(MatchingStudy, question)
        scores, in_treated, order = matching_rows(matching, rows)
        weighted = matching_weights.weigh(_as_loud(matching, louder), scores, in_treated)
    except DataError:
        # Public facts alone: an arm has fewer units than neighbours are asked for, or none near enough.
        return None
    _leave(rows, weighted.weights, weighted.pairs, order)
    reuse = with_imbalance(matching, rows, weighted.reuse, weighted.weights, order)
    in_rows = np.empty(len(order))
    in_rows[order] = weighted.weights
    effective = [
        reuse.queries**2 / float(square) / units_
        for square, units_ in zip(reuse.weight_squares, comparison.arms, strict=True)
    ]
    return Weighing(reuse, _differences(matching, rows, in_rows), min(1.0, *effective))


def _as_loud(study: MatchingStudy, louder: float) -> MatchingStudy:
    """The study with the epsilon whose noise is the outcome's, by which adaptive caps are chosen."""
    epsilon = Decimal(repr(float(study.privacy.epsilon) / louder))
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"epsilon": epsilon})})


def matching_rows(study: MatchingStudy, rows: PartEnclave) -> tuple[FloatArray, ByteArray, IntArray]:
    """Return public scores and arms in the order of traversal, and that order."""
    units = sum(len(part) for part in rows.hashes())
    w = fit(rows.rows, rows.segments, units, study.estimator.penalty, study.execution.workers)
    lattice = matching_scores.COEFFICIENT_LATTICE
    w = np.rint(w * lattice) / lattice
    order = traversal(rows)
    scores = np.concatenate([matching_scores.exact_scores(rows.rows(index), w) for index in range(rows.segments)])
    return scores[order], rows.gather("t")[order], order


def _leave(rows: PartEnclave, weights: NDArray[Any], pairs: Sequence[PairArray], order: IntArray) -> None:
    rows.save(WEIGHTS, weights)
    rows.save(ORDER, order)
    for place, own in enumerate(pairs):
        rows.save(PAIRS.format(place), own)


def numbers_of(study: ProtocolStudy, rows: PartEnclave, weighing: Weighing) -> Numbers:
    """Return the function from an outcome to its two exact numbers, each of sensitivity 1.

    Its arguments are u, shape (n,), and how loud its noise is.
    """
    first, second, across = (rows.load(PAIRS.format(place)) for place in range(3))
    order, found = rows.load(ORDER), weighing.found
    in_treated: ByteArray = rows.gather("t")[order]
    if isinstance(found, Balance):
        units = WeightedUnits(found.weights, rows.load(WEIGHTS), (first, second, across))
        return lambda u, louder: exact_sums(units, in_treated, u[order], study.privacy.cost, louder)
    question = cast(MatchingStudy, study.questions[study.first])
    weighted = Weighted(found, rows.load(WEIGHTS), (first, second, across))

    def numbers(u: FloatArray, louder: float) -> tuple[Fraction, Fraction]:
        del louder  # the study declares which part of the draw measures the variance
        return matched.exact_sums(question, weighted, in_treated, u[order])

    return numbers


def _differences(
    study: BalancingStudy | MatchingStudy, rows: PartEnclave, weights: NDArray[Any]
) -> tuple[Difference, ...]:
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
