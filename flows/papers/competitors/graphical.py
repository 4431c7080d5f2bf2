"""Private-PGM (McKenna, Sheldon and Miklau 2019): the graphical model of highest entropy that fits noisy tables.

Tables over small sets of columns are measured; parameters are one table of log-factors for each. Beliefs come from a
junction tree, the fit from mirror descent with a line search. Everything here is post-processing of noisy tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from causalveil.flows.papers.competitors.coded import CodeArray
from causalveil.tasks.machine.arrays import FloatArray

Clique = tuple[int, ...]


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
        """By elimination of the column that adds the fewest edges, then a spanning tree of largest separators."""
        near: list[set[int]] = [set() for _ in range(columns)]
        for clique in measured:
            for a, b in itertools.permutations(clique, 2):
                near[a].add(b)
        left, found = set(range(columns)), []
        while left:
            column = min(left, key=lambda one: (_fill(near, one), one))
            found.append(tuple(sorted({column, *near[column]})))
            for a, b in itertools.permutations(near[column], 2):
                near[a].add(b)
            for other in near[column]:
                near[other].discard(column)
            left.discard(column)
        whole = [one for one in found if not any(set(one) < set(other) for other in found)]
        cliques, parents = [whole.pop()], [-1]
        while whole:
            pairs = itertools.product(range(len(cliques)), range(len(whole)))
            at, best = max(pairs, key=lambda pair: len(set(cliques[pair[0]]) & set(whole[pair[1]])))
            cliques.append(whole.pop(best))
            parents.append(at)
        return cls(tuple(cliques), tuple(parents))

    def cells(self, sizes: Sequence[int]) -> int:
        """How many numbers the beliefs are."""
        return sum(math.prod(sizes[column] for column in clique) for clique in self.cliques)

    def separator(self, place: int) -> Clique:
        """The columns that a clique shares with its parent; none of the first."""
        parent = self.parents[place]
        return () if parent < 0 else tuple(sorted(set(self.cliques[place]) & set(self.cliques[parent])))


@dataclass
class GraphicalModel:
    """Measurements and the model that fits them: ``factors`` are logarithms, one table for each measurement."""

    sizes: tuple[int, ...]
    total: float
    measurements: list[Measurement] = field(default_factory=list)
    factors: list[FloatArray] = field(default_factory=list)
    _tree: JunctionTree = field(default_factory=lambda: JunctionTree((), ()))
    _beliefs: list[FloatArray] = field(default_factory=list)

    def measure(self, measurement: Measurement) -> None:
        """Add a noisy table."""
        self.measurements.append(measurement)
        self.factors.append(np.zeros(measurement.values.shape))

    def fit(self, rounds: int) -> None:
        """Mirror descent from where the last fit ended."""
        self._tree = JunctionTree.over(len(self.sizes), [one.clique for one in self.measurements])
        self._beliefs = self._believe(self.factors)
        loss, gradient, margins = self._loss()
        step = 2.0 / (self.total * max(1 / one.sigma**2 for one in self.measurements))
        for _ in range(rounds):
            tried = [factor - step * slope for factor, slope in zip(self.factors, gradient, strict=True)]
            before = self._beliefs
            self._beliefs = self._believe(tried)
            new_loss, new_gradient, new_margins = self._loss()
            fall = sum(float((s * (m - n)).sum()) for s, m, n in zip(gradient, margins, new_margins, strict=True))
            if loss - new_loss >= 0.5 * fall:
                self.factors, loss, gradient, margins, step = tried, new_loss, new_gradient, new_margins, 1.1 * step
            else:
                self._beliefs, step = before, step / 2

    def margin(self, clique: Clique) -> FloatArray:
        """The model's table of one or two columns, or of columns that lie in one clique of its tree."""
        for place, known in enumerate(self._tree.cliques):
            if set(clique) <= set(known):
                return _sum_to(self._beliefs[place], known, clique)
        first, second = clique
        start = next(place for place, known in enumerate(self._tree.cliques) if first in known)
        return self._across(first, second, start)

    def sample(self, units: int, generator: np.random.Generator) -> CodeArray:
        """Codes of so many units, shape (units, columns): clique after clique, given what it shares with its parent."""
        codes = np.zeros((units, len(self.sizes)), dtype=np.int64)
        for place, clique in enumerate(self._tree.cliques):
            shared = self._tree.separator(place)
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
            place = next(at for at, clique in enumerate(tree.cliques) if set(one.clique) <= set(clique))
            logs[place] += _spread(factor, one.clique, tree.cliques[place])
        up: dict[int, FloatArray] = {}
        for place in range(len(logs) - 1, 0, -1):
            shared, parent = tree.separator(place), tree.parents[place]
            up[place] = _log_sum_to(logs[place], tree.cliques[place], shared)
            logs[parent] = logs[parent] + _spread(up[place], shared, tree.cliques[parent])
        for place in range(1, len(logs)):
            shared, parent = tree.separator(place), tree.parents[place]
            down = _log_sum_to(logs[parent], tree.cliques[parent], shared) - up[place]
            logs[place] = logs[place] + _spread(down, shared, tree.cliques[place])
        return [self.total * np.exp(one - one.max()) / np.exp(one - one.max()).sum() for one in logs]

    def _across(self, first: int, second: int, start: int) -> FloatArray:
        """The joint table of two columns that share no clique: carried from clique to clique along the tree."""
        tree = self._tree
        links: list[list[int]] = [[] for _ in tree.cliques]
        for place, parent in enumerate(tree.parents):
            if parent >= 0:
                links[place].append(parent)
                links[parent].append(place)
        known = tree.cliques[start]
        open_ = [(start, -1, self._given(start, first), known)]
        while open_:
            place, before, joint, clique = open_.pop()
            if second in clique:
                axes = tuple(1 + axis for axis, column in enumerate(clique) if column != second)
                return np.asarray(joint.sum(axis=axes))
            for other in links[place]:
                if other == before:
                    continue
                shared = tuple(sorted(set(clique) & set(tree.cliques[other])))
                axes = tuple(1 + axis for axis, column in enumerate(clique) if column not in shared)
                carried = joint.sum(axis=axes)
                belief = self._beliefs[other]
                ratio = carried / np.maximum(_sum_to(belief, tree.cliques[other], shared), 1e-300)
                wide = [1 if column not in shared else self.sizes[column] for column in tree.cliques[other]]
                open_.append((other, place, ratio.reshape(-1, *wide) * belief, tree.cliques[other]))
        raise ValueError("every column lies in a clique")

    def _given(self, place: int, column: int) -> FloatArray:
        """A clique's belief with one of its columns once more in front: 0 where the two differ."""
        clique, belief = self._tree.cliques[place], self._beliefs[place]
        shape = [1] * len(clique)
        shape[clique.index(column)] = self.sizes[column]
        codes = np.arange(self.sizes[column])
        return np.stack([belief * (codes == code).reshape(shape) for code in codes.tolist()])


def _fill(near: list[set[int]], column: int) -> int:
    return sum(b not in near[a] for a, b in itertools.combinations(near[column], 2))


def _axes(clique: Clique, keep: Clique) -> tuple[int, ...]:
    return tuple(axis for axis, column in enumerate(clique) if column not in keep)


def _sum_to(values: FloatArray, clique: Clique, keep: Clique) -> FloatArray:
    return np.asarray(values.sum(axis=_axes(clique, keep)))


def _log_sum_to(values: FloatArray, clique: Clique, keep: Clique) -> FloatArray:
    axes = _axes(clique, keep)
    most = values.max(axis=axes, keepdims=True)
    return np.asarray(np.log(np.exp(values - most).sum(axis=axes)) + most.reshape(values.max(axis=axes).shape))


def _spread(values: FloatArray, keep: Clique, clique: Clique) -> FloatArray:
    sizes = dict(zip(keep, values.shape, strict=True))
    return values.reshape([sizes.get(column, 1) for column in clique])
