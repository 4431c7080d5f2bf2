"""Read the specification of a study: a plain document, which may come from another site.

It says what units without a treatment or an outcome count as, what travels between sites, and how levels are called.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from causalveil.schemas.columns import (
    codes_of,
)
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.study import MissingOutcome, MissingTreatment


def unrecorded(specification: Mapping[str, Any]) -> tuple[Remark, ...]:
    """State how units without treatment or outcome count, and how far that may move answers.

    Of two arms whose shares without an outcome are m1 and m0, each arm's mean moves by at most its share times the
    distance from the declared value to the far end of the range (``docs/guarantees.md``).
    """
    remarks = []
    if specification.get("missing_treatment") == MissingTreatment.control:
        remarks.append(remark(PlanCode.no_treatment, column=specification["treatment"]))
    choice = specification.get("missing_outcome") or MissingOutcome.refuse
    if choice == MissingOutcome.refuse:
        return tuple(remarks)
    if choice == MissingOutcome.leave_out:
        names = [f"'{outcome['name']}'" for outcome in outcomes_of(specification) if outcome.get("leaves_out")]
        return (*remarks, *([remark(PlanCode.outcome_left_out, columns=", ".join(names))] if names else []))
    for outcome in outcomes_of(specification):
        name, lower, upper = outcome["name"], outcome["lower"], outcome["upper"]
        value = {"middle": lower + (upper - lower) / 2, "lower": lower, "upper": upper}[choice]
        far = max(upper - value, value - lower)
        where = "the middle" if choice == MissingOutcome.middle else f"the {choice} end"
        remarks.append(remark(PlanCode.no_outcome, column=name, value=float(value), place=where, far=float(far)))
    return tuple(remarks)


def ranges_of_parts(specification: Mapping[str, Any]) -> tuple[Remark, ...]:
    """Return warnings of combinations with the widest range, by which noise is scaled."""
    warnings = []
    for outcome in outcomes_of(specification):
        parts = () if "horizon" in outcome else outcome.get("of") or ()
        width = sum(abs(part["times"]) * (part["upper"] - part["lower"]) for part in parts)
        lower, upper = outcome.get("lower", 0.0), outcome.get("upper", 0.0)
        if len(parts) > 1 and upper - lower >= width * (1 - 1e-9):
            warnings.append(remark(PlanCode.range_of_parts, name=outcome["name"], lower=lower, upper=upper))
    return tuple(warnings)


def outcomes_of(specification: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the outcomes of a specification; a study of a direction has none."""
    return list(specification.get("outcomes") or ())


def one_outcome(specification: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the outcome of a study of one outcome, over all units and of two arms; else None."""
    outcomes, arms = outcomes_of(specification), specification.get("arms") or {}
    several = len(outcomes) != 1 or specification.get("subgroups") or len(arms.get("levels", ())) > 2
    return None if several else outcomes[0]


def travelling(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a specification that is the same at every site.

    Args:
        specification: of ``Study.specification``, or any document of another site.
    """
    left_out = {
        "data": ("unit", "blocks"),
        "treatment_codes": None,
        "covariates": ("codes", "known", "others", "nulls", "names"),
        "arms": ("names",),
        "clusters": ("number", "spread", "treated", "subgroups"),
    }
    result: dict[str, Any] = {}
    for key, value in specification.items():
        keys = left_out.get(key, ())
        if keys is None:
            continue
        if key == "covariates" and isinstance(value, Mapping):
            result[key] = {name: _without(column, keys) for name, column in value.items()}
        elif key == "outcomes" and isinstance(value, list):
            result[key] = [_travelling_outcome(outcome) for outcome in value]
        elif key == "censoring" and isinstance(value, Mapping) and isinstance(value.get("by"), Mapping):
            by = {name: _without(column, left_out["covariates"] or ()) for name, column in value["by"].items()}
            result[key] = {**value, "by": by}
        elif key == "subgroups" and isinstance(value, Mapping):
            column = _without(value.get("column"), left_out["covariates"] or ())
            result[key] = {**value, "column": column}
        elif key == "where" and isinstance(value, list):
            # A comparison does not depend on the declared range.
            result[key] = [_without(condition, ("holds",)) for condition in value]
        else:
            result[key] = _without(value, keys)
    return result


def _categories(specification: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every column of a specification that has levels, with its name."""
    groups = specification.get("subgroups") or {}
    columns = [
        *(specification.get("covariates") or {}).items(),
        *((specification.get("censoring") or {}).get("by") or {}).items(),
        *((condition["column"], condition["holds"]) for condition in specification.get("where") or ()),
        (groups.get("name"), groups.get("column")),
        (specification.get("treatment"), specification.get("arms")),
    ]
    yield from ((name, column) for name, column in columns if column and column.get("levels") is not None)


def level_names(specification: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the names of levels by their codes as text, of each column with names."""
    return {
        name: {str(code): label for label, code in codes_of(column["names"], column["levels"]).items()}
        for name, column in _categories(specification)
        if column.get("names")
    }


def with_level_names(specification: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return a specification whose levels have these names."""
    result = copy.deepcopy(dict(specification))
    for name, column in _categories(result):
        if name in names:
            column["names"] = [names[name][str(code)] for code in column["levels"]]
    return result


def _travelling_outcome(value: Any) -> Any:
    """Return an outcome without the contract's own keys; a time with sorted events."""
    if not isinstance(value, Mapping) or "horizon" not in value:
        return _without(value, ("codes",))
    own = ("codes", "censoring", "upper", "step", "time_nulls", "event_nulls")
    codes, censoring = value.get("codes"), value.get("censoring")
    events = sorted(str(name) for name in codes if name != censoring) if isinstance(codes, Mapping) else codes
    return {**_without(value, own), "events": events}


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    return {key: item for key, item in value.items() if key not in keys} if isinstance(value, Mapping) else value
