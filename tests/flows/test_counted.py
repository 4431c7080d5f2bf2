"""Terminal, manifest, release and report count the rows that were left out, and say where bounds come from."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import load_contract, report, run_study
from causalveil.schemas.errors import ContractError
from causalveil.schemas.limits import Code
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.report.numbers import arm_means
from causalveil.tasks.report.page import report_html
from tests.limits import codes
from tests.studies import command, write_study

NAMED = ("--treatment", "treated", "--outcome", "score", "--epsilon", "5")


def started(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What the terminal of `init` says."""
    folder.mkdir(exist_ok=True)
    (folder / "in.csv").write_text(text)
    assert command("init", folder / "in.csv", "--out", folder / "out", *NAMED, *options) == 0
    return capsys.readouterr().out


def released(folder: Path) -> tuple[EffectRelease, str]:
    """A release of the draft, and its report as text."""
    found = run_study(folder / "out/study.yaml", out=folder / "release", engine="direct")
    assert isinstance(found.release, EffectRelease)
    page = report(folder / "release/release.json", contract=folder / "out/dataset.yaml").read_text()
    return found.release, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def rows(n: int = 300, *, ids: int = 0) -> list[list[str]]:
    return [
        [str(i % (ids or n)), str(i % 2), str(20 + i * 7 % 51), str(i % 9), str(2000 + i // (ids or n))]
        for i in range(n)
    ]


def text(table: list[list[str]]) -> str:
    return "id,treated,age,score,year\n" + "\n".join(map(",".join, table)) + "\n"


def test_rows_without_outcome_or_treatment_are_counted_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows()
    for place in range(17):
        table[place][3] = ""
    for place in range(100, 123):
        table[place][1] = "NA"
    said = started(tmp_path, text(table), capsys, "--data-class", "synthetic", "--unit", "id")
    assert "Left out: 17 rows without 'score'" in said
    assert "Left out: 23 rows without 'treated'" in said
    manifest = DataFolder(tmp_path / "out").manifest()
    assert manifest is not None
    assert (manifest.rows, manifest.left_out) == (260, {"treated": 23, "score": 17})
    release, page = released(tmp_path)
    assert release.data is not None
    assert (release.units, release.data.rows, release.data.left_out) == (260, 300, {"treated": 23, "score": 17})
    assert "17 rows left out, without a value of score" in page
    assert "23 rows were left out, without a value of treated" in page
    assert "othing is missing" not in page


def test_several_rows_of_a_unit_are_both_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = started(tmp_path, text(rows(ids=120)), capsys, "--data-class", "synthetic", "--unit", "id")
    assert "300 rows of 120 units, which one counts is yours to decide" in said
    assert "how a change over time is asked" in said
    release, page = released(tmp_path)
    assert release.data is not None
    assert (release.units, release.data.rows) == (120, 300)
    assert "300 rows became 120, one per unit" in page


def test_reports_say_which_bounds_were_read_off_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started(tmp_path, text(rows()), capsys, "--data-class", "public", "--unit", "id", "--range", "score=0:10")
    assert load_contract(tmp_path / "out/dataset.yaml").bounds_from_data == ("age",)
    release, page = released(tmp_path)
    assert release.data is not None
    assert set(release.data.bounds_from_data) == {"age"}
    assert "Those of age were drafted from the data" in page
    for claim in ("None was read off the data", "never read off the data", "eclared before a row was read"):
        assert claim not in page
    contract = tmp_path / "out/dataset.yaml"
    contract.write_text(contract.read_text().replace("data_class: public", "data_class: sensitive"))
    with pytest.raises(ContractError, match="'bounds_from_data': a range read off sensitive data"):
        load_contract(contract)


def test_nothing_is_counted_of_sensitive_data(tmp_path: Path) -> None:
    from causalveil.flows.run.declare import AllowedStudy, data_statement, load
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.data.partitions import read_layout
    from tests.studies import write_study

    loaded = load(write_study(tmp_path))
    layout = read_layout(loaded.study, loaded.folder)
    for data_class, counted in ((DataClass.public, True), (DataClass.synthetic, True), (DataClass.sensitive, False)):
        contract = loaded.contract.model_copy(update={"data_class": data_class})
        assert (data_statement(AllowedStudy(loaded.study, loaded.folder, contract, layout)) is not None) == counted


def test_means_of_arms_are_shown_only_if_the_estimate_is_their_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An adjusted estimate is not; a reader would take them for its two sides."""
    started(tmp_path, text(rows(600)), capsys, "--data-class", "synthetic", "--unit", "id")
    release, page = released(tmp_path)
    assert arm_means(release.model_dump(mode="json")) is None
    assert "mean treated" not in page
    assert "mean of treated" not in page
    assert "Not released by arm" in page
    first = release.answers[0].model_copy(update={"estimate": 2.0, "values": (3.0, 5.0)})
    errors = {"mean_treated_error": 0.1, "mean_control_error": 0.2}
    told = release.model_copy(update={"answers": (first,), "details": errors})
    assert arm_means(told.model_dump(mode="json")) == (
        ("treated", "5.00 ± 0.10 (standard error)"),
        ("controls", "3.00 ± 0.20 (standard error)"),
    )
    assert "mean of treated" in report_html(told)


@pytest.mark.parametrize("drafted", [[], ["age"]])
def test_no_value_lies_beyond_a_range_that_was_drafted_from_the_rows(drafted: list[str], tmp_path: Path) -> None:
    """A third of 4,000 units lie at each end of a range from 20 to 60; noise of seed 1 at epsilon 20."""
    random = np.random.default_rng(1)
    n = 4_000
    age, treated = np.clip(random.normal(40, 45, n), 20, 60), np.arange(n) % 2
    columns = {"person": np.arange(n), "treated": treated, "score": np.clip(4 + age / 20 + treated, 0, 10), "age": age}
    path = write_study(
        tmp_path / "study",
        frame=pl.DataFrame({**columns, "group": random.choice(["a", "b", "c"], n)}),
        study={"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "20", "delta": "1e-6"}},
        contract={
            "data_class": "public",
            "bounds_from_data": drafted,
            "columns": {"age": {"lower": 20, "upper": 60}},
            "estimators": ["regression"],
            "caps": {"sample": {"epsilon": "100", "delta": "1e-4"}},
        },
    )
    result = run_study(path, out=tmp_path / "out", engine="direct", simulate=1)
    beyond = {Code.most_at_limits, Code.many_at_limits} & set(codes(result.release.not_covered))
    assert bool(beyond) == (not drafted)
