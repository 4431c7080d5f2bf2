from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.data.enclave import FileEnclave, MemoryEnclave, segment_folder
from causalveil.tasks.data.split import SPLIT, Halves
from causalveil.tasks.machine.arrays import load_array, new_array, save_array
from causalveil.tasks.machine.distribute import map_partitions
from causalveil.tasks.machine.site import clean, home, open_scratch, scratch_root

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
