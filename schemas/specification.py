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
    """Say what units without a treatment or an outcome count as, and the effect of that.

    The effect is how far it may move an answer.

    Of two arms whose shares without an outcome are m1 and m0, each arm's mean moves by at most its share times the
    distance from the declared value to the far end of the range (``docs/guarantees.md``).
    """
    told = []
    if specification.get("missing_treatment") == MissingTreatment.control:
        told.append(remark(PlanCode.no_treatment, column=specification["treatment"]))
    end = specification.get("missing_outcome") or MissingOutcome.refuse
    if end == MissingOutcome.refuse:
        return tuple(told)
    if end == MissingOutcome.leave_out:
        left = [f"'{one['name']}'" for one in outcomes_of(specification) if one.get("leaves_out")]
        return (*told, remark(PlanCode.outcome_left_out, columns=", ".join(left))) if left else tuple(told)
    for one in outcomes_of(specification):
        lower, upper = one["lower"], one["upper"]
        value = {"middle": lower + (upper - lower) / 2, "lower": lower, "upper": upper}[end]
        far = max(upper - value, value - lower)
        where = "the middle" if end == MissingOutcome.middle else f"the {end} end"
        told.append(remark(PlanCode.no_outcome, column=one["name"], value=float(value), place=where, far=float(far)))
    return tuple(told)


def ranges_of_parts(specification: Mapping[str, Any]) -> tuple[Remark, ...]:
    """Return warnings of combinations whose range is all that their columns allow.

    Noise is in proportion to the range.
    """
    told = []
    for one in outcomes_of(specification):
        parts = () if "horizon" in one else one.get("of") or ()
        width = sum(abs(part["times"]) * (part["upper"] - part["lower"]) for part in parts)
        if len(parts) > 1 and one["upper"] - one["lower"] >= width * (1 - 1e-9):
            told.append(remark(PlanCode.range_of_parts, name=one["name"], lower=one["lower"], upper=one["upper"]))
    return tuple(told)


def outcomes_of(specification: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the outcomes of a specification; a study of a direction has none."""
    return list(specification.get("outcomes") or ())


def one_outcome(specification: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the outcome of a study that asks about one over all units and of two arms.

    None of other studies.
    """
    asked, arms = outcomes_of(specification), specification.get("arms") or {}
    several = len(asked) != 1 or specification.get("subgroups") or len(arms.get("levels", ())) > 2
    return None if several else asked[0]


def travelling(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a specification that is the same at every site.

    It lacks what each owner's contract alone declares.

    Args:
        specification: as of ``Study.specification``; it may come from another site, so nothing is taken for granted.
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
            result[key] = {name: _without(one, keys) for name, one in value.items()}
        elif key == "outcomes" and isinstance(value, list):
            result[key] = [_travelling_outcome(one) for one in value]
        elif key == "censoring" and isinstance(value, Mapping) and isinstance(value.get("by"), Mapping):
            by = {name: _without(one, left_out["covariates"] or ()) for name, one in value["by"].items()}
            result[key] = {**value, "by": by}
        elif key == "subgroups" and isinstance(value, Mapping):
            column = _without(value.get("column"), left_out["covariates"] or ())
            result[key] = {**value, "column": column}
        elif key == "where" and isinstance(value, list):
            # A comparison asks the same whatever range an owner declares around it.
            result[key] = [_without(one, ("holds",)) for one in value]
        else:
            result[key] = _without(value, keys)
    return result


def _categories(specification: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every column of a specification that has levels, with its name, wherever it stands."""
    groups = specification.get("subgroups") or {}
    found = [
        *(specification.get("covariates") or {}).items(),
        *((specification.get("censoring") or {}).get("by") or {}).items(),
        *((one["column"], one["holds"]) for one in specification.get("where") or ()),
        (groups.get("name"), groups.get("column")),
        (specification.get("treatment"), specification.get("arms")),
    ]
    yield from ((name, column) for name, column in found if column and column.get("levels") is not None)


def level_names(specification: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the names of levels by their codes as text, of each column that has some."""
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
    """An outcome without its codes; of a time to an event the names of all events stay, in no order."""
    if not isinstance(value, Mapping) or "horizon" not in value:
        return _without(value, ("codes",))
    own = ("codes", "censoring", "upper", "step", "time_nulls", "event_nulls")
    codes, censoring = value.get("codes"), value.get("censoring")
    events = sorted(str(name) for name in codes if name != censoring) if isinstance(codes, Mapping) else codes
    return {**_without(value, own), "events": events}


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    return {key: one for key, one in value.items() if key not in keys} if isinstance(value, Mapping) else value
