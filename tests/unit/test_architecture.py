"""The house holds: imports go down, never in a circle; folders list their modules; noise has one room."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from causalveil.schemas.asked.study_file import STUDY_SCHEMA_FILE, study_schema
from causalveil.schemas.contract import CONTRACT_SCHEMA_FILE, contract_schema
from causalveil.schemas.release import SCHEMA_FILE, release_schema
from causalveil.schemas.sites import pooled
from tests.house import House

ROOT = Path(__file__).parents[2]
HOUSE = House(ROOT)
# Its modules are parsed when a test asks for them, in one process.
pytestmark = pytest.mark.xdist_group("architecture")

# Who may touch randomness outside tasks/privacy, and for what other than noise on a release.
RANDOM = {
    "flows/engine/server.py": {"secrets"},  # a password
    "flows/run/study.py": {"secrets"},  # run ids
    "replication/src/causalveil_replication/accuracy/populations.py": {"np.random"},  # synthetic data
    "tasks/estimate/times/effects.py": {"np.random"},  # critical values of bands, by a fixed seed
    "replication/src/causalveil_replication/accuracy/later.py": {"np.random"},  # synthetic data
    "replication/src/causalveil_replication/accuracy/public_data.py": {
        "np.random"
    },  # orders of public tables, and outcomes simulated on them
    "replication/src/causalveil_replication/lee2019/data.py": {
        "np.random"
    },  # synthetic data, and subsamples of published ones
    "replication/src/causalveil_replication/schroeder2025/data.py": {"np.random"},  # synthetic data
    "replication/src/causalveil_replication/competitors/aim.py": {"np.random"},  # the same
    "replication/src/causalveil_replication/competitors/graphical.py": {"np.random"},  # the same
    "replication/src/causalveil_replication/competitors/privsyn.py": {"np.random"},  # synthetic units from noisy tables
    "replication/src/causalveil_replication/yuan2026/data.py": {"np.random"},  # the simulated data set of a paper
    "tasks/estimate/adjust/released.py": {
        "np.random"
    },  # Monte Carlo draws of post-processing, seeded by released numbers
    "tasks/estimate/people.py": {"np.random"},  # the people that plans speak of
    "tasks/data/simulate.py": {"np.random"},  # synthetic data
}
# Who makes a noise source; it is handed to a budget at once.
NOISE = {"flows/run/study.py", "flows/run/ranges.py"}
# The only doors to Prefect: the flows themselves, the engine, and the command that reads Prefect's record.
PREFECT = (
    "flows/deployed.py",
    "flows/engine/",
    "flows/cli/audit.py",
)
# Who makes files by other means than ``whole_file``: that itself, locks, a log, and the ledger's database.
WRITES = {
    "flows/engine/server.py",
    "tasks/machine/files.py",
    "tasks/machine/site.py",
    "tasks/data/admit.py",
    "tasks/warehouse/blocks.py",
    "tasks/privacy/ledger/store.py",
}
# Rooms that open files with people's rows.
ROWS = (
    "tasks/data/",
    "tasks/warehouse/",
    "replication/",
)


# Folders of tasks/ that answer questions, floor by floor: tables by public weights and of times stand on the papers'
# methods, and sites pool many studies. On a floor nobody imports a neighbour, and imports go down only; what neighbours
# share lies in none of these.
QUESTIONS = (
    {f"estimate/papers/{paper}" for paper in ("aipw_asymptotic", "direction", "ipw", "matching")},
    {"estimate/label", "estimate/times"},
    {"sites"},
)


def test_imports_go_down_only() -> None:
    assert HOUSE.climbing() == []


def test_no_circle_also_not_inside_functions() -> None:
    assert HOUSE.circles() == []


def test_each_folder_lists_its_modules() -> None:
    """The docstring of ``__init__`` is a folder's table of contents: ``python tests/room_map.py`` writes it."""
    assert HOUSE.unlisted() == set()


def test_no_estimator_imports_another() -> None:
    floor = {room: n for n, rooms in enumerate(QUESTIONS) for room in rooms}
    found = {
        (where, other)
        for other in floor
        for where in HOUSE.importers(f"causalveil.tasks.{other.replace('/', '.')}", outside=f"tasks/{other}/")
        for room in floor
        if where.startswith(f"tasks/{room}/") and floor[room] <= floor[other]
    }
    assert found == set()


def test_no_guard_is_an_assert() -> None:
    assert [where for where, module in HOUSE.modules.items() if module.finds(ast.Assert)] == []


def test_randomness_has_one_room() -> None:
    outside = {
        where: module.random()
        for where, module in HOUSE.modules.items()
        if module.random() and not where.startswith("tasks/privacy/")
    }
    assert outside == RANDOM


def test_noise_is_made_in_one_place() -> None:
    assert HOUSE.importers("causalveil.tasks.privacy.noise", outside="tasks/privacy/") == NOISE


def test_prefect_is_known_to_its_doors_only() -> None:
    assert {where for where in HOUSE.importers("prefect") if not where.startswith(PREFECT)} == set()


def test_rows_are_read_in_their_rooms_only() -> None:
    readers = {where for where, module in HOUSE.modules.items() if module.reads_rows()}
    assert {where for where in readers if not where.startswith(ROWS)} == set()
    assert readers, "somebody reads rows"


def test_no_class_name_is_defined_twice() -> None:
    assert {name: where for name, where in HOUSE.classes().items() if len(where) > 1} == {}


def test_files_are_written_in_one_way() -> None:
    assert {where for where, module in HOUSE.modules.items() if module.writes_files()} == WRITES


PLANTED: dict[str, tuple[str, str, Callable[[], None]]] = {
    "a schema imports a flow": ("schemas/plan.py", "import causalveil.flows.api", test_imports_go_down_only),
    "the product imports a replication": (
        "flows/plan/curves.py",
        "def late() -> None:\n    from causalveil_replication.figures import picture",
        test_imports_go_down_only,
    ),
    "a replication draws by itself": (
        "replication/src/causalveil_replication/lee2019/runs.py",
        "NOISE = np.random.default_rng()",
        test_randomness_has_one_room,
    ),
    "a task imports a flow": (
        "tasks/estimate/papers/ipw/weights.py",
        "def late() -> None:\n    from causalveil.flows import api",
        test_imports_go_down_only,
    ),
    "an estimator imports another": (
        "tasks/estimate/papers/ipw/weights.py",
        "def late() -> None:\n    from causalveil.tasks.estimate.papers.matching import weights",
        test_no_estimator_imports_another,
    ),
    "a circle inside a function": (
        "schemas/privacy.py",
        "def late() -> None:\n    from causalveil.schemas import study",
        test_no_circle_also_not_inside_functions,
    ),
    "a module that its folder does not list": ("tasks/estimate/*", "", test_each_folder_lists_its_modules),
    "an assert": ("tasks/estimate/papers/ipw/weights.py", "assert True", test_no_guard_is_an_assert),
    "a file by hand": ("tasks/estimate/papers/ipw/weights.py", "open('x', 'w')", test_files_are_written_in_one_way),
    "a text by hand": ("flows/api.py", "Path('x').write_text('x')", test_files_are_written_in_one_way),
    "a second class of one name": (
        "tasks/estimate/papers/ipw/weights.py",
        "class Release: ...",
        test_no_class_name_is_defined_twice,
    ),
    "a draw by numpy": (
        "tasks/estimate/papers/ipw/weights.py",
        "NOISE = np.random.default_rng()",
        test_randomness_has_one_room,
    ),
    "a draw by OpenDP": ("tasks/estimate/papers/ipw/weights.py", "import opendp.prelude", test_randomness_has_one_room),
    "a second noise source": (
        "tasks/estimate/papers/ipw/weights.py",
        "from causalveil.tasks.privacy.noise import SecureNoise",
        test_noise_is_made_in_one_place,
    ),
    "a task that knows Prefect": (
        "tasks/estimate/papers/ipw/weights.py",
        "import prefect",
        test_prefect_is_known_to_its_doors_only,
    ),
    "rows read elsewhere": (
        "flows/plan/study_plan.py",
        "import polars as pl\npl.read_parquet('x')",
        test_rows_are_read_in_their_rooms_only,
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_violation_is_caught(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules bite: each is broken in one file of a tree that is the same otherwise, and its test must fail there."""
    where, code, rule = PLANTED[case]
    where = where.replace("*", "one_more.py")
    (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
    before = (ROOT / where).read_text() if (ROOT / where).exists() else '"""New."""\n'
    (tmp_path / where).write_text(f"{before}\n\n{code}\n")
    monkeypatch.setitem(globals(), "HOUSE", House(tmp_path, HOUSE.modules))
    with pytest.raises(AssertionError):
        rule()


def test_direct_engine_never_imports_prefect() -> None:
    code = "import sys, causalveil.flows.cli.main, causalveil.flows.api; sys.exit('prefect' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_groups_of_tests_stay_in_one_process(request: pytest.FixtureRequest) -> None:
    """pytest 9.2 let pytest-xdist 3.8 forget groups in silence: each process started every server and every page."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("one process")
    grouped = [item for item in request.session.items if item.get_closest_marker("xdist_group") is not None]
    assert [item.nodeid for item in grouped if "@" not in item.nodeid.rpartition("]")[2]] == []


def test_lock_and_constraints_agree() -> None:
    """What `uv run` resolves to is what requirements.lock pins."""
    lock = (ROOT / "requirements.lock").read_text()
    pinned = [re.split(r"\s*\\$", line)[0].strip() for line in lock.splitlines() if re.match(r"\w", line)]
    assert tomllib.loads((ROOT / "uv.toml").read_text())["constraint-dependencies"] == pinned


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        (SCHEMA_FILE, release_schema),
        (CONTRACT_SCHEMA_FILE, contract_schema),
        (STUDY_SCHEMA_FILE, study_schema),
        (pooled.SCHEMA_FILE, pooled.pooled_schema),
    ],
    ids=["release", "contract", "study", "pooled"],
)
def test_exported_schemas_are_current(file: Path, schema: Callable[[], dict[str, Any]]) -> None:
    assert json.loads(file.read_text()) == schema()
