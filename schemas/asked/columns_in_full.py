"""Complete one column of a study by the contract of its data.

Of ranges, levels, codes, times and comparisons. Kinds, codes, levels and nulls come from the contract; from the study
come narrower ranges and fewer levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from causalveil.schemas.asked.columns import AskedArms, AskedCovariate, AskedNumber, AskedTimes, Clipping
from causalveil.schemas.asked.study_file import EffectStudyFile
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import CodesColumn, Declared, EventColumn, LevelsColumn, NumberColumn, TimeColumn
from causalveil.schemas.documents import Breach
from causalveil.schemas.mistakes import nearest, plain_message
from causalveil.schemas.study import (
    UNRECORDED,
    Missing,
    Others,
    YesOrNo,
)
from causalveil.schemas.where import AskedWhere, Condition


class Problems(list[Breach]):
    """Contradictions of a study and its contract, as they are found."""

    def add(self, place: str, said: str, *names: str) -> None:
        """Add one at a place of the study file; ``names``: see ``Breach``."""
        self.append(Breach(place, f"'{place}': {said}", names))


def unrecorded(asked: EffectStudyFile) -> dict[str, str]:
    """Return the file's choices for units without treatment or outcome, ``refuse`` by default."""
    return {key: getattr(asked, key) or "refuse" for key in UNRECORDED}


def outcome_in_full(
    one: AskedNumber,
    place: str,
    asked: EffectStudyFile,
    contract: Contract | None,
    problems: Problems,
) -> dict[str, Any]:
    """Return an outcome in full; what nulls of it count as, the study says."""
    number = number_in_full(one.name, place, one, contract, problems, keep=("codes",))
    declared = None if contract is None else contract.offered.get(one.name)
    ask_what_nulls_count_as(declared, place.partition(".")[0], one.name, asked, problems)
    return {"name": one.name, **number}


# Stands for the name of censoring, and for the least step of times, where no contract is at hand.
UNKNOWN_CENSORING = "(the contract's censoring)"


UNKNOWN_STEP = 1e-9


def times_in_full(
    times: AskedTimes, place: str, contract: Contract | None, problems: Problems
) -> dict[str, Any] | None:
    """Return a time and its event in full; None where they are not declared so."""
    if contract is None:
        return _travelling_times(times, place, problems)
    time = declared_column(times.time, f"{place}.time", contract, problems)
    event = declared_column(times.event, f"{place}.event", contract, problems)
    if time is not None and not isinstance(time, TimeColumn):
        problems.add(
            f"{place}.time",
            f"column '{times.time}' is no time in the contract; its owner declares it as "
            f"{times.time}: {{time: {{upper: .., origin: ..}}}}",
        )
    if event is not None and not isinstance(event, EventColumn):
        problems.add(
            f"{place}.event",
            f"column '{times.event}' has no events in the contract; its owner declares it as "
            f"{times.event}: {{event: {{censored: 0, NAME: 1}}}}",
        )
    if not (isinstance(time, TimeColumn) and isinstance(event, EventColumn)):
        return None
    _declared_alike(times, place, time, event, problems)
    return {
        "time": times.time,
        "event": times.event,
        "of": times.of or times.events or tuple(name for name in event.kinds if name != event.censoring),
        "horizon": times.horizon,
        "unit_of_measure": time.unit_of_measure,
        **time.time.model_dump(),
        "codes": event.kinds,
        "censoring": event.censoring,
        "time_nulls": time.nulls,
        "event_nulls": event.nulls,
    }


def _travelling_times(times: AskedTimes, place: str, problems: Problems) -> dict[str, Any] | None:
    """Return a time and its event as a study that travels declares them by itself.

    Codes, the name of censoring and the longest time are each contract's own; what stands for them is in no digest.
    """
    if times.events is None or times.origin is None:
        problems.add(
            place,
            "no contract is at hand, so the study must declare 'events', all that end follow-up, and "
            "'origin', and 'unit_of_measure' if the contracts name one, each as every contract has it",
        )
        return None
    return {
        "time": times.time,
        "event": times.event,
        "of": times.of or times.events,
        "horizon": times.horizon,
        "unit_of_measure": times.unit_of_measure,
        "upper": times.horizon,
        "origin": times.origin,
        "step": min(UNKNOWN_STEP, times.horizon),
        "codes": {name: place for place, name in enumerate((UNKNOWN_CENSORING, *times.events))},
        "censoring": UNKNOWN_CENSORING,
    }


def _declared_alike(times: AskedTimes, place: str, time: TimeColumn, event: EventColumn, problems: Problems) -> None:
    """Hold what a study says of times and events itself to the contract."""
    declared = [name for name in event.kinds if name != event.censoring]
    if times.events is not None and set(times.events) != set(declared):
        problems.add(f"{place}.events", f"the contract's events are {_quoted(declared)}")
    if times.origin is not None and times.origin != time.time.origin:
        problems.add(f"{place}.origin", f"the contract's times begin at '{time.time.origin}'")
    if times.unit_of_measure is not None and times.unit_of_measure != time.unit_of_measure:
        named = "names none" if time.unit_of_measure is None else f"has '{time.unit_of_measure}'"
        problems.add(f"{place}.unit_of_measure", f"the contract {named}; 'horizon' is in its unit")


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def conditions_in_full(
    asked: AskedWhere,
    contract: Contract | None,
    problems: Problems,
    covariates: Mapping[str, AskedCovariate],
) -> list[dict[str, Any]]:
    """Return comparisons with what is declared of their columns; each is checked by itself.

    The contract declares them; a study that travels without one does by itself, for its covariates.
    """
    found = []
    for place, one in enumerate(asked, 1):
        if contract is None and one.column not in covariates:
            problems.add(
                f"where.{place}",
                f"no contract is at hand that declares '{one.column}'; make it a covariate with its "
                "range or levels, or put the contract in place",
            )
            continue
        before = len(problems)
        declared = AskedCovariate() if contract is not None else covariates[one.column]
        holds = covariate_in_full(one.column, declared, contract, problems, f"where.{place}")
        if len(problems) > before:
            continue
        try:
            offered = None if contract is None else contract.offered.get(one.column)
            found.append(Condition.model_validate(one.in_full(holds, offered)).model_dump())
        except ValidationError as wrong:
            said = "; ".join(plain_message(error, "") for error in wrong.errors())
            problems.add(f"where.{place}", said)
    return found


def arms_in_full(arms: AskedArms, treatment: str, column: Declared | None, problems: Problems) -> dict[str, Any]:
    """Return a treatment of several arms in full: all levels that the contract declares."""
    declared: tuple[str | int, ...] | None = None
    asked, reference, names = arms.levels, arms.reference, None
    if isinstance(column, CodesColumn):
        declared = column.codes.pair
    elif isinstance(column, LevelsColumn):
        declared, names, reference = column.codes, column.names, column.coded(reference)
        asked = None if asked is None else tuple(map(column.coded, asked))
        if column.others is Others.other:
            problems.add("arms", f"column '{treatment}' may hold other values than its levels")
    elif column is not None:
        problems.add("arms", f"column '{treatment}' has no levels in the contract")
    if declared is not None and asked is not None and set(asked) != set(declared):
        problems.append(Breach("arms.levels", "'arms.levels' are not the contract's; leave them out"))
    if declared is not None and reference not in declared:
        problems.add("arms.reference", f"'{arms.reference}' is no level of '{treatment}' in the contract")
    if declared is None and column is None and asked is None:
        problems.add("arms", "no contract is at hand, so the study must declare 'levels'")
    return {"reference": reference, "levels": declared or asked, "names": names}


def declared_column(name: str, place: str, contract: Contract | None, problems: Problems) -> Declared | None:
    """Return the contract's declaration of a column, or None.

    A problem is added if the contract leaves the column's range open or does not declare it.
    """
    if contract is None:
        return None
    if name in contract.open_ranges:
        problems.add(
            place,
            f"the contract of '{contract.dataset}' leaves the range of '{name}' open; its owner moves it "
            f"from 'open_ranges' to 'columns', as {name}: {{lower: .., upper: ..}}, or finds one by `causalveil "
            "ranges`",
        )
        return None
    if name not in contract.offered:
        known = ", ".join(f"'{one}'" for one in list(contract.offered)[:20])
        asked = nearest(name, contract.offered, 0.6).rstrip("?")
        problems.add(
            place, f"the contract of '{contract.dataset}' declares no column '{name}'{asked}; it has {known}", name
        )
        return None
    return contract.offered[name]


# By the place of a column in a study: how the study says what its nulls count as.
_COUNTED = {
    "treatment": ("missing_treatment", "'missing_treatment: control' (not recorded as treated)"),
    "outcome": ("missing_outcome", "'missing_outcome: middle' (of its declared range), 'lower' or 'upper'"),
}


def ask_what_nulls_count_as(
    column: Declared | None,
    place: str,
    name: str,
    asked: EffectStudyFile,
    problems: Problems,
) -> None:
    """Ask for what a treatment or an outcome that may be null counts as.

    No row is left out for it.
    """
    key, says = _COUNTED[place.removesuffix("s")]
    if column is not None and column.nulls is Missing.indicator and unrecorded(asked)[key] == "refuse":
        problems.add(place, f"column '{name}' may hold nulls; say what they count as: {says}")


def number_in_full(
    name: str,
    place: str,
    asked: Clipping,
    contract: Contract | None,
    problems: Problems,
    keep: tuple[str, ...] = ("codes", "nulls", "scale"),
) -> dict[str, Any]:
    """Return a range: the study's ends, else the contract's; 0 and 1 for codes.

    ``keep``: what else of the declaration is told.
    """
    column = declared_column(name, place, contract, problems)
    if isinstance(column, LevelsColumn):
        problems.add(place, f"column '{name}' has levels in the contract; name a column with a range or codes")
        return {}
    if isinstance(column, TimeColumn | EventColumn):
        what = "a time to an event" if isinstance(column, TimeColumn) else "what ended follow-up"
        problems.add(
            place,
            f"column '{name}' is {what} in the contract, and no plain number; estimator 'survival' reads "
            "it, as 'outcome: {time: .., event: .., horizon: ..}'",
        )
        return {}
    covariate = place.startswith("covariates")
    ends: Mapping[str, Any] = {}
    extra: dict[str, Any] = {}
    if isinstance(column, NumberColumn):
        ends, extra = {"lower": column.lower, "upper": column.upper}, {"nulls": column.nulls, "scale": column.scale}
    elif isinstance(column, CodesColumn):
        codes = dict(zip(YesOrNo.model_fields, column.codes.written, strict=True))
        ends, extra = {"lower": 0.0, "upper": 1.0}, {"codes": codes, "nulls": column.nulls}
    elif contract is None and (asked.lower is None or asked.upper is None):
        problems.add(
            place,
            f"no contract is at hand, so the study must declare the range of '{name}': {{lower, upper}}"
            + (", or its levels: {levels: [a, b]}; two codes are {lower: 0, upper: 1}" if covariate else ""),
        )
    given = {key: value for key in ("lower", "upper") if (value := getattr(asked, key)) is not None}
    return {**ends, **given, **{key: value for key, value in extra.items() if key in keep}}


def covariate_in_full(
    name: str, asked: AskedCovariate, contract: Contract | None, problems: Problems, place: str = ""
) -> dict[str, Any]:
    """Return a covariate in full.

    Its kind is the contract's; the study may narrow its range or leave levels out.
    """
    place = place or f"covariates.{name}"
    column = None if contract is None else contract.offered.get(name)
    if asked.levels is None and not isinstance(column, LevelsColumn):
        found = number_in_full(name, place, asked, contract, problems)
        return found if asked.scale is None else found | {"scale": asked.scale}
    if contract is None:
        return {"levels": asked.levels}
    column = declared_column(name, place, contract, problems)
    if column is None:
        return {}
    if not isinstance(column, LevelsColumn):
        codes = isinstance(column, CodesColumn)
        what = "two codes" if codes else "a number"
        way = ", or write {lower: 0, upper: 1}" if codes else ""
        problems.add(place, f"the contract declares {what}, not levels; remove 'levels'{way}")
        return {}
    if asked.lower is not None or asked.upper is not None:
        problems.add(place, "the contract declares levels, not a range; remove 'lower' and 'upper'")
    if asked.scale is not None:
        problems.add(place, "the contract declares levels, which have no scale; remove 'scale'")
    levels = column.codes if asked.levels is None else tuple(map(column.coded, asked.levels))
    unknown = [level for level in levels if level not in column.codes]
    if unknown:
        known = () if column.names is None else column.names
        meant = nearest(str(unknown[0]), known, 0.6) if isinstance(unknown[0], str) else ""
        problems.add(
            place,
            f"'{unknown[0]}' is no level in the contract{meant.rstrip('?')}; a study can leave levels out, not add any",
        )
    fewer = set(levels) < set(column.codes)
    named = None if column.names is None or unknown else dict(zip(column.codes, column.names, strict=True))
    return {
        "levels": levels,
        "names": None if named is None else tuple(named[level] for level in levels),
        "others": Others.other if fewer else column.others,
        "known": column.codes if fewer and column.others is Others.refuse else None,
        "nulls": column.nulls,
    }
