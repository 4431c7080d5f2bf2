from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.asked.compare import asks_for
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.study import MissingOutcome
from causalveil.tasks.data.covariates import dimension, feature_names, scale
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import segment_folder
from causalveil.tasks.data.normalise import columns, encode, normalise_stage, scaled_outcome, write_covariates
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.data.split import HASH_LABEL, keyed_hash
from causalveil.tasks.machine.arrays import load_array
from causalveil.tasks.privacy.keys import simulated_key
from tests.bad_data import AGE, CANARY, GROUP, OUTCOME, TREATMENT, UNIT, admitted, contract, good, study, write
from tests.studies import CONTRACT


def encoded(given, frame: pl.DataFrame) -> np.ndarray:
    return encode(given, columns(given, frame), np.arange(frame.height))


def normalised(given, folder, scratch):
    """x, t, u, h of every partition after both stages."""
    layout = read_layout(given, DataFolder(folder))
    normalise_stage(given, DataFolder(folder), layout, scratch, "run", 1)
    places = [segment_folder(scratch, index) for index in range(len(layout.partitions))]
    return [tuple(load_array(place / f"{name}.npy") for name in "xtuh") for place in places]


COVARIATES = {
    "b_group": {"levels": ["a", "b", "c"]},
    "a_age": {"lower": 20, "upper": 40},
    "c_code": {"levels": [7, 3]},
}


def test_a_number_is_read_on_its_declared_scale():
    """Clipped first, then the logarithm or the root, then the range's ends are -1 and 1."""
    given = study(
        covariates={
            "log": {"lower": 1, "upper": 100, "scale": "log"},
            "root": {"lower": 0, "upper": 100, "scale": "sqrt"},
        }
    )
    frame = pl.DataFrame({"log": [0.0, 1.0, 10.0, 100.0, 1e300], "root": [-5.0, 0.0, 25.0, 100.0, 1e300]})
    assert encoded(given, frame)[:, :2] / scale(given) == pytest.approx(
        np.array([[-1, -1], [-1, -1], [0, 0], [1, 1], [1, 1]]), abs=1e-12
    )
    with pytest.raises(DataError, match="not a number"):
        encoded(given, frame.with_columns(log=pl.Series([np.nan] * 5)))


def test_a_study_takes_the_contracts_scale_or_its_own():
    """The contract's where the study is silent; a scale that a narrower range forbids is refused."""
    columns = {
        "treated": {"codes": {"control": 0, "treated": 1}},
        "score": {"lower": 1, "upper": 10, "scale": "log"},
        "pay": {"lower": 1, "upper": 100, "scale": "log"},
        "group": {"levels": ["a", "b"]},
    }
    contract = Contract.model_validate(
        {k: v for k, v in CONTRACT.items() if k != "columns"} | {"columns": columns, "public": []}
    )

    def asked(**pay):
        return parse_study_file(
            {
                "kind": "effect",
                "name": "s",
                "treatment": "treated",
                "outcome": "score",
                "covariates": {"pay": pay},
                "estimator": {"name": "regression"},
                "privacy": {"epsilon": 1, "delta": "1e-6"},
            }
        )

    for said, scale_taken in (({}, "log"), ({"scale": "sqrt"}, "sqrt"), ({"scale": "linear", "lower": -5}, "linear")):
        found = resolve(asked(**said), contract)
        assert found.covariates["pay"].scale == scale_taken
        assert asks_for(asked(**said), found)
    assert not asks_for(asked(scale="log"), resolve(asked(scale="sqrt"), contract))
    with pytest.raises(StudyError, match="needs a range above 0"):
        resolve(asked(lower=0), contract)


def test_features_are_sorted_by_covariate_with_the_intercept_last():
    assert feature_names(study(covariates=COVARIATES)) == (
        "a_age",
        "b_group=a",
        "b_group=b",
        "b_group=c",
        "c_code=7",
        "c_code=3",
        "(intercept)",
    )
    with_missing = study(covariates=COVARIATES, missing="indicator")
    assert feature_names(with_missing) == (
        "a_age",
        "a_age (missing)",
        "b_group=a",
        "b_group=b",
        "b_group=c",
        "b_group (missing)",
        "c_code=7",
        "c_code=3",
        "c_code (missing)",
        "(intercept)",
    )
    assert dimension(with_missing) == 10


def test_values_are_clipped_mapped_and_encoded():
    frame = pl.DataFrame({"a_age": [20.0, 30.0, 35.0, -1e9, 1e9], "b_group": list("abcab"), "c_code": [7, 3, 3, 7, 7]})
    x = encoded(study(covariates=COVARIATES), frame) * 2.0  # sqrt(p + 1) = 2
    expected = [
        [-1.0, 1, 0, 0, 1, 0, 1],
        [0.0, 0, 1, 0, 0, 1, 1],
        [0.5, 0, 0, 1, 0, 1, 1],
        [-1.0, 1, 0, 0, 1, 0, 1],
        [1.0, 0, 1, 0, 1, 0, 1],
    ]
    assert np.allclose(x, expected, rtol=0, atol=1e-11)


def test_missing_values_are_the_midpoint_plus_an_indicator_or_a_level():
    given = study(covariates=COVARIATES, missing="indicator")
    frame = pl.DataFrame({"a_age": [None, 40.0], "b_group": ["c", None], "c_code": [None, 3]})
    x = encoded(given, frame) * 2.0
    expected = [[0, 1, 0, 0, 1, 0, 0, 0, 1, 1], [1, 0, 0, 0, 0, 1, 0, 1, 0, 1]]
    assert np.allclose(x, expected, rtol=0, atol=1e-11)
    # Exactly zero, whatever the bounds: not a rounded midpoint.
    odd = study(covariates={"a_age": {"lower": 0.1, "upper": 0.7}}, missing="indicator")
    assert encoded(odd, pl.DataFrame({"a_age": [None, 0.3]}))[0, 0] == 0.0


@pytest.mark.parametrize(
    "convert",
    [
        lambda c: c.cast(pl.Int16),
        lambda c: c.cast(pl.UInt64),
        lambda c: c.cast(pl.Float32),
        lambda c: c.cast(pl.Decimal(12, 4)),
    ],
)
def test_every_numeric_type_gives_the_same_rows(convert):
    frame = good()
    assert np.array_equal(encoded(study(), frame), encoded(study(), frame.with_columns(convert(pl.col(AGE)))))


def test_boolean_covariates_are_zero_and_one():
    given = study(covariates={"flag": {"lower": 0, "upper": 1}})
    x = encoded(given, pl.DataFrame({"flag": [True, False]}))
    assert np.array_equal(np.sign(x[:, 0]), [1, -1])


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["c", "unused", "b", "a"])])
def test_dictionaries_are_text(dtype):
    frame = good()
    assert np.array_equal(encoded(study(), frame), encoded(study(), frame.with_columns(pl.col(GROUP).cast(dtype))))


def test_levels_that_the_column_cannot_hold_do_not_disturb_the_others():
    given = study(covariates={"code": {"levels": [2**70, 1, 300, -1]}})
    x = encoded(given, pl.DataFrame({"code": pl.Series([1, 1], dtype=pl.UInt8)}))
    assert np.array_equal(x[:, :4] > 0, [[False, True, False, False]] * 2)


@pytest.mark.parametrize("dtype", [pl.Float64(), pl.Decimal(10, 1), pl.String()])
def test_a_fraction_is_no_whole_level(dtype):
    """2.5 is not among the levels 1, 2 and 3: it is one of the others, or refused."""
    values = pl.DataFrame({"code": pl.Series([1.0, 2.5, 3.0]).cast(dtype)})
    levels = {"levels": [1, 2, 3]}
    x = encoded(study(covariates={"code": levels | {"others": "other"}}), values)
    assert np.array_equal(x[:, 1] > 0, [False, False, False])
    assert np.array_equal((x[:, :4] > 0).sum(axis=1), [1, 1, 1])
    with pytest.raises(DataError, match="not a declared level"):
        encoded(study(covariates={"code": levels}), values)


@pytest.mark.parametrize("name", ["^c.*$", "*", "^age$"])
def test_levels_are_read_in_a_column_whose_name_is_a_pattern(name):
    x = encoded(study(covariates={name: {"levels": [1, 2]}}), pl.DataFrame({name: pl.Series([1.0, 2.0, 1.0])}))
    assert np.array_equal(x[:, :2] > 0, [[True, False], [False, True], [True, False]])


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(-1e100, 1e100), (5e99, 1e100), (0.0, 1e-100), (-1e-100, 1e-100), (1.0, 1.00000001), (1e80, 2e80)],
)
def test_extreme_bounds_neither_overflow_nor_leave_the_interval(lower, upper):
    values = [lower, upper, (lower + upper) / 2 if abs(lower) < 1e307 else 0.0, -1.7e308, 1.7e308, 0.0]
    given = study(
        covariates={"v": {"lower": lower, "upper": upper}}, outcome={"name": "v2", "lower": lower, "upper": upper}
    )
    x = encoded(given, pl.DataFrame({"v": values}))
    u = scaled_outcome(given, pl.DataFrame({"v2": values}))
    assert np.all(np.abs(x[:, 0]) <= scale(given))
    assert np.all(np.abs(u) <= 1)
    assert u[3] == -1
    if upper - lower > 1e-300:
        assert u[0] == -1
        assert u[1] == u[4] == 1


def test_a_combination_is_of_columns_cut_to_their_ranges_and_missing_where_one_is():
    columns = [
        {"name": "a", "times": 1.0, "lower": 0, "upper": 10},
        {"name": "b", "times": -2.0, "lower": 0, "upper": 4},
    ]
    outcome = {"name": "d", "of": columns, "lower": -6, "upper": 6}
    given = study(outcome=outcome, missing_outcome="middle")
    frame = pl.DataFrame({"a": [5.0, 99.0, None, 1.0, 10.0], "b": [1.0, 2.0, 1.0, None, -7.0]})
    assert scaled_outcome(given, frame).tolist() == [0.5, 1.0, 0.0, 0.0, 1.0]
    assert given.columns[2:4] == ("a", "b")
    with pytest.raises(DataError, match="column 'a' holds nulls"):
        scaled_outcome(study(outcome=outcome), frame)
    own = given.outcome.model_copy(update={"leaves_out": True})
    left = given.model_copy(update={"outcomes": (own,), "missing_outcome": MissingOutcome.leave_out})
    assert np.isnan(scaled_outcome(left, frame)).tolist() == [False, False, True, True, False]
    with pytest.raises(ValueError, match="is not served by estimator 'ipw'; use 'regression'"):
        study(outcome=outcome | {"leaves_out": True}, missing_outcome="leave_out")
    with pytest.raises(ValueError, match="has two roles"):
        study(outcome=outcome, covariates={"a": {"lower": 0, "upper": 1}})
    with pytest.raises(ValueError, match="names a combination of columns and something else"):
        study(outcome=outcome | {"name": "a"})


def test_outcome_is_scaled_and_clipped():
    u = scaled_outcome(study(), pl.DataFrame({OUTCOME: [0.0, 26.0, 52.0, -1.0, 60.0, 39.0]}))
    assert np.allclose(u, [-1, 0, 1, -1, 1, 0.5], rtol=0, atol=1e-15)


def test_stage_sorts_rows_by_the_keyed_hash_and_keeps_them_together(tmp_path):
    frames = [good(40), good(0), good(60, 40)]
    found = normalised(study(), write(tmp_path / "data", *frames), tmp_path / "scratch")
    key = simulated_key(1).subkey(HASH_LABEL)
    for frame, (x, t, u, h) in zip(frames, found, strict=True):
        hashes = keyed_hash(frame[UNIT], key)
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        assert np.array_equal(h, hashes[order])
        assert np.array_equal(t, frame[TREATMENT].to_numpy()[order])
        assert np.array_equal(u, scaled_outcome(study(), frame)[order])
        assert np.array_equal(x, encoded(study(), frame)[order])
        assert (x.dtype, t.dtype, u.dtype, h.dtype) == ("f8", "u1", "f8", "u8")
        assert x.flags.c_contiguous
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "scratch").rglob("*.npy")}
    assert modes == {0o600}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_chunks_and_workers_do_not_change_the_rows(workers, tmp_path, monkeypatch):
    given = study(execution={"workers": workers}, missing="indicator")
    frame = good(1000).with_columns(pl.when(pl.int_range(pl.len()) % 7 > 0).then(pl.col(AGE, GROUP)))
    folder = write(tmp_path / "data", frame)
    ((whole, *_),) = normalised(given, folder, tmp_path / "one")
    monkeypatch.setattr("causalveil.tasks.data.normalise.CHUNK_ROWS", 64)
    ((cut, *_),) = normalised(given, folder, tmp_path / "two")
    assert np.array_equal(whole, cut)


@pytest.mark.parametrize("most", [10**6, 100], ids=["together", "looked up"])
def test_rows_written_by_column_are_the_same(most, tmp_path, monkeypatch):
    """Where rows take more memory than a segment may they are written row by row, and read as the others are."""
    monkeypatch.setattr("causalveil.tasks.data.normalise.CHUNK_ROWS", 64)
    given, frame = (
        study(missing="indicator"),
        good(1000).with_columns(pl.when(pl.int_range(pl.len()) % 7 > 0).then(AGE)),
    )
    order, found = np.random.default_rng(0).permutation(1000), list[np.ndarray]()
    for by_column in (False, True):
        write_covariates(given, columns(given, frame), order, tmp_path / "x.npy", by_column)
        found.append(load_array(tmp_path / "x.npy"))
        monkeypatch.setattr("causalveil.tasks.data.normalise.MOST_ENCODED", most)
    assert np.array_equal(*found)
    assert np.array_equal(found[1], encoded(given, frame)[order])
    assert [one.flags.c_contiguous for one in found] == [True, most == 100]


CHANGES = {
    "covariate text": good(24).with_columns(pl.lit(CANARY).alias(AGE)),
    "outcome null": good(24).with_columns(pl.lit(None).cast(pl.Float64).alias(OUTCOME)),
    "rows": good(25),
    "a bit": None,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_changed_after_admission_is_refused(name, tmp_path):
    folder, given = write(tmp_path / "data", good(24)), study()
    layout, admission = read_layout(given, DataFolder(folder)), admitted(contract(), folder, tmp_path / "admission")
    normalise_stage(given, DataFolder(folder).held_to(admission.digests), layout, tmp_path / "one", "run", 1)
    if (frame := CHANGES[name]) is not None:
        write(folder, frame)
    else:
        content = bytearray((folder / "part-0.parquet").read_bytes())
        content[len(content) // 2] ^= 1
        (folder / "part-0.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"part-0\.parquet: changed since") as caught:
        normalise_stage(given, DataFolder(folder).held_to(admission.digests), layout, tmp_path / "two", "run", 1)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


def test_hashes_are_left_sorted_private_and_keyed_by_the_run(tmp_path):
    folder = write(tmp_path / "data", good(24))
    given, layout = study(), read_layout(study(), DataFolder(folder))
    found = []
    for run_id, seed in (("one", None), ("two", None), ("one", None), ("one", 7), ("two", 7)):
        normalise_stage(given, DataFolder(folder), layout, tmp_path / "scratch", run_id, seed)
        path = segment_folder(tmp_path / "scratch", 0) / "h.npy"
        assert path.stat().st_mode & 0o777 == 0o600
        found.append(load_array(path).copy())
        assert np.all(found[-1][1:, 0] >= found[-1][:-1, 0])
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[3], found[4])
    assert len({hashes.tobytes() for hashes in found}) == 3
