"""Ranges found privately: the sensitivity by brute force, the noise that is drawn, and what a dataset is told."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.ranges import RANGES, declared_lines, find_ranges, write_into
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import BudgetRefused, CausalveilError, DataError, StudyError
from causalveil.schemas.privacy import PrivacyCost
from causalveil.schemas.studies import RangesStudy
from causalveil.schemas.study import DataSource, EstimatorSettings, PrivacyRequest
from causalveil.tasks.data.ranges import BINS, EDGES, FALSE_BIN, counts, found, mechanism, threshold
from causalveil.tasks.privacy.ledger.ledger import open_ledger

VALUES = (None, float("nan"), -math.inf, math.inf, -3.0, 0.0, -0.0, 1e-12, 1.0, 1.999, 2.0, 7e15, -7e15, 5e-324)
CONTRACT = """\
dataset: people
data_class: synthetic
unit: person
columns:
  treated: {codes: {control: 0, treated: 1}}
# Ranges to be found.
open_ranges:
  wage: {}
  "sick days": {nulls: indicator}
  drowned: {}
public: []
caps: {sample: {epsilon: 4, delta: 1.0e-5}}
"""


def histogram(row: tuple[float | None, ...]) -> np.ndarray:
    return np.stack([counts(pl.Series([value], dtype=pl.Float64)) for value in row])


def test_no_two_neighbours_differ_by_more_than_the_sensitivity() -> None:
    """All pairs of rows of two columns: tables that differ in one unit differ by the difference of its rows."""
    rows = {row: histogram(row) for row in itertools.product(VALUES, repeat=2)}
    worst = max(int(np.abs(one - other).sum()) for one, other in itertools.combinations(rows.values(), 2))
    assert worst == 4 == mechanism(2, PrivacyCost(epsilon="1", delta="0")).sensitivity.value  # type: ignore[arg-type]


def test_counts_add_up_over_rows_and_values_lie_in_their_bins() -> None:
    draw = np.random.default_rng(1)
    values = draw.normal(size=2000) * 10.0 ** draw.integers(-11, 14, size=2000)
    whole = counts(pl.Series(values))
    assert whole.sum() == 2000
    assert (whole == sum(counts(pl.Series([value])) for value in values)).all()
    for value in values[:200]:
        place = int(np.flatnonzero(counts(pl.Series([value])))[0])
        assert place == 0 or EDGES[place - 1] <= value
        assert place == len(EDGES) or value < EDGES[place]


def study(columns: int, epsilon: str) -> RangesStudy:
    return RangesStudy(
        name="ranges",
        data=DataSource(unit="person"),
        estimator=EstimatorSettings(name="ranges"),
        privacy=PrivacyRequest.model_validate({"epsilon": epsilon}),
        numbers=tuple(f"x{index}" for index in range(columns)),
    )


@pytest.mark.parametrize("columns", [1, 3])
def test_the_charge_declares_all_of_epsilon_and_the_scale_that_goes_with_it(columns: int) -> None:
    (charge,) = RANGES.declare(study(columns, "0.1"), None)
    assert (charge.epsilon, charge.delta, charge.mechanism) == (study(columns, "0.1").privacy.epsilon, 0, "laplace")
    assert charge.sensitivity == 2 * columns
    assert charge.noise_scale is not None
    assert charge.noise_scale == pytest.approx(2 * columns / 0.1, rel=1e-9)


def test_noise_alone_hardly_ever_fills_a_bin() -> None:
    """20,000 histograms of nobody: at most FALSE_BIN of them have a bin; 60 is exceeded once in 1e8 runs (seed 1)."""
    asked = study(1, "1")
    scale = mechanism(1, asked.privacy.cost).known_scale
    noise = np.random.default_rng(1).laplace(0, scale, (20_000, BINS))
    wrong = int((noise > threshold(1, scale)).any(axis=1).sum())
    assert wrong <= 60
    assert wrong >= 1, f"the bound {FALSE_BIN} is not loose by orders of magnitude: 20 are expected"


def test_a_range_ends_where_counts_end() -> None:
    asked = study(2, "1")
    noisy = np.zeros((2, BINS))
    low, high = int(np.searchsorted(EDGES, 12.0, side="right")), int(np.searchsorted(EDGES, 70.0, side="right"))
    noisy[0, low], noisy[0, high] = 1e6, 1e6
    first, second = found(asked, noisy)
    assert (first.lower, first.upper) == (10.0, 100.0)
    assert (second.lower, second.upper) == (None, None)
    for place in (0, BINS - 1):
        edge = np.zeros((2, BINS))
        edge[0, place] = 1e6
        ends = found(asked, edge)[0]
        assert ends.lower is not None
        assert ends.upper is not None
        assert ends.lower < ends.upper


def people(folder: Path, rows: int = 4000) -> Path:
    draw = np.random.default_rng(2)
    pl.DataFrame(
        {
            "person": range(rows),
            "treated": draw.integers(0, 2, rows),
            "wage": draw.uniform(12_000, 90_000, rows),
            "sick days": [None if index % 9 == 0 else float(max(0, index % 40 - 10)) for index in range(rows)],
            "drowned": [float(index) if index < 5 else None for index in range(rows)],
        }
    ).write_parquet(folder / "part.parquet")
    (folder / "dataset.yaml").write_text(CONTRACT)
    return folder


def test_what_is_found_is_charged_once_and_goes_into_the_contract(tmp_path: Path) -> None:
    """Bins of 400 units and more stand 20 noise scales above the threshold: one is missed once in 1e9 draws. A false
    bin (one draw in a thousand) can only widen a range, so no test asks for a narrow one."""
    folder = people(tmp_path)
    result = find_ranges(folder, None, "0.5", "once", DirectEngine())
    ends = {one.column: (one.lower, one.upper) for one in result.ranges}
    for column, low, high in (("wage", 10_000, 100_000), ("sick days", 0, 50)):
        lower, upper = ends[column]
        assert lower is not None
        assert upper is not None
        assert lower <= low < high <= upper
    again = find_ranges(folder, None, "0.5", "once", DirectEngine())
    assert again == result
    account = open_ledger().account("people").blocks[0]
    assert account.runs == 1
    assert account.rho is not None
    assert 0 < float(account.rho.spent) <= 0.5**2 / 2, "rho of epsilon is at most its square by two"
    write_into(folder, result)
    contract = load_contract(folder / "dataset.yaml")
    assert list(contract.open_ranges) == [name for name, (lower, _) in ends.items() if lower is None]
    assert contract.columns["sick days"].nulls == "indicator"
    assert "# Ranges to be found." in (folder / "dataset.yaml").read_text()
    assert declared_lines(folder, result)[0].startswith("wage: {lower: ")
    with pytest.raises(BudgetRefused):
        find_ranges(folder, ("wage",), "5", None, DirectEngine())


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        (("person",), StudyError, "is the unit"),
        (("nowhere",), DataError, "column 'nowhere' is missing"),
        (("name",), DataError, "must be"),
    ],
)
def test_what_cannot_be_counted_is_one_sentence(
    columns: tuple[str, ...], error: type[CausalveilError], says: str, tmp_path: Path
) -> None:
    folder = people(tmp_path)
    pl.read_parquet(folder / "part.parquet").with_columns(name=pl.lit("x")).write_parquet(folder / "part.parquet")
    with pytest.raises(error, match=says):
        find_ranges(folder, columns, "0.1", None, DirectEngine())


def test_a_unit_with_two_rows_is_refused(tmp_path: Path) -> None:
    folder = people(tmp_path)
    frame = pl.read_parquet(folder / "part.parquet")
    pl.concat([frame, frame[:1]]).write_parquet(folder / "part.parquet")
    with pytest.raises(DataError, match="names a unit twice"):
        find_ranges(folder, None, "0.1", None, DirectEngine())
