"""``import causalveil``: what it offers, what it costs to import, and what type checkers and notebooks see of it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import causalveil
from causalveil.schemas import errors
from causalveil.schemas.errors import StudyError
from causalveil.schemas.study import Study
from tests.packaging.conftest import ROOT
from tests.studies import write_study


def test_every_name_is_there() -> None:
    for name in causalveil.__all__:
        assert getattr(causalveil, name).__name__ in (name, "run_study"), name
        assert name in dir(causalveil)
    with pytest.raises(AttributeError, match="'causalveil' has no attribute 'nonsense'"):
        causalveil.nonsense  # noqa: B018
    assert causalveil.Study is Study


def test_every_error_is_there() -> None:
    defined = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert defined <= set(causalveil.__all__)
    assert all(getattr(causalveil, name) is getattr(errors, name) for name in defined)


def test_a_study_from_start_to_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "home"))
    path = write_study(tmp_path / "study")
    plan = causalveil.plan(path, effect=3.0)
    assert isinstance(plan, causalveil.Plan)
    assert plan.expected["half_width"] > 0
    assert "small: ATE by ipw on 400 units" in str(plan)
    assert all(str(one) in str(plan) for one in (*plan.sentences, *plan.warnings))
    result = causalveil.run(path, engine="direct", out=tmp_path / "out", run_id="first", simulate=3)
    assert isinstance(result.release, causalveil.EffectRelease)
    assert result.release.privacy.epsilon == plan.total.epsilon
    assert causalveil.load_release(result.path) == result.release
    assert causalveil.load_study(path).name == "small"
    assert causalveil.report(result) == tmp_path / "out" / "report.html"
    assert causalveil.report(result.release, out=tmp_path / "page.html").read_text().startswith("<!doctype html>")
    with pytest.raises(StudyError, match="name the file to write"):
        causalveil.report(result.release)
    for shown in (plan, result, result.release):
        html = shown._repr_html_()
        assert html is not None
        assert "How does <em>treated</em> change <em>score</em>, on average over all units?" in html
        assert html.strip().startswith('<div class="causalveil">')
        assert html.count("<div") == html.count("</div>")
        assert not {tag for tag in ("<script", "<html", "<body", "<link") if tag in html}
    assert '<p class="answer">' in str(result._repr_html_())
    assert "Expected 95% interval" in str(plan._repr_html_())


@pytest.mark.parametrize(
    "wrong",
    [{"units": 1}, {"treated": 0.0}, {"treated": float("nan")}, {"deviation": -1.0}, {"deviation": float("nan")}],
)
def test_a_plan_refuses_what_cannot_be_assumed(wrong: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=next(iter(wrong))):
        causalveil.plan(write_study(tmp_path), **wrong)


@pytest.mark.parametrize(
    "value", [None, 5, {"kind": "effect"}, ["study.yaml"]], ids=["none", "number", "mapping", "list"]
)
def test_what_is_no_path_is_refused_by_every_door(value: Any) -> None:
    """Each names what is meant; only `run` takes a mapping, which needs a frame beside it."""
    doors = (causalveil.plan, causalveil.load_study, causalveil.run, causalveil.pool)
    for door in (*doors, causalveil.report, causalveil.load_release):
        with pytest.raises(StudyError, match=r"is named by its path|needs its rows"):
            door(value)


def test_other_arguments_of_the_wrong_type_are_named(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    for wrong in ({"effect": "2"}, {"treated": [0.2]}, {"units": 2.5}, {"units": True}, {"mean": "high"}):
        with pytest.raises(StudyError, match=f"{next(iter(wrong))} must be a"):
            causalveil.plan(path, **wrong)
    mistakes: dict[str, dict[str, Any]] = {"no engine": {"engine": "spark"}, "a run id": {"run_id": 5}}
    for told, wrong in {**mistakes, "a seed": {"simulate": "1"}}.items():
        with pytest.raises(StudyError, match=told):
            causalveil.run(path, out=tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists(), "an engine that is none ran Prefect, and was charged"
    with pytest.raises(StudyError, match="is a folder; name the file in it"):
        causalveil.plan(path.parent)


# What a small command must not wait for.
HEAVY = (
    *(
        "prefect",
        "sqlalchemy",
        "alembic",
        "polars",
        "numpy",
        "scipy",
        "pyarrow",
        "pandera",
        "dp_accounting",
    ),
    *("hypothesis", "pytest", "matplotlib", "sklearn", "numba", "opendp", "mpmath", "cryptography", "jinja2"),
    "pandas",
)
# Where hypothesis is installed, as for developers, pandera takes it along, and it pytest.
TOO_HEAVY = (
    *("prefect", "alembic", "dp_accounting", "matplotlib", "sklearn", "numba", "opendp"),
    *("jinja2", "scipy.stats", "scipy.signal", "distributed", "ray", "fastapi"),
)


def imported(code: str, names: tuple[str, ...], cwd: Path) -> list[str]:
    """Which of ``names`` a fresh process has imported after ``code``."""
    script = f"import sys\n{code}\nprint('imported', *(name for name in {names!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


CALL = "from causalveil.flows.cli.main import main\ntry: main({words!r})\nexcept SystemExit as end: assert not end.code"


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    assert imported(CALL.format(words=words), HEAVY, tmp_path) == []


def test_the_name_alone_imports_nothing(tmp_path: Path) -> None:
    assert (
        imported("import causalveil; dir(causalveil); causalveil.StudyError", (*HEAVY, "typer", "rich"), tmp_path) == []
    )


def test_a_small_study_imports_nothing_that_it_does_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "home"))
    study = str(ROOT / "data" / "lalonde" / "study-difference.yaml")
    words = ["run", study, "--engine", "direct", "--simulate", "3", "--out", "out"]
    assert imported(CALL.format(words=words), TOO_HEAVY, tmp_path) == []
    assert (tmp_path / "out" / "release.json").exists()


USER = """
import causalveil as cv
from pathlib import Path

result = cv.run("study.yaml", engine="direct", out=Path("out"), run_id="a", simulate=3)
reveal_type(result)
reveal_type(result.release)
if isinstance(result.release, cv.EffectRelease):
    reveal_type(result.release.estimate)
    reveal_type(result.release.interval)
reveal_type(cv.plan("study.yaml", units=100))
reveal_type(cv.pool("sites.yaml"))
reveal_type(cv.report(result))
reveal_type(cv.load_release("release.json"))
def handle(problem: cv.BudgetRefused) -> int:
    reveal_type(problem.exit_code)
    return problem.exit_code
"""
TYPES = [
    "causalveil.flows.run.finished.RunResult",
    "causalveil.schemas.release.Release",
    "float | None",
    "causalveil.schemas.release.Interval | None",
    "causalveil.flows.plan.study_plan.StudyPlan",
    "causalveil.flows.run.pooling.PooledResult",
    "pathlib.Path",
    "causalveil.schemas.release.Release | causalveil.schemas.sites.pooled.PooledRelease",
    "int",
]


def test_a_type_checker_sees_precise_types(tmp_path: Path) -> None:
    """A user's file, strictly; wrong uses are errors."""
    (tmp_path / "user.py").write_text(USER)
    wrong = "import causalveil as cv\ncv.run(3)\ncv.run('a', engine='spark')\ncv.plan('a').nonsense\ncv.nonsense\n"
    (tmp_path / "wrong.py").write_text(wrong)
    # With the house's settings and from its root, so that what the gate found of our modules and others' is read again.
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--no-color-output"]
    command = [sys.executable, "-m", "mypy", *settings, str(tmp_path / "user.py"), str(tmp_path / "wrong.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    revealed = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type" in line]
    assert revealed == TYPES, done.stdout + done.stderr
    found = sorted(line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line)
    assert found == ["2", "3", "4", "5"], done.stdout
