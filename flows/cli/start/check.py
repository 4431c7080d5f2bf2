"""`causalveil check` and `causalveil ranges`: problems of a study, and ranges of numbers, before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.show import Json


def check(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="the study.yaml", show_default=False)],
    schema: Annotated[
        bool, typer.Option("--schema", help="print the pandera schema that all columns and rows are held to, and end")
    ] = False,
    json_: Json = False,
) -> None:
    """List every problem of STUDY and of its data's contract, with line and fix.

    Reads no row, charges nothing.
    """
    from causalveil.flows.sequence.check import check as problems_of
    from causalveil.flows.sequence.check import schema_of

    if schema:
        contract, held = schema_of(study)
        columns = held.told()
        if json_:
            show.document({"dataset": contract.dataset, "columns": columns, "pandera": str(held.schema)})
        else:
            show.schema(contract.dataset, columns)
        return
    from causalveil.tasks.object_storage.copies import shown

    problems = problems_of(study)
    if json_:
        show.document(
            {"problems": [{"file": shown(one.file), "line": one.line, "text": shown(one.text)} for one in problems]}
        )
    else:
        for problem in problems:
            show.line(shown(str(problem)))
        show.line(f"{len(problems)} problem(s)." if problems else f"{study}: nothing is wrong.")
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
    from causalveil.flows.sequence.ranges import declared_lines, find_ranges, write_into

    chosen = None if columns is None else tuple(part.strip() for part in columns.split(",") if part.strip())
    with show.progress() as watch:
        found = find_ranges(dataset, chosen, f"{epsilon:g}", run_id, DirectEngine(watch))
    written = write_into(dataset, found) if write else None
    if json_:
        show.document({**found.model_dump(mode="json"), "written": None if written is None else str(written)})
        return
    show.line(f"Found by run {found.run_id} for epsilon {found.epsilon}, from {found.units:,} units:")
    for text in declared_lines(dataset, found):
        show.line(f"  {text}")
    for one in found.ranges:
        if one.lower is None:
            show.line(f"  {one.column}: nothing; no magnitude has more than {found.threshold:,.0f} units for certain")
    show.line(
        f"Wrote them into {written}; grant it again if the data are sensitive."
        if written is not None
        else "Move them from 'open_ranges' to 'columns' in dataset.yaml (or run again with this --run-id and --write)."
    )
