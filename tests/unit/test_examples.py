"""Examples in docstrings of the public functions and classes run as they stand, from a folder that holds `data/`."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import causalveil

ROOT = Path(__file__).parents[2]
ROOMS = ("flows", "schemas", "tasks")
MODULES = sorted(
    "causalveil." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
# Functions of the public face: each has an example.
FUNCTIONS = ("load_release", "load_study", "plan", "report", "run")


@pytest.mark.parametrize("module", MODULES)
def test_examples_say_what_comes(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    failed, tried = doctest.testmod(import_module(module))
    assert tried
    assert not failed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_have_an_example(name: str) -> None:
    assert ">>> " in getattr(causalveil, name).__doc__
