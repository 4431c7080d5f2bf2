"""What the documents say is so: studies parse, commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from causalveil.flows.cli.main import main
from causalveil.schemas.policy import load_policy
from causalveil.schemas.studies import load_study

ROOT = Path(__file__).parents[2]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_readme_study_and_policy_are_valid(tmp_path: Path) -> None:
    study, policy = blocks(ROOT / "README.md", "yaml")
    (tmp_path / "study.yaml").write_text(study)
    (tmp_path / "policy.yaml").write_text(policy)
    assert load_study(tmp_path / "study.yaml").outcome.name == "weeks"
    assert load_policy(tmp_path / "policy.yaml").dataset == "fertility"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "data").glob("*/study*.yaml")), ids=lambda path: path.parent.name + path.stem
)
def test_shipped_studies_are_valid(path: Path) -> None:
    study = load_study(path)
    policies = list(path.parent.rglob("policy.yaml"))
    assert policies
    for policy in map(load_policy, policies):
        assert study.privacy.level in policy.caps
        assert study.estimator.name in policy.estimators


def test_commands_of_the_readme_exist(capfd: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text()
    words = set(re.findall(r"(?<!import )causalveil ((?:ledger|bundle|replicate) \w+|[a-z]+)\b", readme))
    assert {"run", "plan", "simulate", "report", "extract", "pool", "audit", "bundle key", "ledger show"} <= words
    for command in sorted(words):
        with pytest.raises(SystemExit) as ended:
            main([*command.split(), "--help"])
        assert ended.value.code == 0, command
    capfd.readouterr()


def test_data_classes_are_declared() -> None:
    for path in (ROOT / "data").glob("*/policy.yaml"):
        assert yaml.safe_load(path.read_text())["data_class"] in {"public", "synthetic"}
