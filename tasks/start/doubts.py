"""Columns that no study should adjust for by default, and why.

Ids, moments, copies and parts of treatment or outcome.

What would hide part of an effect, or separate the arms, is told by names, by what a column holds as a whole (each value
once, all of them moments) and, where data are not sensitive, by how it hangs together with treatment and outcome.
Nothing is decided for good: a draft names every such column, and options put it back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from causalveil.schemas.contract import DataClass
from causalveil.schemas.hints import HIGH, LOW, option
from causalveil.schemas.warehouse import TextReading
from causalveil.tasks.machine.arrays import FloatArray, values_of
from causalveil.tasks.start.recognise import MOST_LEVELS, MOST_PLACES, Found, Looks, names_kinds
from causalveil.tasks.start.words import (
    AFTER,
    BEFORE,
    CODE_NAME,
    GROUP_ID,
    ID_NAME,
    PANDAS_INDEX,
    SURVEY_WEIGHT,
    TIME_WORD,
    WEIGHT,
    earlier,
    other_times,
    spoken,
    stems,
)
from causalveil.tasks.warehouse.values import read_text

# Fewer rows than this tell of nothing: small integers are often all different.
FEWEST_ROWS = 20
# A column that follows the outcome as closely as this is the outcome again: rounded, in other units, as its logarithm.
COPY = 0.995
# One that follows it as closely as this may be a part of it, or the same a little later; a person has to say.
CLOSE = 0.9
# Means of kinds follow any outcome where kinds have fewer rows than this on average.
ROWS_OF_KIND = 5
# What rounding of summands to cents may leave of the outcome's variance.
LEFT_OF_SUM = 1e-5
# Rows that correlations are computed on, evenly over the table.
MOST_ROWS = 50_000
# A level that one arm alone has is no accident below this chance, as if its rows met arms by chance: one of a million.
NO_ACCIDENT = 1e-6
# Of whole numbers that no name calls groups, those whose neighbours differ in arm in a sixth of places or more are
# codes: by chance a half differ, beside a threshold one, beside a band two.
SWITCHES = 6
# So many groups each arm has, at least, where treatment was given by group: by a name that says so, and by another.
FEWEST_NAMED, FEWEST_GROUPS = 2, 3
# No body weighs so many times what the middle one does: a column called weight that goes so far weighs rows.
HEAVIEST = 100
# Nor does one weigh so much: a newborn has 6,000 grams.
MOST_WEIGHT = 10_000
# Units of time since 1970, with the number of them in a day.
_EPOCHS = {"seconds": 86_400, "milliseconds": 86_400e3, "microseconds": 86_400e6, "nanoseconds": 86_400e9}
# Days since 1970 of 1990 and of 2100; days since 1900, as spreadsheets count, of 1954 and of 2064.
_MOMENTS, _SERIAL = (7_305, 47_482), (20_000, 60_000)


@dataclass(frozen=True)
class GivenBy:
    """Groups that were treated whole.

    Attributes:
        column: that names them.
        number: how many there are.
        of_arms: how many of each arm, by the arm as it is read.
        spread: standard deviation of their sizes over the mean size.
        without: units that have no group.
        constant: covariates of which all units of a group have one value, with the degrees of freedom that each takes.
    """

    column: str
    number: int
    of_arms: Mapping[Any, int]
    spread: float
    without: int = 0
    constant: Mapping[str, int] = field(default_factory=dict)

    @property
    def fewer(self) -> int:
        """The number of groups of the arm that has fewer."""
        return min(self.of_arms.values())


@dataclass(frozen=True)
class Doubts:
    """Columns in doubt, each with the reason.

    Attributes:
        left_out: no covariates: ids, moments, copies and parts of treatment or outcome.
        decide: may come after treatment; a person has to say.
        asked: covariates that may be read otherwise.
        clusters: groups that were treated whole, where the draft declares them.
    """

    left_out: dict[str, str]
    decide: dict[str, str]
    asked: dict[str, str]
    clusters: GivenBy | None = None


def doubts(
    frame: pl.DataFrame,
    candidates: tuple[Found, ...],
    unit: Found,
    treatment: Found,
    outcome: Found,
    data_class: DataClass,
    levels: Mapping[str, tuple[str, ...]],
    ranges: Collection[str] = (),
) -> Doubts:
    """Say which candidates for covariates are in doubt.

    Args:
        frame: the rows that count, columns under their names in the source.
        candidates: columns that could be adjusted for.
        unit, treatment, outcome: the columns that have another part.
        data_class: of sensitive data no column is compared with another.
        levels: categories whose levels are said.
        ranges: numbers whose range is said, which are no codes.
    """
    # Each column is read once: what is read already reads as itself.
    frame = frame.with_columns(as_read(frame, one).alias(one.source_name) for one in (*candidates, treatment, outcome))
    step = max(1, frame.height // MOST_ROWS)
    left_out, decide, asked = dict[str, str](), dict[str, str](), dict[str, str]()
    names = [one.name for one in (*candidates, treatment, outcome)]
    known = stems(names)
    for one in candidates:
        values = as_read(frame, one)
        why = "the index of pandas' rows, by its name" if re.fullmatch(PANDAS_INDEX, one.name) else None
        why = why or _moment(one, values) or _name_of_units(one, values, frame, unit)
        if why is not None:
            left_out[one.name] = why
    secret = data_class is DataClass.sensitive
    if not secret and frame.height >= FEWEST_ROWS:
        rest = tuple(one for one in candidates if one.name not in left_out)
        some = frame[::step]
        columns = {one.name: _numbers(some, one) for one in (*rest, treatment, outcome)}
        alike = {one.name: _alike(columns[one.name], columns[outcome.name]) for one in rest}
        left_out |= _told_by_values(columns, alike, rest, treatment, outcome)
        rest = tuple(one for one in rest if one.name not in left_out and not re.search(BEFORE, spoken(one.name)))
        decide |= _close(columns, alike, (one for one in rest if not earlier(one.name, outcome.name, known)), outcome)
    later = other_times(names, treatment.name, outcome.name)
    for one in candidates:
        if one.name in left_out or one.name in decide:
            continue
        values = as_read(frame, one)
        after = None if earlier(one.name, outcome.name, known) else _after(one, outcome)
        why = later.get(one.name) or after or _of_groups(one, values, known, levels)
        why = (
            why
            or _too_many_kinds(one, None if secret else values, {*levels, *ranges})
            or _weighs_rows(one, None if secret else values)
        )
        why = why or (None if secret else _of_one_arm(frame, one, treatment) or _of_one_outcome(frame, one, outcome))
        if why is not None:
            decide[one.name] = why
        elif one.name not in levels and one.name not in ranges:
            why = _codes(one, secret) or (None if secret else _bands_made_dates(one))
            asked |= {} if why is None else {one.name: why}
    return Doubts(left_out, decide, asked)


def given_by(frame: pl.DataFrame, columns: Iterable[Found], unit: Found, treatment: Found) -> GivenBy | None:
    """Return the column whose groups were treated whole.

    Treatment never varies within a group, which is no accident, and each arm has several groups. Of several such
    columns it is the one with the fewest groups: schools, where treatment was given by school, and not their classes.
    None: there is none.

    Args:
        frame: the rows that count; of a unit its first one tells.
        columns: that may name groups.
        unit, treatment: the columns that have this part.
    """
    arms = as_read(frame, treatment)
    rows = pl.DataFrame({"arm": arms, "unit": values_of(frame, unit.source_name)})
    found = []
    for one in columns:
        named = names_kinds(one.name) or re.search(GROUP_ID, spoken(one.name)) is not None
        # Codes that some row lacks are often written as fractions, 11.0 for 11.
        coded = one.looks is Looks.number and (one.whole or named)
        if one.looks not in (Looks.category, Looks.text) and not coded:
            continue
        all_units = rows.with_columns(group=as_read(frame, one)).unique("unit", keep="first")
        pairs = all_units.drop_nulls()
        groups = pairs.group_by("group").agg(rows=pl.len(), arms=pl.col("arm").n_unique(), arm=pl.col("arm").first())
        shares = pairs.group_by("arm").agg(share=pl.len() / max(len(pairs), 1))
        groups = groups.join(shares, on="arm")
        by_arm = dict(groups.group_by("arm").len().iter_rows())
        fewest = FEWEST_NAMED if named else FEWEST_GROUPS
        if (
            len(by_arm) != 2
            or min(by_arm.values()) < fewest
            or 2 * len(groups) > len(pairs)
            or (groups["arms"] > 1).any()
            or (one.looks is Looks.number and not named and not _shuffled(groups))
        ):
            continue
        if ((groups["rows"] - 1) * groups["share"].log()).sum() < math.log(NO_ACCIDENT):
            sizes = groups["rows"].to_numpy()
            spread, without = float(sizes.std() / sizes.mean()), all_units["group"].null_count()
            found.append(GivenBy(one.name, len(groups), by_arm, spread, without))
    return min(found, key=lambda one: (one.number, one.column), default=None)


def constant_within(frame: pl.DataFrame, group: Found, columns: Iterable[Found]) -> dict[str, int]:
    """Return columns that are constant within groups, with the degrees of freedom of each."""
    rows = pl.DataFrame({"": as_read(frame, group), **{one.name: as_read(frame, one) for one in columns}})
    most = rows.drop_nulls("").group_by("").agg(pl.all().drop_nulls().n_unique()).drop("").max()
    kinds = {one.name: rows[one.name].n_unique() - 1 if one.looks is Looks.category else 1 for one in columns}
    return {name: kinds[name] for name in most.columns if most[name].item() <= 1}


def _shuffled(groups: pl.DataFrame) -> bool:
    """Return whether arms change along a number as often as along codes, and not where an amount decides."""
    arms = groups.sort("group")["arm"]
    return int((arms != arms.shift(1)).sum()) * SWITCHES >= len(groups)


def as_read(frame: pl.DataFrame, one: Found) -> pl.Series:
    """Return a column as its reading makes it."""
    values = values_of(frame, one.source_name)
    if isinstance(one.reading, TextReading) and values.dtype == pl.String:
        return read_text(values, one.reading)[0].alias("values")
    return values


def _name_of_units(one: Found, values: pl.Series, frame: pl.DataFrame, unit: Found) -> str | None:
    """Say why a column is another name of rows or units; None: it is not."""
    if one.looks is not Looks.number or not one.whole or len(values) < FEWEST_ROWS or values.null_count():
        return None
    ids = values_of(frame, unit.source_name)
    pairs = pl.DataFrame({"a": values, "b": ids}).unique().height
    if ids.n_unique() < len(ids) and values.n_unique() == ids.n_unique() == pairs:
        return f"it names units, as '{unit.name}' does"
    if not one.unique:
        return None
    if one.upper - one.lower + 1 == len(values):
        return "it numbers rows"
    if re.search(ID_NAME, spoken(one.name)):
        return "an id: each row has a value of its own"
    if values.is_sorted() or values.is_sorted(descending=True):
        return "it numbers rows, with gaps"
    return None


def _moment(one: Found, values: pl.Series) -> str | None:
    """Say as what moments a column of numbers is written; None: it holds none."""
    if one.looks is not Looks.number:
        return None
    for word, day in _EPOCHS.items():
        if _MOMENTS[0] * day <= one.lower and one.upper <= _MOMENTS[1] * day and one.distinct > MOST_LEVELS:
            return f"moments, in {word} since 1970"
    if one.whole and _calendar(values.drop_nulls()):
        return "dates, written as whole numbers"
    told = re.search(TIME_WORD, spoken(one.name)) is not None
    if _SERIAL[0] <= one.lower and one.upper <= _SERIAL[1] and one.distinct > MOST_LEVELS:
        # Without a telling name: whole days within three years of this century, which no income stays in.
        within = one.whole and one.upper - one.lower <= 366 * 3 and one.lower >= 36_526
        if told or within:
            return "dates, as spreadsheets number days"
    return None


def _calendar(values: pl.Series) -> bool:
    """Check whether all numbers are days or months as 20250131 or 202501."""
    if not len(values) or values.n_unique() < 3:
        return False
    text = values.cast(pl.String)
    for length, form in ((8, "%Y%m%d"), (6, "%Y%m%d")):
        if bool((text.str.len_chars() == length).all()):
            days = (text if length == 8 else text + "01").str.to_date(form, strict=False)
            return not days.null_count() and bool(days.dt.year().is_between(1900, 2100).all())
    return False


def _after(one: Found, outcome: Found) -> str | None:
    """Say by which word of its name a column may be measured after treatment; None: by none."""
    if re.search(BEFORE, spoken(one.name)):
        return None
    found = re.search(AFTER, spoken(one.name))
    if found is not None:
        return f"'{found[0].strip(' _-.')}' in its name: it may come after treatment"
    words = {word for word in re.split(r"[\W\d_]+", outcome.name.casefold()) if len(word) > 2}
    shared = words & set(re.split(r"[\W\d_]+", one.name.casefold()))
    if shared:
        return f"'{sorted(shared)[0]}' in its name: it may be part of the outcome"
    return None


def _of_one_arm(frame: pl.DataFrame, one: Found, treatment: Found) -> str | None:
    """Say which value one arm alone has, as what treatment allows or causes.

    Return None if both arms have all common values.

    No value is one as well: how much people smoke is recorded of smokers. A value that m rows have, all of them of an
    arm with a share p of the rows, has a chance of p^m where value and arm have nothing to do with each other.
    """
    values, arms = as_read(frame, one), as_read(frame, treatment)
    if one.distinct > MOST_LEVELS:
        # What is recorded of one arm alone is told by its gaps, however many values it has.
        values = values.is_not_null()
    pairs = pl.DataFrame({"value": values, "arm": arms}).drop_nulls("arm")
    shares = dict(pairs.group_by("arm").len().iter_rows())
    held = pairs.group_by("value").agg(rows=pl.len(), arms=pl.col("arm").n_unique(), arm=pl.col("arm").first())
    for _, rows, arms, arm in held.sort("rows", descending=True).iter_rows():
        if arms == 1 and len(shares) > 1 and (shares[arm] / len(pairs)) ** rows < NO_ACCIDENT:
            return f"one of its values is found in one arm of '{treatment.name}' alone: it may come after treatment"
    return None


def _of_one_outcome(frame: pl.DataFrame, one: Found, outcome: Found) -> str | None:
    """Say that all rows of one value have the rarer of two outcomes, else None.

    Those who are not in work have no wage, for example.

    That a value never meets the rarer outcome says little: it may be rare there.
    """
    if one.distinct > MOST_LEVELS or outcome.distinct != 2:
        return None
    pairs = pl.DataFrame({"value": as_read(frame, one), "outcome": as_read(frame, outcome)}).drop_nulls()
    shares = dict(pairs.group_by("outcome").len().iter_rows())
    if len(shares) < 2:
        return None
    rarer = min(shares, key=lambda key: shares[key])
    held = pairs.group_by("value").agg(rows=pl.len(), all=(pl.col("outcome") == rarer).all())
    most = held.filter(pl.col("all"))["rows"].max()
    if isinstance(most, int) and (shares[rarer] / len(pairs)) ** most < NO_ACCIDENT:
        return f"all rows of one of its values have the same '{outcome.name}': it may be part of it"
    return None


def _of_groups(
    one: Found, values: pl.Series, known: Mapping[str, tuple[str, str]], levels: Mapping[str, object]
) -> str | None:
    """Say that whole numbers are ids of groups, by their name.

    Return None if they are none, or if their levels are stated.
    """
    name = spoken(known.get(one.name, (one.name, ""))[0])
    if one.looks is not Looks.number or one.name in levels or not re.search(GROUP_ID, name):
        return None
    if values.dtype.is_float() and not bool((values.drop_nulls() % 1 == 0).all()):
        return None
    return f"ids of groups, judging by its name, not a quantity: {option('levels')} says which count"


def _weighs_rows(one: Found, values: pl.Series | None) -> str | None:
    """Say that a column may hold weights of rows in a survey, by its name and, where it may be seen, by its size."""
    if one.looks is not Looks.number:
        return None
    told = re.search(SURVEY_WEIGHT, spoken(one.name)) is not None
    if not told and values is not None and re.search(WEIGHT, spoken(one.name)):
        middle = values.drop_nulls().median()
        told = isinstance(middle, float) and (one.upper > HEAVIEST * abs(middle) or middle > MOST_WEIGHT)
    if not told:
        return None
    way = f"in place of its line a last line of dataset.yaml, 'weights: {{column: {one.name}, upper: W}}', and"
    say = f"{way} 'weights: {one.name}' in the study, or each row counts once"
    return f"a survey's weight of each row by its name, it seems: {say}"


def _codes(one: Found, secret: bool) -> str | None:
    """Say that whole numbers are taken for codes of kinds, or may be some; None: they seem to be none."""
    way = option(levels={one.name: ["1", "2", "3"] if secret else list(map(str, one.levels))})
    if one.of_kinds:
        why = "its whole numbers are category codes, judging by its name, not a quantity"
        span = option(ranges={one.name: (LOW, HIGH) if secret else (one.lower, one.upper)})
        drafted = f"say which count, as in {way}" if secret else f"drafted as levels, as {way} does"
        return f"{why}: {drafted}; if it is a quantity, {span} says so"
    if one.looks is Looks.number and _like_codes(one):
        return f"its whole numbers may be category codes: {option('levels')} says which, as in {way}"
    return None


_BAND = re.compile(r"\d{1,3}\s*(-|–|to|bis)\s*\d{1,3}")
_MONTHS = "|".join(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
_MADE_DATE = re.compile(rf"(?i)(\d{{1,2}})-({_MONTHS})|({_MONTHS})-(\d{{2}})")


def _bands_made_dates(one: Found) -> str | None:
    """Say that a level may be a band such as 10-14 of which a spreadsheet made a date; None: there is none."""
    words = [level for level in one.levels if isinstance(level, str)]
    dates = [word for word in words if _MADE_DATE.fullmatch(word)]
    if not dates or not any(_BAND.fullmatch(word) for word in words):
        return None
    return (
        f"'{dates[0]}' beside bands such as '{next(filter(_BAND.fullmatch, words))}' is a band of which a spreadsheet "
        "made a date, it seems: format the column as text and save the file again"
    )


# Randomised arms differ by more than this in one study of a thousand, over all columns together.
BY_LOT = 1e-3


def holds_code(values: pl.Series, code: object) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which rows hold a code; in files of statistics programs 1 is stored as 1.0."""
    if isinstance(code, int | float) and (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        same = values.cast(pl.Float64) == float(code)
    else:
        same = values.cast(pl.String) == str(code)
    return np.asarray(same.fill_null(value=False).to_numpy(), dtype=bool)


def unlike_by_lot(
    frame: pl.DataFrame, covariates: Iterable[Found], treatment: Found, treated: object
) -> dict[str, str]:
    """Return covariates in which arms differ by more than randomisation explains.

    Means of numbers and shares of levels are compared by normal tests, whose p-values are multiplied by their number.
    """
    in_arm = holds_code(as_read(frame, treatment), treated)
    z: dict[str, float] = {}
    tests = 0
    for one in covariates:
        values = as_read(frame, one)
        kinds = values.drop_nulls().unique().to_list() if one.distinct <= MOST_LEVELS and not one.whole else []
        columns = [(values == kind) for kind in kinds] if kinds and not values.dtype.is_numeric() else [values]
        for column in columns:
            numbers = column.cast(pl.Float64, strict=False).to_numpy()
            there = np.isfinite(numbers)
            groups = [numbers[there & in_arm], numbers[there & ~in_arm]]
            if min(map(len, groups)) < FEWEST_ROWS:
                continue
            error = math.sqrt(sum(group.var() / len(group) for group in groups))
            tests += 1
            if error > 0:
                z[one.name] = max(z.get(one.name, 0.0), abs(groups[0].mean() - groups[1].mean()) / error)
    told = (
        "arms differ by more than randomisation gives in one study of a thousand: if it comes after treatment, "
        f"{option('without')} leaves it out; if treatment was not randomised, leave out {option('trial')}"
    )
    return {name: told for name, score in z.items() if tests * math.erfc(score / math.sqrt(2)) < BY_LOT}


def _too_many_kinds(one: Found, values: pl.Series | None, said: Collection[str]) -> str | None:
    """Say that a column holds codes of more kinds than a draft lists; None: it does not."""
    if one.looks is not Looks.number or one.distinct <= MOST_PLACES or one.name in said:
        return None
    # Codes that some row lacks are often written as fractions, 11.0 for 11.
    point = values is not None and one.lower >= 1 and values.dtype.is_float() and names_kinds(one.name)
    if not one.of_kinds and not (point and values is not None and bool((values.drop_nulls() % 1 == 0).all())):
        return None
    return (
        f"more than {MOST_PLACES} category codes, judging by its name, not a quantity: {option('levels')} says "
        f"which count; if it is a quantity, {option(ranges={one.name: (LOW, HIGH)})} says so"
    )


def _like_codes(one: Found) -> bool:
    """Check whether a column has few different whole numbers and a name that speaks of kinds."""
    return one.whole and 3 <= one.distinct <= MOST_LEVELS and re.search(CODE_NAME, spoken(one.name)) is not None


def _told_by_values(
    columns: Mapping[str, FloatArray],
    alike: Mapping[str, float],
    candidates: tuple[Found, ...],
    treatment: Found,
    outcome: Found,
) -> dict[str, str]:
    """Find copies and parts of the outcome, what tells the arms apart, and columns that stand twice.

    ``alike``: correlations of columns with the outcome, as of :func:`_alike`.
    """
    arms, results = columns[treatment.name], columns[outcome.name]
    told: dict[str, str] = {}
    for one in candidates:
        values = columns[one.name]
        two = outcome.distinct == 2
        follows = _same_groups(values, results) if two else _ranges_apart(results, values, one)
        if follows or alike[one.name] > COPY:
            told[one.name] = f"it reveals '{outcome.name}'"
        elif _ranges_apart(values, arms, treatment) or _same_groups(values, arms):
            told[one.name] = f"it reveals '{treatment.name}': no unit resembles one of the other arm"
    if outcome.distinct > 2:
        numbers = {one.name: columns[one.name] for one in candidates if one.looks is Looks.number}
        numbers = {name: values for name, values in numbers.items() if name not in told}
        parts = _summands(numbers, results)
        told |= {name: f"'{outcome.name}' is a sum of it and {_others(parts, name)}" for name in parts}
        # A wage, or its logarithm, is made of earnings and hours.
        logs, made = {name: _logarithm(values) for name, values in numbers.items()}, list[str]()
        for made_of in () if parts else (results, _logarithm(results)):
            made = made or _summands(logs, made_of)
        told |= {name: f"'{outcome.name}' is made of it and {_others(made, name)}" for name in made}
    told |= _twins([one for one in candidates if one.name not in told], columns)
    return told | _indicators([one for one in candidates if one.name not in told], columns)


def _close(
    columns: Mapping[str, FloatArray], alike: Mapping[str, float], candidates: Iterable[Found], outcome: Found
) -> dict[str, str]:
    """Find what follows the outcome closely: numbers, those that are 0 where it is, and columns of few kinds."""
    results, found, none = columns[outcome.name], dict[str, float](), dict[str, float]()
    for one in candidates:
        if outcome.distinct > 2 and one.looks is Looks.number:
            found[one.name] = alike[one.name]
            none[one.name] = _none_together(columns[one.name], results)
        elif one.distinct <= MOST_LEVELS:
            found[one.name] = _told_by_kinds(columns[one.name], results)
        elif one.looks is Looks.number:
            found[one.name] = _tells_two(columns[one.name], results)
    told = {
        name: f"it is 0 where '{outcome.name}' is (correlation {close:.2f}): it may be part of it"
        for name, close in none.items()
        if close > CLOSE
    }
    return told | {
        name: f"it follows '{outcome.name}' closely (correlation {close:.2f}): it may be part of it"
        for name, close in found.items()
        if close > CLOSE
    }


def _none_together(values: FloatArray, results: FloatArray) -> float:
    """Return the correlation of being 0, as hours and weeks of work are; 0 where few rows are 0, or few are not."""
    rows = [one == 0 for one in _both(values, results)]
    if min(int(count) for one in rows for count in (one.sum(), (~one).sum())) < FEWEST_ROWS:
        return 0.0
    return float(np.corrcoef(*rows)[0, 1])


def _told_by_kinds(values: FloatArray, results: FloatArray) -> float:
    """Return the correlation of an outcome with its means by the kinds of a column (the correlation ratio)."""
    values, results = _both(values, results)
    if len(values) < FEWEST_ROWS or not results.std() > 0:
        return 0.0
    _, kinds = np.unique(values, return_inverse=True)
    if len(values) < ROWS_OF_KIND * (kinds.max() + 1):
        return 0.0
    means = np.bincount(kinds, weights=results) / np.bincount(kinds)
    return float(means[kinds].std() / results.std())


def _tells_two(values: FloatArray, results: FloatArray) -> float:
    """Return 2 AUC - 1 of a number for an outcome of two values, without sign."""
    values, results = _both(values, results)
    if len(values) < FEWEST_ROWS or len(np.unique(results)) != 2:
        return 0.0
    ranks, upper = _ranked(values)[0], results == results.max()
    return abs(float(2 * (ranks[upper].mean() - ranks[~upper].mean()) / len(values)))


def _others(parts: list[str], name: str) -> str:
    others = [f"'{one}'" for one in parts if one != name]
    return " and ".join(others) if others else "a constant"


def _numbers(frame: pl.DataFrame, one: Found) -> FloatArray:
    """Return a column as numbers, words by their place in the alphabet, nulls as NaN."""
    values = as_read(frame, one)
    if values.dtype == pl.String or values.dtype.base_type() in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String).rank("dense")
    return values.cast(pl.Float64, strict=False).to_numpy()


def _both(left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    there = np.isfinite(left) & np.isfinite(right)
    return left[there], right[there]


def _alike(left: FloatArray, right: FloatArray) -> float:
    """Return the larger of linear and rank correlation, without sign.

    It is 0 where one has few values.
    """
    left, right = _both(left, right)
    if len(left) < FEWEST_ROWS:
        return 0.0
    (first, kinds), (second, others) = _ranked(left), _ranked(right)
    if kinds < 3 or others < 3:
        return 0.0
    return max(abs(float(np.corrcoef(left, right)[0, 1])), abs(float(np.corrcoef(first, second)[0, 1])))


def _ranked(values: FloatArray) -> tuple[FloatArray, int]:
    """Return the places of values in their order, and how many different ones there are."""
    order = np.argsort(values)
    places, ranked = np.empty(len(values)), values[order]
    places[order] = np.arange(len(values))
    return places, 1 + int(np.count_nonzero(ranked[1:] != ranked[:-1]))


def _ranges_apart(values: FloatArray, groups: FloatArray, of: Found) -> bool:
    """Check whether groups of at most a few kinds have ranges of ``values`` that do not meet."""
    if of.distinct > MOST_LEVELS:
        return False
    values, groups = _both(values, groups)
    kinds = np.unique(groups)
    if not 2 <= len(kinds) <= MOST_LEVELS or len(np.unique(values)) <= len(kinds):
        return False
    if min(int((groups == kind).sum()) for kind in kinds) < 5:
        return False
    ends = sorted((values[groups == kind].min(), values[groups == kind].max()) for kind in kinds)
    return all(one[1] < other[0] for one, other in pairwise(ends))


def _same_groups(values: FloatArray, groups: FloatArray) -> bool:
    """Check whether each value is in one group alone, with at least five rows each on average."""
    values, groups = _both(values, groups)
    kinds = np.unique(values)
    if not 2 <= len(kinds) <= MOST_LEVELS or len(values) < FEWEST_ROWS or len(np.unique(groups)) < 2:
        return False
    pairs = pl.DataFrame({"values": values, "groups": groups}).n_unique()
    return pairs == len(kinds) and len(values) >= ROWS_OF_KIND * len(kinds)


def _summands(columns: dict[str, FloatArray], results: FloatArray) -> list[str]:
    """Return the columns of which the outcome is a weighted sum, but for rounding."""
    there = np.isfinite(results)
    full = {name: values for name, values in columns.items() if np.isfinite(values[there]).all() and values.std() > 0}
    if len(full) < 2 or there.sum() < FEWEST_ROWS + 5 * len(full) or not results[there].std() > 0:
        return []
    z = np.column_stack([(values[there] - values[there].mean()) / values[there].std() for values in full.values()])
    y = (results[there] - results[there].mean()) / results[there].std()
    slopes, *_ = np.linalg.lstsq(z, y, rcond=1e-10)
    if float(np.mean((y - z @ slopes) ** 2)) > LEFT_OF_SUM:
        return []
    parts = [name for name, slope in zip(full, slopes, strict=True) if abs(slope) > 0.02]
    return parts if len(parts) > 1 else []


def _indicators(candidates: list[Found], columns: Mapping[str, FloatArray]) -> dict[str, str]:
    """Find columns that say the same as indicators of their values, as "educ" and "educ1".

    Of codes the indicators count, but for the first; of what is drafted as levels the levels.
    """
    told: dict[str, str] = {}
    for one in candidates:
        of = [other for other in candidates if other.distinct == 2 and _derived(other.name, one.name)]
        if not 3 <= one.distinct <= MOST_LEVELS or len(of) < one.distinct - 1 or one.nulls:
            continue
        each = pl.DataFrame({other.name: columns[other.name] for other in of})
        if not each.n_unique() == one.distinct == each.with_columns(pl.Series(one.name, columns[one.name])).n_unique():
            continue
        if one.of_kinds or one.looks is Looks.category:
            told |= {other.name: f"it indicates a level of '{one.name}'" for other in of}
        else:
            told[one.name] = f"{', '.join(repr(other.name) for other in of)} say what it is"
            told |= (
                {of[0].name: f"it indicates a level of '{one.name}' as the others show"}
                if len(of) == one.distinct
                else {}
            )
    return told


def _logarithm(values: FloatArray) -> FloatArray:
    """Return logarithms, NaN where there is none."""
    return np.log(np.where(values > 0, values, np.nan))


def _same_order(left: FloatArray, right: FloatArray) -> bool:
    """Check whether two columns put rows in the same order, or in the opposite one.

    A number and its square do, for example.
    """
    there = np.isfinite(left)
    if not np.array_equal(there, np.isfinite(right)) or there.sum() < FEWEST_ROWS:
        return False
    first, second = (np.unique(one[there], return_inverse=True)[1] for one in (left, right))
    return np.array_equal(first, second) or np.array_equal(first, second.max() - second)


def _derived(one: str, other: str) -> bool:
    """Check whether a name is another one and more, as "agesq" and "log_age" are of "age"."""
    return other.casefold() in one.casefold() and len(one) > len(other)


def _twins(candidates: list[Found], columns: Mapping[str, FloatArray]) -> dict[str, str]:
    """Find columns that hold the same as another one, in the same or in other words, or its square or logarithm.

    Of two such columns the first counts, or the one that the other's name is made of.
    """
    told: dict[str, str] = {}
    kept: list[Found] = []
    for one in sorted(candidates, key=lambda found: len(found.name)):
        values = columns[one.name]
        for other in kept:
            alike = one.distinct == other.distinct and _derived(one.name, other.name)
            if alike and _same_order(values, columns[other.name]):
                told[one.name] = f"it has the same information as '{other.name}'"
                break
        else:
            kept.append(one)
    kept = []
    for one in candidates:
        values = columns[one.name]
        for other in kept:
            if one.distinct != other.distinct or one.name in told:
                continue
            before = columns[other.name]
            if np.array_equal(values, before, equal_nan=True) or (
                one.distinct <= MOST_LEVELS and _same_groups(values, before) and _same_groups(before, values)
            ):
                told[one.name] = f"it has the same information as '{other.name}'"
                break
        else:
            if one.name not in told:
                kept.append(one)
    return told
