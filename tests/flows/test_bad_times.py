"""Bad times and events, row by row: an honest answer, or one line whose advice is true when followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.release import EffectRelease
from tests.flows.test_bad_input import assert_nothing_charged, cell
from tests.studies import merge, refused
from tests.survival_help import patients, write_survival

Change = Callable[[pl.DataFrame], pl.DataFrame]
INDICATOR = {"columns": {"days": {"nulls": "indicator"}, "status": {"nulls": "indicator"}}}
ANY_EVENT = {"columns": {"status": {"others": "other"}}}


def all_of(**values: Any) -> Change:
    """Give everybody the same values."""
    return lambda frame: frame.with_columns(**{name: pl.lit(one) for name, one in values.items()})


def lost_at(day: float) -> Change:
    """End everybody's follow-up on a day."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        late = pl.col("days") >= day
        return frame.with_columns(
            days=pl.min_horizontal("days", pl.lit(day)), status=pl.when(late).then(0).otherwise("status")
        )

    return change


# A contract and a study of people who may enter late, and the rows of when they did.
LATE: dict[str, Any] = {
    "study": {"outcome": {"entry": "since"}, "intervals": 10},
    "contract": {"columns": {"since": {"time": {"upper": 3650, "origin": "randomised"}, "unit_of_measure": "days"}}},
}


def since(when: pl.Expr) -> Change:
    return lambda frame: frame.with_columns(since=when.cast(pl.Float64))


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        says: words of the refusal; empty: there is an answer.
        code: the exit code of the refusal.
        then: of study and contract, what the refusal advises; None: it advises to change rows.
        seen: until when people are seen, where the answer is the whole range; None: it is an interval.
    """

    frame: Change | None = None
    study: dict[str, Any] = field(default_factory=dict)
    contract: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    code: int = 2
    then: tuple[dict[str, Any], dict[str, Any]] | None = None
    seen: tuple[float, float] | None = None


TABLE: dict[str, Row] = {
    "time missing": Row(cell("days", None), says="declare 'nulls: indicator'", code=3, then=({}, INDICATOR)),
    "time no number": Row(
        cell("days", float("nan"), pl.Float64), says="declare 'nulls: indicator'", code=3, then=({}, INDICATOR)
    ),
    "event missing": Row(cell("status", None), says="declare 'nulls: indicator'", code=3, then=({}, INDICATOR)),
    "time infinite": Row(cell("days", float("inf"), pl.Float64), contract=INDICATOR, says="write missing", code=3),
    "time negative": Row(cell("days", -3.0)),
    "time above upper": Row(cell("days", 1e8)),
    "time of text": Row(lambda frame: frame.with_columns(pl.col("days").cast(pl.String)), says="'days' must", code=3),
    "time of truth values": Row(
        lambda frame: frame.with_columns(pl.col("days") > 100), says="since it holds times", code=3
    ),
    "event undeclared": Row(cell("status", 7), says="declare it, or 'others: other'", code=3, then=({}, ANY_EVENT)),
    "event between codes": Row(cell("status", 1.5, pl.Float64), contract=ANY_EVENT),
    "competing event undeclared": Row(
        contract={"columns": {"status": {"event": {"relapse": ...}}}}, says="'others: other'", code=3,
        then=({}, ANY_EVENT),
    ),
    "horizon above upper": Row(
        study={"outcome": {"horizon": 4000}}, says="end at 3650; ask for an earlier one",
        then=({"outcome": {"horizon": 365}}, {}),
    ),
    "intervals shorter than a step": Row(
        study={"outcome": {"horizon": 15}, "intervals": 20}, says="at most 15 fit", then=({"intervals": 15}, {})
    ),
    "horizon of few steps": Row(study={"outcome": {"horizon": 5}}),
    "no delta and many intervals": Row(
        study={"privacy": {"delta": "0"}, "intervals": 13}, says="declare 'privacy.delta'",
        then=({"privacy": {"delta": "1e-6"}}, {}),
    ),
    "no delta": Row(study={"privacy": {"delta": "0"}}),
    "entry after exit": Row(since(pl.col("days") * (pl.col("person") % 10 == 0)), **LATE),
    "entry after exit of everybody": Row(since(pl.col("days")), **LATE, seen=(0, 0)),
    "nobody has entered at first": Row(since(pl.lit(50.0)), **LATE, seen=(0, 0)),
    "all have entered at the landmark": Row(
        since(pl.lit(50.0)), **merge(LATE, {"study": {"outcome": {"landmark": 50}}})
    ),
    "entry missing": Row(
        since(pl.when(pl.col("person") < 1020).then(None).otherwise(0.0)), **LATE, says="'since'", code=3,
        then=({}, {"columns": {"since": {"nulls": "indicator"}}}),
    ),
    "entry beside covariates": Row(
        **merge(LATE, {"study": {"covariates": ["age"]}, "contract": {"columns": {"age": {"lower": 0, "upper": 9}}}}),
        says="remove 'covariates'",
    ),
    "several rows a person": Row(
        lambda frame: pl.concat([frame, frame.head(3)]), says="'rows' of the contract", code=3,
        then=({}, {"rows": {"order": "days", "keep": "last", "at_most": 1}}),
    ),
    "all censored on the first day": Row(all_of(status=0, days=1.0), seen=(0, 0)),
    "all censored before the horizon": Row(lost_at(335), seen=(328.5, 328.5)),
    "all censored at the horizon": Row(lost_at(365)),
    "all have the event": Row(all_of(status=2, days=360.0)),
    "all have the event at the origin": Row(all_of(status=2, days=0.0), seen=(36.5, 36.5)),
    "nobody treated": Row(all_of(treated=False), seen=(0, 0)),
    "everybody treated": Row(all_of(treated=True), seen=(0, 0)),
    "nobody followed": Row(lost_at(0), seen=(0, 0)),
    "all events after the horizon": Row(lambda frame: frame.with_columns(days=pl.col("days") + 400)),
    "no event that counts": Row(lambda frame: frame.with_columns(status=pl.col("status").replace({2: 0}))),
    "one person": Row(lambda frame: frame.head(1), seen=(0, 0)),
    "nobody": Row(lambda frame: frame.head(0), says="hold no rows", code=3),
}  # fmt: skip


@pytest.mark.parametrize("title", TABLE)
def test_bad_times(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At epsilon 5 and the noise of a fixed seed, so that what is seen follows from the rows."""
    row, frame = TABLE[title], patients(400)
    frame = row.frame(frame) if row.frame else frame
    asked = (
        merge({"privacy": {"epsilon": "5"}, "intervals": ... if "outcome" in row.study else 10}, row.study),
        row.contract,
    )
    path = write_survival(tmp_path / "asked", frame=frame, study=asked[0], contract=asked[1])
    if row.says:
        ended, told, everything = refused(capfd, "run", str(path), "--out", str(tmp_path / "out"))
        assert (ended, row.says in told) == (row.code, True), everything
        assert not (tmp_path / "out").exists()
        assert_nothing_charged(monkeypatch)
        if row.then is None:
            return
        study, contract = (merge(one, other) for one, other in zip(asked, row.then, strict=True))
        path = write_survival(tmp_path / "followed", frame=frame, study=study, contract=contract)
        monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "other-home"))
    found = run_study(path, out=tmp_path / "out", engine="direct", simulate=3).release
    assert isinstance(found, EffectRelease)
    assert found.interval.whole_range == (row.seen is not None)
    assert found.interval.lower <= found.estimate <= found.interval.upper
    if row.seen is not None:
        assert row.seen[0] <= found.curves[0].curves.seen_until <= row.seen[1]
