"""`causalveil init`, `check` and `ranges`: what comes before a first run.

From a file to a contract, a study and partitions, where questions take the place of missing options; every problem of a
study; and ranges of numbers that are found privately.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.show import Json, listed
from causalveil.schemas.errors import StudyError, printable, shown
from causalveil.tasks.report.numbers import counted

if TYPE_CHECKING:
    from causalveil.flows.run.start import Begun
    from causalveil.flows.run.survey import Survey
    from causalveil.schemas.admission import Rule
    from causalveil.schemas.warehouse import Manifest


def init(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER|URL",
            help="a CSV, Parquet, Excel, Stata, SPSS, SAS or DuckDB file, a folder of CSV or Parquet files, a Delta "
            "table, iceberg:CATALOG/NAMESPACE.TABLE, or postgresql://...",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="where to write [default: a folder named as the file]")
    ] = None,
    data_class: Annotated[
        str | None, typer.Option(metavar="public|synthetic|sensitive", help="how the owner classes the data")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="names the person (or firm, ...) who is protected")
    ] = None,
    each_row: Annotated[
        bool, typer.Option("--each-row", help="no column names people: each row is one, and rows are numbered")
    ] = False,
    treatment: Annotated[str | None, typer.Option(metavar="COLUMN", help="who was treated: two values")] = None,
    outcome: Annotated[str | None, typer.Option(metavar="COLUMN", help="a number, or one of two values")] = None,
    event: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="the outcome is a time, and this column says what ended it")
    ] = None,
    horizon: Annotated[
        float, typer.Option(metavar="NUMBER", help="until when times are compared", show_default=False)
    ] = 0.0,
    censored: Annotated[
        str | None, typer.Option(metavar="VALUE", help="which value of --event means that no event was seen")
    ] = None,
    treated: Annotated[
        str | None, typer.Option(metavar="VALUE", help="which value means treated, if the values do not say so")
    ] = None,
    counted: Annotated[
        str | None, typer.Option(metavar="VALUE", help="which of two values of the outcome is counted")
    ] = None,
    covariates: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="columns to adjust for [default: all that are not in doubt]")
    ] = None,
    without: Annotated[
        str | None, typer.Option("--not", metavar="A,B,C", help="columns that are no covariates")
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="so many covariates at most, the first by names and types"),
    ] = None,
    trial: Annotated[bool, typer.Option("--trial", help="treatment was randomised")] = False,
    arms: Annotated[
        bool, typer.Option("--arms", help="the treatment has several arms: draft a protocol that compares them")
    ] = False,
    reference: Annotated[
        str | None, typer.Option(metavar="VALUE", help="the arm that all others are compared with")
    ] = None,
    range_: Annotated[
        list[str] | None, typer.Option("--range", metavar="COLUMN=LOW:HIGH", help="the range of a number; repeat it")
    ] = None,
    levels: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=A,B,C", help="the levels of a category, or NAME:A,..; repeat it")
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE,...", help="values that mean a missing one, as in 'age=999'; repeat it"),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="whom the study is about, as in 'age >= 25'; repeat it"),
    ] = None,
    subgroups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="ask in each level of a column as well")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(metavar="ratio,odds_ratio", help="beside the difference, of two values in a trial")
    ] = None,
    recorded: Annotated[
        str | None,
        typer.Option(
            "--recorded-is-public",
            metavar="A,B",
            help="of sensitive data: it is public who has a value here, so rows without one may be left out",
        ),
    ] = None,
    never_missing: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="of sensitive data: covariates of which every person has a value, now and later"
        ),
    ] = None,
    written: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=EXAMPLE",
            help="of sensitive text: how its numbers or dates are written, as in 'wage=€ 1.234,56'; repeat it",
        ),
    ] = None,
    last_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="of sensitive data: units have several rows, the last by COLUMN counts"),
    ] = None,
    means: Annotated[
        bool, typer.Option("--means", help="units, such as schools, have several rows, and their means count")
    ] = False,
    each_alone: Annotated[
        bool, typer.Option("--each-alone", help="draft no clusters: intervals count each unit by itself")
    ] = False,
    epsilon: Annotated[float, typer.Option(min=0.001, max=20, help="what the study may spend")] = 1.0,
    name: Annotated[str | None, typer.Option(metavar="WORD", help="of the dataset [default: the file's name]")] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="of a database with several tables, or the sheet of a workbook")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="of a file, such as cp1252 [default: found out]")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="of a CSV; tab for a tab [default: found out]")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=STEP:FIRST",
            help="each day, month or year of a column of dates is a block, as in visited=month:2026-01",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Draft contract, study and source from a file, and take its rows over.

    The drafts of sensitive data follow from options, names and types alone; what rows would add is shown here alone.
    """
    from causalveil.flows.cli import wizard
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.run.start import begin, refuse_taken
    from causalveil.flows.run.survey import ROW, numbered, survey, without_missing
    from causalveil.tasks.start.draft import slug
    from causalveil.tasks.start.roles import Wishes
    from causalveil.tasks.start.times import key_of

    missing_values = dict(map(_missing, missing or ()))
    with show.progress() as watch:
        watch("reading")
        # Ids and what --missing names are text; where a person is asked, any column may be.
        stated = data_class in ("public", "synthetic") and (each_row or unit is not None)
        as_text = {*missing_values, *filter(None, (unit,))} if stated else None
        surveyed = survey(source, table=table, encoding=encoding, delimiter=_delimiter(delimiter), as_text=as_text)
    if each_row and unit is not None:
        raise StudyError("--unit names a column of ids and --each-row says that there is none; give one of them")
    surveyed = without_missing(surveyed, missing_values)
    if each_row:
        surveyed, unit = numbered(surveyed), ROW
    place = source.removeprefix("delta:").rpartition("iceberg:")[2]
    stem = place.rpartition(".")[2] if source.startswith("iceberg:") else Path(place).stem
    name = name or slug((table if not Path(place).is_file() else None) or (stem if "://" not in place else "data"))
    folder = out or Path(slug(name))
    refuse_taken(folder)
    asks = _asks() and not json_
    if not asks:
        required = {"data_class": data_class, "unit": unit, "treatment": treatment, "outcome": outcome}
        wizard.refuse_unstated(surveyed, required)
    wishes = Wishes(
        name=slug(name),
        data_class=wizard.data_class(data_class or "public"),
        unit=unit or "",
        treatment=treatment or "",
        outcome=outcome or "",
        treated=treated,
        counted=counted,
        covariates=None if covariates is None else listed(covariates),
        without=listed(without or ""),
        most=most,
        trial=trial,
        arms=arms or reference is not None,
        reference=reference,
        ranges=dict(map(_range, range_ or ())),
        levels=dict(map(_levels, levels or ())),
        event=event,
        horizon=horizon,
        censored=censored,
        where=tuple(where or ()),
        subgroups=subgroups,
        measures=listed(measure or ""),
        recorded=listed(recorded or ""),
        never_missing=listed(never_missing or ""),
        written=_written(written or ()),
        missing=missing_values,
        last_by=last_by,
        key=None if key is None else key_of(key, surveyed.columns, surveyed.file_names),
        means=means,
        each_alone=each_alone,
        epsilon=f"{epsilon:g}",
    )
    answers = None
    if asks:
        answers = wizard.Answers(folder, surveyed.columns)
        surveyed, wishes = wizard.complete(surveyed, wishes, data_class is not None, answers)
    with show.progress() as watch:
        begun = begin(surveyed, wishes, folder, DirectEngine(watch))
    if answers is not None:
        answers.forget()
    if json_:
        show.document(_document(begun))
    else:
        _show(begun, surveyed)
        if answers is not None and (options := answers.options(wishes)):
            show.line(f"To draft anew into another --out without questions, type the same and: {options}")


def _asks() -> bool:
    """Return whether a person at a terminal can be asked."""
    return sys.stdin.isatty()


def _delimiter(text: str | None) -> str | None:
    if text is None:
        return None
    text = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(text) != 1:
        raise StudyError("--delimiter is one character, such as ';' (or the word tab)")
    return text


def _range(text: str) -> tuple[str, tuple[float, float]]:
    column, _, ends = text.rpartition("=")
    low, _, high = ends.partition(":")
    try:
        lower, upper = float(low), float(high)
    except ValueError:
        raise StudyError("--range is COLUMN=LOW:HIGH, as in --range age=0:110") from None
    if not column or not lower < upper:
        raise StudyError("--range is COLUMN=LOW:HIGH with LOW below HIGH, as in --range age=0:110")
    return column, (lower, upper)


def _levels(text: str) -> tuple[str, tuple[str, ...]]:
    column, _, values = text.partition("=")
    if not column or len(set(listed(values))) < 2:
        raise StudyError("--levels is COLUMN=A,B,C with two levels or more, as in --levels region=north,south")
    return column, listed(values)


def _missing(text: str) -> tuple[str, tuple[str, ...]]:
    column, _, values = text.rpartition("=")
    if not column or not listed(values):
        raise StudyError("--missing is COLUMN=VALUE, or several with commas, as in --missing age=998,999")
    return column, listed(values)


def _written(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    examples: dict[str, tuple[str, ...]] = {}
    for text in texts:
        column, _, example = text.partition("=")
        if not column or not example.strip():
            raise StudyError("--written is COLUMN=EXAMPLE, as in --written 'wage=€ 1.234,56'")
        examples[column] = (*examples.get(column, ()), example.strip())
    return examples


def _document(begun: Begun) -> dict[str, object]:
    return {
        "folder": str(begun.folder),
        "rows": None if begun.manifest is None else begun.manifest.rows,
        "rows_left_out": {} if begun.manifest is None else begun.manifest.left_out,
        "units": begun.units,
        "assumed": list(begun.draft.assumed),
        "covariates": list(begun.draft.taken),
        "left_out": list(begun.draft.left_out),
        "decide": list(begun.draft.decide),
        "questions": list(begun.draft.questions),
        "rows_say": list(begun.rows_say),
        "fewer": None if begun.fewer is None else list(begun.fewer.sentences),
    }


def _show_rows(begun: Begun, manifest: Manifest) -> None:
    """Count the rows that were taken over, and every one that was not."""
    show.line(f"Took over {manifest.rows:,} rows.")
    if manifest.key is not None:
        show.line(f"  In blocks: {manifest.first} to {manifest.last}. Rows of other dates are in none")
    for snapshot in manifest.snapshots():
        state = f"{snapshot.format} table {snapshot.table}, {snapshot.words}"
        show.line(f"  Read as: {state}: rows that it had deleted are not there")
    for name, rows in manifest.left_out.items():
        show.line(f"  Left out: {counted(rows, 'row')} without '{name}' (`required` in source.yaml)")
    if begun.repeats is not None and not begun.repeats.order:
        show.line(f"  Several rows of a unit: {manifest.rows:,} rows of {begun.units:,} units, whose means count")
    elif begun.repeats is not None:
        relation = "copies of one another" if begun.repeats.copies_only else "which one counts is yours to decide"
        dropped = manifest.rows - begun.units
        show.line(
            f"  Several rows of a unit: {manifest.rows:,} rows of {begun.units:,} units, {relation}. The draft keeps "
            f"the last by '{begun.repeats.order}' and leaves out {dropped:,}; `rows` in dataset.yaml says how, and how "
            "a change over time is asked"
        )


# Columns that are named for a reason; of more the first are, with their number.
MOST_SHOWN = 12


def _together(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each reason, with its columns."""
    columns: dict[str, list[str]] = {}
    for name, why in reasons:
        columns.setdefault(why, []).append(f"'{name}'")
    shown = {why: names if len(names) <= MOST_SHOWN else [*names[:MOST_SHOWN], "..."] for why, names in columns.items()}
    many = {why: f" ({len(names):,} columns)" for why, names in columns.items() if len(names) > MOST_SHOWN}
    return [f"{', '.join(names)}{many.get(why, '')}: {why}" for why, names in shown.items()]


def _show(begun: Begun, survey: Survey) -> None:
    from causalveil.flows.run.start import first_of
    from causalveil.tasks.warehouse.sample import MOST_ROWS, URL_VARIABLE

    folder, draft = begun.folder, begun.draft
    show.line(f"Wrote {folder}/dataset.yaml (contract), study.yaml and source.yaml. Read them: they are drafts.")
    if not survey.sample.whole:
        show.line(f"The draft was made from the first {MOST_ROWS:,} rows.")
    encoding = getattr(survey.sample.source, "encoding", None) or "utf-8"
    if encoding not in ("utf-8", "utf-8-sig"):
        show.line(f"  Read as: encoding {encoding}; if letters look wrong in the drafts, give --encoding")
    if survey.sample.footer:
        below = counted(survey.sample.footer, "row")
        show.line(f"  Left out: {below} below the table, a total or a note: `skip_end` in source.yaml")
    for reading in _together(draft.read):
        show.line(f"  Read as: {reading}")
    none = "none, arms are compared as they are"
    show.line(f"  Covariates, taken: {first_of(draft.taken) or none}.")
    for title, reasons in (("Left out", draft.unused), ("Decide yourself", draft.doubtful)):
        for reason in _together(reasons.items()):
            show.line(f"  {title}: {reason}")
    for sentence in () if begun.fewer is None else begun.fewer.sentences:
        show.line(f"  Budget: {sentence}")
    if begun.followed:
        show.line(f"  Followed to the horizon or longer: {begun.followed}")
    if draft.unused or draft.doubtful:
        show.line("  To change that: --covariates A,B,C (these alone), --not A,B,C (all others).")
    if getattr(survey.sample.source, "row_number", None):
        show.line("Each row is treated as one person. Check that no person has two rows.")
    if begun.manifest is not None:
        _show_rows(begun, begun.manifest)
    if begun.rows_say:
        show.line("The rows say, to you alone (it stands in no file):")
        for remark in begun.rows_say:
            show.line(f"  - {remark}")
    if draft.questions:
        show.line("Still to be said, by the owner of the data:")
        for question in draft.questions:
            show.line(f"  - {question}")
    if begun.manifest is None:
        show.line(f"Next: export {URL_VARIABLE}=..., then: causalveil extract {folder}/source.yaml")
    show.line(f"Next: causalveil check {folder}/study.yaml")


def check(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="the study.yaml", show_default=False)],
    schema: Annotated[
        bool, typer.Option("--schema", help="print the pandera schema that all columns and rows are held to, and end")
    ] = False,
    sites: Annotated[
        bool,
        typer.Option("--sites", help="check too whether sites can be pooled; without a contract, the file alone"),
    ] = False,
    json_: Json = False,
) -> None:
    """List every problem of STUDY and of its data's contract, with line and fix.

    Reads no row, charges nothing.
    """
    from causalveil.flows.run.check import beyond_check, schema_of
    from causalveil.flows.run.check import check as problems_of

    if schema:
        contract, held = schema_of(study)
        columns: dict[str, tuple[str, *tuple[Rule, ...]]] = {
            name: (f"{kind}; names: {text}" if (text := contract.named_levels.get(name)) else kind, *rules)
            for name, (kind, *rules) in held.told().items()
        }
        if json_:
            show.document({"dataset": contract.dataset, "columns": columns, "pandera": str(held.schema)})
        else:
            show.schema(contract.dataset, columns)
        return

    problems = problems_of(study, over_sites=sites)
    beyond = None if problems else beyond_check(study)
    if json_:
        show.document(
            {
                "problems": [
                    {
                        "file": shown(problem.file),
                        "line": problem.line,
                        "place": list(problem.place),
                        "text": shown(problem.text),
                    }
                    for problem in problems
                ],
                "beyond": beyond,
            }
        )
    else:
        for problem in problems:
            show.line(printable(shown(str(problem))))
        show.line(f"{counted(len(problems), 'problem')}." if problems else f"{study}: nothing is wrong.")
        if beyond is not None:
            show.line(beyond)
        if not problems:
            show.line(f"Next: causalveil plan {study}, which says how wide an interval to expect, or run in its place")
    if problems:
        raise typer.Exit(2)


def ranges(
    dataset: Annotated[Path, typer.Argument(metavar="FOLDER", help="where dataset.yaml lies", show_default=False)],
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="numbers [default: those whose range the contract leaves open]")
    ] = None,
    epsilon: Annotated[float, typer.Option(min=0.0001, max=20, help="what all of them may cost together")] = 0.1,
    run_id: Annotated[
        str | None, typer.Option(metavar="WORD", help="the same word again returns what was found, free of charge")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="also move them into dataset.yaml")] = False,
    json_: Json = False,
) -> None:
    """Find ranges for numbers of FOLDER privately.

    The ranges come from a noisy histogram of magnitudes, charged at level sample.
    """
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.run.ranges import declared_lines, find_ranges, write_into

    chosen = None if columns is None else listed(columns)
    with show.progress() as watch:
        release = find_ranges(dataset, chosen, f"{epsilon:g}", run_id, DirectEngine(watch))
    written = write_into(dataset, release) if write else None
    if json_:
        show.document({**release.model_dump(mode="json"), "written": None if written is None else str(written)})
        return
    show.line(f"Found by run {release.run_id} for epsilon {release.epsilon}, from {release.units:,} units:")
    for text in declared_lines(dataset, release):
        show.line(f"  {text}")
    for range_ in release.ranges:
        if range_.lower is None:
            show.line(
                f"  {range_.column}: nothing; no magnitude has more than {release.threshold:,.0f} units for certain"
            )
    show.line(
        f"Wrote them into {written}; grant it again if the data are sensitive."
        if written is not None
        else "Move them from 'open_ranges' to 'columns' in dataset.yaml (or run again with this --run-id and --write)."
    )
