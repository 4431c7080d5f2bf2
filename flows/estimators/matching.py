"""PrivATE: matching on a private propensity score (Yuan et al. 2026, Algorithm 4).

                                                    label level   sample level
    1  w' = w + noise                propensity     w as it is    e11, all units
       e' = e(x; w') + noise         scores         e as it is    e12, all units
    2  t' = RR(t)                    respond        t as it is    e2,  all units
    3  caps k_1, k_0; N nearest      match          public        post-processing of e', t'
       sums of outcomes + noise      perturb        epsilon       e3,  all units

At label level covariates and treatments are public, so only the last step is charged. The corrections are listed in
``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from causalveil.flows.estimators import label, table_plan
from causalveil.flows.estimators.estimator import ENTRY, HALVES, Estimator, Stages
from causalveil.flows.estimators.rehearsal import (
    DRAWS,
    EFFECTS,
    LARGEST_EPSILON,
    LASTING,
    Rehearsal,
    mostly_whole,
    people_of_effect,
    rows_weighed,
)
from causalveil.flows.estimators.stage import Run, Stage
from causalveil.flows.estimators.table import Rehearsed, Smaller
from causalveil.flows.estimators.words import OF_A_PAPER, Words, say_imbalance
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.study import Variant
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.models.nearest import traversal
from causalveil.tasks.estimate.papers.matching import interval, scores, weights
from causalveil.tasks.estimate.papers.matching.weights import Reuse
from causalveil.tasks.machine.arrays import FloatArray

# Noise on a score, against its range of 1, beyond which neighbours are near each other by chance.
BLURRED = 0.1
# Units of a rehearsal of private matching, and what a plan says of it.
MATCHED, SAID = 5_000, ("cap_treated", "cap_controls", "largest_weight")

PROPENSITY = Stage[MatchingStudy, FloatArray](
    "propensity",
    lambda step: scores.propensity_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(scores.MODEL_SLOT, scores.model(study, sizes).mechanism())],
    reads=(HALVES,),
)
SCORES = Stage[MatchingStudy, None](
    "scores",
    lambda step: scores.scores_stage(step.study, step.enclave, step[PROPENSITY], step.budget),
    charges=lambda study, _: [(scores.SLOT, scores.mechanism(study))],
    reads=(PROPENSITY,),
)
RESPOND = Stage[MatchingStudy, None](
    "respond",
    lambda step: scores.respond_stage(step.study, step.enclave, step.budget),
    charges=lambda study, _: [(scores.TREATMENT_SLOT, scores.treatment_mechanism(study))],
    reads=(SCORES,),
)
MATCH = Stage[MatchingStudy, Reuse](
    "match", lambda step: weights.match_stage(step.study, step.enclave), reads=(SCORES, RESPOND)
)
PERTURB = Stage[MatchingStudy, FloatArray](
    "perturb",
    lambda step: weights.perturb_stage(step.study, step.enclave, step[MATCH], step.budget),
    charges=lambda study, _: [(weights.SLOT, weights.mechanism(study))],
    reads=(MATCH,),
)
INTERVAL = Stage[MatchingStudy, Findings](
    "interval",
    lambda step: interval.interval_stage(step.study, step.sizes, step[MATCH], step[PROPENSITY], step[PERTURB]),
    reads=(PROPENSITY, MATCH, PERTURB),
)


def _public(study: MatchingStudy) -> bool:
    """Return whether weights are public, and not noised as in the paper."""
    return study.privacy.level is Level.label and study.estimator.variant is Variant.ours


def _stages(study: MatchingStudy) -> Stages:
    own = (*ENTRY, HALVES, PROPENSITY, SCORES, RESPOND, MATCH, PERTURB, INTERVAL)
    return label.STAGES if _public(study) else own


def _other_outcomes(run: Run[Any]) -> None:
    """Give the same people, who are matched, outcomes that they did not have when they were."""
    run.enclave.save(scores.OUTCOME, run.enclave.gather("u")[traversal(run.enclave)])


def words(study: MatchingStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return how often units may serve, and what randomised treatments leave."""
    if not study.asks_one:
        return table_plan.words(study, sizes, stand_in, found)
    details = found[0].found.details
    numbers: dict[str, Any] = {name: details[name] for name in SAID if name in details}
    sentences = [remark(PlanCode.reuse, treated=details["cap_treated"], controls=details["cap_controls"])]
    if study.privacy.level is Level.label:
        return Words([*sentences, *say_imbalance(found)], numbers)
    kept = keep(study)
    left = interval.attenuation(stand_in.treated, kept)
    parts = study.estimator.budget_shares.divide(study.privacy.epsilon)
    sentences += [
        remark(PlanCode.parts, parts=tuple(f"{name} {part.normalize():f}" for name, part in parts.items())),
        remark(
            PlanCode.flips,
            flipped=1 - kept,
            left=left,
            divided="; the estimate is divided by that" if study.corrects_attenuation else "",
        ),
    ]
    numbers |= {
        "budget_shares": {name: float(part) for name, part in parts.items()},
        "flip_probability": 1 - kept,
        "attenuation_factor": left,
        "score_noise": score_noise(study),
    }
    return Words(sentences, numbers, left=1.0 if study.corrects_attenuation else left)


def warned(
    study: MatchingStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[Remark]:
    """Return warnings of attenuation, scores that noise mixes, or too much noise."""
    if not study.asks_one:
        return [*table_plan.warned(study, sizes, stand_in, few), OF_A_PAPER[study.privacy.level]]
    warnings, left = list[Remark](), interval.attenuation(stand_in.treated, keep(study))
    if not study.corrects_attenuation and left < 1 - BLURRED:
        warnings.append(remark(PlanCode.attenuated, left=left))
    if (noise := score_noise(study)) > BLURRED:
        warnings.append(remark(PlanCode.noisy_scores, noise=noise))
    if mostly_whole(few()):
        warnings.append(remark(PlanCode.whole_range))
    return [*warnings, OF_A_PAPER[study.privacy.level]]


def keep(study: MatchingStudy) -> float:
    """Return the probability that a treatment is kept; 1 at label level."""
    release_by = scores.treatment_mechanism(study)
    return 1.0 if release_by is None else release_by.keep_probability


def score_noise(study: MatchingStudy) -> float:
    """Return the standard deviation of the noise on each score."""
    release_by = scores.mechanism(study)
    return 0.0 if release_by is None else math.sqrt(2) * release_by.known_scale


def fewer(study: MatchingStudy, more: float) -> Smaller[MatchingStudy]:
    """Raise the epsilon of what falls with the number of units.

    That of each unit's own score and treatment stays.
    """
    settings, epsilon = study.estimator, study.privacy.epsilon
    parts = settings.budget_shares.divide(epsilon)
    louder = Decimal(f"{min(more, LARGEST_EPSILON / 2 / float(epsilon)):.8g}")
    parts |= {name: parts[name] * louder for name in ("weights", "outcome")}
    total = sum(parts.values(), Decimal(0))
    shares = settings.budget_shares.model_copy(update={name: part / total for name, part in parts.items()})
    own = study.model_copy(
        update={
            "privacy": study.privacy.model_copy(update={"epsilon": total}),
            "estimator": settings.model_copy(update={"budget_shares": shares}),
        }
    )
    return Smaller(own, sampling=math.sqrt(more))


def rehearsal(study: MatchingStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    At label level people are matched once for several draws.
    """
    if study.privacy.level is not Level.label:
        # Its noise is large among few people, of whom a draw takes no time: few draws would let curves rise.
        randomised = study.estimator.trial
        return Rehearsal(MATCHED, fewer, randomised, effects=EFFECTS, point=DRAWS, columns=dimension(study))
    found = label.rehearsal(study, rows_weighed(study), rows_weighed(study), LASTING)
    if _public(study):
        return found
    return replace(found, make=people_of_effect, first=PERTURB, again=_other_outcomes, alike=lambda _, results: results)


MATCHING = Estimator(MatchingStudy, _stages, rehearsal=rehearsal, words=words, warned=warned)
