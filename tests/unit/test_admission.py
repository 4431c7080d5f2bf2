from __future__ import annotations

from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from causalveil.schemas import contract_schema
from causalveil.schemas.admission import (
    ADMISSION_FILE,
    NotAdmitted,
    Rule,
    contract_roles,
    declarations,
    load_admission,
    read_frame,
    row_rules,
    wrong_types,
)
from causalveil.schemas.columns import Column, Holds, Nulls
from causalveil.schemas.contract import BlockKey
from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.tasks.data import admit
from causalveil.tasks.data.admit import Rules, SeenHashes, SeenUnits
from causalveil.tasks.data.data_folder import DataFolder, file_digest, held_file
from causalveil.tasks.data.manifests import keep_beside
from causalveil.tasks.data.partitions import list_partitions
from causalveil.tasks.machine import folders
from tests.bad_data import (
    AGE,
    CANARY,
    CANARY_NUMBER,
    GROUP,
    LAYOUT_CASES,
    OUTCOME,
    TREATMENT,
    UNIT,
    VALUE_CASES,
    BadData,
    admitted,
    contract,
    good,
    write,
)


def everything_said(error: BaseException) -> str:
    """The message and those of all errors that hang on it: Prefect stores the whole chain."""
    said, queue = [], [error]
    while queue:
        current = queue.pop()
        said += [str(current), repr(current), repr(current.args)]
        queue += [linked for linked in (current.__cause__, current.__context__) if linked is not None]
    return "\n".join(said)


@pytest.mark.parametrize("case", [*LAYOUT_CASES, *VALUE_CASES], ids=lambda case: case.name)
def test_bad_data_is_refused_by_column_and_rule_without_a_value(case: BadData, tmp_path):
    folder = tmp_path / "data"
    case.write(folder)
    with pytest.raises(DataError) as caught:
        admitted(case.contract, folder, tmp_path / "scratch")
    message = str(caught.value)
    assert "\n" not in message
    for words in case.says:
        assert words in message
    said = everything_said(caught.value)
    assert CANARY not in said
    assert str(CANARY_NUMBER) not in said
    # No reader's or pandera's error may hang on ours: they hold frames and failing values.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("case", VALUE_CASES, ids=lambda case: case.name)
def test_a_file_that_is_read_piece_by_piece_is_held_to_the_same(
    case: BadData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small files are looked at together, large ones in pieces: the owner is told the same."""
    case.write(tmp_path / "data")
    told = []
    for name, most in (("small", folders.SMALL_BYTES), ("large", 0)):
        monkeypatch.setattr(folders, "SMALL_BYTES", most)
        with pytest.raises(NotAdmitted) as caught:
            admitted(case.contract, tmp_path / "data", tmp_path / name)
        told.append(caught.value.findings)
    assert told[0] == told[1]


@pytest.mark.parametrize("case", VALUE_CASES, ids=lambda case: case.name)
def test_an_environment_variable_cannot_switch_the_checks_off(case: BadData, tmp_path, monkeypatch):
    import pandera.config

    for setting in ({"validation_enabled": False}, {"validation_depth": pandera.config.ValidationDepth.SCHEMA_ONLY}):
        with pandera.config.config_context(**setting):
            folder = tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
            case.write(folder)
            with pytest.raises(DataError):
                admitted(case.contract, folder, folder.with_name(f"scratch-of-{folder.name}"))


def accepted():
    frame = good()
    yield "as is", frame, {}
    yield "boolean treatment", frame.with_columns(pl.col(TREATMENT).cast(pl.Boolean)), {}
    yield "unsigned treatment", frame.with_columns(pl.col(TREATMENT).cast(pl.UInt64)), {}
    yield "text unit", frame.with_columns(pl.format("id-{}", UNIT).alias(UNIT)), {}
    yield "dictionary unit", frame.with_columns(pl.col(UNIT).cast(pl.String).cast(pl.Categorical)), {}
    yield "bytes as unit", frame.with_columns(pl.format("id-{}", UNIT).cast(pl.Binary).alias(UNIT)), {}
    yield "float unit", frame.with_columns(pl.col(UNIT).cast(pl.Float64)), {}
    yield "decimal unit", frame.with_columns(pl.col(UNIT).cast(pl.Decimal(38, 0))), {}
    yield "float treatment", frame.with_columns(pl.col(TREATMENT).cast(pl.Float64)), {}
    yield "decimal treatment", frame.with_columns(pl.col(TREATMENT).cast(pl.Decimal(38, 9))), {}
    yield "text treatment", frame.with_columns(pl.col(TREATMENT).cast(pl.String)), {}
    yield "words as treatment", frame.with_columns((pl.col(TREATMENT) == 1).cast(pl.String).str.to_titlecase()), {}
    yield "small unit", frame.with_columns(pl.col(UNIT).cast(pl.UInt16)), {}
    yield "integer covariate", frame.with_columns(pl.col(AGE).cast(pl.Int16)), {}
    yield "boolean covariate", frame.with_columns(pl.col(AGE) > 25), {}
    yield "decimal covariate", frame.with_columns(pl.col(AGE).cast(pl.Decimal(12, 3))), {}
    yield "decimal outcome", frame.with_columns(pl.col(OUTCOME).cast(pl.Decimal(12, 3))), {}
    yield "integer outcome", frame.with_columns(pl.col(OUTCOME).cast(pl.Int32)), {}
    yield "float32", frame.with_columns(pl.col(AGE, OUTCOME).cast(pl.Float32)), {}
    yield "categorical", frame.with_columns(pl.col(GROUP).cast(pl.Categorical)), {}
    yield "enum", frame.with_columns(pl.col(GROUP).cast(pl.Enum(["c", "b", "a", "unused"]))), {}
    yield "extra column", frame.with_columns(pl.lit(CANARY).alias("note")), {}
    codes = frame.with_columns(pl.col(GROUP).replace_strict({"a": 1, "b": 2, "c": 3}, return_dtype=pl.Int8))
    levels = {"covariates": {AGE: {"lower": 20, "upper": 40}, GROUP: {"levels": [1, 2, 3, 2**70, 4000]}}}
    yield "integer levels, some beyond the column's type", codes, levels
    nulls = frame.with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then(pl.col(AGE, GROUP)))
    yield "nulls under indicator", nulls, {"missing": "indicator"}
    gaps = frame.with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then(pl.col(AGE)).otherwise(float("nan")))
    yield "NaN under indicator", gaps, {"missing": "indicator"}
    nothing = frame.with_columns(pl.lit(None).alias(AGE), pl.lit(None).alias(GROUP))
    yield "columns of no value under indicator", nothing, {"missing": "indicator"}
    yield "one arm empty", frame.with_columns(pl.lit(1).cast(pl.Int8).alias(TREATMENT)), {}
    yield "far beyond the bounds", frame.with_columns(pl.col(AGE, OUTCOME) * 1e300), {}


@pytest.mark.parametrize(("frame", "changes"), [pytest.param(f, c, id=n) for n, f, c in accepted()])
def test_good_data_passes(frame, changes, tmp_path):
    admission = admitted(contract(**changes), write(tmp_path / "data", frame), tmp_path / "scratch")
    assert admission.units == frame.height


def test_empty_partitions_are_fine_beside_full_ones(tmp_path):
    folder = write(tmp_path / "data", good(0), good(24), good(0))
    admission = admitted(contract(), folder, tmp_path / "scratch")
    assert [file.rows for file in admission.files] == [0, 24, 0]


def test_categories_may_differ_between_partitions(tmp_path):
    frames = [good(2).with_columns(pl.col(GROUP).cast(pl.Enum(entries))) for entries in (["a", "b"], ["b", "a", "c"])]
    frames[1] = frames[1].with_columns(pl.col(UNIT) + 1)
    admitted(contract(), write(tmp_path / "data", *frames), tmp_path / "scratch")


def test_every_problem_is_told_at_once_with_counts(tmp_path: Path) -> None:
    first = good(24).with_columns(pl.when(pl.int_range(24) < 3).then(None).otherwise(pl.col(AGE)).alias(AGE))
    second = good(24, 20).with_columns(
        pl.when(pl.int_range(24) < 5).then(pl.lit(CANARY)).otherwise(pl.col(GROUP)).alias(GROUP),
        pl.when(pl.int_range(24) < 2).then(float("nan")).otherwise(pl.col(OUTCOME)).alias(OUTCOME),
        pl.lit(date(2026, 1, 1)).alias(TREATMENT),
    )
    with pytest.raises(NotAdmitted) as caught:
        admitted(contract(), write(tmp_path / "data", first, second), tmp_path / "scratch")
    found = {(one.path, one.column, one.rows) for one in caught.value.findings}
    assert found == {
        ("part-0.parquet", AGE, 3),
        ("part-1.parquet", GROUP, 5),
        ("part-1.parquet", OUTCOME, 2),
        ("part-1.parquet", TREATMENT, None),
        (None, UNIT, 4),
    }
    assert not any(character.isdigit() for character in str(caught.value).replace("part-0", "").replace("part-1", ""))


@pytest.mark.parametrize("most", [1, 7, 1024])
def test_the_one_bad_file_of_many_small_ones_is_named(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admit, "MOST_FILES", most)
    frames = [good(6, 6 * number) for number in range(40)]
    frames[17] = frames[17].with_columns(
        pl.when(pl.int_range(6) > 3).then(float("inf")).otherwise(pl.col(AGE)).alias(AGE)
    )
    frames[23] = frames[23].with_columns(pl.lit(CANARY).alias(GROUP))
    frames[30] = good(6, 6 * 29)
    with pytest.raises(NotAdmitted) as caught:
        admitted(contract(), write(tmp_path / "data", *frames), tmp_path / "scratch")
    assert [(one.path, one.column, one.rows) for one in caught.value.findings] == [
        ("part-17.parquet", AGE, 2),
        ("part-23.parquet", GROUP, 6),
        (None, UNIT, 6),
    ]


HUGE = (1.7e308, 1.7e308, -1.7e308)


@given(
    numbers=st.lists(st.none() | st.floats(allow_nan=True) | st.sampled_from(HUGE), max_size=12),
    dtype=st.sampled_from([pl.Float64(), pl.Float32()]),
    nulls=st.booleans(),
)
def test_what_is_not_suspected_breaks_no_rule(numbers: list[float | None], dtype: pl.DataType, nulls: bool) -> None:
    """The cheap look may suspect in vain, as sums overflow, and must never miss a row; rules do the counting."""
    role = Column(holds=Holds.number, nulls=Nulls.welcome if nulls else Nulls.undeclared)
    frame = read_frame(pl.DataFrame({"x": pl.Series(numbers, dtype=pl.Float64)}).cast(dtype), {"x": role}, widen=False)
    rules = Rules({"x": role})
    expected = {rule: int(frame.select(b(pl.col("x")).sum()).item()) for rule, b in row_rules(role, dtype).items()}
    expected = {rule: rows for rule, rows in expected.items() if rows}
    assert {rule: rows for (_, rule), rows in rules.broken(frame, {"x": dtype}).items()} == expected
    assert rules.keep(frame) == (not expected)


def test_a_unit_may_stand_in_several_blocks_where_the_owner_says_so(tmp_path: Path) -> None:
    for month in ("1", "2"):
        write(tmp_path / "data" / f"month={month}", good(24))
    apart = contract(data={"path": ".", "unit": UNIT, "blocks": "month"})
    with pytest.raises(NotAdmitted, match="twice") as caught:
        admitted(apart, tmp_path / "data", tmp_path / "apart")
    assert [one.rows for one in caught.value.findings] == [24]
    spanning = apart.model_copy(update={"blocks": BlockKey(key="month", units_span=True)})
    assert admitted(spanning, tmp_path / "data", tmp_path / "spanning").units == 48
    write(tmp_path / "data" / "month=2", good(24), good(1))
    with pytest.raises(NotAdmitted) as caught:
        admitted(spanning, tmp_path / "data", tmp_path / "again")
    assert [(one.path, one.rows) for one in caught.value.findings] == [("month=2", 1)]


def test_a_manifest_is_a_function_of_bytes_and_contract(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", good(24), good(24, 24))
    first = admitted(contract(), folder, tmp_path / "first")
    assert admitted(contract(), folder, tmp_path / "second").digest == first.digest
    # What is said of budgets and for people changes nothing; what is said of rows does.
    owner = contract()
    assert declarations(owner.model_copy(update={"public": (AGE,)})) == first.declares
    assert declarations(contract(covariates={AGE: {"lower": 20, "upper": 41}})) != first.declares
    path = folder / "part-1.parquet"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(bytes(content))
    assert digest_of(path, first.key) != first.files[1].digest
    assert digest_of(folder / "part-0.parquet", first.key) == first.files[0].digest
    assert digest_of(folder / "part-0.parquet", "00" * 16) != first.files[0].digest
    path.write_bytes(path.read_bytes())
    assert load_admission(keep_beside(DataFolder(folder), first)) == first
    assert (folder / ADMISSION_FILE).stat().st_mode & 0o777 == path.stat().st_mode & 0o666


def digest_of(path: Path, key: str) -> str:
    with DataFolder(path.parent).file(path.name) as file:
        return file_digest(file, key)


def test_digests_are_keyed_blake3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the pieces: a small file at once, a larger one by chunks."""
    content = bytes(range(256)) * 9000
    path = tmp_path / "file"
    path.write_bytes(content)
    key = blake3(bytes(16), derive_key_context="causalveil data contents v2").digest()
    expected = blake3(content, key=key).hexdigest()
    assert digest_of(path, "00" * 16) == expected
    assert digest_of(path, "01" * 16) != expected
    monkeypatch.setattr(folders, "SMALL_BYTES", 0)
    assert digest_of(path, "00" * 16) == expected
    path.write_bytes(content[:-1])
    assert digest_of(path, "00" * 16) != expected


@pytest.mark.parametrize("small", [True, False])
def test_a_file_is_held_to_what_was_admitted_while_it_is_read(
    small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SMALL_BYTES", 1 << 23 if small else 0)
    folder = write(tmp_path / "data", good(24), good(24, 24))
    admission, data = admitted(contract(), folder, tmp_path / "scratch"), DataFolder(folder)
    (_, partition), held = list_partitions(data, None).partitions, data.held_to(admission.digests)
    second = folder / "part-1.parquet"
    content = second.read_bytes()
    with held_file(held, partition):
        pass
    for bad in (bytes([*content[:200], content[200] ^ 1, *content[201:]]), content[:-1], content + b"x"):
        second.write_bytes(bad)
        with pytest.raises(DataError, match="changed since"), held_file(held, partition):
            pytest.fail("nothing of it may be read")
    second.write_bytes(content)
    # What is decoded of a small file is what was digested, in memory; a larger one may not be written to.
    ends = nullcontext() if small else pytest.raises(DataError, match="changed since")
    with ends, held_file(held, partition) as file:
        second.write_bytes(bytes(len(content)))
        assert file.content == (content if small else None)
    second.write_bytes(content)
    with data.file(partition.path) as file:
        # The open file is read, whatever has its name by now.
        second.rename(tmp_path / "elsewhere")
        second.write_bytes(bytes(len(content)))
        assert Path(file.place).read_bytes() == content
        assert b"".join(file.chunks()) == content
        assert file.changed is not small
    second.unlink()
    with pytest.raises(DataError, match="changed since"), held_file(held, partition):
        pytest.fail("it is gone")


@pytest.mark.parametrize("file_units", [1, 7, 1000])
def test_units_are_told_apart_by_all_128_bits_and_over_all_files(file_units: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    hashes = generator.integers(0, 2**64, (300, 2), dtype=np.uint64)
    # Equal high words are no repeat; the ends of the hash range belong to a file too.
    hashes[10:20, 0] = hashes[10, 0]
    hashes[20] = 0
    hashes[21] = 2**64 - 1
    seen = SeenHashes(tmp_path / "seen", 300, file_units)
    for part in np.array_split(hashes, 3):
        seen.add(part)
    assert seen.repeated() == 0
    assert sum(path.stat().st_size for path in (tmp_path / "seen").iterdir()) == 300 * 16
    for count, copied in enumerate((15, 20, 21, 299, 299), start=1):
        seen.add(hashes[copied : copied + 1])
        assert seen.repeated() == count


def test_no_units_are_unique(tmp_path: Path) -> None:
    assert SeenHashes(tmp_path / "seen", 0).repeated() == 0
    assert SeenUnits(tmp_path / "units", 0, bytes(16)).repeated() == 0


PIECES: dict[str, tuple[list[list[int]], int]] = {
    "rising": ([[1, 5, 9], [10, 12], [-(2**63), 0]], 0),
    "counting": ([[1, 2, 3], [4, 5], [7, 8]], 0),
    "counting, in a gap": ([[1, 5, 9], [2, 3, 4]], 0),
    "counting, over a gap": ([[1, 5, 9], [3, 4, 5, 6]], 1),
    "counting, over another": ([[1, 2, 3], [2, 3, 4]], 2),
    "counting, then falling over it": ([[1, 2, 3], [5, 4, 3]], 1),
    "rising, in each other's gaps": ([[1, 5, 9], [2, 6, 10]], 0),
    "rising, one in both": ([[1, 5, 9], [2, 5, 10]], 1),
    "rising, end on start": ([[1, 5, 9], [9, 10]], 1),
    "one after the other alike": ([[1, 2, 2, 3]], 1),
    "rising, then falling": ([[1, 2, 3], [6, 5, 4]], 0),
    "rising, then falling over it": ([[1, 2, 3], [4, 3, 2]], 2),
    "falling, then rising over it": ([[4, 3, 2], [1, 2, 3]], 2),
    "a piece of none": ([[1, 2], [], [2]], 1),
}


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("dtype", [pl.Int64, pl.Int16, pl.String])
def test_units_stand_twice_whatever_their_order(name: str, dtype: Any, tmp_path: Path) -> None:
    pieces, expected = PIECES[name]
    seen = SeenUnits(tmp_path / "seen", 9, bytes(range(16)))
    for piece in pieces:
        seen.add(pl.Series([max(number, -9) for number in piece], dtype=pl.Int64).cast(dtype))
    assert seen.repeated() == expected


def test_units_beyond_64_signed_bits_are_told_apart(tmp_path: Path) -> None:
    seen = SeenUnits(tmp_path / "seen", 4, bytes(range(16)))
    seen.add(pl.Series([1, 2**63 - 1], dtype=pl.UInt64))
    seen.add(pl.Series([2**63, 2**64 - 1], dtype=pl.UInt64))
    assert seen.repeated() == 0
    seen.add(pl.Series([1], dtype=pl.UInt64))
    assert seen.repeated() == 1


def test_numbers_that_count_to_the_last_of_64_bits_are_told_apart(tmp_path: Path) -> None:
    seen = SeenUnits(tmp_path / "seen", 4, bytes(range(16)))
    seen.add(pl.Series([2**63 - 2, 2**63 - 1], dtype=pl.Int64))
    seen.add(pl.Series([-(2**63), 2**63 - 1], dtype=pl.Int64))
    assert seen.repeated() == 1


@pytest.mark.parametrize("small", [True, False])
def test_the_schema_is_the_only_place_where_a_rule_is_spelled(
    small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its check of infinity, the very rows that it refused are admitted; all other rules stand."""
    monkeypatch.setattr(folders, "SMALL_BYTES", 1 << 23 if small else 0)
    frame = good(24).with_columns(
        pl.when(pl.int_range(24) == 3).then(float("inf")).otherwise(pl.col(AGE)).alias(AGE),
    )
    folder = write(tmp_path / "data", frame)
    with pytest.raises(NotAdmitted, match="infinity"):
        admitted(contract(), folder, tmp_path / "whole")
    make = contract_schema.ContractSchema.__init__

    def without_infinity(self: contract_schema.ContractSchema, roles: Any) -> None:
        make(self, roles)
        self.schema.checks = [check for check in self.schema.checks if check.name != Rule.finite.value]

    monkeypatch.setattr(contract_schema.ContractSchema, "__init__", without_infinity)
    assert admitted(contract(), folder, tmp_path / "mutated").units == 24
    worse = write(tmp_path / "worse", frame.with_columns(pl.lit(CANARY).alias(GROUP)))
    with pytest.raises(NotAdmitted, match="declared levels"):
        admitted(contract(), worse, tmp_path / "worse-scratch")


def test_a_column_that_is_taken_off_the_schema_may_be_of_any_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = good(24).with_columns(pl.lit(CANARY).alias(AGE))
    folder = write(tmp_path / "data", frame)
    with pytest.raises(NotAdmitted, match="must be an integer, float"):
        admitted(contract(), folder, tmp_path / "whole")
    schema = contract_schema.ContractSchema(contract_roles(contract()))
    types = dict(frame.schema)
    assert schema.wrong(types) == {AGE: Rule.number_type}
    schema = contract_schema.ContractSchema(contract_roles(contract()))
    schema.schema = schema.schema.remove_columns([AGE])
    assert schema.wrong(types) == {}


def test_a_check_that_cannot_be_carried_out_admits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pandera takes an error within a check for a failure without cases: that must not count as no wrong row."""

    def broken(_: object, __: pl.LazyFrame) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr(contract_schema.Tally, "of", broken)
    with pytest.raises(CausalveilError, match="could not be held to their contract") as caught:
        admitted(contract(), write(tmp_path / "data", good(24)), tmp_path / "scratch")
    assert CANARY not in everything_said(caught.value)


@given(st.lists(st.sampled_from(["*", "'*'", "^age$", "'^age$'", "^", "age", "'age'", "a'b"]), unique=True, min_size=1))
def test_no_two_columns_share_a_name_in_the_schema(names: list[str]) -> None:
    schema = contract_schema.ContractSchema(dict.fromkeys(names, Column(holds=Holds.number)))
    assert [column.title for column in schema.schema.columns.values()] == names
    assert schema.wrong(dict.fromkeys(names, pl.Float64())) == {}
    assert schema.wrong(dict.fromkeys(names[1:], pl.Float64())) == {names[0]: Rule.missing}
    assert schema.wrong({**dict.fromkeys(names, pl.Float64()), names[0]: pl.Unknown()}) == {names[0]: Rule.number_type}


STORED = [
    *(pl.Int64(), pl.UInt64(), pl.Int8(), pl.Float32(), pl.Float64(), pl.Decimal(20, 2), pl.Boolean(), pl.String()),
    *(pl.Date(), pl.Time(), pl.Datetime("ns"), pl.Duration("ms"), pl.Null(), pl.Unknown()),
]


@given(st.dictionaries(st.sampled_from([UNIT, TREATMENT, OUTCOME, AGE, GROUP, "another"]), st.sampled_from(STORED)))
def test_what_is_said_of_footers_without_pandera_is_what_pandera_says(types: dict[str, pl.DataType]) -> None:
    for owner in (contract(), contract(missing="indicator")):
        roles = contract_roles(owner)
        assert wrong_types(roles, types) == contract_schema.ContractSchema(roles).wrong(types)
