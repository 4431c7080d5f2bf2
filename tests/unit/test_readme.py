"""What the documents say is so: studies parse, commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from causalveil.flows.cli.main import main
from causalveil.flows.run.estimators import candidates
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.contract import check_allowed, load_contract

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
    command = re.compile(r"(?m)(?:`|^ *|uv run )causalveil ((?:ledger|bundle|owner) [a-z]+|[a-z]+)\b")
    words = {found for page in pages for found in command.findall(page.read_text())}
    assert {"run", "plan", "simulate", "report", "extract", "pool", "audit", "bundle key", "ledger show"} <= words
    for word in sorted(words):
        with pytest.raises(SystemExit) as ended:
            main([*word.split(), "--help"])
        assert ended.value.code == 0, word
    capfd.readouterr()


def test_data_classes_are_declared() -> None:
    for path in (ROOT / "data").glob("*/dataset.yaml"):
        assert yaml.safe_load(path.read_text())["data_class"] in {"public", "synthetic"}
