"""Fill the table of details, the estimand's attributes, and reporting checklists.

STROBE with its extensions is for observational studies of routinely collected health data: von Elm et al., STROBE,
Lancet 2007;370:1453; Benchimol et al., RECORD, PLoS Med 2015;12:e1001885; Langan et al., RECORD-PE, BMJ 2018;363:k3532;
those of cohorts where designs differ. TARGET (2025) is the target trial, and how the data emulate it: Cashin, Hansford,
Hernán et al., Transparent Reporting of Observational Studies Emulating a Target Trial: the TARGET Statement, JAMA
2025;334(12):1084-1093, doi 10.1001/jama.2025.13350. Items in our words, by their numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.limits import capital
from causalveil.schemas.release import EffectRelease, Release
from causalveil.schemas.sites.pooled import Published
from causalveil.schemas.specification import outcomes_of, unrecorded
from causalveil.schemas.where import where_words
from causalveil.tasks.report.facts import (
    MODELS,
    UnitFlow,
    asks_for_times,
    bounds_text,
    codes_text,
    facts_of,
    further_words,
    rows_text,
    times_facts,
    unit_flow,
)
from causalveil.tasks.report.numbers import arm_means, each_unit, figure, place_label

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
    "effective_units": "effective units, as weighted",
    "share": "share of units",
    "treated_share": "share of treated units",
    "treated_arm": "treated units",
    "control_arm": "control units",
    "training_units": "units of the training half",
    "test_units": "units of the test half",
    "effective_treated": "effective sample size of the treated, as weighted",
    "effective_control": "effective sample size of the controls, as weighted",
    "unlike": "differ between the arms of a trial by more than chance and noise explain",
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
OF_PLACES = ("units", "effective_units", "share", "curves")
# Labels of estimators that use a name in another meaning.
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
# Estimators that compare the arms unadjusted, whatever covariates a study declares.
AS_THEY_ARE = frozenset({"difference_in_means"})
_INDEX = re.compile(r"\[([^\]]*)\]")


def as_used(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study as used: ``unused`` are covariates that were not adjusted for."""
    named = specification.get("covariates")
    if not named or specification["estimator"]["name"] not in AS_THEY_ARE:
        return dict(specification)
    return {**specification, "covariates": {}, "unused": named}


def detail_rows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return label and value of each detail; means of arms if the estimate is their difference."""
    means = arm_means(document)
    rows = [] if means is None else [(f"mean of {arm}", text) for arm, text in means]
    for key, value in document.get("details", {}).items():
        if not key.startswith(UNSHOWN) and key not in ERRORS:
            text = MODELS.get(str(value), text_of(value)) if key == "outcome_model" else text_of(value)
            rows.append((detail_label(key, document), text))
    return rows


def detail_label(key: str, document: Mapping[str, Any]) -> str:
    """Return a detail's name in words, with its subgroup, arm or covariate."""
    name, places = key.partition("[")[0], _INDEX.findall(key)
    by_estimator = OF_ESTIMATOR.get((str(document.get("estimator")), name))
    label = by_estimator or LABELS.get(name, name.replace("_", " "))
    specification, details = document["specification"], document.get("details", {})
    if "flip_probability" in details:
        label = FLIPPED.get(name, label)
    if name == "cells" and by_estimator is None and "alone_in_cell" not in details:
        label = "subgroups times arms"
    if name in OF_PLACES:
        places = [place_label(specification, places)] if places else []
    return ", ".join([label, *places])


def text_of(value: Any) -> str:
    """Return a value as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return figure(value)
    if isinstance(value, list):
        return ", ".join(text_of(part) for part in value)
    return "–" if value is None else str(value)


RATIOS = (("risk ratios", "ratio"), ("odds ratios", "odds_ratio"))
# A pooled release's specification begins so in place of each site's unit.
PLACEHOLDER = "("
RECORDED = "Each {unit} counts in the arm that was recorded, whatever happened later (treatment policy)."


def estimand_of(release: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (attribute, sentence) of the estimand; empty if a release estimates no effect.

    Args:
        release: the document of a release of one effect, of a protocol, or of times; of one run or of several sites.
    """
    kind = release.get("estimand")
    if kind is None:
        return ()
    spec = release["specification"]
    return (
        ("Population", _population(release, str(kind))),
        ("Treatment", f"{spec['treatment']}: {codes_text(spec)}."),
        ("Outcome", _outcomes(release)),
        ("Intercurrent events", _events(spec)),
        ("Summary measure", _summary(release)),
    )


def _population(release: Mapping[str, Any], kind: str) -> str:
    spec, groups = release["specification"], release["specification"].get("subgroups")
    among = f" where {where}" if (where := where_words(spec)) else ""
    by = f", and each level of {groups['name']}" if groups else ""
    return f"{kind}: {each_unit(kind, _unit(spec))} of {_dataset(release)}{among}{by}{further_words(spec)}."


def _unit(spec: Mapping[str, Any]) -> str:
    unit = str(spec["data"]["unit"])
    return "unit" if unit.startswith(PLACEHOLDER) else unit


def _dataset(release: Mapping[str, Any]) -> str:
    return str(release["dataset"]) if "dataset" in release else f"{len(release['sites'])} sites"


def _outcomes(release: Mapping[str, Any]) -> str:
    spec = release["specification"]
    several = outcomes_of(spec)
    first = several[0]
    if "horizon" in first:
        unit = f" {first['unit_of_measure']}" if first["unit_of_measure"] else ""
        ended = next((row.get("restricted_to") for row in release.get("answers") or ()), None)
        until = "" if ended is None else f", ended at {figure(ended)}{unit}"
        events = "; to ".join(
            f"{' or '.join(outcome['of'])} until {figure(outcome['horizon'])}{unit}" for outcome in several
        )
        return f"Time to {events} (origin: {first['origin']}){until}."
    return "; ".join(f"{outcome['name']} ({bounds_text(outcome)}{_counted(outcome)})" for outcome in several) + "."


def _counted(outcome: Mapping[str, Any]) -> str:
    """Say which of two values of an outcome is counted."""
    return f"; {outcome['codes']['yes']} is counted" if outcome.get("codes") else ""


def _events(spec: Mapping[str, Any]) -> str:
    """Return how later events, competing events and missing values count."""
    several = outcomes_of(spec)
    outcome = several[0]
    sentences = [RECORDED.format(unit=_unit(spec))]
    if "horizon" in outcome and len(several) > 1:
        if any(len(other_outcome["of"]) + 1 < len(other_outcome["codes"]) for other_outcome in several):
            sentences.append("An event that an outcome does not count competes with it, and ends the time at risk.")
        sentences.append(_censored(outcome))
    elif "horizon" in outcome:
        others = [event for event in outcome["codes"] if event not in (*outcome["of"], outcome["censoring"])]
        sentences += [f"Competing events, which end the time at risk: {', '.join(others)}."] if others else []
        sentences.append(_censored(outcome))
    else:
        sentences += [capital(value.sentence) for value in unrecorded(spec)]
    return " ".join(sentences)


def _censored(outcome: Mapping[str, Any]) -> str:
    name = str(outcome["censoring"])
    return "Censored: as each site's contract names it." if name.startswith(PLACEHOLDER) else f"Censored: {name}."


def _summary(release: Mapping[str, Any]) -> str:
    spec = release["specification"]
    sides = "each arm minus the reference" if spec.get("arms") else "treated minus controls"
    outcomes = outcomes_of(spec)
    if "horizon" in outcomes[0]:
        names = {"risk": "difference of risks", "rmst": "difference of restricted mean survival times"}
        return f"{' and '.join(names[measure] for measure in spec['measure']).capitalize()}, {sides}."
    shares = all(outcome.get("codes") for outcome in outcomes)
    ratios = [name for name, key in RATIOS if key in (spec.get("measure") or ())]
    sentence = f"Difference of {'shares' if shares else 'means'}, {sides}"
    return f"{sentence}; {' and '.join(ratios)} beside it." if ratios else f"{sentence}."


@dataclass(frozen=True)
class GuidelineItem:
    """An item of a guideline, in our words.

    Attributes:
        number: as the guideline numbers it.
        asks: what is asked for.
        facts: names of the sentences (``facts_of``) that answer it, in order.
        people: the part that only the authors can write; may be empty.
    """

    number: str
    asks: str
    facts: tuple[str, ...] = ()
    people: str = ""

    def filled(self, facts: Mapping[str, str]) -> FilledItem:
        """Return the item with its sentences; without any and ``people`` it is the authors'."""
        sentences = tuple(facts[name] for name in self.facts if facts.get(name))
        people = self.people or ("" if sentences else "this item; neither study, contract nor release says it")
        return FilledItem(self.number, self.asks, sentences, people)


@dataclass(frozen=True)
class FilledItem:
    """An item with its answer. ``people``: the part that the authors have yet to write."""

    number: str
    asks: str
    says: tuple[str, ...]
    people: str

    @property
    def state(self) -> str:
        """Filled, in part, or people."""
        if not self.people:
            return "filled"
        return "in part" if self.says else "people"


@dataclass(frozen=True)
class Checklist:
    """A guideline, filled in."""

    title: str
    source: str
    items: tuple[FilledItem, ...]

    @property
    def filled(self) -> int:
        """Items that are wholly answered."""
        return sum(item.state == "filled" for item in self.items)

    @property
    def partly(self) -> int:
        """Items that are answered in part."""
        return sum(item.state == "in part" for item in self.items)


# The file of a guideline's items, its title, and where it was published.
GUIDELINES = (
    (
        "target.csv",
        "TARGET (2025): an observational study as the emulation of a target trial",
        "Cashin et al., JAMA 2025;334(12):1084–1093",
    ),
    (
        "strobe.csv",
        "STROBE",
        "von Elm et al., Lancet 2007;370:1453–1457; items of cohort studies where designs differ",
    ),
    (
        "record.csv",
        "RECORD and RECORD-PE: what they add for routinely collected data and for drugs",
        "Benchimol et al., PLoS Med 2015;12:e1001885; Langan et al., BMJ 2018;363:k3532",
    ),
)


@lru_cache(maxsize=len(GUIDELINES))
def items_of(file: str) -> tuple[GuidelineItem, ...]:
    """Return the items of a guideline from its file, in order.

    Raises:
        CausalveilError: this installation lacks the file.

    Example:
        >>> items_of("strobe.csv")[3]
        GuidelineItem(number='3', asks='objectives and hypotheses', facts=('question', 'declared'), people='')
    """
    try:
        text = Path(__file__).with_name("templates").joinpath(file).read_text(encoding="utf-8")
    except OSError:
        raise CausalveilError(f"this installation lacks the guideline {file}; install causalveil anew") from None
    rows = csv.DictReader(text.splitlines())
    return tuple(GuidelineItem(row["number"], row["asks"], tuple(row["facts"].split()), row["people"]) for row in rows)


def checklists(
    release: Mapping[str, Any], arms: Mapping[str, Any], flow: UnitFlow, contract: Contract | None
) -> tuple[Checklist, ...]:
    """Return the checklists TARGET, STROBE, RECORD-PE of an observational study; none of trials.

    Args:
        release: the document of a release of effects.
        arms: how units came into the arms.
        flow: of its units.
        contract: the owner's, where it is at hand.
    """
    if arms["randomised"]:
        return ()
    facts = facts_of(release, arms, flow, contract)
    if asks_for_times(release["specification"]):
        facts |= times_facts(release, facts, dict(estimand_of(release)))
    return tuple(
        Checklist(title, source, tuple(item.filled(facts) for item in items_of(file)))
        for file, title, source in GUIDELINES
    )


def guidelines_context(
    release: Published, document: Mapping[str, Any], arms: Mapping[str, Any], contract: Contract | None
) -> dict[str, Any]:
    """Return ``flow``, ``contract`` and ``checklists`` for the templates.

    A pooled release has no flow of its own, and only effects of one run have checklists.
    """
    if not isinstance(release, Release):
        return {"flow": None, "checklists": None}
    flow = unit_flow(document, rows_text(contract) if contract and contract.rows else "")
    if not isinstance(release, EffectRelease):
        return {"flow": flow, "checklists": None}
    return {"flow": flow, "contract": contract, "checklists": checklists(document, arms, flow, contract)}
