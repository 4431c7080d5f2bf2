"""Which columns of the encoded covariates a regression uses, from what the study declares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from itertools import combinations

from causalveil.schemas.study import CategoricalCovariate, EffectStudy
from causalveil.tasks.covariates.encoding import blocks, feature_names, scale
from causalveil.tasks.covariates.narrow_ranges import DeclaredRanges

# In release 1, of an indicator whose number has eighth powers there.
INDICATOR_BESIDE_POWERS = 1.25


class Basis(IntEnum):
    """What the outcome may depend on: columns, their squares too, products of two, cubes as well."""

    linear = 0
    squares = 1
    pairs = 2
    cubes = 3


@dataclass(frozen=True)
class Columns:
    """Which columns of x enter, from the declared covariates alone.

    Attributes:
        covariates: p.
        kept: positions of the columns that enter. The first level of a category is the one that others are compared
            with: all levels add up to a constant.
        names: of the kept columns.
        span: c, the largest entry of a column.
        weights: of the kept columns' sums in release 1: 1 for a number, which has squares there too; 2 for the one
            column of two levels, sqrt(2) for one of many, and for an indicator, which are 0 or c and need no squares;
            5/4 for an indicator beside a number that has eighth powers there.
        numbers: places within ``kept`` of numbers, whose squares release 1 takes.
        curved: those of them that have more than two values.
        unscaled: those of ``curved`` for which no scale is declared.
        ranges: of those of ``curved`` whose declared range is not from one whole number to the next; two values such as
            0 and 1 lie at the ends of theirs as they should.
        eighth: those of ``ranges`` whose eighth powers release 1 has: all, or none without a delta, where every number
            of a release makes the noise of all others larger.
        owners: of which covariate each kept column is; products are of columns of different covariates.
        undeclared: places of the levels for values that nobody declared.
        lines_alone: places of columns of which nothing but a line is a feature.
    """

    covariates: int
    kept: tuple[int, ...]
    names: tuple[str, ...]
    span: float
    weights: tuple[float, ...]
    numbers: tuple[int, ...]
    curved: tuple[int, ...]
    unscaled: tuple[int, ...]
    ranges: DeclaredRanges
    owners: tuple[int, ...]
    undeclared: tuple[int, ...]
    lines_alone: tuple[int, ...] = ()
    eighth: tuple[int, ...] = ()

    @classmethod
    def of(cls, study: EffectStudy) -> Columns:
        """The columns of a study."""
        kept: list[int] = []
        owners: list[int] = []
        numbers: list[int] = []
        curved: list[int] = []
        unscaled: list[int] = []
        ranged: list[int] = []
        from_zero: list[bool] = []
        weights: list[float] = []
        undeclared: list[int] = []
        gaussian = study.privacy.cost.delta > 0
        for owner, block in enumerate(blocks(study)):
            category, powers = isinstance(block.covariate, CategoricalCovariate), False
            if not isinstance(block.covariate, CategoricalCovariate):
                if block.covariate.codes is None:
                    curved.append(len(kept))
                    if block.covariate.scale is None:
                        unscaled.append(len(kept))
                    if block.covariate.width != 1 or not block.covariate.lower.is_integer():
                        ranged.append(len(kept))
                        from_zero.append(block.covariate.lower == 0)
                        powers = gaussian
                numbers.append(len(kept))
                weights.append(1.0)
            # Of a category all levels but the first, of a number the indicator of what is missing.
            others = len(block.features) - 1
            beside = INDICATOR_BESIDE_POWERS if powers else math.sqrt(2)
            weights += [2.0 if category and others == 1 else beside] * others
            columns = range(1 if category else 0, len(block.features))
            expected = len(block.covariate.expected) if isinstance(block.covariate, CategoricalCovariate) else 1
            slots = len(block.covariate.slots) if isinstance(block.covariate, CategoricalCovariate) else 1
            undeclared += [len(kept) + place for place, offset in enumerate(columns) if expected <= offset < slots]
            kept += [block.start + offset for offset in columns]
            owners += [owner] * len(columns)
        names = feature_names(study)
        return cls(
            covariates=len(study.covariates),
            kept=tuple(kept),
            names=tuple(names[place] for place in kept),
            span=scale(study),
            weights=tuple(weights),
            numbers=tuple(numbers),
            curved=tuple(curved),
            unscaled=tuple(unscaled),
            ranges=DeclaredRanges(tuple(ranged), tuple(names[kept[place]] for place in ranged), tuple(from_zero)),
            owners=tuple(owners),
            undeclared=tuple(undeclared),
            eighth=tuple(ranged) if gaussian else (),
        )

    def by_lines_alone(self, places: Sequence[int]) -> Columns:
        """The same with nothing but lines of the columns at these places within ``kept``."""
        return replace(self, lines_alone=tuple(sorted({*self.lines_alone, *places})))

    def without(self, places: Sequence[int]) -> Columns:
        """The same without the columns at these places within ``kept``."""
        left = [place for place in range(len(self.kept)) if place not in set(places)]

        new = {place: index for index, place in enumerate(left)}

        def moved(some: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(new[place] for place in some if place in new)

        return replace(
            self,
            kept=tuple(self.kept[place] for place in left),
            names=tuple(self.names[place] for place in left),
            weights=tuple(self.weights[place] for place in left),
            numbers=moved(self.numbers),
            curved=moved(self.curved),
            unscaled=moved(self.unscaled),
            ranges=self.ranges.moved(new),
            owners=tuple(self.owners[place] for place in left),
            undeclared=moved(self.undeclared),
            lines_alone=moved(self.lines_alone),
            eighth=moved(self.eighth),
        )

    @cached_property
    def squared(self) -> tuple[int, ...]:
        """Places within ``kept`` of numbers whose squares and cubes are features."""
        return tuple(place for place in self.curved if place not in self.lines_alone)

    @cached_property
    def two_valued(self) -> tuple[int, ...]:
        """Places within ``kept`` of levels, indicators and flags."""
        return tuple(place for place in range(len(self.kept)) if place not in self.curved)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of places within ``kept`` that have a product."""
        places = [place for place in range(len(self.kept)) if place not in self.lines_alone]
        return [(i, j) for i, j in combinations(places, 2) if self.owners[i] != self.owners[j]]

    @property
    def pair_runs(self) -> list[tuple[int, int, int]]:
        """The same pairs as (i, start, stop), j from start to stop: pairs of neighbours j stand together."""
        runs: list[tuple[int, int, int]] = []
        for i, j in self.pairs:
            if runs and runs[-1][0] == i and runs[-1][2] == j:
                runs[-1] = i, runs[-1][1], j + 1
            else:
                runs.append((i, j, j + 1))
        return runs

    def runs(self, basis: Basis) -> list[tuple[int, int, int]]:
        """The products of a basis, as ``pair_runs``."""
        return self.pair_runs if basis >= Basis.pairs else []

    def bases(self, richest: Basis) -> list[Basis]:
        """The bases up to ``richest``, that first; of two with the same features the plainer."""
        return [
            basis
            for basis in sorted(Basis, reverse=True)
            if basis <= richest and (basis is Basis.linear or self.features(basis) > self.features(Basis(basis - 1)))
        ]

    def features(self, basis: Basis) -> int:
        """The number of features."""
        lines, squares = len(self.kept), len(self.squared)
        products = math.comb(lines - len(self.lines_alone), 2) - self._alike
        added = {Basis.squares: squares, Basis.pairs: products, Basis.cubes: squares}
        return lines + sum(count for one, count in added.items() if one <= basis)

    @cached_property
    def _alike(self) -> int:
        """Pairs of columns of one covariate, which have no product."""
        owners = (owner for place, owner in enumerate(self.owners) if place not in self.lines_alone)
        return sum(math.comb(size, 2) for size in Counter(owners).values())
