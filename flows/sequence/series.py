"""A study file -> the series of its released blocks. Reads the ledger's documents: no rows, no noise, no charge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from causalveil.flows.engine.engine import Engine, Task
from causalveil.flows.sequence.study import load
from causalveil.schemas.errors import ReleaseHeld, RunConflict, StudyError
from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.schemas.release import Release, load_release_text
from causalveil.schemas.sites.pooled import Series
from causalveil.schemas.study import EffectStudy, Study
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.series import series_html
from causalveil.tasks.sites.series import series_of

SERIES_FILE, SERIES_PAGE = "series.json", "series.html"


@dataclass(frozen=True)
class SeriesResult:
    """A series, and where its file and its page lie."""

    series: Series
    path: Path
    page: Path


def releases_of(study: Study, dataset: str) -> tuple[Release, ...]:
    """Every release of the study on a dataset that may leave the ledger, in the order of their runs.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    ledger, found = open_ledger(), []
    for run in ledger.account(dataset).runs:
        if run.study != study.name or run.state != "finished":
            continue
        try:
            text = ledger.stored_document(run.run_id)
        except (ReleaseHeld, RunConflict):
            continue
        release = None if text is None else load_release_text(text)
        if release is not None and release.study_digest == study.digest:
            found.append(release)
    return tuple(found)


def make_series(path: Path, out: str | Path | None, engine: Engine) -> SeriesResult:
    """The series of a study's released blocks, written as series.json and series.html; an older one is replaced.

    Args:
        path: study.yaml.
        out: folder (default ``releases/<study>-series`` below the working directory).
        engine: what runs the two stages.

    Raises:
        StudyError: not an effect's study, units span blocks, or fewer than two blocks were released.
        LedgerError: the ledger cannot be used.
    """
    loaded = load(path)
    study = loaded.study
    if not isinstance(study, (EffectStudy, ProtocolStudy)):
        raise StudyError(f"a series is of effects; '{study.name}' asks for another kind of answer")
    releases = engine(Task("gather", lambda: releases_of(study, loaded.contract.dataset)))
    series = engine(Task("series", lambda: series_of(study, releases), reads=("gather",)))
    folder = Path(out) if out is not None else Path("releases") / f"{study.name}-series"
    written = write_whole(folder / SERIES_FILE, series.text())
    return SeriesResult(series, written, write_whole(folder / SERIES_PAGE, series_html(series)))
