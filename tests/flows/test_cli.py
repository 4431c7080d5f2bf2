"""The command as people script it: exit codes, one JSON document, a readable page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from causalveil.flows.cli.main import main
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import write_study

COMMANDS = [
    ["run"],
    ["plan"],
    ["simulate"],
    ["clean"],
    ["ledger", "grant"],
    ["ledger", "show"],
    ["ledger", "verify"],
    ["ledger", "void"],
]


def call(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    shown = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, shown.out, shown.err


def call_json(capfd: pytest.CaptureFixture[str], *words: str) -> dict:
    code, out, err = call(capfd, *words, "--json")
    assert code == 0, err
    document: dict = json.loads(out)
    return document


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_json(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capfd, *command, "--help")
    assert code == 0
    assert "--json" in out


def test_run_prints_what_it_must(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study")
    code, out, err = call(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "shown")
    assert code == 0, err
    for words in (
        "small",
        "ATE",
        "95%",
        "Differential privacy: epsilon 1",
        "90.0% of the budget of small is left",
        "9 more",
    ):
        assert words in out
    assert str(tmp_path / "out" / "release.json") in out.replace("\n", "")
    assert "run shown" in err


def test_run_json_and_ledger_commands(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study")
    ran = call_json(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "r1")
    assert ran["granted"] is True
    assert ran["release"]["privacy"]["epsilon"] == 1.0
    assert ran["remaining"][0]["remaining"]["epsilon"] == 9.0
    again = call_json(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "r1")
    assert again["resumed"] is True
    assert again["release"] == ran["release"]

    account = call_json(capfd, "ledger", "show", "small")
    assert account["blocks"][0]["spent"]["epsilon"] == 1.0
    assert [run["state"] for run in account["runs"]] == ["finished"]
    assert call(capfd, "ledger", "show", "small")[0] == 0
    verified = call_json(capfd, "ledger", "verify", "--release", tmp_path / "out" / "release.json")
    assert verified["release"] == "r1"
    code, _, err = call(capfd, "ledger", "void", "r1", "--reason", "try")
    assert (code, "finished" in err) == (2, True)


def test_the_loss_of_an_older_copy_is_accepted_for_the_record(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path / "study")
    assert call(capfd, "run", path, "--out", tmp_path / "a", "--run-id", "r1")[0] == 0
    kept = (home / "ledger.db").read_bytes()
    assert call(capfd, "ledger", "restored", "--reason", "nothing is lost")[0] == 2
    assert call(capfd, "run", path, "--out", tmp_path / "b", "--run-id", "r2")[0] == 0
    (home / "ledger.db").write_bytes(kept)
    assert call_json(capfd, "ledger", "restored", "--reason", "disk lost on 3 May")["lost"] > 0
    assert call(capfd, "run", path, "--out", tmp_path / "c", "--run-id", "r3")[0] == 0
    assert call(capfd, "ledger", "verify")[0] == 0


def test_owner_grants_sensitive_data(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSALVEIL_ACTOR", "night shift")
    key = call_json(capfd, "owner", "key", "--key", tmp_path / "mine.key")["owner_key"]
    assert (tmp_path / "mine.key").stat().st_mode & 0o777 == 0o600
    assert call(capfd, "owner", "key", "--key", tmp_path / "mine.key")[1].strip() == f"owner_key: {key}"
    path = write_study(
        tmp_path / "study",
        study={"purpose": "a first look"},
        contract={"data_class": "sensitive", "owner_key": key},
    )
    contract = path.with_name("dataset.yaml")
    contract.write_text("# the owner's words stay\n" + contract.read_text())
    assert call(capfd, "run", path, "--out", tmp_path / "out")[0] == 4
    code, _, err = call(capfd, "ledger", "grant", contract, "--reason", "ethics board, 12 May")
    assert code == 1, "without the key nothing is granted"
    assert "owner key" in err
    granted = call_json(
        capfd, "ledger", "grant", contract, "--reason", "ethics board, 12 May", "--key", tmp_path / "mine.key"
    )
    text = contract.read_text()
    assert text.startswith("# the owner's words stay")
    assert yaml.safe_load(text)["ledger"] == granted["ledger"]
    code, _, err = call(capfd, "run", path, "--out", tmp_path / "out")
    assert code == 3, "granted, but not admitted"
    assert f"causalveil admit {path.parent}" in err
    assert call_json(capfd, "admit", path.parent)["units"] == 400
    assert call(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "one")[0] == 0
    assert call(capfd, "run", path, "--out", tmp_path / "out", "--simulate", "1")[0] == 2
    run = open_ledger().record("one")
    assert run is not None
    by = run.reserved.document["by"]
    assert (by["actor"], by["purpose"], bool(by["host"])) == ("night shift", "a first look", True)


def test_errors_as_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study", study={"privacy": {"epsilon": 11}})
    code, out, _ = call(capfd, "run", path, "--json")
    assert code == 4
    assert json.loads(out)["error"]["exit_code"] == 4


def test_plan_reads_no_row_and_warns(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study")
    planned = call_json(capfd, "plan", path, "--effect", "0.5")
    assert planned["sizes"]["units"] == 400
    assert [charge["name"] for charge in planned["charges"]] == ["propensity", "effect"]
    assert planned["expected"]["half_width"] > 0
    assert "penalty_allowed" in [one["code"] for one in planned["expected"]["warnings"]]
    small = write_study(tmp_path / "study", study={"estimator": {"penalty": 0.001}})
    code, out, _ = call(capfd, "plan", small, "--units", "1000000", "--effect", "2")
    assert code == 0
    assert out.count("Warning") == out.count("the method of a paper") == 1


def test_simulate_then_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written = call_json(
        capfd,
        "simulate",
        tmp_path / "s",
        "--units",
        "20000",
        "--covariates",
        "3",
        "--partitions",
        "2",
        "--effect",
        "0.2",
    )
    ran = call_json(capfd, "run", written["study"], "--engine", "direct", "--out", tmp_path / "out")
    (answer,) = ran["release"]["answers"]
    interval = answer["interval"]
    assert interval["upper"] - interval["lower"] < 0.5
    assert abs(answer["estimate"] - 0.2) < 0.1
    assert call(capfd, "simulate", tmp_path / "s", "--units", "100")[0] == 2


def test_clean_removes_what_a_dead_run_left(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call_json(capfd, "clean")["removed"] == 0
