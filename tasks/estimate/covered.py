"""Name the sources of error that the intervals of a table cover."""

from __future__ import annotations

from collections.abc import Sequence

from causalveil.schemas.answers import Answer, State
from causalveil.schemas.confounding import ConfoundingSettings, declares_randomised
from causalveil.schemas.estimators.balancing import BalancingEstimator
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Study
from causalveil.schemas.table import ALL_UNITS, EffectStudy


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


def assumed(study: Study) -> tuple[Limit, ...]:
    """Return what changes over time, survey weights and contrasts of rows take for granted."""
    if not isinstance(study, EffectStudy):
        return ()
    found = list[Limit]()
    if any(one.is_change for one in study.outcomes):
        found += [limit(Code.parallel_trends), limit(Code.anticipation)]
    if left := tuple(one.name for one in study.outcomes if one.leaves_out):
        found.append(limit(Code.attrition, columns=left))
    if study.weights is not None:
        found.append(limit(Code.survey_design, column=study.weights.column, upper=study.weights.upper))
    rows = [study.rows_of(one) for one in study.contrasts]
    if any(len({group for _, group, _ in own}) > 1 and min(own.values()) < 0 for both in rows for own in both if own):
        found.append(limit(Code.composition))
    for one in study.contrasts:
        if one.top is not None and one.bottom is not None:
            found.append(limit(Code.exclusion, treatment=study.treatment, top=one.top, bottom=one.bottom))
    return tuple(found)


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
