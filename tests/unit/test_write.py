"""Files are there whole or not at all: after errors, crashes, a full disk, and beside links that somebody planted."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from causalveil.flows.start_run import study_on_frame
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.tasks.data import reduction
from causalveil.tasks.data.admit import SeenUnits
from causalveil.tasks.data.simulate import simulate
from causalveil.tasks.machine.arrays import load_array, new_array, save_array
from causalveil.tasks.machine.files import whole_file, write_whole
from tests.studies import CONTRACT, people

LARGE = "x" * 1_000_000


def in_child(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked process; its wait status, 0 if it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            work()
            code = 0
        os._exit(code)
    return os.waitpid(child, 0)[1]


def on_a_full_disk() -> None:
    """Let this process write no file beyond 64 KiB: the system then refuses the rest of it, as a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    with whole_file(path) as stream:
        stream.write(b"after")
        stream.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a"]


def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")

    def write() -> None:
        with whole_file(path) as stream:
            stream.write(b"aft")
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        write()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("there", [False, True])
def test_a_crash_leaves_no_half_file(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "a"
    if there:
        path.write_text("before")

    def work() -> None:
        with whole_file(path, durable=True) as stream:
            stream.write(LARGE.encode())
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.WTERMSIG(in_child(work)) == signal.SIGKILL
    assert path.exists() == there
    assert not there or path.read_text() == "before"
    write_whole(path, "after")
    assert path.read_text() == "after", "what a crash left is in nobody's way"


@pytest.mark.parametrize("dangling", [False, True])
def test_a_planted_link_is_not_followed(tmp_path: Path, dangling: bool) -> None:
    folder, target = tmp_path / "out", tmp_path / "target"
    folder.mkdir()
    if not dangling:
        target.write_text("somebody else's")
    (folder / "a").symlink_to(target)
    with pytest.raises(StudyError, match="taken"):
        write_whole(folder / "a", "ours", taken="it is taken")
    with pytest.raises(FileExistsError), whole_file(folder / "a", exclusive=True) as stream:
        stream.write(b"ours")
    write_whole(folder / "a", "ours")
    assert not (folder / "a").is_symlink()
    assert (folder / "a").read_text() == "ours"
    assert target.exists() != dangling
    assert dangling or target.read_text() == "somebody else's"


def test_the_same_text_again_is_welcome_and_another_is_not(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a"
    for _ in range(2):
        assert write_whole(path, "one\r\n", taken="it is taken") == path
    assert path.read_bytes() == b"one\r\n"
    with pytest.raises(StudyError, match="it is taken"):
        write_whole(path, "two", taken="it is taken")
    (tmp_path / "folder").mkdir()
    for taken in (None, "it is taken"):
        with pytest.raises(StudyError):
            write_whole(tmp_path / "folder", "two", taken=taken)


def test_of_many_writers_of_an_exclusive_file_one_wins_with_all_of_its_text(tmp_path: Path) -> None:
    def write(index: int) -> bool:
        try:
            with whole_file(tmp_path / "a", exclusive=True) as stream:
                stream.write(bytes([index]) * 100_000)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(32)))
    assert sum(won) == 1
    assert (tmp_path / "a").read_bytes() == bytes([won.index(True)]) * 100_000
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk_is_a_typed_error_and_leaves_nothing(tmp_path: Path) -> None:
    def work() -> None:
        on_a_full_disk()
        with pytest.raises(StudyError, match=r"cannot be written \(File too large\); free some space") as caught:
            write_whole(tmp_path / "a", LARGE, failed="free some space")
        assert caught.value.__context__ is None
        with pytest.raises(CausalveilError, match=r"scratch folder cannot be written \(File too large\)") as caught:
            save_array(tmp_path / "b", np.zeros(100_000))
        assert caught.value.__context__ is None
        with (
            pytest.raises(CausalveilError, match="File too large"),
            new_array(tmp_path / "c", (100_000,), np.float64) as write,
        ):
            write(99_000, np.zeros(1000))
        assert os.listdir(tmp_path) == []

    assert in_child(work) == 0


@contextmanager
def files_of_64_kib() -> Iterator[None]:
    """Let this process write no larger file for as long as the block runs; no child, which polars cannot have."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


NUMBERS = pl.Series("person", range(0, 200_000, 2))
WRITERS: dict[str, Callable[[Path], object]] = {
    "units": lambda folder: SeenUnits(folder / "units", 1, bytes(16)).add(NUMBERS),
    "hashes": lambda folder: SeenUnits(folder / "hashes", 1, bytes(16)).add(NUMBERS.cast(pl.String)),
    "buckets": lambda folder: reduction.spread(NUMBERS.to_frame(), "person", bytes(16), 4, folder / "buckets"),
    "reduced rows": lambda folder: reduction._write(folder / "rows", NUMBERS.sample(100_000, seed=1).to_frame()),
    "simulated rows": lambda folder: simulate(folder / "simulated", 100_000, 2, 1, seed=1),
    "a frame": lambda _: study_on_frame({"name": "small"}, people(10_000), CONTRACT),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_says_what_is_wrong_with_the_disk(name: str, tmp_path: Path) -> None:
    with files_of_64_kib(), pytest.raises(CausalveilError, match=r"cannot be written \(File too large\)"):
        WRITERS[name](tmp_path)


def test_durable_means_that_file_and_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fsync is done, and in this order: the bytes before the name that shows them."""
    synced: list[tuple[bool, bool]] = []
    sync = os.fsync

    def watched(handle: int) -> None:
        synced.append((os.path.isdir(f"/proc/self/fd/{handle}"), (tmp_path / "a").exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    with whole_file(tmp_path / "b") as stream:
        stream.write(b"b")
    assert synced == []
    with whole_file(tmp_path / "a", durable=True) as stream:
        stream.write(b"a")
    assert synced == [(False, False), (True, True)]


def test_an_error_of_who_makes_the_rows_is_not_told_as_the_disks(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="rows were not found"), new_array(tmp_path / "a", (1,), np.float64):
        raise OSError("rows were not found")
    assert os.listdir(tmp_path) == []


def test_an_array_that_was_given_up_has_no_name(tmp_path: Path) -> None:

    def give_up() -> None:
        with new_array(tmp_path / "a.npy", (10, 3), np.float64) as write:
            write(0, np.ones((5, 3)))
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        give_up()
    assert os.listdir(tmp_path) == []
    save_array(tmp_path / "a.npy", np.arange(12).reshape(3, 4))
    assert np.array_equal(load_array(tmp_path / "a.npy"), np.arange(12).reshape(3, 4))
