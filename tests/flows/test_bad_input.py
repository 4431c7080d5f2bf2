"""Many ways to get it wrong: each a typed error, its exit code, one line, nothing charged, nothing echoed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.matching_help import CONTRACT as MATCHING
from tests.matching_help import matching_changes
from tests.studies import merge, people, refused, write_study

# Occurs in the data and nowhere else: it must never show.
CANARY = "zq7canary"
CANARY_NUMBER = 918273645

Breaker = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """One broken input: what breaks it, the exit code, and words that the line must hold."""

    name: str
    code: int
    says: tuple[str, ...]
    study: dict[str, Any] | None = None
    contract: dict[str, Any] | None = None
    text: tuple[str, str] | None = None  # replace in study.yaml
    contract_text: tuple[str, str] | None = None
    frame: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    folder: Breaker | None = None
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def study(title: str, says: str, /, **changes: Any) -> Case:
    return Case(f"study: {title}", 2, (says,), study=changes)


def contract(title: str, says: str, /, code: int = 2, **changes: Any) -> Case:
    return Case(f"contract: {title}", code, (says,), contract=changes)


def data(title: str, column: str, /, frame: Callable[[pl.DataFrame], pl.DataFrame], **more: Any) -> Case:
    return Case(f"data: {title}", 3, (column,), frame=frame, **more)


def cell(column: str, value: Any, dtype: Any = None) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Put one value into row 7 of a column."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        values = frame[column].to_list()
        values[7] = value
        return frame.with_columns(pl.Series(column, values, dtype=dtype, strict=False))

    return change


def cast(column: str, dtype: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.with_columns(pl.col(column).cast(dtype))


def truncate(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def damage_pages(folder: Path) -> None:
    """Overwrite data pages and leave the footer whole."""
    path = folder / "part-1.parquet"
    content = bytearray(path.read_bytes())
    content[4:1500] = bytes(1496)
    path.write_bytes(bytes(content))


def rewrite(folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame], part: int = 1) -> None:
    path = folder / f"part-{part}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)


STUDY_CASES = [
    study("unknown key", "did you mean 'treatment'", treatmnt="treated"),
    study("missing kind", "'kind'", kind=...),
    study("unknown kind", "'kind'", kind="correlation"),
    study("inverted outcome bounds", "lower must be below upper", outcome={"lower": 10, "upper": 0}),
    study("overflowing width", "larger unit", outcome={"lower": -1.7e308, "upper": 1.7e308}),
    study("covariate that nobody declared", "no column 'income'", covariates={"income": {}}),
    study("levels of a number", "not levels", covariates={"age": {"lower": ..., "upper": ..., "levels": ["a", "b"]}}),
    study("no covariates", "covariates", covariates={"age": ..., "group": ...}),
    study("levels and bounds", "not both", covariates={"group": {"lower": 0}}),
    study("epsilon zero", "epsilon must be above 0", privacy={"epsilon": 0}),
    study("epsilon negative", "must not be negative", privacy={"epsilon": -1}),
    study("epsilon subnormal", "between", privacy={"epsilon": "1e-310"}),
    study("epsilon huge", "between", privacy={"epsilon": "1e9"}),
    study("epsilon too many digits", "digits", privacy={"epsilon": "0.12345678901234567"}),
    Case(
        "study: epsilon lost in rounding",
        2,
        ("ask for more epsilon or less delta",),
        study={"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "1e-9"}},
        contract={"estimators": ["regression"]},
    ),
    study("delta one", "delta must be below 1", privacy={"delta": 1}),
    study("delta negative", "must not be negative", privacy={"delta": "-1e-6"}),
    study("delta infinite", "finite", privacy={"delta": float("inf")}),
    study("unknown relation", "privacy.neighbours", privacy={"neighbours": "add_remove"}),
    study("clip inverted", "clip", estimator={"clip": [0.9, 0.1]}),
    study("clip short", "clip", estimator={"clip": [0.1]}),
    study("fraction zero", "train_fraction", estimator={"train_fraction": 0}),
    study("fraction one", "train_fraction", estimator={"train_fraction": 1}),
    study("fraction leaves nobody", "half", estimator={"train_fraction": 0.0001}),
    study("penalty zero", "penalty", estimator={"penalty": 0}),
    study("unknown weighting", "weighting", estimator={"weighting": "stabilised"}),
    study("unknown variant", "variant", estimator={"variant": "mine"}),
    study("unknown missing rule", "missing", missing="drop"),
    study("confidence one", "confidence", confidence=1),
    study("confidence low", "confidence", confidence=0.2),
    study("unit is treatment", "no column 'person'", treatment="person"),
    study("paper with hajek", "horvitz_thompson", estimator={"variant": "paper"}, privacy={"epsilon": "0.5"}),
    study(
        "paper at epsilon one",
        "epsilon < 1",
        estimator={"variant": "paper", "weighting": "horvitz_thompson"},
    ),
    study(
        "paper without delta",
        "delta > 0",
        estimator={"variant": "paper", "weighting": "horvitz_thompson"},
        privacy={"epsilon": "0.5", "delta": 0},
    ),
    study(
        "paper at label level",
        "label",
        estimator={"variant": "paper", "weighting": "horvitz_thompson"},
        privacy={"epsilon": "0.5", "level": "label"},
    ),
    study("select without blocks", "blocks", data={"select": {"newest": 1}}),
    study("select nothing", "newest", data={"select": {"newest": 0}}),
    study("select text", "as in blocks: [2026-07]", data={"select": {"blocks": "2026-07"}}),
    study("name with slash", "name", name="a/b"),
    study("control character", "treatment", treatment="a\nb"),
    Case("study: not YAML", 2, ("not valid YAML",), text=("kind: effect", "kind: [effect")),
    Case("study: key twice", 2, ("twice",), text=("kind: effect", "kind: effect\nkind: effect")),
    Case("study: alias", 2, ("alias",), text=("kind: effect", "a: &a 1\nb: *a\nkind: effect")),
    Case("study: a tag", 2, ("YAML",), text=("kind: effect", "kind: !!python/name:os.system x")),
    Case("study: a list", 2, ("mapping",), folder=lambda f: (f / "study.yaml").write_text("- 1\n- 2\n")),
    Case("study: missing file", 2, ("no such file",), folder=lambda f: (f / "study.yaml").unlink()),
    Case("study: empty", 2, ("mapping",), folder=lambda f: (f / "study.yaml").write_text("")),
    Case("study: not text", 2, ("UTF-8",), folder=lambda f: (f / "study.yaml").write_bytes(b"\xff\xfe\x00")),
    Case("argument: bad run id", 2, ("run id",), arguments=("--run-id", "../x")),
    Case("argument: unknown option", 2, ("option",), arguments=("--epsilon", "3")),
    Case("argument: unknown engine", 2, ("engine",), arguments=("--engine", "spark")),
    Case("argument: seed not a number", 2, ("simulate",), arguments=("--simulate", "abc")),
]

CONTRACT_CASES = [
    Case("contract: missing", 2, ("no contract", "owner"), folder=lambda f: (f / "dataset.yaml").unlink()),
    contract("level has no cap", "forbidden", code=4, caps={"sample": ...}),
    contract("epsilon above cap", "remaining", code=4, caps={"sample": {"epsilon": "0.5"}}),
    contract("delta above cap", "remaining", code=4, caps={"sample": {"delta": "1e-7"}}),
    contract("sensitive without grant", "grant", code=4, data_class="sensitive"),
    contract("foreign ledger", "another ledger", code=5, ledger="0" * 32),
    Case(
        "contract: seeded noise on sensitive data",
        2,
        ("sensitive",),
        contract={"data_class": "sensitive"},
        arguments=("--simulate", "1"),
    ),
    Case(
        "ledger: unreachable",
        5,
        ("ledger",),
        environment=(("CAUSALVEIL_LEDGER_URL", "postgresql://u:pw@127.0.0.1:1/x"),),
    ),
    Case(
        "ledger: no such dialect",
        5,
        ("LEDGER_URL",),
        environment=(("CAUSALVEIL_LEDGER_URL", "oracle://u:pw@127.0.0.1/x"),),
    ),
    Case("ledger: not a URL", 5, ("LEDGER_URL",), environment=(("CAUSALVEIL_LEDGER_URL", "::::"),)),
]

DATA_CASES = [
    data("missing column", "age", lambda f: f.drop("age")),
    data("null outcome", "score", cell("score", None)),
    data("undeclared level", "group", cell("group", CANARY)),
    data("treatment text", "treated", lambda f: f.with_columns(treated=pl.lit(CANARY))),
    data("outcome text", "score", lambda f: f.with_columns(score=pl.lit(CANARY))),
    data("category number", "group", lambda f: f.with_columns(group=pl.lit(CANARY_NUMBER))),
    data(
        "integer levels, text column",
        "group",
        lambda f: f,
        study={"covariates": {"group": {"levels": [1, 2]}}},
        contract={"columns": {"group": {"levels": [1, 2]}}},
    ),
    data("unit twice in a partition", "person", cell("person", 1000)),
    data(
        "unit twice across partitions",
        "person",
        lambda f: f.with_columns(person=pl.when(pl.col("person") == 1300).then(1000).otherwise(pl.col("person"))),
    ),
    Case("data: folder missing", 2, ("contract",), study={"data": {"path": "elsewhere"}}),
    Case("data: empty folder", 3, ("Parquet",), folder=lambda f: [p.unlink() for p in f.glob("*.parquet")]),
    Case("data: no rows", 3, ("row",), folder=lambda f: [rewrite(f, lambda x: x.clear(), p) for p in (0, 1)]),
    Case("data: truncated file", 3, ("part-1.parquet",), folder=lambda f: truncate(f / "part-1.parquet", 0.6)),
    Case("data: empty file", 3, ("part-1.parquet",), folder=lambda f: truncate(f / "part-1.parquet", 0)),
    Case("data: not Parquet", 3, ("part-1.parquet",), folder=lambda f: (f / "part-1.parquet").write_text(CANARY)),
    Case("data: damaged pages", 3, ("part-1.parquet",), folder=damage_pages),
    Case("data: partitions disagree", 3, ("age",), folder=lambda f: rewrite(f, cast("age", pl.String))),
    Case("data: partition lacks a column", 3, ("score",), folder=lambda f: rewrite(f, lambda x: x.drop("score"))),
    Case("data: block key missing", 3, ("month",), contract={"blocks": {"key": "month", "units_span": False}}),
    Case(
        "data: one unit",
        2,
        ("half",),
        folder=lambda f: [rewrite(f, lambda x, p=p: x.head(1 - p), p) for p in (0, 1)],
    ),
]


def by(estimator: dict[str, Any], title: str, says: str, /, code: int = 2, **changes: Any) -> Case:
    """Break a study by another estimator than the small study's."""
    asked = merge({"estimator": {"penalty": ..., **estimator}}, changes)
    name = estimator["name"]
    return Case(f"{name}: {title}", code, (says,), study=asked, contract={"estimators": [name]})


def matching(title: str, says: str, /, code: int = 2, **changes: Any) -> Case:
    return Case(f"matching: {title}", code, (says,), study=matching_changes(**changes), contract=MATCHING)


PAPER = {"name": "aipw", "guarantee": "asymptotic"}
EVEN = dict.fromkeys(("scales", "lines", "screen", "refit", "scores"), "0.2")
PARTS = {"weights": "0.05", "scores": "0.05", "treatment": "0.7", "outcome": "0.2"}
ESTIMATOR_CASES = [
    by(PAPER, "ATT", "ATE", estimand="ATT"),
    by(PAPER, "label level", "label", privacy={"level": "label"}),
    by(PAPER, "one fold", "folds", estimator={"folds": 1}),
    by({"name": "regression"}, "label level", "label", privacy={"level": "label"}),
    by(
        {"name": "regression"},
        "parts of curves that are not wanted",
        "parts.screen and parts.refit must be 0",
        estimator={"curves": "none", "parts": EVEN},
    ),
    by({"name": "balancing"}, "sample level", "label"),
    Case("matching: not allowed", 2, ("does not allow estimator 'matching'",), study=matching_changes()),
    matching("ratio zero", "estimator.ratio", ratio=0),
    matching("ratio a fraction", "estimator.ratio", ratio=1.5),
    matching("cap zero", "estimator.cap", cap=0),
    matching("cap unknown", "estimator.cap", cap="none"),
    matching("caliper zero", "estimator.caliper", caliper=0),
    matching("coefficient negative", "error_coefficient", error_coefficient=-1),
    matching("variance share one", "variance_share", variance_share=1),
    matching("shares short", "add up to 0.9", budget_shares=PARTS | {"treatment": "0.6"}),
    matching("shares over", "not to 1", budget_shares=PARTS | {"outcome": "0.3"}),
    matching("share zero", "above 0", budget_shares=PARTS | {"scores": 0, "outcome": "0.25"}),
    matching("share negative", "not be negative", budget_shares=PARTS | {"scores": "-0.05", "outcome": "0.3"}),
    matching("share misspelt", "did you mean 'treatment'", budget_shares={"treatmnt": "0.7"}),
    matching("clip", "unknown key", estimator={"clip": [0.1, 0.9]}),
    matching("training units", "no level 'training_units'", level="training_units"),
    matching("delta at label level", "declare delta: 0", level="label", delta="1e-6"),
    matching("nothing to correct", "no attenuation to correct", level="label", correct_attenuation=True),
    matching("paper with a caliper", "variant 'ours'", level="label", variant="paper", caliper=0.1),
    matching("paper with ATT", "variant 'ours'", level="label", variant="paper", estimand="ATT"),
    matching("paper with delta", "spends no delta", variant="paper", delta="1e-6"),
    replace(
        matching("one treated unit", "fewer than 5 units", 3, level="label"),
        frame=lambda frame: frame.with_columns(treated=pl.col("person") == 1003),
    ),
    matching("caliper too narrow", "widen 'caliper'", 3, level="label", caliper=1e-300, ratio=50),
    replace(
        matching("ratio above the arm", "lower 'ratio'", 3, level="label", ratio=100),
        frame=lambda frame: frame.head(150),
    ),
]

CASES = STUDY_CASES + CONTRACT_CASES + DATA_CASES + ESTIMATOR_CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = people(400)
    path = write_study(
        tmp_path / "study",
        frame=case.frame(frame) if case.frame else frame,
        study=case.study,
        contract=case.contract,
    )
    if case.text:
        before = path.read_text()
        assert case.text[0] in before
        path.write_text(before.replace(*case.text))
    if case.folder:
        case.folder(path.parent)
    for name, value in case.environment:
        monkeypatch.setenv(name, value)

    ended, told, everything = refused(capfd, "run", str(path), "--out", str(tmp_path / "out"), *case.arguments)
    assert ended == case.code, everything
    for words in case.says:
        assert words in told
    assert CANARY not in everything
    assert str(CANARY_NUMBER) not in everything
    assert "pw@" not in everything
    assert "Traceback" not in everything
    assert not (tmp_path / "out").exists()
    assert_nothing_charged(monkeypatch)


def assert_nothing_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    monkeypatch.delenv("CAUSALVEIL_LEDGER_URL", raising=False)
    account = open_ledger().account("small")
    assert all(block.spent.epsilon == 0 and block.reserved.epsilon == 0 for block in account.blocks)
    assert all(run.state == "voided" for run in account.runs)
