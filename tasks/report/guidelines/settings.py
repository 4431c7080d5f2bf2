"""Settings of an estimator, as a description of a method says them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from causalveil.tasks.report.numbers import figure, percent

# Models by name, as details and checklists write them.
MODELS = {
    "kernel_ridge": "kernel ridge regression",
    "neural_network": "a neural network",
    "slopes": "slopes of each arm",
    "logistic": "logistic regression",
}
# Settings that are no part of a method's description, or that other sentences say.
UNTOLD = ("name", "variant", "trial", "guarantee", "effect_share")
# What is said of a private propensity model alone: where covariates are public there is none.
PRIVATE = ("budget_shares", "train_fraction", "correct_attenuation")


def settings_words(estimator: Mapping[str, Any], public: bool = False) -> str:
    """Return the settings of an estimator, separated by semicolons.

    One that is left to a rule is not among them.

    Args:
        estimator: its settings, as a document.
        public: whether covariates and treatments are public.
    """
    untold = (*UNTOLD, *PRIVATE) if public else UNTOLD
    said = [_said(key, value) for key, value in sorted(estimator.items()) if key not in untold and value is not None]
    return "; ".join(one for one in said if one)


def _said(key: str, value: Any) -> str:
    return PHRASES[key](value) if key in PHRASES else f"{key.replace('_', ' ')} {_plain(value)}"


def _prior(prior: Mapping[str, Any]) -> str:
    distance = prior["distance"]
    return (
        f"confounding prior: covariates explain {percent(prior['outcome_r2'])} of the outcome's variance, and their "
        f"index differs by {figure(distance)} standard deviation{'' if distance == 1 else 's'} between the arms"
    )


def _propensity(settings: Mapping[str, Any]) -> str:
    if settings.get("known") is not None:
        return f"known chance of treatment, {figure(settings['known'])}"
    return f"propensity model: {_model(settings['model'])}; {_clip(settings['clip'])}"


def _clip(ends: list[float]) -> str:
    return f"propensity scores clipped to {figure(ends[0])} and {figure(ends[1])}"


def _model(name: str) -> str:
    return MODELS.get(name, name.replace("_", " "))


def _parts(value: Any) -> str:
    """Shares of the budget; none where public sizes divide it."""
    if not isinstance(value, Mapping):
        return ""
    return f"shares of the budget: {_plain(value)}"


def _plain(value: Any) -> str:
    """Return any other setting."""
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')} {_plain(part)}" for key, part in value.items())
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int | float):
        return figure(value)
    return ", ".join(map(_plain, value)) if isinstance(value, list) else str(value).replace("_", " ")


PHRASES: dict[str, Callable[[Any], str]] = {
    "allowance": lambda factor: f"allowance for imbalance, factor {figure(factor)}" if factor else "",
    "budget_shares": _parts,
    "caliper": lambda width: f"caliper {figure(width)}",
    "cap": lambda cap: f"reuse of a unit capped {'adaptively' if cap == 'adaptive' else f'at {cap} times the ratio'}",
    "clip": _clip,
    "confounding_prior": _prior,
    "correct_attenuation": lambda corrected: f"attenuation {'' if corrected else 'not '}corrected",
    "coverage": lambda kind: "" if kind == "normal_approximation" else "intervals by a finite-sample bound",
    "curves": lambda looked: f"non-linear terms {'selected from the data' if looked == 'auto' else 'not looked for'}",
    "error_coefficient": lambda weight: f"error coefficient {figure(weight)}",
    "folds": lambda folds: f"{folds} folds of cross-fitting",
    "outcome_model": lambda settings: f"outcome model: {_model(settings['model'])}",
    "parts": _parts,
    "penalty": lambda penalty: f"ridge penalty {figure(penalty)}",
    "propensity": _propensity,
    "ratio": lambda ratio: f"{ratio} match{'es' if ratio > 1 else ''} for each unit",
    "train_fraction": lambda share: f"propensity model fitted on {percent(share)} of the units",
    "variance_share": lambda share: f"{percent(share)} of the outcome's budget for the variance",
    "weighting": lambda kind: f"{'Hájek' if kind == 'hajek' else 'Horvitz-Thompson'} weights",
}
