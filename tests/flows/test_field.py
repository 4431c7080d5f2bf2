"""From a table in PostgreSQL to releases, a second month, and the refusal at the cap; the ledger on PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from causalveil.schemas.release import EffectRelease, load_release
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.postgres import WHY_NOT, database
from tests.studies import CONTRACT, STUDY, command, merge

ROOT = Path(__file__).parents[2]
# People with a treatment that depends on age and an effect of 2 on a score from 0 to 10, as in tests/studies.py.
TABLE = """
CREATE TABLE visits AS
SELECT id AS person,
       date '2026-01-01' + (id % 59)::int AS day,
       age, grp AS "group", treated,
       least(10, greatest(0, 3 + (age - 40) / 20 + 2 * treated::int + 2 * noise))::float8 AS score
FROM (SELECT id, age, (ARRAY['a', 'b', 'c'])[1 + id % 3] AS grp,
             random() < 1 / (1 + exp(-(age - 40) / 20)) AS treated,
             random() + random() + random() - 1.5 AS noise
      FROM (SELECT id, 20 + 40 * random() AS age FROM generate_series(1, {rows}) AS id) AS people) AS drawn
"""
COLUMNS = {"person": "integer", "treated": "boolean", "score": "number", "age": "number", "group": "text"}


Command = Callable[..., tuple[int, dict[str, Any]]]


def process(*words: str) -> tuple[int, dict[str, Any]]:
    """One command in a process of its own: exit code and JSON document."""
    command = [sys.executable, "-m", "causalveil", *words, "--json"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return ended.returncode, json.loads(ended.stdout)


def here(capfd: pytest.CaptureFixture[str]) -> Command:
    """The same in this process, which has everything imported."""

    def call(*words: str) -> tuple[int, dict[str, Any]]:
        capfd.readouterr()
        return command(*words, "--json"), json.loads(capfd.readouterr().out)

    return call


def field(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, causalveil: Command) -> dict[str, float]:
    """Load, extract, study, release, second month, refusal; the ledger on PostgreSQL. Returns seconds by step."""
    seconds: dict[str, float] = {}

    def timed(step: str, *words: str) -> tuple[int, dict[str, Any]]:
        start = time.perf_counter()
        result = causalveil(*words)
        seconds[step] = round(time.perf_counter() - start, 2)
        return result

    with database() as warehouse, database() as ledger:
        if warehouse is None or ledger is None:
            pytest.skip(WHY_NOT)
        monkeypatch.setenv("WAREHOUSE_URL", warehouse)
        monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", ledger)
        start = time.perf_counter()
        with psycopg.connect(warehouse, autocommit=True) as connection:
            connection.execute(TABLE.format(rows=rows).encode())
        seconds["load"] = round(time.perf_counter() - start, 2)

        source = {
            "name": "visits",
            "dataset": "small",
            "source": {"kind": "adbc", "url": {"environment": "WAREHOUSE_URL"}, "query": "SELECT * FROM visits"},
            "key": {"name": "month", "column": "day", "step": "month", "first": "2026-01", "last": "2026-01"},
            "columns": COLUMNS,
            "to": "data",
        }
        (tmp_path / "data").mkdir()
        sources, study = tmp_path / "source.yaml", tmp_path / "study.yaml"
        contract = merge(
            CONTRACT,
            {"caps": {"sample": {"epsilon": 2, "delta": "1e-5"}}, "blocks": {"key": "month", "units_span": False}},
        )
        (tmp_path / "data" / "dataset.yaml").write_text(yaml.safe_dump(contract))
        data = {"path": "data", "select": {"newest": 1}}
        changes = {"data": data, "estimator": {"penalty": 0.003}}
        study.write_text(yaml.safe_dump(merge(STUDY, changes)))

        months = []
        for last in ("2026-01", "2026-02"):
            source["key"] = {**source["key"], "last": last}  # type: ignore[dict-item]
            sources.write_text(yaml.safe_dump(source))
            code, manifest = timed(f"extract {last}", "extract", str(sources))
            assert code == 0, manifest
            months.append(manifest["blocks"][-1])
            out = tmp_path / "out" / last
            code, told = timed(f"study {last}", "run", str(study), "--run-id", f"of-{last}", "--out", str(out))
            assert code == 0, told
            release = load_release(out / "release.json")
            assert isinstance(release, EffectRelease)
            assert release.units == months[-1]["rows"]
            assert release.privacy.blocks.charged == (f"month={last}",)
            width = release.interval.upper - release.interval.lower
            assert abs(release.estimate - 2) < max(0.25, 2 * width), "the effect is 2"
        assert sum(month["rows"] for month in months) == rows

        # The newest month has been asked once; its cap is two.
        code, told = timed(
            "study again", "run", str(study), "--run-id", "again", "--out", str(tmp_path / "out" / "again")
        )
        assert code == 0, told
        code, told = timed("refusal", "run", str(study), "--run-id", "over", "--out", str(tmp_path / "out" / "over"))
        assert code == 4, told
        assert "block 'month=2026-02'" in told["error"]["message"]
        assert "remaining 0 of 2" in told["error"]["message"]
        rows = open_ledger().account("small").blocks
        blocks = {row.block: row.remaining.epsilon for row in rows if row.level == "sample"}
        assert blocks == {"month=2026-01": 1, "month=2026-02": 0}
        code, told = timed("audit", "audit", "of-2026-01")
        assert code == 0, told
        assert told["ledger"]["state"] == "finished"
        open_ledger().verify_release((tmp_path / "out" / "again" / "release.json").read_text())
    return seconds


def test_from_warehouse_to_the_refusal_at_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    field(20_000, tmp_path, monkeypatch, here(capfd))


@pytest.mark.long
def test_two_million_rows_from_warehouse_to_the_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    print(field(2_000_000, tmp_path, monkeypatch, process))
