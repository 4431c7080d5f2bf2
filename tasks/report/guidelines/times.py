"""Sentences that answer a guideline's items of a study of times to an event.

They take the place of those that speak of one measured outcome, and use the sentences of the estimand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalveil.schemas.specification import outcomes_of
from causalveil.tasks.report.guidelines.facts import INDEPENDENCE, METHODS, OVERLAP, over_whom
from causalveil.tasks.report.table import lost_within

CURVES = METHODS["survival"]


def asks_for_times(specification: Mapping[str, Any]) -> bool:
    """Return whether a study in full asks for times to an event."""
    return any("horizon" in one for one in outcomes_of(specification))


def times_facts(release: Mapping[str, Any], facts: Mapping[str, str], estimand: Mapping[str, str]) -> dict[str, str]:
    """Return the sentences of a release on times, of one question or of a protocol.

    Args:
        release: its document.
        facts: what any release says of itself.
        estimand: sentences by attribute (``estimand_of``).
    """
    spec, kind = release["specification"], release["estimand"]
    outcomes = outcomes_of(spec)
    first, whom = outcomes[0], over_whom(spec, kind)
    unit = f" {first['unit_of_measure']}" if first.get("unit_of_measure") else ""
    events = " or ".join(dict.fromkeys(event for one in outcomes for event in one["of"]))
    start = f"Times begin at '{first['origin']}' and are compared until "
    start += f"{' and '.join(f'{at:g}' for at in sorted({one['horizon'] for one in outcomes}))}{unit}."
    losses = f"Within {_within(release)}, losses to follow-up are taken to say nothing of the event."
    measure = estimand["Summary measure"]
    return {
        "question": f"How {spec['treatment']} changes the time to {events}, on average over {whom}.",
        "outcomes": estimand["Outcome"],
        "contrast": f"{kind}, over {whom}: {measure[:1].lower()}{measure[1:]} {_relative(release)}",
        "clipped": "Times count by the interval in which they end."
        + (f" Of covariates: {facts['clipped'][:1].lower()}{facts['clipped'][1:]}" if spec.get("covariates") else ""),
        "start": start,
        "losses": losses,
        "follow_up": f"{start} {estimand['Intercurrent events']} {losses}",
        "at_risk": "Numbers at risk over time, with noise, stand below the curves.",
        "design": facts["design"].replace("; one time point.", f"; units are followed from '{first['origin']}'."),
        "analysis": facts["analysis"].replace(CURVES, f"{CURVES}, and regression of pseudo-outcomes on covariates", 1)
        if spec.get("covariates")
        else facts["analysis"],
        "assumptions": f"{_confounding(spec)}; independent censoring within {_within(release)}; {INDEPENDENCE}.",
        "means": "Curves of each arm, with noise, stand in the report; adjusted ones are not released."
        if spec.get("covariates")
        else "Curves of each arm, with noise, stand in the report.",
    }


def _within(release: Mapping[str, Any]) -> str:
    """Return within what losses are taken to be independent of the event."""
    by = lost_within(release["specification"]).get("by")
    pooled = (release.get("details") or {}).get("pooled_strata")
    levels = "a level" if not pooled else "a level (pooled where noise hides it)"
    return "an arm" if not by else f"an arm and {levels} of {' and '.join(by)}"


def _confounding(spec: Mapping[str, Any]) -> str:
    if not spec.get("covariates"):
        return "No confounding beyond the size that the confounding prior assumes"
    where = "every arm" if spec.get("arms") else "both arms"
    return f"No unmeasured confounding given {', '.join(spec['covariates'])}; {OVERLAP.format(where)}"


def _relative(release: Mapping[str, Any]) -> str:
    """Say whether tests and ratios of hazards stand beside the differences."""
    if any(row.get("log_rank") for row in release["answers"]):
        adjusted = ", not adjusted," if release["specification"].get("covariates") else ""
        return f"Log-rank tests and hazard ratios{adjusted} stand beside it."
    return "No relative measure is released."
