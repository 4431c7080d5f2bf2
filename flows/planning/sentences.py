"""Sentences of `plan` that estimators of an effect share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalveil.schemas.plan import ASSUMED_ELIGIBLE, StandIn
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.inference.people import Foreseen, Rehearsed
from causalveil.tasks.report.numbers import confidence_level

# The warning of arms that are compared as they are.
UNADJUSTED = (
    "no covariate is adjusted for: the interval allows for the declared confounding alone. Declare trial: true if "
    "treatment was randomised; else estimator 'auto' adjusts as far as size and budget allow."
)
# Said where a study has ``where`` and the plan's reader states no share.
ELIGIBLE_NOT_TOLD = (
    f"Not told: the share of units that are eligible, assumed to be {ASSUMED_ELIGIBLE:g}: state it with `--eligible`."
)


def put_into(numbers: dict[str, Any], found: Rehearsed) -> None:
    """Replace the numbers of formulas by those of a rehearsal."""
    numbers |= {
        "half_width": found.half_width,
        "noise_standard_error": found.noise,
        "sampling_standard_error": found.sampling,
    }
    if found.low is not None:
        numbers["half_width_range"] = [found.low, found.high]
    if isinstance(found, Foreseen):
        numbers["treated"] = found.treated


def say_interval(study: EffectStudy, numbers: Mapping[str, Any]) -> str:
    """Return the expected interval and what it is made of: ``numbers`` in outcome units."""
    return (
        f"Expected {confidence_level(study.confidence)} interval: estimate ± {numbers['half_width']:.4g} (standard "
        f"error {numbers['sampling_standard_error']:.3g} from sampling, {numbers['noise_standard_error']:.3g} from "
        f"noise), for a treated share of {numbers['treated']:g}."
    )


def say_people(found: Foreseen, stand_in: StandIn) -> str:
    """State whose columns the plan used, and what decides between the ends of its range."""
    return (
        "Covariates and treatments are public, so weights, their noise and the imbalance that they leave are those of "
        f"the people in the data folder. No outcome was read: the half-width comes to between {found.low:.4g} and "
        f"{found.high:.4g}, by how far what covariates explain of the outcome (assumed: {stand_in.explained:.0%}) "
        "follows what treatment follows, and by how large the effect is."
    )


def say_effects(found: Rehearsed) -> str:
    """State the range of half-widths by the size of the effect, where treatment is randomised."""
    return (
        f"Depending on the size of the effect, expect ± {found.low:.4g} to ± {found.high:.4g}: from none to one "
        "standard deviation of the outcome within arms."
    )


def say_imbalance(found: Rehearsed) -> str:
    """State the bias that the interval allows for imbalance which public weights leave."""
    bias = found.bias
    if isinstance(found, Foreseen):
        return f"It allows for a bias of {bias:.3g} by what imbalance the weights leave."
    return (
        f"It allows for a bias of {bias:.3g} by what imbalance is left where treatment follows a line in the "
        "covariates. Where it follows curves or products more is left, measured and allowed for: the interval may be "
        "several times wider, and the release says partly adjusted."
    )


def say_effect(effect: float, numbers: dict[str, Any], sentences: list[str], warnings: list[str]) -> None:
    """Say whether an effect of this size is larger than the half-width that is expected."""
    drowned = numbers["half_width"] >= abs(effect)
    numbers["effect"], numbers["drowned"] = effect, drowned
    half = f"the expected half-width, {numbers['half_width']:.3g}"
    if drowned:
        warnings.append(f"{half}, is larger than an effect of {effect:g}.")
    else:
        sentences.append(f"An effect of {effect:g} is larger than {half}.")
