"""Races for a data folder: between the contract and the rows, and between digest and rows. None may be won.

Each is run in two ways: by another process that is told of accesses by the kernel (inotify), as an attacker has it, and
by a hook that strikes at a chosen step of the reader, so that every order of the two is tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.declare import plan_study
from causalveil.flows.run.ranges import find_ranges
from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.partitions import list_partitions, read_rows
from causalveil.tasks.machine import folders
from causalveil.tasks.privacy.keys import owner_key
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.bad_data import AGE, admitted, contract, good, study, write
from tests.studies import command, people, write_study

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify and /proc are Linux's")
# Two of each command: the kernel says when to swap, so that each try is as good as another.
SWAPS = [6, pytest.param(200, marks=pytest.mark.long)]
TRIES = [20, pytest.param(200, marks=pytest.mark.long)]
# Of the sensitive rows alone, in the name of a block and in values.
SECRET, SECRET_UNITS = "month=2999-12", 300

# Waits until the contract is opened, then puts a link to the other folder in the place of the one that holds it.
ATTACKER = r"""
import ctypes, os, sys
folder, other, aside, event = sys.argv[1:5]
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init()
libc.inotify_add_watch(watch, os.path.join(folder, "dataset.yaml").encode(), int(event))
print("ready", flush=True)
os.read(watch, 4096)
os.rename(folder, aside)
os.symlink(other, folder)
print("swapped", flush=True)
"""
OPENED, CLOSED = 0x20, 0x10


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sensitive dataset, granted and admitted, whose outcomes are 10 throughout."""
    monkeypatch.setenv("CAUSALVEIL_OWNER_KEY", str(tmp_path / "owner.key"))
    words = {"data_class": "sensitive", "owner_key": owner_key(create=True).public, "dataset": "secret"}
    words["blocks"] = {"key": "month", "units_span": False}
    path = write_study(tmp_path / "secret", partitions=0, contract=words)
    (path.parent / SECRET).mkdir()
    people(SECRET_UNITS).with_columns(score=pl.lit(10.0)).write_parquet(path.parent / SECRET / "part.parquet")
    for line in (["ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening"], ["admit", path.parent]):
        assert command(*line) == 0
    return path.parent


def bait(tmp_path: Path) -> Path:
    """A synthetic dataset of the attacker's: everything is public, its cap is wide, and its block has another name."""
    wide = {level: {"epsilon": 500_000, "delta": "0.5"} for level in ("sample", "label", "training_units")}
    words = {"dataset": "bait", "caps": wide, "blocks": {"key": "month", "units_span": False}}
    path = write_study(tmp_path / "bait", partitions=0, contract=words, study={"privacy": {"epsilon": "100"}})
    (path.parent / "month=1").mkdir()
    people(100, seed=3).with_columns(score=pl.lit(0.0)).write_parquet(path.parent / "month=1" / "part.parquet")
    # The study lies elsewhere: it is what the analyst hands in.
    moved = tmp_path / "study.yaml"
    moved.write_text(path.read_text().replace("estimator:", "data: {path: bait}\nestimator:"))
    path.unlink()
    return moved


def restore(tmp_path: Path) -> None:
    """Put the attacker's folder back."""
    if (tmp_path / "bait").is_symlink():
        (tmp_path / "bait").unlink()
    if (tmp_path / "aside").exists():
        (tmp_path / "aside").rename(tmp_path / "bait")


def wins(how: str, path: Path, tmp_path: Path, number: int) -> bool:
    """Whether what an analyst is told is of the sensitive rows."""
    out, run = tmp_path / f"out-{how}-{number}", f"{how}-{number}"
    told: Any
    try:
        if how == "run":
            told = run_study(path, out=out, run_id=run, engine="direct").release
            units = told.units
        elif how == "ranges":
            told = find_ranges(tmp_path / "bait", ("score",), "5", run, DirectEngine())
            units = told.units
        else:
            told = plan_study(path)[1]
            units = None if told.sizes is None else told.sizes.units
    except CausalveilError as problem:
        return SECRET in str(problem)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return units == SECRET_UNITS or SECRET in told.model_dump_json()


@pytest.mark.parametrize("tries", SWAPS)
@pytest.mark.parametrize("event", [OPENED, CLOSED])
@pytest.mark.timeout(900)
def test_a_folder_swapped_once_its_contract_is_read_wins_nothing(
    event: int, tries: int, secret: Path, tmp_path: Path, record_property: Any
) -> None:
    path, swapped, won = bait(tmp_path), 0, 0
    before = [entry.kind for entry in open_ledger().entries_of("secret")]
    for number in range(tries):
        how = ("run", "ranges", "plan")[number % 3]
        words = [sys.executable, "-c", ATTACKER, tmp_path / "bait", secret, tmp_path / "aside", event]
        with subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True) as attacker:
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == "ready\n"
            won += wins(how, path, tmp_path, number)
            swapped += attacker.stdout.readline() == "swapped\n"
        restore(tmp_path)
    record_property("summary", f"folder swapped {swapped} of {tries} times after its contract was read, {won} won")
    assert swapped == tries
    assert won == 0
    assert [entry.kind for entry in open_ledger().entries_of("secret")] == before


class Hook:
    """Strikes once, at a chosen step of this process: an open, a stat or a listing after the contract is opened."""

    def __init__(self) -> None:
        self.strike: Callable[[], None] | None = None
        self.at, self.steps, self.begun = -1, 0, False
        self._real = {name: getattr(os, name) for name in ("open", "stat", "scandir", "listdir", "fstat")}

    def step(self, path: Any) -> None:
        if self.strike is None:
            return
        self.begun = self.begun or "dataset.yaml" in str(path)
        if self.begun:
            self.steps += 1
            if self.steps == self.at:
                strike, self.strike = self.strike, None
                strike()

    @contextmanager
    def watching(self, monkeypatch: pytest.MonkeyPatch, at: int, strike: Callable[[], None]) -> Iterator[None]:
        self.at, self.steps, self.begun, self.strike = at, 0, False, strike
        with monkeypatch.context() as patch:
            for name, real in self._real.items():
                patch.setattr(os, name, self._wrapped(real))
            try:
                yield
            finally:
                self.strike = None

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            found = real(path, *args, **kwargs)
            self.step(path)
            return found

        return call


@pytest.mark.parametrize("most", TRIES)
@pytest.mark.timeout(900)
def test_a_folder_swapped_at_any_step_wins_nothing(
    most: int, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    path, hook, struck, won, tries = bait(tmp_path), Hook(), 0, 0, -(-most // 3)
    before = [entry.kind for entry in open_ledger().entries_of("secret")]

    def swap() -> None:
        (tmp_path / "bait").rename(tmp_path / "aside")
        (tmp_path / "bait").symlink_to(secret)

    for how in ("run", "ranges", "plan"):
        # How many steps there are, by one that never strikes; the first of all admits the data, and makes more.
        for number in (-1, 0):
            with hook.watching(monkeypatch, 0, swap):
                wins(how, path, tmp_path, number)
        steps = hook.steps
        for number in range(1, tries + 1):
            with hook.watching(monkeypatch, -(-number * steps // (tries + 1)), swap):
                won += wins(how, path, tmp_path, number)
            struck += (tmp_path / "aside").exists()
            restore(tmp_path)
    record_property("summary", f"folder swapped at {struck} chosen steps after its contract was read, {won} won")
    assert struck >= most * 9 // 10
    assert won == 0
    assert [entry.kind for entry in open_ledger().entries_of("secret")] == before


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("how", ["rename", "write", "link"])
def test_a_file_turned_between_digest_and_rows_wins_nothing(
    how: str, small: bool, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And back again, before anybody looks: another file under the name, other bytes in it, a link for the file."""
    monkeypatch.setattr(folders, "SMALL_BYTES", 1 << 23 if small else 0)
    folder = write(tmp_path / "data", good(24))
    name, other, aside = folder / "part-0.parquet", tmp_path / "other.parquet", tmp_path / "aside.parquet"
    good(24).with_columns(pl.lit(99.0).alias(AGE)).write_parquet(other, row_group_size=10)
    admission = admitted(contract(), folder, tmp_path / "scratch")
    data = DataFolder(folder)
    (partition,) = list_partitions(data, None).partitions
    held, content, roles = data.held_to(admission.digests), name.read_bytes(), {AGE: study().roles[AGE]}
    digested = folders.OpenFile.chunks

    def turn() -> None:
        if how == "write":
            name.write_bytes(other.read_bytes())
            return
        name.rename(aside)
        name.symlink_to(other) if how == "link" else shutil.copy(other, name)

    def back() -> None:
        if how == "write":
            name.write_bytes(content)
            return
        if aside.exists():
            name.unlink()
            aside.rename(name)

    def chunks(file: folders.OpenFile) -> Iterator[bytes | memoryview]:
        yield from digested(file)
        turn()

    won = 0
    for _ in range(tries):
        frames: list[pl.DataFrame] = []
        with monkeypatch.context() as patch:
            patch.setattr(folders.OpenFile, "chunks", chunks)
            # A run that is refused has handed nothing on: its stage ends before anything is released.
            with suppress(DataError):
                for frame in read_rows(held, partition, roles, 5):
                    frames.append(frame)
                    if len(frames) == 5:
                        back()
                won += 99.0 in pl.concat(frames)[AGE].to_list()
        back()
        assert name.read_bytes() == content
    assert won == 0
