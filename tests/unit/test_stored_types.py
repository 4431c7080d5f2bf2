"""What is declared is read from whatever type files store it in: the same rows, to the last bit, or a refusal.

One table of types that warehouses, Spark, Hive, DuckDB, pandas and polars leave behind; each of them is tried alone and
beside a file that stores the same column plainly.
"""

from __future__ import annotations

import uuid
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import yaml

from causalveil.flows.run.check import check
from causalveil.schemas.admission import Admission, contract_roles
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import DataError
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import FileEnclave
from causalveil.tasks.data.manifests import validate_stage
from causalveil.tasks.data.normalise import normalise_stage
from causalveil.tasks.data.partitions import column_types, list_partitions, read_layout, read_rows, segment_count
from tests.bad_data import AGE, CANARY, GROUP, OUTCOME, TREATMENT, UNIT, admitted, contract, document, good, study
from tests.stored import KINDS, TEXT_UNITS, WHOLE, Store, put


def enclave(folder: Path, scratch: Path, **changes: Any) -> tuple[Admission, list[Any]]:
    """The admission of a folder, and what a run's enclave holds of it."""
    given = study(**changes)
    admission = admitted(contract(**changes), folder, scratch.with_name("admission"))
    data = DataFolder(folder).held_to(admission.digests)
    found = read_layout(given, data)
    validate_stage(given, data, found, admission)
    normalise_stage(given, data, found, scratch, "run", 1)
    held = FileEnclave(scratch, segment_count(found, len(given.columns)))
    return admission, [held.gather(name) for name in "htux"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    place = tmp_path_factory.mktemp("plain")
    put(place / "data" / "a.parquet", good(40))
    put(place / "data" / "b.parquet", good(40, 40))
    return enclave(place / "data", place / "scratch")[1]


@pytest.mark.parametrize("both", [True, False], ids=["in both files", "beside a plain file"])
@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_every_type_gives_the_same_rows(kind: tuple[str, str], both: bool, expected: list[Any], tmp_path: Path) -> None:
    put(tmp_path / "data" / "a.parquet", good(40), kind[0], KINDS[kind] if both else None)
    put(tmp_path / "data" / "b.parquet", good(40, 40), kind[0], KINDS[kind])
    admission, found = enclave(tmp_path / "data", tmp_path / "scratch")
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert set(admission.casts) <= {kind[0], TREATMENT}


@pytest.mark.parametrize("kind", TEXT_UNITS)
def test_units_by_text_are_the_same_units_in_any_type(kind: str, tmp_path: Path) -> None:
    name = pl.Series([str(uuid.UUID(int=7**40 * (number + 1) % 2**128)) for number in range(80)])
    frame = good(80).with_columns(name.alias(UNIT))
    found = []
    for folder, store in (("plain", None), ("stored", TEXT_UNITS[kind])):
        put(tmp_path / folder / "data" / "a.parquet", frame[:40])
        put(tmp_path / folder / "data" / "b.parquet", frame[40:], UNIT, store)
        found.append(enclave(tmp_path / folder / "data", tmp_path / folder / "scratch")[1][0])
    assert np.array_equal(*found)


def test_digests_of_units_are_read_as_digits(tmp_path: Path) -> None:
    """Bytes of a fixed length are no text, and need not be."""
    for width in (20, 32):
        digests = pa.array([bytes([number, *[255] * (width - 1)]) for number in range(40)], pa.binary(width))
        put(tmp_path / f"{width}" / "a.parquet", good(40), UNIT, lambda _, digests=digests: digests)
        assert admitted(contract(), tmp_path / f"{width}", tmp_path / f"scratch-{width}").units == 40


CODES: dict[str, tuple[tuple[Any, Any], pa.Array]] = {
    "text codes, stored as whole numbers": (("0", "1"), pa.array([0, 1] * 12)),
    "text codes, stored as floats": (("0", "1"), pa.array([0.0, 1.0] * 12)),
    "text codes, stored as decimals": (("1", "2"), pa.array([Decimal(1), Decimal(2)] * 12, pa.decimal128(38, 9))),
    "true and false as text, stored as booleans": (("FALSE", "TRUE"), pa.array([False, True] * 12)),
    "whole codes, stored as floats": ((1, 2), pa.array([1.0, 2.0] * 12)),
    "whole codes, stored as text": ((1, 2), pa.array(["1", "2"] * 12)),
    "codes of truth, stored as text": ((False, True), pa.array(["false", "true"] * 12)),
}


def owner(codes: tuple[Any, Any]) -> Contract:
    words = contract().model_dump(mode="json", exclude_none=True)
    words["columns"][TREATMENT] = {"codes": dict(zip(("control", "treated"), codes, strict=True))}
    return Contract.model_validate(words)


@pytest.mark.parametrize("case", CODES)
def test_codes_are_known_in_any_type(case: str, tmp_path: Path) -> None:
    codes, values = CODES[case]
    put(tmp_path / "data" / "a.parquet", good(24), TREATMENT, lambda _: values)
    contracted = owner(codes)
    assert admitted(contracted, tmp_path / "data", tmp_path / "scratch").units == 24
    (partition,) = list_partitions(DataFolder(tmp_path / "data"), None).partitions
    roles = {TREATMENT: contract_roles(contracted)[TREATMENT]}
    (frame,) = read_rows(DataFolder(tmp_path / "data"), partition, roles, 100)
    read = {code if isinstance(code, str) else int(code) for code in codes}
    assert frame[TREATMENT].to_list()[:2] == sorted(read)


@pytest.mark.parametrize(
    "values",
    [[0.0, 0.5], ["0", "01"], ["0", "1.0"], [Decimal("0.00"), Decimal("0.01")], [0.0, 2.0**60], [0, 2**63]],
    ids=str,
)
def test_a_value_that_a_cast_would_change_is_a_finding(values: list[Any], tmp_path: Path) -> None:
    given = (
        pa.array(values * 12) if isinstance(values[1], float | str | Decimal) else pa.array(values * 12, pa.uint64())
    )
    put(tmp_path / "data" / "a.parquet", good(24), TREATMENT, lambda _: given)
    with pytest.raises(DataError, match=f"a.parquet: column '{TREATMENT}' must hold 0 and 1 only"):
        admitted(contract(), tmp_path / "data", tmp_path / "scratch")


def test_nan_is_missing_in_numbers_codes_and_levels(tmp_path: Path) -> None:
    gap = pl.int_range(pl.len()) % 4 == 0
    missing = {"missing": "indicator", "covariates": {AGE: {"lower": 20, "upper": 40}, GROUP: {"levels": [1, 2, 3]}}}
    whole = good(40).with_columns(pl.col(GROUP).replace_strict({"a": 1, "b": 2, "c": 3}))
    nulls = whole.with_columns(pl.when(~gap).then(pl.col(AGE, GROUP)))
    nan = whole.with_columns(
        pl.when(gap).then(float("nan")).otherwise(pl.col(name).cast(pl.Float64)).alias(name) for name in (AGE, GROUP)
    )
    found = []
    for name, frame in (("nulls", nulls), ("nan", nan)):
        put(tmp_path / name / "data" / "a.parquet", frame)
        found.append(enclave(tmp_path / name / "data", tmp_path / name / "scratch", **missing)[1])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_the_manifest_names_what_is_read_otherwise_than_it_is_stored(tmp_path: Path) -> None:
    put(tmp_path / "data" / "a.parquet", good(24), AGE, WHOLE["NUMBER(38, 0)"])
    put(tmp_path / "data" / "b.parquet", good(24, 24), AGE, WHOLE["int32"])
    casts = admitted(contract(), tmp_path / "data", tmp_path / "scratch").casts
    assert casts[AGE].stored == ("Decimal(precision=38, scale=0)", "Int32")
    assert casts[AGE].read == "Float64"
    assert set(casts) == {AGE, TREATMENT}


ODD = {
    "a record": pa.array([{"a": 1}] * 24),
    "a list": pa.array([[CANARY]] * 24),
    "a map": pa.array([[("a", 1)]] * 24, pa.map_(pa.string(), pa.int64())),
    "bytes that are no text": pa.array([b"\xff\xfe"] * 24),
    "nothing": pa.nulls(24),
    "days": pa.array([date(2026, 1, 1)] * 24),
    "moments of a zone": pa.array([0] * 24, pa.timestamp("ns", "America/New_York")),
}


@pytest.mark.parametrize("case", ODD)
def test_columns_that_nobody_declared_may_be_anything(case: str, tmp_path: Path) -> None:
    put(tmp_path / "data" / "a.parquet", good(24).with_columns(pl.lit(0).alias("odd")), "odd", lambda _: ODD[case])
    assert admitted(contract(), tmp_path / "data", tmp_path / "scratch").units == 24


def test_an_interval_of_duckdb_is_no_obstacle(tmp_path: Path) -> None:
    import duckdb

    (tmp_path / "data").mkdir()
    frame = good(24).to_arrow()  # noqa: F841
    duckdb.sql(f"COPY (SELECT *, INTERVAL 1 DAY AS i FROM frame) TO '{tmp_path}/data/a.parquet'")
    assert admitted(contract(), tmp_path / "data", tmp_path / "scratch").units == 24


@pytest.mark.parametrize("column", [TREATMENT, AGE, GROUP])
@pytest.mark.parametrize("case", [case for case in ODD if case not in ("bytes that are no text",)])
def test_what_footers_tell_is_told_by_check_and_by_admission(case: str, column: str, tmp_path: Path) -> None:
    """Whatever a run would refuse by the types of any file, `check` names with column and file."""
    folder = tmp_path / "data"
    put(folder / "a.parquet", good(24))
    put(folder / "b.parquet", good(24, 24), column, lambda _: ODD[case])
    write_documents(folder)
    told = [problem.text for problem in check(folder / "study.yaml")]
    assert any("b.parquet" in text and f"'{column}'" in text for text in told), told
    assert CANARY not in "".join(told)
    with pytest.raises(DataError, match=rf"b.parquet: column '{column}'"):
        admitted(contract(), folder, tmp_path / "scratch")


def test_check_looks_at_every_file_and_at_columns_that_the_study_does_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for number in range(6):
        put(folder / f"{number}.parquet", good(4, 4 * number).drop(GROUP) if number > 2 else good(4, 4 * number))
    write_documents(folder, covariates=[AGE])
    told = [problem.text for problem in check(folder / "study.yaml")]
    assert any(text.startswith(f"3.parquet (and 2 more): column '{GROUP}' is missing") for text in told), told


@pytest.mark.parametrize(
    "store", [lambda values: pa.nulls(len(values)), None], ids=["without types", "without columns"]
)
def test_a_file_without_rows_says_nothing_of_its_columns(
    store: Store | None, expected: list[Any], tmp_path: Path
) -> None:
    put(tmp_path / "data" / "0.parquet", good(0) if store else good(0).drop(AGE, UNIT), AGE, store)
    put(tmp_path / "data" / "a.parquet", good(40))
    put(tmp_path / "data" / "b.parquet", good(40, 40))
    write_documents(tmp_path / "data")
    assert check(tmp_path / "data" / "study.yaml") == []
    found = enclave(tmp_path / "data", tmp_path / "scratch")[1]
    assert all(np.array_equal(np.sort(a, axis=0), np.sort(b, axis=0)) for a, b in zip(found, expected, strict=True))


def test_types_are_those_in_which_rows_come(tmp_path: Path) -> None:
    for (column, name), store in KINDS.items():
        put(tmp_path / "a.parquet", good(4), column, store)
        (partition,) = list_partitions(DataFolder(tmp_path), None).partitions
        assert column_types(DataFolder(tmp_path), partition)[column] != pl.Unknown, (column, name)


def write_documents(folder: Path, covariates: list[str] | None = None) -> None:
    """The contract and the study of the good data, as files."""
    words = contract().model_dump(mode="json", exclude_none=True)
    words["caps"] = {"sample": {"epsilon": 10, "delta": 1e-4}}
    (folder / "dataset.yaml").write_text(yaml.safe_dump(words))
    asked = document()
    asked |= {"data": {"path": "."}, "outcome": {"name": OUTCOME}, "covariates": covariates or [AGE, GROUP]}
    (folder / "study.yaml").write_text(yaml.safe_dump(asked))
