"""Private-PGM (McKenna, Sheldon and Miklau 2019): the graphical model of highest entropy that fits noisy tables.

Tables over small sets of columns are measured; parameters are one table of log-factors for each. Beliefs come from a
junction tree, the fit from mirror descent with a line search. Everything here is post-processing of noisy tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.competitors.coded import CodeArray

Clique = tuple[int, ...]
# Of the logarithm of the likelihood that the noise has.
STILL, GAIN = 20, 0.01


@dataclass(frozen=True)
class Measurement:
    """A noisy table: its columns ascending, its values in their shape, the deviation of the noise in a cell."""

    clique: Clique
    values: FloatArray
    sigma: float


@dataclass(frozen=True)
class JunctionTree:
    """Cliques so that whatever is measured lies in one, each with its parent: children come after their parents."""

    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @classmethod
    def over(cls, columns: int, measured: Sequence[Clique]) -> JunctionTree:
        """The cliques of ``eliminated``, joined by a spanning tree of largest separators."""
        whole = eliminated(range(columns), measured)
        cliques, parents = [whole.pop()], [-1]
        # The largest separator of each clique that is left with one that is joined, the first such.
        best = {clique: (len(set(clique) & set(cliques[0])), 0) for clique in whole}
        while whole:
            most = max(best[clique][0] for clique in whole)
            at, place = min((best[clique][1], place) for place, clique in enumerate(whole) if best[clique][0] == most)
            joined = whole.pop(place)
            cliques.append(joined)
            parents.append(at)
            for clique in whole:
                shared = len(set(clique) & set(joined))
                if shared > best[clique][0]:
                    best[clique] = (shared, len(cliques) - 1)
        return cls(tuple(cliques), tuple(parents))

    def cells(self, sizes: Sequence[int]) -> int:
        """Count the numbers of the beliefs."""
        return cells(self.cliques, sizes)

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """The columns that each clique shares with its parent; none of the first."""
        return tuple(
            () if parent < 0 else tuple(sorted(set(clique) & set(self.cliques[parent])))
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )


def eliminated(columns: Iterable[int], measured: Sequence[Clique]) -> list[Clique]:
    """Maximal cliques of a chordal graph that holds all of ``measured``: the column that adds fewest edges goes first.

    Sets of columns are whole numbers here, a bit each: a synthesiser asks this of every table that it might measure.
    """
    near: dict[int, int] = dict.fromkeys(columns, 0)
    for clique in measured:
        everybody = sum(1 << column for column in clique)
        for column in clique:
            near[column] |= everybody & ~(1 << column)
    fill = {column: _fill(near, column) for column in near}
    found: list[int] = []
    while near:
        column = min(near, key=lambda one: (fill[one], one))
        around = near.pop(column)
        clique_bits = around | 1 << column
        # A later clique lies in an earlier one or in none: each holds a column that is gone after it.
        if not any(clique_bits & other == clique_bits for other in found):
            found.append(clique_bits)
        beside = _members(around)
        for one in beside:
            near[one] = (near[one] | around) & ~(1 << one | 1 << column)
        touched = around
        for one in beside if fill[column] else ():
            touched |= near[one]
        for one in _members(touched):
            fill[one] = _fill(near, one)
    return [tuple(_members(bits)) for bits in found]


def cells(cliques: Iterable[Clique], sizes: Sequence[int]) -> int:
    """Count the numbers that tables of these columns hold together."""
    return sum(math.prod(sizes[column] for column in clique) for clique in cliques)


@dataclass
class GraphicalModel:
    """Measurements and the model that fits them: ``factors`` are logarithms, one table for each measurement."""

    sizes: tuple[int, ...]
    total: float
    measurements: list[Measurement] = field(default_factory=list)
    factors: list[FloatArray] = field(default_factory=list)
    _tree: JunctionTree = field(default_factory=lambda: JunctionTree((), ()))
    _homes: dict[Clique, int] = field(default_factory=dict)
    _beliefs: list[FloatArray] = field(default_factory=list)

    def measure(self, measurement: Measurement) -> None:
        """Add a noisy table."""
        self.measurements.append(measurement)
        self.factors.append(np.zeros(measurement.values.shape))

    def fit(self, rounds: int, gain: float = GAIN) -> None:
        """Mirror descent from where the last fit ended; ends where ``STILL`` steps gain less than ``gain``."""
        self._tree, self._homes = JunctionTree.over(len(self.sizes), [one.clique for one in self.measurements]), {}
        self._beliefs = self._believe(self.factors)
        loss, gradient, margins = self._loss()
        step = 2.0 / (self.total * max(1 / one.sigma**2 for one in self.measurements))
        losses = [loss]
        for _ in range(rounds):
            if len(losses) > STILL and losses[-1 - STILL] - loss < gain:
                break
            tried = [factor - step * slope for factor, slope in zip(self.factors, gradient, strict=True)]
            before = self._beliefs
            self._beliefs = self._believe(tried)
            new_loss, new_gradient, new_margins = self._loss()
            fall = sum(float((s * (m - n)).sum()) for s, m, n in zip(gradient, margins, new_margins, strict=True))
            if loss - new_loss >= 0.5 * fall:
                self.factors, loss, gradient, margins, step = tried, new_loss, new_gradient, new_margins, 1.1 * step
            else:
                self._beliefs, step = before, step / 2
            losses.append(loss)

    def margin(self, clique: Clique) -> FloatArray:
        """The model's table of columns that lie in one clique of its tree."""
        place = self._place(clique)
        return _sum_to(self._beliefs[place], self._tree.cliques[place], clique)

    def margins(self) -> dict[Clique, FloatArray]:
        """The model's tables of every column and of every pair of columns, ascending."""
        found: dict[Clique, FloatArray] = {(column,): self.margin((column,)) for column in range(len(self.sizes))}
        for place, known in enumerate(self._tree.cliques):
            for pair in itertools.combinations(known, 2):
                if pair not in found:
                    found[pair] = _sum_to(self._beliefs[place], known, pair)
        for first in range(len(self.sizes)):
            if all((first, second) in found for second in range(first + 1, len(self.sizes))):
                continue
            for clique, joint in self._carried(first):
                for second in clique:
                    if first < second and (first, second) not in found:
                        axes = tuple(1 + axis for axis, column in enumerate(clique) if column != second)
                        found[first, second] = np.asarray(joint.sum(axis=axes))
        return found

    def sample(self, units: int, generator: np.random.Generator) -> CodeArray:
        """Codes of so many units, shape (units, columns): clique after clique, given what it shares with its parent."""
        codes = np.zeros((units, len(self.sizes)), dtype=np.int64)
        for place, clique in enumerate(self._tree.cliques):
            shared = self._tree.separators[place]
            new = tuple(column for column in clique if column not in shared)
            table = np.moveaxis(
                self._beliefs[place], [clique.index(column) for column in (*shared, *new)], range(len(clique))
            )
            shape = tuple(self.sizes[column] for column in shared)
            flat = np.maximum(table.reshape(math.prod(shape), -1), 0) + 1e-300
            rows = np.ravel_multi_index(codes[:, shared].T, shape) if shared else np.zeros(units, dtype=np.int64)
            ends = np.cumsum(flat, axis=1)[rows]
            drawn = (ends < generator.random(units)[:, None] * ends[:, -1:]).sum(axis=1)
            codes[:, new] = np.column_stack(np.unravel_index(drawn, tuple(self.sizes[column] for column in new)))
        return codes

    def _loss(self) -> tuple[float, list[FloatArray], list[FloatArray]]:
        margins = [self.margin(one.clique) for one in self.measurements]
        apart = [(margin - one.values) / one.sigma for margin, one in zip(margins, self.measurements, strict=True)]
        slopes = [gap / one.sigma for gap, one in zip(apart, self.measurements, strict=True)]
        return sum(float((gap**2).sum()) for gap in apart) / 2, slopes, margins

    def _believe(self, factors: list[FloatArray]) -> list[FloatArray]:
        """Tables of the tree's cliques that add up to the total: messages to the root and back, in logarithms."""
        tree = self._tree
        logs = [np.zeros(tuple(self.sizes[column] for column in clique)) for clique in tree.cliques]
        for one, factor in zip(self.measurements, factors, strict=True):
            place = self._place(one.clique)
            logs[place] += _spread(factor, one.clique, tree.cliques[place])
        up: dict[int, FloatArray] = {}
        for place in range(len(logs) - 1, 0, -1):
            shared, parent = tree.separators[place], tree.parents[place]
            up[place] = _log_sum_to(logs[place], tree.cliques[place], shared)
            logs[parent] = logs[parent] + _spread(up[place], shared, tree.cliques[parent])
        for place in range(1, len(logs)):
            shared, parent = tree.separators[place], tree.parents[place]
            down = _log_sum_to(logs[parent], tree.cliques[parent], shared) - up[place]
            logs[place] = logs[place] + _spread(down, shared, tree.cliques[place])
        whole = [np.exp(one - one.max()) for one in logs]
        return [self.total * one / one.sum() for one in whole]

    def _carried(self, first: int) -> Iterator[tuple[Clique, FloatArray]]:
        """The joint table of a column, in front, and each clique, carried from clique to clique along the tree."""
        tree = self._tree
        links: list[list[int]] = [[] for _ in tree.cliques]
        for place, parent in enumerate(tree.parents):
            if parent >= 0:
                links[place].append(parent)
                links[parent].append(place)
        start = self._place((first,))
        open_ = [(start, -1, self._given(start, first))]
        while open_:
            place, before, joint = open_.pop()
            clique = tree.cliques[place]
            yield clique, joint
            for other in links[place]:
                if other == before:
                    continue
                shared = tree.separators[other if tree.parents[other] == place else place]
                axes = tuple(1 + axis for axis, column in enumerate(clique) if column not in shared)
                carried = joint.sum(axis=axes)
                belief = self._beliefs[other]
                ratio = carried / np.maximum(_sum_to(belief, tree.cliques[other], shared), 1e-300)
                wide = [1 if column not in shared else self.sizes[column] for column in tree.cliques[other]]
                open_.append((other, place, ratio.reshape(-1, *wide) * belief))

    def _place(self, clique: Clique) -> int:
        """The first clique of the tree in which these columns lie."""
        if clique not in self._homes:
            columns = set(clique)
            self._homes[clique] = next(at for at, known in enumerate(self._tree.cliques) if columns <= set(known))
        return self._homes[clique]

    def _given(self, place: int, column: int) -> FloatArray:
        """A clique's belief with one of its columns once more in front: 0 where the two differ."""
        clique, belief = self._tree.cliques[place], self._beliefs[place]
        shape = [1] * len(clique)
        shape[clique.index(column)] = self.sizes[column]
        codes = np.arange(self.sizes[column])
        return np.stack([belief * (codes == code).reshape(shape) for code in codes.tolist()])


def _fill(near: Mapping[int, int], column: int) -> int:
    """Edges that lack between the neighbours of a column."""
    around = near[column]
    return sum((around & ~near[other] & ~(1 << other)).bit_count() for other in _members(around)) // 2


def _members(bits: int) -> list[int]:
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


@lru_cache(maxsize=100_000)
def _axes(clique: Clique, keep: Clique) -> tuple[int, ...]:
    return tuple(axis for axis, column in enumerate(clique) if column not in keep)


def _sum_to(values: FloatArray, clique: Clique, keep: Clique) -> FloatArray:
    return np.asarray(values.sum(axis=_axes(clique, keep)))


def _log_sum_to(values: FloatArray, clique: Clique, keep: Clique) -> FloatArray:
    axes = _axes(clique, keep)
    most = values.max(axis=axes, keepdims=True)
    return np.asarray(np.log(np.exp(values - most).sum(axis=axes)) + np.squeeze(most, axes))


def _spread(values: FloatArray, keep: Clique, clique: Clique) -> FloatArray:
    return values.reshape(_wide(keep, values.shape, clique))


@lru_cache(maxsize=100_000)
def _wide(keep: Clique, shape: tuple[int, ...], clique: Clique) -> tuple[int, ...]:
    sizes = dict(zip(keep, shape, strict=True))
    return tuple(sizes.get(column, 1) for column in clique)
