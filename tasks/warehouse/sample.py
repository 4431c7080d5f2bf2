"""The first million rows of a source as one frame, for a draft. Text stays text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pyarrow.types as arrow_types

from causalveil.schemas.errors import CausalveilError, DataError, StudyError, in_own_words
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.mistakes import validate
from causalveil.schemas.warehouse import (
    Credential,
    CsvFiles,
    DeltaSource,
    DuckDb,
    IcebergSource,
    ParquetFiles,
    TableFile,
    Warehouse,
)
from causalveil.tasks.data.partitions import NO_VALUE, reading
from causalveil.tasks.machine.arrays import frame_of, named, polars_types
from causalveil.tasks.machine.folders import is_delta, refuse_open_table
from causalveil.tasks.machine.object_storage import StoredFile, arrow_place
from causalveil.tasks.warehouse.adbc import adbc_batches, quoted
from causalveil.tasks.warehouse.csv_files import (
    NO_BYTES,
    csv_input,
    dialect_by_header,
    dialect_of,
    footer_lines,
    mixed,
    sums_of,
    without_footer,
)
from causalveil.tasks.warehouse.extract import EVERYTHING
from causalveil.tasks.warehouse.open_tables import (
    delta_batches,
    delta_schema,
    delta_snapshot,
    iceberg_batches,
    iceberg_schema,
    iceberg_snapshot,
)
from causalveil.tasks.warehouse.read_files import by_name, csv_options, folder_values, paths_of, refuse_contradictions
from causalveil.tasks.warehouse.read_sql import cause, duckdb_batches
from causalveil.tasks.warehouse.table_files import ENDINGS, in_codes, labelled, layout_of, table_of

MOST_ROWS = 1_000_000
# The variable that a drafted source names: a URL holds a password, and has no place in a file.
URL_VARIABLE = "CAUSALVEIL_SOURCE_URL"
_DELTA, _ICEBERG = "delta:", "iceberg:"
_BYTES = (
    arrow_types.is_binary,
    arrow_types.is_large_binary,
    arrow_types.is_binary_view,
    arrow_types.is_fixed_size_binary,
)
_DATABASES = ("postgresql://", "postgres://", "postgresql+psycopg://")


@dataclass(frozen=True)
class Sample:
    """The data that a draft is made from, and their source.

    Attributes:
        frame: up to a million rows, each column under its name in the source.
        source: how an extract finds them again; a path in it is absolute.
        left_out: names of columns that cannot be taken, and why.
        whole: whether the frame holds all rows.
        footer: lines of each file below its last row.
        label_notes: by column, how codes with labels were read.
    """

    frame: pl.DataFrame
    source: CsvFiles | ParquetFiles | TableFile | DuckDb | Warehouse | DeltaSource | IcebergSource
    left_out: dict[str, str]
    whole: bool
    footer: int = 0
    label_notes: dict[str, str] = field(default_factory=dict)


def sample_of(
    where: str, *, table: str | None = None, encoding: str | None = None, delimiter: str | None = None
) -> Sample:
    """Read the start of a file, a folder or a database.

    Args:
        where: a CSV, Parquet, DuckDB, Stata, SPSS, SAS or Excel file, a folder of CSV or Parquet files, a URL of
            Parquet files in object storage, a Delta table (``delta:`` before its path or URL where it is no folder
            that shows it), ``iceberg:CATALOG/NAMESPACE.TABLE``, or a PostgreSQL URL.
        table: of a database, or the sheet of a workbook; needed where it has several.
        encoding: of a CSV, Stata, SPSS or SAS file, where it is known.
        delimiter: of a CSV file, where it is known.

    Raises:
        StudyError: there is no such file, no such table, or no table is named among several.
        DataError: it is not what its name says, or an open table that this cannot read; the message says what to do.
        CausalveilError: the database cannot be read.
    """
    if where.startswith(_DATABASES):
        return _postgres(where, table)
    if where.startswith(_DELTA):
        return _delta(where.removeprefix(_DELTA))
    if where.startswith(_ICEBERG):
        return _iceberg(where.removeprefix(_ICEBERG))
    if "://" in where:
        # A scheme that is none of object storage is refused by the declaration.
        return _parquet(validate(ParquetFiles, {"kind": "parquet", "path": where}, where))
    path = Path(where).expanduser().resolve()
    if not path.exists():
        raise StudyError(
            f"{where}: no such file or folder; give a CSV, Parquet, Excel, Stata, SPSS, SAS or DuckDB file, or a "
            "postgresql:// URL"
        )
    if is_delta(path):
        return _delta(str(path))
    refuse_open_table(path)
    kind = _kind(path)
    try:
        if kind == "duckdb":
            return _duckdb(path, table)
        if kind in ENDINGS.values():
            return _table(path, kind, table, encoding)
        return (
            _parquet(ParquetFiles(kind="parquet", path=str(path)))
            if kind == "parquet"
            else _csv(path, encoding, delimiter)
        )
    except PermissionError:
        raise StudyError(f"{where}: cannot be read by this user; mend its permissions") from None


def _delta(where: str) -> Sample:
    """Return the newest version of a Delta table, or that after ``@``, without nested columns."""
    where, version = (where, {}) if Path(where).exists() else _at(where)
    if "://" not in where:
        where = str(Path(where).expanduser().resolve())
    source = validate(DeltaSource, {"kind": "delta", "path": where} | version, where)
    snapshot = delta_snapshot(source, Path())
    names, nested = _single(polars_types(delta_schema(source, Path(), snapshot)))
    first = f"1 = 1 LIMIT {MOST_ROWS + 1}"
    frame, _ = _queried(lambda: delta_batches(source, Path(), snapshot, names, first))
    return _of_table(frame, source, PurePath(where).name, nested)


def _at(where: str) -> tuple[str, dict[str, str]]:
    """Return a table and its state after ``@``, where a number stands there."""
    table, _, version = where.rpartition("@")
    return (table, {"version": version}) if table and version.isdecimal() else (where, {})


def _iceberg(where: str) -> Sample:
    """Return the newest snapshot of an Iceberg table, or that after ``@``, without nested ones."""
    where, version = _at(where)
    catalog, _, table = where.rpartition("/")
    named = {"catalog": catalog} if catalog else {}
    source = validate(IcebergSource, {"kind": "iceberg", "table": table} | named | version, "iceberg:")
    snapshot = iceberg_snapshot(source)
    names, nested = _single(polars_types(iceberg_schema(source, snapshot)))
    frame, _ = _queried(lambda: iceberg_batches(source, snapshot, names, None, EVERYTHING))
    return _of_table(frame, source, table, nested)


def _first(batches: Iterable[pa.RecordBatch], enough: int = MOST_ROWS + 1) -> Iterator[pa.RecordBatch]:
    """Yield the first batches, until they hold enough rows."""
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        if rows >= enough:
            return


def _kind(path: Path) -> str:
    endings = {".parquet": "parquet", ".pq": "parquet", ".duckdb": "duckdb", ".db": "duckdb", **ENDINGS}
    if not path.is_dir():
        return endings.get(path.suffix.lower(), "csv")
    for kind in ("parquet", "csv"):
        if any(path.rglob(f"*.{kind}")):
            return kind
    raise StudyError(f"{path}: no .csv and no .parquet file in this folder")


def _csv(path: Path, encoding: str | None, delimiter: str | None) -> Sample:
    first = paths_of(CsvFiles(kind="csv", path=str(path)), Path())[0]
    files = dialect_of(first, encoding=encoding, delimiter=delimiter)
    files = files.model_copy(update={"path": str(path)})
    files, footers = without_footer(files, paths_of(files, Path()))
    if len(footers) > 1:
        raise DataError(f"{path.name}: some of its files end in totals or notes, which are no rows; take them out")
    frame, left_out, whole = _csv_rows(path, files)
    if whole and path.is_file() and sums_of(frame):
        frame, files = frame[:-1], files.model_copy(update={"skip_end": files.skip_end + 1})
    return Sample(frame, files, left_out, whole, files.skip_end)


def _table(
    path: Path, kind: str, sheet: str | None, encoding: str | None, by_labels: Collection[str] | None = None
) -> Sample:
    """Return a file of Stata, SPSS or SAS, or a sheet of a workbook.

    ``by_labels``: columns that are read by the labels of their codes, whatever rows hold; None: rows decide.
    """
    place = {"path": str(path), "sheet": sheet} if kind == "excel" else {"path": str(path), "encoding": encoding}
    files = validate(TableFile, {"kind": kind} | place, path.name)
    if kind == "excel":
        files = layout_of(files, path, by_header=by_labels is not None)
    table = table_of(files, path, MOST_ROWS + 1)
    codes = in_codes(table) if by_labels is None else tuple(name for name in table.labels if name not in by_labels)
    files = files.model_copy(update={"codes": codes})
    frame = labelled(table, codes)
    useless = _useless(frame.columns)
    sample = _of_table(frame.drop(useless), files, path.name, dict(table.left_out) | useless)
    notes = {} if by_labels is not None else {name: _label_note(table.labels[name]) for name in codes}
    return replace(sample, footer=files.skip_end, label_notes=notes)


def _label_note(labels: Mapping[Any, str]) -> str:
    shown = ", ".join(
        f"{code:.6g} is '{label}'" if isinstance(code, float | int) else f"'{code}' is '{label}'"
        for code, label in list(labels.items())[:3]
    )
    return f"read by its codes, as some have no label of their own ({shown}{' and so on' if len(labels) > 3 else ''})"


def by_header(sample: Sample, encoding: str | None, delimiter: str | None, by_labels: Collection[str] = ()) -> Sample:
    """Return a sample whose source follows from options and headers alone.

    Only the source of a CSV file, of a sheet and of a file with labels of codes depends on rows.

    Args:
        sample: as :func:`sample_of`.
        encoding: of the file, where it was stated.
        delimiter: of a CSV file, where it was stated.
        by_labels: columns whose stated levels are words: labels of codes, where a file has them.

    Raises:
        DataError: rows cannot be read by that source, or files end in lines that are no rows.
    """
    if isinstance(sample.source, TableFile):
        return _table(Path(sample.source.path), sample.source.kind, sample.source.sheet, encoding, by_labels)
    if not isinstance(sample.source, CsvFiles):
        return sample
    path = Path(sample.source.path)
    paths = paths_of(sample.source, Path())
    files = dialect_by_header(paths[0], encoding=encoding, delimiter=delimiter)
    files = files.model_copy(update={"path": str(path)})
    frame, left_out, whole = _csv_rows(path, files)
    if any(footer_lines(file, files) for file in paths) or (whole and path.is_file() and sums_of(frame)):
        raise DataError(f"{path.name}: ends in a total or a note, which is no row; take it out of the file")
    return Sample(frame, files, left_out, whole)


def _csv_rows(path: Path, files: CsvFiles) -> tuple[pl.DataFrame, dict[str, str], bool]:
    """Return the first rows of CSV files, columns left out, and whether these are all rows."""
    frames, problem, rows = list[pl.DataFrame](), None, 0
    header, left_out = list[str](), dict[str, str]()
    for file in paths_of(files, Path()):
        uneven: list[Any] = []
        reading, parsing = csv_options(files)
        # One thread knows the number of the line that it reads.
        reading.use_threads = False
        parsing.invalid_row_handler = lambda row, uneven=uneven: uneven.append(row) or "error"
        try:
            with pyarrow.csv.open_csv(csv_input(file, files), reading, parsing) as reader:
                names = reader.schema.names
            header = header or names
            if names != header and sorted(names) != sorted(set(header)):
                raise DataError(_other_header(file, names, paths_of(files, Path())[0], header))
            if rows >= MOST_ROWS:
                continue
            texts = pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                include_columns=header if names != header else None,
                strings_can_be_null=True,
                null_values=[""],
            )
            with pyarrow.csv.open_csv(csv_input(file, files), reading, parsing, texts) as reader:
                # Arrow's rows are let go batch by batch: beside polars' own they take as much memory again.
                left_out = _useless(header)
                frames += (_frame(batch, left_out) for batch in _first(reader, MOST_ROWS - rows))
        except (pa.ArrowException, UnicodeError, ValueError) as error:
            problem = _uneven(file, uneven, files) if uneven else _unreadable(file, error)
        if problem:
            raise DataError(problem)
        rows = sum(frame.height for frame in frames)
    pa.default_memory_pool().release_unused()
    if not rows:
        raise DataError(f"{path.name}: has a header and no rows; export the table again")
    return pl.concat(frames).head(MOST_ROWS), left_out, rows < MOST_ROWS


def _other_header(file: Path, names: list[str], first: Path, header: list[str]) -> str:
    """Say how the header of a file differs from that of the first file."""
    how = "write their headers and delimiters alike, or put them into different folders"
    lacking, more = [name for name in header if name not in names], [name for name in names if name not in header]
    if not lacking:
        return f"{file.name} has a column '{(more or names)[0]}' that {first.name} has not (or not twice); {how}"
    instead = f"; instead it has '{_alike(lacking[0], more)}'" if more else ""
    return f"{file.name} has no column '{lacking[0]}', which {first.name} has{instead}; {how}"


def _alike(name: str, names: list[str]) -> str:
    """Return the name that is another spelling of ``name``, or else the first."""
    return next((spelling for spelling in names if spelling.casefold() == name.casefold()), names[0])


def _uneven(file: Path, uneven: list[Any], files: CsvFiles) -> str:
    row = uneven[0]
    line = "a line" if row.number is None else f"line {row.number + files.skip_lines}"
    return (
        f"{file.name}: {line} has {row.actual_columns} fields where the header has {row.expected_columns}; put quotes "
        f"around fields that hold the delimiter, or give {option('delimiter')}"
    )


def _unreadable(file: Path, error: Exception) -> str:
    if not file.stat().st_size:
        return f"{file.name}: {NO_BYTES}"
    if "UTF8" in str(error) or isinstance(error, UnicodeError):
        return mixed(file)
    return f"{file.name}: cannot be read as CSV; is a quote left open? Export it again, or give {option('delimiter')}"


def _useless(names: list[str]) -> dict[str, str]:
    """Return columns without a unique name of at most 200 characters, and why each is left out."""
    counted = Counter(" ".join(name.split()) for name in names)
    useless = {}
    for name in names:
        tidy = " ".join(name.split())
        if not tidy:
            useless[name] = "has no name"
        elif counted[tidy] > 1:
            useless[name] = "stands twice in the header, and a study could not tell which; give each its own name"
        elif len(tidy) > 200:
            useless[name] = "has a name of more than 200 characters"
    return useless


def _frame(rows: pa.RecordBatch, left_out: dict[str, str]) -> pl.DataFrame:
    frame = pl.from_arrow(rows.select([place for place, name in enumerate(rows.schema.names) if name not in left_out]))
    if not isinstance(frame, pl.DataFrame) or not frame.width:
        raise DataError("no column has a name of its own; mend the header")
    return frame


def _parquet(files: ParquetFiles) -> Sample:
    name = PurePath(files.path).name
    frames: dict[str, pl.DataFrame] = {}
    left_out: dict[str, str] = {}
    for place, file in by_name(files, Path()).items():
        rows = sum(frame.height for frame in frames.values())
        if rows > MOST_ROWS:
            break
        frame = _parquet_rows(file, left_out, MOST_ROWS + 1 - rows)
        constants = folder_values(files, Path(), file)
        refuse_contradictions(file, frame.to_arrow(), constants)
        # A name in folders alone is a column, as Spark and Hive leave it.
        frames[place] = frame.with_columns(
            pl.lit(None if value == NO_VALUE else value, pl.String).alias(name)
            for name, value in constants.items()
            if name not in frame.columns
        )
    # A file without rows does not show what its columns hold.
    full = {place: frame for place, frame in frames.items() if frame.height} or dict(list(frames.items())[:1])
    return _of_table(_as_one(full, left_out, name), files, name, left_out)


def _parquet_rows(path: Path | StoredFile, left_out: dict[str, str], most: int) -> pl.DataFrame:
    """Return the first rows of a file, without columns of nested values or of bytes."""
    where = arrow_place(path)
    with reading(path.name), pq.ParquetFile(where["source"], filesystem=where["filesystem"]) as file:
        names, nested = _single(polars_types(file.schema_arrow))
        left_out |= nested
        rows = [_of_text(batch, names, left_out) for batch in _first(file.iter_batches(columns=names), most)]
        columns = [named(name) for name in names if name not in left_out]
        empty = frame_of(file.schema_arrow.empty_table(), names)
        return pl.concat([frame.select(columns) for frame in (empty, *rows)])


def _of_text(rows: Any, names: list[str], left_out: dict[str, str]) -> pl.DataFrame:
    """Return columns of Arrow's rows, without those of bytes that are no text, such as pictures."""
    for name in names:
        if any(is_bytes(rows.schema.field(name).type) for is_bytes in _BYTES):
            try:
                frame_of(rows, [name])
            except DataError:
                left_out[name] = "holds bytes that are no text"
    return frame_of(rows, [name for name in names if name not in left_out])


def _single(types: dict[str, pl.DataType]) -> tuple[list[str], dict[str, str]]:
    """Return the columns of single values, and why nested columns are left out."""
    nested = {name: "holds lists, records or other nested values" for name, kind in types.items() if kind == pl.Unknown}
    return [name for name in types if name not in nested], nested


def _as_one(read: dict[str, pl.DataFrame], left_out: dict[str, str], name: str) -> pl.DataFrame:
    """Return frames of several files as one, each column in a type for its values in all files.

    A column of types that do not go together, such as times with and without a zone, is left out.

    Raises:
        DataError: no column is in all of them.
    """
    frames = list(read.values())
    shared = [
        column
        for column in frames[0].columns
        if column not in left_out and all(column in frame.columns for frame in frames)
    ]
    for frame in frames:
        odd = [column for column in frame.columns if column not in shared and column not in left_out]
        left_out |= {column: _not_in_all(column, read) for column in odd}
    kinds = {column: _together({frame.schema[column] for frame in frames}) for column in shared}
    left_out |= {
        column: "has types that do not go together in its files" for column, kind in kinds.items() if kind is None
    }
    # By expressions: `DataFrame.cast` reads names as patterns.
    casts = [named(column).cast(kind) for column, kind in kinds.items() if kind is not None]
    if not casts:
        raise DataError(f"{name}: its files have no column of one type in common; put them in different folders")
    return pl.concat([frame.select(casts) for frame in frames])


def _not_in_all(column: str, read: dict[str, pl.DataFrame]) -> str:
    place, names = next((place, frame.columns) for place, frame in read.items() if column not in frame.columns)
    spelling = next((name for name in names if name.casefold() == column.casefold()), None)
    hint = "" if spelling is None else f", which has '{spelling}'; write it in one way in all"
    return f"is not in {place}{hint}"


def _together(types: set[pl.DataType]) -> pl.DataType | None:
    """Return a type for values of all given types; None: there is none."""
    types = {kind for kind in types if kind != pl.Null} or {pl.Null()}
    if len(types) == 1:
        return next(iter(types))
    if all(kind.is_numeric() for kind in types):
        whole = all(kind.is_integer() or (isinstance(kind, pl.Decimal) and not kind.scale) for kind in types)
        return pl.Int128() if whole else pl.Float64()
    if all(isinstance(kind, pl.Datetime) for kind in types):
        zones = {kind.time_zone for kind in types if isinstance(kind, pl.Datetime)}
        return pl.Datetime("us", zones.pop()) if len(zones) == 1 else None
    return None


def _duckdb(path: Path, table: str | None) -> Sample:
    import duckdb

    problem = f"{path.name}: is no DuckDB file that can be opened; is another program writing to it?"
    with (
        in_own_words(lambda _: DataError(problem), duckdb.Error),
        duckdb.connect(str(path), read_only=True) as connection,
    ):
        rows = connection.sql("SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()  # fmt: skip # noqa: E501
    chosen = _one_table(sorted(name for (name,) in rows), table, path.name)
    query = f"SELECT * FROM {quoted(chosen)}"
    frame, left_out = _queried(lambda: duckdb_batches(path, _limited(query)))
    return _of_table(frame, DuckDb(kind="duckdb", path=str(path), query=query), chosen, left_out)


def _postgres(url: str, table: str | None) -> Sample:
    tables, _ = _queried(
        lambda: adbc_batches(
            url,
            "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')",
        )
    )
    names = sorted(tables["name"].to_list())
    if table is not None and "." not in table:
        table = next((name for name in names if name.partition(".")[2] == table), table)
    schema, _, name = _one_table(names, table, "the database").partition(".")
    query = f"SELECT * FROM {quoted(schema)}.{quoted(name)}"
    source = Warehouse(kind="adbc", url=Credential(environment=URL_VARIABLE), query=query)
    frame, left_out = _queried(lambda: adbc_batches(url, _limited(query)))
    return _of_table(frame, source, name, left_out)


def _queried(opened: Any) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the rows of a query, and the columns left out; a driver's text is withheld."""
    with in_own_words(lambda problem: CausalveilError(f"the database cannot be read: {cause(problem)}")):
        with opened() as batches:
            table = pa.Table.from_batches(_first(batches))
        names, left_out = _single(polars_types(table.schema))
        return _of_text(table, names, left_out), left_out


def _of_table(frame: pl.DataFrame, source: Any, name: str, left_out: dict[str, str]) -> Sample:
    if not frame.height:
        raise DataError(f"{name}: has no rows")
    if frame.width > 2000:
        raise DataError(f"{name}: has more than 2,000 columns; keep those that the study needs")
    return Sample(frame.head(MOST_ROWS), source, left_out, frame.height <= MOST_ROWS)


def _one_table(names: list[str], table: str | None, where: str) -> str:
    if table is None and len(names) == 1:
        return names[0]
    if table is not None and table in names:
        return table
    raise StudyError(
        f"{where}: say which table: {option(table=Blank('NAME'))}; there is {', '.join(names[:20]) or 'none'}"
    )


def _limited(query: str) -> str:
    return f"{query} LIMIT {MOST_ROWS + 1}"
