from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.admission.manifest import (
    ADMISSION_FILE,
    NotAdmitted,
    declarations,
    load_admission,
)
from causalveil.schemas.contract import BlockKey
from causalveil.schemas.errors import DataError
from causalveil.tasks.admission.kept import keep_beside
from causalveil.tasks.admission.units import SeenUnits
from causalveil.tasks.enclave.contents import file_digest, held_to
from causalveil.tasks.enclave.partitions import list_partitions
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
        pl.lit("text").alias(TREATMENT),
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
    assert file_digest(path, first.key) != first.files[1].digest
    assert file_digest(folder / "part-0.parquet", first.key) == first.files[0].digest
    assert file_digest(folder / "part-0.parquet", "00" * 16) != first.files[0].digest
    path.write_bytes(path.read_bytes())
    assert load_admission(keep_beside(folder, first)) == first
    assert (folder / ADMISSION_FILE).stat().st_mode & 0o777 == path.stat().st_mode & 0o666


def test_a_file_is_held_to_what_was_admitted_while_it_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", good(24), good(24, 24))
    admission, layout = admitted(contract(), folder, tmp_path / "scratch"), list_partitions(folder, None)
    second = folder / "part-1.parquet"
    content = second.read_bytes()
    with held_to(admission, folder, layout.partitions[1]):
        pass
    for bad in (bytes([*content[:200], content[200] ^ 1, *content[201:]]), content[:-1], content + b"x"):
        second.write_bytes(bad)
        with pytest.raises(DataError, match="changed since"), held_to(admission, folder, layout.partitions[1]):
            pytest.fail("nothing of it may be read")
    second.write_bytes(content)
    with pytest.raises(DataError, match="changed since"), held_to(admission, folder, layout.partitions[1]):
        second.write_bytes(content)
    second.unlink()
    with pytest.raises(DataError, match="changed since"), held_to(admission, folder, layout.partitions[1]):
        pytest.fail("it is gone")


@pytest.mark.parametrize("file_units", [1, 7, 1000])
def test_units_are_told_apart_by_all_128_bits_and_over_all_files(file_units: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    hashes = generator.integers(0, 2**64, (300, 2), dtype=np.uint64)
    # Equal high words are no repeat; the ends of the hash range belong to a file too.
    hashes[10:20, 0] = hashes[10, 0]
    hashes[20] = 0
    hashes[21] = 2**64 - 1
    seen = SeenUnits(tmp_path / "seen", 300, file_units)
    for part in np.array_split(hashes, 3):
        seen.add(part)
    assert seen.repeated() == 0
    assert sum(path.stat().st_size for path in (tmp_path / "seen").iterdir()) == 300 * 16
    for count, copied in enumerate((15, 20, 21, 299, 299), start=1):
        seen.add(hashes[copied : copied + 1])
        assert seen.repeated() == count


def test_no_units_are_unique(tmp_path: Path) -> None:
    assert SeenUnits(tmp_path / "seen", 0).repeated() == 0
