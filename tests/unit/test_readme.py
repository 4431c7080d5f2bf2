"""What the documents say is so: studies parse, commands exist."""

from __future__ import annotations

import doctest
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

import causalveil
from causalveil.flows.run.estimators import candidates
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import STUDY_FILES, load_study_file
from causalveil.schemas.contract import check_allowed, load_contract
from causalveil.schemas.plan import Execution, Runner, SiteSettings
from causalveil.tasks.machine.site import ACTOR_VARIABLE, VARIABLES, site_settings
from tests.studies import command, models_in

ROOT = Path(__file__).parents[2]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_study_and_contract_of_the_pages_are_valid(tmp_path: Path) -> None:
    study, contract, where, terms = blocks(ROOT / "docs/how-to/study.md", "yaml")
    (protocol,) = blocks(ROOT / "docs/how-to/questions.md", "yaml")
    (tmp_path / "study.yaml").write_text(study)
    assert yaml.safe_load(where)["where"]
    (tmp_path / "dataset.yaml").write_text(contract)
    found = load_contract(tmp_path / "dataset.yaml")
    assert found.dataset == "fertility"
    (asked,) = candidates(load_study_file(tmp_path / "study.yaml"), found, "study.yaml")
    assert asked.outcome.name == "weeks"
    (tmp_path / "terms.yaml").write_text(study + terms)
    (stated,) = candidates(load_study_file(tmp_path / "terms.yaml"), found, "terms.yaml")
    assert len(stated.terms) == 4
    (tmp_path / "protocol.yaml").write_text(protocol)
    shipped = load_contract(ROOT / "data" / "fertility" / "dataset.yaml")
    assert len(resolve(load_study_file(tmp_path / "protocol.yaml"), shipped).groups) == 3


@pytest.mark.parametrize(
    "path", sorted((ROOT / "data").glob("*/study*.yaml")), ids=lambda path: path.parent.name + path.stem
)
def test_shipped_studies_are_valid(path: Path) -> None:
    asked = load_study_file(path)
    contracts = list(path.parent.rglob("dataset.yaml"))
    assert contracts
    for contract in map(load_contract, contracts):
        # A study that leaves its estimator open may become each of several.
        for study in candidates(asked, contract, str(path)):
            check_allowed(contract, study, simulate=False)


def test_the_readme_is_a_first_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 70, "the rest has its place in docs/"


def test_the_citation_is_of_this_version_and_of_the_format() -> None:
    path = ROOT / "CITATION.cff"
    assert (
        yaml.safe_load(path.read_text())["version"]
        == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    )
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.citation-file-format", str(path)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_commands_of_the_pages_exist(capfd: pytest.CaptureFixture[str]) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "deploy/README.md"]
    # Only code is typed: what a backtick or a line of a block begins with.
    pattern = re.compile(r"(?m)(?:`|^ *|uv run )causalveil ((?:ledger|bundle|owner) [a-z]+|[a-z]+)\b")
    words = {found for page in pages for found in pattern.findall(page.read_text())}
    assert {"run", "plan", "simulate", "report", "extract", "pool", "audit", "bundle key", "ledger show"} <= words
    for word in sorted(words):
        assert command(*word.split(), "--help") == 0, word
    capfd.readouterr()


def test_data_classes_are_declared() -> None:
    for path in (ROOT / "data").glob("*/dataset.yaml"):
        assert yaml.safe_load(path.read_text())["data_class"] in {"public", "synthetic"}


# Every field of study.yaml stands in the threat table of docs/privacy.md, and nothing else does.
PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of everything that a model lets somebody write."""
    for name, field in model.model_fields.items():
        inner = models_in(field.annotation)
        if not inner:
            yield f"{prefix}{name}"
        for one in inner:
            yield from fields(one, f"{prefix}{name}.")


def test_every_field_has_its_worst_value() -> None:
    section = PAGE.read_text().partition("## What a study file can do\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    known = {name for model in STUDY_FILES.values() for name in fields(model)}
    assert len(named) == len(set(named)), "each field once"
    assert set(named) - {"covariates"} == known
    assert not known & {"data.unit", "data.blocks", "execution"}
    assert not any(word in name for name in known for word in ("address", "host", "url", "runner", "module"))


# Pages that are written from the code are current: settings of a machine, keys of files, commands.
PAGE_PAGE = (ROOT / "docs" / "tutorials" / "operator.md").read_text()


def test_the_page_shows_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE_PAGE, re.DOTALL)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path))
    (tmp_path / "site.toml").write_text(example)
    settings = site_settings()
    assert settings.execution == Execution(engine="prefect", runner=Runner.threads, workers=2)
    assert (settings.scratch, settings.concurrency) == (Path("/srv/causalveil/scratch"), 1)
    # The cluster's lines stand behind a hash, since threads have no address.
    cluster = example.replace("# address", "address").replace("# tls", "tls").replace('"threads"', '"dask"')
    (tmp_path / "site.toml").write_text(cluster)
    assert site_settings().execution.address == "tls://scheduler:8786"
    shown = tomllib.loads(cluster)
    assert set(shown) == set(SiteSettings.model_fields)
    assert set(shown["execution"]) == set(Execution.model_fields)
    for variable in (*VARIABLES, ACTOR_VARIABLE):
        assert variable in example or variable.removeprefix("CAUSALVEIL_TLS") in example, variable


def test_the_pages_of_the_reference_are_current() -> None:
    written = runpy.run_path(str(ROOT / "deploy/site/reference.py"))
    stale = [name for name, text in written["pages"]().items() if (written["FOLDER"] / name).read_text() != text]
    assert stale == [], f"write them anew: {written['COMMAND']}"


# Examples in docstrings of the public functions and classes run as they stand, from a folder that holds `data/`.
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
