"""The estimand in the five attributes of ICH E9(R1), from what the study declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalveil.schemas.study import unrecorded_words
from causalveil.schemas.where import where_words
from causalveil.tasks.report.guidelines.variables import bounds_text, codes_text

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
    spec, curves = release["specification"], release.get("curves")
    if isinstance(curves, list) and curves:
        first = curves[0]["curves"]
        unit = f" {first['unit']}" if first["unit"] else ""
        until = "; ".join(f"{' or '.join(one['of'])}, until {one['horizon']:g}{unit}" for one in spec["outcomes"])
        return f"Time to {until} (origin: {first['origin']})."
    if isinstance(curves, Mapping):
        unit = f" {curves['unit']}" if curves["unit"] else ""
        until = release.get("restricted_to") or curves["horizon"]
        return f"Time to {curves['events'][0]} (origin: {curves['origin']}), followed until {until:g}{unit}."
    several = spec["outcomes"] if "outcomes" in spec else [spec["outcome"]]
    first = several[0]
    if "horizon" in first:
        # Of several sites there are no curves; the study that travelled says the rest.
        unit = f" {first['unit_of_measure']}" if first["unit_of_measure"] else ""
        until = "; ".join(f"{' or '.join(one['of'])}, until {one['horizon']:g}{unit}" for one in several)
        return f"Time to {until} (origin: {first['origin']})."
    return "; ".join(f"{one['name']} ({bounds_text(one)})" for one in several) + "."


def _events(spec: Mapping[str, Any]) -> str:
    """Return what later events, competing events and missing values count as."""
    several: list[Mapping[str, Any]] = spec.get("outcomes") or [spec.get("outcome") or {}]
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
        said += [f"{one[:1].upper()}{one[1:]}." for one in unrecorded_words(spec)]
    return " ".join(said)


def _censored(outcome: Mapping[str, Any]) -> str:
    name = str(outcome["censoring"])
    return "Censored: as each site's contract names it." if name.startswith(PLACEHOLDER) else f"Censored: {name}."


def _summary(release: Mapping[str, Any]) -> str:
    spec, measures = release["specification"], release.get("measures")
    if release.get("curves") or "horizon" in (spec.get("outcomes") or [spec.get("outcome") or {}])[0]:
        measures = measures or [{"measure": one} for one in spec["measure"]]
        names = {"risk": "difference of risks", "rmst": "difference of restricted mean survival times"}
        return f"{' and '.join(names[one['measure']] for one in measures).capitalize()}, treated minus controls."
    outcomes = spec["outcomes"] if "outcomes" in spec else [spec["outcome"]]
    shares = all(one.get("codes") for one in outcomes)
    ratios = [name for name, key in RATIOS if key in (spec.get("measure") or ())]
    said = f"Difference of {'shares' if shares else 'means'}, treated minus controls"
    return f"{said}; {' and '.join(ratios)} beside it." if ratios else f"{said}."
