"""Covariate adjustment of one question: its recipe, and what its last stage says."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from decimal import Decimal

from causalveil.schemas.estimators.regression import RegressionEstimator, RegressionStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.release import Interval, Variance
from causalveil.tasks.adjustment.features import Encoding
from causalveil.tasks.adjustment.five_releases import FiveReleases, differences, effective
from causalveil.tasks.adjustment.interval import FARTHEST, confounding, covers_unseen, not_covered
from causalveil.tasks.adjustment.recipe import LINES_ALONE, PURE_LINES_ALONE, AdjustmentRecipe, parts_of, public_of
from causalveil.tasks.adjustment.released import ReleasedScores
from causalveil.tasks.inference.assemble import NOISY, EffectFindings
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.gaussian import divide

# Weights that leave less of an arm's precision answer for many people whom the other arm lacks.
ENOUGH_LEFT = 0.5


def recipe(study: RegressionStudy, sizes: Sizes | None) -> AdjustmentRecipe:
    """Return every draw of a study.

    One whose number of units is unknown is taken for a large one.

    Raises:
        StudyError: a budget of so many digits that it cannot be divided exactly.
    """
    total, encoding = study.privacy.cost, Encoding.of(study)
    public = public_of(total, str(study.estimand), study.estimator, encoding, sizes)
    public = replace(public, asked=_asked(study.estimator, public.pure))
    return AdjustmentRecipe(public, encoding, sizes is not None, divide(total, vars(parts_of(public))))


def _asked(settings: RegressionEstimator, pure: bool) -> tuple[Decimal, ...] | None:
    """Return the parts that a study asks for; None: they are decided by public sizes."""
    if settings.parts != "auto":
        return tuple(settings.parts.model_dump().values())
    alone = PURE_LINES_ALONE if pure else LINES_ALONE
    return tuple(vars(alone).values()) if settings.curves == "none" else None


def _extrapolated(usable: float, doubt: float) -> tuple[Limit, ...]:
    """Say that slopes answer for people whom one arm lacks, where weights leave less than half of an arm's precision.

    Of 214,144 people of whom a sixth were never treated they left .14 to .41 (five draws), and intervals of these draws
    did not meet; of three tables whose arms overlap .92 to .97. ENOUGH_LEFT was chosen between these.
    """
    return (limit(Code.extrapolation, share=f"{usable:.0%}"),) if usable + 2 * doubt < ENOUGH_LEFT else ()


def findings(study: RegressionStudy, asked: FiveReleases, scores: ReleasedScores) -> EffectFindings:
    """Estimate and interval, in outcome units."""
    last = copy(asked)
    last.scores = scores
    with one_thread():
        found, half = last.found((study.confidence,)), study.outcome.width / 2
    (low, high), arms = found.intervals[0], last.found_scales.arms
    interval = Interval(
        lower=low * half,
        upper=high * half,
        confidence=study.confidence,
        covers=(*NOISY[:2], limit(Code.noise_of_models), *covers_unseen(asked.public)),
        coverage=Coverage.normal_approximation,
        whole_range=low <= -FARTHEST and high >= FARTHEST,
    )
    usable, doubt = effective(last)
    lacking = () if asked.public.trial else _extrapolated(usable, doubt)
    sampling = (found.sampling * half) ** 2
    noise = max((found.standard_error * half) ** 2 - sampling, 0.0)
    details: dict[str, float | int | str | bool] = {
        "noise_standard_error": math.sqrt(noise),
        "sampling_standard_error": math.sqrt(sampling),
        "treated_share": arms.share,
        "spread": half * arms.spread,
        "features": last.refit_asked.count,
        "effective_share": usable,
        "confounding_adjusted_for": found.adjusted_share,
        "curves": ", ".join(found.kept_curves) or "none",
    }
    variance = Variance(sampling=sampling, noise=noise)
    done = confounding(study, asked.public, found.adjusted_share, found.left_out, found.explained)
    open_to = (*not_covered(asked.public), *lacking, *found.narrow.limits)
    return EffectFindings(found.value * half, interval, variance, details, done, differences(last), open_to)
