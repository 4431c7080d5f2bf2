"""Hold the rows of partitions to the contract, and each unit to one row.

The owner is told of every problem at once, with counts. Of a small file the bytes that were digested are those that are
decoded, and rows of small files are gathered until there are enough of them to be worth a look.

Keyed hashes of unit ids go to scratch, spread over files by value, and each file is looked at once. Numbers that rise
from row to row, as most tables' do, need less: they are written as they are, and nothing more is asked if no two such
pieces overlap. Of numbers without a gap, which count rows, their ends say all. Memory holds the hashes of one piece or
of one file, whatever the number of units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from causalveil.schemas.admission.casts import Roles, Types, families_differ
from causalveil.schemas.admission.manifest import Finding
from causalveil.schemas.admission.rules import Rule
from causalveil.schemas.columns import Holds
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Partition
from causalveil.tasks.enclave.enclave import HashArray
from causalveil.tasks.enclave.partitions import other_count, reading
from causalveil.tasks.enclave.unit_hash import ascending, keyed_hash
from causalveil.tasks.machine.arrays import IntArray, writing_scratch
from causalveil.tasks.machine.frames import frame_of, plain, polars_types


class WholeFile:
    """One of them."""

    def __init__(self, partition: Partition, content: bytes) -> None:
        """Read the footer.

        Raises:
            DataError: it does not parse.
        """
        self._partition = partition
        with reading(partition.path):
            self._file = pq.ParquetFile(pa.BufferReader(content))
            self.schema = self._file.schema_arrow

    def types(self) -> dict[str, pl.DataType]:
        """Return :func:`column_types` of a partition; files of one ``schema`` have the same."""
        return polars_types(self.schema)

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """Return all rows of some columns as the file stores them, for :func:`joined`.

        Raises:
            DataError: as of :func:`read_rows`.
        """
        with reading(self._partition.path):
            table: pa.Table = plain(self._file.read(columns=list(columns), use_threads=False).select(columns))
        if table.num_rows != self._partition.rows:
            raise DataError(other_count(self._partition.path))
        return table


def joined(tables: Sequence[pa.Table], columns: Sequence[str]) -> pl.DataFrame:
    """Return the rows of some tables of one schema."""
    return frame_of(pa.concat_tables(tables), columns)


# Each file that waits has buffers of its own, which may be larger than its rows.
MOST_FILES = 1_024


class Together:
    """Gathers the rows of files that follow each other and store the same columns alike."""

    def __init__(self, rows: int, look: Callable[[list[Partition], pl.DataFrame, Types], None]) -> None:
        """Set ``rows``, the most that are looked at together, but for one file.

        ``look``: is shown files, their rows as stored, and types.
        """
        self.rows = rows
        self._look = look
        self._columns: Types = {}
        self._tables: list[pa.Table] = []
        self._partitions: list[Partition] = []
        self._height = 0
        self._known: tuple[pa.Schema, Types] | None = None

    def types_of(self, file: WholeFile) -> Types:
        """Return the types of a file's columns; those of the one before if their schemas are equal.

        Raises:
            DataError: the footer does not parse.
        """
        if self._known is None or not self._known[0].equals(file.schema, check_metadata=True):
            self._known = file.schema, file.types()
        return self._known[1]

    def add(self, partition: Partition, file: WholeFile, columns: Types) -> None:
        """Take in the rows of the file that comes next.

        Args:
            partition: the file.
            file: its content.
            columns: which to read, and the types in which it stores them.

        Raises:
            DataError: they cannot be read.
        """
        table = file.rows(list(columns))
        if self._tables and (
            not self._tables[0].schema.equals(table.schema, check_metadata=True)
            or self._height + partition.rows > self.rows
            or len(self._tables) == MOST_FILES
        ):
            self.close()
        self._columns = columns
        self._tables.append(table)
        self._height += partition.rows
        self._partitions.append(partition)

    def close(self) -> None:
        """Have what was gathered looked at."""
        tables, partitions = self._tables, self._partitions
        self._tables, self._partitions, self._height = [], [], 0
        if tables:
            self._look(partitions, joined(tables, list(self._columns)), self._columns)


class Rules:
    """The pandera schema that columns and rows of all partitions must satisfy, with findings."""

    def __init__(self, roles: Roles) -> None:
        """Make the schema; ``roles``: what each column must hold.

        Raises:
            CausalveilError: pandera cannot be imported.
        """
        # Commands that look at no data do not wait for pandera.
        from causalveil.schemas.admission.contract_schema import ContractSchema

        self._roles = roles
        self.contract = ContractSchema(roles)

    def of_types(self, partition: Partition, types: Types, first: Types, *, exact: bool) -> list[Finding]:
        """Find columns whose types are wrong; arguments as of :func:`type_findings`."""
        wrong = self.contract.wrong(types) if partition.rows else {}
        return type_findings(self._roles, wrong, partition, types, first, exact=exact)

    def keep(self, frame: pl.DataFrame) -> bool:
        """Check that every row of a frame, as it is read, keeps the rules of the frame's columns."""
        return not self.contract.broken(frame)

    def broken(self, frame: pl.DataFrame, types: Types) -> Counter[tuple[str, Rule]]:
        """Count the rows of a frame, as it is read, that break a rule of one of its columns.

        Args:
            frame: some rows of a file.
            types: in which the file stores its columns.
        """
        counts = self.contract.broken(frame)
        return Counter({(name, self._worded(name, rule, types)): rows for (name, rule), rows in counts.items()})

    def _worded(self, name: str, rule: Rule, types: Types) -> Rule:
        """Return the rule in words that fit what is stored: a unit that is no whole number is read as a null."""
        stored = types[name]
        fractions = self._roles[name].holds is Holds.unit and stored.is_numeric() and not stored.is_integer()
        return Rule.null_unit if rule is Rule.null and fractions else rule


def type_findings(
    roles: Roles, wrong: Mapping[str, Rule], partition: Partition, types: Types, first: Types, *, exact: bool
) -> list[Finding]:
    """Find columns that are missing, of a wrong type, or of other types than those read first.

    Args:
        roles: what each column must hold.
        wrong: the columns that by themselves break a rule of types.
        partition: a file; one without rows holds nothing of a wrong type.
        types: of its columns, from its footer: no row is read.
        first: of the first partition that has rows.
        exact: whether whole numbers must have one type too, as where rows are written anew.
    """
    found = list[Finding]()
    for name, role in roles.items() if partition.rows else ():
        rule = wrong.get(name)
        if rule is None and name in first and families_differ(role, types[name], first[name], exact=exact):
            rule = Rule.same_type
        if rule is not None:
            found.append(Finding(path=partition.path, column=name, rule=rule))
    return found


def row_findings(partition: Partition, counts: Counter[tuple[str, Rule]]) -> list[Finding]:
    """Return what :meth:`Rules.broken` counted in one partition, for its owner."""
    return [Finding(path=partition.path, column=name, rule=rule, rows=rows) for (name, rule), rows in counts.items()]


# Hashes per file, about: 16 MB each.
FILE_UNITS = 1_000_000
MOST_HASH_FILES = 512


class SeenUnits:
    """All units that were seen, in files of a scratch folder."""

    def __init__(self, folder: Path, units: int, key: bytes) -> None:
        """Make the folder.

        Args:
            folder: in scratch.
            units: about how many will be seen.
            key: of their hashes, 16 bytes.
        """
        self._hashes = SeenHashes(folder, units)
        self._key, self._raw = key, folder / "rising"
        self._ends: list[tuple[int, int]] = []
        # Those of them that are whole, from end to end.
        self._counts: list[range] = []

    def add(self, units: pl.Series) -> None:
        """Take in units, without nulls, in any order and number."""
        numbers = None if self._hashes.any else _rising_numbers(units)
        if numbers is None:
            self._hashes.add(keyed_hash(units, self._key))
        elif len(numbers):
            first, last = int(numbers[0]), int(numbers[-1])
            self._ends.append((first, last))
            if last - first + 1 == len(numbers):
                self._counts.append(range(first, last + 1))
                return
            with writing_scratch(), self._raw.open("ab") as file:
                file.write(numbers.data)

    def repeated(self) -> int:
        """Count the rows that belong to a unit that an earlier row named."""
        apart = all(before[1] < after[0] for before, after in pairwise(sorted(self._ends)))
        if apart and not self._hashes.any:
            return 0
        for numbers in self._rising():
            self._hashes.add(keyed_hash(pl.Series(numbers), self._key))
        self._ends.clear()
        self._counts.clear()
        return self._hashes.repeated()

    def _rising(self) -> Iterator[IntArray]:
        """Yield the units that are not hashed yet, in pieces: first those that count rows.

        Once they are among the hashes, there are none.
        """
        for count in self._counts:
            for start in range(count.start, count.stop, FILE_UNITS):
                yield start + np.arange(min(FILE_UNITS, count.stop - start), dtype=np.int64)
        if len(self._ends) > len(self._counts):
            with self._raw.open("rb") as file:
                while len(numbers := np.fromfile(file, dtype=np.int64, count=FILE_UNITS)):
                    yield numbers


class SeenHashes:
    """Hashes of units, in files of a folder."""

    def __init__(self, folder: Path, units: int, file_units: int = FILE_UNITS) -> None:
        """Make the folder; ``units`` is about how many will be seen."""
        self._folder = folder
        self._files = min(MOST_HASH_FILES, max(1, -(-units // file_units)))
        self.any = False
        with writing_scratch():
            folder.mkdir(mode=0o700)

    def add(self, hashes: HashArray) -> None:
        """Take in uniform 128-bit hashes, shape (n, 2), high word first."""
        self.any = self.any or len(hashes) > 0
        # The top bits decide, as floor(high * files / 2^64) without a product that overflows.
        numbers = ((hashes[:, 0] >> np.uint64(32)) * np.uint64(self._files) >> np.uint64(32)).astype(np.uint16)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(self._files + 1))
        spread = hashes.take(order, axis=0)
        for number in range(self._files):
            part = spread[ends[number] : ends[number + 1]]
            if len(part):
                with writing_scratch(), (self._folder / f"{number:03d}").open("ab") as file:
                    file.write(part.data)

    def repeated(self) -> int:
        """Count the rows that belong to a unit that an earlier row named."""
        return sum(_repeated(self._read(number)) for number in range(self._files))

    def _read(self, number: int) -> HashArray:
        path = self._folder / f"{number:03d}"
        if not path.exists():
            return np.empty((0, 2), dtype=np.uint64)
        return np.fromfile(path, dtype=np.uint64).reshape(-1, 2)


def _rising_numbers(units: pl.Series) -> IntArray | None:
    """Integers of 64 bits of which each is above the one before; None: they are not that."""
    if not units.dtype.is_integer():
        return None
    wide = units.cast(pl.Int64, strict=False)
    if wide.null_count():
        return None
    numbers: IntArray = wide.to_numpy()
    return numbers if bool(np.all(numbers[1:] > numbers[:-1])) else None


def _repeated(hashes: HashArray) -> int:
    """Rows beyond the first of each 128-bit value.

    High words alone almost never tie, so they are sorted first.
    """
    ranked = np.sort(hashes[:, 0])
    if not np.any(ranked[1:] == ranked[:-1]):
        return 0
    whole = hashes[ascending(hashes)]
    return int(np.sum(np.all(whole[1:] == whole[:-1], axis=1)))
