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
from causalveil.schemas.privacy import Level
from causalveil.tasks.enclave.rows import Enclave
from causalveil.tasks.machine.arrays_on_disk import load_array, new_array, save_array
from causalveil.tasks.machine.distribute import map_partitions
from causalveil.tasks.machine.home import home
from causalveil.tasks.machine.scratch import clean, open_scratch, scratch_root

HOLD = """
import sys
from causalveil.tasks.machine.scratch import open_scratch
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


@pytest.mark.parametrize("level", list(Level))
def test_enclave_slices(level, tmp_path):
    enclave = Enclave.create(tmp_path, parts(), [2, 0, 3], everyone=level is Level.label)
    assert enclave.partitions == 3
    for index, (x, t, u) in enumerate(parts()):
        cut = [2, 0, 3][index]
        whole = slice(None)
        first, rest = (whole, whole) if level is Level.label else (slice(0, cut), slice(cut, None))
        for rows, chosen in (
            (enclave.all(index), whole),
            (enclave.train(index), first),
            (enclave.estimation(index), rest),
        ):
            assert len(rows) == len(t[chosen])
            for found, expected in zip((rows.x, rows.t, rows.u), (x, t, u), strict=True):
                assert np.array_equal(found, expected[chosen])


def test_enclave_without_a_split_is_refused(tmp_path):
    with pytest.raises(CausalveilError, match="run validate"):
        Enclave.open(tmp_path, everyone=False)


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
