"""Run a study, given as a file or in Python beside a data frame.

The engine is the one that was chosen.

The same order of stages runs under Prefect (the default) and directly; ledger and release are the same. A question that
was answered on the same bytes returns its release and costs nothing, from a notebook's cell as from the command line.
"""

from __future__ import annotations

import hashlib
import html
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import polars as pl
import yaml

from causalveil.flows.engine.engine import DirectEngine, Watcher, guarded
from causalveil.flows.run.declare import already, load
from causalveil.flows.run.finished import RunResult, find_stored, give_back
from causalveil.flows.run.study import check_run_id, execute, new_run_id, refuse_ahead, run_of_question
from causalveil.schemas.contract import CONTRACT_FILE, Contract, DataClass
from causalveil.schemas.documents import path_of, read_text
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.mistakes import validate
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.machine.site import home

EngineName = Literal["prefect", "direct"]
ENGINES = get_args(EngineName)


def run_study(
    path: str | Path,
    *,
    out: str | Path | None = None,
    run_id: str | None = None,
    again: bool = False,
    simulate: int | None = None,
    engine: EngineName | None = None,
    watch: Watcher = lambda _: None,
    announce: Callable[[str], None] = lambda _: None,
) -> RunResult:
    """Run a study to its release.

    Args:
        path: the study file; data and contract lie where it says.
        out: folder for the release (default ``releases/<run id>`` below the working directory).
        run_id: names the run; the same id again returns the stored release and charges nothing. Default: that of the
            first run that asked the same question of the same bytes, whatever its id, else a new one.
        again: without ``run_id``, draw and charge anew, under a fresh id.
        simulate: seed for reproducible noise on public or synthetic data: throw-away ledger, not for release.
        engine: ``prefect`` or ``direct``; default: what the operator's settings say.
        watch: is told the name of each stage as it starts.
        announce: is told the run id before anything is reserved.

    Raises:
        ReleaseHeld: the run is finished, and its release waits for the data's owner.
        CausalveilError: see ``schemas/errors.py``; nothing is charged before the first draw of noise.
    """
    path = path_of(path, "a study")
    _refuse_mistaken(engine, simulate)
    # A finished run is found before contract, data and key are asked: they may have changed since.
    if run_id is not None and simulate is None and (stored := guarded(find_stored, path, check_run_id(run_id))):
        announce(run_id)
        # No stage runs, so no engine is asked: Prefect's server takes seconds to start.
        return give_back(stored, out, run_id, DirectEngine(watch))
    loaded = guarded(load, path)
    if run_id is None and not again and simulate is None:
        run_id = guarded(run_of_question, loaded)
        if guarded(find_stored, path, run_id):
            return run_study(path, out=out, run_id=run_id, engine=engine, watch=watch, announce=announce)
    run_id = check_run_id(run_id or new_run_id(loaded.study))
    announce(run_id)
    if (engine or loaded.study.execution.engine) == "direct":
        return execute(loaded, out, run_id, simulate, DirectEngine(watch))
    # Prefect takes seconds to import and more to start: checks without it and without rows come before.
    refuse_ahead(loaded, out, run_id, simulate)
    with already(loaded):
        from causalveil.flows.deployed import run_with_prefect

        return run_with_prefect(path, out, run_id, simulate, watch)


def _refuse_mistaken(engine: Any, simulate: Any) -> None:
    """Refuse an unknown engine, and a seed that is no number.

    Raises:
        StudyError: says which.
    """
    if engine is not None and engine not in ENGINES:
        raise StudyError(f"there is no engine '{engine}'; there are {' and '.join(ENGINES)}")
    if simulate is not None and not isinstance(simulate, Integral):
        raise StudyError(f"simulate is a seed, a whole number, not {type(simulate).__name__}")


PARTITION = "part-00000.parquet"
STUDY_FILE = "study.yaml"


class ArrowTable(Protocol):
    """A data frame of polars, pandas or Arrow, or anything else that speaks Arrow's C stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream."""
        ...


@dataclass
class Drafted:
    """A contract and a study drafted from a data frame, to be edited, planned, run and saved.

    ``print`` shows both as in files, and the notes that a person should read first.

    Attributes:
        contract: as dataset.yaml.
        study: as study.yaml.
        rows: the frame as the contract declares it: words read as numbers, rows without a needed value left out.
        notes: assumptions, columns left out, and decisions for a person.
    """

    contract: dict[str, Any]
    study: dict[str, Any]
    rows: pl.DataFrame
    notes: tuple[str, ...] = ()

    def save(self, folder: str | Path) -> Path:
        """Write contract, study and rows into a folder that has none of them; return the study file.

        Raises:
            StudyError: there are such files already.
        """
        place = Path(folder)
        for name in (CONTRACT_FILE, STUDY_FILE, PARTITION):
            if (place / name).exists():
                raise StudyError(f"{place / name}: is there already; name another folder, or move it away")
        write_whole(place / CONTRACT_FILE, _written(self.contract))
        write_whole(place / PARTITION, _parquet(self.rows), private=True)
        return write_whole(place / STUDY_FILE, _written(self.study))

    def __repr__(self) -> str:
        """Return the gist in one line."""
        covariates = len(self.study.get("covariates") or ())
        return f"<Drafted {self.study.get('name')}: {covariates} covariates, {len(self.rows):,} rows>"

    def __str__(self) -> str:
        """Return contract, study and notes."""
        notes = "".join(["\n# Read first:\n", *(f"# - {note}\n" for note in self.notes)] if self.notes else [])
        return f"# contract\n{_written(self.contract)}\n# study\n{_written(self.study)}{notes}"

    def _repr_html_(self) -> str:
        """Return the same as HTML, as IPython and Jupyter ask for it."""
        return f"<pre>{html.escape(str(self))}</pre>"


def _written(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)


def _parquet(frame: pl.DataFrame) -> bytes:
    rows = io.BytesIO()
    frame.write_parquet(rows, compression="lz4", statistics=False)
    return rows.getvalue()


def study_on_frame(study: str | Path | Mapping[str, Any], data: ArrowTable, contract: Mapping[str, Any] | None) -> Path:
    """Lay a data frame down as a dataset in the state folder; return the study file beside it.

    The folder is named by its content, so the same frame under the same contract is the same dataset.

    Args:
        study: as study.yaml, or such a file; it names no data.
        data: public or synthetic rows.
        contract: as dataset.yaml.

    Raises:
        ContractError: there is no contract, it is wrong, or the data are sensitive.
        StudyError: the study file cannot be read, or ``data`` is no data frame.
    """
    if contract is None:
        raise ContractError(
            "a data frame needs its contract: give what `draft` returned, or contract={'dataset': ..., ...}"
        )
    validated = validate(Contract, dict(contract), "contract", ContractError)
    if validated.data_class is DataClass.sensitive:
        raise ContractError(
            "sensitive data are admitted from files, by their owner: write the frame as Parquet and its contract as "
            "dataset.yaml beside it, and run the study file"
        )
    rows = _parquet(frame_given(data))
    text = _written(contract)
    name = hashlib.sha256(rows + text.encode()).hexdigest()[:16]
    folder = home() / "frames" / f"{validated.dataset}-{name}"
    if not (folder / PARTITION).exists():
        write_whole(folder / CONTRACT_FILE, text)
        write_whole(folder / PARTITION, rows, private=True)
    study_text = _written(study) if isinstance(study, Mapping) else read_text(path_of(study, "a study"))
    return write_whole(folder / f"study-{hashlib.sha256(study_text.encode()).hexdigest()[:12]}.yaml", study_text)


def frame_given(data: ArrowTable) -> pl.DataFrame:
    """Return a data frame of polars, pandas or Arrow as one of polars.

    Raises:
        StudyError: it is none.
    """
    if isinstance(data, pl.DataFrame):
        return data
    if not hasattr(data, "__arrow_c_stream__"):
        raise StudyError(f"data is no data frame of polars, pandas or Arrow ({type(data).__name__})")
    # An index of pandas that has a name is a column.
    if getattr(getattr(data, "index", None), "name", None) is not None and hasattr(data, "reset_index"):
        data = data.reset_index()
    try:
        return pl.DataFrame(data)
    except Exception as error:  # of polars and of the frame's own library
        asks = "does a column hold values of several types?"
        raise StudyError(f"data: the frame cannot be read as Arrow ({type(error).__name__}): {asks}") from None


def name_of_frame(rows: pl.DataFrame, contract: Mapping[str, Any]) -> str:
    """Return a dataset's name by its rows and contract: other rows have their own account."""
    return f"data-{hashlib.sha256(_parquet(rows) + _written(contract).encode()).hexdigest()[:8]}"


def study_given(
    study: str | Path | Mapping[str, Any] | Drafted, data: ArrowTable | None, contract: Mapping[str, Any] | None
) -> Path:
    """Return the study file that ``flows.api.run`` was given, or that of its frame or draft.

    Raises:
        StudyError: a study or a contract given in Python has no rows beside it; or see :func:`study_on_frame`.
        ContractError: see :func:`study_on_frame`.
    """
    if isinstance(study, Drafted):
        return study_on_frame(study.study, study.rows if data is None else data, contract or study.contract)
    if data is not None:
        return study_on_frame(study, data, contract)
    if isinstance(study, Mapping) or contract is not None:
        raise StudyError("a study or a contract given in Python needs its rows: run(study, data=frame, contract=...)")
    return path_of(study, "a study")
