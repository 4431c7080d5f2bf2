"""Folders of sessions of tests: those of processes that are no more are removed, all others stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.session import PREFIX, sweep


def test_folders_of_processes_that_are_no_more_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    gone, here = process.pid, os.getpid()
    ray = "ray/session_2026-11-29_09-00-00_123456_"
    left = [tmp_path / name for name in (f"{PREFIX}{gone}-abc_1", f"{ray}{gone}")]
    kept = [
        tmp_path / name for name in (f"{PREFIX}{here}-abc_1", f"{ray}{here}", f"{PREFIX}{gone}", f"other-{gone}-abc")
    ]
    for folder in (*left, *kept):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    sweep(tmp_path)
    assert not any(folder.exists() for folder in left)
    assert all((folder / "file").exists() for folder in kept)
