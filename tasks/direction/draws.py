"""Every draw that a direction study makes, from public facts alone.

Which scores, on whose units, at what cost.

Scores share epsilon equally. A unit is in one half, so charges on the halves compose in parallel:

    protect   ranks                                       HSIC                        IQR
    test      Laplace, estimation                         Laplace, estimation         propose-test-release, estimation
    train     distance to instability, train (one draw)   Laplace (Theorem 7), train  propose-test-release, train
    both      noisy regressions, train;                   Laplace at the larger       propose-test-release by units of
              then Laplace, estimation                    sensitivity, all            either half, all
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.direction import RANKS, DirectionStudy, Score
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Half, Norm, PrivacyCost, Scope, add, subtract
from causalveil.schemas.study import Variant
from causalveil.tasks.direction import sensitivity as direction_sensitivity
from causalveil.tasks.direction.sensitivity import useful_distance
from causalveil.tasks.privacy.gaussian import divide
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, Slot, vector_mechanism
from causalveil.tasks.privacy.special_mechanisms import ProposeTestRelease, StableRelease

# Digits of a share; the last share takes what is left, so that shares add up exactly.
DIGITS = 9
# Two logarithms of one bin are at most its width apart, but for rounding, which is charged for each.
ROUNDING = 1e-12
# Each vector of residuals and the variable that it is compared with: x to y first, then y to x.
BESIDE = {"residual_y": "x", "residual_x": "y"}
VECTORS = (*BESIDE.values(), *BESIDE)
ScoreMechanism = Laplace | ProposeTestRelease | StableRelease
Bound = Callable[[int, int], float]
"""A sensitivity as a function of the numbers of training and test units."""

_TEST_FORMULAS = {
    Variant.ours: {Score.spearman: "6/(m + 1)", Score.kendall: "4/m", Score.hsic: "(3/2) m/(m - 1)^2"},
    Variant.paper: {Score.spearman: "30/m", Score.kendall: "4/m", Score.hsic: "(12 m - 11)/(m - 1)^2"},
}
_TRAIN_FORMULAS = {
    Variant.ours: "(m/(m - 1))^2 min(1/4, L D/2)",
    Variant.paper: "32 L sqrt(m) D",
}


@dataclass(frozen=True)
class Draw:
    """One draw: its slot, the scores that it answers, its mechanism.

    A draw of IQR also has the vectors whose ranges it reads.
    """

    slot: Slot
    scores: tuple[Score, ...]
    mechanism: ScoreMechanism
    vectors: tuple[str, ...] = ()

    @property
    def bin(self) -> float:
        """Width of the bins of log IQR; the number of units must be known."""
        if self.mechanism.sensitivity.value is None or not self.vectors:
            raise ValueError("the width of the bins needs a draw of IQR and the number of units")
        return self.mechanism.sensitivity.value / len(self.vectors) - ROUNDING

    @property
    def cap(self) -> int:
        """The largest distance that a test needs to know of; 0 without a test."""
        if isinstance(self.mechanism, Laplace):
            return 0
        return useful_distance(self.mechanism.threshold, self.mechanism.test_scale)


@dataclass(frozen=True)
class Fit:
    """The release of one regression's weights; ``cause`` is the column that predicts."""

    slot: Slot
    cause: int
    mechanism: Mechanism


def draws(study: DirectionStudy, sizes: Sizes | None) -> tuple[Draw, ...]:
    """Return the draws on scores, in the order of the study's scores.

    Without sizes their sensitivities are formulas.
    """
    plan = _Plan(study, sizes)
    result: list[Draw] = []
    ranks = [score for score in study.estimator.scores if score in RANKS]
    for score in study.estimator.scores:
        if score is Score.iqr:
            result += plan.iqr()
        elif score is Score.hsic or Half.test in study.estimator.protect:
            result.append(plan.laplace(score))
        elif score is ranks[0]:
            cost = PrivacyCost(epsilon=add(*(plan.epsilon[s] for s in ranks)), delta=plan.delta_of_ranks)
            result.append(Draw(Slot("ranks", Scope.train), tuple(ranks), StableRelease(cost)))
    return tuple(result)


def fits(study: DirectionStudy, sizes: Sizes | None) -> tuple[Fit, ...]:
    """Return the releases of both regressions, or none.

    Both are released if ranks are to be released with both halves protected.
    """
    plan = _Plan(study, sizes)
    ranks = [score for score in study.estimator.scores if score in RANKS]
    if not ranks or len(study.estimator.protect) < 2:
        return ()
    request = PrivacyCost(epsilon=add(*(plan.epsilon[s] for s in ranks)), delta=plan.delta_of_ranks)
    names = ("regression_of_y", "regression_of_x")
    # Every training unit meets both. Without delta the two parts add up exactly.
    costs = (
        list(divide(request, dict.fromkeys(names, Decimal("0.5"))).values())
        if request.delta > 0
        else [PrivacyCost(epsilon=epsilon, delta=Decimal(0)) for epsilon in shares(request.epsilon, 2)]
    )
    bound = plan.sensitivity(
        lambda n, _: direction_sensitivity.weight_movement(n, study.estimator.penalty, study.estimator.variant),
        "4 (sqrt(p) + sqrt(1/2))/(n p^1.5)",
        Norm.l2,
    )
    return tuple(
        Fit(
            Slot(name, Scope.train),
            cause,
            vector_mechanism(bound, costs[cause]),
        )
        for cause, name in enumerate(names)
    )


def shares(total: Decimal, parts: int) -> list[Decimal]:
    """Return ``total`` in nearly equal parts that add up to it exactly; zeros of zero.

    Raises:
        StudyError: so many digits that the parts are no amounts.
    """
    each = decimal.Context(prec=DIGITS, rounding=decimal.ROUND_DOWN).divide(total, Decimal(parts))
    try:
        return [each] * (parts - 1) + [subtract(total, add(*[each] * (parts - 1)))]
    except decimal.Inexact:
        raise StudyError("epsilon or delta has too many digits to be shared among the scores") from None


@dataclass(frozen=True)
class _Plan:
    """A study, its sizes, and the shares of its budget."""

    study: DirectionStudy
    sizes: Sizes | None

    def __post_init__(self) -> None:
        """Refuse a test half that has no pairs of units."""
        if self.sizes is not None and self.sizes.estimation < 2:
            raise StudyError("a direction study needs at least two test units; lower 'train_fraction' or bring more")

    @property
    def epsilon(self) -> dict[Score, Decimal]:
        scores = self.study.estimator.scores
        return dict(zip(scores, shares(self.study.privacy.epsilon, len(scores)), strict=True))

    @property
    def delta_of_ranks(self) -> Decimal:
        return self._deltas()[0]

    @property
    def delta_of_iqr(self) -> Decimal:
        return self._deltas()[1]

    def _deltas(self) -> tuple[Decimal, Decimal]:
        """Delta for the test or the regressions of ranks, and for the IQR's test."""
        delta, estimator = self.study.privacy.delta, self.study.estimator
        ranks = bool(set(estimator.scores) & set(RANKS)) and Half.train in estimator.protect
        iqr = Score.iqr in estimator.scores
        if ranks and iqr:
            first, second = shares(delta, 2)
            return first, second
        return (delta, Decimal(0)) if ranks else (Decimal(0), delta)

    @property
    def scope(self) -> Scope:
        protect = set(self.study.estimator.protect)
        return Scope.all if len(protect) == 2 else (Scope.train if Half.train in protect else Scope.estimation)

    def sensitivity(self, bound: Bound, formula: str, norm: Norm = Norm.l1) -> Sensitivity:
        value = None if self.sizes is None else bound(self.sizes.train, self.sizes.estimation)
        return Sensitivity(value=value, norm=norm, formula=formula)

    def laplace(self, score: Score) -> Draw:
        """Return the draw of a rank score or of HSIC.

        Both values move by the sensitivity, so the pair, or the difference, by twice it.
        """
        estimator = self.study.estimator
        halves = {Half.test} if score in RANKS else set(estimator.protect)
        formulas = {
            Half.test: _TEST_FORMULAS[estimator.variant][score],
            Half.train: _TRAIN_FORMULAS[estimator.variant],
        }

        def bound(n: int, m: int) -> float:
            found = (
                [direction_sensitivity.score_sensitivity(score, m, estimator.variant)] if Half.test in halves else []
            )
            if Half.train in halves:
                bandwidth = estimator.kernel_of_residuals
                found.append(
                    direction_sensitivity.hsic_training_sensitivity(
                        n, m, estimator.penalty, bandwidth, estimator.variant
                    )
                )
            return 2 * max(found)

        text = ", ".join(formulas[half] for half in Half if half in halves)
        text = f"max({text})" if len(halves) > 1 else text
        # Ranks under both halves: the regressions are noisy already, so the draw concerns test units alone.
        scope = Scope.estimation if score in RANKS else self.scope
        cost = PrivacyCost(epsilon=self.epsilon[score], delta=Decimal(0))
        return Draw(Slot(str(score), scope), (score,), Laplace(self.sensitivity(bound, f"2 {text}"), cost))

    def iqr(self) -> list[Draw]:
        """Return the draws of IQR.

        Ours is one test of all vectors and one draw; the paper's are two tests and a draw for each vector.
        """
        estimator, cost = self.study.estimator, PrivacyCost(epsilon=self.epsilon[Score.iqr], delta=self.delta_of_iqr)
        moving = [name for name in VECTORS if Half.test in estimator.protect or name.startswith("residual")]
        if estimator.variant is Variant.ours:
            bare = ProposeTestRelease(Sensitivity(1.0, Norm.l1, "1"), cost)
            bound = self.sensitivity(
                lambda _, m: (
                    len(moving) * ((estimator.bin or direction_sensitivity.default_bin(m, bare.threshold)) + ROUNDING)
                ),
                f"{len(moving)} bins of log IQR",
            )
            mechanism = ProposeTestRelease(bound, cost)
            return [Draw(Slot("iqr", self.scope), (Score.iqr,), mechanism, tuple(moving))]
        epsilons, deltas = shares(cost.epsilon, len(moving)), shares(cost.delta, len(moving))
        bound = Sensitivity(1.0 + ROUNDING, Norm.l1, "1 bin of log IQR")
        return [
            Draw(
                Slot(f"iqr_{name}", self.scope),
                (Score.iqr,),
                ProposeTestRelease(bound, PrivacyCost(epsilon=epsilon, delta=delta), tests=2),
                (name,),
            )
            for name, epsilon, delta in zip(moving, epsilons, deltas, strict=True)
        ]
