"""The `causalveil` command.

Every command has --help and --json: one JSON document on standard output.

Exit codes: 0 done; 2 study or contract wrong, or ids clash; 3 data do not meet the schema; 4 the budget refuses;
5 ledger unreachable, foreign, or does not verify; 6 a site's bundle is refused; 7 the run is finished and its release
is held for the data's owner; 8 the release is written, but a gate that the protocol declared failed;
130 stopped by Ctrl-C, 143 by SIGTERM; 1 anything else. A run that is stopped removes its scratch folder, and one line
says what it holds and how to go on.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not __package__:
    # Before the imports, which fail with a traceback where nothing is installed.
    sys.exit("causalveil: this file is part of a package; install it and run `causalveil` or `python -m causalveil`")

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from causalveil.flows.cli import show
from causalveil.flows.cli.audit import audit, server_app
from causalveil.flows.cli.init import check, init, ranges
from causalveil.flows.cli.owner import admit, chart, desk, export, extract, forecast, ledger_app, owner_app
from causalveil.flows.cli.releases import bundle_app, pool, report, round_app, sensitivity, series
from causalveil.flows.cli.show import EngineChoice, Json, Sweep
from causalveil.flows.engine import server, settings
from causalveil.flows.engine.engine import named, place
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.hints import at_command_line
from causalveil.tasks.report.numbers import counted

INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM, which then ends a program as Ctrl-C does.

    It is an exception that every ``finally`` sees.
    """


class Stopped(CausalveilError):
    """A signal that ended the command: Ctrl-C or SIGTERM.

    The exit code is the shell's for the signal: 128 and its number.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        """Say what was stopped and how to go on."""
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # here it is the signal's, and no property of the class


def unwind_on_sigterm() -> None:
    """Have SIGTERM raise :class:`Terminated` in the main thread from now on."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def code_of(problem: BaseException | None) -> int:
    """Return the exit code of the exception that stopped a command.

    Prefect has a class of its own for SIGTERM during a flow.
    """
    if isinstance(problem, Terminated) or type(problem).__name__ == "TerminationSignal":
        return TERMINATED
    return INTERRUPTED if isinstance(problem, KeyboardInterrupt) else 1


@contextmanager
def saying_what_is_held(study: Path, run_ids: list[str], *, simulated: bool) -> Iterator[None]:
    """Turn a signal that ends the block into one line.

    Args:
        study: the study file, for the command that goes on.
        run_ids: holds the run's id once it is known.
        simulated: whether nothing can be reserved.

    Raises:
        Stopped: the run was stopped; its message is true by the ledger.
    """
    code = 1
    try:
        yield
        return
    except BaseException as problem:
        code = code_of(problem)
        if code == 1:
            raise
    raise Stopped(_stopped_line(study, run_ids[-1] if run_ids and not simulated else None), code)


def _stopped_line(study: Path, run_id: str | None) -> str:
    if run_id is None:
        return "stopped; nothing was reserved or charged"
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    try:
        run: Any = open_ledger().record(run_id)
    except CausalveilError as problem:
        return f"stopped; what run {run_id} holds cannot be said, since its ledger cannot be read ({problem})"
    if run is None:
        return f"stopped before run {run_id} reserved anything; nothing was charged"
    if run.state == "reserved":
        from causalveil.schemas.privacy import cost_text

        held = run.reservation
        return (
            f"stopped; run {run_id} holds its reservation of {cost_text(held.cost)} on '{held.dataset}', with "
            f"{len(run.charges)} of {len(held.charges)} charges in the ledger; go on: causalveil run {study} --run-id "
            f"{run_id}; or free what was not drawn: causalveil ledger void {run_id} --reason TEXT"
        )
    if run.state == "finished":
        return f"stopped; run {run_id} is finished; its release: causalveil ledger release {run_id} --out DIR"
    return f"stopped; run {run_id} is {run.state}"


app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
_GROUPS = {"ledger": ledger_app, "owner": owner_app, "bundle": bundle_app, "round": round_app, "server": server_app}
for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)
for _function in (init, check, ranges, extract, admit, audit, pool, sensitivity, report, series, desk):
    app.command()(_function)
for _on_ledger in (forecast, chart, export):
    ledger_app.command()(_on_ledger)


StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="the study.yaml", show_default=False)]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # 20 ms that other commands need not pay

        show.line(f"causalveil {version('causalveil')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Differentially private causal inference. Begin with `causalveil init FILE`."""


@app.command()
def run(
    study: StudyFile,
    out: Annotated[
        str | None,
        typer.Option(metavar="FOLDER|URL", help="for release.json, also s3://... [default: releases/RUN_ID]"),
    ] = None,
    run_id: Annotated[
        str | None, typer.Option(help="name this run; the same id again returns the stored release, free of charge")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="ask anew what was answered on the same rows: another run, charged")
    ] = False,
    simulate: Annotated[
        int | None,
        typer.Option(min=0, metavar="SEED", help="seeded noise, throw-away ledger; the release is not for release"),
    ] = None,
    engine: Annotated[EngineChoice | None, typer.Option(help="overrides the operator's setting")] = None,
    site: Annotated[str | None, typer.Option(help="also leave bundle.json, signed as this site, for --round")] = None,
    round_: Annotated[
        Path | None, typer.Option("--round", metavar="FILE", help="the coordinator's round.json, for --site")
    ] = None,
    json_: Json = False,
) -> None:
    """Run STUDY: reserve its budget, compute, draw noise once, write release.json."""
    from causalveil.flows.start_run import run_study

    terms = None
    if site is not None or round_ is not None:
        from causalveil.flows.run.pooling import check_signer

        terms = check_signer(site, round_, simulated=simulate is not None, study=study)
    settings.prepare(quiet=True)
    named: list[str] = []

    def announce(name: str) -> None:
        named.append(name)
        show.run_id(name)

    with saying_what_is_held(study, named, simulated=simulate is not None), show.progress() as watch:
        outcome = run_study(
            study,
            out=out,
            run_id=run_id,
            again=again,
            simulate=simulate,
            engine=engine.value if engine else None,
            watch=watch,
            announce=announce,
        )
    bundle = None
    if site is not None and terms is not None:
        from causalveil.flows.run.pooling import leave_bundle
        from causalveil.schemas.sites.round import BUNDLE_FILE

        bundle = leave_bundle(outcome.run_id, site, terms, outcome.path.with_name(BUNDLE_FILE))
    if json_:
        show.document(
            {
                "run_id": outcome.run_id,
                "path": str(outcome.path),
                "url": outcome.url,
                "bundle": None if bundle is None else str(bundle),
                "resumed": outcome.resumed,
                "returned": outcome.returned,
                "granted": outcome.granted,
                "admitted": outcome.admitted,
                "release": outcome.release.model_dump(mode="json"),
                "remaining": show.remaining(outcome),
            }
        )
    else:
        show.outcome(outcome)
        if bundle is not None:
            show.line(f"Bundle: {bundle}")
    show.check_gates(outcome.release)


@app.command()
def plan(
    study: StudyFile,
    units: Annotated[int | None, typer.Option(min=2, help="number of units, if the data are not at hand")] = None,
    effect: Annotated[
        float | None, typer.Option(help="an effect in outcome units, to compare with the half-width")
    ] = None,
    treated: Annotated[
        float | None, typer.Option(min=0.001, max=0.999, help="share of treated units [default: 0.5]")
    ] = None,
    deviation: Annotated[
        float | None,
        typer.Option(min=0, help="assumed standard deviation of the outcome [default: a quarter of its range]"),
    ] = None,
    mean: Annotated[
        float | None, typer.Option(help="assumed mean of the outcome [default: the middle of its range]")
    ] = None,
    explained: Annotated[
        float | None,
        typer.Option(min=0, max=0.99, help="assumed share of the outcome that covariates explain [default: 0.3]"),
    ] = None,
    correlation: Annotated[
        float | None, typer.Option(min=0, max=0.95, help="assumed correlation between covariates [default: 0.3]")
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(min=0.001, max=1, help="a covariate's deviation as a part of half its range (regression)"),
    ] = None,
    distance: Annotated[
        float | None,
        typer.Option(min=0, max=5, help="by how many standard deviations the arms differ (regression) [default: 1]"),
    ] = None,
    eligible: Annotated[
        float | None, typer.Option(min=0.01, max=1, help="share of units that meet 'where' [default: 0.5]")
    ] = None,
    icc: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="correlation within clusters [default: 0.05, or 0.01 where arms share them]"),
    ] = None,
    sweep: Annotated[Sweep | None, typer.Option(help="of a direction study: what each penalty would mean")] = None,
    target_half_width: Annotated[
        float | None, typer.Option(help="a half-width in outcome units: which epsilon gives it?")
    ] = None,
    curve: Annotated[
        Path | None, typer.Option(help="draw half-width against epsilon and units: an .svg file or a folder")
    ] = None,
    json_: Json = False,
) -> None:
    """Show what STUDY would cost and how wide its interval would be. Reads no private column."""
    from causalveil.flows.plan.study_plan import planned
    from causalveil.schemas.plan import StandIn

    stand_in = StandIn.told(
        treated=treated,
        deviation=deviation,
        mean=mean,
        explained=explained,
        correlation=correlation,
        spread=spread,
        distance=distance,
        eligible=eligible,
        icc=icc,
    )
    result = planned(study, units, stand_in, effect, target=target_half_width, curve=curve, penalties=sweep is not None)
    if json_:
        left = None if result.budget is None else result.budget.model_dump(mode="json")
        show.document({**result.declared.model_dump(mode="json"), "expected": result.expected, "budget": left})
    else:
        show.plan(result.study, result.declared, result.expected)


@app.command()
def simulate(
    folder: Annotated[Path, typer.Argument(help="where to write; must be empty or missing", show_default=False)],
    units: Annotated[int, typer.Option(min=10, help="number of units")] = 100_000,
    covariates: Annotated[int, typer.Option(min=1, max=1000, help="number of covariates")] = 5,
    partitions: Annotated[int, typer.Option(min=1, help="number of Parquet files")] = 4,
    effect: Annotated[float, typer.Option(min=-0.4, max=0.4, help="the true effect; outcomes lie in [0, 1]")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="the data are a function of the seed")] = 0,
    json_: Json = False,
) -> None:
    """Write a synthetic study with a known effect; streams, so ten million units work."""
    from causalveil.tasks.data.simulate import simulate as write

    with show.progress() as watch:
        watch("writing")
        write(folder, units=units, covariates=covariates, partitions=partitions, seed=seed, effect=effect)
    path = folder / "study.yaml"
    line = f"Wrote {units:,} units with a true effect of {effect:g}. Run it: causalveil run {path}"
    show.either(json_, {"study": str(path), "units": units, "effect": effect}, line)


@app.command()
def clean(
    reduced: Annotated[
        str | None,
        typer.Option(metavar="DATASET", help="also its rows that were reduced to one a unit; to be admitted again"),
    ] = None,
    json_: Json = False,
) -> None:
    """Delete what runs and admissions that died left behind.

    That is scratch, and rows that were being reduced.
    """
    from causalveil.tasks.data.manifests import clean_reduced
    from causalveil.tasks.machine.site import clean as sweep

    removed = sweep()
    rows = clean_reduced(reduced)
    line = f"Removed {counted(removed, 'scratch folder')}, and {counted(rows, 'folder')} of reduced rows."
    show.either(json_, {"removed": removed, "reduced": rows}, line)


def main(arguments: list[str] | None = None, program: typer.Typer = app) -> None:
    """Run the command; turn every error into one line on standard error and its exit code.

    Args:
        arguments: of the command line; None: those of the process.
        program: the commands; another distribution hands in its own.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    logging.getLogger("causalveil").setLevel(logging.INFO)
    unwind_on_sigterm()
    with at_command_line():
        code = _exit_code(lambda: _command(program)(arguments, standalone_mode=False), wants_json="--json" in arguments)
    for note in server.notes():
        sys.stderr.write(f"{note}\n")
    sys.exit(code)


@cache
def _command(program: typer.Typer) -> Any:
    """Return the commands, once in a process: Typer reads every signature."""
    return _in_plain_words(get_command(program))


# Names of types in help, by their names in Python; a flag takes nothing.
_TYPES = {"int": "NUMBER", "float": "NUMBER", "str": "TEXT", "Path": "PATH", "bool": ""}


def _in_plain_words(command: Any) -> Any:
    """Return the command, with plain names of types in its help."""
    with command.context_class(command) as context:
        helped = command.get_help_option(context)
    for parameter in (*command.params, *([] if helped is None else [helped])):
        if getattr(parameter, "help", None):
            # Rich would take words in brackets for a style, and leave them out.
            parameter.help = parameter.help.replace("[default", r"\[default")
        if parameter.param_type_name == "option":
            if parameter.metavar is None:
                parameter.metavar = _TYPES.get(parameter.bare_type())
        elif parameter.bare_type() in _TYPES:
            # An argument's name says what it is; Typer would put its type in Python beside it.
            parameter.display_type_rich = _nothing
    for inner in getattr(command, "commands", {}).values():
        _in_plain_words(inner)
    return command


def _nothing(ctx: Any) -> str:  # noqa: ARG001  (as Typer calls it)
    return ""


def _exit_code(command: Callable[[], Any], *, wants_json: bool) -> int:
    try:
        result = command()
    except CausalveilError as problem:
        return _report(type(problem).__name__, str(problem), problem.exit_code, wants_json)
    except typer.Exit as problem:
        return int(problem.exit_code)
    except typer.Abort as problem:
        # Typer raises it at Ctrl-C, and at the end of the input at a question.
        return _report("Stopped", "stopped", code_of(problem.__cause__ or problem.__context__), wants_json)
    except TyperException as problem:
        return _report("UsageError", problem.format_message(), 2, wants_json)
    except KeyboardInterrupt as problem:
        return _report("Stopped", "stopped", code_of(problem), wants_json)
    except Exception as problem:
        # The text of an unforeseen exception may quote data.
        message = f"failed with {named(problem)} {place(problem)}; its message is withheld"
        return _report("UnexpectedError", message, 1, wants_json)
    return int(result) if isinstance(result, int) else 0


def _report(kind: str, message: str, code: int, wants_json: bool) -> int:
    if wants_json:
        sys.stdout.write(json.dumps({"error": {"type": kind, "message": message, "exit_code": code}}) + "\n")
    sys.stderr.write(f"causalveil: {message}\n")
    return code


if __name__ == "__main__":
    main()
