"""Numbers that their declared ranges cut: how much is found to be left unseen, and what numbers are left alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
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
from causalveil.tasks.data.covariates import DeclaredRanges, NarrowRanges, Ranged
from causalveil.tasks.data.ranges import BINS, EDGES, FALSE_BIN, counts, mechanism, ranges_of, threshold
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.ledger.ledger import open_ledger

MANY = 400_000


def of(k: int, from_zero: bool = False) -> DeclaredRanges:
    return DeclaredRanges(tuple(range(k)), ("x",) * k, (from_zero,) * k)


def moments(values: FloatArray, lower: float, upper: float, from_zero: bool = False) -> Ranged:
    """Of values cut to a range, as if they were released without noise."""
    cut, span = np.clip(values, lower, upper) - (lower + upper) / 2, (upper - lower) / 2
    ends = tuple(np.array([np.mean(cut == side)]) for side in (cut.min(), cut.max()))
    return Ranged(of(1, from_zero), np.array([cut.mean()]), np.array([cut.var()]), span, (ends[0], ends[1]))


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (-3, 0),
        (-3, 0.5),
        (-3, 1),
        (-8, 0.5),
        (-200, 0.5),
        (-1, 3),
        (-1, 1),
        (-0.5, 0.5),
        (-0.3, 0.3),
        (-1, 0.5),
        (-0.5, 2.5),
    ],
)
def test_what_a_cut_normal_number_hides_is_found(lower: float, upper: float) -> None:
    """(1 - r^2)/r^2 of 400,000 seeded normals, which is known to two hundredths of itself."""
    values = np.random.default_rng(1).normal(size=MANY)
    square = np.corrcoef(values, np.clip(values, lower, upper))[0, 1] ** 2
    found = moments(values, lower, upper)
    assert found.unseen[0] == pytest.approx((1 - square) / square, rel=0.03, abs=0.002)
    assert len(NarrowRanges.of(found).limits) == 1


def test_numbers_whose_ranges_fit_hide_nothing() -> None:
    """Normal to three deviations and more, spread evenly, seven steps in a bell, and ranges far too wide."""
    random = np.random.default_rng(2)
    normal, even = random.normal(size=MANY), random.uniform(-1, 1, MANY)
    bell = random.binomial(6, 0.5, MANY).astype(np.float64)
    for values, lower, upper in ((normal, -3, 3), (normal, -2.5, 6), (even, -1, 1), (bell, 0, 6), (normal, -500, 900)):
        found = moments(values, lower, upper)
        assert found.unseen[0] == 0
        assert NarrowRanges.of(found) == NarrowRanges()


def test_people_at_a_lower_end_of_zero_are_no_sign_of_a_narrow_range() -> None:
    """Earnings of which two thirds are 0: nobody earns less. Were the same numbers to start at 1, they might."""
    random = np.random.default_rng(3)
    earnings = np.where(random.random(MANY) < 2 / 3, 0.0, random.uniform(0, 1, MANY))
    assert moments(earnings, 0, 1.2, from_zero=True).unseen[0] == 0
    assert moments(earnings, 0, 1.2).unseen[0] > 0.1
    # Costs from 2 on: nobody lies at an end.
    assert moments(2 + np.exp(random.normal(size=MANY)), 2, 60).unseen[0] == 0
    # Beside an upper end that cuts as many it does not count.
    assert moments(random.normal(0.5, 1, MANY), 0, 1.0, from_zero=True).unseen[0] > 0.2


def test_most_people_at_the_ends_are_named_as_such() -> None:
    values = np.random.default_rng(4).normal(size=MANY)
    assert NarrowRanges.of(moments(values, -0.01, 0.01)).clipped == ("x",)
    assert NarrowRanges.of(moments(values, -1, 1)).cut == ("x",)


def test_no_moments_make_it_infinite_or_less_than_nothing() -> None:
    """Whatever noise makes of mean and variance, and of ranges that are hardly wider than nothing."""
    mean, variance = (
        grid.ravel() for grid in np.meshgrid([-1.0, -0.999, -0.3, 0.0, 0.7, 1.0], [-5.0, 0, 1e-30, 0.2, 1, 9])
    )
    ends = np.full(len(mean), 0.3), np.full(len(mean), 0.4)
    for span in (1e-300, 1e-6, 1.0):
        found = Ranged(of(len(mean)), mean * span, variance * span**2, span, ends).unseen
        assert np.all(np.isfinite(found))
        assert found.min() >= 0


def test_the_share_at_the_ends_says_how_much_counts() -> None:
    """Of a range that one in eight lie beyond all, of one at whose ends nobody is nothing, of few in between a part."""
    values = np.random.default_rng(6).normal(size=MANY)
    found, nobody = moments(values, -1.5, 1.5), np.zeros(1)
    assert found.unseen[0] == pytest.approx(0.037, abs=0.003)
    assert replace(found, ends=(nobody, nobody)).unseen[0] == 0
    few = np.full(1, 0.0125)
    assert replace(found, ends=(few, few)).unseen[0] == pytest.approx(found.unseen[0] / 2)
    # Scores of which most are 0 and a few the highest: coma, of patients.
    scores = np.where(values > 1.5, 1.0, np.maximum(0.0, values - 1.0))
    assert moments(scores, 0, 1.0, from_zero=True).unseen[0] == 0


@pytest.mark.parametrize(("lower", "upper"), [(-1, 1), (-1.5, 1.5), (-3, 1.5), (-3, 0.5), (-1, 3), (-0.5, 0.5)])
@pytest.mark.parametrize(("slope", "intercept"), [(0.5, 0), (1, 0), (1, -1.5), (-1, -1.5), (1.5, -3)])
def test_what_lines_and_squares_leave_of_arms_that_lie_apart(
    lower: float, upper: float, slope: float, intercept: float
) -> None:
    """No way of least squares leaves a tenth more than is allowed for, and some way a half of it; 300,000 people.

    Lines and squares, of both arms together and of each; outcomes are the number before it was cut, so that all that
    is found between the arms confounds.
    """
    random = np.random.default_rng(9)
    z = random.normal(size=300_000)
    t = random.random(len(z)) < 1 / (1 + np.exp(-slope * z - intercept))
    y = np.clip(z, lower, upper)
    apart = np.array([y[t].mean() - y[~t].mean()])
    allowed = moments(z, lower, upper).left(apart, float(t.mean()))[0]
    whole, left = z[t].mean() - z[~t].mean(), []
    for degree in (1, 2):
        x = np.vander(y, degree + 1)
        treated, controls = (np.linalg.lstsq(x[arm], z[arm], rcond=None)[0] for arm in (t, ~t))
        both = np.linalg.lstsq(np.column_stack([t, x]), z, rcond=None)[0][0]
        left += [part / (whole - part) for part in (both, float(np.mean(x @ (treated - controls))))]
    assert max(left) < 1.1 * allowed + 0.002
    assert max(left) > 0.5 * allowed


def test_arms_that_cannot_be_are_no_reason_for_anything_but_a_number() -> None:
    """Whatever noise makes of the arms' distance and of the treated share."""
    values = np.random.default_rng(10).normal(size=MANY)
    for range_ in ((-1, 1), (-3, 0.5), (-0.01, 0.01)):
        cut = moments(values, *range_)
        for apart in (-1e300, -1.0, 0.0, 1e-9, 0.4, 1e9):
            for share in (0.0, 1e-9, 0.5, 1.0):
                found = cut.left(np.array([apart]), share)
                assert np.isfinite(found).all()
                assert found[0] >= cut.unseen[0] > 0


# Ranges found privately: the sensitivity by brute force, the noise that is drawn, and what a dataset is told.
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
    first, second = ranges_of(asked, noisy)
    assert (first.lower, first.upper) == (10.0, 100.0)
    assert (second.lower, second.upper) == (None, None)
    for place in (0, BINS - 1):
        edge = np.zeros((2, BINS))
        edge[0, place] = 1e6
        ends = ranges_of(asked, edge)[0]
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
