"""Calibration by negative controls (Schuemie, Hripcsak, Ryan, Madigan and Suchard 2018, PNAS 115:2571).

An outcome that treatment cannot change has the effect 0; what is found there beyond its own error is systematic. With
several of them systematic error is taken to be normal, and its mean and deviation are fitted by maximum likelihood;
intervals of the other outcomes are moved by the one and widened by the other. Outcomes have different units, so all is
in standard deviations of an outcome within arms. Post-processing of released values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from causalveil.schemas.protocols.answers import Calibration, Limits, ProtocolAnswer
from causalveil.schemas.protocols.study import EVERYBODY, OutcomeRole, ProtocolStudy
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.protocols.parts import Part

# Fewer controls say too little of how systematic error spreads; the paper's authors ask for thirty or more.
ENOUGH = 5
# A control's spread is taken to be at least this part of its declared width.
LEAST_SPREAD = 1e-3


def calibrate(
    study: ProtocolStudy, parts: Sequence[Part], answers: Sequence[ProtocolAnswer]
) -> tuple[tuple[ProtocolAnswer, ...], Calibration]:
    """The answers with calibrated intervals, if there are controls enough, and what was done in words.

    Args:
        study: the study.
        parts: the answers with their errors, in the order of the table.
        answers: the table.
    """
    controls = [outcome for outcome in study.outcomes if outcome.role is OutcomeRole.negative_control]
    if not controls:
        return tuple(answers), Calibration(controls=0, statement="No negative control was declared.")
    if len(controls) < ENOUGH:
        word = "control" if len(controls) == 1 else "controls"
        return tuple(answers), Calibration(
            controls=len(controls),
            statement=f"{len(controls)} negative {word}: read beside the answers; at least {ENOUGH} are needed to "
            "calibrate intervals by them, so none was.",
        )
    # Each control is one draw of systematic error, over everybody and all arms against the reference.
    shown = [
        part
        for part in parts
        if part.answered
        and part.group == EVERYBODY
        and study.outcomes[part.outcome].role is OutcomeRole.negative_control
    ]
    if len(shown) < ENOUGH:
        return tuple(answers), Calibration(
            controls=len(controls), statement="Noise hides too many negative controls to calibrate by them."
        )
    scales = [scale_of(study, part) for part in shown]
    values = np.array([part.value / scale for part, scale in zip(shown, scales, strict=True)])
    errors = np.array([math.sqrt(part.sampling + part.noise) / one for part, one in zip(shown, scales, strict=True)])
    mean, deviation = systematic_error(values, errors)
    mean_error = float(np.sqrt(1 / np.sum(1 / (errors**2 + deviation**2))))
    found = []
    for part, answer in zip(parts, answers, strict=True):
        if not part.answered or answer.role is OutcomeRole.negative_control:
            found.append(answer)
            continue
        found.append(answer.model_copy(update={"calibrated": _calibrated(study, part, mean, deviation, mean_error)}))
    calibration = Calibration(
        controls=len(controls),
        mean=mean,
        deviation=deviation,
        mean_error=mean_error,
        statement=f"{len(controls)} negative controls show systematic error of {mean:+.3f} ± {deviation:.3f} standard "
        "deviations of an outcome: calibrated intervals are moved and widened by it. They hold if error is alike in "
        "controls and in the outcomes of interest.",
    )
    return tuple(found), calibration


def scale_of(study: ProtocolStudy, part: Part) -> float:
    """The standard deviation within arms by which an outcome's error is measured."""
    return max(part.spread, LEAST_SPREAD * study.outcomes[part.outcome].width)


def _calibrated(study: ProtocolStudy, part: Part, mean: float, deviation: float, mean_error: float) -> Limits:
    from scipy.special import ndtri

    scale, width = scale_of(study, part), study.outcomes[part.outcome].width
    variance = part.sampling + part.noise + scale**2 * (deviation**2 + mean_error**2)
    half = -float(ndtri((1 - study.confidence) / 2)) * math.sqrt(variance)
    middle = part.value - mean * scale
    return Limits(
        lower=min(max(middle - half, -width), width),
        upper=max(min(middle + half, width), -width),
    )


def systematic_error(values: FloatArray, errors: FloatArray) -> tuple[float, float]:
    """Mean and deviation of a normal law from which ``values`` come with normal errors: maximum likelihood.

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
