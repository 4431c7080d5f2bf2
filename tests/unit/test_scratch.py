from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.start_run import study_on_frame
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.tasks.data import reduction
from causalveil.tasks.data.admit import SeenUnits
from causalveil.tasks.data.enclave import FileEnclave, MemoryEnclave, segment_folder
from causalveil.tasks.data.simulate import simulate
from causalveil.tasks.data.split import SPLIT, Halves
from causalveil.tasks.machine import files
from causalveil.tasks.machine.arrays import load_array, new_array, save_array
from causalveil.tasks.machine.distribute import map_partitions
from causalveil.tasks.machine.files import fair_lock, whole_file, write_whole
from causalveil.tasks.machine.site import clean, home, open_scratch, scratch_root
from tests.children import CONTEXT, process
from tests.studies import CONTRACT, people

HOLD = """
import sys
from causalveil.tasks.machine.site import open_scratch
with open_scratch(sys.argv[1]) as folder:
    (folder / "rows").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(run_id: str) -> tuple[subprocess.Popen[str], Path]:
    """A living process that holds a scratch folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, run_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def leftovers() -> list[str]:
    return sorted(path.name for path in scratch_root().iterdir())


def test_folder_is_private_and_gone_afterwards():
    previous = os.umask(0)
    try:
        with open_scratch("run/1: a b") as folder:
            assert folder.parent == scratch_root() == home() / "scratch"
            assert folder.name.startswith("run_1__a_b.")
            assert folder.stat().st_mode & 0o777 == 0o700
            assert folder.parent.stat().st_mode & 0o777 == 0o700
            (folder / "deep").mkdir()
            (folder / "deep" / "rows").write_text("x")
    finally:
        os.umask(previous)
    assert leftovers() == []


def test_folder_is_gone_after_an_error():
    def fail() -> None:
        with open_scratch("run") as folder:
            (folder / "rows").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert leftovers() == []


def test_same_run_twice_at_once_has_two_folders():
    with open_scratch("run") as one, open_scratch("run") as two:
        assert one != two
        assert one.is_dir()
        assert clean() == 0
        assert two.is_dir()


def test_clean_takes_the_dead_and_leaves_the_living():
    living, held = holder("living")
    dead, stale = holder("dead")
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    assert stale.is_dir()
    assert clean() == 1
    assert not stale.exists()
    assert (held / "rows").exists()
    # The next run sweeps as well.
    living.send_signal(signal.SIGKILL)
    living.wait()
    with open_scratch("next") as folder:
        assert not held.exists()
        assert [name for name in leftovers() if not name.startswith(folder.name)] == []
    assert clean() == 0


def test_clean_beside_runs_that_start_and_end():
    """Two hundred runs beside a process that cleans all the time: none loses its folder."""
    stop = threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            clean()

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for _ in range(200):
            with open_scratch("run") as folder:
                (folder / "rows").write_text("x")
                assert (folder / "rows").exists()
    finally:
        stop.set()
        sweeper.join()
    assert leftovers() == []


def test_a_root_open_to_others_is_refused():
    scratch_root().chmod(0o755)
    with pytest.raises(CausalveilError, match="chmod 700"):
        clean()


def test_arrays_are_private_and_come_back(tmp_path):
    previous = os.umask(0)
    try:
        for array in (np.arange(12.0).reshape(4, 3), np.empty((0, 5)), np.arange(3, dtype=np.uint8)):
            save_array(tmp_path / "a.npy", array)
            assert np.array_equal(load_array(tmp_path / "a.npy"), array)
            assert (tmp_path / "a.npy").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(previous)
    with pytest.raises(ValueError, match="read-only"):
        load_array(tmp_path / "a.npy")[0] = 1


def test_rows_written_out_of_order_come_back_in_order(tmp_path):
    array = np.arange(30.0).reshape(10, 3)
    with new_array(tmp_path / "a.npy", array.shape, array.dtype) as write:
        for first in (6, 0, 3, 9):
            write(first, array[first : first + 3])
        assert not (tmp_path / "a.npy").exists(), "it has its name when it is whole"
    assert np.array_equal(load_array(tmp_path / "a.npy"), array)


def parts():
    generator = np.random.default_rng(2)
    for rows in (5, 0, 3):
        yield generator.random((rows, 2)), generator.integers(0, 2, rows).astype(np.uint8), generator.random(rows)


def on_files(scratch):
    for index, part in enumerate(parts()):
        folder = segment_folder(scratch, index)
        folder.mkdir(parents=True)
        for name, array in zip("xtu", part, strict=True):
            save_array(folder / f"{name}.npy", array)
    return FileEnclave(scratch, 3)


def in_memory(_scratch):
    return MemoryEnclave([dict(zip("xtu", part, strict=True)) for part in parts()])


@pytest.mark.parametrize("made", [on_files, in_memory])
@pytest.mark.parametrize("cut", [[2, 0, 3], None])
def test_enclave_slices(cut, made, tmp_path):
    enclave = made(tmp_path)
    lengths = [len(t) for _, t, _ in parts()]
    enclave.save(SPLIT, np.array([cut, cut] if cut else [lengths, [0, 0, 0]]))
    halves = Halves.open(enclave)
    assert halves.segments == enclave.segments == 3
    for index, (x, t, u) in enumerate(parts()):
        whole = slice(None)
        first, rest = (slice(0, cut[index]), slice(cut[index], None)) if cut else (whole, whole)
        for rows, chosen in (
            (enclave.rows(index), whole),
            (halves.train(index), first),
            (halves.estimation(index), rest),
        ):
            assert len(rows) == len(t[chosen])
            for found, expected in zip((rows.x, rows.t, rows.u), (x, t, u), strict=True):
                assert np.array_equal(found, expected[chosen])
                assert not found.flags.writeable


@pytest.mark.parametrize("made", [on_files, in_memory])
def test_enclave_without_a_split_is_refused(made, tmp_path):
    with pytest.raises(CausalveilError, match="has not run"):
        Halves.open(made(tmp_path))


def test_what_stages_leave_is_the_owners_alone(tmp_path):
    FileEnclave(tmp_path, 0).save("sums", np.ones(3))
    assert (tmp_path / "sums.npy").stat().st_mode & 0o777 == 0o600


def test_rows_in_memory_remember_what_was_computed_and_files_do_not(tmp_path):
    asked: list[int] = []

    def compute() -> int:
        asked.append(1)
        return len(asked)

    memory, files = MemoryEnclave([]), FileEnclave(tmp_path, 0)
    assert [memory.once("fit", compute), memory.once("fit", compute), memory.once("other", compute)] == [1, 1, 2]
    assert [files.once("fit", compute), files.once("fit", compute)] == [3, 4]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_map_partitions_keeps_order_and_raises_the_first_error(workers):
    assert map_partitions(lambda index: index**2, 20, workers) == [index**2 for index in range(20)]
    assert map_partitions(lambda index: index, 0, workers) == []

    def fails(index: int) -> int:
        if index in (3, 7):
            raise KeyError(index)
        return index

    with pytest.raises(KeyError) as caught:
        map_partitions(fails, 20, workers)
    assert caught.value.args == (3,)


def test_map_partitions_holds_blas_to_one_thread():
    from threadpoolctl import threadpool_info

    def blas_threads(_: int) -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    seen = map_partitions(blas_threads, 2, 2)
    assert all(seen)
    assert all(threads == 1 for pools in seen for threads in pools)


# The line of writers: in the order of arrival, past the dead and the stopped, and never in anybody's way.
def numbers(path: Path) -> int:
    """How many numbers were taken."""
    return int(path.read_bytes() or b"0") if path.exists() else 0


def until(reached: Any) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def stand(path: Path, served: list[int], number: int) -> threading.Thread:
    """A thread that has taken its number when this returns."""

    def work() -> None:
        with fair_lock(path):
            served.append(number)

    before, thread = numbers(path), threading.Thread(target=work)
    thread.start()
    until(lambda: numbers(path) > before)
    return thread


def test_who_comes_first_is_served_first(tmp_path: Path) -> None:
    path, served = tmp_path / "line", list[int]()
    with fair_lock(path):
        threads = [stand(path, served, number) for number in range(20)]
        assert served == []
    for thread in threads:
        thread.join(60)
    assert served == list(range(20))
    assert path.stat().st_mode & 0o777 == 0o600


def hold(path: Path, told: Any) -> None:
    with fair_lock(path):
        told.send("held")
        signal.pause()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_dead_and_the_stopped_are_passed(tmp_path: Path, number: signal.Signals, monkeypatch: Any) -> None:
    monkeypatch.setattr(files, "PATIENCE_SECONDS", 3600 if number == signal.SIGKILL else 0.2)
    path = tmp_path / "line"
    receive, send = CONTEXT.Pipe(duplex=False)
    child = process(hold, path, send)
    child.start()
    assert receive.recv() == "held"
    os.kill(child.pid, number)
    served: list[int] = []
    stand(path, served, 1).join(60)
    assert served == [1]
    child.kill()
    child.join()


def test_patience_is_with_the_first(tmp_path: Path) -> None:
    """Or those far back in a long line would lose theirs with somebody who only waits, too."""
    path = tmp_path / "line"
    handles = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for _ in range(6)]
    assert [files._take_number(handle) for handle in handles] == [1, 2, 3, 4, 5, 6]
    for place, handle in enumerate(handles[:5], start=1):
        assert files._first_waiting(handles[5], 6) == place
        os.close(handle)
    assert files._first_waiting(handles[5], 6) is None
    os.close(handles[5])


def no_file(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(b"kept")
    path.symlink_to("elsewhere")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def words(path: Path) -> None:
    path.write_bytes(b"not a number")


def huge(path: Path) -> None:
    path.write_bytes(b"9" * 20)


@pytest.mark.parametrize("plant", [no_file, link, fifo, words, huge])
def test_without_a_line_one_goes_on(tmp_path: Path, plant: Any) -> None:
    path, passed = tmp_path / "line", False
    plant(path)
    with fair_lock(path):
        passed = True
    assert passed
    if plant is link:
        assert path.read_bytes() == b"kept"


def test_errors_of_the_work_are_its_own(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), fair_lock(tmp_path / "line"):
        raise BlockingIOError
    served: list[int] = []
    stand(tmp_path / "line", served, 1).join(60)
    assert served == [1]


# Files are there whole or not at all: after errors, crashes, a full disk, and beside links that somebody planted.
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
