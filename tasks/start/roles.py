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
from causalveil.tasks.start.options import WHOLE, StatedLevels, condition, groups, measures
from causalveil.tasks.start.recognise import Looks, Profile, respelt
from causalveil.tasks.start.words import CODED, CONTROL, ID_NAME, NEGATION, NO, YES

USABLE = (Looks.binary, Looks.category, Looks.number)
Value = str | int | bool


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

    @property
    def stated(self) -> StatedLevels:
        """Levels with their names, and columns with ranges."""
        return StatedLevels(self.levels, self.level_names, tuple(self.ranges))


@dataclass(frozen=True)
class Cast:
    """The columns of a drafted study by role.

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

    unit: Profile
    treatment: Profile
    outcome: Profile
    codes: tuple[Value, Value]
    outcome_codes: tuple[Value, Value] | None
    covariates: tuple[Profile, ...]
    usable: tuple[Profile, ...]
    arms: tuple[Value, ...] = ()
    event: Profile | None = None
    where: tuple[Mapping[str, Any], ...] = ()
    subgroups: Profile | None = None
    measures: tuple[str, ...] = ()

    @property
    def recorded(self) -> tuple[Profile, ...]:
        """Return treatment, outcome, and the column of events where the outcome is a time."""
        return (self.treatment, self.outcome, *(() if self.event is None else (self.event,)))

    @property
    def named(self) -> frozenset[str]:
        """Columns that conditions and subgroups need."""
        groups = () if self.subgroups is None else (self.subgroups.name,)
        return frozenset((*(condition["column"] for condition in self.where), *groups))


def unit_candidates(columns: Mapping[str, Profile]) -> list[str]:
    """Return columns that may identify units: ids by name first, then those unique by row."""
    named = [column.name for column in columns.values() if re.search(ID_NAME, column.name) and column.nulls == 0]
    unique = [column.name for column in columns.values() if column.unique and column.looks is not Looks.date]
    return list(dict.fromkeys([*(name for name in named if name in unique), *named, *unique]))


def cast(columns: Mapping[str, Profile], wishes: Wishes) -> Cast:
    """Give each column its role.

    Args:
        columns: the columns of a sample by name.
        wishes: the names of the columns by role.

    Raises:
        StudyError: a name is no column, or its column cannot have the role.
    """
    unit = unit_of(columns, wishes.unit)
    treatment = column_of(columns, wishes.treatment, "treatment")
    outcome = column_of(columns, wishes.outcome, "outcome")
    if len({unit.name, treatment.name, outcome.name}) < 3:
        first, last = option("unit", "treatment"), option("outcome")
        raise StudyError(f"{first} and {last} name one column; each column has one role")
    event = None if wishes.event is None else _event(columns, wishes, (unit, treatment, outcome))
    arms = _arms(columns, treatment, wishes) if wishes.arms else ()
    codes = _codes(columns, treatment, wishes) if not arms else (arms[0], arms[1])
    usable = tuple(column for column in columns.values() if column.looks in USABLE and column.name != unit.name)
    taken = {unit.name, treatment.name, outcome.name, *(() if event is None else (event.name,))}
    if event is not None and wishes.measures:
        taken_out, event_out = option("measures"), option("event")
        raise StudyError(
            f"{taken_out}: times have their own measures, risk and rmst; leave {taken_out} or {event_out} out"
        )
    outcome_codes = None if event is not None else _outcome_codes(outcome, wishes.counted)
    stated = resolved(columns, wishes).stated if wishes.where or wishes.subgroups is not None else StatedLevels()
    where = tuple(condition(columns, text, taken, wishes.data_class, stated) for text in wishes.where)
    within = None
    if wishes.subgroups is not None:
        column = column_of(columns, wishes.subgroups, "subgroups")
        within = groups(column, taken, has_levels=stated.as_levels(column))
    # A condition "== value" makes its column constant among eligible units.
    fixed = (
        {comparison["column"] for comparison in where if comparison["op"] == str(Operator.equal)}
        if wishes.covariates is None
        else set()
    )
    parts = Cast(unit, treatment, outcome, codes, outcome_codes, (), usable, arms, event, where, within)
    if event is not None:
        return replace(parts, covariates=_of_times(columns, wishes, parts, taken | fixed))
    measured = measures(wishes.measures, trial=wishes.trial, two_values=outcome.distinct == 2)
    apart = {within.name} if within is not None else set()
    covariates = _covariates(columns, wishes, taken | apart | fixed, usable)
    return replace(parts, covariates=covariates, measures=measured)


def _of_times(columns: Mapping[str, Profile], wishes: Wishes, parts: Cast, taken: set[str]) -> tuple[Profile, ...]:
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
    # Unadjusted curves need no covariate, so an empty list is no error.
    adjusts = wishes.covariates is not None or not wishes.trial
    return _covariates(columns, replace(wishes, trial=True), taken, parts.usable) if adjusts else ()


def unit_of(columns: Mapping[str, Profile], name: str) -> Profile:
    """Return the column that names units.

    Raises:
        StudyError: there is no such column, or it holds no value.
    """
    unit = column_of(columns, name, "unit")
    if unit.looks is Looks.empty:
        raise StudyError(f"{option('unit')}: column '{unit.name}' holds no value; name a column of ids")
    return unit


def treatment_of(columns: Mapping[str, Profile], wishes: Wishes, *, named: bool = True) -> Profile:
    """Return the column that says who was treated.

    Args:
        columns: the columns by name.
        wishes: statements about the treatment and its values.
        named: whether they must say which value means treated, or which arm is the reference.

    Raises:
        StudyError: there is no such column, it is the unit's, or a treatment cannot have its values.
    """
    treatment = column_of(columns, wishes.treatment, "treatment")
    _other_than(treatment, {"unit": wishes.unit})
    several = 2 < treatment.distinct <= MOST_ARMS and len(treatment.levels) > 2
    if named and wishes.arms:
        _arms(columns, treatment, wishes)
    elif named or not (several or treatment.looks is Looks.binary):
        _codes(columns, treatment, wishes)
    return treatment


def outcome_of(columns: Mapping[str, Profile], wishes: Wishes) -> Profile:
    """Return the outcome's column.

    Raises:
        StudyError: there is no such column, it has another role, or it holds neither numbers nor two values.
    """
    outcome = column_of(columns, wishes.outcome, "outcome")
    _other_than(outcome, {"unit": wishes.unit, "treatment": wishes.treatment})
    _outcome_codes(outcome, wishes.counted)
    return outcome


def _other_than(column: Profile, others: Mapping[str, str]) -> None:
    for part, name in others.items():
        if column.name.casefold() == " ".join(name.split()).casefold():
            raise StudyError(f"column '{column.name}' is already the one of {option(part)}; each column has one role")


def _event(columns: Mapping[str, Profile], wishes: Wishes, others: tuple[Profile, ...]) -> Profile:
    """Return the column of events, which says what ended the times of the outcome."""
    event, outcome = column_of(columns, wishes.event or "", "event"), others[-1]
    if event.name in {column.name for column in others}:
        raise StudyError(
            f"{option('event')}: column '{event.name}' already has another role; name what ended the times"
        )
    if outcome.looks is not Looks.number:
        raise StudyError(
            f"{option('outcome')}: column '{outcome.name}' holds {outcome.looks}; with {option('event')} it is a "
            "time, a number"
        )
    if wishes.horizon <= 0:
        ends = f"; '{outcome.name}' goes from {outcome.lower:g} to {outcome.upper:g}"
        hint = "" if wishes.data_class is DataClass.sensitive else ends
        raise StudyError(f"{option('horizon')}: say until when times are compared, as in {option(horizon=365)}{hint}")
    if event.looks not in USABLE:
        raise StudyError(f"{option('event')}: column '{event.name}' holds {event.looks}; name a column of a few codes")
    return event


def resolved(columns: Mapping[str, Profile], wishes: Wishes) -> Wishes:
    """Return the wishes by exact names of columns, levels as the draft reads them.

    Raises:
        StudyError: a name is no column, a range is not of numbers, or levels are none of the column's.
    """
    ranges, levels = dict[str, tuple[float, float]](), dict[str, tuple[str, ...]]()
    names = dict(wishes.level_names)
    recorded = tuple(column_of(columns, name, "recorded").name for name in wishes.recorded)
    secret = {"never_missing": wishes.never_missing, "written": wishes.written, "last_by": wishes.last_by}
    if wishes.data_class is not DataClass.sensitive and (needless := [name for name, value in secret.items() if value]):
        raise StudyError(
            f"{option(needless[0])} is for sensitive data, whose rows a draft does not describe; leave it out"
        )
    for name, ends in wishes.ranges.items():
        column = column_of(columns, name, "ranges")
        if column.looks is not Looks.number:
            raise StudyError(f"{option('ranges')}: column '{column.name}' holds {column.looks}; leave its range out")
        ranges[column.name] = ends
    given = option("levels")
    for name, stated in wishes.levels.items():
        column = column_of(columns, name, "levels")
        words, named = named_levels(column, stated)
        names |= {column.name: named} if named else {}
        if column.looks is Looks.number and not (column.whole and all(WHOLE.fullmatch(word) for word in words)):
            raise StudyError(
                f"{given}: column '{column.name}' has no whole levels such as these; give its {option('ranges')}"
            )
        if column.looks not in USABLE:
            raise StudyError(f"{given}: column '{column.name}' holds {column.looks}; leave its levels out")
        levels[column.name] = words if column.looks is Looks.number else respelt(column, words)
        if column.looks is not Looks.number and not set(levels[column.name]) & set(map(str, column.values)):
            raise StudyError(
                f"{given}: no row of column '{column.name}' holds any of these; write them as the file does"
            )
    never = tuple(column_of(columns, name, "never_missing").name for name in wishes.never_missing)
    wishes = replace(wishes, ranges=ranges, levels=levels, level_names=names, recorded=recorded)
    return replace(wishes, never_missing=never)


def named_levels(column: Profile, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return levels and their names, from words such as ``never:1``.

    There are no names where a colon belongs to the levels.

    Raises:
        StudyError: two levels have one name.
    """
    parts = [word.rpartition(":") for word in words]
    values = set(map(str, (*column.values, *column.levels)))
    if values & set(words) or not all(name.strip() and code.strip() for name, _, code in parts):
        return words, ()
    names = [name.strip() for name, _, _ in parts]
    if len(set(names)) < len(names):
        raise StudyError(f"{option('levels')}: two levels of column '{column.name}' have one name; give each its own")
    return tuple(code.strip() for _, _, code in parts), tuple(names)


def column_of(columns: Mapping[str, Profile], name: str, argument: str) -> Profile:
    """Return the column of a name, in any case.

    Raises:
        StudyError: there is none; ``argument`` is the option that names it.
    """
    tidy = " ".join(name.split())
    if tidy not in columns:
        fitting = [spelt for spelt in columns if spelt.casefold() == tidy.casefold()]
        if len(fitting) == 1:
            return columns[fitting[0]]
        listed = ", ".join(f"'{column}'" for column in list(columns)[:30])
        rows = f"; where none names people and each row is one, give {option('each_row')} instead"
        alone = rows if argument == "unit" else ""
        raise StudyError(f"{option(argument)}: there is no column '{name}'; there are {listed}{alone}")
    return columns[tidy]


# Contents that are no treatment, whatever the number of values.
_HOLDS = {Looks.date: "dates", Looks.moment: "moments as numbers", Looks.unread: "values of a type that no study reads"}


def _codes(columns: Mapping[str, Profile], treatment: Profile, wishes: Wishes) -> tuple[Value, Value]:
    name, treated = treatment.name, wishes.treated
    if treatment.looks is not Looks.binary:
        kind = treatment.looks in (Looks.date, Looks.moment, Looks.text, Looks.mixed, Looks.unread)
        content = _HOLDS.get(treatment.looks, str(treatment.looks))
        content = content if kind or treatment.distinct < 2 else f"{treatment.distinct} different values"
        several = treatment.distinct > 2 and treatment.looks in (Looks.number, Looks.category)
        way = (
            f"if they are arms, {option(arms=True, reference=Blank('ARM'))} compares each with a reference; else add a "
            "column that says who was treated"
            if several and treatment.distinct <= MOST_ARMS
            else "add a column to the source that says who was treated, such as one of yes and no"
        )
        raise StudyError(
            f"{option('treatment')}: column '{name}' holds {content}, and a treatment has two values; {way}"
        )
    values = treatment.values
    if treated is not None:
        meant = resolved(columns, wishes).stated.meant(name, treated).casefold()
        chosen = [value for value in values if meant in (str(value).casefold(), _uncoded(str(value).casefold()))]
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
        listed = "" if secret else "; there are " + " and ".join(f"'{value}'" for value in values)
        way = option(treated=Blank("VALUE"))
        raise StudyError(f"{option('treated')}: say which value of column '{name}' means treated, as in {way}{listed}")
    return order


def _arms(columns: Mapping[str, Profile], treatment: Profile, wishes: Wishes) -> tuple[Value, ...]:
    """Return the arms of a treatment, the reference first."""
    name, arms = treatment.name, treatment.levels
    if not 2 <= len(arms) <= MOST_ARMS:
        raise StudyError(
            f"{option('arms')}: column '{name}' has no 2 to {MOST_ARMS} arms; name a column of a few values"
        )
    if wishes.reference is None:
        shown = ", ".join(f"'{arm}'" for arm in arms)
        listed = f"; there are {shown}" if wishes.data_class is not DataClass.sensitive else ""
        raise StudyError(f"{option('reference')}: say which arm of '{name}' the others are compared with{listed}")
    meant = resolved(columns, wishes).stated.meant(name, wishes.reference)
    chosen = [arm for arm in arms if str(arm).casefold() == meant.casefold()]
    if not chosen:
        raise StudyError(f"{option('reference')}: column '{name}' has no such arm; write it as the file does")
    return (chosen[0], *(arm for arm in arms if arm != chosen[0]))


def _control_first(values: tuple[Value, ...]) -> tuple[Value, Value] | None:
    """Return the two values, control first, if words or 0 and 1 determine it; else None."""
    if set(values) == {0, 1}:
        return (False, True) if isinstance(values[0], bool) else (0, 1)
    words = {_uncoded(str(value).casefold()): value for value in values}
    for low, high in ((NO, YES), (CONTROL, None)):
        control = [word for word in words if word in low]
        others = [word for word in words if word not in low]
        if len(control) == len(others) == 1 and (high is None or others[0] in high):
            return words[control[0]], words[others[0]]
    return _negation_first(words) or _by_code(values)


def _uncoded(word: str) -> str:
    """Return the word behind a code: "yes" of "1_yes"."""
    coded = CODED.fullmatch(word)
    return word if coded is None else coded[2]


def _by_code(values: tuple[Value, ...]) -> tuple[Value, Value] | None:
    """Return the two values by the codes 0 and 1 before their words; None without such codes."""
    codes = {coded[1]: value for value in values if (coded := CODED.fullmatch(str(value))) is not None}
    return (codes["0"], codes["1"]) if set(codes) == {"0", "1"} else None


def _negation_first(words: Mapping[str, Value]) -> tuple[Value, Value] | None:
    """Return two values that differ by a word such as "no", the negated one first; or None."""
    for word, opposite in (tuple(words), tuple(words)[::-1]):
        denied = NEGATION.fullmatch(word)
        if denied is not None and denied[1] == opposite:
            return words[word], words[opposite]
    return None


def _outcome_codes(outcome: Profile, counted: str | None) -> tuple[Value, Value] | None:
    if counted is not None:
        yes = [value for value in outcome.values if str(value).casefold() == counted.strip().casefold()]
        if outcome.looks is not Looks.binary or not yes:
            values = " and ".join(f"'{value}'" for value in outcome.values)
            content = f"has the values {values}; name one of them" if values else f"holds {outcome.looks}; leave it out"
            raise StudyError(f"{option('counted')}: column '{outcome.name}' {content}")
        return next(value for value in outcome.values if value != yes[0]), yes[0]
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
    columns: Mapping[str, Profile], wishes: Wishes, taken: set[str], usable: tuple[Profile, ...]
) -> tuple[Profile, ...]:
    if wishes.covariates is None:
        chosen = tuple(column for column in usable if column.name not in taken)
        barred = {column_of(columns, name, "without").name for name in wishes.without}
        chosen = tuple(column for column in chosen if column.name not in barred)
    else:
        chosen = tuple(column_of(columns, name, "covariates") for name in wishes.covariates)
        given = option("covariates")
        for column in chosen:
            if column.name in taken:
                raise StudyError(f"{given}: column '{column.name}' already has another role; leave it out")
            if column.looks not in USABLE:
                raise StudyError(f"{given}: column '{column.name}' holds {column.looks}; leave it out")
    # A trial without covariates compares its arms unadjusted.
    if (
        not chosen
        and not wishes.trial
        and (unsaid := [column.name for column in columns.values() if column.looks is Looks.unsaid])
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
