"""The line of writers: in the order of arrival, past the dead and the stopped, and never in anybody's way."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from causalveil.tasks.machine import files
from causalveil.tasks.machine.files import fair_lock
from tests.children import CONTEXT, process


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
