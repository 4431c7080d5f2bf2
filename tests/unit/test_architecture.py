"""The house holds: imports go down, noise has one room, no guard is an assert."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = {"schemas": {"schemas"}, "tasks": {"schemas", "tasks"}, "flows": {"schemas", "tasks", "flows"}}
SOURCES = sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_keeps_the_house_rules(path: Path) -> None:
    where = path.relative_to(ROOT)
    tree = ast.parse(path.read_text())
    names = imported(tree)
    above = set(FLOORS) - FLOORS[where.parts[0]]
    assert not {name for name in names if name.split(".")[0] in above}, "imports go down only"
    if where.parts[0] != "flows":
        assert not {name for name in names if name.split(".")[0] == "prefect"}, "stages do not know Prefect"
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)], "assert guards nothing"


def draws(path: Path) -> set[str]:
    """Names by which a module could draw random numbers."""
    tree = ast.parse(path.read_text())
    found = {name for name in imported(tree) if name.split(".")[0] in {"random", "opendp", "secrets"}}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"np.random", "os.urandom", "numpy.random"}:
            found.add(ast.unparse(node))
    return found


# Who may touch randomness at all, and for what other than noise on a release.
ALLOWED = {
    "flows/spine.py": {"secrets"},  # run ids
    "tasks/matching_data.py": {"np.random"},  # the simulated data set of a paper
    "tasks/replication_data.py": {"np.random"},  # synthetic data
    "tasks/simulate.py": {"np.random"},  # synthetic data
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_randomness_has_one_room(path: Path) -> None:
    where = str(path.relative_to(ROOT))
    if where.startswith("tasks/privacy/"):
        return
    assert draws(path) <= ALLOWED.get(where, set())


def test_only_the_spine_hands_noise_to_a_budget() -> None:
    """A noise source is made in one place, which gives it to a budget; stages meet it nowhere."""
    holders = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if {name for name in imported(ast.parse(path.read_text())) if name.startswith("tasks.privacy.noise")}
        and not path.is_relative_to(ROOT / "tasks" / "privacy")
    }
    assert holders == {"flows/spine.py"}


def test_direct_engine_never_imports_prefect() -> None:
    import subprocess
    import sys

    code = "import sys, flows.cli, flows.launch; sys.exit('prefect' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_lock_and_constraints_agree() -> None:
    """What `uv run` resolves to is what requirements.lock pins."""
    import re
    import tomllib

    lock = (ROOT / "requirements.lock").read_text()
    pinned = [re.split(r"\s*\\$", line)[0].strip() for line in lock.splitlines() if re.match(r"\w", line)]
    assert tomllib.loads((ROOT / "uv.toml").read_text())["constraint-dependencies"] == pinned


def test_exported_schema_is_current() -> None:
    import json

    from schemas.release import SCHEMA_FILE, release_schema

    assert json.loads(SCHEMA_FILE.read_text()) == release_schema()
