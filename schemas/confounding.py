"""State facts on adjustment for confounding, and what an analyst assumes of it.

Methods and shortfalls are codes; their sentences are only here, so that panel, page and log agree. The analyst's
assumption about confounding bounds the bias where noise hides confounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, computed_field

from causalveil.schemas.columns import Finite
from causalveil.schemas.limits import Worded, capital, number
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import EstimatorSettings


class AdjustmentState(StrEnum):
    """State how far confounding was adjusted for."""

    randomised = "randomised"
    adjusted = "adjusted"
    partly = "partly"
    unadjusted = "unadjusted"


class AdjustmentMethod(StrEnum):
    """Name the method by which covariates were adjusted for."""

    regression = "regression"
    balancing = "balancing"
    weighting = "weighting"
    matching = "matching"
    private_matching = "private_matching"
    doubly_robust = "doubly_robust"


METHODS = {
    AdjustmentMethod.regression: "regression on noisy moments",
    AdjustmentMethod.balancing: "balancing weights",
    AdjustmentMethod.weighting: "inverse probability weights",
    AdjustmentMethod.matching: "matching on scores that are linear in the covariates",
    AdjustmentMethod.private_matching: "matching on private scores",
    AdjustmentMethod.doubly_robust: "augmented inverse probability weights",
}


# Methods whose intervals are narrower in a trial by what covariates explain.
PRECISE = (AdjustmentMethod.regression, AdjustmentMethod.doubly_robust, AdjustmentMethod.balancing)


class Shortfall(StrEnum):
    """Say why not all confounding was adjusted for."""

    not_asked = "not_asked"
    noise = "noise"
    penalty = "penalty"
    imbalance = "imbalance"
    private_scores = "private_scores"


SHORTFALLS = {
    Shortfall.not_asked: "the arms are compared as they are",
    Shortfall.noise: "the noise was too large for this many people and this budget",
    Shortfall.penalty: "the penalty and the noise of the propensity model leave confounding",
    Shortfall.imbalance: "covariates still differ between the weighted arms",
    Shortfall.private_scores: "noise on the scores makes matches of people who differ",
}


class PriorSource(StrEnum):
    """Say who chose the confounding that a study expects."""

    default = "default"
    declared = "declared"


class ConfoundingStatement(Worded):
    """State how confounding was adjusted for, and how far.

    Attributes:
        state: how far it was adjusted for.
        method: the method of adjustment; None: no adjustment.
        share: part of the variance of expected confounding that was adjusted for, less what curves that are not
            adjusted for may do. A statement tells the size of what is left, sqrt(1 - share): of a share of .97 it is
            .17.
        linear: whether covariates, and terms that the study declares, entered as they are alone: no curves or products
            were looked for.
        unseen: by how much curves and products that noise hides, or that were not looked for, may move the estimate, in
            outcome units; the interval counts what they usually do. None in a trial, where nothing was adjusted
            for or can curve, and of a model that the study states by its terms.
        prior: who chose the prior.
        left_out: covariates and levels that could not be adjusted for, which the share does not count.
        shortfall: the reason for incomplete adjustment.
        explained: of the outcome's variance within arms, what covariates are seen to explain, where treatment was
            randomised and they were adjusted for to gain precision.
    """

    state: AdjustmentState
    method: AdjustmentMethod | None = None
    share: Annotated[Finite, Field(ge=0, le=1)] | None = None
    linear: bool = False
    unseen: Annotated[Finite, Field(ge=0)] | None = None
    prior: PriorSource | None = None
    left_out: tuple[str, ...] = ()
    shortfall: Shortfall | None = None
    explained: Annotated[Finite, Field(ge=0, le=1)] | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The statement in words, which begin with a small letter and end without a full stop."""
        if self.state is AdjustmentState.randomised:
            return self._of_trial
        if self.state is AdjustmentState.unadjusted:
            noise = self.shortfall is Shortfall.noise
            return f"unadjusted: {SHORTFALLS[self.shortfall]}" if noise and self.shortfall else "unadjusted"
        how = "" if self.method is None else f"by {METHODS[self.method]}"
        if self.share is not None:
            # The share is of covariates that the noise lets be seen: ``tasks.estimate.adjust.interval``.
            by_others = " by the other covariates" if self.left_out else ""
            form = "linear " if self.linear else ""
            how = f"until {_size(math.sqrt(1 - self.share))} of possible {form}confounding{by_others} is left"
        return f"partly adjusted, {how}" if self.state is AdjustmentState.partly else f"adjusted {how}"

    @property
    def _of_trial(self) -> str:
        """Say of a trial by what covariates were adjusted for, if they were."""
        if self.method is None:
            return "not adjusted: treatment was randomised"
        gain = "for precision " if self.method in PRECISE else ""
        sentence = f"adjusted {gain}by {METHODS[self.method]}: treatment was randomised"
        if self.explained is None:
            return sentence
        return f"{sentence}, and covariates explain about {whole_percent(self.explained)} of the outcome's variance"

    @property
    def done(self) -> str:
        """State what was adjusted for."""
        if self.shortfall is Shortfall.not_asked:
            return f"Unadjusted: {SHORTFALLS[self.shortfall]}."
        return f"{capital(self.sentence)}."

    @property
    def unable(self) -> str:
        """State how many covariates or levels could not be adjusted for, and why; may be empty."""
        count = len(self.left_out)
        noun, how = ("covariate or level", "it varies") if count == 1 else ("covariates or levels", "they vary")
        return f"{count} {noun} could not be adjusted for: privacy noise hides how {how}." if count else ""

    @property
    def of_curves(self) -> str:
        """State the possible bias of curves and products that were not adjusted for; may be empty."""
        moves = "" if self.unseen is None else f"could move the estimate by {number(self.unseen, 2)}"
        if not self.linear:
            return moves and f"Curves and products that noise hides {moves}."
        if moves:
            return f"Curves and products were not looked for: as large as all expected confounding, they {moves}."
        return "Curves and products other than the declared terms were not looked for."

    def times(self, factor: float) -> ConfoundingStatement:
        """Return the statement of an estimate in other units."""
        return self if self.unseen is None else self.model_copy(update={"unseen": self.unseen * factor})

    @property
    def sentences(self) -> tuple[str, ...]:
        """State the adjustment, the reason for its limits, and what it leaves out."""
        why = SHORTFALLS[self.shortfall] if self.state is AdjustmentState.partly and self.shortfall else ""
        why = why and f"{capital(why)}."
        return tuple(filter(None, (self.done, why, self.of_curves, self.unable)))


class CovariateBalance(Frozen):
    """The standardised mean difference of a covariate, before and after weighting.

    In units of standard deviations within arms, treated minus controls, from released numbers.
    """

    covariate: str
    before: Annotated[Finite, Field(description="as released with noise")]
    after: Annotated[Finite, Field(description="what the weights leave, as far as noise lets it be seen")]
    noise_error: Annotated[Finite, Field(ge=0, description="standard error of the latter by noise")]


def _size(left: float) -> str:
    """Return a share in words.

    >>> _size(0.17), _size(0.004)
    ('about 17%', 'less than 1%')
    """
    return f"about {round(100 * left)}%" if left >= 0.005 else "less than 1%"


def whole_percent(share: float) -> str:
    """Return a share in whole percent; 0% and 100% only for exactly none and all."""
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
    """Return the statement of an adjustment by a method, partial where it has a shortfall."""
    state = AdjustmentState.adjusted if shortfall is None else AdjustmentState.partly
    return ConfoundingStatement(state=state, method=method, shortfall=shortfall, share=share)


def of_trial(method: AdjustmentMethod | None = None, explained: float | None = None) -> ConfoundingStatement:
    """Return the statement of a trial.

    Args:
        method: by which covariates were adjusted for; None: the arms are compared as they are.
        explained: of the outcome's variance within arms, what covariates are seen to explain, if that is known. Where
            it is nothing, nothing was adjusted for.
    """
    if method is None or (explained is not None and explained <= 0):
        return RANDOMISED
    share = None if explained is None else min(explained, 1.0)
    return RANDOMISED.model_copy(update={"method": method, "explained": share})


def declares_randomised(estimator: Mapping[str, Any]) -> bool:
    """Return whether a study declares a randomised treatment: a trial, or a known propensity.

    An allowance of 0 for confounding is an assumption about covariates, not about the assignment of treatment.
    """
    return bool(estimator.get("trial")) or (estimator.get("propensity") or {}).get("known") is not None


def of_share(
    share: float,
    *,
    linear: bool = False,
    default: bool = True,
    left_out: tuple[str, ...] = (),
    unseen: float | None = None,
) -> ConfoundingStatement:
    """Return the statement of a regression on noisy moments.

    Args:
        share: of the confounding that the prior expects, what was adjusted for, in [0, 1].
        linear: whether no squares, steps or products of covariates were looked for.
        default: whether that prior is the default one.
        left_out: covariates that could not be adjusted for.
        unseen: by how much curves that noise hides, or that were not looked for, may move the estimate.
    """
    if share <= 0:
        return TOO_NOISY.model_copy(update={"left_out": left_out})
    whole = share >= NEARLY_ALL
    return ConfoundingStatement(
        state=AdjustmentState.adjusted if whole else AdjustmentState.partly,
        method=AdjustmentMethod.regression,
        share=share,
        linear=linear,
        unseen=unseen,
        prior=PriorSource.default if default else PriorSource.declared,
        left_out=left_out,
        shortfall=None if whole else Shortfall.noise,
    )


class ConfoundingPrior(Frozen):
    """Confounding by the covariates that is expected before anything is released.

    The analyst's assumption about the index of the covariates that confounds: ``outcome_r2``, the share of the
    outcome's variance within arms that it explains; ``distance``, by how many of its standard deviations within arms
    the arms' means of it differ. What the releases show takes its place; what noise hides keeps it.
    """

    outcome_r2: Annotated[Finite, Field(ge=0, le=1)] = 0.5
    distance: Annotated[Finite, Field(ge=0, le=10)] = 1.0

    def bias(self, distance: float | None = None) -> float:
        """Return the allowed bias sqrt(outcome_r2) distance, in the outcome's SDs within arms.

        ``distance``: replaces the declared distance where a larger one remains.
        """
        return math.sqrt(self.outcome_r2) * (self.distance if distance is None else distance)


class ConfoundingSettings(EstimatorSettings):
    """Settings of an estimator whose interval allows for confounding.

    ``trial``: treatment was randomised, so that nothing confounds. ``confounding_prior``: the confounding that is
    possible otherwise.
    """

    trial: bool = False
    confounding_prior: ConfoundingPrior = ConfoundingPrior()

    def bias(self, distance: float | None = None) -> float:
        """Return the allowed bias in the outcome's SDs within arms; 0 in a trial.

        ``distance``: replaces the declared distance where a larger one remains.
        """
        return 0.0 if self.trial else self.confounding_prior.bias(distance)


def over_parts(parts: Sequence[tuple[ConfoundingStatement, float]]) -> ConfoundingStatement:
    """Return the statement on confounding of a weighted mean of estimates.

    Args:
        parts: at least one: of each estimate the statement, and its weight in the mean.
    """
    statements = [statement for statement, _ in parts]
    if all(statement.state is AdjustmentState.randomised for statement in statements):
        return _over_trials(parts)
    left_out = tuple(dict.fromkeys(name for statement in statements for name in statement.left_out))
    shares = [
        0.0 if statement.shortfall is Shortfall.noise and statement.share is None else statement.share
        for statement in statements
    ]
    if any(statement.share is not None for statement in statements) and None not in shares:
        total = math.fsum(weight for _, weight in parts)
        mean = math.fsum(share * weight / total for share, (_, weight) in zip(shares, parts, strict=True) if share)
        declared = any(statement.prior is PriorSource.declared for statement in statements)
        linear = any(statement.linear for statement in statements)
        # The same curves may confound all estimates, so their biases add up.
        hidden = [(statement.unseen, weight / total) for statement, weight in parts if statement.unseen is not None]
        unseen = math.fsum(size * weight for size, weight in hidden) if hidden else None
        return of_share(min(mean, 1.0), linear=linear, default=not declared, left_out=left_out, unseen=unseen)
    # The least adjusted estimate decides.
    worst = max(statements, key=lambda statement: list(AdjustmentState).index(statement.state))
    return worst.model_copy(update={"left_out": left_out})


def _over_trials(parts: Sequence[tuple[ConfoundingStatement, float]]) -> ConfoundingStatement:
    """Return the statement of trials: covariates were adjusted for if they were in any."""
    methods = [statement.method for statement, _ in parts if statement.method is not None]
    known = [(0.0 if statement.method is None else statement.explained, weight) for statement, weight in parts]
    total = math.fsum(weight for _, weight in parts)
    if not methods or total <= 0 or any(explained is None for explained, _ in known):
        return of_trial(methods[0] if methods else None)
    return of_trial(methods[0], math.fsum(explained * weight / total for explained, weight in known if explained))
