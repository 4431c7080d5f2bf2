"""This project's own estimators beside the competitors', each as a study runs it."""

from __future__ import annotations

from functools import partial
from typing import Any

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.asked.study_file import AutoEstimator, options
from causalveil.schemas.study import PrivacyRequest
from causalveil.tasks.data.enclave import MemoryEnclave
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil_replication.competitors.competitor import DELTA, PROVED, REPLACE_ONE, Competitor, Fitted, Instance

# What an estimator that adjusts for nothing gives: no rival, but what a rival's win is held against.
UNADJUSTED = "difference_label"


def studied(instance: Instance, estimator: dict[str, Any], level: str, delta: str) -> Fitted:
    """A study by one of our estimators; it has no estimate without noise of its own."""
    enclave = MemoryEnclave.of(instance.rows)
    settings = {**estimator, "penalty": instance.penalty} if estimator["name"] == "matching" else dict(estimator)

    def release(epsilon: str, budget: Budget) -> float:
        return rehearse_effect(instance.study_of(settings, epsilon, delta, level), enclave, budget).estimate

    return Fitted(None, release)


def automatic(level: str) -> tuple[dict[str, Any], str]:
    """Return settings and delta of ``estimator: auto`` where treatment was not randomised."""
    asked = PrivacyRequest.model_validate({"epsilon": "1", "delta": DELTA, "level": level})
    (settings, privacy), *others = options(AutoEstimator(name="auto"), asked)
    if others:
        raise TypeError("'auto' has more than one answer at a level")
    return settings.model_dump(mode="json"), "0" if privacy.delta == 0 else DELTA


def _ours(name: str, title: str, level: str, estimator: dict[str, Any], delta: str) -> Competitor:
    fit = partial(studied, estimator=estimator, level=level, delta=delta)
    return Competitor(name, title, level, REPLACE_ONE, PROVED, delta, fit, ours=True)


def _automatic(level: str) -> Competitor:
    settings, delta = automatic(level)
    return _ours(f"auto_{level}", f"auto ({settings['name']})", level, settings, delta)


COMPETITORS = (
    _automatic("label"),
    _ours("matching_label", "matching", "label", {"name": "matching"}, "0"),
    _ours(
        "matching_label_paper",
        "matching, the paper's two draws",
        "label",
        {"name": "matching", "variant": "paper"},
        "0",
    ),
    _ours("ipw_label", "weighting", "label", {"name": "ipw"}, "0"),
    _ours(UNADJUSTED, "difference of means, unadjusted", "label", {"name": "difference_in_means"}, "0"),
    _automatic("sample"),
    _ours("matching_sample", "matching", "sample", {"name": "matching", "correct_attenuation": False}, "0"),
    _ours(
        "matching_corrected", "matching, corrected", "sample", {"name": "matching", "correct_attenuation": True}, "0"
    ),
    _ours("ipw_sample", "weighting", "sample", {"name": "ipw"}, DELTA),
)
