"""The page on OMOP tables: its query, contract and study as they are printed, on a synthetic schema in DuckDB."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import extract_source
from causalveil.flows.run.check import check
from causalveil.schemas.release import EffectRelease

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "omop.md"
PEOPLE, INDEX = 6_000, date(2020, 6, 1)
DAY = timedelta(days=1)


def tables(path: Path) -> dict[int, dict[str, object]]:
    """Write the tables; return what the query must say of the first six people, each of whom tries one rule."""
    random = np.random.default_rng(4)
    ids = np.arange(1, PEOPLE + 1)
    born = random.integers(1935, 1995, PEOPLE)
    drug = random.choice([1503297, 1597756], PEOPLE)
    stays = random.random(PEOPLE) < np.where(drug == 1503297, 0.1, 0.3)
    drugs = [(int(one), INDEX, int(what)) for one, what in zip(ids, drug, strict=True)]
    period = [(int(one), INDEX - 800 * DAY, INDEX + 400 * DAY) for one in ids]
    visits = [(int(one), 9201, INDEX + 30 * DAY) for one in ids[stays] if one > 6]
    measured = [(int(one), int(one), 3004410, INDEX - 20 * DAY, 7.0) for one in ids if one > 6 and one % 3]
    conditions: list[tuple[int, int, date]] = []
    born[:6] = 1960
    # 1: another drug later is no second person, and the newest value counts. 2: observed for too short.
    drugs[0] = (1, INDEX, 1503297)
    drugs.append((1, INDEX + 9 * DAY, 1597756))
    measured += [(90_001, 1, 3004410, INDEX - 300 * DAY, 9.0), (90_002, 1, 3004410, INDEX - DAY, 8.0)]
    measured.append((90_003, 1, 3004410, INDEX + DAY, 5.0))
    period[1] = (2, INDEX - 100 * DAY, INDEX + 400 * DAY)
    # 3: a condition and a stay at the edges. 4: one day beyond them. 5: a child. 6: a visit that is no stay.
    conditions += [(3, 316139, INDEX - 365 * DAY), (4, 316139, INDEX - 366 * DAY)]
    visits += [(3, 9201, INDEX + 180 * DAY), (4, 9201, INDEX + 181 * DAY), (4, 9201, INDEX), (6, 9202, INDEX + DAY)]
    born[4] = 2010
    frames = {
        "person": pl.DataFrame(
            {"person_id": ids, "year_of_birth": born, "gender_concept_id": random.choice([8507, 8532], PEOPLE)}
        ),
        "observation_period": pl.DataFrame(
            period, ["person_id", "observation_period_start_date", "observation_period_end_date"], orient="row"
        ),
        "drug_exposure": pl.DataFrame(
            drugs, ["person_id", "drug_exposure_start_date", "drug_concept_id"], orient="row"
        ),
        "condition_occurrence": pl.DataFrame(
            conditions, ["person_id", "condition_concept_id", "condition_start_date"], orient="row"
        ),
        "measurement": pl.DataFrame(
            measured,
            ["measurement_id", "person_id", "measurement_concept_id", "measurement_date", "value_as_number"],
            orient="row",
        ),
        "visit_occurrence": pl.DataFrame(visits, ["person_id", "visit_concept_id", "visit_start_date"], orient="row"),
    }
    with duckdb.connect(str(path)) as connection:
        for name, frame in frames.items():
            connection.register("frame", frame.to_arrow())
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
            connection.unregister("frame")
    return {
        1: {"metformin": 1, "hba1c": 8.0, "hospital": 0},
        3: {"heart_failure": 1, "hospital": 1, "hba1c": None},
        4: {"heart_failure": 0, "hospital": 0},
        6: {"hospital": 0},
    }


def test_the_page_as_it_is_printed(tmp_path: Path) -> None:
    source, contract, study = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    expected = tables(tmp_path / "omop.duckdb")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset.yaml").write_text(contract)
    for name, text in (("source.yaml", source), ("study.yaml", study)):
        (tmp_path / name).write_text(text)
    manifest = extract_source(tmp_path / "source.yaml", DirectEngine()).manifest
    assert manifest.rows == PEOPLE - 2
    rows = {row["person_id"]: row for row in read_rows(tmp_path / "data")}
    assert not {2, 5} & set(rows)
    for person, values in expected.items():
        assert {key: rows[person][key] for key in values} == values
    assert check(tmp_path / "study.yaml") == []
    # Seeded: of 400 seeds two intervals miss the effect.
    release = run_study(tmp_path / "study.yaml", out=tmp_path / "out", simulate=1, engine="direct").release
    assert isinstance(release, EffectRelease)
    (answer,) = release.answers
    assert answer.interval is not None
    # A stay within 180 days: .1 with metformin, .3 without.
    assert answer.interval.lower < -0.2 < answer.interval.upper < 0.1


def read_rows(folder: Path) -> list[dict[str, object]]:
    parts = [pl.read_parquet(path, hive_partitioning=False) for path in sorted(folder.rglob("*.parquet"))]
    return pl.concat(parts).to_dicts()
