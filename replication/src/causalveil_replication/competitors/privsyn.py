"""PrivSyn (Zhang, Wang, Honorio, Li, Backes, He, Chen and Zhang 2021) by its definition, then matching on what it made.

One-way tables, a score of dependence for every pair of columns (InDif), a greedy choice of pairs that weighs what a
table's noise costs against what leaving it out does, the chosen tables, made consistent, and records that are moved
until they fit them (GUM). Left out: the step that joins pairs into tables of more columns. Neighbours are the
authors': one unit is there or not, and n is public. Shares of mu^2: one-way .1, choice .1, tables .8.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.gaussian import divide, mu_of
from causalveil.tasks.privacy.mechanisms import Budget, Sensitivity, Slot, vector_mechanism
from causalveil_replication.competitors.coded import CodeArray, Coded, coded, estimate
from causalveil_replication.competitors.competitor import (
    ADD_REMOVE,
    DELTA,
    PROVED,
    Competitor,
    Fitted,
    Instance,
    cost,
)

SHARES = {"one-way": Decimal("0.1"), "choice": Decimal("0.1"), "tables": Decimal("0.8")}
# A unit that comes or goes moves a pair's score by so much at most (their Lemma 1).
INDIF = 4.0
CONSISTENCY_ROUNDS, ROUNDS, DECAY, DECAY_EVERY = 3, 50, 0.84, 5
SEED = 0
Pair = tuple[int, int]


@dataclass(frozen=True)
class Tables:
    """What is private of a coded table: its one-way and two-way tables."""

    one: tuple[FloatArray, ...]
    two: dict[Pair, FloatArray]

    @classmethod
    def of(cls, table: Coded) -> Tables:
        """All of them."""
        sizes, codes = table.sizes, table.codes
        one = tuple(np.bincount(codes[:, a], minlength=size).astype(float) for a, size in enumerate(sizes))
        two = {
            (a, b): np.bincount(codes[:, a] * sizes[b] + codes[:, b], minlength=sizes[a] * sizes[b])
            .reshape(sizes[a], sizes[b])
            .astype(float)
            for a, b in itertools.combinations(range(len(sizes)), 2)
        }
        return cls(one, two)


def synthesise(table: Coded, tables: Tables, request: PrivacyCost, budget: Budget) -> CodeArray:
    """Codes of as many units, shape (n, columns)."""
    parts, units = divide(request, SHARES), len(table.codes)
    columns = len(table.sizes)
    flat = _released(np.concatenate(tables.one), math.sqrt(columns), parts["one-way"], "one-way", budget)
    ends = np.cumsum(table.sizes)[:-1]
    one = [_positive(part, units) for part in np.split(flat, ends)]
    pairs = list(tables.two)
    apart = np.array(
        [np.abs(tables.two[a, b] - np.outer(tables.one[a], tables.one[b]) / units).sum() for a, b in pairs]
    )
    scores = _released(apart, INDIF * math.sqrt(len(pairs)), parts["choice"], "choice", budget)
    rho = float(mu_of(request)) ** 2 / 2 * float(SHARES["tables"])
    picked = [pairs[place] for place in chosen(scores, [tables.two[pair].size for pair in pairs], rho)]
    two = _two_way(tables, picked, parts["tables"], budget) if picked else {}
    _agree(one, two, units)
    return moved(one, two, units, np.random.default_rng(SEED))


def chosen(scores: FloatArray, cells: list[int], rho: float) -> list[int]:
    """Which pairs to publish: the next is the one that lowers the expected error most, until none does.

    Noise costs (sum of cells^(2/3))^(3/2)/sqrt(pi rho) in all, when rho is divided as cells^(2/3); a pair that is left
    out costs its score.
    """
    sizes, scale = np.asarray(cells, dtype=float) ** (2 / 3), 1 / math.sqrt(math.pi * rho)
    free, total, found = np.ones(len(cells), dtype=bool), 0.0, []
    while free.any():
        gain = np.where(free, scores - scale * ((total + sizes) ** 1.5 - total**1.5), -np.inf)
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            break
        free[best], total = False, total + float(sizes[best])
        found.append(best)
    return found


def moved(one: list[FloatArray], two: dict[Pair, FloatArray], units: int, generator: np.random.Generator) -> CodeArray:
    """GUM: records drawn column by column, then moved, table after table, from cells that are too full to others.

    Half of the records that move become copies of a record of the cell that lacks them, the others take its two codes.
    """
    records = np.column_stack([generator.choice(len(part), units, p=part / part.sum()) for part in one])
    share = 1.0
    for turn in range(ROUNDS):
        share *= DECAY if turn and turn % DECAY_EVERY == 0 else 1.0
        for place in generator.permutation(len(two)).tolist():
            pair = list(two)[place]
            _move(records, pair, two[pair], share, generator)
    return records


def private_matching(instance: Instance) -> Fitted:
    """Matching without privacy on PrivSyn's units; without noise: on the units' own codes."""
    table = coded(instance)
    tables = Tables.of(table)

    def release(epsilon: str, budget: Budget) -> float | None:
        return estimate(instance, table, synthesise(table, tables, cost(epsilon, DELTA), budget))

    return Fitted(estimate(instance, table, table.codes), release)


COMPETITORS = (Competitor("privsyn", "PrivSyn, then matching", "sample", ADD_REMOVE, PROVED, DELTA, private_matching),)


def _released(values: FloatArray, sensitivity: float, part: PrivacyCost, name: str, budget: Budget) -> FloatArray:
    bound = Sensitivity(value=sensitivity * (1 + 1e-9), norm=Norm.l2, formula="a unit comes or goes; n is public")
    slot = Slot(name=name, scope=Scope.all)
    return np.asarray(vector_mechanism(bound, part).release(values, slot, budget))


def _two_way(tables: Tables, picked: list[Pair], part: PrivacyCost, budget: Budget) -> dict[Pair, FloatArray]:
    """The chosen tables with noise: one draw of all, each weighted by the root of its share, cells^(2/3)."""
    weights = [tables.two[pair].size ** (1 / 3) for pair in picked]
    joint = np.concatenate([weight * tables.two[pair].ravel() for weight, pair in zip(weights, picked, strict=True)])
    noisy = _released(joint, math.sqrt(sum(weight**2 for weight in weights)), part, "tables", budget)
    ends = np.cumsum([tables.two[pair].size for pair in picked])[:-1]
    return {
        pair: (values / weight).reshape(tables.two[pair].shape)
        for pair, weight, values in zip(picked, weights, np.split(noisy, ends), strict=True)
    }


def _agree(one: list[FloatArray], two: dict[Pair, FloatArray], units: int) -> None:
    """Make tables agree on the columns that they share, and hold no negative numbers; changes both in place."""
    for _ in range(CONSISTENCY_ROUNDS if two else 0):
        for column in range(len(one)):
            sides = [(pair, pair.index(column)) for pair in two if column in pair]
            if not sides:
                continue
            # A cell of a table's margin sums the noise of a row: weight by one over their number.
            margins = [two[pair].sum(axis=1 - side) for pair, side in sides]
            lengths = [1 / two[pair].shape[1 - side] for pair, side in sides]
            target = np.average(margins, axis=0, weights=lengths)
            for (pair, side), margin in zip(sides, margins, strict=True):
                change = (target - margin) / two[pair].shape[1 - side]
                two[pair] = two[pair] + (change[:, None] if side == 0 else change[None, :])
            one[column] = _positive(target, units)
        for pair in two:
            two[pair] = _positive(two[pair].ravel(), units).reshape(two[pair].shape)


def _positive(values: FloatArray, total: float) -> FloatArray:
    """The nearest table without negative numbers that adds up to ``total`` (norm-sub)."""
    ranked = np.sort(values)[::-1]
    excess = (np.cumsum(ranked) - total) / np.arange(1, len(ranked) + 1)
    last = int(np.flatnonzero(ranked > excess)[-1])
    return np.asarray(np.maximum(values - excess[last], 0.0))


def _move(records: CodeArray, pair: Pair, target: FloatArray, share: float, generator: np.random.Generator) -> None:
    width = target.shape[1]
    cells = records[:, pair[0]] * width + records[:, pair[1]]
    want = target.ravel()
    have = np.bincount(cells, minlength=want.size)
    surplus = np.floor(share * np.maximum(have - want, 0)).astype(np.int64)
    lack = share * np.maximum(want - have, 0)
    if not surplus.any() or lack.sum() <= 0:
        return
    mixed = generator.permutation(len(records))
    ranked = mixed[np.argsort(cells[mixed], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(have)[:-1]])
    place = np.arange(len(records)) - starts[cells[ranked]]
    leaving = ranked[place < surplus[cells[ranked]]]
    goals = generator.choice(want.size, len(leaving), p=lack / lack.sum())
    # A cell that holds nobody has no record to copy.
    copies = (generator.random(len(leaving)) < 0.5) & (have[goals] > 0)
    models = ranked[starts[goals[copies]] + (generator.random(int(copies.sum())) * have[goals[copies]]).astype(int)]
    records[leaving[copies]] = records[models]
    records[leaving[~copies], pair[0]] = goals[~copies] // width
    records[leaving[~copies], pair[1]] = goals[~copies] % width
