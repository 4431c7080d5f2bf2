"""Facts on how a run adjusted for confounding; the sentences of panel and report are made from these alone."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Finite


class AdjustmentState(StrEnum):
    """State how far confounding was adjusted for."""

    randomised = "randomised"
    adjusted = "adjusted"
    partly = "partly"
    unadjusted = "unadjusted"


class AdjustmentMethod(StrEnum):
    """Name the method by which covariates were adjusted for."""

    regression = "regression on noisy moments"
    balancing = "balancing weights"
    weighting = "inverse probability weights"
    matching = "matching on scores that are linear in the covariates"
    private_matching = "matching on private scores"


class Shortfall(StrEnum):
    """Say why not all confounding was adjusted for."""

    not_asked = "the arms are compared as they are"
    noise = "the noise was too large for this many people and this budget"
    penalty = "the penalty and the noise of the propensity model leave confounding"
    imbalance = "covariates still differ between the weighted arms"
    private_scores = "noise on the scores makes matches of people who differ"


class PriorSource(StrEnum):
    """Say who chose the confounding that a study expects."""

    default = "default"
    declared = "declared"


class ConfoundingStatement(Frozen):
    """State what was done about confounding, and how well.

    Attributes:
        state: how far it was adjusted for.
        method: by what; None where nothing was adjusted for.
        share: of the confounding that the prior expects, in (squared) size, what was adjusted for.
        linear: whether covariates entered as they are alone: squares, steps and products were not looked for.
        prior: who chose that prior.
        left_out: covariates that could not be adjusted for.
        shortfall: why not all was adjusted for.
    """

    state: AdjustmentState
    method: AdjustmentMethod | None = None
    share: Annotated[Finite, Field(ge=0, le=1)] | None = None
    linear: bool = False
    prior: PriorSource | None = None
    left_out: tuple[str, ...] = ()
    shortfall: Shortfall | None = None

    @property
    def words(self) -> str:
        """Say it in a clause, as ``details["adjustment"]`` has it."""
        if self.state is AdjustmentState.randomised:
            return "not adjusted: treatment was randomised"
        if self.state is AdjustmentState.unadjusted:
            noise = self.shortfall is Shortfall.noise
            return f"unadjusted: {self.shortfall}" if noise else "unadjusted"
        how = f"by {self.method}"
        if self.share is not None:
            how = f"for {whole_percent(self.share)} of possible {'linear ' if self.linear else ''}confounding"
        return f"partly adjusted, {how}" if self.state is AdjustmentState.partly else f"adjusted {how}"

    @property
    def done(self) -> str:
        """Say to a person what was done."""
        if self.shortfall is Shortfall.not_asked:
            return f"Unadjusted: {self.shortfall}."
        return f"{self.words[:1].upper()}{self.words[1:]}."

    @property
    def unable(self) -> str:
        """Say for how many covariates nothing could be done; empty if for none."""
        count = len(self.left_out)
        return f"{count} covariate{'s' if count > 1 else ''} could not be adjusted for." if count else ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say what was done, why no more, and what could not be."""
        partly = self.state is AdjustmentState.partly and self.shortfall is not None
        why = f"{self.shortfall[:1].upper()}{self.shortfall[1:]}." if partly and self.shortfall else ""
        return tuple(one for one in (self.done, why, self.unable) if one)


def whole_percent(share: float) -> str:
    """Return a share in whole percent; what is neither nothing nor all does not read so."""
    digits = round(100 * share)
    if digits == 100 and share < 1:
        return "more than 99%"
    return "less than 1%" if digits == 0 and share > 0 else f"{digits}%"


# More of the confounding that is expected is nearly all of it: words alone.
NEARLY_ALL = 0.9
RANDOMISED = ConfoundingStatement(state=AdjustmentState.randomised)
AS_THEY_ARE = ConfoundingStatement(state=AdjustmentState.unadjusted, shortfall=Shortfall.not_asked)
TOO_NOISY = ConfoundingStatement(state=AdjustmentState.unadjusted, shortfall=Shortfall.noise)


def by(
    method: AdjustmentMethod, shortfall: Shortfall | None = None, share: float | None = None
) -> ConfoundingStatement:
    """Return that covariates were adjusted for by a method: in part if something falls short."""
    state = AdjustmentState.adjusted if shortfall is None else AdjustmentState.partly
    return ConfoundingStatement(state=state, method=method, shortfall=shortfall, share=share)


def of_share(
    share: float, *, linear: bool = False, default: bool = True, left_out: tuple[str, ...] = ()
) -> ConfoundingStatement:
    """Return how far a regression on noisy moments adjusts.

    Args:
        share: of the confounding that the prior expects, what was adjusted for, in [0, 1].
        linear: whether no squares, steps or products of covariates were looked for.
        default: whether that prior is the default one.
        left_out: covariates that could not be adjusted for.
    """
    if share <= 0:
        return TOO_NOISY.model_copy(update={"left_out": left_out})
    whole = share >= NEARLY_ALL
    return ConfoundingStatement(
        state=AdjustmentState.adjusted if whole else AdjustmentState.partly,
        method=AdjustmentMethod.regression,
        share=share,
        linear=linear,
        prior=PriorSource.default if default else PriorSource.declared,
        left_out=left_out,
        shortfall=None if whole else Shortfall.noise,
    )
