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
from collections.abc import Mapping, Sequence
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
from causalveil.schemas.questions import ALL_UNITS, EffectMeasure, OutcomeRole
from causalveil.schemas.release import AnswerClustering, ClustersStatement, Correlation
from causalveil.schemas.table import EffectStudy, TableStudy
from causalveil.tasks.estimate.clusters import ClusteredVariance, ClusteredVariances
from causalveil.tasks.estimate.interval import Findings, Noise, around, laplace_tails
from causalveil.tasks.machine.arrays import FloatArray


@dataclass(frozen=True)
class Risks:
    """Two arms' risks of an outcome of two values, with the covariance of their errors.

    Attributes:
        arms: risk in the arm and in the reference, each in [0, 1].
        covariance: of both errors, sampling and noise together, shape (2, 2).
    """

    arms: tuple[float, float]
    covariance: FloatArray

    def _parts(self, measure: EffectMeasure) -> tuple[float, float, FloatArray]:
        """Return numerator and denominator, and their derivatives by the two risks, shape (2, 2)."""
        risk, reference = self.arms
        if measure is EffectMeasure.ratio:
            return risk, reference, np.eye(2)
        derivatives = np.array([[1 - reference, -risk], [-reference, 1 - risk]])
        return risk * (1 - reference), reference * (1 - risk), derivatives

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


def over_all(groups: Sequence[tuple[Risks, float]], count_error: float) -> Risks | None:
    """Return the risks over all subgroups, weighted by noisy sizes; None if none is above 0.

    Args:
        groups: each subgroup's risks and its size.
        count_error: standard deviation of the noise on each size.
    """
    total = math.fsum(size for _, size in groups)
    if total <= 0:
        return None
    shares = np.array([size / total for _, size in groups])
    risks = np.array([group.arms for group, _ in groups])
    means = shares @ risks
    covariance = sum(
        (share**2 * group.covariance for share, (group, _) in zip(shares, groups, strict=True)), np.zeros((2, 2))
    )
    moved = (risks - means) * count_error / total
    return Risks((float(means[0]), float(means[1])), covariance + moved.T @ moved)


# The least number of draws beyond a quantile that is read off draws alone.
FEW = 1.5


@dataclass(frozen=True)
class Part:
    """An estimate of one outcome, subgroup and arm, in outcome units.

    Attributes:
        outcome: its place in the study.
        group: the subgroup's label.
        arm: the arm's name.
        answered: whether noise does not hide the answer.
        value: the estimate.
        sampling: variance of sampling.
        noise: variance of noise, in models and in the answer itself.
        bias: the largest that is allowed for.
        spread: standard deviation of the outcome within arms.
        confounding: what was done about confounding; None where nothing is answered.
        mixing: None where noise is normal; else that of ``Noise``, 1 for Laplace noise.
        averaged: whether noise is a mean of several, whose law lies between that and a normal one.
        hidden: why there is no answer, where ``answered`` is false.
        error: draws of the models' error, of mean 0, where its law is known; their variance is in ``noise``.
        adjusted: share of the confounding the prior expects that the data took off; None: nothing was adjusted for.
        risks: of both arms, where ratios are asked for and the outcome has two values.
        clustered: possible values of the sampling variance, whose mean is ``sampling``, where units of one cluster
            are correlated.
        covariances: sampling covariance with the answer on each other outcome of the subgroup, and the deviation of
            its noise; None where they are not released.
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
    """Return the answer over all subgroups: their effects weighted by size.

    Sizes are noisy, and an error of a size moves the answer by how far that subgroup's effect lies from the mean.
    Subgroups that noise hides are left out, and the bias counts the most that they can matter.

    Args:
        parts: answers on one outcome and arm, by subgroup.
        counts: noisy number of units in each subgroup that the estimand is over.
        count_error: standard deviation of the noise on each count.
        units: number of units of all subgroups that the estimand is over.
        width: of the outcome's declared range.
        clustered: possible sampling variances, where subgroups share clusters.
    """
    first = parts[0]
    sized = [(part, max(count, 0.0)) for part, count in zip(parts, counts, strict=True) if part.answered]
    total = math.fsum(count for _, count in sized)
    hidden = [count for part, count in zip(parts, counts, strict=True) if not part.answered]
    most = math.fsum(max(count, 0.0) + 3 * count_error for count in hidden) / max(units, 1.0)
    if not sized or total <= 0 or most >= 1:
        unanswered = replace(first, group=ALL_UNITS, answered=False, risks=None, error=None, clustered=None)
        return replace(unanswered, value=0.0, sampling=0.0, noise=0.0, bias=0.0)
    shares = [(part, count / total) for part, count in sized]
    value = math.fsum(share * part.value for part, share in shares)
    sizes = math.fsum((count_error / total * (part.value - value)) ** 2 for part, _ in shares)
    stated = [(part.confounding, share) for part, share in shares if part.confounding is not None]
    error = _error_over(shares)
    own = math.fsum(share**2 * (part.noise - part.models) for part, share in shares)
    # A subgroup that noise hides may move a ratio by any amount.
    with_risks = [(part.risks, count) for part, count in sized if part.risks is not None]
    risks = over_all(with_risks, count_error) if len(with_risks) == len(parts) else None
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
    """Return draws of the models' error of a mean over subgroups; None where one has no draws.

    The share ``adjusted`` of a subgroup's error is noise, which is independent over subgroups. The rest is shrinkage of
    slopes and weights, which may be common to all subgroups.
    """
    draws = [
        (part.error * share, 1 - (1.0 if part.adjusted is None else part.adjusted))
        for part, share in shares
        if part.error is not None
    ]
    if len(draws) < len(shares):
        return None
    count = max(len(error) for error, _ in draws)
    total = np.sum([np.resize(error, count) for error, _ in draws], axis=0)
    common = math.fsum(float(error.std()) * math.sqrt(shrunk) for error, shrunk in draws) ** 2
    own = math.fsum(float(error.var()) * (1 - shrunk) for error, shrunk in draws)
    scaled: FloatArray = (total - total.mean()) * math.sqrt((common + own) / max(float(total.var()), 1e-300))
    return scaled


def limits(part: Part, width: float, error: float) -> tuple[float, Limits]:
    """Return the estimate and the interval that misses with probability ``error``.

    The interval is the whole range where noise hides the answer.
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

    It is exceeded with probability ``tail``, below one half. Where fewer than FEW draws lie beyond it, the tail is
    extrapolated as a normal one from the FEW-th draw on; a single draw needs no extrapolation.

    Args:
        draws: shape (K,).
        deviation: of the normal number, or an array of possible ones.
        tail: the probability.
        laplace: scale of the Laplace noise; 0 with ``shares``.
        shares: the probability of each possible deviation.
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
    """Return the estimate and interval by the law of its error: draws, sampling and noise."""
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


def clusters_statement(study: TableStudy, parts: Sequence[Part], questions: Sequence[str]) -> ClustersStatement | None:
    """Return the correlation within clusters of each answer; None without clusters.

    Args:
        study: the table.
        parts: its answers; those that noise hides are left out.
        questions: names by ``Part.outcome``.
    """
    if study.clusters is None:
        return None
    return ClustersStatement(
        **study.clusters.model_dump(),
        answers=tuple(
            AnswerClustering(
                outcome=questions[part.outcome],
                group=part.group,
                arm=part.arm,
                correlation=Correlation(**dict(zip(Correlation.model_fields, law.correlation, strict=True))),
                design_effect=law.design_effect,
                effective_people=law.units / law.design_effect,
                hidden=law.hidden,
            )
            for part in parts
            if (law := part.clustered) is not None
        ),
    )


def table(study: EffectStudy, parts: Sequence[Part]) -> tuple[Answer, ...]:
    """Return the rows of the release, each with its own and a simultaneous interval.

    The simultaneous intervals hold all together (Bonferroni).
    """
    error, reference = 1 - study.confidence, study.arm_names[0]
    number = len(parts) + len(study.contrasts)
    rows = []
    for part in parts:
        outcome = study.outcomes[part.outcome]
        value, single = limits(part, outcome.width, error)
        _, simultaneous = limits(part, outcome.width, error / number)
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
                simultaneous=simultaneous,
                noise_error=math.sqrt(part.noise) if part.answered else outcome.width,
                sampling_error=math.sqrt(part.sampling),
                bias=part.bias,
                spread=part.spread,
                measures=tuple(part.risks.answer(ratio, study.confidence) for ratio in study.ratios)
                if part.answered and part.risks is not None
                else (),
            )
        )
    return tuple(rows)


def with_all_units(
    study: EffectStudy,
    parts: Sequence[Part],
    counts: Mapping[str, Sequence[float]],
    count_error: float,
    units: float,
    clustered: ClusteredVariances | None = None,
) -> list[Part]:
    """Return answers in the table's order: by outcome and arm over all units, then by subgroup.

    Args:
        study: the study.
        parts: answers of subgroups.
        counts: by arm, noisy number of units in each subgroup that the estimand is over.
        count_error: standard deviation of the noise on each count.
        units: number of units of all subgroups that the estimand is over.
        clustered: of a study with clusters, the possible values of each sampling variance, in half ranges.
    """
    rows: list[Part] = []
    for index, outcome in enumerate(study.outcomes):
        for place, arm in enumerate(study.arm_names[1:]):
            own = [part for part in parts if part.outcome == index and part.arm == arm]
            if study.subgroups is not None:
                overall = None if clustered is None else clustered[index][-1][place]
                overall = None if overall is None else overall.times((outcome.width / 2) ** 2)
                rows.append(over_groups(own, counts[arm], count_error, units, outcome.width, overall))
            rows += own
    return rows


def error_details(study: EffectStudy, findings: Findings) -> dict[str, float | int | str | bool]:
    """Return the errors of a table of one row, and numbers of units where they are not public."""
    own, counted = findings.answers[0], dict(findings.details) if not study.known_units else {}
    errors = {"noise_standard_error": own.noise_error or 0.0, "sampling_standard_error": own.sampling_error or 0.0}
    return {**counted, **errors}


def with_statement(findings: Findings, statement: ConfoundingStatement, **updates: Any) -> Findings:
    """Return a table of one row with its confounding statement, even if noise hides the answer."""
    (own,) = findings.answers
    updates |= {"reason": None, "confounding": statement}
    return replace(findings, answers=(own.model_copy(update=updates),))


# The deviation of systematic error is not estimated from fewer controls; the paper's authors ask for thirty or more.
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

    def limits(self, estimate: Measured, quantile: float, width: float) -> Limits:
        """Return an estimate's interval, corrected for systematic error, within the declared width.

        Args:
            estimate: with its error and scale.
            quantile: of the confidence, two-sided.
            width: of the outcome's declared range.
        """
        half = quantile * math.hypot(estimate.error, estimate.scale * math.hypot(self.deviation, self.mean_error))
        middle = estimate.value - self.mean * estimate.scale
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
    values = np.array([control.value / control.scale for control in shown])
    errors = np.array([control.error / control.scale for control in shown])
    mean, deviation = systematic_error(values, errors)
    mean_error = float(np.sqrt(1 / np.sum(1 / (errors**2 + deviation**2))))
    # Two digits are printed of each number: a deviation below a hundredth of the error changes none of them.
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
    """Return the answers, with calibrated intervals if controls suffice, and a statement.

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
    quantile, calibrated = -float(ndtri((1 - study.confidence) / 2)), []
    for part, answer in zip(parts, answers, strict=True):
        if part.answered and not controls[part.outcome]:
            limits = systematic.limits(_measured(study, part), quantile, study.outcomes[part.outcome].width)
            answer = answer.model_copy(update={"calibrated": limits})
        calibrated.append(answer)
    return tuple(calibrated), calibration


def scale_of(spread: float, width: float) -> float:
    """Return the deviation of an outcome within arms, at least LEAST_SPREAD of its width."""
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
    sources = [limit(Code.sampling), limit(Code.privacy_noise)]
    if hidden_subgroups(study, answers):
        sources.append(limit(Code.hidden_subgroups))
    if isinstance(study, SurvivalStudy) and study.covariates:
        sources.append(limit(Code.censoring_curves))
    if declares_randomised(settings):
        return tuple(sources)
    if study.estimator.name == "difference_in_means" or not study.covariates:
        return (*sources, limit(Code.confounding_of_prior))
    if study.privacy.level is Level.label:
        # Weights are functions of public columns. Where covariates are assumed to explain nothing, no bias is left.
        assumed = isinstance(study.estimator, ConfoundingSettings | BalancingEstimator) and study.estimator.bias() == 0
        return tuple(sources) if assumed else (*sources, limit(Code.imbalance))
    return (*sources, limit(Code.confounding_hidden))


def hidden_subgroups(study: EffectStudy | SurvivalStudy, answers: Sequence[Answer]) -> bool:
    """Return whether an answer over all units lacks subgroups that noise hides.

    Unadjusted curves of times are over all units, whether or not noise hides a subgroup.
    """
    if isinstance(study, SurvivalStudy) and not study.covariates:
        return False
    states: dict[tuple[str, str], dict[str, State]] = {}
    for answer in answers:
        states.setdefault((answer.outcome, answer.arm), {})[answer.group] = answer.state
    return any(
        own.get(ALL_UNITS, State.withheld) in (State.answered, State.marked) and State.unresolved in own.values()
        for own in states.values()
    )
