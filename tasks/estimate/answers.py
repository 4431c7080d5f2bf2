"""Turn answers with the parts of their error into intervals, ratios and calibrated answers.

An answer is a value with its parts of error: sampling, noise, bias. Intervals hold one by one, or all together. What
they cover is named here too.

Ratios of two arms' risks and odds ratios come from released arm means, at no cost. Fieller's interval of A/B holds
every theta at which A - theta B is not clearly apart from 0. It needs no division, so it holds at any size of the
noise, and has no upper end where B itself is not clearly apart from 0. The odds ratio is such a ratio of A = p1 (1 -
p0) and B = p0 (1 - p1), whose covariance follows from that of p1 and p0 to first order (``docs/proofs/questions.md``,
section 9).

Negative controls calibrate (Schuemie, Hripcsak, Ryan, Madigan and Suchard 2018, PNAS 115:2571): an outcome that
treatment cannot change has the effect 0, and what is found there beyond its own error is systematic. Systematic error
is taken to be normal, with mean and deviation by maximum likelihood; intervals of the other outcomes are moved by the
one and widened by the other, in standard deviations of an outcome within arms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from causalveil.schemas.answers import Answer, Calibration, Limits, MeasureAnswer, State
from causalveil.schemas.confounding import ConfoundingSettings, ConfoundingStatement, declares_randomised, over_parts
from causalveil.schemas.estimators.balancing import BalancingEstimator
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.privacy import Level
from causalveil.schemas.release import ClustersStatement
from causalveil.schemas.table import ALL_UNITS, EffectMeasure, EffectStudy, OutcomeRole, TableStudy
from causalveil.tasks.estimate.clusters import ClusteredVariance, ClusteredVariances, clusters_told
from causalveil.tasks.estimate.interval import Findings, Noise, around, laplace_tails
from causalveil.tasks.machine.arrays import FloatArray


@dataclass(frozen=True)
class Risks:
    """Two arms' shares of an outcome of two values, with the covariance of what they are off by.

    Attributes:
        arms: of the arm and of the reference, each in [0, 1].
        covariance: of both, sampling and noise together, shape (2, 2).
    """

    arms: tuple[float, float]
    covariance: FloatArray

    def _parts(self, measure: EffectMeasure) -> tuple[float, float, FloatArray]:
        """Return numerator and denominator, and their derivatives by the two risks, shape (2, 2)."""
        one, other = self.arms
        if measure is EffectMeasure.ratio:
            return one, other, np.eye(2)
        derivatives = np.array([[1 - other, -one], [-other, 1 - one]])
        return one * (1 - other), other * (1 - one), derivatives

    def answer(self, measure: EffectMeasure, confidence: float) -> MeasureAnswer:
        """Return the measure with its interval; no estimate where the denominator is 0."""
        from scipy.special import ndtri

        top, bottom, derivatives = self._parts(measure)
        covariance = derivatives @ self.covariance @ derivatives.T
        lower, upper = fieller(top, bottom, covariance, float(ndtri((1 + confidence) / 2)))
        return MeasureAnswer(
            measure=measure,
            estimate=top / bottom if bottom > 0 and math.isfinite(top / bottom) else None,
            lower=lower,
            upper=upper,
        )


def fieller(top: float, bottom: float, covariance: FloatArray, quantile: float) -> tuple[float, float | None]:
    """Return the ends of Fieller's interval of a ratio of two numbers that are at least 0.

    None says that there is no upper end.

    Args:
        top, bottom: the estimates.
        covariance: of both, shape (2, 2).
        quantile: of a normal error.

    >>> fieller(2.0, 1.0, np.zeros((2, 2)), 1.96)
    (2.0, 2.0)
    """
    square = quantile**2
    a = bottom**2 - square * float(covariance[1, 1])
    b = top * bottom - square * float(covariance[0, 1])
    c = top**2 - square * float(covariance[0, 0])
    root = b * b - a * c
    if a > 0:
        # The estimate itself is inside, so both roots are real but for rounding.
        spread = math.sqrt(max(root, 0.0))
        upper = (b + spread) / a
        return max((b - spread) / a, 0.0), upper if math.isfinite(upper) else None
    if root <= 0 or a == 0:
        return 0.0, None
    # All but what lies between the roots; where 0 lies between them, that is from the larger root on.
    smaller, larger = sorted(((b - math.sqrt(root)) / a, (b + math.sqrt(root)) / a))
    return (larger if smaller < 0 < larger and math.isfinite(larger) else 0.0), None


def over_all(parts: Iterable[tuple[Risks, float]], count_error: float) -> Risks | None:
    """Return the risks over all subgroups, weighted by their noisy sizes.

    None where there is no size.

    Args:
        parts: each subgroup's risks and its size.
        count_error: standard deviation of the noise on each size.
    """
    found = list(parts)
    total = math.fsum(size for _, size in found)
    if total <= 0:
        return None
    shares = np.array([size / total for _, size in found])
    risks = np.array([one.arms for one, _ in found])
    means = shares @ risks
    covariance = sum(
        (share**2 * one.covariance for share, (one, _) in zip(shares, found, strict=True)), np.zeros((2, 2))
    )
    apart = (risks - means) * count_error / total
    return Risks((float(means[0]), float(means[1])), covariance + apart.T @ apart)


# Draws beyond which a tail is not read off them.
FEW = 1.5


@dataclass(frozen=True)
class Part:
    """An estimate of one outcome, subgroup and arm, in outcome units.

    Attributes:
        outcome: its place in the study.
        group: the subgroup's label.
        arm: the arm's name.
        answered: whether noise leaves something to say.
        value: the estimate.
        sampling: variance of sampling.
        noise: variance of noise, in models and in the answer itself.
        bias: the largest that is allowed for.
        spread: standard deviation of the outcome within arms.
        confounding: what was done about confounding; None where nothing is answered.
        mixing: None where noise is normal; else that of ``Noise``, 1 for Laplace noise.
        averaged: whether noise is a mean of several, whose law lies between that and a normal one.
        hidden: why nothing is answered, where that is so.
        error: draws of what models leave possible, of mean 0, where their law is known; their variance is in ``noise``.
        adjusted: of the confounding that the prior expects, what the data took off; None: nothing was adjusted for.
        risks: of both arms, where ratios are asked for and the outcome has two values.
        clustered: what is possible of ``sampling``, its mean, where units of one cluster are correlated.
        covariances: of sampling with the answer on each other outcome of the subgroup, and the deviation of its noise;
            None where they are not released.
    """

    outcome: int
    group: str
    arm: str
    answered: bool
    value: float
    sampling: float
    noise: float
    bias: float
    spread: float
    confounding: ConfoundingStatement | None
    mixing: float | None = None
    averaged: bool = False
    hidden: Code = Code.noise_hides_arm
    risks: Risks | None = None
    error: FloatArray | None = None
    adjusted: float | None = None
    clustered: ClusteredVariance | None = None
    covariances: Mapping[int, tuple[float, float]] | None = None

    @property
    def models(self) -> float:
        """Variance of ``error``."""
        return 0.0 if self.error is None else float(self.error.var())


def over_groups(
    parts: Sequence[Part],
    counts: Sequence[float],
    count_error: float,
    units: float,
    width: float,
    clustered: ClusteredVariance | None = None,
) -> Part:
    """Return the answer over all subgroups, from theirs: effects weighted by size.

    Sizes are noisy, and an error of a size moves the answer by how far that subgroup's effect lies from all others'.
    Subgroups that noise hides are left out, and as much as they can matter is allowed for.

    Args:
        parts: of one outcome and arm, by subgroup.
        counts: noisy number of units of each that the estimand is over.
        count_error: standard deviation of the noise on each.
        units: number of units of all subgroups that the estimand is over.
        width: of the outcome's declared range.
        clustered: what is possible of the sampling variance, where subgroups share clusters.
    """
    first = parts[0]
    told = [(part, max(count, 0.0)) for part, count in zip(parts, counts, strict=True) if part.answered]
    total = math.fsum(count for _, count in told)
    hidden = [count for part, count in zip(parts, counts, strict=True) if not part.answered]
    most = math.fsum(max(count, 0.0) + 3 * count_error for count in hidden) / max(units, 1.0)
    if not told or total <= 0 or most >= 1:
        bare = replace(first, group=ALL_UNITS, answered=False, risks=None, error=None, clustered=None)
        return replace(bare, value=0.0, sampling=0.0, noise=0.0, bias=0.0)
    shares = [(part, count / total) for part, count in told]
    value = math.fsum(share * part.value for part, share in shares)
    sizes = math.fsum((count_error / total * (part.value - value)) ** 2 for part, _ in shares)
    stated = [(part.confounding, share) for part, share in shares if part.confounding is not None]
    error = _error_over(shares)
    own = math.fsum(share**2 * (part.noise - part.models) for part, share in shares)
    # What a subgroup that noise hides would do to a ratio has no bound.
    known = [(part.risks, count) for part, count in told if part.risks is not None]
    risks = over_all(known, count_error) if len(known) == len(parts) else None
    return Part(
        outcome=first.outcome,
        group=ALL_UNITS,
        arm=first.arm,
        answered=True,
        value=value,
        sampling=math.fsum(share**2 * part.sampling for part, share in shares)
        if clustered is None
        else clustered.variance,
        noise=own + sizes + (0.0 if error is None else float(error.var())),
        bias=math.fsum(share * part.bias for part, share in shares) + most * (width + abs(value)),
        spread=math.sqrt(math.fsum(share * part.spread**2 for part, share in shares)),
        confounding=over_parts(stated) if stated else None,
        mixing=first.mixing,
        averaged=True,
        risks=risks,
        error=error,
        clustered=clustered,
    )


def _error_over(shares: Sequence[tuple[Part, float]]) -> FloatArray | None:
    """Return draws of what models leave possible of a mean over subgroups.

    None where their laws are not known.

    As far as the data took confounding off, what is left is noise, which subgroups do not share. What the prior leaves
    (of its variance 1 - ``adjusted``) is shrinkage of slopes and weights that would be common to all of them.
    """
    known = [
        (part.error * share, 1 - (1.0 if part.adjusted is None else part.adjusted))
        for part, share in shares
        if part.error is not None
    ]
    if len(known) < len(shares):
        return None
    count = max(len(one) for one, _ in known)
    total = np.sum([np.resize(one, count) for one, _ in known], axis=0)
    common = math.fsum(float(one.std()) * math.sqrt(left) for one, left in known) ** 2
    own = math.fsum(float(one.var()) * (1 - left) for one, left in known)
    found: FloatArray = (total - total.mean()) * math.sqrt((common + own) / max(float(total.var()), 1e-300))
    return found


def limits(part: Part, width: float, error: float) -> tuple[float, Limits]:
    """Return the estimate and the interval that misses with probability ``error``.

    The interval is the whole range if noise hides all.
    """
    if not part.answered:
        return 0.0, Limits(lower=-width, upper=width)
    if part.error is not None or part.clustered is not None:
        return _by_law(part, np.zeros(1) if part.error is None else part.error, width, error)
    laws = [Noise(math.sqrt(part.noise))] if part.averaged or part.mixing is None else []
    if part.mixing is not None:
        laws.append(Noise(math.sqrt(part.noise / (2 * part.mixing)), part.mixing))
    # The wider interval holds for every law between them.
    half = max(law.critical(error, part.bias, part.sampling, 1.0) for law in laws)
    value, interval = around(part.value, half, 1 - error, (-width, width))
    return value, Limits(lower=interval.lower, upper=interval.upper)


def mixture_quantile(
    draws: FloatArray,
    deviation: float | FloatArray,
    tail: float,
    laplace: float = 0.0,
    shares: FloatArray | None = None,
) -> float:
    """Return the upper quantile of a draw plus a normal number and Laplace noise.

    It is exceeded with probability ``tail``, below one half. A tail that fewer than FEW draws show is taken to fall at
    least as slowly as a normal one from there on; of a single draw no tail is lacking.

    Args:
        draws: shape (K,).
        deviation: of the normal number, or several that are possible.
        tail: the probability.
        laplace: scale of the noise; 0 where the deviation is one of several.
        shares: how probable each deviation is.
    """
    from scipy.special import ndtr, ndtri

    wide = 40 * math.hypot(float(np.max(deviation)), math.sqrt(2) * laplace)

    def beyond(q: float) -> float:
        far = q - draws
        if shares is not None:
            return float((ndtr(-far[:, None] / deviation) @ shares).mean())
        if laplace > 0:
            return float(laplace_tails(far, np.full(len(draws), deviation), laplace).mean())
        return float(ndtr(-far / deviation).mean())

    def at(tail: float) -> float:
        return float(brentq(lambda q: beyond(q) - tail, float(draws.min()) - wide, float(draws.max()) + wide))

    shown = max(tail, FEW / len(draws)) if len(draws) > 1 else tail
    return at(tail) if shown == tail else max(at(tail), at(shown) * float(ndtri(tail) / ndtri(shown)))


def _by_law(part: Part, draws: FloatArray, width: float, error: float) -> tuple[float, Limits]:
    """Return the same where the law of the error is known: draws, with sampling and noise beside them."""
    noise = max(part.noise - part.models, 0.0)
    laws: list[tuple[float | FloatArray, float]] = []
    if part.clustered is not None:
        low, high = (
            mixture_quantile(
                sign * draws, np.sqrt(part.clustered.variances + noise), error / 2, shares=part.clustered.shares
            )
            + part.bias
            for sign in (1, -1)
        )
        return _within(part.value, low, high, width)
    if part.averaged or part.mixing is None:
        laws.append((math.sqrt(max(part.sampling + noise, 1e-300)), 0.0))
    if part.mixing is not None:
        laws.append((math.sqrt(max(part.sampling, 1e-300)), math.sqrt(noise / 2)))
    low, high = (
        max(mixture_quantile(sign * draws, deviation, error / 2, laplace) for deviation, laplace in laws) + part.bias
        for sign in (1, -1)
    )
    return _within(part.value, low, high, width)


def _within(value: float, low: float, high: float, width: float) -> tuple[float, Limits]:
    """Return an estimate and its interval, cut to the range that an effect has."""
    ends = Limits(lower=min(max(value - low, -width), width), upper=max(min(value + high, width), -width))
    return min(max(value, -width), width), ends


def told_of(study: TableStudy, parts: Sequence[Part], names: Sequence[str] | None = None) -> ClustersStatement | None:
    """Return the correlation within clusters of each answer; None without clusters.

    ``names``: of the questions, where they are not those of outcomes.
    """
    if study.clusters is None:
        return None
    names = [one.name for one in study.outcomes] if names is None else names
    return clusters_told(
        study.clusters,
        (
            ({"outcome": names[one.outcome], "group": one.group, "arm": one.arm}, one.clustered)
            for one in parts
            if one.clustered is not None
        ),
    )


def table(study: EffectStudy, parts: Sequence[Part]) -> tuple[Answer, ...]:
    """Return the rows of the release, each with its own and a simultaneous interval.

    The simultaneous intervals hold all together (Bonferroni).
    """
    error, reference = 1 - study.confidence, study.arm_names[0]
    many = len(parts) + len(getattr(study, "contrasts", ()))
    rows = []
    for part in parts:
        outcome = study.outcomes[part.outcome]
        value, single = limits(part, outcome.width, error)
        _, together = limits(part, outcome.width, error / many)
        rows.append(
            Answer(
                outcome=outcome.name,
                role=outcome.role,
                group=part.group,
                arm=part.arm,
                reference=reference,
                state=State.answered if part.answered else State.unresolved,
                reason=None if part.answered else limit(part.hidden),
                confounding=part.confounding if part.answered else None,
                estimate=value,
                interval=single,
                simultaneous=together,
                noise_error=math.sqrt(part.noise) if part.answered else outcome.width,
                sampling_error=math.sqrt(part.sampling),
                bias=part.bias,
                spread=part.spread,
                measures=_measures(study, part),
            )
        )
    return tuple(rows)


def _measures(study: EffectStudy, part: Part) -> tuple[MeasureAnswer, ...]:
    """The ratios that the study asks for."""
    if not part.answered or part.risks is None:
        return ()
    return tuple(part.risks.answer(measure, study.confidence) for measure in study.ratios)


def with_everybody(
    study: EffectStudy,
    parts: Sequence[Part],
    counts: Mapping[str, Sequence[float]],
    count_error: float,
    units: float,
    clustered: ClusteredVariances | None = None,
) -> list[Part]:
    """Return all answers in the order of the table.

    By outcome, the answer over all subgroups comes first, then theirs.

    Args:
        study: the study.
        parts: by subgroup.
        counts: by arm, noisy number of units of each subgroup that the estimand is over.
        count_error: standard deviation of the noise on each.
        units: number of units that the estimand is over, of all subgroups.
        clustered: of a study with clusters, what is possible of each sampling variance, in half ranges.
    """
    rows: list[Part] = []
    for index, outcome in enumerate(study.outcomes):
        for place, arm in enumerate(study.arm_names[1:]):
            own = [part for part in parts if part.outcome == index and part.arm == arm]
            if study.subgroups is not None:
                every = None if clustered is None else clustered[index][-1][place]
                every = None if every is None else every.times((outcome.width / 2) ** 2)
                rows.append(over_groups(own, counts[arm], count_error, units, outcome.width, every))
            rows += own
    return rows


def told_of_errors(study: EffectStudy, found: Findings) -> dict[str, float | int | str | bool]:
    """Return the details of a table of one row: its errors.

    Numbers of units are among them where not all are eligible.
    """
    own, counted = found.answers[0], dict(found.details) if not study.known_units else {}
    errors = {"noise_standard_error": own.noise_error or 0.0, "sampling_standard_error": own.sampling_error or 0.0}
    return {**counted, **errors}


def with_statement(found: Findings, done: ConfoundingStatement, **told: Any) -> Findings:
    """Return a table of one row that says what was done about confounding.

    It does so whether or not noise hides the answer.
    """
    (own,) = found.answers
    told |= {"reason": None, "confounding": done}
    return replace(found, answers=(own.model_copy(update=told),))


# Fewer controls say too little of how systematic error spreads; the paper's authors ask for thirty or more.
ENOUGH = 5
# A control's spread is taken to be at least this part of its declared width.
LEAST_SPREAD = 1e-3


@dataclass(frozen=True)
class Measured:
    """A negative control's estimate, its standard error and the scale of both, in its units."""

    value: float
    error: float
    scale: float


@dataclass(frozen=True)
class Systematic:
    """Mean and deviation of systematic error, and the mean's standard error.

    All are in standard deviations of an outcome.
    """

    mean: float
    deviation: float
    mean_error: float

    def limits(self, shown: Measured, quantile: float, width: float) -> Limits:
        """Return the interval of an estimate, moved and widened by it, within the declared width.

        Args:
            shown: the estimate, with its error and scale.
            quantile: of the confidence, two-sided.
            width: of the outcome's declared range.
        """
        half = quantile * math.hypot(shown.error, shown.scale * math.hypot(self.deviation, self.mean_error))
        middle = shown.value - self.mean * shown.scale
        return Limits(lower=min(max(middle - half, -width), width), upper=max(min(middle + half, width), -width))


def learn(declared: int, shown: Sequence[Measured]) -> tuple[Calibration, Systematic | None]:
    """Estimate systematic error from negative controls, and state it; None if too few.

    Args:
        declared: how many outcomes are negative controls.
        shown: those that noise does not hide, over all units, of each arm against the reference.
    """
    if declared == 0:
        return Calibration(controls=0, statement="No negative control was declared."), None
    if declared < ENOUGH:
        word = "control" if declared == 1 else "controls"
        be = "is" if declared == 1 else "are"
        statement = f"{declared} negative {word} {be} too few to calibrate intervals, which takes at least {ENOUGH}."
        return Calibration(controls=declared, statement=statement), None
    if len(shown) < ENOUGH:
        statement = "Noise hides too many negative controls to calibrate by them."
        return Calibration(controls=declared, statement=statement), None
    values = np.array([one.value / one.scale for one in shown])
    errors = np.array([one.error / one.scale for one in shown])
    mean, deviation = systematic_error(values, errors)
    mean_error = float(np.sqrt(1 / np.sum(1 / (errors**2 + deviation**2))))
    # Two digits are printed of each: what is less than a hundredth of the error adds to none of them.
    spread = f"spread {deviation:.2g}" if deviation > 0.01 * mean_error else "no spread beyond chance"
    calibration = Calibration(
        controls=declared,
        mean=mean,
        deviation=deviation,
        mean_error=mean_error,
        statement=f"{declared} negative controls show systematic error of {mean:+.2g} standard deviations of an "
        f"outcome (standard error {mean_error:.2g}, {spread}); calibrated intervals allow for it.",
    )
    return calibration, Systematic(mean, deviation, mean_error)


def calibrate(
    study: EffectStudy, parts: Sequence[Part], answers: Sequence[Answer]
) -> tuple[tuple[Answer, ...], Calibration]:
    """Return the answers with calibrated intervals, and what was done in words.

    Intervals are calibrated if there are controls enough.

    Args:
        study: the study.
        parts: the answers with their errors, in the order of the table.
        answers: the table.
    """
    from scipy.special import ndtri

    controls = [outcome.role is OutcomeRole.negative_control for outcome in study.outcomes]
    # Each control is one draw of systematic error, over all units and all arms against the reference.
    shown = [
        _measured(study, part) for part in parts if part.answered and part.group == ALL_UNITS and controls[part.outcome]
    ]
    calibration, systematic = learn(sum(controls), shown)
    if systematic is None:
        return tuple(answers), calibration
    quantile, found = -float(ndtri((1 - study.confidence) / 2)), []
    for part, answer in zip(parts, answers, strict=True):
        if part.answered and not controls[part.outcome]:
            limits = systematic.limits(_measured(study, part), quantile, study.outcomes[part.outcome].width)
            answer = answer.model_copy(update={"calibrated": limits})
        found.append(answer)
    return tuple(found), calibration


def scale_of(spread: float, width: float) -> float:
    """Return the standard deviation within arms that an outcome's error is measured by."""
    return max(spread, LEAST_SPREAD * width)


def _measured(study: EffectStudy, part: Part) -> Measured:
    scale = scale_of(part.spread, study.outcomes[part.outcome].width)
    return Measured(part.value, math.sqrt(part.sampling + part.noise), scale)


def systematic_error(values: FloatArray, errors: FloatArray) -> tuple[float, float]:
    """Return the mean and deviation of systematic error, by maximum likelihood.

    The error is normal, and ``values`` come from it with normal errors.

    Args:
        values: shape (controls,).
        errors: their standard errors, shape (controls,), above 0.
    """
    from scipy.optimize import minimize_scalar

    def at(deviation: float) -> tuple[float, float]:
        weights = 1 / (errors**2 + deviation**2)
        mean = float(weights @ values / weights.sum())
        return mean, 0.5 * float(np.sum(weights * (values - mean) ** 2) - np.sum(np.log(weights)))

    most = float(np.ptp(values)) + float(errors.max())
    best = minimize_scalar(lambda deviation: at(deviation)[1], bounds=(0.0, most), method="bounded")
    # A bounded search never tries its ends.
    deviation = 0.0 if at(0.0)[1] <= float(best.fun) else float(best.x)
    return at(deviation)[0], deviation


def covered(study: EffectStudy | SurvivalStudy, answers: Sequence[Answer]) -> tuple[Limit, ...]:
    """Return the sources of error that every interval of a table covers."""
    settings = study.estimator.model_dump()
    found = [limit(Code.sampling), limit(Code.privacy_noise)]
    if hidden_subgroups(study, answers):
        found.append(limit(Code.hidden_subgroups))
    if isinstance(study, SurvivalStudy) and study.covariates:
        found.append(limit(Code.censoring_curves))
    if declares_randomised(settings):
        return tuple(found)
    if study.estimator.name == "difference_in_means" or not study.covariates:
        return (*found, limit(Code.confounding_of_prior))
    if study.privacy.level is Level.label:
        # Weights are functions of public columns. Where covariates are assumed to explain nothing, none is left.
        assumed = isinstance(study.estimator, ConfoundingSettings | BalancingEstimator) and study.estimator.bias() == 0
        return tuple(found) if assumed else (*found, limit(Code.imbalance))
    return (*found, limit(Code.confounding_hidden))


def hidden_subgroups(study: EffectStudy | SurvivalStudy, answers: Sequence[Answer]) -> bool:
    """Return whether an answer over all units is made of some subgroups alone.

    Noise hides the others. Arms that are compared as they are have curves of all units, whatever is seen of a subgroup.
    """
    if isinstance(study, SurvivalStudy) and not study.covariates:
        return False
    states: dict[tuple[str, str], dict[str, State]] = {}
    for one in answers:
        states.setdefault((one.outcome, one.arm), {})[one.group] = one.state
    return any(
        own.get(ALL_UNITS, State.withheld) in (State.answered, State.marked) and State.unresolved in own.values()
        for own in states.values()
    )
