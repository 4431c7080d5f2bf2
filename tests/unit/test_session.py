"""Folders of sessions of tests: a killed one's is removed by the next, that of one that runs is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import session


def test_what_a_killed_session_left_goes_and_what_another_uses_stays(tmp_path: Path) -> None:
    """Of two sessions one is killed by a signal, which gives it no time to tidy up, and the other runs on."""
    made = "from tests import session; print(session.folder(), flush=True); input()"
    around = {name: value for name, value in os.environ.items() if name != session.NAMED} | {"TMPDIR": str(tmp_path)}
    root = Path(__file__).parents[2]
    both = [
        subprocess.Popen(
            [sys.executable, "-c", made], cwd=root, env=around, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    killed, running = both
    try:
        left, used = (Path(process.stdout.readline().strip()) for process in both if process.stdout)
        killed.kill()
        killed.wait()
        of_ray = tmp_path / f"ray/session_2026-11-28_14-58-52_983636_{killed.pid}"
        of_ray.mkdir(parents=True)
        assert left.is_dir()
        session.sweep(tmp_path)
        assert not left.exists()
        assert not of_ray.exists()
        assert used.is_dir()
    finally:
        running.communicate("\n")
    assert not used.exists(), "a session that ends takes its folder along"
