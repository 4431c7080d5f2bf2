"""Several rows of a unit become one: what results, and that nobody else's row moves by a bit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import NumberColumn
from causalveil.schemas.errors import DataError
from causalveil.tasks.data import reduction
from causalveil.tasks.data.reduction import reduce_rows

BASE: dict[str, Any] = {
    "dataset": "visits",
    "data_class": "synthetic",
    "unit": "person",
    "columns": {
        "cost": {"lower": -1, "upper": 0.7},
        "dose": {"lower": 0, "upper": 3, "nulls": "indicator"},
        "ill": {"codes": {"no": "no", "yes": "yes"}, "nulls": "indicator"},
        "ward": {"levels": ["a", "b"]},
    },
    "public": [],
    "caps": {"sample": {"epsilon": 1, "delta": 0}},
}
NUMBERS = ("first", "last", "sum", "mean", "min", "max")
CODES = ("first", "last", "sum", "mean", "any", "all")
ROWS: list[dict[str, Any]] = [
    {"at_most": 1, "order": "day"},
    {"at_most": 1, "order": "day", "keep": "first"},
    *(
        {"at_most": 2, "order": "day", "keep": keep, "count": "visits", "aggregates": dict(cost=n, dose=n, ill=c)}
        for n, c, keep in zip(NUMBERS, CODES, ("last", "first", "last", "first", "first", "last"), strict=True)
    ),
    {"order": "day", "wide": {"cost": [1, 3], "dose": [1], "ward": [2]}, "aggregates": {"cost": "mean"}},
    {"order": "day", "aggregates": {"cost": "mean", "dose": "max", "ill": "any"}},
]
# What the rows of the person who is replaced can be: ties in day, values beyond the range, nulls.
POSSIBLE = [
    {"day": 1, "cost": 0.1, "dose": 1.0, "ill": "no", "ward": "a"},
    {"day": 1, "cost": 50.0, "dose": None, "ill": "yes", "ward": "b"},
    {"day": 2, "cost": -1e300, "dose": 0.3, "ill": None, "ward": "b"},
    {"day": 3, "cost": 0.2, "dose": None, "ill": None, "ward": "a"},
]
SCHEMA = {
    "person": pl.Int64,
    "day": pl.Int64,
    "cost": pl.Float64,
    "dose": pl.Float64,
    "ill": pl.String,
    "ward": pl.String,
}


def contract(rows: dict[str, Any] | None) -> Contract:
    return Contract.model_validate({**BASE, "rows": rows})


def table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)


def others() -> list[dict[str, Any]]:
    """Two people on either side of the one who is replaced; their sums depend on the order of addition."""
    cells = [(0.1, 0.3), (0.2, None), (0.3, 0.1), (0.4, 2.7), (0.6, 0.9)]
    return [
        {"person": person, "day": day // 2, "cost": cost, "dose": dose, "ill": "yes" if day == 3 else "no", "ward": "a"}
        for person in (1, 9)
        for day, (cost, dose) in enumerate(cells)
    ]


def reduced(rows: list[dict[str, Any]], how: Contract) -> dict[int, bytes]:
    """Each person's row, to the bit."""
    assert how.rows is not None
    found = reduce_rows(table(rows), "person", how.rows, how.columns)
    assert found["person"].is_sorted()
    return {row[0]: repr([v.hex() if isinstance(v, float) else v for v in row]).encode() for row in found.iter_rows()}


def neighbours() -> list[list[dict[str, Any]]]:
    """Every multiset of one to three of the possible rows."""
    return [
        [{"person": 5, **row} for row in chosen]
        for size in (1, 2, 3)
        for chosen in itertools.combinations_with_replacement(POSSIBLE, size)
    ]


def moved(how: Contract) -> int:
    """How many neighbouring tables move somebody else's row, or give the replaced person other than one row."""
    kept = reduced(others(), how)
    count = 0
    for rows in neighbours():
        found = reduced(rows + others(), how)
        count += len(found) != 3 or any(found[person] != row for person, row in kept.items())
    return count


def shuffled_differ(how: Contract) -> int:
    """How many tables are reduced to other rows if the files hold them in another order."""
    random = np.random.default_rng(1)
    count = 0
    for rows in neighbours():
        whole = rows + others()
        first = reduced(whole, how)
        for _ in range(2):
            count += reduced([whole[i] for i in random.permutation(len(whole))], how) != first
    return count


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_one_persons_rows_move_one_row(rows: dict[str, Any]) -> None:
    """The proof's claim by brute force: whatever rows she has, in whatever order, nobody else moves by a bit."""
    assert moved(contract(rows)) == 0
    assert shuffled_differ(contract(rows)) == 0


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_every_reduced_row_is_the_naive_one_and_within_what_the_contract_derives(rows: dict[str, Any]) -> None:
    how = contract(rows)
    assert how.rows is not None
    for mine in neighbours():
        found = reduce_rows(table(mine), "person", how.rows, how.columns).row(0, named=True)
        expected = _naive(mine, how)
        assert found.keys() == expected.keys() == {"person", *how.offered}
        for name, value in found.items():
            assert value == expected[name] or math.isclose(value, expected[name], rel_tol=1e-15), name
        for name, column in how.offered.items():
            if isinstance(column, NumberColumn) and how.rows.aggregate(name) not in ("first", "last"):
                assert found[name] is None or column.lower <= found[name] <= column.upper, name


def _naive(rows: list[dict[str, Any]], how: Contract) -> dict[str, Any]:
    """One person's row, said plainly."""
    spec = how.rows
    assert spec is not None
    key: Callable[[dict[str, Any]], Any] = lambda row: [  # noqa: E731  (a def would say no more)
        (row[name] is not None, row[name] if row[name] is not None else 0) for name in ("day", *sorted(how.columns))
    ]
    ordered = sorted(rows, key=key)
    if spec.at_most is not None:
        ordered = ordered[: spec.at_most] if spec.keep == "first" else ordered[-spec.at_most :]
    one: dict[str, Any] = {"person": 5}
    for made, (name, day) in spec.periods.items():
        own = [row for row in ordered if row["day"] == day]
        alone = how.model_copy(update={"rows": spec.model_copy(update={"wide": {}})})
        one[made] = _naive(own, alone)[name] if own else None
    for name, column in how.columns.items():
        aggregate = spec.aggregate(name)
        if aggregate in ("first", "last"):
            one[name] = ordered[0 if aggregate == "first" else -1][name]
            continue
        there = [row[name] for row in ordered if row[name] is not None]
        if name == "ill":
            there = [float(value == "yes") for value in there]
        elif isinstance(column, NumberColumn):
            there = [min(max(value, column.lower), column.upper) for value in there]
        functions: dict[str, Callable[[list[float]], float]] = {
            "sum": sum,
            "mean": lambda values: sum(values) / len(values),
            "min": min,
            "max": max,
            "any": max,
            "all": min,
        }
        value = functions[aggregate](there) if there else None
        one[name] = {1.0: "yes", 0.0: "no", None: None}[value] if aggregate in ("any", "all") else value
    if spec.count is not None:
        one[spec.count] = len(ordered)
    return one


def test_periods_are_dates_text_or_whole_numbers_and_declared() -> None:
    rows = contract({"order": "day", "wide": {"cost": ["2026-01-01", "2026-07-01"]}}).rows
    assert rows is not None
    frame = table(
        [{"person": 5, "day": day, "cost": day / 10, "dose": 1.0, "ill": "no", "ward": "a"} for day in (1, 2)]
    )
    dated = frame.with_columns(pl.Series("day", ["2026-01-01", "2026-07-01"]).str.to_date())
    columns = {"cost": NumberColumn(lower=-1, upper=0.7)}
    assert reduce_rows(dated, "person", rows, columns)["cost@2026-07-01"].to_list() == [0.2]
    whole = rows.model_copy(update={"wide": {"cost": (2026,)}})
    with pytest.raises(DataError, match="holds dates; write periods"):
        reduce_rows(dated, "person", whole, columns)
    for broken, said in (
        ({"wide": {"cost": [1]}}, "'rows.wide' needs 'rows.order'|'rows.order' is missing"),
        ({"order": "day", "wide": {"price": [1]}}, "'rows.wide' names 'price'"),
        ({"order": "day", "wide": {"cost": [1, 1]}}, "a level stands twice"),
    ):
        with pytest.raises(ValueError, match=said):
            contract(broken)


def test_a_reduction_that_goes_by_the_files_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle has power: ties by position, sums of what is not clipped, sums that run over neighbours."""
    plain = contract(ROWS[0])
    with monkeypatch.context() as patch:
        patch.setattr(
            reduction, "_in_order", lambda frame, unit, rows, _: frame.sort([unit, rows.order], maintain_order=True)
        )
        assert shuffled_differ(plain) > 0
    sums = contract(ROWS[4])
    assert sums.rows is not None
    assert sums.rows.aggregate("cost") == "sum"
    with monkeypatch.context() as patch:

        def running(members: Any, weights: Any, minlength: int) -> Any:
            total = np.concatenate([[0.0], np.cumsum(weights)])
            ends = np.searchsorted(members, np.arange(minlength), side="right")
            return np.diff(total[np.concatenate([[0], ends])])

        patch.setattr(reduction.np, "bincount", running)
        assert moved(sums) > 0, "a difference of running sums depends on who stands before"


@pytest.mark.parametrize("dtype", [pl.Boolean, pl.Int8, pl.UInt64, pl.Float32, pl.Decimal(10, 2)])
def test_types(dtype: pl.DataType) -> None:
    how = Contract.model_validate(
        {
            **BASE,
            "columns": {"n": {"lower": 0, "upper": 5}, "c": {"codes": {"no": 0, "yes": 1}}},
            "rows": {"at_most": 3, "order": "day", "aggregates": {"n": "sum", "c": "any"}},
        }
    )
    kind = dtype if dtype in (pl.Boolean, pl.Int8, pl.UInt64) else pl.Int64
    frame = pl.DataFrame({"person": ["x", "x", "y"], "day": ["b", "a", "c"], "n": [1, 0, 1], "c": [0, 1, 0]})
    frame = frame.with_columns(pl.col("n").cast(dtype), pl.col("c").cast(kind))
    assert how.rows is not None
    found = reduce_rows(frame, "person", how.rows, how.columns)
    assert found["n"].to_list() == [1.0, 1.0]
    assert found["c"].dtype == frame["c"].dtype
    assert found["c"].to_list() == [1, 0]
    empty = reduce_rows(frame.clear(), "person", how.rows, how.columns)
    assert empty.height == 0
    assert empty.schema == found.schema


@pytest.mark.parametrize("bad", [{"cost": math.nan}, {"ill": "perhaps"}])
def test_what_no_check_let_through_is_no_number_either(bad: dict[str, Any]) -> None:
    how = contract(ROWS[-1])
    assert how.rows is not None
    with pytest.raises(DataError, match="no number, or neither of its two codes"):
        reduce_rows(table([{"person": 1, **POSSIBLE[0], **bad}]), "person", how.rows, how.columns)


def test_derived_ranges() -> None:
    rows = {
        "at_most": 4,
        "order": "day",
        "count": "visits",
        "aggregates": {"cost": "sum", "dose": "sum", "ill": "mean"},
    }
    offered = contract(rows).offered
    ranges = {n: (c.lower, c.upper) for n, c in offered.items() if isinstance(c, NumberColumn)}
    assert ranges == {"cost": (-4, 2.8), "dose": (0, 12), "ill": (0, 1), "visits": (1, 4)}
    assert offered["ill"].nulls == "indicator"
    # All below 0: one row is the largest sum.
    columns = {"cost": {"lower": -3, "upper": -1}}
    below = Contract.model_validate(
        {**BASE, "columns": columns, "rows": {"at_most": 4, "order": "day", "aggregates": {"cost": "sum"}}}
    ).offered["cost"]
    assert isinstance(below, NumberColumn)
    assert (below.lower, below.upper) == (-12, -1)


def test_a_contract_of_one_row_per_unit_keeps_its_digest() -> None:
    assert contract(None).digest == Contract.model_validate(BASE).digest
    assert contract(ROWS[0]).digest != contract(None).digest
