"""Kills aimed at the time in which a value is spent and its release is not written yet, hundreds of them.

The gate's form is ``tests/flows/test_kill.py``: other places of the same list. Here the kills go round all estimators
and, in each, round its places between the first charge and the finish, until there were as many as asked for.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import fill
from causalveil.schemas.errors import DataError, StudyError
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.partitions import list_partitions
from tests import crash
from tests.children import process
from tests.crash import PHASES
from tests.flows.test_kill import STUDIES, check, ledger_url
from tests.warehouse import files, read, visits, write_source

__all__ = ["ledger_url"]
ON_A_LEDGER = 200
THROUGH_PREFECT = 56


def between(places: list[str], count: int) -> list[str]:
    """``count`` places between the first charge and the finish, in turn; a second time the run has another id."""
    aimed = [place for place in places if crash.phase(place, places) == PHASES[1]]
    return list(islice(cycle(aimed), count))


def kill(name: str, count: int, url: str, home: Path, record: Any, **around: str) -> None:
    histogram = check(name, lambda places: between(places, count), url, home, record, **around)
    assert histogram == Counter({PHASES[1]: count})


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", STUDIES)
def test_killed_between_charge_and_finish(name: str, ledger_url: str, home: Path, record_property: Any) -> None:
    """200 on each ledger over the studies."""
    kill(name, ON_A_LEDGER // len(STUDIES), ledger_url, home, record_property)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", STUDIES)
def test_killed_through_prefect(name: str, home: Path, record_property: Any, prefect_server: str) -> None:
    """56 over the studies."""
    url = f"sqlite:///{home / 'ledger.db'}"
    kill(name, THROUGH_PREFECT // len(STUDIES), url, home, record_property, PREFECT_API_URL=prefect_server)


# An extract is killed at every call that touches its folder: what lies there then is no data, or all of it.
# What Python tells an audit hook of when a file is made, renamed or removed.
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
# A first extract, one that adds a month, and one that fills a month that came late.
KINDS = {"first": "2026-02", "more": "2026-03", "late": "2026-03"}


def prepare(kind: str, folder: Path) -> Path:
    """A folder as the extract of that kind finds it, and what it is to find in the source."""
    frame = visits(300)
    source = files(folder / "files", frame if kind == "late" else frame[:290], "parquet")
    path = write_source(folder / "source.yaml", source, key={"last": "2026-02"})
    if kind != "first":
        write_source(path, source, key={"last": KINDS[kind]} if kind == "late" else {})
        fill(path, DirectEngine())
    if kind == "late":
        late = frame.with_columns(person=frame["person"] + 1000, day=frame["day"].dt.offset_by("2mo"))
        late.write_parquet(folder / "files" / "late.parquet")
    return write_source(path, source, key={"last": KINDS[kind]})


def killed(path: str, place: int, count: Any) -> None:
    """Extract, and die right before the ``place``-th event within the folder; tell how many there were."""
    seen = 0
    data = str(Path(path).parent / "data")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in EVENTS and str(arguments[0]).startswith(data):
            seen += 1
            if seen == place:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    fill(Path(path), DirectEngine())
    count.send(seen)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_place(kind: str, every: bool, tmp_path: Path, record_property: Any) -> None:
    begun = prepare(kind, tmp_path / "begun").parent
    before = list_partitions(DataFolder(begun / "data"), "month") if kind != "first" else None
    whole = shutil.copytree(begun, tmp_path / "whole")
    places = events(whole / "source.yaml")
    after = list_partitions(DataFolder(whole / "data"), "month")
    chosen = range(1, places + 1) if every else sorted({places // 3, 2 * places // 3, places})
    for place in chosen:
        folder = shutil.copytree(begun, tmp_path / f"at-{place}")
        assert events(folder / "source.yaml", place) is None, "it was not killed"
        # Refused, or all of it: what lay there before, or what lies there in the end.
        with suppress(DataError, StudyError):
            assert list_partitions(DataFolder(folder / "data"), "month") in (before, after), (
                f"half an extract is read at {place}"
            )
        fill(folder / "source.yaml", DirectEngine())
        assert list_partitions(DataFolder(folder / "data"), "month") == after
        assert read(folder / "data").equals(read(whole / "data"))
        assert not list((folder / "data").glob(".*partial*"))
        shutil.rmtree(folder)
    record_property(
        "summary", f"extract ({kind}) killed at {len(list(chosen))} of {places} places: never half of it is read"
    )


def events(path: Path, place: int = 0) -> int | None:
    """Run an extract in a process of its own; the number of its events, or None if it was killed at one."""
    from multiprocessing import Pipe

    here, there = Pipe()
    child = process(killed, str(path), place, there)
    child.start()
    there.close()
    try:
        return int(here.recv())
    except EOFError:
        return None
    finally:
        child.join()
