"""The roles of columns in a drafted study: unit, treatment, outcome, covariates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import StudyError
from causalveil.schemas.hints import HIGH, LOW, Blank, option
from causalveil.schemas.questions import MOST_ARMS
from causalveil.schemas.warehouse import Key
from causalveil.schemas.where import Operator
from causalveil.tasks.start.options import StatedLevels, condition, groups, measures
from causalveil.tasks.start.recognise import Found, Looks, as_read
from causalveil.tasks.start.words import CODED, CONTROL, ID_NAME, NEGATION, NO, YES

USABLE = (Looks.binary, Looks.category, Looks.number)
Value = str | int | bool
WHOLE = re.compile(r"[-+]?\d{1,18}")


@dataclass(frozen=True)
class Wishes:
    """The user's statements about the data; a draft asks for what is not stated.

    Attributes:
        name: of the dataset.
        data_class: how the owner classes the data.
        unit, treatment, outcome: names of columns.
        treated: which value of the treatment means treated.
        counted: which of two values of the outcome is counted.
        covariates: names of columns; None: all that can be used and are not in doubt.
        without: names of columns that are no covariates.
        most: how many covariates at most, the first by names and types; None: all.
        trial: whether treatment was randomised.
        arms: whether the treatment has arms, which a protocol compares with ``reference``.
        ranges: of numbers, by column.
        levels: of categories, by column; ``level_names``: one of each, where they were declared.
        event: the column that says what ended the times of ``outcome``; None: the outcome is no time.
        horizon: until when times are compared; ``censored``: which value of ``event`` means that no event was seen.
        recorded: columns of which it is public whether they hold a value: rows without may be left out.
        never_missing: covariates of sensitive data of which every person has a value, as the owner says.
        written: of columns of sensitive text, examples of how their numbers or dates are written.
        missing: by column, the values that stand for none.
        last_by: of sensitive data, the column by whose order the last row of a unit counts; None: a unit has one row.
        means: whether the means of all rows of a unit count.
        each_alone: whether no clusters are drafted where treatment was given by group.
        where: conditions that units must meet, such as "age >= 25".
        subgroups: the column whose levels are asked about by themselves.
        measures: how the effect is measured beside the difference.
        key: the column of dates that cuts rows into blocks; None: all rows are one.
        epsilon, delta: of the study.
    """

    name: str
    data_class: DataClass
    unit: str
    treatment: str
    outcome: str
    treated: str | None = None
    counted: str | None = None
    covariates: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    most: int | None = None
    trial: bool = False
    arms: bool = False
    reference: str | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    level_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    event: str | None = None
    horizon: float = 0.0
    censored: str | None = None
    recorded: tuple[str, ...] = ()
    never_missing: tuple[str, ...] = ()
    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    last_by: str | None = None
    means: bool = False
    each_alone: bool = False
    where: tuple[str, ...] = ()
    subgroups: str | None = None
    measures: tuple[str, ...] = ()
    key: Key | None = None
    epsilon: str = "1.0"
    delta: str = "1.0e-6"


@dataclass(frozen=True)
class Cast:
    """The columns of a drafted study in their parts.

    Attributes:
        unit, treatment, outcome: the columns.
        codes: control and treated of the treatment.
        outcome_codes: of an outcome of two values, the one that counts as 0 and the one that counts as 1.
        covariates: the columns that are adjusted for.
        arms: of a treatment of several arms, the reference first; empty where it has two codes.
        usable: all columns that a contract can declare, in the order of the source.
        event: what ended the times of the outcome; None: it is no time.
        where: conditions, as a study file has them.
        subgroups: the column of the subgroups.
        measures: how the effect is measured; empty: as a difference alone.
    """

    unit: Found
    treatment: Found
    outcome: Found
    codes: tuple[Value, Value]
    outcome_codes: tuple[Value, Value] | None
    covariates: tuple[Found, ...]
    usable: tuple[Found, ...]
    arms: tuple[Value, ...] = ()
    event: Found | None = None
    where: tuple[Mapping[str, Any], ...] = ()
    subgroups: Found | None = None
    measures: tuple[str, ...] = ()

    @property
    def recorded(self) -> tuple[Found, ...]:
        """Return treatment and outcome, and what ended its times where it is one."""
        return (self.treatment, self.outcome, *(() if self.event is None else (self.event,)))

    @property
    def named(self) -> frozenset[str]:
        """Columns that conditions and subgroups need, whatever else is said of them."""
        groups = () if self.subgroups is None else (self.subgroups.name,)
        return frozenset((*(one["column"] for one in self.where), *groups))


def unit_candidates(found: Mapping[str, Found]) -> list[str]:
    """Return columns that may name units, the likeliest first.

    These are names of ids, then all with a value of its own in each row.
    """
    named = [one.name for one in found.values() if re.search(ID_NAME, one.name) and one.nulls == 0]
    unique = [one.name for one in found.values() if one.unique and one.looks is not Looks.date]
    return list(dict.fromkeys([*(name for name in named if name in unique), *named, *unique]))


def cast(found: Mapping[str, Found], wishes: Wishes) -> Cast:
    """Give each column its part.

    Args:
        found: the columns of a sample by name.
        wishes: who is to play which part.

    Raises:
        StudyError: a name is no column, or its column cannot play the part; one sentence that says what to do.
    """
    unit = unit_of(found, wishes.unit)
    treatment = column_of(found, wishes.treatment, "treatment")
    outcome = column_of(found, wishes.outcome, "outcome")
    if len({unit.name, treatment.name, outcome.name}) < 3:
        first, last = option("unit", "treatment"), option("outcome")
        raise StudyError(f"{first} and {last} name one column; each column has one role")
    event = None if wishes.event is None else _event(found, wishes, (unit, treatment, outcome))
    arms = _arms(found, treatment, wishes) if wishes.arms else ()
    codes = _codes(found, treatment, wishes) if not arms else (arms[0], arms[1])
    usable = tuple(one for one in found.values() if one.looks in USABLE and one.name != unit.name)
    taken = {unit.name, treatment.name, outcome.name, *(() if event is None else (event.name,))}
    if event is not None and wishes.measures:
        taken_out, event_out = option("measures"), option("event")
        raise StudyError(
            f"{taken_out}: times have their own measures, risk and rmst; leave {taken_out} or {event_out} out"
        )
    outcome_codes = None if event is not None else _outcome_codes(outcome, wishes.counted)
    said = said_of(found, wishes) if wishes.where or wishes.subgroups is not None else StatedLevels()
    where = tuple(condition(found, text, taken, wishes.data_class, said) for text in wishes.where)
    within = None
    if wishes.subgroups is not None:
        column = column_of(found, wishes.subgroups, "subgroups")
        within = groups(column, taken, has_levels=said.as_levels(column))
    # Eligible units are all alike in what one comparison with a single value fixes.
    fixed = {one["column"] for one in where if one["op"] == str(Operator.equal)} if wishes.covariates is None else set()
    parts = Cast(unit, treatment, outcome, codes, outcome_codes, (), usable, arms, event, where, within)
    if event is not None:
        return replace(parts, covariates=_of_times(found, wishes, parts, taken | fixed))
    measured = measures(wishes.measures, trial=wishes.trial, two_values=outcome.distinct == 2)
    apart = {within.name} if within is not None else set()
    covariates = _covariates(found, wishes, taken | apart | fixed, usable)
    return replace(parts, covariates=covariates, measures=measured)


def _of_times(found: Mapping[str, Found], wishes: Wishes, parts: Cast, taken: set[str]) -> tuple[Found, ...]:
    """Return the covariates of a study of times, where it adjusts.

    Raises:
        StudyError: covariates of a protocol.
    """
    if parts.arms or parts.subgroups is not None:
        if wishes.covariates:
            apart, covariates = option("arms" if parts.arms else "subgroups"), option("covariates")
            raise StudyError(
                f"{covariates}: with {apart} times are compared as the arms are; leave {covariates} out, or {apart}"
            )
        return ()
    # Curves of arms as they are need no covariate, so none left is no fault.
    adjusts = wishes.covariates is not None or not wishes.trial
    return _covariates(found, replace(wishes, trial=True), taken, parts.usable) if adjusts else ()


def unit_of(found: Mapping[str, Found], name: str) -> Found:
    """Return the column that names units.

    Raises:
        StudyError: there is no such column, or it holds no value.
    """
    unit = column_of(found, name, "unit")
    if unit.looks is Looks.empty:
        raise StudyError(f"{option('unit')}: column '{unit.name}' holds no value; name a column of ids")
    return unit


def treatment_of(found: Mapping[str, Found], wishes: Wishes, *, named: bool = True) -> Found:
    """Return the column that says who was treated.

    Args:
        found: the columns by name.
        wishes: with the name of it, and what was said of its values.
        named: whether they must say which value means treated, or which arm is the reference.

    Raises:
        StudyError: there is no such column, it is the unit's, or its values are not those of a treatment.
    """
    treatment = column_of(found, wishes.treatment, "treatment")
    _other_than(treatment, {"unit": wishes.unit})
    several = 2 < treatment.distinct <= MOST_ARMS and len(treatment.levels) > 2
    if named and wishes.arms:
        _arms(found, treatment, wishes)
    elif named or not (several or treatment.looks is Looks.binary):
        _codes(found, treatment, wishes)
    return treatment


def outcome_of(found: Mapping[str, Found], wishes: Wishes) -> Found:
    """Return the outcome's column.

    Raises:
        StudyError: there is no such column, it has another part, or it holds no numbers and no two values.
    """
    outcome = column_of(found, wishes.outcome, "outcome")
    _other_than(outcome, {"unit": wishes.unit, "treatment": wishes.treatment})
    _outcome_codes(outcome, wishes.counted)
    return outcome


def _other_than(one: Found, others: Mapping[str, str]) -> None:
    for part, name in others.items():
        if one.name.casefold() == " ".join(name.split()).casefold():
            raise StudyError(f"column '{one.name}' is already the one of {option(part)}; each column has one role")


def _event(found: Mapping[str, Found], wishes: Wishes, others: tuple[Found, ...]) -> Found:
    """The column that says what ended the times of the outcome."""
    event, outcome = column_of(found, wishes.event or "", "event"), others[-1]
    if event.name in {one.name for one in others}:
        raise StudyError(
            f"{option('event')}: column '{event.name}' already has another role; name what ended the times"
        )
    if outcome.looks is not Looks.number:
        raise StudyError(
            f"{option('outcome')}: column '{outcome.name}' holds {outcome.looks}; with {option('event')} it is a "
            "time, a number"
        )
    if wishes.horizon <= 0:
        there = f"; '{outcome.name}' goes from {outcome.lower:g} to {outcome.upper:g}"
        told = "" if wishes.data_class is DataClass.sensitive else there
        raise StudyError(f"{option('horizon')}: say until when times are compared, as in {option(horizon=365)}{told}")
    if event.looks not in USABLE:
        raise StudyError(f"{option('event')}: column '{event.name}' holds {event.looks}; name a column of a few codes")
    return event


def resolved(found: Mapping[str, Found], wishes: Wishes) -> Wishes:
    """Return the wishes by the names of the columns meant, levels as the draft reads them.

    Raises:
        StudyError: a name is no column, a range is not of numbers, or levels are none of the column's.
    """
    ranges, levels = dict[str, tuple[float, float]](), dict[str, tuple[str, ...]]()
    names = dict(wishes.level_names)
    recorded = tuple(column_of(found, name, "recorded").name for name in wishes.recorded)
    secret = {"never_missing": wishes.never_missing, "written": wishes.written, "last_by": wishes.last_by}
    if wishes.data_class is not DataClass.sensitive and (needless := [name for name, said in secret.items() if said]):
        raise StudyError(
            f"{option(needless[0])} is for sensitive data, whose rows a draft does not describe; leave it out"
        )
    for name, ends in wishes.ranges.items():
        one = column_of(found, name, "ranges")
        if one.looks is not Looks.number:
            raise StudyError(f"{option('ranges')}: column '{one.name}' holds {one.looks}; leave its range out")
        ranges[one.name] = ends
    given = option("levels")
    for name, said in wishes.levels.items():
        one = column_of(found, name, "levels")
        words, named = named_levels(one, said)
        names |= {one.name: named} if named else {}
        if one.looks is Looks.number and not (one.whole and all(WHOLE.fullmatch(word) for word in words)):
            raise StudyError(
                f"{given}: column '{one.name}' has no whole levels such as these; give its {option('ranges')}"
            )
        if one.looks not in USABLE:
            raise StudyError(f"{given}: column '{one.name}' holds {one.looks}; leave its levels out")
        levels[one.name] = words if one.looks is Looks.number else as_read(one, words)
        if one.looks is not Looks.number and not set(levels[one.name]) & set(map(str, one.values)):
            raise StudyError(f"{given}: no row of column '{one.name}' holds any of these; write them as the file does")
    never = tuple(column_of(found, name, "never_missing").name for name in wishes.never_missing)
    wishes = replace(wishes, ranges=ranges, levels=levels, level_names=names, recorded=recorded)
    return replace(wishes, never_missing=never)


def said_of(found: Mapping[str, Found], wishes: Wishes) -> StatedLevels:
    """Return what was said of the levels and ranges of columns.

    Raises:
        StudyError: a name is no column, or levels are none of the column's.
    """
    known = resolved(found, wishes)
    return StatedLevels(known.levels, known.level_names, tuple(known.ranges))


def named_levels(one: Found, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return levels and their names, from words such as ``never:1``.

    There are no names where a colon belongs to the levels.

    Raises:
        StudyError: two levels have one name.
    """
    parts = [word.rpartition(":") for word in words]
    held = set(map(str, (*one.values, *one.levels)))
    if held & set(words) or not all(name.strip() and code.strip() for name, _, code in parts):
        return words, ()
    names = [name.strip() for name, _, _ in parts]
    if len(set(names)) < len(names):
        raise StudyError(f"{option('levels')}: two levels of column '{one.name}' have one name; give each its own")
    return tuple(code.strip() for _, _, code in parts), tuple(names)


def column_of(found: Mapping[str, Found], name: str, argument: str) -> Found:
    """Return the column of a name, in whatever case.

    Raises:
        StudyError: there is none; says so by the option or ``argument`` that names it.
    """
    tidy = " ".join(name.split())
    if tidy not in found:
        fitting = [one for one in found if one.casefold() == tidy.casefold()]
        if len(fitting) == 1:
            return found[fitting[0]]
        known = ", ".join(f"'{one}'" for one in list(found)[:30])
        rows = f"; where none names people and each row is one, give {option('each_row')} instead"
        alone = rows if argument == "unit" else ""
        raise StudyError(f"{option(argument)}: there is no column '{name}'; there are {known}{alone}")
    return found[tidy]


# What a treatment holds that is none, whatever the number of its values.
_HOLDS = {Looks.date: "dates", Looks.moment: "moments as numbers", Looks.unread: "values of a type that no study reads"}


def _codes(found: Mapping[str, Found], treatment: Found, wishes: Wishes) -> tuple[Value, Value]:
    name, treated = treatment.name, wishes.treated
    if treatment.looks is not Looks.binary:
        kind = treatment.looks in (Looks.date, Looks.moment, Looks.text, Looks.mixed, Looks.unread)
        what = _HOLDS.get(treatment.looks, str(treatment.looks))
        what = what if kind or treatment.distinct < 2 else f"{treatment.distinct} different values"
        several = treatment.distinct > 2 and treatment.looks in (Looks.number, Looks.category)
        way = (
            f"if they are arms, {option(arms=True, reference=Blank('ARM'))} compares each with a reference; else add a "
            "column that says who was treated"
            if several and treatment.distinct <= MOST_ARMS
            else "add a column to the source that says who was treated, such as one of yes and no"
        )
        raise StudyError(f"{option('treatment')}: column '{name}' holds {what}, and a treatment has two values; {way}")
    values = treatment.values
    if treated is not None:
        said = said_of(found, wishes).meant(name, treated).casefold()
        chosen = [value for value in values if said in (str(value).casefold(), _uncoded(str(value).casefold()))]
        if not chosen:
            if wishes.data_class is DataClass.sensitive:
                way = option(levels={name: ["A", treated]})
                raise StudyError(f"{option('treated')}: say both values of column '{name}', as in {way}")
            raise StudyError(
                f"{option('treated')}: column '{name}' has no such value; write it as the draft or the file has it"
            )
        return next(value for value in values if value != chosen[0]), chosen[0]
    order = _control_first(values)
    if order is None:
        secret = wishes.data_class is DataClass.sensitive
        told = "" if secret else "; there are " + " and ".join(f"'{value}'" for value in values)
        way = option(treated=Blank("VALUE"))
        raise StudyError(f"{option('treated')}: say which value of column '{name}' means treated, as in {way}{told}")
    return order


def _arms(found: Mapping[str, Found], treatment: Found, wishes: Wishes) -> tuple[Value, ...]:
    """The arms of a treatment, the reference first."""
    name, arms = treatment.name, treatment.levels
    if not 2 <= len(arms) <= MOST_ARMS:
        raise StudyError(
            f"{option('arms')}: column '{name}' has no 2 to {MOST_ARMS} arms; name a column of a few values"
        )
    if wishes.reference is None:
        shown = ", ".join(f"'{one}'" for one in arms)
        told = f"; there are {shown}" if wishes.data_class is not DataClass.sensitive else ""
        raise StudyError(f"{option('reference')}: say which arm of '{name}' the others are compared with{told}")
    said = said_of(found, wishes).meant(name, wishes.reference)
    chosen = [one for one in arms if str(one).casefold() == said.casefold()]
    if not chosen:
        raise StudyError(f"{option('reference')}: column '{name}' has no such arm; write it as the file does")
    return (chosen[0], *(one for one in arms if one != chosen[0]))


def _control_first(values: tuple[Value, ...]) -> tuple[Value, Value] | None:
    """The two values, control first, if words or 0 and 1 tell; else None."""
    if set(values) == {0, 1}:
        return (False, True) if isinstance(values[0], bool) else (0, 1)
    words = {_uncoded(str(value).casefold()): value for value in values}
    for low, high in ((NO, YES), (CONTROL, None)):
        control = [word for word in words if word in low]
        other = [word for word in words if word not in low]
        if len(control) == len(other) == 1 and (high is None or other[0] in high):
            return words[control[0]], words[other[0]]
    return _negation_first(words) or _by_code(values)


def _uncoded(word: str) -> str:
    """Return the word behind a code: "yes" of "1_yes"."""
    coded = CODED.fullmatch(word)
    return word if coded is None else coded[2]


def _by_code(values: tuple[Value, ...]) -> tuple[Value, Value] | None:
    """The two values by the codes 0 and 1 before their words; None: they have no such codes."""
    codes = {coded[1]: value for value in values if (coded := CODED.fullmatch(str(value))) is not None}
    return (codes["0"], codes["1"]) if set(codes) == {"0", "1"} else None


def _negation_first(words: Mapping[str, Value]) -> tuple[Value, Value] | None:
    """Return two values that differ by a word such as "no", the one that has it first; or None.

    "No RHC" is the control of "RHC".
    """
    for word, other in (tuple(words), tuple(words)[::-1]):
        denied = NEGATION.fullmatch(word)
        if denied is not None and denied[1] == other:
            return words[word], words[other]
    return None


def _outcome_codes(outcome: Found, counted: str | None) -> tuple[Value, Value] | None:
    if counted is not None:
        yes = [one for one in outcome.values if str(one).casefold() == counted.strip().casefold()]
        if outcome.looks is not Looks.binary or not yes:
            values = " and ".join(f"'{one}'" for one in outcome.values)
            what = f"has the values {values}; name one of them" if values else f"holds {outcome.looks}; leave it out"
            raise StudyError(f"{option('counted')}: column '{outcome.name}' {what}")
        return next(one for one in outcome.values if one != yes[0]), yes[0]
    if outcome.looks is Looks.number:
        return None
    ways = {
        Looks.duration: "; write them as a number, of days or hours, and say the unit in its name",
        Looks.infinite: f"; {option(missing={outcome.name: ['inf', '-inf']})} reads them as no value",
    }
    if outcome.looks in ways:
        raise StudyError(f"{option('outcome')}: column '{outcome.name}' holds {outcome.looks}{ways[outcome.looks]}")
    if outcome.looks is Looks.binary:
        if not isinstance(outcome.values[0], str) and set(outcome.values) != {0, 1}:
            return None
        low, high = sorted(outcome.values)
        return _control_first(outcome.values) or (low, high)
    few = outcome.looks is Looks.category
    fewer = f"; {option(missing={outcome.name: ['A']})} leaves out who has value A, until two are left"
    raise StudyError(
        f"{option('outcome')}: column '{outcome.name}' holds {outcome.looks}; an outcome is a number or one of two "
        f"values{fewer if few else ''}"
    )


def _covariates(
    found: Mapping[str, Found], wishes: Wishes, taken: set[str], usable: tuple[Found, ...]
) -> tuple[Found, ...]:
    if wishes.covariates is None:
        chosen = tuple(one for one in usable if one.name not in taken)
        barred = {column_of(found, name, "without").name for name in wishes.without}
        chosen = tuple(one for one in chosen if one.name not in barred)
    else:
        chosen = tuple(column_of(found, name, "covariates") for name in wishes.covariates)
        given = option("covariates")
        for one in chosen:
            if one.name in taken:
                raise StudyError(f"{given}: column '{one.name}' already has another role; leave it out")
            if one.looks not in USABLE:
                raise StudyError(f"{given}: column '{one.name}' holds {one.looks}; leave it out")
    # A trial compares its arms as they are where nothing is to be adjusted for.
    if (
        not chosen
        and not wishes.trial
        and (unsaid := [one.name for one in found.values() if one.looks is Looks.unsaid])
    ):
        raise StudyError(
            "no column is left to adjust for: say what columns of text in sensitive data hold, by "
            f"{option(ranges={unsaid[0]: (LOW, HIGH)})} for numbers, {option('covariates')} for numbers whose range is "
            f"found later, {option(levels={unsaid[0]: ['A', 'B']})} for words"
        )
    if not chosen and not wishes.trial:
        raise StudyError(
            "no column is left to adjust for; a study needs one covariate at least: add one to the source, name one of "
            f"those left out by {option('covariates')}, or say {option(trial=True)} if treatment was randomised"
        )
    return chosen
