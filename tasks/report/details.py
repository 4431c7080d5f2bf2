"""Rows of a report's table of details, in the field's words.

What was released beside the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from causalveil.tasks.report.numbers import arm_label, arm_means, figure, group_label

# Details that a page says elsewhere, or that would be taken for the two sides of the estimate.
UNSHOWN = (
    *("not_covered", "adjustment", "mean_treated", "mean_control", "choice", "curves", "confounding_adjusted_for"),
    # Whether nothing can be said is the answer's to say, which knows the whole interval.
    *("effective_share", "drowned"),
)
LABELS = {
    # Errors
    "noise_standard_error": "standard error of the privacy noise",
    "sampling_standard_error": "standard error of sampling",
    "sampling_standard_error_upper": "standard error of sampling, upper bound that the interval uses",
    "denominator_clamped": "a noisy denominator was set to its smallest allowed value",
    "spread": "standard deviation of the outcome within arms",
    # Units and arms
    "units": "units",
    "share": "share of the subgroup's units",
    "treated_share": "share of treated units",
    "treated_arm": "treated units",
    "control_arm": "control units",
    "training_units": "units of the training half",
    "test_units": "units of the test half",
    "effective_treated": "effective sample size of the treated, as weighted",
    "effective_control": "effective sample size of the controls, as weighted",
    "effective_controls": "effective sample size of the controls, as weighted",
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
    "largest_weight": "largest weight of a unit",
    "variance_share": "share of the privacy budget for the variance",
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
    "flip_probability": "chance that a treatment was randomised for privacy",
    "attenuation_factor": "attenuation of the estimate by noise on treatments, as a factor",
    "attenuation_corrected": "attenuation was corrected",
    "cells": "cells",
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
    "intervals": "intervals of time",
    "followed_until": "time until which enough units are followed",
    "still_followed": "share of units still followed at the horizon",
    "residual_movement_bound": "most that one unit can move another's residual",
    "iqr_bin": "width of the bins of the interquartile range",
    "bandwidth": "bandwidth of the kernel",
}
# Words of an estimator that has another thing of the same name.
OF_ESTIMATOR = {
    ("matching", "cap_treated"): "most matches allowed for a treated unit",
    ("matching", "cap_controls"): "most matches allowed for a control unit",
    ("survival", "cells"): "numbers in the one release of cells",
}
_INDEX = re.compile(r"\[([^\]]*)\]")


def detail_rows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return label and value of each detail.

    Means of arms are among them only if the estimate is their difference.
    """
    means = arm_means(document)
    rows = [] if means is None else [(f"mean of {arm}", text) for arm, text in means]
    for key, value in document.get("details", {}).items():
        if not key.startswith(UNSHOWN):
            rows.append((detail_label(key, document), text_of(value)))
    return rows


def detail_label(key: str, document: Mapping[str, Any]) -> str:
    """Return a detail's name in words, with the subgroup, arm, covariate or fold that it is of."""
    name, places = key.partition("[")[0], _INDEX.findall(key)
    words = OF_ESTIMATOR.get((str(document.get("estimator")), name)) or LABELS.get(name, name.replace("_", " "))
    specification = document["specification"]
    if document.get("kind") == "protocol":
        of = (group_label, arm_label)
        places = [label(specification, place) for label, place in zip(of, places, strict=False)]
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
