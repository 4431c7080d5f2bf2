"""The table of details of a report, and its estimand, in the field's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from causalveil.schemas.limits import capital
from causalveil.schemas.specification import outcomes_of, unrecorded
from causalveil.schemas.where import where_words
from causalveil.tasks.report.guidelines.facts import bounds_text, codes_text
from causalveil.tasks.report.guidelines.settings import MODELS
from causalveil.tasks.report.numbers import arm_means, figure, place_label

# Details that a page says elsewhere, or that would be taken for the two sides of the estimate.
UNSHOWN = (
    *("mean_treated", "mean_control", "choice", "curves", "confounding_adjusted_for"),
    # Whether nothing can be said is the answer's to say, which knows the whole interval.
    *("effective_share", "drowned"),
)
# Those of the only answer stand beside it.
ERRORS = ("noise_standard_error", "sampling_standard_error")
LABELS = {
    # Errors
    "noise_standard_error": "standard error of the privacy noise",
    "sampling_standard_error": "standard error of sampling",
    "sampling_standard_error_upper": "standard error of sampling, upper bound that the interval uses",
    "denominator_clamped": "a noisy denominator was set to its smallest allowed value",
    "spread": "standard deviation of the outcome within arms",
    # Units and arms
    "units": "units",
    "share": "share of units",
    "treated_share": "share of treated units",
    "treated_arm": "treated units",
    "control_arm": "control units",
    "training_units": "units of the training half",
    "test_units": "units of the test half",
    "effective_treated": "effective sample size of the treated, as weighted",
    "effective_control": "effective sample size of the controls, as weighted",
    "chance_contradicted": "the released share of treated contradicts the declared chance",
    # Adjustment
    "features": "terms adjusted for (covariates, levels, non-linear terms)",
    "outcome_variance_explained": "share of the outcome's variance that covariates explain",
    "unadjusted": "unadjusted estimate",
    "unadjusted_lower": "unadjusted estimate, lower end of its interval",
    "unadjusted_upper": "unadjusted estimate, upper end of its interval",
    "largest_difference_before": "largest standardised mean difference before weighting",
    "largest_difference_after": "largest standardised mean difference after weighting",
    "difference_before": "standardised mean difference before adjustment",
    "difference_after": "standardised mean difference after adjustment",
    "difference_noise": "standard error of noise in the standardised mean difference",
    # Weights and matches
    "largest_weight": "largest weight of a unit, where those of an arm add up to 1",
    "normalisation": "weighted sums are divided by",
    "cap_treated": "largest weight allowed, treated",
    "cap_control": "largest weight allowed, controls",
    "cap_controls": "largest weight allowed, controls",
    "largest_reuse": "most matches that one unit serves in",
    "matched": "matched units",
    "unmatched": "units without a match",
    "sensitivity_of_estimate": "most that one unit can move the estimate",
    "sensitivity_treated_sum": "most that one unit can move the sum of the treated",
    "sensitivity_control_sum": "most that one unit can move the sum of the controls",
    "flip_probability": "chance that a treatment was flipped for privacy",
    "attenuation_factor": "attenuation of the estimate by noise on treatments, as a factor",
    "attenuation_corrected": "attenuation was corrected",
    "cells": "cells of units that agree in covariates",
    "alone_in_cell": "units alone in their cell",
    # Models
    "propensity_coefficient": "propensity coefficient",
    "propensity_noise": "standard deviation of noise on each propensity coefficient",
    "propensity_noise_standard_error_bound": "bound on the error that noise in the propensity model causes",
    "score_range": "range of the AIPW scores",
    "gross_error_sensitivity": "gross-error sensitivity of the estimate",
    "folds": "folds of the cross-fitting",
    "outcome_model": "outcome model",
    # Tables, times, directions
    "simultaneous": "intervals that hold all together",
    "intervals": "time intervals",
    "followed_until": "time until which enough units are followed",
    "strata": "strata of losses, after pooling",
    "pooled_strata": "strata of losses that are pooled",
    "still_followed": "share of units still followed at the horizon",
    "residual_movement_bound": "most that one unit can move another's residual",
    "iqr_bin": "width of the bins of the interquartile range",
    "bandwidth": "bandwidth of the kernel",
}
# Details whose index is a subgroup, or a subgroup and an arm.
OF_PLACES = ("units", "share", "curves")
# Words of an estimator that has another thing of the same name.
OF_ESTIMATOR = {
    ("matching", "cap_treated"): "most matches allowed for a treated unit",
    ("matching", "cap_controls"): "most matches allowed for a control unit",
    ("survival", "cells"): "cells in which units are counted",
}
# Counts of treatments as they are after randomised response.
FLIPPED = {
    "treated_arm": "units that count as treated, after flips for privacy",
    "control_arm": "units that count as controls, after flips for privacy",
}
# Estimators that compare the arms as they are, whatever covariates a study declares.
AS_THEY_ARE = frozenset({"difference_in_means"})
_INDEX = re.compile(r"\[([^\]]*)\]")


def as_used(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study as used: ``unused`` are covariates that were not adjusted for."""
    named = specification.get("covariates")
    if not named or specification["estimator"]["name"] not in AS_THEY_ARE:
        return dict(specification)
    return {**specification, "covariates": {}, "unused": named}


def detail_rows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return label and value of each detail.

    Means of arms are among them only if the estimate is their difference.
    """
    means = arm_means(document)
    rows = [] if means is None else [(f"mean of {arm}", text) for arm, text in means]
    for key, value in document.get("details", {}).items():
        if not key.startswith(UNSHOWN) and key not in ERRORS:
            text = MODELS.get(str(value), text_of(value)) if key == "outcome_model" else text_of(value)
            rows.append((detail_label(key, document), text))
    return rows


def detail_label(key: str, document: Mapping[str, Any]) -> str:
    """Return a detail's name in words, with the subgroup, arm, covariate or fold that it is of."""
    name, places = key.partition("[")[0], _INDEX.findall(key)
    of = OF_ESTIMATOR.get((str(document.get("estimator")), name))
    words = of or LABELS.get(name, name.replace("_", " "))
    specification, details = document["specification"], document.get("details", {})
    if "flip_probability" in details:
        words = FLIPPED.get(name, words)
    if name == "cells" and of is None and "alone_in_cell" not in details:
        words = "subgroups times arms"
    if name in OF_PLACES:
        places = [place_label(specification, places)] if places else []
    elif name == "spread":
        places = [f"fold {place}" for place in places]
    return ", ".join([words, *places])


def text_of(value: Any) -> str:
    """Return a value as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return figure(value)
    if isinstance(value, list):
        return ", ".join(text_of(part) for part in value)
    return "–" if value is None else str(value)


POPULATIONS = {"ATE": "every", "ATT": "every treated", "ATC": "every untreated"}
RATIOS = (("risk ratios", "ratio"), ("odds ratios", "odds_ratio"))
# What the specification of a pooled release says in place of each site's unit.
PLACEHOLDER = "("
RECORDED = "Each {unit} counts in the arm that was recorded, whatever happened later (treatment policy)."


def estimand_of(release: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (attribute, sentence) for each attribute.

    There is none where a release estimates no effect.

    Args:
        release: the document of a release of one effect, of a protocol, or of times; of one run or of several sites.
    """
    kind = release.get("estimand")
    if kind not in POPULATIONS:
        return ()
    spec = release["specification"]
    return (
        ("Population", _population(release, str(kind))),
        ("Treatment", _treatment(spec)),
        ("Outcome", _outcomes(release)),
        ("Intercurrent events", _events(spec)),
        ("Summary measure", _summary(release)),
    )


def _population(release: Mapping[str, Any], kind: str) -> str:
    spec, groups = release["specification"], release["specification"].get("subgroups")
    among = f" where {where}" if (where := where_words(spec)) else ""
    by = f", and each level of {groups['name']}" if groups else ""
    return f"{kind}: {POPULATIONS[kind]} {_unit(spec)} of {_dataset(release)}{among}{by}."


def _unit(spec: Mapping[str, Any]) -> str:
    unit = str(spec["data"]["unit"])
    return "unit" if unit.startswith(PLACEHOLDER) else unit


def _dataset(release: Mapping[str, Any]) -> str:
    return str(release["dataset"]) if "dataset" in release else f"{len(release['sites'])} sites"


def _treatment(spec: Mapping[str, Any]) -> str:
    return f"{spec['treatment']}: {codes_text(spec)}."


def _outcomes(release: Mapping[str, Any]) -> str:
    spec = release["specification"]
    several = outcomes_of(spec)
    first = several[0]
    if "horizon" in first:
        unit = f" {first['unit_of_measure']}" if first["unit_of_measure"] else ""
        ended = next((row.get("restricted_to") for row in release.get("answers") or ()), None)
        return _times_to(several, unit, first["origin"], "" if ended is None else f", ended at {figure(ended)}{unit}")
    return "; ".join(f"{one['name']} ({bounds_text(one)}{_counted(one)})" for one in several) + "."


def _counted(outcome: Mapping[str, Any]) -> str:
    """Say which of two values of an outcome is counted."""
    return f"; {outcome['codes']['yes']} is counted" if outcome.get("codes") else ""


def _times_to(outcomes: Sequence[Mapping[str, Any]], unit: str, origin: str, ended: str) -> str:
    asked = "; to ".join(f"{' or '.join(one['of'])} until {figure(one['horizon'])}{unit}" for one in outcomes)
    return f"Time to {asked} (origin: {origin}){ended}."


def _events(spec: Mapping[str, Any]) -> str:
    """Return what later events, competing events and missing values count as."""
    several = outcomes_of(spec)
    outcome = several[0]
    said = [RECORDED.format(unit=_unit(spec))]
    if "horizon" in outcome and len(several) > 1:
        if any(len(one["of"]) + 1 < len(one["codes"]) for one in several):
            said.append("An event that an outcome does not count competes with it, and ends the time at risk.")
        said.append(_censored(outcome))
    elif "horizon" in outcome:
        others = [one for one in outcome["codes"] if one not in (*outcome["of"], outcome["censoring"])]
        said += [f"Competing events, which end the time at risk: {', '.join(others)}."] if others else []
        said.append(_censored(outcome))
    else:
        said += [capital(one.sentence) for one in unrecorded(spec)]
    return " ".join(said)


def _censored(outcome: Mapping[str, Any]) -> str:
    name = str(outcome["censoring"])
    return "Censored: as each site's contract names it." if name.startswith(PLACEHOLDER) else f"Censored: {name}."


def _summary(release: Mapping[str, Any]) -> str:
    spec = release["specification"]
    sides = "each arm minus the reference" if spec.get("arms") else "treated minus controls"
    outcomes = outcomes_of(spec)
    if "horizon" in outcomes[0]:
        names = {"risk": "difference of risks", "rmst": "difference of restricted mean survival times"}
        return f"{' and '.join(names[one] for one in spec['measure']).capitalize()}, {sides}."
    shares = all(one.get("codes") for one in outcomes)
    ratios = [name for name, key in RATIOS if key in (spec.get("measure") or ())]
    said = f"Difference of {'shares' if shares else 'means'}, {sides}"
    return f"{said}; {' and '.join(ratios)} beside it." if ratios else f"{said}."
