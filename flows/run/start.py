"""From a file to a folder that a study can run on.

Look, draft, write, and take the rows over.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs

from causalveil.flows.engine.engine import Engine
from causalveil.flows.run.admit import fill
from causalveil.flows.run.estimators import candidates, chosen, expected_width
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.clusters import FEWEST_CLUSTERS, FEWEST_OF_AN_ARM, MOST_SIZES, PER_CONSTANT, too_unlike
from causalveil.schemas.contract import CONTRACT_FILE, DataClass, parse_contract
from causalveil.schemas.documents import parse_yaml
from causalveil.schemas.errors import CausalveilError, DataError, StudyError, kind_of
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.plan import FEWER_HELPS, MANY_COVARIATES, StandIn
from causalveil.schemas.study import Study
from causalveil.schemas.warehouse import (
    SOURCE_FILE,
    CsvFiles,
    DuckDb,
    Kind,
    Manifest,
    ParquetFiles,
    TableFile,
    TextReading,
    Warehouse,
)
from causalveil.tasks.data.cells import eligible
from causalveil.tasks.estimate.times.people import fewest_followed
from causalveil.tasks.machine.arrays import named, values_of
from causalveil.tasks.machine.files import refuse_url_as_path, write_whole
from causalveil.tasks.start.doubts import Doubts, GivenBy, as_read, constant_within, doubts, given_by, unlike_by_lot
from causalveil.tasks.start.draft import Draft, Repeats, draft
from causalveil.tasks.start.expected import expectation, ranked
from causalveil.tasks.start.options import read_as_missing, told_far, told_missing
from causalveil.tasks.start.recognise import Found, Looks, counted_again, names_kinds, recognise
from causalveil.tasks.start.roles import USABLE, WHOLE, Cast, Wishes, cast, column_of, resolved
from causalveil.tasks.start.stated import misfits, others, stated, told_by_rows
from causalveil.tasks.start.times import (
    ends_by_stem,
    followed_to,
    key_question,
    no_event,
    other_time,
    refuse_no_dates,
    step_of,
    times_in_doubt,
)
from causalveil.tasks.warehouse.read_files import by_name
from causalveil.tasks.warehouse.sample import Sample, by_header, sample_of

STUDY_FILE = "study.yaml"
# Why the draft of sensitive data has no clusters; their owner alone reads it.
ASKED_OF_ITS_OWNER = (
    "where their number is public, write it: `clusters: {COLUMN: {number: N, spread: S}}` in dataset.yaml, the column "
    "in source.yaml, and `clusters: {column: COLUMN, treated: M}` in study.yaml"
)
# A draft says what fewer covariates would give, down to so few.
FEWEST_COVARIATES = 3
# The column of row numbers, where each row is a unit.
ROW = "row"


# A number that says when, or which time it was.
TIME_NAME = re.compile(
    r"(^|[\W_])(year|quarter|month|week|day|date|time|wave|round|visit|period|episode|occasion|sequence|seq|row|line|nth)s?($|[\W_\d])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Survey:
    """A sample and what its columns hold, by the names that a draft gives them.

    ``said``: encoding and delimiter, where somebody said them.
    """

    sample: Sample
    found: dict[str, Found]
    said: dict[str, str | None] = field(default_factory=dict)


# Names that are listed of many.
MOST_NAMES = 40


def first_of(names: Sequence[str]) -> str:
    """Return names in a row; of many the first, and how many there are."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMES])}, ... ({len(names):,} in all)"


@dataclass(frozen=True)
class FewerCovariates:
    """The half-widths that a plan expects with all covariates of a draft and with fewer.

    Attributes:
        order: all of them, the first by names and types first.
        widths: how many, and the half-width in outcome units.
    """

    order: tuple[str, ...]
    widths: tuple[tuple[int, float], ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences for a person, and the option that chooses."""
        (count, width), *others = self.widths
        each = ", ".join(f"with {few} ± {one:.3g}" for few, one in others)
        least = min(others, key=lambda pair: pair[1])
        way = f": {option(most=least[0])} takes the first {least[0]}" if least[1] < FEWER_HELPS * width else ""
        return (
            f"{count} covariates share one budget: expect ± {width:.3g} with all, {each}{way}",
            f"in this order, by names and types alone: {first_of(self.order)}",
        )


@dataclass(frozen=True)
class Begun:
    """The result of `init`: the folder, the draft, and the manifest of the rows taken over.

    ``units``: different ids among the rows that count; ``repeats``: how several rows of a unit become one.
    ``followed``: how many rows of each arm reach the horizon, where times are compared and data are not sensitive.
    ``rows_say``: what rows of sensitive data would add to the draft, for their owner's eyes: it stands in no file.
    ``fewer``: what a plan expects with fewer covariates, where there are many.
    ``manifest`` is None where rows come from a database, which an extract asks once its URL is in place.
    """

    folder: Path
    draft: Draft
    manifest: Manifest | None
    units: int
    repeats: Repeats | None
    followed: str = ""
    rows_say: tuple[str, ...] = ()
    fewer: FewerCovariates | None = None


def survey(
    where: str,
    *,
    table: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    as_text: Collection[str] | None = None,
) -> Survey:
    """Look at a file, a folder or a database (see :func:`tasks.warehouse.sample.sample_of`).

    ``as_text``: columns of a CSV file that stay text; numbers and dates of all others are kept as they are read, which
    takes half the memory. None: all stay text.
    """
    kept = None if as_text is None else {_tidy(name) for name in as_text}
    seen = _seen(sample_of(where, table=table, encoding=encoding, delimiter=delimiter), kept)
    return replace(seen, said={"encoding": encoding, "delimiter": delimiter})


def _tidy(name: str) -> str:
    return " ".join(name.split()).casefold()


def _seen(sample: Sample, as_text: Collection[str] | None = None) -> Survey:
    """Return what columns hold; ``as_text`` as of :func:`survey`."""
    columns, found, kept = sample.frame.get_columns()[::-1], dict[str, Found](), list[pl.Series]()
    of_text, separator = isinstance(sample.source, CsvFiles) and as_text is not None, _separator(sample)
    # Text is let go column by column.
    sample = replace(sample, frame=sample.frame.clear())
    while columns:
        values = columns.pop()
        one = recognise(values.name, values, delimiter=separator)
        if of_text and one.looks in (Looks.number, Looks.date) and _tidy(one.name) not in (as_text or ()):
            values = as_read(values.to_frame(), one).alias(one.source_name)
        kept.append(values)
        note = (sample.told[one.source_name],) if one.source_name in sample.told else ()
        found[one.name] = replace(one, notes=(*one.notes, *note))
    return Survey(replace(sample, frame=pl.DataFrame(kept)), found)


def _separator(sample: Sample) -> str:
    return sample.source.delimiter if isinstance(sample.source, CsvFiles) else ","


def without_missing(seen: Survey, missing: Mapping[str, tuple[str, ...]]) -> Survey:
    """Return the survey as it is where some values of columns, such as 999, stand for none.

    Raises:
        StudyError: there is no such column, or no row of it holds such a value.
    """
    frame, found = read_as_missing(seen.sample.frame, seen.found, missing, _separator(seen.sample))
    return replace(seen, sample=replace(seen.sample, frame=frame), found=found)


def numbered(seen: Survey) -> Survey:
    """Return the survey with a column of row numbers, where each row is a unit without a name.

    Raises:
        StudyError: the source has a column of that name, or keeps no order of its rows.
    """
    sample = _with_numbers(seen.sample)
    return replace(seen, sample=sample, found={ROW: recognise(ROW, sample.frame[ROW]), **seen.found})


def _with_numbers(sample: Sample) -> Sample:
    if not isinstance(sample.source, CsvFiles | ParquetFiles | TableFile | DuckDb):
        raise StudyError(
            f"{option('each_row')} is for files, whose rows have an order; add a column of ids, named by "
            f"{option('unit')}"
        )
    if ROW in sample.frame.columns:
        way = f"name it by {option('unit')} if it tells rows apart"
        raise StudyError(f"{option('each_row')}: there is a column '{ROW}' already; {way}")
    frame = sample.frame.with_row_index(ROW, offset=1).cast({ROW: pl.Int64})
    change = {"row_number": ROW}
    if isinstance(sample.source, DuckDb):
        change = {"query": f'SELECT row_number() OVER () AS "{ROW}", * FROM ({sample.source.query})'}
    return replace(sample, frame=frame, source=sample.source.model_copy(update=change))


def _as_stated(seen: Survey, wishes: Wishes) -> tuple[Survey, Survey]:
    """Return a table of sensitive data with its rows, and as its owner's words and types alone describe it.

    The second has no row: whatever is drafted from it is the same for all rows.

    Raises:
        StudyError: a name is no column.
        DataError: the file cannot be read as was said.
    """
    words = {
        name
        for name, levels in wishes.levels.items()
        if not all(WHOLE.fullmatch(level.rpartition(":")[2]) for level in levels)
    }
    sample = by_header(seen.sample, seen.said.get("encoding"), seen.said.get("delimiter"), words)
    if ROW in seen.found and ROW not in sample.frame.columns:
        sample = _with_numbers(sample)
    found = stated(sample.frame.schema, wishes)
    rows = replace(_seen(sample), said=seen.said)
    return rows, Survey(replace(sample, frame=sample.frame.clear()), found, seen.said)


def refuse_taken(folder: Path) -> None:
    """Refuse a folder that holds one of the three files, or whose name is a URL.

    Raises:
        StudyError: it does.
    """
    refuse_url_as_path(folder)
    for name in (CONTRACT_FILE, STUDY_FILE, SOURCE_FILE):
        if (folder / name).exists():
            raise StudyError(
                f"{folder / name}: is there already; give another folder by {option('out')}, or move it away"
            )


def begin(seen: Survey, wishes: Wishes, folder: Path, stage: Engine) -> Begun:
    """Write the three files into ``folder``, and take over the rows of a file.

    Raises:
        StudyError: a wish cannot be met, or there are such files in the folder already.
        DataError: the rows do not meet the draft.
    """
    refuse_taken(folder)
    secret = wishes.data_class is DataClass.sensitive
    rows, seen, parts, wishes, repeats, drafted = _prepared(seen, wishes, folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        way = f"give another folder by {option('out')}"
        raise StudyError(f"{folder}: cannot be made ({kind_of(problem)}); {way}") from None
    for name, text in ((CONTRACT_FILE, drafted.contract), (STUDY_FILE, drafted.study), (SOURCE_FILE, drafted.source)):
        write_whole(folder / name, text, private=secret)
    units = values_of(rows.sample.frame, parts.unit.source_name).drop_nulls().n_unique()
    followed = ""
    if parts.event is not None and not secret:
        followed = _followed(seen, parts, wishes, drafted, units)
    say = _rows_say(rows, seen, wishes, parts, drafted) if secret else ()
    in_database = isinstance(seen.sample.source, Warehouse)
    # The extract has the memory that the sample took.
    del rows, seen
    manifest = None if in_database else fill(folder / SOURCE_FILE, stage).manifest
    fewer = fewer_covariates(drafted, parts, units) if units > 1 else None
    return Begun(folder, drafted, manifest, units, repeats, followed, say, fewer)


def begin_on_frame(frame: pl.DataFrame, wishes: Wishes) -> tuple[Draft, pl.DataFrame]:
    """Return the draft of a data frame, and its rows as the contract has them.

    The rows are public or synthetic. An empty ``unit`` says that each row is one.

    Raises:
        StudyError: a wish cannot be met.
        DataError: there are no rows.
    """
    if not frame.height:
        raise DataError("data: has no rows")
    words = [name for name, kind in frame.schema.items() if kind.base_type() in (pl.Categorical, pl.Enum)]
    frame = frame.with_columns(named(name).cast(pl.String) for name in words)
    seen = _seen(Sample(frame, ParquetFiles(kind="parquet", path="frame.parquet"), {}, whole=True))
    seen = without_missing(seen, wishes.missing)
    if not wishes.unit:
        seen, wishes = numbered(seen), replace(wishes, unit=ROW)
    rows, seen, _, _, _, drafted = _prepared(seen, wishes, Path())
    read = pl.DataFrame({name: _as_declared(rows.sample.frame, seen.found[name]) for name in drafted.reads})
    required = parse_yaml(drafted.source, SOURCE_FILE).get("required", ())
    return drafted, read.drop_nulls([cs.by_name(name) for name in required]) if required else read


def _as_declared(frame: pl.DataFrame, one: Found) -> pl.Series:
    """Return a column as an extract would: in the type of its kind, without NaN."""
    values = as_read(frame, one)
    values = values.fill_nan(None) if values.dtype.is_float() else values
    kind = one.reading.kind if isinstance(one.reading, TextReading) else one.reading
    types: dict[Kind, Any] = {Kind.integer: pl.Int64, Kind.number: pl.Float64}
    return values.cast(types[kind]) if kind in types else values


class _Prepared(NamedTuple):
    """A draft before a file is written: the rows, what the draft is made of, and the draft."""

    rows: Survey
    seen: Survey
    parts: Cast
    wishes: Wishes
    repeats: Repeats | None
    drafted: Draft


def _prepared(seen: Survey, wishes: Wishes, folder: Path) -> _Prepared:
    secret, rows = wishes.data_class is DataClass.sensitive, seen
    if secret:
        rows, seen = _as_stated(seen, wishes)
    seen, parts = _that_count(seen, cast(seen.found, wishes), wishes)
    wishes = resolved(seen.found, wishes)
    if not secret:
        seen = _read_once(seen, parts)
        parts, far = _near(seen, parts, wishes)
        if told := no_event(seen.sample.frame, parts, wishes):
            raise StudyError(f"{option('event')}: {told}")
    doubtful = _doubts(seen, parts, wishes)
    if not secret:
        far = {name: why for name, why in far.items() if name not in doubtful.left_out | doubtful.decide}
        doubtful = replace(doubtful, asked=far | doubtful.asked | _of_the_arms(seen, parts, wishes, doubtful))
    parts = _without(parts, doubtful, wishes)
    repeats = _means(rows, parts, wishes) or (_stated_order(seen, wishes) if secret else _repeats(seen, parts))
    if repeats is not None and repeats.order and wishes.covariates is None and not secret:
        alike = _alike_where_kept(seen, parts, repeats)
        doubtful = replace(doubtful, left_out=doubtful.left_out | alike)
        parts = _without(parts, doubtful, wishes)
    first = _first_of(parts, wishes)
    beyond = {one.name for one in parts.covariates} - {one.name for one in first.covariates}
    doubtful = replace(doubtful, asked={name: why for name, why in doubtful.asked.items() if name not in beyond})
    parts = first
    drafted = draft(
        seen.found,
        parts,
        wishes,
        _source(seen.sample.source, folder),
        repeats,
        {" ".join(name.split()) or "(no name)": why for name, why in seen.sample.left_out.items()},
        doubtful,
        _step(seen, parts, wishes),
        {} if secret or repeats is not None else expectation(seen.sample.frame, parts, wishes),
    )
    if parts.named and not drafted.questions:
        _refuse_unanswered(drafted)
    if wishes.key is not None:
        refuse_no_dates(wishes.key, seen.found)
    elif (question := key_question(file_names(seen), seen.found)) is not None:
        drafted = replace(drafted, questions=(*drafted.questions, question))
    if secret:
        _refuse_misfits(rows, seen, parts, drafted, repeats)
    return _Prepared(rows, seen, parts, wishes, repeats, drafted)


def _first_of(parts: Cast, wishes: Wishes) -> Cast:
    """Return the parts with so many covariates at most, the first by names and types."""
    if wishes.most is None or wishes.covariates is not None:
        return parts
    first = {one.name for one in ranked(parts.covariates, parts.outcome)[: wishes.most]}
    return replace(parts, covariates=tuple(one for one in parts.covariates if one.name in first))


def fewer_covariates(drafted: Draft, parts: Cast, units: int) -> FewerCovariates | None:
    """Return the plan's half-widths with all covariates of a draft and with fewer.

    None of a few covariates. By public facts and the draft's `expect` alone. The order is that of names and types.
    """
    names = [one.name for one in ranked(parts.covariates, parts.outcome)]
    if len(names) < MANY_COVARIATES or drafted.questions or parts.event is not None:
        return None
    contract, document = parse_contract(drafted.contract, CONTRACT_FILE), parse_yaml(drafted.study, STUDY_FILE)
    fewer = (max(len(names) // part, FEWEST_COVARIATES) for part in (2, 4))
    counts = [len(names), *dict.fromkeys((*fewer, *((MANY_COVARIATES,) if len(names) > 4 * MANY_COVARIATES else ())))]
    found = []
    for count in counts:
        text = {**document, "covariates": names[:count]}
        asked = parse_study_file(text, STUDY_FILE)
        stand_in = StandIn(**{key: document.get("expect", {})[key] for key in document.get("expect", {})})
        try:
            study = chosen(candidates(asked, contract, "this draft"), asked, units)
            width = expected_width(study, units, stand_in)
        except CausalveilError:
            return None
        if width is None:
            return None
        found.append((count, width))
    return FewerCovariates(tuple(names), tuple(found))


def file_names(seen: Survey) -> tuple[str, ...]:
    """Return the names of a source's files; none of a source that is no folder of files."""
    source = seen.sample.source
    return tuple(by_name(source, Path())) if isinstance(source, CsvFiles | ParquetFiles) else ()


def _read_once(seen: Survey, parts: Cast) -> Survey:
    """Return the survey with columns as they are read: what is read already reads as itself."""
    frame = seen.sample.frame
    read = [one for one in seen.found.values() if one.looks in (*USABLE, Looks.date) and one.name != parts.unit.name]
    frame = frame.with_columns(as_read(frame, one).alias(one.source_name) for one in read)
    return replace(seen, sample=replace(seen.sample, frame=frame))


def _near(seen: Survey, parts: Cast, wishes: Wishes) -> tuple[Cast, dict[str, str]]:
    """Return the parts with ranges of numbers by the values that lie together, and which lie far from these."""
    told: dict[str, str] = {}
    ends: dict[str, tuple[float, float]] = {}
    for one in (*([parts.outcome] if parts.event is None else []), *parts.covariates):
        if one.name not in {*wishes.ranges, *wishes.levels}:
            found = told_far(one, as_read(seen.sample.frame, one))
            if found is not None:
                told[one.name], ends[one.name] = found

    def near(one: Found) -> Found:
        return replace(one, lower=ends[one.name][0], upper=ends[one.name][1]) if one.name in ends else one

    covariates, usable = (tuple(map(near, found)) for found in (parts.covariates, parts.usable))
    return replace(parts, outcome=near(parts.outcome), covariates=covariates, usable=usable), told


def _of_the_arms(seen: Survey, parts: Cast, wishes: Wishes, doubtful: Doubts) -> dict[str, str]:
    """Return what rows say of treatment: that it varies within a unit, or sets a declared trial's arms apart.

    Of clusters that were drawn whole the arms differ by more than units would that were drawn one by one.
    """
    told = {}
    if (varies := _varies(seen.sample.frame, parts, wishes)) is not None:
        told[parts.treatment.name] = varies
    if wishes.trial and not parts.arms and doubtful.clusters is None:
        chosen = [one for one in parts.covariates if one.name not in doubtful.left_out | doubtful.decide]
        told |= unlike_by_lot(seen.sample.frame, chosen, parts.treatment, parts.codes[1])
    return told


def _varies(frame: pl.DataFrame, parts: Cast, wishes: Wishes) -> str | None:
    """Say that treatment varies within units; None: it does not, or means of rows count."""
    if wishes.means:
        return None
    columns = {"unit": values_of(frame, parts.unit.source_name), "arm": as_read(frame, parts.treatment)}
    arms = pl.DataFrame(columns).drop_nulls().group_by("unit").agg(pl.col("arm").n_unique())["arm"]
    several = int((arms > 1).sum())
    if not several:
        return None
    return (
        f"'{parts.treatment.name}' varies within '{parts.unit.name}', in {several:,} of {len(arms):,} units: only "
        f"the arm in the row that is kept is compared. {option(where=['COLUMN == VALUE'])} restricts the study to one "
        "time; this design does not handle treatment that begins at different times"
    )


def _means(rows: Survey, parts: Cast, wishes: Wishes) -> Repeats | None:
    """Return that means over the rows of a unit count, where that was said.

    Raises:
        StudyError: what the study asks has no means, or treatment varies within a unit.
    """
    if not wishes.means:
        return None
    if parts.arms or parts.event is not None or wishes.last_by is not None:
        raise StudyError(
            f"{option('means')}: means are of a number in two arms; leave it out, or {option('arms')}, "
            f"{option('event')} and {option('last_by')}"
        )
    treatment = as_read(rows.sample.frame, rows.found[parts.treatment.name])
    pairs = pl.DataFrame({"unit": values_of(rows.sample.frame, parts.unit.source_name), "arm": treatment}).drop_nulls()
    if pairs.n_unique() > pairs["unit"].n_unique():
        raise StudyError(
            f"{option('means')}: '{parts.treatment.name}' varies within '{parts.unit.name}', so its rows have no mean"
        )
    return Repeats(copies_only=False, order="")


def _stated_order(seen: Survey, wishes: Wishes) -> Repeats | None:
    """Return by what the last row of a unit of sensitive data counts, as the owner says.

    Raises:
        StudyError: the column has no order.
    """
    if wishes.last_by is None:
        return None
    one = column_of(seen.found, wishes.last_by, "last_by")
    if one.looks not in (Looks.date, Looks.number):
        way = option(written={one.name: ["31.12.2025"]})
        raise StudyError(f"{option('last_by')}: say how '{one.name}' is written, as in {way}; it needs an order")
    return Repeats(copies_only=False, order=one.name)


def _refuse_misfits(rows: Survey, seen: Survey, parts: Cast, drafted: Draft, repeats: Repeats | None) -> None:
    """Refuse rows of sensitive data that are not what their owner said, before a file is written.

    Raises:
        DataError: says of which columns, for the owner, and which options say otherwise.
    """
    frame = rows.sample.frame
    ids = values_of(frame, parts.unit.source_name).drop_nulls()
    told = misfits(frame, (seen.found[name] for name in drafted.reads), drafted.with_others)
    if repeats is None and ids.n_unique() < len(ids):
        way = f"{option(last_by=Blank('COLUMN'))} says which of them counts"
        told.append(f"'{parts.unit.name}' names several rows of one unit; {way}")
    if told:
        raise DataError(f"the rows contradict what the options say: {'; '.join(told)}")


def _rows_say(rows: Survey, seen: Survey, wishes: Wishes, parts: Cast, drafted: Draft) -> tuple[str, ...]:
    """Return what rows of sensitive data would add to their draft, for the owner's eyes."""
    frame = rows.sample.frame
    told = told_by_rows(rows.found, seen.found, drafted.taken)
    told += [f"'{name}': {why}" for name, why in _by_group(_given(rows, parts), parts, ASKED_OF_ITS_OWNER).items()]
    told += others(frame, (seen.found[name] for name in drafted.with_others))
    if (varies := _varies(frame, parts, wishes)) is not None:
        told.append(f"'{parts.treatment.name}': {varies}")
    if event := no_event(frame, parts, wishes):
        told.append(event)
    chosen = tuple(one for one in parts.covariates if rows.found[one.name].looks in (Looks.number, Looks.binary))
    unit, treatment, outcome = (rows.found[one.name] for one in (parts.unit, parts.treatment, parts.outcome))
    if wishes.covariates is None and treatment.looks is Looks.binary:
        real = tuple(rows.found[one.name] for one in chosen)
        of = (unit, treatment, outcome, DataClass.synthetic, wishes.levels, wishes.ranges)
        found = doubts(frame, real, *of)
        way = f"{option('without')} leaves it out"
        told += [f"'{name}': {why}; {way}" for name, why in (found.left_out | found.decide).items()]
    used = [one for one in (parts.outcome, *chosen) if one.name not in wishes.levels]
    told += [f"'{one.name}': {why}" for one in used if (why := told_missing(one, as_read(frame, one))) is not None]
    return tuple(told)


def _followed(seen: Survey, parts: Cast, wishes: Wishes, drafted: Draft, units: int) -> str:
    """Say how many eligible rows of each arm reach the horizon, beside what the noise of the drafted study hides."""
    study = _studies(drafted)[0]
    if not isinstance(study, SurvivalStudy):
        return ""
    frame = seen.sample.frame
    columns = {"time": parts.outcome, "arm": parts.treatment}
    columns |= {"group": parts.subgroups} if parts.subgroups is not None else {}
    rows = pl.DataFrame({name: as_read(frame, one) for name, one in columns.items()})
    asked = {one.column: as_read(frame, seen.found[one.column]) for one in study.where}
    if asked:
        rows = rows.filter(pl.Series(eligible(study.where, pl.DataFrame(asked))))
    names = {arm: f"'{arm}'" for arm in parts.arms} or dict(zip(parts.codes, ("controls", "treated"), strict=True))
    fewest = fewest_followed(study, units)
    return followed_to(rows, names, wishes.horizon, fewest.everybody, fewest.subgroup)


def _step(seen: Survey, parts: Cast, wishes: Wishes) -> float:
    """Return the smallest difference of times to an event: of sensitive data that of the horizon, which is public."""
    if parts.event is None:
        return 1.0
    public = step_of(pl.Series([wishes.horizon]))
    if wishes.data_class is DataClass.sensitive:
        return public
    return min(public, step_of(as_read(seen.sample.frame, parts.outcome)))


def _refuse_unanswered(drafted: Draft) -> None:
    """Refuse conditions and subgroups that the drafted contract cannot meet, before a file is written.

    Raises:
        StudyError: a value is beyond a range, all units or none meet a condition, or the like.
    """
    _studies(drafted)


def _studies(drafted: Draft) -> list[Study]:
    """Return the studies that a draft may become under its contract."""
    contract = parse_contract(drafted.contract, CONTRACT_FILE)
    return candidates(parse_study_file(parse_yaml(drafted.study, STUDY_FILE), STUDY_FILE), contract, "this draft")


def _that_count(seen: Survey, parts: Cast, wishes: Wishes) -> tuple[Survey, Cast]:
    """Return the rows that an extract will take, which alone say what columns hold: a total line has no id.

    Rows without a treatment or an outcome are left out where the draft leaves them out.
    """
    needed = [one for one in (parts.unit, *parts.recorded) if one.nulls]
    if not needed or wishes.data_class is DataClass.sensitive:
        return seen, parts
    frame = seen.sample.frame
    counts = reduce(and_, (as_read(frame, one).is_not_null() for one in needed))
    if not counts.any():
        raise DataError("no row has a unit, a treatment and an outcome; are the right columns named?")
    # What the source says of words for no value stays: the extract meets all rows.
    kept = {one.name for one in (*needed, parts.unit, parts.treatment, parts.outcome)}
    columns, found = list[pl.Series](), dict[str, Found]()
    for name, one in seen.found.items():
        values = values_of(frame, one.source_name)
        of_text = isinstance(seen.sample.source, CsvFiles) and isinstance(one.reading, TextReading)
        if (of_text or values.dtype == pl.String) and one.looks in (Looks.number, Looks.date):
            # Read once, by the reading that all rows need.
            read = as_read(frame, one).filter(counts)
            now, values = counted_again(one, read), values.filter(counts) if name == parts.unit.name else read
        else:
            values = values.filter(counts)
            now = recognise(one.source_name, values, delimiter=_separator(seen.sample))
        columns.append(values.alias(one.source_name))
        found[name] = _as_before(one, now, of=kept)
    return replace(seen, sample=replace(seen.sample, frame=pl.DataFrame(columns)), found=found), cast(found, wishes)


def _as_before(first: Found, now: Found, of: Collection[str]) -> Found:
    """Return what a column holds in the rows that count, read as all rows need it."""
    if first.looks is not now.looks:
        # Too few rows were left to tell it again; what all of them told stays.
        return first
    nulls = first.nulls if first.name in of else now.nulls
    return replace(now, reading=first.reading, notes=first.notes, nulls=nulls)


def parts_of(seen: Survey, wishes: Wishes) -> Cast:
    """Return the parts that a draft would give, without the columns in doubt.

    Raises:
        StudyError: a wish cannot be met.
    """
    parts = cast(seen.found, wishes)
    return _first_of(_without(parts, _doubts(seen, parts, wishes), wishes), wishes)


def _doubts(seen: Survey, parts: Cast, wishes: Wishes) -> Doubts:
    """Return the columns in doubt, and numbers that may stand for no value.

    No value of sensitive data is told.
    """
    found = _doubts_of_columns(seen, parts, wishes)
    if wishes.data_class is DataClass.sensitive:
        return found
    given = _given(seen, parts)
    if given is not None:
        chosen = [one for one in parts.covariates if one.name not in found.left_out | found.decide]
        constant = constant_within(seen.sample.frame, seen.found[given.column], chosen)
        room = given.number // PER_CONSTANT
        taken = list(itertools.accumulate(constant.values()))
        kept = {name: one for (name, one), total in zip(constant.items(), taken, strict=True) if total <= room}
        if wishes.covariates is None:
            found = replace(found, decide=found.decide | dict.fromkeys(constant.keys() - kept.keys(), _spare(given)))
            constant = kept
        given = replace(given, constant=constant)
    alone = None if given is None else _each_alone(given, seen, parts, wishes)
    by_group, found = _by_group(given, parts, alone), replace(found, clusters=None if alone else given)
    if wishes.covariates is None:
        left_out = {name: why for name, why in found.left_out.items() if name not in by_group}
        found = replace(found, left_out=left_out, decide=found.decide | by_group)
    else:
        found = replace(found, asked=found.asked | by_group)
    used = (parts.outcome, *(one for one in parts.covariates if one.name not in found.left_out | found.decide))
    codes = {
        one.name: told_missing(one, as_read(seen.sample.frame, one)) for one in used if one.name not in wishes.levels
    }
    told = {name: why for name, why in codes.items() if why is not None}
    return replace(found, asked=found.asked | told)


def _given(seen: Survey, parts: Cast) -> GivenBy | None:
    """Return the groups by which treatment was given; None: it was given row by row."""
    if parts.arms:
        return None
    taken = {one.name for one in (parts.unit, *parts.recorded)}
    others = (one for one in seen.found.values() if one.name not in taken)
    return given_by(seen.sample.frame, others, *(seen.found[one.name] for one in (parts.unit, parts.treatment)))


def _each_alone(given: GivenBy, seen: Survey, parts: Cast, wishes: Wishes) -> str | None:
    """Return why a draft declares no clusters where groups were treated whole; None: it does."""
    ids = values_of(seen.sample.frame, parts.unit.source_name).drop_nulls()
    taken = {one.name for one in parts.covariates} if wishes.covariates is not None else set()
    if wishes.each_alone:
        return f"{option('each_alone')} says so"
    if given.number < FEWEST_CLUSTERS or given.fewer < FEWEST_OF_AN_ARM:
        return f"they need {FEWEST_CLUSTERS} groups, and {FEWEST_OF_AN_ARM} of each arm"
    if given.spread > MOST_SIZES:
        return too_unlike(given.spread)
    if sum(given.constant.values()) * PER_CONSTANT > given.number:
        return f"{', '.join(map(repr, given.constant))}: {_spare(given)}"
    if given.column in taken:
        return f"{option('covariates')} names it, and no covariate is a cluster"
    if wishes.means or wishes.last_by or wishes.key is not None or ids.n_unique() < len(ids):
        return "they need one row of each unit, and no blocks"
    written = parts.event is None and not parts.where and parts.subgroups is None and not parts.measures
    if not written or float(wishes.delta) <= 0 or parts.codes[1] not in given.of_arms:
        return "write them yourself where the study takes them (docs/how-to/clusters.md)"
    return None


def _spare(given: GivenBy) -> str:
    """Say why no more covariates are adjusted for that are constant within groups."""
    return f"the same for all of one '{given.column}', and each such degree of freedom takes {PER_CONSTANT} groups"


def _by_group(given: GivenBy | None, parts: Cast, alone: str | None) -> dict[str, str]:
    """Return the column by whose groups treatment was given, with what follows; empty if it was given row by row.

    ``alone``: why no clusters are drafted; None where they are.
    """
    if given is None:
        return {}
    name, groups = given.column, given.number
    far = f"intervals that count each unit by itself would be far too narrow, so `clusters: {name}` is drafted; "
    far += f"{option(each_alone=True)} takes it out"
    if alone is not None:
        far = "intervals count each unit by itself and are far too narrow where units of a group are correlated (in a "
        far += f"simulation of 30 schools 6 of 15 held); no `clusters` are drafted: {alone}"
    elif given.without:
        far += f"; {given.without:,} units have no '{name}', each counts as one, and the interval is wider for it"
    return {
        name: f"treatment was given by it ({groups} groups, {given.fewer} in the smaller arm), not by "
        f"'{parts.unit.name}': {far}; {option(unit=name, means=True)} compares whole groups, with the noise of a study "
        f"of {groups} units, as `causalveil plan` says"
    }


def _doubts_of_columns(seen: Survey, parts: Cast, wishes: Wishes) -> Doubts:
    """Return the columns that a study adjusts for only where an option names them."""
    if parts.event is not None:
        return _doubts_of_times(seen, parts, parts.event, wishes)
    timed = times_in_doubt(
        one for one in seen.found.values() if one.name not in (parts.unit.name, parts.treatment.name)
    )
    told = {name: why for name, why in timed.items() if name == parts.outcome.name}
    if wishes.covariates is not None:
        return Doubts({}, {}, told)
    chosen = parts.covariates
    found = doubts(
        seen.sample.frame,
        chosen,
        parts.unit,
        parts.treatment,
        parts.outcome,
        wishes.data_class,
        wishes.levels,
        wishes.ranges,
    )
    # A time that every unit has comes after treatment, and so does what ended it.
    later = {one.name: timed[one.name] for one in chosen if one.name in timed and one.name not in found.left_out}
    asked = {name: why for name, why in found.asked.items() if name not in later}
    return Doubts(found.left_out, found.decide | later, asked | told)


def _doubts_of_times(seen: Survey, parts: Cast, event: Found, wishes: Wishes) -> Doubts:
    """Return the columns in doubt where times are compared.

    They are beside the time, beside what ended it, and other times and events.
    """
    if wishes.covariates is not None:
        return Doubts({}, {}, {})
    chosen = tuple(one for one in parts.covariates if one.name != event.name)
    frame, told = seen.sample.frame, (parts.unit, parts.treatment)
    by_time, by_event = (
        doubts(frame, chosen, *told, one, wishes.data_class, wishes.levels, wishes.ranges)
        for one in (parts.outcome, event)
    )
    left_out = by_time.left_out | by_event.left_out
    secret = wishes.data_class is DataClass.sensitive
    later = {
        name: f"by its name what ended '{time}': it may come after treatment"
        for name, time in ends_by_stem(seen.found.values()).items()
        if name in {one.name for one in chosen}
    }
    later |= {one.name: why for one in chosen if (why := other_time(one, parts.outcome, None if secret else frame))}
    # "rec.s" ends "rec" as "srv.s" ends "srv".
    ending = event.name.removeprefix(parts.outcome.name)
    ends = {f"{time}{ending}": f"by its name what ended '{time}': it may come after treatment" for time in later}
    later |= {name: why for name, why in ends.items() if name in {one.name for one in chosen}}
    decide = {name: why for name, why in (by_time.decide | by_event.decide | later).items() if name not in left_out}
    return Doubts(left_out, decide, {name: why for name, why in by_time.asked.items() if name not in decide})


def _without(parts: Cast, doubtful: Doubts, wishes: Wishes) -> Cast:
    """Return the parts without columns in doubt; those that are left out are not declared either.

    Raises:
        StudyError: none is left.
    """
    covariates = tuple(one for one in parts.covariates if one.name not in doubtful.left_out | doubtful.decide)
    if not covariates and parts.event is None and not wishes.trial:
        why = "; ".join(f"'{name}': {one}" for name, one in (doubtful.left_out | doubtful.decide).items())
        way = f"name those that count by {option('covariates')}"
        raise StudyError(f"no column is left to adjust for ({why}); {way}")
    barred = set(doubtful.left_out) | {name for name in wishes.without if name in {one.name for one in parts.usable}}
    barred -= parts.named
    usable = tuple(one for one in parts.usable if one.name not in barred)
    return replace(parts, covariates=covariates, usable=usable)


def _source(source: Any, folder: Path) -> dict[str, Any]:
    """Return the ``source`` part of source.yaml, with paths relative to it and no defaults."""
    document: dict[str, Any] = source.model_dump(mode="json", exclude_defaults=True)
    if "path" in document and "://" not in document["path"]:
        document["path"] = os.path.relpath(document["path"], folder.resolve())
    return document


def _alike_where_kept(seen: Survey, parts: Cast, repeats: Repeats) -> dict[str, str]:
    """Return covariates that hold one value in the one row of each unit that the draft keeps, with the reason.

    The year of the last row is one, where all units are followed to one year.
    """
    columns = {one.name: as_read(seen.sample.frame, one) for one in parts.covariates}
    ordered = as_read(seen.sample.frame, seen.found[repeats.order])
    rows = pl.DataFrame({**columns, "": values_of(seen.sample.frame, parts.unit.source_name)})
    kept = rows[ordered.arg_sort(nulls_last=False)].unique("", keep="last")
    why = f"one value only in the rows that the draft keeps, the last by '{repeats.order}'"
    return {name: why for name in columns if kept[name].n_unique() == 1 and name not in parts.named}


def _refuse_ids_within(seen: Survey, parts: Cast) -> None:
    """Refuse ids that begin anew in each clinic or school, if a time stands once for each id of a group.

    Raises:
        DataError: they do.
    """
    others = [
        one for one in seen.found.values() if one.name not in {each.name for each in (parts.unit, *parts.recorded)}
    ]
    times = [one for one in others if one.looks in (Looks.number, Looks.binary) and TIME_NAME.search(one.name)]
    # A name for groups comes first: people of one age may be apart by chance.
    for group in sorted((one for one in others if one.levels), key=lambda one: not names_kinds(one.name)):
        for time in times:
            names = [one.source_name for one in (parts.unit, group, time)]
            if group != time and not seen.sample.frame[names].drop_nulls().is_duplicated().any():
                raise DataError(
                    f"column '{parts.unit.name}' names several rows of one '{time.name}', and with '{group.name}' it "
                    f"does not: do ids begin anew in each '{group.name}'? Add a column of both, and name it by "
                    f"{option('unit')}"
                )


def _repeats(seen: Survey, parts: Cast) -> Repeats | None:
    """Return whether repeated rows are copies and what orders them; None if no unit has several.

    Raises:
        DataError: they have, and there is no such column.
    """
    frame = seen.sample.frame
    units = values_of(frame, parts.unit.source_name).drop_nulls()
    if units.n_unique() == len(units):
        return None
    copies = frame.unique().select(named(parts.unit.source_name)).drop_nulls().height == units.n_unique()
    dates = [one.name for one in seen.found.values() if one.looks in (Looks.date, Looks.moment)]
    numbers = [one for one in parts.usable if one.looks is Looks.number]
    # A number with the name of a time, another one in each row of a unit, puts them in order as well as a date does.
    apart = [
        one.name
        for one in seen.found.values()
        if one.looks in (Looks.number, Looks.binary)
        and one not in (parts.unit, *parts.recorded)
        and TIME_NAME.search(one.name)
        and not frame[[parts.unit.source_name, one.source_name]].drop_nulls().is_duplicated().any()
    ]
    order = [*dates, *apart, *(one.name for one in numbers if copies)]
    if not order:
        _refuse_ids_within(seen, parts)
        raise DataError(
            f"column '{parts.unit.name}' names several rows of one unit, and no column puts them in order; add to the "
            "source a column of dates, or a number called year, visit or row that no two rows of a unit share, or keep "
            "one row of each unit"
        )
    return Repeats(copies, order[0])
