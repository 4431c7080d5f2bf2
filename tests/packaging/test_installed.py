"""Wheel and sdist in empty environments, used from a folder that has packages called like our floors."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from causalveil.tasks.data.normalise import normalise_segment
from tests.packaging.conftest import ROOT, Installed, install


def test_wheel_runs_a_study_beside_foreign_packages(wheel: Installed, release: Path, tmp_path: Path) -> None:
    assert "site-packages" in wheel.package.parts
    version = wheel.run("-m", "causalveil", "--version")
    assert re.fullmatch(r"causalveil \d+\.\d+\.\d+\n", version.stdout), version.stderr
    assert json.loads(release.read_text())["units"] == 300
    page = wheel.run("-m", "causalveil", "report", release, "--out", tmp_path / "page.html")
    assert page.returncode == 0, page.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    from_python = "import causalveil as cv, sys; print(cv.load_release(sys.argv[1]).run_id)"
    assert wheel.run("-c", from_python, release).stdout == "a\n"


def test_wheel_holds_what_the_tree_holds(wheel: Installed, built: dict[str, Path]) -> None:
    """Every file of the three floors, once: modules, templates, migrations, schemas; none of the replications."""
    assert [name for name in zipfile.ZipFile(built["wheel"]).namelist() if "replication" in name] == []
    for floor in ("flows", "tasks", "schemas"):
        inside = {path.relative_to(wheel.package / floor).as_posix() for path in files(wheel.package / floor)}
        assert inside == {path.relative_to(ROOT / floor).as_posix() for path in files(ROOT / floor)}, floor
    assert (wheel.package / "py.typed").exists()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_sdist_installs(built: dict[str, Path], tmp_path: Path) -> None:
    sdist = install(built["sdist"], tmp_path, alone=False)
    done = sdist.run("-c", "import causalveil; causalveil.run; print(causalveil.plan.__module__)")
    assert done.stdout == "causalveil.flows.plan.study_plan\n", done.stderr


def test_an_error_names_our_file_and_line(wheel: Installed) -> None:
    """A defect deep in our code, reached through a library, with a message that may quote data."""
    script = """
from causalveil.flows.engine.engine import guarded
from causalveil.tasks.data.split import sizes_of
guarded(sizes_of, object(), 5)
"""
    done = wheel.run("-c", script)
    last = done.stderr.splitlines()[-1]
    found = re.search(r"stage 'sizes_of' failed with AttributeError at tasks/data/split\.py:(\d+); its mess", last)
    assert found, done.stderr
    assert 0 < int(found[1]) <= len((ROOT / "tasks/data/split.py").read_text().splitlines())


def test_prefect_finds_flows_by_module(wheel: Installed, tmp_path: Path) -> None:
    """The entrypoint of a deployment, as a worker resolves it: a module path to a flow, no file of the caller's."""
    entries = [f"causalveil.flows.deployed.{name}" for name in ("study", "admit", "extract", "pool")]
    script = f"""
from prefect.flows import load_flow_from_entrypoint
for entry in {entries}:
    print(load_flow_from_entrypoint(entry, use_placeholder_flow=False).name)
"""
    done = wheel.run("-c", script, PREFECT_HOME=str(tmp_path))
    assert done.stdout.split() == ["study", "admit", "extract", "pool"], done.stderr


def test_workers_get_functions_by_import(wheel: Installed) -> None:
    """What Dask and Ray send of ours is a name: a worker that has the wheel finds it there."""
    sent = pickle.dumps(normalise_segment)
    assert len(sent) < 200
    script = f"import pickle; found = pickle.loads({sent!r}); print(found.__module__, found.__code__.co_filename)"
    done = wheel.run("-c", script)
    module, file = done.stdout.split()
    assert module == "causalveil.tasks.data.normalise", done.stderr
    assert Path(file).is_relative_to(wheel.package)


def test_another_distribution_with_flows_changes_nothing(wheel: Installed, tmp_path: Path) -> None:
    name = "foreign_flows-1.0"
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as archive:
        for floor in ("flows", "tasks", "schemas"):
            archive.writestr(f"{floor}/__init__.py", "raise RuntimeError('the wrong package')\n")
            archive.writestr(f"{floor}/study.py", "raise RuntimeError('the wrong module')\n")
        archive.writestr(f"{name}.dist-info/METADATA", "Metadata-Version: 2.1\nName: foreign-flows\nVersion: 1.0\n")
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")
    before = {path: path.read_bytes() for path in wheel.package.rglob("*.py")}
    command = ["uv", "pip", "install", "--quiet", "--no-index", "--python", str(wheel.python)]
    subprocess.run([*command, str(next(tmp_path.glob("*.whl")))], check=True)
    assert (wheel.package.parent / "flows" / "study.py").exists()
    assert {path: path.read_bytes() for path in wheel.package.rglob("*.py")} == before
    done = wheel.run("-c", "import causalveil; print(causalveil.run.__module__, causalveil.Study.__module__)")
    assert done.stdout.split() == ["causalveil.flows.api", "causalveil.schemas.study"], done.stderr


@pytest.mark.parametrize(
    ("lost", "words", "code", "says"),
    [
        ("tasks/report/templates", ("report", "RELEASE", "--out", "OUT"), 1, "lacks its report's style.css"),
        ("tasks/privacy/ledger/migrations", ("ledger", "show", "x"), 5, "lacks the ledger's sqlite.sql"),
    ],
)
def test_a_wheel_that_lost_files_says_so(
    lost: str, words: tuple[str, ...], code: int, says: str, wheel: Installed, release: Path, tmp_path: Path
) -> None:
    """One line and an exit code, also where nothing but a package's data is missing."""
    broken = tmp_path / "broken" / "causalveil"
    shutil.copytree(wheel.package, broken)
    shutil.rmtree(broken / lost)
    real = {"RELEASE": str(release), "OUT": str(tmp_path / "page.html")}
    arguments = [real.get(word, word) for word in words]
    home = str(tmp_path / "home")
    done = wheel.run("-m", "causalveil", *arguments, PYTHONPATH=str(broken.parent), CAUSALVEIL_HOME=home)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert says in done.stderr
    assert not (tmp_path / "page.html").exists()


def test_source_without_installing_says_so(tmp_path: Path) -> None:
    """Without site-packages, as on a machine where nothing was installed."""
    command = [sys.executable, "-I", "-S", str(ROOT / "flows" / "cli" / "main.py"), "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "causalveil: this file is part of a package; install it and run `causalveil` or `python -m causalveil`"
    ]


def test_editable_is_this_tree() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import causalveil.flows.api as api; print(api.__file__)"],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert Path(done.stdout.strip()).resolve() == ROOT / "flows" / "api.py", done.stderr
