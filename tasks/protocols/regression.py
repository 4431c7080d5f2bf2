"""The answer of a study of one outcome by regression, which is a table of one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from causalveil.schemas.estimators.protocols import table_of
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.tasks.adjustment.drawn import Answered, Asked, JointScales
from causalveil.tasks.adjustment.five_releases import FiveReleases, differences, effective
from causalveil.tasks.adjustment.interval import confounding, covers_unseen, curve_names, not_covered
from causalveil.tasks.adjustment.questions import with_scores
from causalveil.tasks.adjustment.recipe import joint_recipe
from causalveil.tasks.adjustment.released import ReleasedScores, ReleasedTotals
from causalveil.tasks.inference.assemble import NOISY, EffectFindings
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.protocols.findings import parts_of
from causalveil.tasks.protocols.parts import effect_of, told_of

# Weights that leave less of an arm's precision answer for many people whom the other arm lacks.
ENOUGH_LEFT = 0.5


def one_regression(
    study: RegressionStudy,
    sizes: Sizes,
    asked: Asked,
    scores: Answered[ReleasedScores],
    scales: JointScales,
    totals: Answered[ReleasedTotals] | None = None,
) -> EffectFindings:
    """Return the effect of a study of one outcome from its releases."""
    own, whole = table_of(study), with_scores(asked, scores, totals)
    public = joint_recipe(own, sizes).public(0, sizes.units)
    with one_thread():
        (part,) = parts_of(own, whole, scales, sizes.units)
        found = effect_of(part, study.outcome.width, study.confidence)
        question = None if whole[0] is None else whole[0][0][0]
        told = _hidden(scales) if question is None else _details(question, study.outcome.width / 2)
        lacking = () if question is None or public.trial else _extrapolated(*effective(question))
        balance = () if question is None else differences(question)
        narrow = () if question is None else question.law.narrow.limits
    return replace(
        found,
        interval=found.interval.model_copy(
            update={"covers": (*NOISY[:2], limit(Code.noise_of_models), *covers_unseen(public))}
        ),
        details={**found.details, **told},
        confounding=part.confounding or confounding(study, public, 0.0, tuple(one.name for one in public.columns)),
        balance=balance,
        not_covered=(*not_covered(public), *lacking, *narrow),
        clusters=told_of(own, [part], sizes.units),
    )


def _details(question: FiveReleases, half: float) -> Mapping[str, float | int | str | bool]:
    """Return what is told of a question beside its answer. ``half``: of the outcome's declared range."""
    arms = question.found_scales.arms
    return {
        "treated_share": arms.share,
        "spread": half * arms.spread,
        "features": question.refit_asked.count,
        "effective_share": effective(question)[0],
        "confounding_adjusted_for": question.law.adjusted_share,
        "curves": ", ".join(curve_names(question.public, question.second.features)) or "none",
    }


def _hidden(scales: JointScales) -> Mapping[str, float | int | str | bool]:
    """Return what is told where noise hides an arm: nothing is adjusted for."""
    (counts,), (units,) = scales.counts.tolist(), scales.units
    share = min(max(counts[1] / units, 0.0), 1.0)
    return {"treated_share": share, "features": 0, "confounding_adjusted_for": 0.0, "curves": "none"}


def _extrapolated(usable: float, doubt: float) -> tuple[Limit, ...]:
    """Say that slopes answer for people whom one arm lacks, where weights leave less than half of an arm's precision.

    Of 214,144 people of whom a sixth were never treated they left .14 to .41 (five draws), and intervals of these draws
    did not meet; of three tables whose arms overlap .92 to .97. ENOUGH_LEFT was chosen between these.
    """
    return (limit(Code.extrapolation, share=f"{usable:.0%}"),) if usable + 2 * doubt < ENOUGH_LEFT else ()
