"""Columns that no study should adjust for by default, and why.

Ids, moments, copies and parts of treatment or outcome.

Columns that would hide part of an effect, or separate the arms, are found by names, by their content (each value once,
all of them moments) and, where data are not sensitive, by their association with treatment and outcome. A draft names
every such column, and options put it back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from causalveil.schemas.contract import DataClass
from causalveil.schemas.hints import HIGH, LOW, option
from causalveil.tasks.machine.arrays import FloatArray, values_of
from causalveil.tasks.start.recognise import (
    MOST_LEVELS,
    MOST_PLACES,
    Looks,
    Profile,
    as_read,
    holds_code,
    names_kinds,
)
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

# Fewer rows than this show nothing: small integers are often all distinct.
FEWEST_ROWS = 20
# A correlation with the outcome above this marks a copy of it: rounded, in other units, its logarithm.
COPY = 0.995
# Above this a column may be a part of the outcome, or the same a little later; a person has to say.
CLOSE = 0.9
# Means by category follow any outcome where categories have fewer rows than this on average.
ROWS_OF_KIND = 5
# The share of the outcome's variance that rounding of summands to cents may leave.
LEFT_OF_SUM = 1e-5
# Rows that correlations are computed on, evenly over the table.
MOST_ROWS = 50_000
# A level in one arm alone is no accident if random assignment gives that with less than this probability.
NO_ACCIDENT = 1e-6
# Whole numbers whose neighbours differ in arm in a sixth of places or more are codes of groups, without a telling name:
# by chance half of them differ, at a threshold one pair, at a band two.
SWITCHES = 6
# The fewest groups of each arm where treatment was given by group: with a telling name, and without.
FEWEST_NAMED, FEWEST_GROUPS = 2, 3
# Above this multiple of the median a column called weight weighs rows, not bodies.
HEAVIEST = 100
# Above this median, too: a newborn has 6,000 grams.
MOST_WEIGHT = 10_000
# Units of time since 1970, with the number of them in a day.
_EPOCHS = {"seconds": 86_400, "milliseconds": 86_400e3, "microseconds": 86_400e6, "nanoseconds": 86_400e9}
# Days since 1970 of 1990 and of 2100; days since 1900, as spreadsheets count, of 1954 and of 2064.
_MOMENTS, _SERIAL = (7_305, 47_482), (20_000, 60_000)


@dataclass(frozen=True)
class GivenBy:
    """Groups that were treated whole.

    Attributes:
        column: their column.
        number: the number of groups.
        of_arms: the number of groups of each arm, by the arm as it is read.
        spread: standard deviation of their sizes over the mean size.
        without: units that have no group.
        constant: covariates that are constant within groups, with the degrees of freedom of each.
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
        left_out: ids, moments, copies and parts of treatment or outcome; no covariates.
        decide: columns that may come after treatment; a person has to say.
        asked: covariates that may be read in another way.
        clusters: groups that were treated whole, where the draft declares them.
    """

    left_out: dict[str, str]
    decide: dict[str, str]
    asked: dict[str, str]
    clusters: GivenBy | None = None


def doubts(
    frame: pl.DataFrame,
    candidates: tuple[Profile, ...],
    unit: Profile,
    treatment: Profile,
    outcome: Profile,
    data_class: DataClass,
    levels: Mapping[str, tuple[str, ...]],
    ranges: Collection[str] = (),
) -> Doubts:
    """Say which candidates for covariates are in doubt.

    Args:
        frame: the rows that count, columns under their names in the source.
        candidates: columns that could be adjusted for.
        unit, treatment, outcome: the columns that have another role.
        data_class: of sensitive data no column is compared with another.
        levels: categories whose levels are stated.
        ranges: numbers whose range is stated, which are no codes.
    """
    # Each column is read once: reading again changes nothing.
    frame = frame.with_columns(
        as_read(frame, column).alias(column.source_name) for column in (*candidates, treatment, outcome)
    )
    step = max(1, frame.height // MOST_ROWS)
    left_out, decide, asked = dict[str, str](), dict[str, str](), dict[str, str]()
    names = [column.name for column in (*candidates, treatment, outcome)]
    stems_by_name = stems(names)
    for column in candidates:
        values = as_read(frame, column)
        reason = "the index of pandas' rows, by its name" if re.fullmatch(PANDAS_INDEX, column.name) else None
        reason = reason or _moment(column, values) or _name_of_units(column, values, frame, unit)
        if reason is not None:
            left_out[column.name] = reason
    secret = data_class is DataClass.sensitive
    if not secret and frame.height >= FEWEST_ROWS:
        rest = tuple(column for column in candidates if column.name not in left_out)
        sample = frame[::step]
        columns = {column.name: _numbers(sample, column) for column in (*rest, treatment, outcome)}
        alike = {column.name: _alike(columns[column.name], columns[outcome.name]) for column in rest}
        left_out |= _told_by_values(columns, alike, rest, treatment, outcome)
        rest = tuple(
            column for column in rest if column.name not in left_out and not re.search(BEFORE, spoken(column.name))
        )
        decide |= _close(
            columns,
            alike,
            (column for column in rest if not earlier(column.name, outcome.name, stems_by_name)),
            outcome,
        )
    later = other_times(names, treatment.name, outcome.name)
    for column in candidates:
        if column.name in left_out or column.name in decide:
            continue
        values = as_read(frame, column)
        after = None if earlier(column.name, outcome.name, stems_by_name) else _after(column, outcome)
        reason = later.get(column.name) or after or _of_groups(column, values, stems_by_name, levels)
        reason = (
            reason
            or _too_many_kinds(column, None if secret else values, {*levels, *ranges})
            or _weighs_rows(column, None if secret else values)
        )
        reason = reason or (
            None if secret else _of_one_arm(frame, column, treatment) or _of_one_outcome(frame, column, outcome)
        )
        if reason is not None:
            decide[column.name] = reason
        elif column.name not in levels and column.name not in ranges:
            reason = _codes(column, secret) or (None if secret else _bands_made_dates(column))
            asked |= {} if reason is None else {column.name: reason}
    return Doubts(left_out, decide, asked)


def given_by(frame: pl.DataFrame, columns: Iterable[Profile], unit: Profile, treatment: Profile) -> GivenBy | None:
    """Return the column whose groups were treated whole; None if there is none.

    Treatment is constant within its groups, which is no accident, and each arm has several groups. Of several such
    columns it is the one with the fewest groups: schools rather than their classes.

    Args:
        frame: the rows that count; of a unit the first is read.
        columns: that may name groups.
        unit, treatment: the columns of these roles.
    """
    arms = as_read(frame, treatment)
    rows = pl.DataFrame({"arm": arms, "unit": values_of(frame, unit.source_name)})
    groupings = []
    for column in columns:
        named = names_kinds(column.name) or re.search(GROUP_ID, spoken(column.name)) is not None
        # Codes with nulls are often written as 11.0 for 11.
        coded = column.looks is Looks.number and (column.whole or named)
        if column.looks not in (Looks.category, Looks.text) and not coded:
            continue
        all_units = rows.with_columns(group=as_read(frame, column)).unique("unit", keep="first")
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
            or (column.looks is Looks.number and not named and not _shuffled(groups))
        ):
            continue
        if ((groups["rows"] - 1) * groups["share"].log()).sum() < math.log(NO_ACCIDENT):
            sizes = groups["rows"].to_numpy()
            spread, without = float(sizes.std() / sizes.mean()), all_units["group"].null_count()
            groupings.append(GivenBy(column.name, len(groups), by_arm, spread, without))
    return min(groupings, key=lambda grouping: (grouping.number, grouping.column), default=None)


def constant_within(frame: pl.DataFrame, group: Profile, columns: Iterable[Profile]) -> dict[str, int]:
    """Return columns that are constant within groups, with the degrees of freedom of each."""
    rows = pl.DataFrame({"": as_read(frame, group), **{column.name: as_read(frame, column) for column in columns}})
    most = rows.drop_nulls("").group_by("").agg(pl.all().drop_nulls().n_unique()).drop("").max()
    kinds = {
        column.name: rows[column.name].n_unique() - 1 if column.looks is Looks.category else 1 for column in columns
    }
    return {name: kinds[name] for name in most.columns if most[name].item() <= 1}


def _shuffled(groups: pl.DataFrame) -> bool:
    """Return whether arms change along a number as often as along codes, not as at a threshold."""
    arms = groups.sort("group")["arm"]
    return int((arms != arms.shift(1)).sum()) * SWITCHES >= len(groups)


def _name_of_units(column: Profile, values: pl.Series, frame: pl.DataFrame, unit: Profile) -> str | None:
    """Say why a column identifies rows or units; None if it does not."""
    if column.looks is not Looks.number or not column.whole or len(values) < FEWEST_ROWS or values.null_count():
        return None
    ids = values_of(frame, unit.source_name)
    pairs = pl.DataFrame({"a": values, "b": ids}).unique().height
    if ids.n_unique() < len(ids) and values.n_unique() == ids.n_unique() == pairs:
        return f"it names units, as '{unit.name}' does"
    if not column.unique:
        return None
    if column.upper - column.lower + 1 == len(values):
        return "it numbers rows"
    if re.search(ID_NAME, spoken(column.name)):
        return "an id: each row has a value of its own"
    if values.is_sorted() or values.is_sorted(descending=True):
        return "it numbers rows, with gaps"
    return None


def _moment(column: Profile, values: pl.Series) -> str | None:
    """Say how a column of numbers encodes moments; None if it holds none."""
    if column.looks is not Looks.number:
        return None
    for word, day in _EPOCHS.items():
        if _MOMENTS[0] * day <= column.lower and column.upper <= _MOMENTS[1] * day and column.distinct > MOST_LEVELS:
            return f"moments, in {word} since 1970"
    if column.whole and _calendar(values.drop_nulls()):
        return "dates, written as whole numbers"
    named = re.search(TIME_WORD, spoken(column.name)) is not None
    if _SERIAL[0] <= column.lower and column.upper <= _SERIAL[1] and column.distinct > MOST_LEVELS:
        # Without a telling name: whole days within three years of this century, which no income stays in.
        within = column.whole and column.upper - column.lower <= 366 * 3 and column.lower >= 36_526
        if named or within:
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


def _after(column: Profile, outcome: Profile) -> str | None:
    """Say by which word of its name a column may be measured after treatment; None if by none."""
    if re.search(BEFORE, spoken(column.name)):
        return None
    match = re.search(AFTER, spoken(column.name))
    if match is not None:
        return f"'{match[0].strip(' _-.')}' in its name: it may come after treatment"
    outcome_words = {word for word in re.split(r"[\W\d_]+", outcome.name.casefold()) if len(word) > 2}
    shared = outcome_words & set(re.split(r"[\W\d_]+", column.name.casefold()))
    if shared:
        return f"'{sorted(shared)[0]}' in its name: it may be part of the outcome"
    return None


def _of_one_arm(frame: pl.DataFrame, column: Profile, treatment: Profile) -> str | None:
    """Say that a value occurs in one arm alone, as a consequence of treatment does; else None.

    Null is a value as well: amounts of smoking are recorded of smokers. That all m rows of a value are of an arm with a
    share p of the rows has probability p^m if value and arm are independent.
    """
    values, arms = as_read(frame, column), as_read(frame, treatment)
    if column.distinct > MOST_LEVELS:
        # A column that is recorded in one arm alone shows it by its nulls, whatever its values.
        values = values.is_not_null()
    pairs = pl.DataFrame({"value": values, "arm": arms}).drop_nulls("arm")
    shares = dict(pairs.group_by("arm").len().iter_rows())
    by_value = pairs.group_by("value").agg(rows=pl.len(), arms=pl.col("arm").n_unique(), arm=pl.col("arm").first())
    for _, rows, arms, arm in by_value.sort("rows", descending=True).iter_rows():
        if arms == 1 and len(shares) > 1 and (shares[arm] / len(pairs)) ** rows < NO_ACCIDENT:
            return f"one of its values is found in one arm of '{treatment.name}' alone: it may come after treatment"
    return None


def _of_one_outcome(frame: pl.DataFrame, column: Profile, outcome: Profile) -> str | None:
    """Say that all rows of a value have the rarer outcome, as no wage means no work; else None.

    A value that never meets the rarer outcome proves little.
    """
    if column.distinct > MOST_LEVELS or outcome.distinct != 2:
        return None
    pairs = pl.DataFrame({"value": as_read(frame, column), "outcome": as_read(frame, outcome)}).drop_nulls()
    shares = dict(pairs.group_by("outcome").len().iter_rows())
    if len(shares) < 2:
        return None
    rarer = min(shares, key=lambda key: shares[key])
    by_value = pairs.group_by("value").agg(rows=pl.len(), all=(pl.col("outcome") == rarer).all())
    most = by_value.filter(pl.col("all"))["rows"].max()
    if isinstance(most, int) and (shares[rarer] / len(pairs)) ** most < NO_ACCIDENT:
        return f"all rows of one of its values have the same '{outcome.name}': it may be part of it"
    return None


def _of_groups(
    column: Profile, values: pl.Series, stems_by_name: Mapping[str, tuple[str, str]], levels: Mapping[str, object]
) -> str | None:
    """Say that whole numbers without stated levels are ids of groups, by their name; else None."""
    name = spoken(stems_by_name.get(column.name, (column.name, ""))[0])
    if column.looks is not Looks.number or column.name in levels or not re.search(GROUP_ID, name):
        return None
    if values.dtype.is_float() and not bool((values.drop_nulls() % 1 == 0).all()):
        return None
    return f"ids of groups, judging by its name, not a quantity: {option('levels')} says which count"


def _weighs_rows(column: Profile, values: pl.Series | None) -> str | None:
    """Say that a column may hold survey weights, by its name or its size; else None."""
    if column.looks is not Looks.number:
        return None
    named = re.search(SURVEY_WEIGHT, spoken(column.name)) is not None
    if not named and values is not None and re.search(WEIGHT, spoken(column.name)):
        middle = values.drop_nulls().median()
        named = isinstance(middle, float) and (column.upper > HEAVIEST * abs(middle) or middle > MOST_WEIGHT)
    if not named:
        return None
    instead = f"in place of its line a last line of dataset.yaml, 'weights: {{column: {column.name}, upper: W}}', and"
    advice = f"{instead} 'weights: {column.name}' in the study, or each row counts once"
    return f"a survey's weight of each row by its name, it seems: {advice}"


def _codes(column: Profile, secret: bool) -> str | None:
    """Say that whole numbers are, or may be, category codes; None if they seem not to be."""
    as_levels = option(levels={column.name: ["1", "2", "3"] if secret else list(map(str, column.levels))})
    if column.of_kinds:
        reason = "its whole numbers are category codes, judging by its name, not a quantity"
        as_range = option(ranges={column.name: (LOW, HIGH) if secret else (column.lower, column.upper)})
        levels = f"say which count, as in {as_levels}" if secret else f"drafted as levels, as {as_levels} does"
        return f"{reason}: {levels}; if it is a quantity, {as_range} says so"
    few = column.looks is Looks.number and column.whole and 3 <= column.distinct <= MOST_LEVELS
    if few and re.search(CODE_NAME, spoken(column.name)):
        return f"its whole numbers may be category codes: {option('levels')} says which, as in {as_levels}"
    return None


_BAND = re.compile(r"\d{1,3}\s*(-|–|to|bis)\s*\d{1,3}")
_MONTHS = "|".join(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
_MADE_DATE = re.compile(rf"(?i)(\d{{1,2}})-({_MONTHS})|({_MONTHS})-(\d{{2}})")


def _bands_made_dates(column: Profile) -> str | None:
    """Say that a level may be a band such as 10-14 that a spreadsheet made a date; else None."""
    levels = [level for level in column.levels if isinstance(level, str)]
    dates = [word for word in levels if _MADE_DATE.fullmatch(word)]
    if not dates or not any(_BAND.fullmatch(word) for word in levels):
        return None
    return (
        f"'{dates[0]}' beside bands such as '{next(filter(_BAND.fullmatch, levels))}' is a band of which a spreadsheet "
        "made a date, it seems: format the column as text and save the file again"
    )


# Randomised arms differ by more than this in one study of a thousand, over all columns together.
BY_LOT = 1e-3


def unlike_by_lot(
    frame: pl.DataFrame, covariates: Iterable[Profile], treatment: Profile, treated: object
) -> dict[str, str]:
    """Return covariates in which arms differ by more than randomisation explains.

    Means of numbers and shares of levels are compared by normal tests, whose p-values are multiplied by their number.
    """
    in_arm = holds_code(as_read(frame, treatment), treated)
    z: dict[str, float] = {}
    tests = 0
    for covariate in covariates:
        values = as_read(frame, covariate)
        kinds = (
            values.drop_nulls().unique().to_list() if covariate.distinct <= MOST_LEVELS and not covariate.whole else []
        )
        columns = [(values == kind) for kind in kinds] if kinds and not values.dtype.is_numeric() else [values]
        for column in columns:
            numbers = column.cast(pl.Float64, strict=False).to_numpy()
            finite = np.isfinite(numbers)
            groups = [numbers[finite & in_arm], numbers[finite & ~in_arm]]
            if min(map(len, groups)) < FEWEST_ROWS:
                continue
            error = math.sqrt(sum(group.var() / len(group) for group in groups))
            tests += 1
            if error > 0:
                z[covariate.name] = max(z.get(covariate.name, 0.0), abs(groups[0].mean() - groups[1].mean()) / error)
    sentence = (
        "arms differ by more than randomisation gives in one study of a thousand: if it comes after treatment, "
        f"{option('without')} leaves it out; if treatment was not randomised, leave out {option('trial')}"
    )
    return {name: sentence for name, score in z.items() if tests * math.erfc(score / math.sqrt(2)) < BY_LOT}


def _too_many_kinds(column: Profile, values: pl.Series | None, stated: Collection[str]) -> str | None:
    """Say that a column holds codes of more categories than a draft lists; None if it does not."""
    if column.looks is not Looks.number or column.distinct <= MOST_PLACES or column.name in stated:
        return None
    # Codes with nulls are often written as 11.0 for 11.
    point = values is not None and column.lower >= 1 and values.dtype.is_float() and names_kinds(column.name)
    if not column.of_kinds and not (point and values is not None and bool((values.drop_nulls() % 1 == 0).all())):
        return None
    return (
        f"more than {MOST_PLACES} category codes, judging by its name, not a quantity: {option('levels')} says "
        f"which count; if it is a quantity, {option(ranges={column.name: (LOW, HIGH)})} says so"
    )


def _told_by_values(
    columns: Mapping[str, FloatArray],
    alike: Mapping[str, float],
    candidates: tuple[Profile, ...],
    treatment: Profile,
    outcome: Profile,
) -> dict[str, str]:
    """Find copies and parts of the outcome, columns that determine the arm, and duplicates.

    ``alike``: correlations of columns with the outcome, by :func:`_alike`.
    """
    arms, results = columns[treatment.name], columns[outcome.name]
    reasons: dict[str, str] = {}
    for column in candidates:
        values = columns[column.name]
        two = outcome.distinct == 2
        follows = _same_groups(values, results) if two else _ranges_apart(results, values, column)
        if follows or alike[column.name] > COPY:
            reasons[column.name] = f"it reveals '{outcome.name}'"
        elif _ranges_apart(values, arms, treatment) or _same_groups(values, arms):
            reasons[column.name] = f"it reveals '{treatment.name}': no unit resembles one of the other arm"
    if outcome.distinct > 2:
        numbers = {column.name: columns[column.name] for column in candidates if column.looks is Looks.number}
        numbers = {name: values for name, values in numbers.items() if name not in reasons}
        parts = _summands(numbers, results)
        reasons |= {name: f"'{outcome.name}' is a sum of it and {_others(parts, name)}" for name in parts}
        # A wage, or its logarithm, is made of earnings and hours.
        logs, made = {name: _logarithm(values) for name, values in numbers.items()}, list[str]()
        for made_of in () if parts else (results, _logarithm(results)):
            made = made or _summands(logs, made_of)
        reasons |= {name: f"'{outcome.name}' is made of it and {_others(made, name)}" for name in made}
    reasons |= _twins([column for column in candidates if column.name not in reasons], columns)
    return reasons | _indicators([column for column in candidates if column.name not in reasons], columns)


def _close(
    columns: Mapping[str, FloatArray],
    alike: Mapping[str, float],
    candidates: Iterable[Profile],
    outcome: Profile,
) -> dict[str, str]:
    """Find columns that follow the outcome closely: by numbers, by zeros, or by few categories."""
    results, correlations, of_zeros = columns[outcome.name], dict[str, float](), dict[str, float]()
    for column in candidates:
        if outcome.distinct > 2 and column.looks is Looks.number:
            correlations[column.name] = alike[column.name]
            of_zeros[column.name] = _none_together(columns[column.name], results)
        elif column.distinct <= MOST_LEVELS:
            correlations[column.name] = _told_by_kinds(columns[column.name], results)
        elif column.looks is Looks.number:
            correlations[column.name] = _tells_two(columns[column.name], results)
    reasons = {
        name: f"it is 0 where '{outcome.name}' is (correlation {close:.2f}): it may be part of it"
        for name, close in of_zeros.items()
        if close > CLOSE
    }
    return reasons | {
        name: f"it follows '{outcome.name}' closely (correlation {close:.2f}): it may be part of it"
        for name, close in correlations.items()
        if close > CLOSE
    }


def _none_together(values: FloatArray, results: FloatArray) -> float:
    """Return the correlation of two columns being 0; 0 where few rows are 0, or few are not."""
    rows = [zeros == 0 for zeros in _both(values, results)]
    if min(int(count) for zeros in rows for count in (zeros.sum(), (~zeros).sum())) < FEWEST_ROWS:
        return 0.0
    return float(np.corrcoef(*rows)[0, 1])


def _told_by_kinds(values: FloatArray, results: FloatArray) -> float:
    """Return the correlation ratio: of an outcome with its means by a column's categories."""
    values, results = _both(values, results)
    if len(values) < FEWEST_ROWS or not results.std() > 0:
        return 0.0
    _, kinds = np.unique(values, return_inverse=True)
    if len(values) < ROWS_OF_KIND * (kinds.max() + 1):
        return 0.0
    means = np.bincount(kinds, weights=results) / np.bincount(kinds)
    return float(means[kinds].std() / results.std())


def _tells_two(values: FloatArray, results: FloatArray) -> float:
    """Return |2 AUC - 1| of a number for an outcome of two values."""
    values, results = _both(values, results)
    if len(values) < FEWEST_ROWS or len(np.unique(results)) != 2:
        return 0.0
    ranks, upper = _ranked(values)[0], results == results.max()
    return abs(float(2 * (ranks[upper].mean() - ranks[~upper].mean()) / len(values)))


def _others(names: list[str], name: str) -> str:
    others = [f"'{part}'" for part in names if part != name]
    return " and ".join(others) if others else "a constant"


def _numbers(frame: pl.DataFrame, column: Profile) -> FloatArray:
    """Return a column as numbers, words by their place in the alphabet, nulls as NaN."""
    values = as_read(frame, column)
    if values.dtype == pl.String or values.dtype.base_type() in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String).rank("dense")
    return values.cast(pl.Float64, strict=False).to_numpy()


def _both(left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    finite = np.isfinite(left) & np.isfinite(right)
    return left[finite], right[finite]


def _alike(left: FloatArray, right: FloatArray) -> float:
    """Return the larger of |linear| and |rank| correlation; 0 where a column has few values."""
    left, right = _both(left, right)
    if len(left) < FEWEST_ROWS:
        return 0.0
    (first, kinds), (second, others) = _ranked(left), _ranked(right)
    if kinds < 3 or others < 3:
        return 0.0
    return max(abs(float(np.corrcoef(left, right)[0, 1])), abs(float(np.corrcoef(first, second)[0, 1])))


def _ranked(values: FloatArray) -> tuple[FloatArray, int]:
    """Return the ranks of values, and the number of distinct ones."""
    order = np.argsort(values)
    places, ranked = np.empty(len(values)), values[order]
    places[order] = np.arange(len(values))
    return places, 1 + int(np.count_nonzero(ranked[1:] != ranked[:-1]))


def _ranges_apart(values: FloatArray, groups: FloatArray, grouping: Profile) -> bool:
    """Check whether a few groups have ranges of ``values`` that do not overlap."""
    if grouping.distinct > MOST_LEVELS:
        return False
    values, groups = _both(values, groups)
    kinds = np.unique(groups)
    if not 2 <= len(kinds) <= MOST_LEVELS or len(np.unique(values)) <= len(kinds):
        return False
    if min(int((groups == kind).sum()) for kind in kinds) < 5:
        return False
    ends = sorted((values[groups == kind].min(), values[groups == kind].max()) for kind in kinds)
    return all(lower_range[1] < upper_range[0] for lower_range, upper_range in pairwise(ends))


def _same_groups(values: FloatArray, groups: FloatArray) -> bool:
    """Check whether each value is in one group alone, with at least five rows each on average."""
    values, groups = _both(values, groups)
    kinds = np.unique(values)
    if not 2 <= len(kinds) <= MOST_LEVELS or len(values) < FEWEST_ROWS or len(np.unique(groups)) < 2:
        return False
    pairs = pl.DataFrame({"values": values, "groups": groups}).n_unique()
    return pairs == len(kinds) and len(values) >= ROWS_OF_KIND * len(kinds)


def _summands(columns: dict[str, FloatArray], results: FloatArray) -> list[str]:
    """Return the columns whose weighted sum is the outcome, up to rounding."""
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


def _indicators(candidates: list[Profile], columns: Mapping[str, FloatArray]) -> dict[str, str]:
    """Find columns beside indicators of their values, as "educ" and "educ1".

    Indicators of levels are left out; for other codes the column is, and the first indicator if all are there.
    """
    reasons: dict[str, str] = {}
    for column in candidates:
        indicators = [
            indicator for indicator in candidates if indicator.distinct == 2 and _derived(indicator.name, column.name)
        ]
        if not 3 <= column.distinct <= MOST_LEVELS or len(indicators) < column.distinct - 1 or column.nulls:
            continue
        rows = pl.DataFrame({indicator.name: columns[indicator.name] for indicator in indicators})
        if (
            not rows.n_unique()
            == column.distinct
            == rows.with_columns(pl.Series(column.name, columns[column.name])).n_unique()
        ):
            continue
        if column.of_kinds or column.looks is Looks.category:
            reasons |= {indicator.name: f"it indicates a level of '{column.name}'" for indicator in indicators}
        else:
            reasons[column.name] = f"{', '.join(repr(indicator.name) for indicator in indicators)} say what it is"
            if len(indicators) == column.distinct:
                reasons[indicators[0].name] = f"it indicates a level of '{column.name}' as the others show"
    return reasons


def _logarithm(values: FloatArray) -> FloatArray:
    """Return logarithms, NaN of values that are not positive."""
    return np.log(np.where(values > 0, values, np.nan))


def _same_order(left: FloatArray, right: FloatArray) -> bool:
    """Check whether two columns order rows alike or in reverse, as a number and its square do."""
    finite = np.isfinite(left)
    if not np.array_equal(finite, np.isfinite(right)) or finite.sum() < FEWEST_ROWS:
        return False
    first, second = (np.unique(values[finite], return_inverse=True)[1] for values in (left, right))
    return np.array_equal(first, second) or np.array_equal(first, second.max() - second)


def _derived(name: str, stem: str) -> bool:
    """Check whether a name contains another, as "agesq" and "log_age" contain "age"."""
    return stem.casefold() in name.casefold() and len(name) > len(stem)


def _twins(candidates: list[Profile], columns: Mapping[str, FloatArray]) -> dict[str, str]:
    """Find columns that repeat another: in its or other codes, as its square or logarithm.

    Of two such columns the first is taken, or the one whose name the other contains.
    """

    def transformed(column: Profile, first: Profile) -> bool:
        return _derived(column.name, first.name) and _same_order(columns[column.name], columns[first.name])

    def recoded(column: Profile, first: Profile) -> bool:
        values, others = columns[column.name], columns[first.name]
        return np.array_equal(values, others, equal_nan=True) or (
            column.distinct <= MOST_LEVELS and _same_groups(values, others) and _same_groups(others, values)
        )

    reasons = _repeats(sorted(candidates, key=lambda column: len(column.name)), transformed)
    return reasons | _repeats([column for column in candidates if column.name not in reasons], recoded)


def _repeats(candidates: list[Profile], same: Callable[[Profile, Profile], bool]) -> dict[str, str]:
    """Find columns that are the same as one before them, with reasons."""
    reasons: dict[str, str] = {}
    first_columns: list[Profile] = []
    for column in candidates:
        alike = (first for first in first_columns if column.distinct == first.distinct and same(column, first))
        if (first := next(alike, None)) is None:
            first_columns.append(column)
        else:
            reasons[column.name] = f"it has the same information as '{first.name}'"
    return reasons
