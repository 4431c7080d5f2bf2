from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.enclave.partitions import read_layout
from causalveil.tasks.enclave.rows import segment_folder
from causalveil.tasks.enclave.validate import check_unique, validate_stage
from causalveil.tasks.machine.arrays_on_disk import load_array
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
    good,
    study,
    write,
)


def run(given: IpwStudy, folder, scratch) -> Layout:
    layout = read_layout(given, folder)
    validate_stage(given, folder, layout, scratch, "run")
    return layout


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
        run(case.study, folder, tmp_path / "scratch")
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
def test_an_environment_variable_cannot_switch_validation_off(case: BadData, tmp_path, monkeypatch):
    import pandera.config

    for setting in ({"validation_enabled": False}, {"validation_depth": pandera.config.ValidationDepth.SCHEMA_ONLY}):
        with pandera.config.config_context(**setting):
            folder = tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
            case.write(folder)
            with pytest.raises(DataError):
                run(case.study, folder, tmp_path / "scratch")


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
    given = study(**changes)
    run(given, write(tmp_path / "data", frame), tmp_path / "scratch")


def test_empty_partitions_are_fine_beside_full_ones(tmp_path):
    folder = write(tmp_path / "data", good(0), good(24), good(0))
    layout = run(study(), folder, tmp_path / "scratch")
    assert [partition.rows for partition in layout.partitions] == [0, 24, 0]


def test_categories_may_differ_between_partitions(tmp_path):
    frames = [good(2).with_columns(pl.col(GROUP).cast(pl.Enum(entries))) for entries in (["a", "b"], ["b", "a", "c"])]
    frames[1] = frames[1].with_columns(pl.col(UNIT) + 1)
    run(study(), write(tmp_path / "data", *frames), tmp_path / "scratch")


def test_a_file_that_grew_since_the_plan_is_refused(tmp_path):
    folder = write(tmp_path / "data", good(24))
    layout = Layout(partitions=(Partition(path="part-0.parquet", rows=23, block="all"),), dataset_blocks=("all",))
    with pytest.raises(DataError, match="number of rows"):
        validate_stage(study(), folder, layout, tmp_path / "scratch", "run")


def test_hashes_are_left_sorted_private_and_keyed_by_the_run(tmp_path):
    folder = write(tmp_path / "data", good(24))
    given, layout = study(), read_layout(study(), folder)
    found = []
    for run_id, seed in (("one", None), ("two", None), ("one", None), ("one", 7), ("two", 7)):
        validate_stage(given, folder, layout, tmp_path / "scratch", run_id, seed)
        path = segment_folder(tmp_path / "scratch", 0) / "h.npy"
        assert path.stat().st_mode & 0o777 == 0o600
        found.append(load_array(path).copy())
        assert np.all(found[-1][1:, 0] >= found[-1][:-1, 0])
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[3], found[4])
    assert len({hashes.tobytes() for hashes in found}) == 3


@pytest.mark.parametrize("range_units", [1, 7, 1000])
def test_uniqueness_is_checked_on_all_128_bits_and_in_every_range(range_units):
    generator = np.random.default_rng(3)
    hashes = generator.integers(0, 2**64, (300, 2), dtype=np.uint64)
    # Equal high words are no repeat; the ends of the hash range belong to a range too.
    hashes[10:20, 0] = hashes[10, 0]
    hashes[20] = 0
    hashes[21] = 2**64 - 1
    parts = [part[np.lexsort((part[:, 1], part[:, 0]))] for part in np.array_split(hashes, 3)]
    check_unique(parts, range_units)
    for copied in (15, 20, 21, 299):
        with_copy = [*parts, hashes[copied : copied + 1]]
        with pytest.raises(DataError):
            check_unique(with_copy, range_units)


def test_no_units_are_unique():
    check_unique([np.empty((0, 2), dtype=np.uint64)])
