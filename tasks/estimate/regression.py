"""The table of a study by regression, and what is told where it has one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.tasks.estimate.adjust.five_releases import FiveReleases, effective, unlike
from causalveil.tasks.estimate.adjust.interval import confounding, covers_unseen, curve_names, not_covered
from causalveil.tasks.estimate.adjust.questions import Asked, JointScales
from causalveil.tasks.estimate.adjust.recipe import joint_recipe
from causalveil.tasks.estimate.answers import told_of_errors, with_statement
from causalveil.tasks.estimate.clusters import ClusteredVariances
from causalveil.tasks.estimate.findings import findings
from causalveil.tasks.estimate.interval import NOISY, Findings

# Weights that leave less of an arm's precision answer for many people whom the other arm lacks.
ENOUGH_LEFT = 0.5


def regression_findings(
    study: RegressionStudy, sizes: Sizes, asked: Asked, scales: JointScales, alike: ClusteredVariances | None = None
) -> Findings:
    """Return the table of a study by regression, from its questions with all their releases."""
    found = findings(study, asked, scales, sizes, alike)
    return _of_one_question(study, sizes, found, asked, scales) if study.asks_one else found


def _of_one_question(
    study: RegressionStudy, sizes: Sizes, found: Findings, asked: Asked, scales: JointScales
) -> Findings:
    """Return a table of one row with what is told of one question alone."""
    public = joint_recipe(study, sizes).public(0, sizes.units)
    question = None if asked[0] is None else asked[0][0][0]
    told = (
        _hidden(scales) if question is None else _details(question, study.outcome.width / 2, study.clusters is not None)
    )
    lacking = () if question is None or public.trial else _extrapolated(*effective(question))
    narrow = () if question is None else question.law.narrow.limits
    done = found.confounding or confounding(study, public, 0.0, tuple(study.covariates))
    return replace(
        with_statement(found, done),
        covers=(*NOISY[:2], limit(Code.noise_of_models), *covers_unseen(public)),
        details={**told_of_errors(study, found), **told},
        not_covered=(*not_covered(public), *lacking, *narrow),
    )


def _details(question: FiveReleases, half: float, clustered: bool) -> Mapping[str, float | int | str | bool]:
    """Return what is told of a question beside its answer. ``half``: of the outcome's declared range.

    ``clustered``: whether whole clusters were drawn.
    """
    arms = question.found_scales.arms
    far = unlike(question) if question.public.trial and not clustered else ()
    return {
        **({"unlike": ", ".join(far)} if far else {}),
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
