"""Which columns of a row x encode which covariate, from what the study declares.

With p covariates x = (z, 1) / sqrt(p + 1): the blocks of z in the order of the covariates' names, the intercept last.
``tasks/enclave/normalise.py`` says what stands in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from causalveil.schemas.study import CategoricalCovariate, Covariate, EffectStudy

# ||x||^2 <= (p+1) (s (1+2^-53))^2 < 1 with s = HAIR / sqrt(p+1), and sums of up to 2^12 rounded squares
# stay below 1.
HAIR = 1.0 - 2.0**-40


@dataclass(frozen=True)
class Block:
    """The columns of x that encode one covariate."""

    name: str
    covariate: Covariate
    start: int
    features: tuple[str, ...]


def blocks(study: EffectStudy) -> tuple[Block, ...]:
    """The covariates in order of their names, each with its columns of x."""
    result: list[Block] = []
    start = 0
    for name, covariate in sorted(study.covariates.items()):
        features = _features(name, covariate, indicated=study.indicated(name))
        result.append(Block(name, covariate, start, features))
        start += len(features)
    return tuple(result)


def feature_names(study: EffectStudy) -> tuple[str, ...]:
    """Names of the d columns of x, the intercept last."""
    return (*(feature for block in blocks(study) for feature in block.features), "(intercept)")


def dimension(study: EffectStudy) -> int:
    """d, the number of columns of x."""
    return len(feature_names(study))


def scale(study: EffectStudy) -> float:
    """s <= 1 / sqrt(p + 1): every entry of x is an encoded value times s, and the intercept is s."""
    return HAIR / math.sqrt(len(study.covariates) + 1)


def _features(name: str, covariate: Covariate, *, indicated: bool) -> tuple[str, ...]:
    extra = (f"{name} (missing)",) if indicated else ()
    if isinstance(covariate, CategoricalCovariate):
        return (*(f"{name}={level}" for level in covariate.slots), *extra)
    return (name, *extra)
