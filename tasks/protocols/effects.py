"""Answers to the questions of a protocol: effects with the law of their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from causalveil.schemas.estimators.protocols import RegressionProtocol
from causalveil.schemas.study import Estimand
from causalveil.tasks.adjustment.five_releases import FiveReleases
from causalveil.tasks.adjustment.interval import ErrorLaw, confounding
from causalveil.tasks.protocols.drawn import Asked, JointScales
from causalveil.tasks.protocols.parts import Part, with_everybody


def parts_of(study: RegressionProtocol, asked: Asked, scales: JointScales, units: int) -> list[Part]:
    """Return every answer of the table; ``units``: of the data."""
    parts = []
    for label, group in zip(study.groups, asked, strict=True):
        for outcome in range(len(study.outcomes)):
            row = None if group is None else group[outcome]
            laws = [] if row is None else [one.law() for one in row]
            for arm in range(1, len(study.arm_names)):
                parts.append(_part(study, row, laws, label, outcome, arm))
    counts, error, total = _sizes(study, scales, units)
    return with_everybody(study, parts, counts, error, total)


def _sizes(study: RegressionProtocol, scales: JointScales, units: int) -> tuple[dict[str, list[float]], float, float]:
    """Return, by arm, the number of units of each subgroup that the estimand is over, its noise, and their sum."""
    counts = np.maximum(scales.counts, 1.0)
    over = {Estimand.ATE: slice(None), Estimand.ATT: slice(1, None), Estimand.ATC: slice(0, 1)}[study.estimand]
    chosen = counts[:, over].sum(axis=1)
    known = study.estimand is Estimand.ATE and not study.where
    total = float(units) if known else float(chosen.sum())
    error = scales.count_sd * math.sqrt(counts[:, over].shape[1])
    return dict.fromkeys(study.arm_names[1:], chosen.tolist()), error, total


def _part(
    study: RegressionProtocol,
    row: Sequence[FiveReleases] | None,
    laws: Sequence[ErrorLaw],
    label: str,
    outcome: int,
    arm: int,
) -> Part:
    """Return one answer of a subgroup.

    ``row``: its questions by side, None where noise hides it.
    """
    if row is None:
        return Part(outcome, label, study.arm_names[arm], False, 0.0, 0.0, 0.0, 0.0, 0.0, None)
    half = study.outcomes[outcome].width / 2
    left_out = (one.public.columns[place].name for one in row for place in one.found_scales.left_out)
    law = laws[0] if len(row) == 1 else _contrast(laws[arm], laws[0], row[arm], row[0])
    return Part(
        outcome=outcome,
        group=label,
        arm=study.arm_names[arm],
        answered=True,
        value=law.value * half,
        sampling=(law.sampling * half) ** 2,
        noise=float(law.error.var() + law.scale**2) * half**2,
        bias=0.0,
        spread=float(np.mean([one.found_scales.arms.spread for one in row])) * half,
        confounding=confounding(study, row[0].public, law.adjusted_share, tuple(dict.fromkeys(left_out))),
        error=law.error * half,
        adjusted=None if study.estimator.trial else law.adjusted_share,
    )


def _contrast(one: ErrorLaw, other: ErrorLaw, of_one: FiveReleases, of_other: FiveReleases) -> ErrorLaw:
    """Return the law of the difference of two arms' means.

    Models of both read the same noise of Gram matrices, so their errors are taken to be as unlike as they can be.
    Means are where everybody's features lie: noise in that centre, and who was sampled, move them alike but for what
    the arms' slopes differ by.
    """
    first, second = of_one.second, of_other.second
    apart = first.slopes[0] * of_one.found_scales.arms.spread - second.slopes[0] * of_other.found_scales.arms.spread
    gram = first.moments.gram
    shared = float((apart * first.moments.middle_sd) @ (apart * first.moments.middle_sd))
    everybody = max(float(apart @ gram @ apart), 0.0) / of_one.public.units
    error = np.sort(one.error) - np.sort(other.error)[::-1]
    return ErrorLaw(
        one.value - other.value,
        error,
        math.sqrt(one.sampling**2 + other.sampling**2 + everybody),
        math.sqrt(one.scale**2 + other.scale**2 + shared),
        None,
        min(one.adjusted_share, other.adjusted_share),
    )
