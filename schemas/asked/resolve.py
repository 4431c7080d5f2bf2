"""Complete a study file by the owner's contract: one study, which is all that stages see.

Kinds, codes, levels, nulls, the unit and the blocks come from the contract. From the study come names, narrower
ranges and fewer levels, which are public and apply to every row; so no row can make a study fail. Also tell whether a
study in full is what a study file asks for, by what the file itself says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from causalveil.schemas.asked.columns import (
    AskedArms,
    AskedCensoring,
    AskedCovariate,
    AskedGroups,
    AskedNumber,
    AskedOutcome,
    AskedTimes,
    Clipping,
)
from causalveil.schemas.asked.formula import terms_of
from causalveil.schemas.asked.study_file import AutoEstimator, DirectionStudyFile, EffectStudyFile, StudyFile, options
from causalveil.schemas.clusters import SurveyWeights
from causalveil.schemas.columns import Codes, Covariate, Missing, NumericCovariate, Others, YesOrNo
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import CodesColumn, Declared, EventColumn, LevelsColumn, NumberColumn, TimeColumn
from causalveil.schemas.documents import Breach
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.estimators.regression import of_stated_form
from causalveil.schemas.estimators.survival import Censoring, equal_classes
from causalveil.schemas.mistakes import nearest, plain_message, validate
from causalveil.schemas.plan import Execution
from causalveil.schemas.privacy import Frozen, Level
from causalveil.schemas.studies import STUDIES
from causalveil.schemas.study import UNRECORDED, MissingOutcome, Study
from causalveil.schemas.table import EffectStudy, TableStudy
from causalveil.schemas.terms import TAKES_TERMS, DeclaredTerm, wrong_term
from causalveil.schemas.where import AskedCondition, AskedWhere, Condition


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
    if isinstance(one, AskedOutcome) and one.of is not None:
        return _combination(one, one.of, place, asked, contract, problems)
    number = number_in_full(one.name, place, one, contract, problems, keep=("codes",))
    declared = None if contract is None else contract.offered.get(one.name)
    ask_what_nulls_count_as(declared, place.partition(".")[0], one.name, asked, problems)
    return {"name": one.name, **number, **_left_out(asked, contract, [one.name], problems)}


def _left_out(
    asked: EffectStudyFile, contract: Contract | None, names: Iterable[str], problems: Problems
) -> dict[str, bool]:
    """Return whether units without an outcome are left out of its answer: where its columns may hold nulls."""
    if asked.missing_outcome is not MissingOutcome.leave_out:
        return {}
    if contract is None:
        problems.add("missing_outcome", "rounds of sites pool answers of all units; 'leave_out' is one site's own")
        return {}
    declared = [contract.offered.get(name) for name in names]
    return {"leaves_out": any(one is not None and one.nulls is Missing.indicator for one in declared)}


def _combination(
    one: AskedOutcome,
    of: Mapping[str, float],
    place: str,
    asked: EffectStudyFile,
    contract: Contract | None,
    problems: Problems,
) -> dict[str, Any]:
    """Return an outcome that is a linear combination.

    Its range is that of its parts, or the study's.
    """
    if contract is None:
        problems.add(place, "no contract is at hand that says what the parts of a combination hold; name a column")
        return {}
    parts, before = [], len(problems)
    for name, times in of.items():
        column = declared_column(name, place, contract, problems)
        found = number_in_full(name, place, AskedNumber(name=name), contract, problems, keep=("codes",))
        ask_what_nulls_count_as(column, place.partition(".")[0], name, asked, problems)
        parts.append({"name": name, "times": times, **found})
    if len(problems) > before:
        return {}
    ends = [sorted((part["times"] * part["lower"], part["times"] * part["upper"])) for part in parts]
    lower, upper = (math.fsum(end) for end in zip(*ends, strict=True))
    given = {key: value for key in ("lower", "upper") if (value := getattr(one, key)) is not None}
    told = _left_out(asked, contract, of, problems)
    return {"name": one.name, "of": parts, "lower": lower, "upper": upper, **given, **told}


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
    if name in contract.clusters:
        problems.add(
            place,
            f"'{name}' names clusters of units in the contract of '{contract.dataset}', and has no other role",
            name,
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
    "outcome": (
        "missing_outcome",
        "'missing_outcome: middle' (of its declared range), 'lower' or 'upper'; 'leave_out' answers for units that "
        "have an outcome",
    ),
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


# Stands for the unit where no contract is at hand, as when a study is planned or pooled.
UNKNOWN_UNIT = "(the contract's unit)"
_COVARIATE: TypeAdapter[Covariate] = TypeAdapter(Covariate)


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
    model = answering(asked, where)
    document, problems = completed(asked, contract, execution)
    if problems:
        raise StudyError(f"{where}: " + "; ".join(map(str, problems)))
    if private := not_public_enough(asked, contract):
        raise ContractError(f"{where}: {private[0]}")
    return validate(model, document, where)


def answering(asked: StudyFile, where: str = "study") -> type[Study]:
    """Return the study by which a file's estimator answers what it asks.

    Raises:
        StudyError: the estimator answers one question of all units alone; says which answer several.
    """
    many, name = asked.of_many, asked.estimator.name
    found = STUDIES[asked.kind][name]
    if many and issubclass(found, EffectStudy) and not found.TABLES:
        raise StudyError(f"{where}: '{many[0]}': {_instead(many[0], name)}")
    return found


def _instead(key: str, name: str) -> str:
    """Say which estimators answer what another does not."""
    if key == "measure":
        return (
            f"estimator '{name}' does not release arm means with their errors; in a randomised trial use "
            "{name: difference_in_means, trial: true} at level 'sample', else leave 'measure' out"
        )
    said = (
        f"estimator '{name}' answers one question of all units; use 'regression' or 'difference_in_means' at level "
        "'sample', 'balancing' or 'matching' at level 'label'"
    )
    owner = "a table of the eligible alone: a 'query' with WHERE in source.yaml"
    return f"{said}. Or let the data's owner extract {owner}" if key == "where" else said


def completed(
    asked: StudyFile, contract: Contract | None, execution: Execution | None = None
) -> tuple[dict[str, Any], Problems]:
    """Return the document of a study in full, and all contradictions of study and contract.

    Each contradiction has its place in the study file.
    """
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
        # Which blocks there are is the contract's to say; without one nothing is read.
        document["data"]["select"] = None
    if isinstance(asked, EffectStudyFile):
        document |= _effect(asked, contract, problems)
    elif isinstance(asked, DirectionStudyFile):
        pair = {"x": asked.pair.x, "y": asked.pair.y}
        document["pair"] = {
            axis: {"name": one.name, **number_in_full(one.name, f"pair.{axis}", one, contract, problems, keep=())}
            for axis, one in pair.items()
        }
    return document, problems


def _effect(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Treatment, arms, outcomes, subgroups, who is eligible and covariates in full, as the answering study has them."""
    document: dict[str, Any] = {
        key: getattr(asked, key) for key in ("treatment", "estimand", "confidence", "gates", "intervals", "expect")
    }
    document |= {"measure": asked.measures, "missing": asked.missing or Missing.refuse, **unrecorded(asked)}
    document |= _groups_and_arms(asked, contract, problems)
    document["outcomes"] = _outcomes(asked, contract, problems)
    document["covariates"] = {
        name: covariate_in_full(name, one, contract, problems) for name, one in asked.covariates.items()
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
        known = f"; it declares '{declared.column}'" if declared is not None else ""
        way = f"; its owner may write 'weights: {{column: {asked.weights}, upper: W}}'"
        problems.add("weights", f"the contract declares no survey weights by column '{asked.weights}'{known or way}")
    return declared


def _clusters(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any] | None:
    """Return the clusters in full: the study's column, and what the contract says of it."""
    if asked.clusters is None:
        return None
    declared = None if contract is None else contract.clusters.get(asked.clusters.column)
    if declared is None:
        named = f"the contract declares no clusters by column '{asked.clusters.column}'"
        known = f"; it declares {', '.join(map(repr, contract.clusters))}" if contract and contract.clusters else ""
        way = f"; its owner may write 'clusters: {{{asked.clusters.column}: {{number: N}}}}'"
        problems.add("clusters", f"{named}{known or way}")
        return None
    own = asked.clusters.model_dump()
    if asked.where and own["number"] is None:
        said = f"with 'where', write the 'number' of '{asked.clusters.column}' that have eligible units"
        problems.add("clusters", said)
    elif own["number"] is not None and (not asked.where or own["number"] > declared.number):
        said = f"'number' is the contract's, {declared.number}; with 'where' a study says how many of them are left"
        problems.add("clusters", said)
    return {**own, **declared.model_dump(), **({"number": own["number"]} if asked.where and own["number"] else {})}


def _outcomes(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> list[dict[str, Any]]:
    """Return the outcomes in full, with their roles; without those of which a problem was found."""
    found = []
    for number, one in enumerate(asked.questions, 1):
        place = "outcome" if asked.outcomes is None else f"outcomes.{number}"
        if isinstance(one, AskedTimes):
            times = times_in_full(one, place, contract, problems)
            found += [] if times is None else [{**times, "role": one.role}]
        else:
            own = {"role": one.role, "importance": one.importance, "arm": one.arm}
            found.append({**own, **outcome_in_full(one, place, asked, contract, problems)})
    return found


def _terms(asked: EffectStudyFile, covariates: dict[str, Any], problems: Problems) -> tuple[DeclaredTerm, ...]:
    """Return the terms of a formula as facts; each problem says at which character it is."""
    if not asked.terms:
        return ()
    placed, wrong = terms_of(asked.terms)
    problems += [Breach("terms", text) for text in wrong]
    known = {name: _COVARIATE.validate_python(one) for name, one in covariates.items() if not problems}
    others = {asked.treatment: "the treatment"}
    for question in asked.questions:
        if isinstance(question, AskedTimes):
            others |= {question.time: "the time", question.event: "the event"}
        else:
            others[question.name] = "the outcome"
    for one in placed:
        for place, factor in enumerate(one.term.factors):
            if factor.column in others:
                role = others[factor.column]
                text = f"{one.at(place)}: '{factor.column}' is {role}; a term is of covariates: remove it"
                problems.append(Breach("terms", text))
            elif factor.column not in asked.covariates:
                near = nearest(factor.column, asked.covariates)
                text = f"{one.at(place)}: '{factor.column}' is no covariate; add it to 'covariates', or remove the "
                problems.append(Breach("terms", f"{text}term{near}", (factor.column,)))
        found = wrong_term(one.term, known) if known and not problems else None
        if found is not None:
            problems.append(Breach("terms", f"{one.at(found[0])}: {found[1]}"))
    return tuple(one.term for one in placed)


def _nulls_refused(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> None:
    """Refuse a study that refuses nulls where the contract says that a covariate may hold some."""
    if asked.missing is not Missing.refuse or contract is None:
        return
    for name in asked.covariates:
        declared = contract.offered.get(name)
        if declared is not None and declared.nulls is Missing.indicator:
            problems.add(
                "missing", f"the contract says that '{name}' may hold nulls; remove 'missing' or write 'indicator'"
            )


def _censoring(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Return the columns on which losses may depend beside the arm, as covariates have them, and classes of numbers."""
    by: dict[str, Any] = {}
    classes: dict[str, tuple[float, ...]] = {}
    declared = asked.covariates if contract is None else contract.offered
    for name, divided in asked.censoring.columns({*declared, asked.treatment}).items():
        if name == asked.treatment:
            continue
        before = len(problems)
        by[name] = covariate_in_full(
            name, asked.covariates.get(name, AskedCovariate()), contract, problems, "censoring.by"
        )
        if isinstance(divided, int) and len(problems) == before and {"lower", "upper"} <= by[name].keys():
            classes[name] = equal_classes(by[name]["lower"], by[name]["upper"], divided)
        elif divided is not None:
            classes[name] = divided if isinstance(divided, tuple) else (0.0,)
    return {"by": by, "classes": classes, "floor": asked.censoring.floor, "beyond": asked.censoring.beyond}


def _groups_and_arms(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Return two codes or arms, subgroups, and who is eligible, in full."""
    document: dict[str, Any] = {}
    column = declared_column(asked.treatment, "treatment", contract, problems)
    ask_what_nulls_count_as(column, "treatment", asked.treatment, asked, problems)
    if asked.arms is not None:
        document["arms"] = arms_in_full(asked.arms, asked.treatment, column, problems)
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
    document["where"] = conditions_in_full(asked.where, contract, problems, asked.covariates)
    return document


def not_public_enough(asked: StudyFile, contract: Contract | None) -> Problems:
    """Return the columns that label level needs public and the owner did not declare public.

    At label level everything but outcomes is printed as it is.
    """
    if contract is None or asked.privacy.level is not Level.label:
        return Problems()
    if not isinstance(asked, EffectStudyFile):
        return Problems()
    groups = [] if asked.subgroups is None else [asked.subgroups.name]
    columns = (asked.treatment, *groups, *asked.covariates, *dict.fromkeys(one.column for one in asked.where))
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


# Keys that are compared in a way of their own, or that change nothing that is released.
_APART = (
    "data",
    "estimator",
    "privacy",
    "purpose",
    "expect",
    "outcome",
    "outcomes",
    "measure",
    "contrasts",
    "standardise",
)


def asks_for(asked: StudyFile, study: Study) -> bool:
    """Return whether a study in full is what a file asks for, by what the file itself says.

    No contract is needed. Every key of the file counts, whatever kind of study it asks for.
    """
    return (
        asked.data.select == study.data.select
        and _same_method(asked, study)
        and all(_is_said(asked, key, value, study) for key, value in asked if key not in _APART)
        and (not isinstance(asked, EffectStudyFile) or _same_questions(asked, study))
    )


def _same_questions(asked: EffectStudyFile, study: Study) -> bool:
    """Return whether outcomes and measures are the file's."""
    return (
        isinstance(study, TableStudy)
        and _within(asked.questions, study.outcomes)
        and asked.measures == study.measure
        and asked.compared == getattr(study, "contrasts", ())
    )


def _is_said(asked: StudyFile, key: str, value: Any, study: Study) -> bool:
    """Return whether a study has what a file says under one of its keys."""
    if not hasattr(study, key):
        # A key of the other kind of outcomes, which the file does not use.
        return bool(value == type(asked).model_fields[key].default)
    found = getattr(study, key)
    if key in ("missing", *UNRECORDED):
        return bool((value or "refuse") == found)
    if value is None or found is None:
        return value is found
    if isinstance(value, AskedGroups):
        levels = None if value.levels is None else _in_codes(value.levels, found.column)
        return value.name == found.name and levels in (None, getattr(found.column, "levels", None))
    if key == "terms":
        return bool(tuple(one.term for one in terms_of(value)[0]) == found)
    if isinstance(value, AskedCensoring):
        return _same_losses(value, found, study)
    return _within(value, found)


def _within(asked: Any, found: Any) -> bool:
    """Return whether a part of a study in full has everything that a file says of it."""
    if isinstance(asked, Mapping):
        return asked.keys() == found.keys() and all(_within(one, found[name]) for name, one in asked.items())
    if isinstance(asked, tuple) and isinstance(found, tuple):
        return len(asked) == len(found) and all(map(_within, asked, found))
    if isinstance(asked, AskedCondition):
        return asked.is_asked_by(found)
    if isinstance(asked, AskedTimes) and (asked.entry, asked.landmark or 0.0) != (found.entry, found.landmark):
        return False
    if isinstance(asked, AskedTimes) and asked.events is not None:
        # The order of all events is each contract's.
        same = set(asked.events) == {name for name in found.codes if name != found.censoring}
        return same and _within(asked.model_copy(update={"events": None}), found)
    if isinstance(asked, AskedOutcome) and asked.of is not None:
        same = asked.of == {part.name: part.times for part in found.of}
        return same and _within(asked.model_copy(update={"of": None}), found)
    if isinstance(asked, Frozen) and type(asked) is not type(found):
        return all(one is None or _within(_in_codes(one, found), getattr(found, key, None)) for key, one in asked)
    return bool(asked == found)


def _in_codes(value: Any, found: Any) -> Any:
    """Return levels that a file names as the codes of a column in full; anything else as it is."""
    codes: Mapping[str, Any] = getattr(found, "of_names", {})
    if isinstance(value, tuple):
        return tuple(_in_codes(one, found) for one in value)
    return codes.get(value, value) if isinstance(value, str) else value


def _same_losses(asked: AskedCensoring, found: Censoring, study: Any) -> bool:
    """Return whether losses depend on the columns that a file names, in as many classes, within the same floor."""
    named = asked.columns({*found.by, study.treatment})
    named.pop(study.treatment, None)
    return (
        (asked.floor, asked.beyond) == (found.floor, found.beyond)
        and named.keys() == found.by.keys()
        and all(_classes_in_full(found.by[name], divided) == found.classes.get(name) for name, divided in named.items())
    )


def _classes_in_full(column: Covariate, divided: int | tuple[float, ...] | None) -> tuple[float, ...] | None:
    """Return where classes begin that a file asks for; None: it asks for none."""
    if isinstance(divided, int) and isinstance(column, NumericCovariate):
        return equal_classes(column.lower, column.upper, divided)
    return divided if isinstance(divided, tuple) else None


def _same_method(asked: StudyFile, study: Study) -> bool:
    """Return whether estimator and privacy are the file's, or among those ``auto`` may choose."""
    terms = asked.terms if isinstance(asked, EffectStudyFile) else ()
    said = [(asked.estimator, asked.privacy)]
    if isinstance(asked.estimator, AutoEstimator):
        said = options(asked.estimator, asked.privacy)
    return (study.estimator, study.privacy) in [(of_stated_form(one, terms), privacy) for one, privacy in said]
