"""`init` on a terminal: answers are checked when they are given, and kept. Options that say whom a study is about."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import shlex
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from causalveil.flows.api import draft, plan, run_study
from causalveil.flows.cli import init as command
from causalveil.flows.cli.main import app
from causalveil.flows.run.check import check

N = 400
RANDOM = np.random.default_rng(7)
TABLE = pl.DataFrame(
    {
        "Person No": [f"p{i}" for i in range(N)],
        "given": np.array(["old", "new"])[RANDOM.integers(0, 2, N)],
        "age": RANDOM.integers(20, 80, N),
        "town": np.array(["North", "South", "South East"])[RANDOM.integers(0, 3, N)],
        "well": RANDOM.integers(0, 2, N),
        "cost": RANDOM.normal(50, 9, N).round(2),
    }
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "_asks", lambda: True)
    TABLE.write_csv("in.csv")


def typed(*answers: str, options: tuple[str, ...] = ()) -> Result:
    """What a person sees who types these answers and is then interrupted, unless nothing was left to ask."""
    return CliRunner().invoke(
        app, ["init", "in.csv", "--epsilon", "9", *options], input="".join(f"{one}\n" for one in answers)
    )


# Class, unit, treatment, treated, trial, outcome, covariates, two conditions, groups, ratios.
ANSWERS = ("synthetic", "", "given", "new", "yes", "well", "age,town", "age >= 30", "town in north, south", "", "town")
ANSWERS = (*ANSWERS[:6], "age", *ANSWERS[7:], "yes")
KEPT = Path(".in.answers.json")


def study() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(Path("in/study.yaml").read_text())
    return document


def test_all_that_options_say_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = typed(*ANSWERS)
    assert found.exit_code == 0, found.output
    assert study()["where"] == [
        {"column": "age", "op": ">=", "value": 30},
        {"column": "town", "op": "in", "values": ["North", "South"]},
    ]
    assert study()["covariates"] == ["age"]
    assert (study()["subgroups"], study()["measure"]) == ("town", ["difference", "ratio", "odds_ratio"])
    assert yaml.safe_load(Path("in/dataset.yaml").read_text())["columns"]["given"]["codes"]["treated"] == "new"
    assert check(Path("in/study.yaml")) == []
    assert not KEPT.exists()
    assert "is there already" in str(typed("synthetic").exception), "before a question"
    monkeypatch.setattr(command, "_asks", lambda: False)
    _, _, options = found.output.partition("type the same and: ")
    again = CliRunner().invoke(app, ["init", "in.csv", "--epsilon", "9", "--out", "b", *shlex.split(options)])
    assert again.exit_code == 0, again.output
    for name in ("study.yaml", "dataset.yaml"):
        assert Path("b", name).read_text() == Path("in", name).read_text()


def test_a_wrong_answer_is_asked_again_at_once() -> None:
    wrong = [
        ("secret", "public, synthetic or sensitive"),
        ("nobody", "there is no column 'nobody'"),
        ("age", "60 different values"),
        ("newest", "no such value"),
        ("perhaps", "answer yes or no"),
        ("town", "holds a category"),
        ("given", "another role"),
        ("age > old", "'old' is none"),
        ("town in Paris", "holds no 'Paris'"),
    ]
    right = ["synthetic", "", "given", "new", "yes", "well", "age", "", ""]
    lines = [
        one for answer, good in zip([one for one, _ in wrong[:8]], right[:8], strict=True) for one in (answer, good)
    ]
    found = typed(*lines[:-1], "town in Paris", "", "age", "", "no")
    assert found.exit_code == 0, found.output
    for answer, words in wrong:
        assert words in found.output, answer


@pytest.mark.parametrize("after", [1, 4, 8, 11])
def test_an_interruption_loses_no_answer(after: int) -> None:
    """The file beside the folder holds answers alone, for its owner alone, and goes at the end."""
    found = typed(*ANSWERS[:after])
    assert found.exit_code == 1
    assert not Path("in").exists()
    assert stat.S_IMODE(KEPT.stat().st_mode) == 0o600
    document = json.loads(KEPT.read_text())
    assert set(document) == {"columns", "answers"}
    assert set(document["answers"].values()) <= {*ANSWERS, "Person No", "no"}
    again = typed(*ANSWERS[after:])
    assert again.exit_code == 0, again.output
    assert "Going on with the answers" in again.output
    assert not KEPT.exists()
    Path("in/study.yaml").rename("resumed.yaml")
    typed(*ANSWERS, options=("--out", "whole"))
    assert Path("resumed.yaml").read_text() == Path("whole/study.yaml").read_text()


def test_ctrl_c_at_a_question_ends_the_command_at_once() -> None:
    """In a terminal of its own: polars' handler of the signal had the system go on reading."""
    child, terminal = pty.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, "-m", "causalveil", "init", "in.csv"])
    answers, shown = [b"public\n", b"\x03"], b""
    try:
        with contextlib.suppress(OSError):  # Linux's word for the end of a terminal.
            while select.select([terminal], [], [], 240)[0]:
                shown += os.read(terminal, 4096)
                if shown.endswith(b": ") and answers:
                    # The command shows its question before it reads; a signal in between waits for the next line.
                    time.sleep(0.5)
                    while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "R":
                        time.sleep(0.1)
                    os.write(terminal, answers.pop(0))
    finally:
        os.close(terminal)
        for _ in range(100):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            time.sleep(0.1)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"causalveil: stopped" in shown
    assert json.loads(KEPT.read_text())["answers"] == {"data_class": "public"}


def test_answers_of_another_table_or_that_are_damaged_are_none() -> None:
    typed(*ANSWERS[:4])
    TABLE.rename({"town": "place"}).write_csv("in.csv")
    assert "Going on" not in typed().output
    for damaged in (b"{", b"[1]", b'{"columns": 1, "answers": {"unit": 3}}', b"\xff", b"null"):
        KEPT.write_bytes(damaged)
        assert "Going on" not in typed().output
    KEPT.unlink()
    KEPT.symlink_to("/etc/hostname")
    assert "Going on" not in typed().output


def test_ranges_of_sensitive_data_are_asked_until_they_are_ranges() -> None:
    lines = ("sensitive", "Person No", "given", "old,new", "no", "cost", "age", "age < 70", "", "")
    found = typed(*lines, "100:0", "0:100", "old", "0:110", "age")
    assert found.exit_code == 0, found.output
    assert found.output.count("two numbers") + found.output.count("below the second") == 2
    columns = yaml.safe_load(Path("in/dataset.yaml").read_text())["columns"]
    assert columns["age"] == {"lower": 0, "upper": 110}
    assert columns["cost"]["upper"] == 100


def test_each_row_and_arms_on_a_terminal() -> None:
    found = typed("public", "each row", "town", "North", "no", "cost", "", "", "")
    assert found.exit_code == 0, found.output
    assert study()["arms"] == {"reference": "North"}
    assert yaml.safe_load(Path("in/dataset.yaml").read_text())["unit"] == "row"


BASE = (
    "--epsilon",
    "9",
    "--data-class",
    "synthetic",
    "--unit",
    "Person No",
    "--treatment",
    "given",
    "--treated",
    "new",
)


def told(*options: str, outcome: str = "well") -> str:
    found = CliRunner().invoke(app, ["init", "in.csv", *BASE, "--outcome", outcome, *options])
    return str(found.exception or found.output)


@pytest.fixture
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_asks", lambda: False)


@pytest.mark.usefixtures("_no_terminal")
def test_conditions_groups_and_measures_by_options_are_answered() -> None:
    told("--trial", "--where", "AGE>40", "--where", "town != South", "--subgroups", "town", "--measure", "rr")
    document = study()
    assert [one["op"] for one in document["where"]] == [">", "!="]
    assert document["measure"] == ["difference", "ratio"]
    release = run_study("in/study.yaml", engine="direct", out="answer").release
    assert {one.group for one in release.answers} >= {"North", "South", "South East"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--where", "height > 3"), "begin with a column"),
        (("--where", "age"), "begin with a column"),
        (("--where", "age > tall"), "'tall' is none"),
        (("--where", "age > 300"), "outside the declared range"),
        (("--where", "age >= 1"), "outside the declared range"),
        (("--where", "well == 1"), "already has another role"),
        (("--where", "Person No == p1"), "already has another role"),
        (("--where", "town > North"), "have no order"),
        (("--where", "town == Oslo"), "holds no 'Oslo'; there are 'South"),
        (("--where", "age > 60", "--where", "age < 30"), "no unit would be eligible"),
        (("--subgroups", "age"), "holds a number"),
        (("--subgroups", "given"), "already has another role"),
        (("--measure", "ratio"), "randomised"),
        (("--trial", "--measure", "hazard"), "'hazard' is none"),
    ],
)
@pytest.mark.usefixtures("_no_terminal")
def test_what_no_study_can_ask_is_refused_before_a_file_is_written(options: tuple[str, ...], words: str) -> None:
    assert words in told(*options)
    assert not Path("in").exists()


@pytest.mark.usefixtures("_no_terminal")
def test_ratios_are_of_two_values() -> None:
    assert "of two values" in told("--trial", "--measure", "ratio", outcome="cost")


WIDE = pl.DataFrame(
    {
        "person": range(3_000),
        "given": (GIVEN := np.random.default_rng(3).integers(0, 4, 3_000) == 0).astype(int),
        **{f"x{place:02d}": np.random.default_rng(place).normal(size=3_000).round(3) for place in range(15)},
        "age": (AGE := np.random.default_rng(99).integers(20, 80, 3_000)),
        "cost": (50 + 0.3 * AGE + 2 * GIVEN + 5 * np.random.default_rng(98).normal(size=3_000)).round(2),
    }
)
OPTIONS = ("--data-class", "synthetic", "--unit", "person", "--treatment", "given", "--outcome", "cost")


def drafted(monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, Any]:
    """What `init` says of the wide table, where nobody can be asked."""
    monkeypatch.setattr(command, "_asks", lambda: False)
    WIDE.write_csv("wide.csv")
    found = CliRunner().invoke(app, ["init", "wide.csv", "--json", *options])
    assert found.exit_code == 0, found.output
    said: dict[str, Any] = json.loads(found.output)
    return said


def test_a_draft_says_what_fewer_covariates_give_and_takes_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    said = drafted(monkeypatch, *OPTIONS)
    assert "16 covariates share one budget" in said["fewer"][0]
    assert "--most" in said["fewer"][0]
    assert "age, x00" in said["fewer"][1]
    few = drafted(monkeypatch, *OPTIONS, "--most", "3", "--out", "few")
    assert few["covariates"] == ["x00", "x01", "age"]
    assert few["fewer"] is None
    assert "x09" in yaml.safe_load(Path("few/dataset.yaml").read_text())["columns"]


def test_a_plan_knows_what_init_saw_of_rows_that_are_not_sensitive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter is treated, errors have deviation 5, age explains .3 of the variance within arms."""
    drafted(monkeypatch, *OPTIONS, "--most", "3")
    expect = yaml.safe_load(Path("wide/study.yaml").read_text())["expect"]
    assert expect["treated"] == pytest.approx(0.25, abs=0.03)
    assert expect["deviation"] == pytest.approx(np.hypot(5, 0.3 * AGE.std()), rel=0.05)
    assert expect["explained"] == pytest.approx((0.3 * AGE.std()) ** 2 / (25 + (0.3 * AGE.std()) ** 2), abs=0.05)
    # Nothing drives treatment; normal numbers of 3,000 rows vary by a quarter to a third of half their range.
    assert expect["distance"] < 0.2
    assert 0.2 < expect["spread"] < 0.4
    assert expect["correlation"] < 0.1
    silent, asked = plan("wide/study.yaml"), plan("wide/study.yaml", treated=0.5)
    assert not any("Not told: the treated share" in str(one) for one in silent.sentences)
    assert asked.expected["half_width"] < silent.expected["half_width"]
    study_file = Path("wide/study.yaml")
    without = study_file.read_text().replace("expect:", "# expect:")
    Path("wide/other.yaml").write_text(without)
    assert plan("wide/other.yaml").study_digest == silent.study_digest
    assert silent.expected["half_width"] < plan("wide/other.yaml").expected["half_width"]


def test_a_plan_takes_a_rare_treatment_to_be_as_rare_as_the_rows_have_it() -> None:
    rare = WIDE.with_columns(given=pl.int_range(pl.len()) < 21)
    drafted = draft(rare, treatment="given", outcome="cost", covariates=["age"])
    assert drafted.study["expect"]["treated"] == 0.007
    assert any("treated share of 0.007" in str(sentence) for sentence in plan(drafted, data=rare).sentences)


def test_codes_that_are_stored_as_numbers_with_a_point_are_found() -> None:
    """Files of statistics programs hold 1.0 where the draft says 1."""
    stored = WIDE.with_columns(pl.col("given").cast(pl.Float64))
    whole, point = (
        draft(one, treatment="given", outcome="cost", covariates=["age"]).study["expect"] for one in (WIDE, stored)
    )
    assert whole == point
    assert whole["treated"] == pytest.approx(0.25, abs=0.03)


def test_nothing_is_expected_of_sensitive_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = [word for name in (*WIDE.columns[2:-1], "cost") for word in ("--range", f"{name}=-5:100")]
    drafted(monkeypatch, "--data-class", "sensitive", *OPTIONS[2:], *ranges, "--out", "secret")
    assert "expect" not in yaml.safe_load(Path("secret/study.yaml").read_text())
