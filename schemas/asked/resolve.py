"""A study file and the owner's contract -> one study in full, which is all that stages see.

Kinds, codes, levels, nulls, the unit and the blocks come from the contract. From the study come names, narrower
ranges and fewer levels, which are public and apply to every row; so no row can make a study fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from pydantic import ValidationError

from causalveil.schemas.asked.columns import AskedArms, AskedCovariate, AskedNumber, AskedTimes, Clipping
from causalveil.schemas.asked.shorthands import AutoEstimator
from causalveil.schemas.asked.study_file import (
    DirectionStudyFile,
    EffectStudyFile,
    ProtocolStudyFile,
    StudyFile,
    SurvivalProtocolFile,
    SurvivalStudyFile,
)
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import CodesColumn, Declared, EventColumn, LevelsColumn, NumberColumn, TimeColumn
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.estimators.survival import equal_classes
from causalveil.schemas.execution import Execution
from causalveil.schemas.mistakes import nearest, validate
from causalveil.schemas.privacy import Level
from causalveil.schemas.studies import STUDIES
from causalveil.schemas.study import (
    UNRECORDED,
    Missing,
    Others,
    Study,
)
from causalveil.schemas.where import AskedWhere, Condition

# Stands for the unit where no contract is at hand, as when a study is planned or pooled.
UNKNOWN_UNIT = "(the contract's unit)"
Problems = list[str]
_Compares: TypeAlias = EffectStudyFile | ProtocolStudyFile | SurvivalStudyFile | SurvivalProtocolFile


def resolve(
    asked: StudyFile, contract: Contract | None, where: str = "study", execution: Execution | None = None
) -> Study:
    """Complete a study by the contract of its data.

    Args:
        asked: the study file.
        contract: of the data; None where it is not at hand, and the study must then declare every column itself.
        where: the study's path, for messages.
        execution: how stages run here, the operator's word.

    Raises:
        ContractError: the contract does not let these columns play these roles.
        StudyError: the study contradicts the contract, leaves out what no contract says, or cannot be proved.
    """
    if isinstance(asked.estimator, AutoEstimator):
        raise StudyError(f"{where}: 'auto' chooses by the number of units of one site; name an estimator")
    document, problems = completed(asked, contract, execution)
    if problems:
        raise StudyError(f"{where}: " + "; ".join(problems))
    if private := not_public_enough(asked, contract):
        raise ContractError(f"{where}: {private[0]}")
    return validate(STUDIES[asked.kind][asked.estimator.name], document, where)


def completed(
    asked: StudyFile, contract: Contract | None, execution: Execution | None = None
) -> tuple[dict[str, Any], Problems]:
    """Return the document of a study in full, and all contradictions of study and contract.

    Each contradiction begins with the place in the study file, in quotes.
    """
    problems: Problems = []
    document: dict[str, Any] = {
        "kind": asked.kind,
        "name": asked.name,
        "data": {
            "path": asked.data.path,
            "unit": UNKNOWN_UNIT if contract is None else contract.unit,
            "blocks": None if contract is None or contract.blocks is None else contract.blocks.key,
            "select": asked.data.select,
        },
        "estimator": asked.estimator,
        "privacy": asked.privacy,
        "purpose": asked.purpose,
        "execution": execution or Execution(),
    }
    if contract is not None and asked.data.select is not None and contract.blocks is None:
        problems.append("'data.select': the contract declares no blocks; remove it")
    if contract is None and asked.data.select is not None:
        # Which blocks there are is the contract's to say; without one nothing is read.
        document["data"]["select"] = None
    if isinstance(asked, EffectStudyFile):
        document |= _effect(asked, contract, problems)
    elif isinstance(asked, SurvivalStudyFile):
        document |= _survival(asked, contract, problems)
    elif isinstance(asked, SurvivalProtocolFile):
        document |= _survival_protocol(asked, contract, problems)
    elif isinstance(asked, ProtocolStudyFile):
        document |= _protocol(asked, contract, problems)
    elif isinstance(asked, DirectionStudyFile):
        pair = {"x": asked.pair.x, "y": asked.pair.y}
        document["pair"] = {
            axis: {"name": one.name, **_number(one.name, f"pair.{axis}", one, contract, problems, keep=())}
            for axis, one in pair.items()
        }
    return document, problems


def unrecorded(asked: _Compares) -> dict[str, str]:
    """Return the file's choices for units without treatment or outcome, ``refuse`` by default."""
    return {key: getattr(asked, key, None) or "refuse" for key in UNRECORDED}


def _effect(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Treatment, outcome and covariates in full."""
    document: dict[str, Any] = {
        "missing": asked.missing or Missing.refuse,
        **unrecorded(asked),
        **_two_arms(asked, contract, problems),
    }
    document["outcome"] = _outcome(asked.outcome, "outcome", asked, contract, problems)
    document["covariates"] = {name: _covariate(name, one, contract, problems) for name, one in asked.covariates.items()}
    _nulls_refused(asked, contract, problems)
    return document


def _outcome(
    one: AskedNumber,
    place: str,
    asked: EffectStudyFile | ProtocolStudyFile,
    contract: Contract | None,
    problems: Problems,
) -> dict[str, Any]:
    """Return an outcome in full; what nulls of it count as, the study says."""
    number = _number(one.name, place, one, contract, problems, keep=("codes",))
    declared = None if contract is None else contract.offered.get(one.name)
    _nulls_counted(declared, place.partition(".")[0], one.name, asked, problems)
    return {"name": one.name, **number}


def _nulls_refused(asked: EffectStudyFile | SurvivalStudyFile, contract: Contract | None, problems: Problems) -> None:
    """Refuse a study that refuses nulls where the contract says that a covariate may hold some."""
    if asked.missing is not Missing.refuse or contract is None:
        return
    for name in asked.covariates:
        declared = contract.offered.get(name)
        if declared is not None and declared.nulls is Missing.indicator:
            problems.append(
                f"'missing': the contract says that '{name}' may hold nulls; remove 'missing' or write 'indicator'"
            )


def _two_arms(
    asked: EffectStudyFile | SurvivalStudyFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Treatment in full, and what is asked of it."""
    document: dict[str, Any] = {key: getattr(asked, key) for key in ("treatment", "estimand", "confidence")}
    column = _declared(asked.treatment, "treatment", contract, problems)
    if isinstance(column, CodesColumn):
        document["treatment_codes"] = column.codes
    elif column is not None:
        problems.append(
            f"'treatment': column '{asked.treatment}' is no pair of codes in the contract; a treatment is declared as "
            "{codes: {control: 0, treated: 1}}"
        )
    _nulls_counted(column, "treatment", asked.treatment, asked, problems)
    return document


def _survival(asked: SurvivalStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Treatment, times and events in full."""
    document = {key: getattr(asked, key) for key in ("measure", "intervals", "expect")}
    document["missing"] = asked.missing or Missing.refuse
    document["covariates"] = {name: _covariate(name, one, contract, problems) for name, one in asked.covariates.items()}
    _nulls_refused(asked, contract, problems)
    document["censoring"] = _censoring(asked, contract, problems)
    document["where"] = _where(asked.where, contract, problems, asked.covariates)
    document |= {"missing_treatment": unrecorded(asked)["missing_treatment"], **_two_arms(asked, contract, problems)}
    if found := _times(asked.outcome, "outcome", contract, problems):
        document["outcome"] = found
    return document


# Stands for the name of censoring, and for the least step of times, where no contract is at hand.
UNKNOWN_CENSORING = "(the contract's censoring)"
UNKNOWN_STEP = 1e-9


def _times(times: AskedTimes, place: str, contract: Contract | None, problems: Problems) -> dict[str, Any] | None:
    """Return a time and its event in full; None where they are not declared so."""
    if contract is None:
        return _travelling_times(times, place, problems)
    time = _declared(times.time, f"{place}.time", contract, problems)
    event = _declared(times.event, f"{place}.event", contract, problems)
    if time is not None and not isinstance(time, TimeColumn):
        problems.append(
            f"'{place}.time': column '{times.time}' is no time in the contract; its owner declares it as "
            f"{times.time}: {{time: {{upper: .., origin: ..}}}}"
        )
    if event is not None and not isinstance(event, EventColumn):
        problems.append(
            f"'{place}.event': column '{times.event}' has no events in the contract; its owner declares it as "
            f"{times.event}: {{event: {{censored: 0, NAME: 1}}}}"
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
        problems.append(
            f"'{place}': no contract is at hand, so the study must declare 'events', all that end follow-up, and "
            "'origin', and 'unit_of_measure' if the contracts name one, each as every contract has it"
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
        problems.append(f"'{place}.events': the contract's events are {_quoted(declared)}")
    if times.origin is not None and times.origin != time.time.origin:
        problems.append(f"'{place}.origin': the contract's times begin at '{time.time.origin}'")
    if times.unit_of_measure is not None and times.unit_of_measure != time.unit_of_measure:
        named = "names none" if time.unit_of_measure is None else f"has '{time.unit_of_measure}'"
        problems.append(f"'{place}.unit_of_measure': the contract {named}; 'horizon' is in its unit")


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _survival_protocol(asked: SurvivalProtocolFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Arms, subgroups, who is eligible, times and events in full."""
    document: dict[str, Any] = {
        key: getattr(asked, key) for key in ("treatment", "estimand", "confidence", "measure", "intervals", "expect")
    }
    document["missing_treatment"] = unrecorded(asked)["missing_treatment"]
    document |= _groups_and_arms(asked, contract, problems) | _adjusts_for(asked, contract, problems)
    document["censoring"] = _censoring(asked, contract, problems)
    found = [_times(one, f"outcomes.{place}", contract, problems) for place, one in enumerate(asked.outcomes, 1)]
    document["outcomes"] = [
        {**one, "role": asked_one.role} for one, asked_one in zip(found, asked.outcomes, strict=True) if one is not None
    ]
    return document


def _censoring(
    asked: SurvivalStudyFile | SurvivalProtocolFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Return the columns on which losses may depend beside the arm, as covariates have them, and classes of numbers."""
    by: dict[str, Any] = {}
    classes: dict[str, tuple[float, ...]] = {}
    for name, divided in _losses_by(asked, contract).items():
        before = len(problems)
        by[name] = _covariate(name, asked.covariates.get(name, AskedCovariate()), contract, problems, "censoring.by")
        if isinstance(divided, int) and len(problems) == before and {"lower", "upper"} <= by[name].keys():
            classes[name] = equal_classes(by[name]["lower"], by[name]["upper"], divided)
        elif divided is not None:
            classes[name] = divided if isinstance(divided, tuple) else (0.0,)
    return {"by": by, "classes": classes, "floor": asked.censoring.floor, "beyond": asked.censoring.beyond}


def _losses_by(
    asked: SurvivalStudyFile | SurvivalProtocolFile, contract: Contract | None
) -> dict[str, int | tuple[float, ...] | None]:
    """Return the columns of ``censoring.by`` beside the treatment, with their classes."""
    declared = asked.covariates if contract is None else contract.offered
    found = asked.censoring.columns({*declared, asked.treatment})
    return {name: divided for name, divided in found.items() if name != asked.treatment}


def _groups_and_arms(
    asked: ProtocolStudyFile | SurvivalProtocolFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Return two codes or arms, subgroups, and who is eligible, in full."""
    document: dict[str, Any] = {}
    column = _declared(asked.treatment, "treatment", contract, problems)
    _nulls_counted(column, "treatment", asked.treatment, asked, problems)
    if asked.arms is not None:
        document["arms"] = _arms(asked.arms, asked.treatment, column, problems)
    elif isinstance(column, CodesColumn):
        document["treatment_codes"] = column.codes
    elif column is not None:
        problems.append(
            f"'treatment': column '{asked.treatment}' is no pair of codes in the contract; with several levels say "
            "which one the others are compared with: 'arms: {reference: LEVEL}'"
        )
    if asked.subgroups is not None:
        levels = AskedCovariate(levels=asked.subgroups.levels)
        group = _covariate(asked.subgroups.name, levels, contract, problems, "subgroups")
        document["subgroups"] = {"name": asked.subgroups.name, "column": group}
    covariates = asked.covariates if isinstance(asked, ProtocolStudyFile) or asked.covariates else None
    document["where"] = _where(asked.where, contract, problems, covariates)
    return document


def _protocol(asked: ProtocolStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Treatment, arms, outcomes, subgroups and covariates in full."""
    document: dict[str, Any] = {
        key: getattr(asked, key) for key in ("treatment", "estimand", "confidence", "gates", "measure")
    } | unrecorded(asked)
    document |= _groups_and_arms(asked, contract, problems)
    document["outcomes"] = [
        {
            "role": one.role,
            "importance": one.importance,
            **_outcome(one, f"outcomes.{place}", asked, contract, problems),
        }
        for place, one in enumerate(asked.outcomes, 1)
    ]
    return document | _adjusts_for(asked, contract, problems)


def _adjusts_for(
    asked: ProtocolStudyFile | SurvivalProtocolFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Return the covariates of a protocol in full, and whether all of them have indicators."""
    if asked.subgroups is not None and asked.subgroups.name in asked.covariates:
        problems.append(
            f"'subgroups': '{asked.subgroups.name}' is a covariate too; take it out there: each answer is within "
            "one of its levels"
        )
    covariates = {name: _covariate(name, one, contract, problems) for name, one in asked.covariates.items()}
    return {"missing": asked.missing or Missing.refuse, "covariates": covariates}


def _where(
    asked: AskedWhere,
    contract: Contract | None,
    problems: Problems,
    covariates: Mapping[str, AskedCovariate] | None = None,
) -> list[dict[str, Any]]:
    """Comparisons with what is declared of their columns; each is checked by itself.

    The contract declares them; a study that travels without one does by itself, for its covariates, if it has any.
    """
    found = []
    for place, one in enumerate(asked, 1):
        if contract is None and one.column not in (covariates or {}):
            own = "remove it" if covariates is None else "make it a covariate with its range or levels"
            problems.append(
                f"'where.{place}': no contract is at hand that declares '{one.column}'; {own}, or put the contract in "
                "place"
            )
            continue
        before = len(problems)
        declared = AskedCovariate() if contract is not None else (covariates or {})[one.column]
        holds = _covariate(one.column, declared, contract, problems, f"where.{place}")
        if len(problems) > before:
            continue
        try:
            offered = None if contract is None else contract.offered.get(one.column)
            found.append(Condition.model_validate(one.in_full(holds, offered)).model_dump())
        except ValidationError as wrong:
            said = "; ".join(error["msg"].removeprefix("Value error, ") for error in wrong.errors())
            problems.append(f"'where.{place}': {said}")
    return found


def _arms(arms: AskedArms, treatment: str, column: Declared | None, problems: Problems) -> dict[str, Any]:
    """Return a treatment of several arms in full: all levels that the contract declares."""
    declared: tuple[str | int, ...] | None = None
    asked, reference, names = arms.levels, arms.reference, None
    if isinstance(column, CodesColumn):
        declared = column.codes.pair
    elif isinstance(column, LevelsColumn):
        declared, names, reference = column.codes, column.names, column.coded(reference)
        asked = None if asked is None else tuple(map(column.coded, asked))
        if column.others is Others.other:
            problems.append(f"'arms': column '{treatment}' may hold other values than its levels")
    elif column is not None:
        problems.append(f"'arms': column '{treatment}' has no levels in the contract")
    if declared is not None and asked is not None and set(asked) != set(declared):
        problems.append("'arms.levels' are not the contract's; leave them out")
    if declared is not None and reference not in declared:
        problems.append(f"'arms.reference': '{arms.reference}' is no level of '{treatment}' in the contract")
    if declared is None and column is None and asked is None:
        problems.append("'arms': no contract is at hand, so the study must declare 'levels'")
    return {"reference": reference, "levels": declared or asked, "names": names}


def _declared(name: str, place: str, contract: Contract | None, problems: Problems) -> Declared | None:
    """Return the contract's declaration of a column, or None.

    A problem is added if the contract leaves the column's range open or does not declare it.
    """
    if contract is None:
        return None
    if name in contract.open_ranges:
        problems.append(
            f"'{place}': the contract of '{contract.dataset}' leaves the range of '{name}' open; its owner moves it "
            f"from 'open_ranges' to 'columns', as {name}: {{lower: .., upper: ..}}, or finds one by `causalveil ranges`"
        )
        return None
    if name not in contract.offered:
        known = ", ".join(f"'{one}'" for one in list(contract.offered)[:20])
        asked = nearest(name, contract.offered, 0.6).rstrip("?")
        problems.append(
            f"'{place}': the contract of '{contract.dataset}' declares no column '{name}'{asked}; it has {known}"
        )
        return None
    return contract.offered[name]


# By the place of a column in a study: how the study says what its nulls count as.
_COUNTED = {
    "treatment": ("missing_treatment", "'missing_treatment: control' (not recorded as treated)"),
    "outcome": ("missing_outcome", "'missing_outcome: middle' (of its declared range), 'lower' or 'upper'"),
}


def _nulls_counted(
    column: Declared | None,
    place: str,
    name: str,
    asked: _Compares,
    problems: Problems,
) -> None:
    """Ask for what a treatment or an outcome that may be null counts as: nobody's row is left out for it."""
    key, says = _COUNTED[place.removesuffix("s")]
    if column is not None and column.nulls is Missing.indicator and unrecorded(asked)[key] == "refuse":
        problems.append(f"'{place}': column '{name}' may hold nulls; say what they count as: {says}")


def _number(
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
    column = _declared(name, place, contract, problems)
    if isinstance(column, LevelsColumn):
        problems.append(f"'{place}': column '{name}' has levels in the contract; name a column with a range or codes")
        return {}
    if isinstance(column, TimeColumn | EventColumn):
        what = "a time to an event" if isinstance(column, TimeColumn) else "what ended follow-up"
        problems.append(
            f"'{place}': column '{name}' is {what} in the contract, and no plain number; estimator 'survival' reads "
            "it, as 'outcome: {time: .., event: .., horizon: ..}'"
        )
        return {}
    ends: Mapping[str, Any] = {}
    extra: dict[str, Any] = {}
    if isinstance(column, NumberColumn):
        ends, extra = {"lower": column.lower, "upper": column.upper}, {"nulls": column.nulls, "scale": column.scale}
    elif isinstance(column, CodesColumn):
        ends, extra = {"lower": 0.0, "upper": 1.0}, {"codes": column.codes, "nulls": column.nulls}
    elif contract is None and (asked.lower is None or asked.upper is None):
        problems.append(
            f"'{place}': no contract is at hand, so the study must declare the range of '{name}': {{lower, upper}}"
            + (", or its levels: {levels: [a, b]}" if place.startswith("covariates") else "")
        )
    given = {key: value for key in ("lower", "upper") if (value := getattr(asked, key)) is not None}
    return {**ends, **given, **{key: value for key, value in extra.items() if key in keep}}


def _covariate(
    name: str, asked: AskedCovariate, contract: Contract | None, problems: Problems, place: str = ""
) -> dict[str, Any]:
    """Return a covariate in full: the contract's kind, the study's narrower range or fewer levels."""
    place = place or f"covariates.{name}"
    column = None if contract is None else contract.offered.get(name)
    if asked.levels is None and not isinstance(column, LevelsColumn):
        found = _number(name, place, asked, contract, problems)
        return found if asked.scale is None else found | {"scale": asked.scale}
    if contract is None:
        return {"levels": asked.levels}
    column = _declared(name, place, contract, problems)
    if column is None:
        return {}
    if not isinstance(column, LevelsColumn):
        problems.append(f"'{place}': the contract declares a number, not levels; remove 'levels'")
        return {}
    if asked.lower is not None or asked.upper is not None:
        problems.append(f"'{place}': the contract declares levels, not a range; remove 'lower' and 'upper'")
    if asked.scale is not None:
        problems.append(f"'{place}': the contract declares levels, which have no scale; remove 'scale'")
    levels = column.codes if asked.levels is None else tuple(map(column.coded, asked.levels))
    unknown = [level for level in levels if level not in column.codes]
    if unknown:
        known = () if column.names is None else column.names
        meant = nearest(str(unknown[0]), known, 0.6) if isinstance(unknown[0], str) else ""
        problems.append(
            f"'{place}': '{unknown[0]}' is no level in the contract{meant.rstrip('?')}; a study can leave levels out, "
            "not add any"
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


def not_public_enough(asked: StudyFile, contract: Contract | None) -> Problems:
    """Return the columns that label level needs public and the owner did not declare public.

    At label level everything but outcomes is printed as it is.
    """
    if contract is None or asked.privacy.level is not Level.label:
        return []
    if isinstance(asked, ProtocolStudyFile):
        groups = [] if asked.subgroups is None else [asked.subgroups.name]
        columns = (asked.treatment, *groups, *asked.covariates, *dict.fromkeys(one.column for one in asked.where))
    elif isinstance(asked, EffectStudyFile):
        columns = (asked.treatment, *asked.covariates)
    else:
        return []
    return [
        f"level 'label' protects the outcome alone, and column '{name}' is not among the contract's "
        "'public' columns; its owner may list it there, or the study use level 'sample'"
        for name in columns
        if name not in contract.public
    ]
