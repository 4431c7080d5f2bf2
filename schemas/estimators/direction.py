"""A study of which of two variables causes the other."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from causalveil.schemas.columns import Bounds, Column, Finite, Holds, Name
from causalveil.schemas.privacy import Frozen, Half, Level
from causalveil.schemas.study import EstimatorSettings, Study, Variant


class Score(StrEnum):
    """The measure of how residuals depend on the variable that predicts.

    Smaller is more independent.
    """

    spearman = "spearman"
    kendall = "kendall"
    hsic = "hsic"
    iqr = "iqr"


RANKS = (Score.spearman, Score.kendall)


class Favours(StrEnum):
    """The direction that a score or the verdict favours."""

    x_to_y = "x_to_y"
    y_to_x = "y_to_x"


class Releases(StrEnum):
    """One draw on the difference of a score's two values, or one on each of the two."""

    difference = "difference"
    scores = "scores"


class Variable(Bounds):
    """One of the two variables: a number with declared bounds."""

    name: Name


class Pair(Frozen):
    """The two variables."""

    x: Variable
    y: Variable


def _once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) != len(values):
        raise ValueError("one of them stands twice")
    return values


Bandwidth = Annotated[Finite, Field(ge=0.02, le=10)]


class DirectionEstimator(EstimatorSettings):
    """Additive noise models with private scores (Kusner et al. 2016).

    ``bandwidth``: of the Gaussian kernels of the regressions and of HSIC, on variables scaled to [-1, 1];
    ``residual_bandwidth``: of HSIC's kernel on residuals, the same if it is not given. ``bin``: width of the bins
    of log IQR that propose-test-release tests, and how far the released logarithm may move; None lets the number
    of units and the budget decide. Every one of these is public: none may be chosen by looking at the data.
    """

    name: Literal["direction"]
    scores: Annotated[tuple[Score, ...], Field(min_length=1), AfterValidator(_once)] = (Score.hsic,)
    protect: Annotated[tuple[Half, ...], Field(min_length=1), AfterValidator(_once)] = (Half.train, Half.test)
    release: Releases = Releases.difference
    penalty: Annotated[Finite, Field(ge=1e-5, le=1)] = 0.01
    bandwidth: Bandwidth = 0.2
    residual_bandwidth: Bandwidth | None = None
    bin: Annotated[Finite, Field(ge=0.01, le=10)] | None = None
    train_fraction: Annotated[Finite, Field(gt=0, lt=1)] = 0.5
    variant: Variant = Variant.ours

    @property
    def kernel_of_residuals(self) -> float:
        """The bandwidth of HSIC's kernel on residuals."""
        return self.bandwidth if self.residual_bandwidth is None else self.residual_bandwidth


class DirectionStudy(Study):
    """A study of whether x causes y or y causes x.

    It assumes that one of them does, and that nothing else causes both.
    """

    kind: Literal["direction"]
    pair: Pair
    estimator: DirectionEstimator

    @model_validator(mode="after")
    def _columns_are_distinct(self) -> Self:
        columns = [*self.columns, *([self.data.blocks] if self.data.blocks is not None else [])]
        if len(set(columns)) != len(columns):
            raise ValueError("a column has two roles; unit, x, y and blocks are four columns")
        return self

    @model_validator(mode="after")
    def _level_is_sample(self) -> Self:
        if self.privacy.level is not Level.sample:
            raise ValueError("a direction study protects whole rows: 'level: sample', and 'protect' names the halves")
        return self

    @model_validator(mode="after")
    def _delta_is_spent(self) -> Self:
        scores, protect = set(self.estimator.scores), set(self.estimator.protect)
        # Ranks: a test if the training half alone is protected; noisy regressions, which can use delta, if both are.
        needed = Score.iqr in scores or (protect == {Half.train} and bool(scores & set(RANKS)))
        usable = needed or (len(protect) == 2 and bool(scores & set(RANKS)))
        if needed and not 0 < self.privacy.delta < 0.5:
            raise ValueError("a score that propose-test-release answers needs 'delta' above 0 and below 0.5")
        if not usable and self.privacy.delta != 0:
            raise ValueError("no score of this study spends 'delta'; declare delta: 0")
        return self

    @model_validator(mode="after")
    def _paper_is_provable(self) -> Self:
        if self.estimator.variant is Variant.paper:
            if len(self.estimator.protect) != 1:
                raise ValueError("variant 'paper' protects one half: 'protect: [test]' or 'protect: [train]'")
            if self.estimator.release is not Releases.scores:
                raise ValueError("variant 'paper' releases both scores: 'release: scores'")
            if self.estimator.bin not in (None, 1.0):
                raise ValueError("variant 'paper' has bins of width 1")
        return self

    @property
    def roles(self) -> dict[str, Column]:
        """The unit and two numbers without nulls."""
        number = Column(holds=Holds.number)
        return {self.data.unit: Column(holds=Holds.unit), self.pair.x.name: number, self.pair.y.name: number}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the study reads: unit, x, y."""
        return (self.data.unit, self.pair.x.name, self.pair.y.name)

    @property
    def release_kind(self) -> str:
        """A direction is no effect."""
        return "direction"

    @property
    def question(self) -> str:
        """The question in words."""
        return f"{self.pair.x.name} or {self.pair.y.name} first"

    @property
    def training_share(self) -> float:
        """The declared share: regressions are fitted on one half and judged on the other."""
        return self.estimator.train_fraction

    @property
    def unbounded(self) -> tuple[Half, ...]:
        """The halves that are not protected."""
        return tuple(half for half in Half if half not in self.estimator.protect)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """The halves that are not protected, in words."""
        return tuple(
            f"units of the {'training' if half is Half.train else 'test'} half: no privacy bound holds for them, and "
            "chance decides in each run who they are"
            for half in self.unbounded
        )
