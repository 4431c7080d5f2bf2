"""A small good data set, and a table of every way to break it with the column and rule that must be named.

Each case writes a folder of Parquet files; the canary values of a broken cell must never show up in a message.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from causalveil.schemas.admission import Admission
from causalveil.schemas.contract import Contract
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.tasks.data.admit import admit_stage
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.partitions import list_partitions

# A value that no message may repeat, as text and as a number.
CANARY = "Xq7canary"
CANARY_NUMBER = 918273645

UNIT, TREATMENT, OUTCOME, AGE, GROUP = "person", "treated", "weeks", "age", "group"


def document(**changes: Any) -> dict[str, Any]:
    """A study of the good data as a mapping; ``changes`` replace top-level keys."""
    return {
        "kind": "effect",
        "name": "small",
        "data": {"path": ".", "unit": UNIT},
        "treatment": TREATMENT,
        "outcome": {"name": OUTCOME, "lower": 0, "upper": 52},
        "covariates": {AGE: {"lower": 20, "upper": 40}, GROUP: {"levels": ["a", "b", "c"]}},
        "estimator": {"name": "ipw"},
        "privacy": {"epsilon": 1, "delta": "1e-6"},
        **changes,
    }


def study(**changes: Any) -> IpwStudy:
    return IpwStudy.model_validate(document(**changes))


def contract(**changes: Any) -> Contract:
    """The contract under which ``study(**changes)`` can be asked: same columns, same words about nulls."""
    asked = study(**changes)
    covariates: dict[str, Any] = {
        name: one.model_dump(exclude_none=True, exclude={"nulls"})
        | {"nulls": "indicator" if asked.indicated(name) else "refuse"}
        for name, one in asked.covariates.items()
    }
    outcome = {"lower": asked.outcome.lower, "upper": asked.outcome.upper}
    return Contract.model_validate(
        {
            "dataset": "small",
            "data_class": "synthetic",
            "unit": asked.data.unit,
            "blocks": None if asked.data.blocks is None else {"key": asked.data.blocks, "units_span": False},
            "columns": {
                asked.treatment: {"codes": {"control": 0, "treated": 1}},
                asked.outcome.name: outcome,
                **covariates,
            },
            "public": [],
            "caps": {"sample": {"epsilon": 1, "delta": "1e-6"}},
        }
    )


def admitted(owner: Contract, folder: Path, scratch: Path) -> Admission:
    """Hold the folder's rows to the contract."""
    scratch.mkdir(parents=True)
    key = None if owner.blocks is None else owner.blocks.key
    data = DataFolder(folder)
    return admit_stage(owner, data, list_partitions(data, key), scratch, scratch / "reduced")


def good(rows: int = 24, start: int = 0) -> pl.DataFrame:
    """Rows that meet the schema; outcomes and ages beyond their bounds are among them, since that is no error."""
    index = range(start, start + rows)
    return pl.DataFrame(
        {
            UNIT: pl.Series([1000 + 7 * i for i in index], dtype=pl.Int64),
            TREATMENT: pl.Series([i % 2 for i in index], dtype=pl.Int8),
            OUTCOME: pl.Series([float(i % 60) - 3.0 for i in index], dtype=pl.Float64),
            AGE: pl.Series([18.0 + i % 25 for i in index], dtype=pl.Float64),
            GROUP: pl.Series(["abc"[i % 3] for i in index], dtype=pl.String),
        }
    )


def write(folder: Path, *frames: pl.DataFrame) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for index, frame in enumerate(frames):
        frame.write_parquet(folder / f"part-{index}.parquet", row_group_size=10)
    return folder


@dataclass(frozen=True)
class BadData:
    """One broken data set: how to write it, under which study, and what the message must say."""

    name: str
    write: Callable[[Path], object]
    says: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def study(self) -> IpwStudy:
        return study(**self.changes)

    @property
    def contract(self) -> Contract:
        return contract(**self.changes)


def _cell(column: str, value: Any, dtype: pl.DataType | None = None) -> Callable[[Path], object]:
    """The good data in two partitions, one cell of the second one replaced."""

    def broken(folder: Path) -> object:
        frames = []
        for start in (0, 24):
            frame = good(24, start)
            values = frame[column].to_list()
            if start:
                values[5] = value
            frames.append(frame.with_columns(pl.Series(column, values, dtype=dtype or frame.schema[column])))
        return write(folder, *frames)

    return broken


def _column(column: str, convert: Callable[[pl.Series], pl.Series]) -> Callable[[Path], object]:
    """The good data with one column converted in both partitions."""
    return lambda folder: write(
        folder, *(good(24, start).with_columns(convert(good(24, start)[column]).alias(column)) for start in (0, 24))
    )


def _drop(column: str) -> Callable[[Path], object]:
    return lambda folder: write(folder, good().drop(column))


def _disagree(column: str, dtype: Any) -> Callable[[Path], object]:
    return lambda folder: write(folder, good(24), good(24, 24).with_columns(pl.col(column).cast(dtype)))


def _second(column: str, convert: Callable[[pl.Series], pl.Series]) -> Callable[[Path], object]:
    """The same in the second partition alone."""
    return lambda folder: write(
        folder, good(24), good(24, 24).with_columns(convert(good(24, 24)[column]).alias(column))
    )


def _bytes(series: pl.Series) -> pl.Series:
    return pl.Series([bytes([255, number % 256]) for number in range(len(series))])


def _dates(series: pl.Series) -> pl.Series:
    day = datetime.date(2024, 1, 1)
    return pl.Series([day + datetime.timedelta(days=i) for i in range(len(series))])


def _truncate(keep: Callable[[int], int]) -> Callable[[Path], object]:
    def broken(folder: Path) -> None:
        write(folder, good(), good(24, 24))
        path = folder / "part-1.parquet"
        content = path.read_bytes()
        path.write_bytes(content[: keep(len(content))])

    return broken


def _damage_pages(folder: Path) -> None:
    """Zero the data pages and leave the footer: the row count reads well and the values do not."""
    write(folder, good(4000))
    path = folder / "part-0.parquet"
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    content[4 : len(content) - 8 - footer] = bytes(len(content) - 12 - footer)
    path.write_bytes(bytes(content))


def _twice(folder: Path) -> None:
    second = good(24, 24)
    write(folder, good(24), second.with_columns(pl.Series(UNIT, [1000, *second[UNIT].to_list()[1:]])))


def _twice_text(folder: Path) -> None:
    frame = good().with_columns(pl.Series(UNIT, [CANARY, CANARY, *(f"u{i}" for i in range(22))]))
    write(folder, frame)


def _not_parquet(folder: Path) -> None:
    write(folder, good())
    (folder / "zz.parquet").write_text(CANARY)


def _outside_block(folder: Path) -> None:
    write(folder / "month=2024-01", good())
    write(folder, good(24, 24))


def _link_out(folder: Path) -> None:
    write(folder.parent / "elsewhere", good(24, 24))
    write(folder, good())
    (folder / "zz.parquet").symlink_to(folder.parent / "elsewhere" / "part-0.parquet")


def _link_folder(folder: Path) -> None:
    write(folder.parent / "elsewhere", good(24, 24))
    write(folder, good())
    (folder / "more").symlink_to(folder.parent / "elsewhere")


_DECIMAL = pl.Decimal(20, 2)
_BLOCKS = {"data": {"path": ".", "unit": UNIT, "blocks": "month"}}
_INDICATOR = {"missing": "indicator"}
_INTEGER_LEVELS = {"covariates": {AGE: {"lower": 20, "upper": 40}, GROUP: {"levels": [1, 2, 3]}}}
_NAN = f"'{AGE}'", "nulls or NaN", "indicator"
_INFINITE = f"'{AGE}'", "infinity"

LAYOUT_CASES = (
    BadData("empty folder", lambda folder: folder.mkdir(), ("no Parquet file",)),
    BadData("only hidden files", lambda folder: write(folder / "_tmp", good()), ("no Parquet file",)),
    BadData("no rows at all", lambda folder: write(folder, good(0)), ("no rows",)),
    BadData("truncated footer", _truncate(lambda size: size - 5), ("part-1.parquet", "not readable")),
    BadData("truncated half", _truncate(lambda size: size // 2), ("part-1.parquet", "not readable")),
    BadData("empty file", _truncate(lambda size: 0), ("part-1.parquet", "not readable")),
    BadData("not Parquet at all", _not_parquet, ("zz.parquet", "not readable")),
    BadData("outside any block", _outside_block, ("part-0.parquet", "month="), _BLOCKS),
    BadData("link that leaves", _link_out, ("zz.parquet", "link")),
    BadData("link to a folder", _link_folder, ("more", "link")),
)

VALUE_CASES = (
    *(BadData(f"missing {name}", _drop(name), (f"'{name}'", "is missing")) for name in (UNIT, TREATMENT)),
    *(BadData(f"missing {name}", _drop(name), (f"'{name}'", "is missing")) for name in (OUTCOME, AGE, GROUP)),
    *(
        BadData(
            f"null {name}{' with indicator' if changes else ''}", _cell(name, None), (f"'{name}'", "nulls"), changes
        )
        for name in (UNIT, TREATMENT, OUTCOME)
        for changes in ({}, _INDICATOR)
    ),
    BadData("null number", _cell(AGE, None), (f"'{AGE}'", "nulls", "indicator")),
    BadData("null category", _cell(GROUP, None), (f"'{GROUP}'", "nulls", "indicator")),
    BadData("NaN covariate", _cell(AGE, float("nan")), _NAN),
    BadData("infinite covariate", _cell(AGE, float("inf")), _INFINITE),
    BadData("infinite with indicator", _cell(AGE, float("-inf")), _INFINITE, _INDICATOR),
    BadData("NaN float32", _cell(AGE, float("nan"), pl.Float32()), _NAN),
    BadData("infinite float32", _cell(AGE, float("inf"), pl.Float32()), _INFINITE),
    BadData("NaN outcome", _cell(OUTCOME, float("nan")), (f"'{OUTCOME}'", "NaN")),
    BadData("-inf outcome", _cell(OUTCOME, float("-inf")), (f"'{OUTCOME}'", "infinity")),
    BadData("undeclared level", _cell(GROUP, CANARY), (f"'{GROUP}'", "declared levels")),
    BadData("undeclared level, indicator", _cell(GROUP, CANARY), (f"'{GROUP}'", "declared levels"), _INDICATOR),
    BadData("level in capitals", _cell(GROUP, "A"), (f"'{GROUP}'", "declared levels")),
    BadData("empty level", _cell(GROUP, ""), (f"'{GROUP}'", "declared levels")),
    BadData(
        "undeclared category of a dictionary",
        _cell(GROUP, CANARY, pl.Categorical()),
        (f"'{GROUP}'", "declared levels"),
    ),
    BadData("treatment 2", _cell(TREATMENT, 2), (f"'{TREATMENT}'", "0 and 1")),
    BadData("treatment -1", _cell(TREATMENT, -1), (f"'{TREATMENT}'", "0 and 1")),
    BadData("treatment large", _cell(TREATMENT, CANARY_NUMBER, pl.Int64()), (f"'{TREATMENT}'", "0 and 1")),
    BadData("float treatment", _column(TREATMENT, lambda s: s / 2), (f"'{TREATMENT}'", "0 and 1")),
    BadData("decimal treatment", _column(TREATMENT, lambda s: (s / 4).cast(_DECIMAL)), (f"'{TREATMENT}'", "0 and 1")),
    BadData("NaN treatment", _cell(TREATMENT, float("nan"), pl.Float64()), (f"'{TREATMENT}'", "nulls or NaN")),
    BadData("text treatment", _column(TREATMENT, lambda s: "0" + s.cast(pl.String)), (f"'{TREATMENT}'", "0 and 1")),
    BadData("days as treatment", _column(TREATMENT, _dates), (f"'{TREATMENT}'", "numbers, booleans or text")),
    BadData("float unit", _column(UNIT, lambda s: s / 2), (f"'{UNIT}'", "not whole")),
    BadData("decimal unit", _column(UNIT, lambda s: (s / 4).cast(_DECIMAL)), (f"'{UNIT}'", "not whole")),
    BadData("float unit of many digits", _column(UNIT, lambda s: s * 1e15), (f"'{UNIT}'", "too many digits")),
    BadData("NaN unit", _cell(UNIT, float("nan"), pl.Float64()), (f"'{UNIT}'", "nulls")),
    BadData("boolean unit", _column(UNIT, lambda s: s > 0), (f"'{UNIT}'", "text column")),
    BadData("bytes that are no text as unit", _column(UNIT, _bytes), (f"'{UNIT}'", "UTF-8")),
    BadData("date covariate", _column(AGE, _dates), (f"'{AGE}'", "float")),
    BadData("text covariate", _column(AGE, lambda s: s.cast(pl.String)), (f"'{AGE}'", "float")),
    BadData("date outcome", _column(OUTCOME, _dates), (f"'{OUTCOME}'", "float")),
    BadData("all-null column", _column(AGE, lambda s: pl.Series([None] * len(s))), (f"'{AGE}'", "float")),
    BadData("integers for text levels", _column(GROUP, lambda s: s.str.len_bytes()), (f"'{GROUP}'", "text column")),
    BadData("text for integer levels", lambda f: write(f, good()), (f"'{GROUP}'", "declared levels"), _INTEGER_LEVELS),
    BadData(
        "floats between integer levels",
        _column(GROUP, lambda s: s.replace_strict({"a": 1.0, "b": 2.0, "c": 2.5})),
        (f"'{GROUP}'", "declared levels"),
        _INTEGER_LEVELS,
    ),
    BadData("days for integer levels", _column(GROUP, _dates), (f"'{GROUP}'", "declared levels are"), _INTEGER_LEVELS),
    BadData(
        "undeclared integer level",
        _column(GROUP, lambda s: s.replace_strict({"a": 1, "b": 2, "c": CANARY_NUMBER}, return_dtype=pl.Int32)),
        (f"'{GROUP}'", "declared levels"),
        _INTEGER_LEVELS,
    ),
    BadData("schemas disagree: unit", _disagree(UNIT, pl.String), ("part-1.parquet", f"'{UNIT}'", "as one")),
    BadData("schemas disagree: age", _disagree(AGE, pl.String), ("part-1.parquet", f"'{AGE}'", "float")),
    BadData("schemas disagree: group", _second(GROUP, _dates), ("part-1.parquet", f"'{GROUP}'", "text column")),
    BadData(
        "column missing in the second partition",
        lambda folder: write(folder, good(), good(24, 24).drop(AGE)),
        ("part-1.parquet", f"'{AGE}'", "is missing"),
    ),
    BadData("unit twice across partitions", _twice, (f"'{UNIT}'", "twice")),
    BadData("text unit twice in one partition", _twice_text, (f"'{UNIT}'", "twice")),
    BadData("damaged pages", _damage_pages, ("part-0.parquet", "not readable")),
)
