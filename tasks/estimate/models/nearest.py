"""Match nearest neighbours on a score, and pair near units for sampling variances.

Matching is capped (Yuan et al. 2026, Algorithms 2 and 3) and takes O(n log n + n N). Units are given *in the order of
traversal*: index i is a unit's place in the order of the run's secret keyed hash, so the result depends neither on the
order of rows nor on partitions. Each query takes its N nearest units of the opposite arm that have not yet served as
often as their arm's cap allows; of two at the same distance the one with the smaller index. Scores should lie on a
lattice on which differences are exact (``tasks/estimate/papers/matching/scores.py``).

No outcome is read here: at label level everything in this module is public, at sample level it is post-processing of
noisy scores and treatments.

Matching and estimators with public weights estimate sampling variances from differences of outcomes within such pairs.
Derivations: ``docs/proofs/matching.md``, sections 1 to 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import DataError
from causalveil.schemas.study import Estimand
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.data.split import ascending
from causalveil.tasks.estimate.models.lattice_sums import bounded
from causalveil.tasks.machine.arrays import BoolArray, ByteArray, FloatArray, Int32Array, IntArray

NO_CAP = 2**31 - 1


@dataclass(frozen=True)
class Matching:
    """The result of matching: the neighbours of each query, and how often each unit is one.

    Attributes:
        uses: shape (n,), K_i, how often unit i serves as a neighbour.
        matched: shape (n,), whether unit i was a query and has its N neighbours.
        neighbours: shape (n, N), nearest first, -1 where not matched; None unless asked for.
    """

    uses: Int32Array
    matched: BoolArray
    neighbours: Int32Array | None


@dataclass(frozen=True)
class Arm:
    """One arm's units, in the order of traversal and by ascending score.

    Units of equal scores are in the order of traversal.
    """

    units: Int32Array
    ranked: Int32Array

    @classmethod
    def of(cls, scores: FloatArray, members: BoolArray) -> Arm:
        """Return the units where ``members`` is true; both arrays shape (n,)."""
        units = np.flatnonzero(members).astype(np.int32)
        return cls(units, units[np.argsort(scores[units], kind="stable")])


def match_capped(
    scores: FloatArray,
    treated: ByteArray,
    ratio: int,
    caps: tuple[int, int],
    estimand: Estimand = Estimand.ATE,
    caliper: float | None = None,
    keep: bool = False,
) -> Matching:
    """Match every query to its ``ratio`` nearest units of the other arm that are not exhausted.

    Args:
        scores: shape (n,), finite, in the order of traversal.
        treated: shape (n,), zeros and ones.
        ratio: N >= 1.
        caps: how often a treated unit and a control may serve.
        estimand: its units are the queries.
        caliper: a query whose N-th nearest available unit is further away is left out: it has no neighbours and uses no
            unit. None: a query always takes its N.
        keep: whether to return the neighbours, 4 N bytes a unit.

    Raises:
        DataError: without a caliper, a query finds fewer than N units that are not exhausted.
    """
    arms = Arm.of(scores, treated == 0), Arm.of(scores, treated != 0)
    result = Matching(
        np.zeros(len(scores), dtype=np.int32),
        np.zeros(len(scores), dtype=np.bool_),
        np.full((len(scores), ratio), -1, dtype=np.int32) if keep else None,
    )
    for side in estimand.arms:
        queries, candidates = arms[side], arms[1 - side]
        _match_into(result, scores, queries, queries.units, candidates, ratio, caps[side], caliper)
    return result


def most_used(scores: FloatArray, treated: ByteArray, ratio: int, estimand: Estimand = Estimand.ATE) -> int:
    """Return M, how often a unit is among the ``ratio`` nearest without caps, at most.

    Arguments and errors as of :func:`match_capped`.
    """
    arms = Arm.of(scores, treated == 0), Arm.of(scores, treated != 0)
    result = Matching(np.zeros(len(scores), dtype=np.int32), np.zeros(len(scores), dtype=np.bool_), None)
    for side in estimand.arms:
        # Without caps the order of queries does not matter, and by score they meet memory in order.
        _match_into(result, scores, arms[side], arms[side].ranked, arms[1 - side], ratio, NO_CAP, None)
    return int(result.uses.max(initial=0))


def adaptive_limit(epsilon: float, coefficient: float, larger: int, most: float) -> int:
    """Return k, how often a unit of the smaller arm may serve, in multiples of N.

    Yuan et al. 2026, Equations 9 to 12: it balances noise variance, like 2 (k/epsilon)^2, and the squared
    bias of a cap, like (coefficient * larger * most/k)^2.

    Args:
        epsilon: of the outcome's noise.
        coefficient: c at label level, h at sample level.
        larger: units of the larger arm.
        most: M1 = M/N.
    """
    return max(round(math.sqrt(epsilon * coefficient * larger * most / 2)), 1)


def integer_caps(
    limit: Fraction, treated: int, controls: int, ratio: int, estimand: Estimand = Estimand.ATE
) -> tuple[int, int]:
    """Return how often a treated unit and a control may serve.

    The smaller arm has the limit, the larger one less in proportion. Both are raised until every query must find its N
    units: with c candidates of cap k N, a query that finds fewer has met c - N + 1 exhausted ones, (c - N + 1) k N uses
    by at most q - 1 earlier queries of N each; impossible for k >= q/(c - N + 1). The paper has no such floor.

    Args:
        limit: k of the smaller arm, in multiples of N; a fraction, so that M/N times N is M.
        treated: units of the treated arm.
        controls: units of the control arm.
        ratio: N.
        estimand: its units are the queries.

    Raises:
        DataError: an arm that is searched has fewer than N units.
    """
    share = Fraction(min(treated, controls), max(treated, controls, 1))
    larger_limit = Fraction(max(1, round(limit * share)))
    limits = (limit, larger_limit) if treated <= controls else (larger_limit, limit)
    caps = [0, 0]
    for side in estimand.arms:
        queries, candidates = ((controls, treated), (treated, controls))[side]
        if candidates < ratio:
            raise DataError(f"an arm has fewer than {ratio} units to match with; lower 'ratio'")
        least = -(-queries // (candidates - ratio + 1))
        caps[side] = max(math.floor(limits[side] * ratio), least * ratio)
    return caps[0], caps[1]


def _match_into(
    result: Matching,
    scores: FloatArray,
    queries: Arm,
    sequence: Int32Array,
    candidates: Arm,
    ratio: int,
    cap: int,
    caliper: float | None,
) -> None:
    """Match ``queries``, traversed in ``sequence``, to ``candidates``."""
    from causalveil.tasks.estimate.models import nearest_numba

    starts = np.empty(len(scores), dtype=np.int32)
    nearest_numba.starts(queries.ranked, candidates.ranked, scores, starts)
    complete = nearest_numba.match(
        sequence,
        starts,
        scores,
        candidates.ranked,
        ratio,
        cap,
        math.inf if caliper is None else caliper,
        result.uses,
        result.matched,
        np.empty((0, ratio), dtype=np.int32) if result.neighbours is None else result.neighbours,
    )
    if not complete:
        raise DataError(f"a unit finds fewer than {ratio} units to match with; raise 'cap' or lower 'ratio'")


# Sums are exact rationals of size below 2^32, rounded to floats once: two roundings of two numbers.
ROUNDING = 2.0**-20
CHUNK = 1 << 20
LARGEST_EXPONENT = 30
PairArray = NDArray[np.int32]
NEAREST = 2, 3


def traversal(enclave: Enclave) -> IntArray:
    """Return the permutation that sorts the units of all segments into the order of traversal."""
    # One segment's rows ascend by hash already.
    return np.arange(len(enclave.load("h", 0))) if enclave.segments == 1 else ascending(enclave.gather("h"))


def variance_pairs(
    scores: FloatArray, in_treated: ByteArray, used: BoolArray
) -> tuple[PairArray, PairArray, PairArray]:
    """Return pairs of units near each other in score, no unit twice in one of the three lists.

    Within the treated and within the controls: neighbours in score. Across (a treated unit first): every unit of the
    smaller arm with its nearest unit of the larger one that is still free, the nearest two thirds of these pairs: the
    others are far apart where one arm is scarce, and would make the variance too large.

    Args:
        scores: shape (n,), in the order of traversal.
        in_treated: shape (n,), 1 for units of the treated arm, 0 for controls.
        used: shape (n,), whether the weight is above 0.
    """
    within = []
    for arm in (1, 0):
        ranked = Arm.of(scores, used & (in_treated == arm)).ranked
        within.append(ranked[: len(ranked) // 2 * 2].reshape(-1, 2))
    members = np.flatnonzero(used).astype(np.int32)
    sides = in_treated[members]
    treated_search = 2 * np.count_nonzero(sides) <= len(sides)
    one_each = match_capped(scores[members], sides, 1, (1, 1), Estimand.of_arm(int(treated_search)), keep=True)
    twins = one_each.neighbours
    if twins is None:
        raise ValueError("neighbours were asked for")
    searching = np.flatnonzero(one_each.matched)
    columns = [members[searching], members[twins[searching, 0]]]
    across = np.column_stack(columns if treated_search else columns[::-1])
    distances = np.abs(scores[across[:, 0]] - scores[across[:, 1]])
    nearest = np.argsort(distances, kind="stable")[: -(-len(across) * NEAREST[0] // NEAREST[1])]
    return within[0], within[1], across[nearest]


def sums_exponent(count: int, power: int) -> int:
    """Return G of the lattice 2^-G on which sums of ``count`` powers fit into 64 bits.

    Each is a number of size 2^(power G + power).
    """
    room = 62 - power - math.ceil(math.log2(max(count, 1)))
    return min(LARGEST_EXPONENT, room // power)


def _whole(outcome: FloatArray, exponent: int) -> IntArray:
    return np.rint(bounded(outcome) * 2.0**exponent).astype(np.int64)


def arm_sums(
    weights: IntArray | Int32Array, in_treated: ByteArray, outcome: FloatArray, exponent: int
) -> tuple[int, int]:
    """Return exact sums of W_i u_i 2^G over treated and controls; W whole numbers, shape (n,)."""
    treated = controls = 0
    for first in range(0, len(in_treated), CHUNK):
        part = slice(first, first + CHUNK)
        products = _whole(outcome[part], exponent) * weights[part]
        in_arm = int(products[in_treated[part] != 0].sum())
        treated, controls = treated + in_arm, controls + int(products.sum()) - in_arm
    return treated, controls


def squared_differences(pairs: PairArray, outcome: FloatArray, exponent: int) -> Fraction:
    """Sum of squared differences of outcomes over pairs, exact on the lattice."""
    total = 0
    for start in range(0, len(pairs), CHUNK):
        first, second = pairs[start : start + CHUNK].T
        total += int(np.square(_whole(outcome[first], exponent) - _whole(outcome[second], exponent)).sum())
    return Fraction(total, 1 << (2 * exponent))
