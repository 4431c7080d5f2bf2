"""Calibration by negative controls.

Schuemie, Hripcsak, Ryan, Madigan and Suchard 2018, PNAS 115:2571.

An outcome that treatment cannot change has the effect 0; what is found there beyond its own error is systematic. With
several of them systematic error is taken to be normal, and its mean and deviation are fitted by maximum likelihood;
intervals of the other outcomes are moved by the one and widened by the other. Outcomes have different units, so all is
in standard deviations of an outcome within arms. Post-processing of released values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.protocols.answers import Answer, Calibration, Limits
from causalveil.schemas.protocols.study import ALL_UNITS, EffectStudy, OutcomeRole
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.protocols.parts import Part

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
