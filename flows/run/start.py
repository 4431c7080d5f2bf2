"""From a file to a folder that a study can run on.

Look, draft, write, and take the rows over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs

from causalveil.flows.engine.engine import Engine
from causalveil.flows.run.admit import fill
from causalveil.flows.run.columns_in_doubt import (
    doubts_by_arms,
    doubts_of,
    first_covariates,
    grouped_treatment,
    near_ranges,
    treated_groups,
    varying_treatment,
    without_doubtful,
)
from causalveil.flows.run.estimators import candidates, chosen, expected_width
from causalveil.flows.run.survey import (
    ROW,
    Survey,
    as_stated,
    numbered,
    read_once,
    rows_that_count,
    survey_of,
    without_missing,
)
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.contract import CONTRACT_FILE, DataClass, parse_contract
from causalveil.schemas.documents import parse_yaml
from causalveil.schemas.errors import CausalveilError, DataError, StudyError, kind_of
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.plan import FEWER_HELPS, MANY_COVARIATES, StandIn
from causalveil.schemas.study import Study
from causalveil.schemas.warehouse import SOURCE_FILE, Kind, Manifest, ParquetFiles, TextReading, Warehouse
from causalveil.tasks.data.cells import eligible
from causalveil.tasks.estimate.times.people import fewest_followed
from causalveil.tasks.machine.arrays import named, values_of
from causalveil.tasks.machine.files import refuse_url_as_path, write_whole
from causalveil.tasks.start.doubts import doubts
from causalveil.tasks.start.draft import Draft, Repeats, draft
from causalveil.tasks.start.expected import expectation, ranked
from causalveil.tasks.start.options import told_missing
from causalveil.tasks.start.recognise import Looks, Profile, names_kinds
from causalveil.tasks.start.roles import Cast, Wishes, cast, column_of, resolved
from causalveil.tasks.start.stated import misfits, others, told_by_rows
from causalveil.tasks.start.times import followed_to, key_question, no_event, refuse_no_dates, step_of
from causalveil.tasks.warehouse.sample import Sample

STUDY_FILE = "study.yaml"
# Why the draft of sensitive data has no clusters; their owner alone reads it.
ASKED_OF_ITS_OWNER = (
    "where their number is public, write it: `clusters: {COLUMN: {number: N, spread: S}}` in dataset.yaml, the column "
    "in source.yaml, and `clusters: {column: COLUMN, treated: M}` in study.yaml"
)
# A draft says what fewer covariates would give, down to this number.
FEWEST_COVARIATES = 3
# Of a longer list of names these many are shown.
MOST_NAMES = 40
# The name of a number that is a time, or counts times.
TIME_NAME = re.compile(
    r"(^|[\W_])(year|quarter|month|week|day|date|time|wave|round|visit|period|episode|occasion|session|encounter|sequence|seq|row|line|nth)s?($|[\W_\d])",
    re.IGNORECASE,
)


def first_of(names: Sequence[str]) -> str:
    """Return names in a row; of many the first, and how many there are."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMES])}, ... ({len(names):,} in all)"


@dataclass(frozen=True)
class FewerCovariates:
    """The half-widths that a plan expects with all covariates of a draft and with fewer.

    Attributes:
        order: all covariates, the first by names and types first.
        widths: numbers of covariates, each with the half-width in outcome units.
    """

    order: tuple[str, ...]
    widths: tuple[tuple[int, float], ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences for a person, and the option that chooses."""
        (count, width), *smaller = self.widths
        each = ", ".join(f"with {few} ± {narrower:.3g}" for few, narrower in smaller)
        few, least = min(smaller, key=lambda pair: pair[1])
        way = f": {option(most=few)} takes the first {few}" if least < FEWER_HELPS * width else ""
        return (
            f"{count} covariates share one budget: expect ± {width:.3g} with all, {each}{way}",
            f"in this order, by names and types alone: {first_of(self.order)}",
        )


@dataclass(frozen=True)
class Begun:
    """The result of `init`: the folder, the draft, and the manifest of the rows taken over.

    ``units``: different ids among the rows that count; ``repeats``: how several rows of a unit become one.
    ``followed``: how many rows of each arm reach the horizon, where times are compared and data are not sensitive.
    ``rows_say``: what rows of sensitive data would add to the draft, for their owner's eyes; it is in no file.
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


def begin(survey: Survey, wishes: Wishes, folder: Path, stage: Engine) -> Begun:
    """Write the three files into ``folder``, and take over the rows of a file.

    Raises:
        StudyError: a wish cannot be met, or there are such files in the folder already.
        DataError: the rows do not meet the draft.
    """
    refuse_taken(folder)
    sensitive = wishes.data_class is DataClass.sensitive
    rows, survey, parts, wishes, repeats, drafted = _prepared(survey, wishes, folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        way = f"give another folder by {option('out')}"
        raise StudyError(f"{folder}: cannot be made ({kind_of(problem)}); {way}") from None
    for name, text in ((CONTRACT_FILE, drafted.contract), (STUDY_FILE, drafted.study), (SOURCE_FILE, drafted.source)):
        write_whole(folder / name, text, private=sensitive)
    units = rows.ids(parts.unit).n_unique()
    followed = "" if parts.event is None or sensitive else _followed(survey, parts, wishes, drafted, units)
    remarks = _remarks_for_owner(rows, survey, wishes, parts, drafted) if sensitive else ()
    in_database = isinstance(survey.sample.source, Warehouse)
    # The extract has the memory that the sample took.
    del rows, survey
    manifest = None if in_database else fill(folder / SOURCE_FILE, stage).manifest
    fewer = fewer_covariates(drafted, parts, units) if units > 1 else None
    return Begun(folder, drafted, manifest, units, repeats, followed, remarks, fewer)


def begin_on_frame(frame: pl.DataFrame, wishes: Wishes) -> tuple[Draft, pl.DataFrame]:
    """Return the draft of a data frame, and its rows as the contract has them.

    The rows are public or synthetic. An empty ``unit`` says that each row is one.

    Raises:
        StudyError: a wish cannot be met.
        DataError: there are no rows.
    """
    if not frame.height:
        raise DataError("data: has no rows")
    categories = [name for name, kind in frame.schema.items() if kind.base_type() in (pl.Categorical, pl.Enum)]
    frame = frame.with_columns(named(name).cast(pl.String) for name in categories)
    survey = survey_of(Sample(frame, ParquetFiles(kind="parquet", path="frame.parquet"), {}, whole=True))
    survey = without_missing(survey, wishes.missing)
    if not wishes.unit:
        survey, wishes = numbered(survey), replace(wishes, unit=ROW)
    prepared = _prepared(survey, wishes, Path())
    drafted, columns = prepared.drafted, prepared.survey.columns
    rows = pl.DataFrame({name: _as_declared(prepared.rows, columns[name]) for name in drafted.reads})
    required = parse_yaml(drafted.source, SOURCE_FILE).get("required", ())
    return drafted, rows.drop_nulls([cs.by_name(name) for name in required]) if required else rows


def _as_declared(rows: Survey, column: Profile) -> pl.Series:
    """Return a column as an extract would: in the type of its kind, without NaN."""
    values = rows.values(column)
    values = values.fill_nan(None) if values.dtype.is_float() else values
    kind = column.reading.kind if isinstance(column.reading, TextReading) else column.reading
    types: dict[Kind, Any] = {Kind.integer: pl.Int64, Kind.number: pl.Float64}
    return values.cast(types[kind]) if kind in types else values


class _Prepared(NamedTuple):
    """A draft before a file is written: the rows, what the draft is made of, and the draft."""

    rows: Survey
    survey: Survey
    parts: Cast
    wishes: Wishes
    repeats: Repeats | None
    drafted: Draft


def _prepared(survey: Survey, wishes: Wishes, folder: Path) -> _Prepared:
    sensitive, rows = wishes.data_class is DataClass.sensitive, survey
    if sensitive:
        rows, survey = as_stated(survey, wishes)
    survey, parts = rows_that_count(survey, cast(survey.columns, wishes), wishes)
    wishes = resolved(survey.columns, wishes)
    if not sensitive:
        survey = read_once(survey, parts)
        parts, far = near_ranges(survey, parts, wishes)
        if problem := no_event(survey.frame, parts, wishes):
            raise StudyError(f"{option('event')}: {problem}")
    doubtful = doubts_of(survey, parts, wishes)
    if not sensitive:
        far = {name: why for name, why in far.items() if name not in doubtful.left_out | doubtful.decide}
        doubtful = replace(doubtful, asked=far | doubtful.asked | doubts_by_arms(survey, parts, wishes, doubtful))
    parts = without_doubtful(parts, doubtful, wishes)
    repeats = _means(rows, parts, wishes) or (_stated_order(survey, wishes) if sensitive else _repeats(survey, parts))
    if repeats is not None and repeats.order and wishes.covariates is None and not sensitive:
        constant = _constant_in_last_rows(survey, parts, repeats)
        doubtful = replace(doubtful, left_out=doubtful.left_out | constant)
        parts = without_doubtful(parts, doubtful, wishes)
    first = first_covariates(parts, wishes)
    beyond = {column.name for column in parts.covariates} - {column.name for column in first.covariates}
    doubtful = replace(doubtful, asked={name: why for name, why in doubtful.asked.items() if name not in beyond})
    parts = first
    clusters = None if doubtful.clusters is None else survey.columns[doubtful.clusters.column]
    drafted = draft(
        survey.columns,
        parts,
        wishes,
        _source(survey.sample.source, folder),
        repeats,
        {" ".join(name.split()) or "(no name)": why for name, why in survey.sample.left_out.items()},
        doubtful,
        _step(survey, parts, wishes),
        {} if sensitive or repeats is not None else expectation(survey.frame, parts, wishes, clusters),
    )
    if parts.named and not drafted.questions:
        # Conditions and subgroups that the drafted contract cannot meet are refused before a file is written.
        _studies(drafted)
    if wishes.key is not None:
        refuse_no_dates(wishes.key, survey.columns)
    elif (question := key_question(survey.file_names, survey.columns)) is not None:
        drafted = replace(drafted, questions=(*drafted.questions, question))
    if sensitive:
        _refuse_misfits(rows, survey, parts, drafted, repeats)
    return _Prepared(rows, survey, parts, wishes, repeats, drafted)


def fewer_covariates(drafted: Draft, parts: Cast, units: int) -> FewerCovariates | None:
    """Return the plan's half-widths with all covariates of a draft and with fewer.

    None of a few covariates. By public facts and the draft's `expect` alone. The order is that of names and types.
    """
    names = [column.name for column in ranked(parts.covariates, parts.outcome)]
    if len(names) < MANY_COVARIATES or drafted.questions or parts.event is not None:
        return None
    contract, document = parse_contract(drafted.contract, CONTRACT_FILE), parse_yaml(drafted.study, STUDY_FILE)
    fewer = (max(len(names) // part, FEWEST_COVARIATES) for part in (2, 4))
    counts = [len(names), *dict.fromkeys((*fewer, *((MANY_COVARIATES,) if len(names) > 4 * MANY_COVARIATES else ())))]
    stand_in = StandIn(**document.get("expect", {}))
    widths = []
    for count in counts:
        file = parse_study_file({**document, "covariates": names[:count]}, STUDY_FILE)
        try:
            width = expected_width(chosen(candidates(file, contract, "this draft"), file, units), units, stand_in)
        except CausalveilError:
            return None
        if width is None:
            return None
        widths.append((count, width))
    return FewerCovariates(tuple(names), tuple(widths))


def _means(rows: Survey, parts: Cast, wishes: Wishes) -> Repeats | None:
    """Return that means over the rows of a unit count, where the user stated it.

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
    treatment = rows.values(rows.columns[parts.treatment.name])
    pairs = pl.DataFrame({"unit": values_of(rows.frame, parts.unit.source_name), "arm": treatment}).drop_nulls()
    if pairs.n_unique() > pairs["unit"].n_unique():
        raise StudyError(
            f"{option('means')}: '{parts.treatment.name}' varies within '{parts.unit.name}', so its rows have no mean"
        )
    return Repeats(copies_only=False, order="")


def _stated_order(survey: Survey, wishes: Wishes) -> Repeats | None:
    """Return the column by which the last row of a unit counts, as the owner of the data states.

    Raises:
        StudyError: the column has no order.
    """
    if wishes.last_by is None:
        return None
    column = column_of(survey.columns, wishes.last_by, "last_by")
    if column.looks not in (Looks.date, Looks.number):
        way = option(written={column.name: ["31.12.2025"]})
        raise StudyError(f"{option('last_by')}: say how '{column.name}' is written, as in {way}; it needs an order")
    return Repeats(copies_only=False, order=column.name)


def _refuse_misfits(rows: Survey, survey: Survey, parts: Cast, drafted: Draft, repeats: Repeats | None) -> None:
    """Refuse rows of sensitive data that contradict their owner's statements.

    Raises:
        DataError: names the columns, for the owner, and the options that correct the statements.
    """
    ids = rows.ids(parts.unit)
    problems = misfits(rows.frame, (survey.columns[name] for name in drafted.reads), drafted.with_others)
    if repeats is None and ids.n_unique() < len(ids):
        way = f"{option(last_by=Blank('COLUMN'))} says which of them counts"
        problems.append(f"'{parts.unit.name}' names several rows of one unit; {way}")
    if problems:
        raise DataError(f"the rows contradict what the options say: {'; '.join(problems)}")


def _remarks_for_owner(rows: Survey, survey: Survey, wishes: Wishes, parts: Cast, drafted: Draft) -> tuple[str, ...]:
    """Return what rows of sensitive data would add to their draft, for the owner's eyes."""
    frame = rows.frame
    remarks = told_by_rows(rows.columns, survey.columns, drafted.taken)
    by_group = grouped_treatment(treated_groups(rows, parts), parts, ASKED_OF_ITS_OWNER)
    remarks += [f"'{name}': {why}" for name, why in by_group.items()]
    remarks += others(frame, (survey.columns[name] for name in drafted.with_others))
    if (varies := varying_treatment(frame, parts, wishes)) is not None:
        remarks.append(f"'{parts.treatment.name}': {varies}")
    if event := no_event(frame, parts, wishes):
        remarks.append(event)
    numbers = [column for column in parts.covariates if rows.columns[column.name].looks in (Looks.number, Looks.binary)]
    unit, treatment, outcome = (rows.columns[column.name] for column in (parts.unit, parts.treatment, parts.outcome))
    if wishes.covariates is None and treatment.looks is Looks.binary:
        covariates = tuple(rows.columns[column.name] for column in numbers)
        doubtful = doubts(
            frame, covariates, unit, treatment, outcome, DataClass.synthetic, wishes.levels, wishes.ranges
        )
        way = f"{option('without')} leaves it out"
        remarks += [f"'{name}': {why}; {way}" for name, why in (doubtful.left_out | doubtful.decide).items()]
    remarks += [
        f"'{column.name}': {why}"
        for column in (parts.outcome, *numbers)
        if column.name not in wishes.levels and (why := told_missing(column, rows.values(column))) is not None
    ]
    return tuple(remarks)


def _followed(survey: Survey, parts: Cast, wishes: Wishes, drafted: Draft, units: int) -> str:
    """Say how many eligible rows of each arm reach the horizon, and whether noise hides them."""
    study = _studies(drafted)[0]
    if not isinstance(study, SurvivalStudy):
        return ""
    columns = {"time": parts.outcome, "arm": parts.treatment}
    columns |= {"group": parts.subgroups} if parts.subgroups is not None else {}
    rows = pl.DataFrame({name: survey.values(column) for name, column in columns.items()})
    restricted = {where.column: survey.values(survey.columns[where.column]) for where in study.where}
    if restricted:
        rows = rows.filter(pl.Series(eligible(study.where, pl.DataFrame(restricted))))
    names = {arm: f"'{arm}'" for arm in parts.arms} or dict(zip(parts.codes, ("controls", "treated"), strict=True))
    fewest = fewest_followed(study, units)
    return followed_to(rows, names, wishes.horizon, fewest.all_units, fewest.subgroup)


def _step(survey: Survey, parts: Cast, wishes: Wishes) -> float:
    """Return the smallest difference of times: of sensitive data that of the public horizon."""
    if parts.event is None:
        return 1.0
    public = step_of(pl.Series([wishes.horizon]))
    if wishes.data_class is DataClass.sensitive:
        return public
    return min(public, step_of(survey.values(parts.outcome)))


def _studies(drafted: Draft) -> list[Study]:
    """Return the studies that a draft may become under its contract.

    Raises:
        StudyError: a value is beyond a range, all units or none meet a condition, or the like.
    """
    contract = parse_contract(drafted.contract, CONTRACT_FILE)
    return candidates(parse_study_file(parse_yaml(drafted.study, STUDY_FILE), STUDY_FILE), contract, "this draft")


def _source(source: Any, folder: Path) -> dict[str, Any]:
    """Return the ``source`` part of source.yaml, with paths relative to it and no defaults."""
    document: dict[str, Any] = source.model_dump(mode="json", exclude_defaults=True)
    if "path" in document and "://" not in document["path"]:
        document["path"] = os.path.relpath(document["path"], folder.resolve())
    return document


def _constant_in_last_rows(survey: Survey, parts: Cast, repeats: Repeats) -> dict[str, str]:
    """Return covariates of a single value in the last rows of units, with the reason.

    Where all units are followed to one year, the year of the last row is such a covariate.
    """
    columns = {column.name: survey.values(column) for column in parts.covariates}
    ordered = survey.values(survey.columns[repeats.order])
    rows = pl.DataFrame({**columns, "": values_of(survey.frame, parts.unit.source_name)})
    last = rows[ordered.arg_sort(nulls_last=False)].unique("", keep="last")
    why = f"one value only in the rows that the draft keeps, the last by '{repeats.order}'"
    return {name: why for name in columns if last[name].n_unique() == 1 and name not in parts.named}


def _times_by_name(survey: Survey, parts: Cast) -> list[Profile]:
    """Return the numbers without a part in the study whose names are those of times."""
    return [
        column
        for column in survey.columns.values()
        if column.looks in (Looks.number, Looks.binary)
        and column not in (parts.unit, *parts.recorded)
        and TIME_NAME.search(column.name)
    ]


def _repeated(survey: Survey, *columns: Profile) -> bool:
    """Return whether two rows hold the same values of some columns."""
    return bool(survey.frame[[column.source_name for column in columns]].drop_nulls().is_duplicated().any())


def _refuse_ids_within(survey: Survey, parts: Cast, times: list[Profile]) -> None:
    """Refuse ids that begin anew in each group, if each id of a group has a time once.

    Raises:
        DataError: they do.
    """
    taken = {column.name for column in (parts.unit, *parts.recorded)}
    groups = (column for column in survey.columns.values() if column.levels and column.name not in taken)
    # A name for groups comes first: people of one age may be apart by chance.
    for group in sorted(groups, key=lambda column: not names_kinds(column.name)):
        for time in times:
            if group != time and not _repeated(survey, parts.unit, group, time):
                raise DataError(
                    f"column '{parts.unit.name}' names several rows of one '{time.name}', and with '{group.name}' it "
                    f"does not: do ids begin anew in each '{group.name}'? Add a column of both, and name it by "
                    f"{option('unit')}"
                )


def _repeats(survey: Survey, parts: Cast) -> Repeats | None:
    """Return whether repeated rows are copies, and their order; None: each unit has one row.

    Raises:
        DataError: units have several rows, and no column orders them.
    """
    ids = survey.ids(parts.unit)
    if ids.n_unique() == len(ids):
        return None
    copies = survey.frame.unique().select(named(parts.unit.source_name)).drop_nulls().height == ids.n_unique()
    dates = [column for column in survey.columns.values() if column.looks in (Looks.date, Looks.moment)]
    times = _times_by_name(survey, parts)
    # A number with the name of a time, another one in each row of a unit, puts them in order as well as a date does.
    apart = [time for time in times if not _repeated(survey, parts.unit, time)]
    numbers = [column for column in parts.usable if copies and column.looks is Looks.number]
    order = [*dates, *apart, *numbers]
    if not order:
        _refuse_ids_within(survey, parts, times)
        raise DataError(
            f"column '{parts.unit.name}' names several rows of one unit, and no column puts them in order; add to the "
            "source a column of dates, or a number called year, visit or row that no two rows of a unit share, or keep "
            "one row of each unit"
        )
    return Repeats(copies, order[0].name)
