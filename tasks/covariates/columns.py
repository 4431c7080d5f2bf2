"""Which columns of the encoded covariates enter a weighting, from what the study declares."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from causalveil.schemas.study import CategoricalCovariate, EffectStudy
from causalveil.tasks.covariates.encoding import blocks, feature_names, scale
from causalveil.tasks.covariates.narrow_ranges import DeclaredRanges


@dataclass(frozen=True)
class Columns:
    """Which columns of x enter, from the declared covariates alone.

    Attributes:
        kept: positions of the columns that enter. The first level of a category is the one that others are compared
            with: all levels add up to a constant.
        names: of the kept columns.
        span: c, the largest entry of a column.
        curved: places within ``kept`` of numbers that have more than two values.
        ranges: of those of ``curved`` whose declared range is not from one whole number to the next; two values such as
            0 and 1 lie at the ends of theirs as they should.
        owners: of which covariate each kept column is; products are of columns of different covariates.
    """

    kept: tuple[int, ...]
    names: tuple[str, ...]
    span: float
    curved: tuple[int, ...]
    ranges: DeclaredRanges
    owners: tuple[int, ...]

    @classmethod
    def of(cls, study: EffectStudy) -> Columns:
        """The columns of a study."""
        kept: list[int] = []
        owners: list[int] = []
        curved: list[int] = []
        ranged: list[int] = []
        from_zero: list[bool] = []
        for owner, block in enumerate(blocks(study)):
            one, category = block.covariate, isinstance(block.covariate, CategoricalCovariate)
            if not isinstance(one, CategoricalCovariate) and one.codes is None:
                curved.append(len(kept))
                if one.width != 1 or not one.lower.is_integer():
                    ranged.append(len(kept))
                    from_zero.append(one.lower == 0)
            # Of a category all levels but the first, of a number the indicator of what is missing.
            columns = range(1 if category else 0, len(block.features))
            kept += [block.start + offset for offset in columns]
            owners += [owner] * len(columns)
        names = feature_names(study)
        return cls(
            kept=tuple(kept),
            names=tuple(names[place] for place in kept),
            span=scale(study),
            curved=tuple(curved),
            ranges=DeclaredRanges(tuple(ranged), tuple(names[kept[place]] for place in ranged), tuple(from_zero)),
            owners=tuple(owners),
        )

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of places within ``kept`` that have a product."""
        return [(i, j) for i, j in combinations(range(len(self.kept)), 2) if self.owners[i] != self.owners[j]]
