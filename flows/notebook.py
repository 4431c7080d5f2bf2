"""``cv.run``: a study file, or a study and a data frame in Python. Running a cell again costs nothing."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import polars as pl
import yaml

from causalveil.flows.engine.engine import Watcher
from causalveil.flows.sequence.declare import load
from causalveil.flows.sequence.finished import RunResult
from causalveil.flows.sequence.study import new_run_id
from causalveil.schemas.contract import CONTRACT_FILE, Contract, DataClass
from causalveil.schemas.documents import read_text, validate
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.partitions import opened
from causalveil.tasks.machine.files import whole_file, write_whole
from causalveil.tasks.machine.site import home

PARTITION = "part-00000.parquet"


class ArrowTable(Protocol):
    """A data frame of polars, pandas or Arrow, or anything else that speaks Arrow's C stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream."""
        ...


RunStudy = Callable[..., RunResult]


def content_id(path: Path) -> str:
    """Return the run id of a study's content.

    The content is its question, its contract, where its data lie and when they were written.

    No row is read, and nothing of a row goes into the id: neither values nor sizes of files.

    Raises:
        StudyError: study or contract is missing or wrong.
    """
    loaded = load(path)
    written = " ".join(f"{path} {_modified(loaded.folder, path)}" for path in _in_order(loaded.folder))
    content = f"{loaded.study.digest} {loaded.contract.digest} {loaded.folder} {written}"
    return f"{loaded.study.name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _in_order(folder: DataFolder) -> list[str]:
    return sorted(folder.parquet_paths(), key=PurePosixPath)


def _modified(folder: DataFolder, path: str) -> int:
    with opened(folder, path) as file:
        return file.modified


def fresh_id(path: Path) -> str:
    """Return a run id that no run had before."""
    return new_run_id(load(path).study)


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
        raise ContractError("a data frame needs its contract: run(study, data=frame, contract={'dataset': ..., ...})")
    found = validate(Contract, dict(contract), "contract", ContractError)
    if found.data_class is DataClass.sensitive:
        raise ContractError(
            "sensitive data are admitted from files, by their owner: write the frame as Parquet and its contract as "
            "dataset.yaml beside it, and run the study file"
        )
    rows = io.BytesIO()
    _frame(data).write_parquet(rows, compression="lz4", statistics=False)
    text = yaml.safe_dump(dict(contract), sort_keys=False, allow_unicode=True)
    name = hashlib.sha256(rows.getbuffer().tobytes() + text.encode()).hexdigest()[:16]
    folder = home() / "frames" / f"{found.dataset}-{name}"
    if not (folder / PARTITION).exists():
        write_whole(folder / CONTRACT_FILE, text)
        with whole_file(folder / PARTITION) as stream:
            stream.write(rows.getbuffer())
    asked = (
        yaml.safe_dump(dict(study), sort_keys=False, allow_unicode=True)
        if isinstance(study, Mapping)
        else read_text(Path(study))
    )
    return write_whole(folder / f"study-{hashlib.sha256(asked.encode()).hexdigest()[:12]}.yaml", asked)


def _frame(data: ArrowTable) -> pl.DataFrame:
    if isinstance(data, pl.DataFrame):
        return data
    problem = None
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pl.DataFrame(data)
        except Exception as error:  # of polars and of the frame's own library
            problem = type(error).__name__
    raise StudyError(f"data is no data frame of polars, pandas or Arrow ({problem or type(data).__name__})")


def run_with(
    run_study: RunStudy,
    study: str | Path | Mapping[str, Any],
    data: ArrowTable | None,
    contract: Mapping[str, Any] | None,
    run_id: str | None,
    again: bool,
    simulate: int | None,
    watch: Watcher,
    **options: Any,
) -> RunResult:
    """Find the study file and the run's id, then run it; see ``flows.api.run``."""
    if data is not None:
        path = study_on_frame(study, data, contract)
    elif isinstance(study, Mapping) or contract is not None:
        raise StudyError("a study or a contract given in Python needs its rows: run(study, data=frame, contract=...)")
    else:
        path = Path(study)
    if run_id is None:
        run_id = fresh_id(path) if again or simulate is not None else content_id(path)
    return run_study(path, run_id=run_id, simulate=simulate, watch=watch, **options)
