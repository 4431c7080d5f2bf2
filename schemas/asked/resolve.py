"""Complete a study file by the owner's contract: one study, which is all that stages see.

Kinds, codes, levels, nulls, the unit and the blocks come from the contract. From the study come names, narrower
ranges and fewer levels, which are public and apply to every row; so no row can make a study fail.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from causalveil.schemas.asked.columns import (
    AskedArms,
    AskedCovariate,
    AskedNumber,
    AskedOutcome,
    AskedTimes,
    Clipping,
)
from causalveil.schemas.asked.formula import terms_of
from causalveil.schemas.asked.study_file import AutoEstimator, DirectionStudyFile, EffectStudyFile, StudyFile
from causalveil.schemas.clusters import SurveyWeights
from causalveil.schemas.columns import Codes, Covariate, Missing, Others, YesOrNo
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import CodesColumn, Declared, EventColumn, LevelsColumn, NumberColumn, TimeColumn
from causalveil.schemas.documents import Breach
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.estimators.survival import equal_classes
from causalveil.schemas.mistakes import nearest, plain_message, validate
from causalveil.schemas.plan import Execution
from causalveil.schemas.privacy import Level
from causalveil.schemas.studies import STUDIES
from causalveil.schemas.study import UNRECORDED, MissingOutcome, Study
from causalveil.schemas.table import EffectStudy
from causalveil.schemas.terms import TAKES_TERMS, DeclaredTerm, wrong_term
from causalveil.schemas.where import AskedWhere, Condition


class Problems(list[Breach]):
    """Contradictions of a study and its contract."""

    def add(self, place: str, sentence: str, *names: str) -> None:
        """Add a contradiction at a place of the study file; ``names``: see ``Breach``."""
        self.append(Breach(place, f"'{place}': {sentence}", names))


def unrecorded(asked: EffectStudyFile) -> dict[str, str]:
    """Return the file's choices for units without treatment or outcome, ``refuse`` by default."""
    return {key: getattr(asked, key) or "refuse" for key in UNRECORDED}


def _outcome(
    outcome: AskedOutcome, place: str, asked: EffectStudyFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Return an outcome in full."""
    if outcome.of is not None:
        return _combination(outcome, outcome.of, place, asked, contract, problems)
    number = number_in_full(outcome.name, place, outcome, contract, problems, keep=("codes",))
    column = None if contract is None else contract.offered.get(outcome.name)
    _require_choice_for_nulls(column, place.partition(".")[0], outcome.name, asked, problems)
    return {"name": outcome.name, **number, **_left_out(asked, contract, [outcome.name], problems)}


def _left_out(
    asked: EffectStudyFile, contract: Contract | None, names: Iterable[str], problems: Problems
) -> dict[str, bool]:
    """Return whether units without an outcome are left out: if its columns may hold nulls."""
    if asked.missing_outcome is not MissingOutcome.leave_out:
        return {}
    if contract is None:
        problems.add("missing_outcome", "rounds of sites pool answers of all units; 'leave_out' is one site's own")
        return {}
    columns = [contract.offered.get(name) for name in names]
    return {"leaves_out": any(column is not None and column.nulls is Missing.indicator for column in columns)}


def _combination(
    outcome: AskedOutcome,
    coefficients: Mapping[str, float],
    place: str,
    asked: EffectStudyFile,
    contract: Contract | None,
    problems: Problems,
) -> dict[str, Any]:
    """Return an outcome that is a linear combination; its range may follow from its parts."""
    if contract is None:
        problems.add(place, "no contract is at hand that says what the parts of a combination hold; name a column")
        return {}
    parts, before = [], len(problems)
    for name, coefficient in coefficients.items():
        column = declared_column(name, place, contract, problems)
        number = number_in_full(name, place, AskedNumber(name=name), contract, problems, keep=("codes",))
        _require_choice_for_nulls(column, place.partition(".")[0], name, asked, problems)
        parts.append({"name": name, "times": coefficient, **number})
    if len(problems) > before:
        return {}
    ends = [sorted((part["times"] * part["lower"], part["times"] * part["upper"])) for part in parts]
    lower, upper = (math.fsum(end) for end in zip(*ends, strict=True))
    return {
        "name": outcome.name,
        "of": parts,
        "lower": lower,
        "upper": upper,
        **_ends(outcome),
        **_left_out(asked, contract, coefficients, problems),
    }


def _ends(clipping: Clipping) -> dict[str, float]:
    """Return the ends of its range that a study file gives."""
    return {key: value for key in ("lower", "upper") if (value := getattr(clipping, key)) is not None}


# Placeholders where no contract is at hand: the name of censoring, the least step of times, and the unit.
UNKNOWN_CENSORING = "(the contract's censoring)"
UNKNOWN_STEP = 1e-9
UNKNOWN_UNIT = "(the contract's unit)"


def _times(times: AskedTimes, place: str, contract: Contract | None, problems: Problems) -> dict[str, Any] | None:
    """Return a time and its event in full; None where the contract declares no such columns."""
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
    entry = None if times.entry is None else declared_column(times.entry, f"{place}.entry", contract, problems)
    if entry is not None and not (
        isinstance(entry, TimeColumn)
        and entry.time.origin == time.time.origin
        and entry.unit_of_measure == time.unit_of_measure
    ):
        unit = "" if time.unit_of_measure is None else f", unit_of_measure: {time.unit_of_measure}"
        problems.add(
            f"{place}.entry",
            f"column '{times.entry}' is no time on the scale of '{times.time}'; the contract's owner declares it as "
            f"{times.entry}: {{time: {{upper: {time.time.upper:g}, origin: {time.time.origin}}}{unit}}}",
        )
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
        **({} if entry is None else {"entry": times.entry, "entry_nulls": entry.nulls}),
        **({} if times.landmark is None else {"landmark": times.landmark}),
    }


def _travelling_times(times: AskedTimes, place: str, problems: Problems) -> dict[str, Any] | None:
    """Return a time and its event as a study without a contract declares them itself.

    Codes, the name of censoring and the longest time are each contract's own; their placeholders are in no digest.
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
        "codes": {name: code for code, name in enumerate((UNKNOWN_CENSORING, *times.events))},
        "censoring": UNKNOWN_CENSORING,
    }


def _declared_alike(times: AskedTimes, place: str, time: TimeColumn, event: EventColumn, problems: Problems) -> None:
    """Add a problem for each declaration of times and events that is not the contract's."""
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


def _conditions(
    conditions: AskedWhere, covariates: Mapping[str, AskedCovariate], contract: Contract | None, problems: Problems
) -> list[dict[str, Any]]:
    """Return comparisons in full, with the declarations of their columns.

    The contract declares these; without a contract the study does, for its covariates.
    """
    full = []
    for number, condition in enumerate(conditions, 1):
        place = f"where.{number}"
        if contract is None and condition.column not in covariates:
            problems.add(
                place,
                f"no contract is at hand that declares '{condition.column}'; make it a covariate with its "
                "range or levels, or put the contract in place",
            )
            continue
        before = len(problems)
        column = AskedCovariate() if contract is not None else covariates[condition.column]
        holds = covariate_in_full(condition.column, column, contract, problems, place)
        if len(problems) > before:
            continue
        declared = None if contract is None else contract.offered.get(condition.column)
        try:
            full.append(Condition.model_validate(condition.in_full(holds, declared)).model_dump())
        except ValidationError as error:
            problems.add(place, "; ".join(plain_message(detail, "") for detail in error.errors()))
    return full


def _arms(arms: AskedArms, treatment: str, column: Declared | None, problems: Problems) -> dict[str, Any]:
    """Return a treatment of several arms in full: all levels that the contract declares."""
    declared: tuple[str | int, ...] | None = None
    levels, reference, names = arms.levels, arms.reference, None
    if isinstance(column, CodesColumn):
        declared = column.codes.pair
    elif isinstance(column, LevelsColumn):
        declared, names, reference = column.codes, column.names, column.coded(reference)
        levels = None if levels is None else tuple(map(column.coded, levels))
        if column.others is Others.other:
            problems.add("arms", f"column '{treatment}' may hold other values than its levels")
    elif column is not None:
        problems.add("arms", f"column '{treatment}' has no levels in the contract")
    if declared is not None and levels is not None and set(levels) != set(declared):
        problems.append(Breach("arms.levels", "'arms.levels' are not the contract's; leave them out"))
    if declared is not None and reference not in declared:
        problems.add("arms.reference", f"'{arms.reference}' is no level of '{treatment}' in the contract")
    if column is None and levels is None:
        problems.add("arms", "no contract is at hand, so the study must declare 'levels'")
    return {"reference": reference, "levels": declared or levels, "names": names}


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
    if name in contract.clusters:
        problems.add(
            place,
            f"'{name}' names clusters of units in the contract of '{contract.dataset}', and has no other role",
            name,
        )
        return None
    if name not in contract.offered:
        columns, near = _quoted(list(contract.offered)[:20]), nearest(name, contract.offered, 0.6).rstrip("?")
        problems.add(
            place, f"the contract of '{contract.dataset}' declares no column '{name}'{near}; it has {columns}", name
        )
        return None
    return contract.offered[name]


# For treatment and outcomes: the key that says what nulls count as, and its values in words.
_NULL_CHOICES = {
    "treatment": ("missing_treatment", "'missing_treatment: control' (not recorded as treated)"),
    "outcome": (
        "missing_outcome",
        "'missing_outcome: middle' (of its declared range), 'lower' or 'upper'; 'leave_out' answers for units that "
        "have an outcome",
    ),
}


def _require_choice_for_nulls(
    column: Declared | None, place: str, name: str, asked: EffectStudyFile, problems: Problems
) -> None:
    """Add a problem if a treatment or outcome may be null and the study has no rule for that."""
    key, choices = _NULL_CHOICES[place.removesuffix("s")]
    if column is not None and column.nulls is Missing.indicator and unrecorded(asked)[key] == "refuse":
        problems.add(place, f"column '{name}' may hold nulls; say what they count as: {choices}")


def number_in_full(
    name: str,
    place: str,
    asked: Clipping,
    contract: Contract | None,
    problems: Problems,
    keep: tuple[str, ...] = ("codes", "nulls", "scale"),
) -> dict[str, Any]:
    """Return a range: the study's ends, else the contract's; 0 and 1 for codes.

    ``keep``: the other keys of the declaration to return.
    """
    column = declared_column(name, place, contract, problems)
    if isinstance(column, LevelsColumn):
        problems.add(place, f"column '{name}' has levels in the contract; name a column with a range or codes")
        return {}
    if isinstance(column, TimeColumn | EventColumn):
        kind = "a time to an event" if isinstance(column, TimeColumn) else "what ended follow-up"
        problems.add(
            place,
            f"column '{name}' is {kind} in the contract, and no plain number; estimator 'survival' reads "
            "it, as 'outcome: {time: .., event: .., horizon: ..}'",
        )
        return {}
    ends: dict[str, Any] = {}
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
            + (
                ", or its levels: {levels: [a, b]}; two codes are {lower: 0, upper: 1}"
                if place.startswith("covariates")
                else ""
            ),
        )
    return {**ends, **_ends(asked), **{key: value for key, value in extra.items() if key in keep}}


def covariate_in_full(
    name: str, asked: AskedCovariate, contract: Contract | None, problems: Problems, place: str = ""
) -> dict[str, Any]:
    """Return a covariate in full; the study may narrow its range or leave levels out."""
    place = place or f"covariates.{name}"
    column = None if contract is None else contract.offered.get(name)
    if asked.levels is None and not isinstance(column, LevelsColumn):
        number = number_in_full(name, place, asked, contract, problems)
        return number if asked.scale is None else number | {"scale": asked.scale}
    if contract is None:
        return {"levels": asked.levels}
    column = declared_column(name, place, contract, problems)
    if column is None:
        return {}
    if not isinstance(column, LevelsColumn):
        codes = isinstance(column, CodesColumn)
        kind, advice = ("two codes", ", or write {lower: 0, upper: 1}") if codes else ("a number", "")
        problems.add(place, f"the contract declares {kind}, not levels; remove 'levels'{advice}")
        return {}
    if asked.lower is not None or asked.upper is not None:
        problems.add(place, "the contract declares levels, not a range; remove 'lower' and 'upper'")
    if asked.scale is not None:
        problems.add(place, "the contract declares levels, which have no scale; remove 'scale'")
    levels = column.codes if asked.levels is None else tuple(map(column.coded, asked.levels))
    unknown = [level for level in levels if level not in column.codes]
    if unknown:
        near = nearest(str(unknown[0]), column.names or (), 0.6) if isinstance(unknown[0], str) else ""
        problems.add(
            place,
            f"'{unknown[0]}' is no level in the contract{near.rstrip('?')}; a study can leave levels out, not add any",
        )
    fewer = set(levels) < set(column.codes)
    names = None if column.names is None or unknown else dict(zip(column.codes, column.names, strict=True))
    return {
        "levels": levels,
        "names": None if names is None else tuple(names[level] for level in levels),
        "others": Others.other if fewer else column.others,
        "known": column.codes if fewer and column.others is Others.refuse else None,
        "nulls": column.nulls,
    }


_COVARIATE: TypeAdapter[Covariate] = TypeAdapter(Covariate)


def resolve(
    asked: StudyFile, contract: Contract | None, where: str = "study", execution: Execution | None = None
) -> Study:
    """Complete a study by the contract of its data.

    Args:
        asked: the study file.
        contract: of the data; None where it is not at hand: the study must then declare every column itself.
        where: the study's path, for messages.
        execution: the operator's settings of how stages run.

    Raises:
        ContractError: level `label` needs columns that the contract does not declare public.
        StudyError: the study contradicts the contract, lacks a declaration, or has no proof of its privacy.
    """
    if isinstance(asked.estimator, AutoEstimator):
        raise StudyError(f"{where}: 'auto' chooses by the number of units of one site; name an estimator")
    model = answering(asked, where)
    document, problems = completed(asked, contract, execution)
    if problems:
        raise StudyError(f"{where}: " + "; ".join(map(str, problems)))
    if private := not_public_enough(asked, contract):
        raise ContractError(f"{where}: {private[0]}")
    return validate(model, document, where)


def answering(asked: StudyFile, where: str = "study") -> type[Study]:
    """Return the class of studies of a file's kind and estimator.

    Raises:
        StudyError: the file asks several questions, and the estimator answers one; says which answer several.
    """
    keys, name = asked.of_many, asked.estimator.name
    model = STUDIES[asked.kind][name]
    if keys and issubclass(model, EffectStudy) and not model.TABLES:
        raise StudyError(f"{where}: '{keys[0]}': {_instead(keys[0], name)}")
    return model


def _instead(key: str, name: str) -> str:
    """Return which estimators take a key that an estimator does not take."""
    if key == "measure":
        return (
            f"estimator '{name}' does not release arm means with their errors; in a randomised trial use "
            "{name: difference_in_means, trial: true} at level 'sample', else leave 'measure' out"
        )
    sentence = (
        f"estimator '{name}' answers one question of all units; use 'regression' or 'difference_in_means' at level "
        "'sample', 'balancing' or 'matching' at level 'label'"
    )
    owner = "a table of the eligible alone: a 'query' with WHERE in source.yaml"
    return f"{sentence}. Or let the data's owner extract {owner}" if key == "where" else sentence


def completed(
    asked: StudyFile, contract: Contract | None, execution: Execution | None = None
) -> tuple[dict[str, Any], Problems]:
    """Return the document of a study in full, and all contradictions of study and contract."""
    problems = Problems()
    document: dict[str, Any] = {
        "kind": asked.kind,
        "name": asked.name,
        "data": {
            "path": asked.data.path,
            "unit": UNKNOWN_UNIT if contract is None else contract.unit,
            "blocks": None if contract is None or contract.blocks is None else contract.blocks.key,
            "select": asked.data.select,
        },
        "estimator": asked.settings if isinstance(asked, EffectStudyFile) else asked.estimator,
        "privacy": asked.privacy,
        "purpose": asked.purpose,
        "execution": execution or Execution(),
    }
    if contract is not None and asked.data.select is not None and contract.blocks is None:
        problems.add("data.select", "the contract declares no blocks; remove it")
    if contract is None and asked.data.select is not None:
        # Without a contract nothing is read.
        document["data"]["select"] = None
    if isinstance(asked, EffectStudyFile):
        document |= _effect(asked, contract, problems)
    elif isinstance(asked, DirectionStudyFile):
        document["pair"] = {
            axis: {"name": column.name}
            | number_in_full(column.name, f"pair.{axis}", column, contract, problems, keep=())
            for axis, column in (("x", asked.pair.x), ("y", asked.pair.y))
        }
    return document, problems


def _effect(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Return the keys of a study of effects in full, as the estimator's class has them."""
    document: dict[str, Any] = {
        key: getattr(asked, key) for key in ("treatment", "estimand", "confidence", "gates", "intervals", "expect")
    }
    document |= {"measure": asked.measures, "missing": asked.missing or Missing.refuse, **unrecorded(asked)}
    document |= _groups_and_arms(asked, contract, problems)
    document["outcomes"] = _outcomes(asked, contract, problems)
    document["covariates"] = {
        name: covariate_in_full(name, column, contract, problems) for name, column in asked.covariates.items()
    }
    _nulls_refused(asked, contract, problems)
    document["terms"] = _terms(asked, document["covariates"], problems)
    document["censoring"] = _censoring(asked, contract, problems)
    document["clusters"] = _clusters(asked, contract, problems)
    document["weights"] = _weights(asked, contract, problems)
    document["contrasts"] = asked.compared
    if asked.compared and contract is None:
        problems.add("contrasts", "rounds of sites pool answers, not contrasts of them; leave it out")
    if isinstance(asked.estimator, AutoEstimator) or problems:
        return document
    fields = answering(asked).model_fields
    if asked.terms and "terms" not in fields:
        problems.add("terms", f"estimator '{asked.estimator.name}' takes no terms; {TAKES_TERMS}")
    if asked.clusters is not None and "clusters" not in fields:
        problems.add("clusters", f"estimator '{asked.estimator.name}' counts people one by one; leave 'clusters' out")
    if asked.weights is not None and "weights" not in fields:
        problems.add("weights", f"estimator '{asked.estimator.name}' takes no survey weights; leave 'weights' out")
    return {key: value for key, value in document.items() if key in fields}


def _weights(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> SurveyWeights | None:
    """Return the contract's survey weights, where the study asks for them."""
    if asked.weights is None:
        return None
    declared = None if contract is None else contract.weights
    if contract is None:
        problems.add("weights", "rounds of sites take no survey weights; leave 'weights' out")
    elif declared is None or declared.column != asked.weights:
        advice = f"it declares '{declared.column}'" if declared is not None else ""
        advice = advice or f"its owner may write 'weights: {{column: {asked.weights}, upper: W}}'"
        problems.add("weights", f"the contract declares no survey weights by column '{asked.weights}'; {advice}")
    return declared


def _clusters(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any] | None:
    """Return the clusters in full: the study's keys and the contract's declaration."""
    if asked.clusters is None:
        return None
    declared = None if contract is None else contract.clusters.get(asked.clusters.column)
    if declared is None:
        advice = f"it declares {', '.join(map(repr, contract.clusters))}" if contract and contract.clusters else ""
        advice = advice or f"its owner may write 'clusters: {{{asked.clusters.column}: {{number: N}}}}'"
        problems.add("clusters", f"the contract declares no clusters by column '{asked.clusters.column}'; {advice}")
        return None
    number = asked.clusters.number
    if asked.where and number is None:
        problems.add(
            "clusters", f"with 'where', write the 'number' of '{asked.clusters.column}' that have eligible units"
        )
    elif number is not None and (not asked.where or number > declared.number):
        problems.add(
            "clusters",
            f"'number' is the contract's, {declared.number}; with 'where' a study says how many of them are left",
        )
    full = asked.clusters.model_dump() | declared.model_dump()
    return full | {"number": number} if asked.where and number is not None else full


def _outcomes(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> list[dict[str, Any]]:
    """Return the outcomes in full, with their roles; without undeclared times."""
    outcomes = []
    for number, outcome in enumerate(asked.questions, 1):
        place = "outcome" if asked.outcomes is None else f"outcomes.{number}"
        if isinstance(outcome, AskedTimes):
            times = _times(outcome, place, contract, problems)
            outcomes += [] if times is None else [{**times, "role": outcome.role}]
        else:
            settings = {"role": outcome.role, "importance": outcome.importance, "arm": outcome.arm}
            outcomes.append(settings | _outcome(outcome, place, asked, contract, problems))
    return outcomes


def _terms(asked: EffectStudyFile, covariates: dict[str, Any], problems: Problems) -> tuple[DeclaredTerm, ...]:
    """Return the terms of a formula; each problem names the character at which it is."""
    if not asked.terms:
        return ()
    terms, errors = terms_of(asked.terms)
    problems += [Breach("terms", text) for text in errors]
    declared = {} if problems else {name: _COVARIATE.validate_python(full) for name, full in covariates.items()}
    roles = {asked.treatment: "the treatment"}
    for outcome in asked.questions:
        if isinstance(outcome, AskedTimes):
            roles |= {outcome.time: "the time", outcome.event: "the event"}
        else:
            roles[outcome.name] = "the outcome"
    for placed in terms:
        for index, factor in enumerate(placed.term.factors):
            start = f"{placed.at(index)}: '{factor.column}' is"
            if factor.column in roles:
                text = f"{start} {roles[factor.column]}; a term is of covariates: remove it"
                problems.append(Breach("terms", text))
            elif factor.column not in asked.covariates:
                near = nearest(factor.column, asked.covariates)
                text = f"{start} no covariate; add it to 'covariates', or remove the term{near}"
                problems.append(Breach("terms", text, (factor.column,)))
        if declared and not problems and (problem := wrong_term(placed.term, declared)) is not None:
            index, text = problem
            problems.append(Breach("terms", f"{placed.at(index)}: {text}"))
    return tuple(placed.term for placed in terms)


def _nulls_refused(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> None:
    """Add a problem if the study refuses nulls of covariates that may hold them by the contract."""
    if asked.missing is not Missing.refuse or contract is None:
        return
    for name in asked.covariates:
        declared = contract.offered.get(name)
        if declared is not None and declared.nulls is Missing.indicator:
            problems.add(
                "missing", f"the contract says that '{name}' may hold nulls; remove 'missing' or write 'indicator'"
            )


def _censoring(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Return censoring in full: its columns as covariates are declared, and classes of numbers."""
    by: dict[str, Any] = {}
    classes: dict[str, tuple[float, ...]] = {}
    declared = asked.covariates if contract is None else contract.offered
    for name, cut in asked.censoring.columns({*declared, asked.treatment}).items():
        if name == asked.treatment:
            continue
        before = len(problems)
        column = asked.covariates.get(name, AskedCovariate())
        by[name] = covariate_in_full(name, column, contract, problems, "censoring.by")
        if isinstance(cut, int) and len(problems) == before and {"lower", "upper"} <= by[name].keys():
            classes[name] = equal_classes(by[name]["lower"], by[name]["upper"], cut)
        elif cut is not None:
            classes[name] = cut if isinstance(cut, tuple) else (0.0,)
    return {"by": by, "classes": classes, "floor": asked.censoring.floor, "beyond": asked.censoring.beyond}


def _groups_and_arms(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Return two codes or arms, subgroups, and conditions of eligibility, in full."""
    document: dict[str, Any] = {}
    column = declared_column(asked.treatment, "treatment", contract, problems)
    _require_choice_for_nulls(column, "treatment", asked.treatment, asked, problems)
    if asked.arms is not None:
        document["arms"] = _arms(asked.arms, asked.treatment, column, problems)
    elif isinstance(column, CodesColumn):
        document["treatment_codes"] = dict(zip(Codes.model_fields, column.codes.written, strict=True))
    elif column is not None:
        problems.add(
            "treatment",
            f"column '{asked.treatment}' is no pair of codes in the contract; a treatment is declared as "
            "{codes: {control: 0, treated: 1}}. With several levels say which one the others are compared with: "
            "'arms: {reference: LEVEL}'",
        )
    if asked.subgroups is not None:
        levels = AskedCovariate(levels=asked.subgroups.levels)
        group = covariate_in_full(asked.subgroups.name, levels, contract, problems, "subgroups")
        document["subgroups"] = {"name": asked.subgroups.name, "column": group}
        if asked.subgroups.name in asked.covariates:
            problems.add(
                "subgroups",
                f"'{asked.subgroups.name}' is a covariate too; take it out there: each answer is within "
                "one of its levels",
            )
    document["where"] = _conditions(asked.where, asked.covariates, contract, problems)
    return document


def not_public_enough(asked: StudyFile, contract: Contract | None) -> Problems:
    """Return columns that level `label` prints exactly and that are not declared public."""
    if contract is None or asked.privacy.level is not Level.label or not isinstance(asked, EffectStudyFile):
        return Problems()
    groups = [] if asked.subgroups is None else [asked.subgroups.name]
    where = dict.fromkeys(condition.column for condition in asked.where)
    columns = (asked.treatment, *groups, *asked.covariates, *where)
    return Problems(
        Breach(
            "",
            f"level 'label' protects the outcome alone, and column '{name}' is not among the contract's 'public' "
            "columns; its owner may list it there, or the study use level 'sample'",
            (name,),
        )
        for name in columns
        if name not in contract.public
    )
