"""Hold all rows of a folder to the contract, once, and each unit to one row.

One stage looks for breaches of the contract and for units that occur twice, and takes digests of the files. The owner
is told of every problem at once, with counts. A small file is digested and decoded from the same bytes in memory, and
rows of small files are gathered and checked together.

Keyed hashes of unit ids go to scratch, spread over files by value, and each file is read once. Ids that increase from
row to row, as in most tables, need less: they are written unhashed, and if no two pieces overlap, no id occurs twice.
Of ids without a gap, which count rows, the two ends suffice. Memory holds the hashes of one piece or of one file,
whatever the number of units.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from causalveil.schemas.admission import (
    Admission,
    AdmittedFile,
    CastColumn,
    Digests,
    Finding,
    NotAdmitted,
    Roles,
    Rule,
    Types,
    contract_roles,
    declarations,
    families_differ,
    read_as,
    read_frame,
)
from causalveil.schemas.columns import Holds
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.data.data_folder import DataFolder, file_digest
from causalveil.tasks.data.enclave import HashArray
from causalveil.tasks.data.manifests import DRAFT, forget_draft
from causalveil.tasks.data.partitions import (
    as_compared,
    column_types,
    contradictions,
    folder_values,
    list_partitions,
    opened,
    other_count,
    reading,
    rows_of,
    segment_rows,
    types_of,
)
from causalveil.tasks.data.reduction import reduce_stage
from causalveil.tasks.data.split import ascending, keyed_hash
from causalveil.tasks.machine.arrays import IntArray, frame_of, plain, polars_types, values_of, writing_scratch
from causalveil.tasks.machine.distribute import in_steps
from causalveil.tasks.machine.files import make_folder_durably
from causalveil.tasks.machine.folders import OpenFile
from causalveil.tasks.privacy.keys import admission_key, passing_key


class WholeFile:
    """A Parquet file in memory."""

    def __init__(self, partition: Partition, content: bytes) -> None:
        """Read the footer.

        Raises:
            DataError: it does not parse.
        """
        self._partition = partition
        with reading(partition.path):
            self._file = pq.ParquetFile(pa.BufferReader(content))
            self.schema = self._file.schema_arrow

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


# Each gathered file has buffers of its own, which may be larger than its rows.
MOST_FILES = 1_024


class Together:
    """Gathers the rows of successive files that store the same columns in the same types."""

    def __init__(self, rows: int, check: Callable[[list[Partition], pl.DataFrame, Types], None]) -> None:
        """Set ``rows``, the most that are gathered of several files.

        ``check`` takes the files, their rows as stored, and types.
        """
        self.rows = rows
        self._check = check
        self._columns: Types = {}
        self._tables: list[pa.Table] = []
        self._partitions: list[Partition] = []
        self._height = 0
        self._schema: pa.Schema | None = None
        self._types: Types = {}

    def types_of(self, file: WholeFile) -> Types:
        """Return the types of a file's columns; those of the one before if their schemas are equal.

        Raises:
            DataError: the footer does not parse.
        """
        if self._schema is None or not self._schema.equals(file.schema, check_metadata=True):
            self._schema, self._types = file.schema, polars_types(file.schema)
        return self._types

    def add(self, partition: Partition, file: WholeFile, columns: Types) -> None:
        """Take in the rows of the next file.

        Args:
            partition: the file.
            file: its content.
            columns: names of those to read, with the types in which it stores them.

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
        """Check the gathered rows."""
        tables, partitions = self._tables, self._partitions
        self._tables, self._partitions, self._height = [], [], 0
        if tables:
            self._check(partitions, joined(tables, list(self._columns)), self._columns)


class Rules:
    """The pandera schema that columns and rows of all partitions must satisfy, with findings."""

    def __init__(self, roles: Roles) -> None:
        """Make the schema; ``roles``: what each column must hold.

        Raises:
            CausalveilError: pandera cannot be imported.
        """
        # Imported here: pandera is slow to import, and most commands do not need it.
        from causalveil.schemas.contract_schema import ContractSchema

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
        """Return the rule in words for the stored type: a unit that is no whole number is read as a null."""
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
        partition: a file; types in a file without rows are arbitrary.
        types: of its columns, from its footer: no row is read.
        first: of the first partition that has rows.
        exact: whether whole numbers must have one type too, as where rows are written anew.
    """
    findings = list[Finding]()
    for name, role in roles.items() if partition.rows else ():
        rule = wrong.get(name)
        if rule is None and name in first and families_differ(role, types[name], first[name], exact=exact):
            rule = Rule.same_type
        if rule is not None:
            findings.append(Finding(path=partition.path, column=name, rule=rule))
    return findings


def row_findings(partition: Partition, counts: Counter[tuple[str, Rule]]) -> list[Finding]:
    """Return the counts of :meth:`Rules.broken` in a partition as findings for its owner."""
    return [Finding(path=partition.path, column=name, rule=rule, rows=rows) for (name, rule), rows in counts.items()]


# About the number of hashes per file: 16 MB.
FILE_UNITS = 1_000_000
MOST_HASH_FILES = 512


class SeenUnits:
    """All units that were seen, in files of a scratch folder."""

    def __init__(self, folder: Path, units: int, key: bytes) -> None:
        """Make the folder.

        Args:
            folder: in scratch.
            units: about the number of units.
            key: of their hashes, 16 bytes.
        """
        self._hashes = SeenHashes(folder, units)
        self._key, self._increasing_file = key, folder / "rising"
        # First and last id of each piece of increasing ids, and the pieces without a gap.
        self._ends: list[tuple[int, int]] = []
        self._gapless: list[range] = []

    def add(self, units: pl.Series) -> None:
        """Take in units, without nulls, in any order and number."""
        numbers = None if self._hashes.any else _increasing_ids(units)
        if numbers is None:
            self._hashes.add(keyed_hash(units, self._key))
        elif len(numbers):
            first, last = int(numbers[0]), int(numbers[-1])
            self._ends.append((first, last))
            if last - first + 1 == len(numbers):
                self._gapless.append(range(first, last + 1))
                return
            with writing_scratch(), self._increasing_file.open("ab") as file:
                file.write(numbers.data)

    def repeated(self) -> int:
        """Count the rows that belong to a unit that an earlier row named."""
        apart = all(before[1] < after[0] for before, after in pairwise(sorted(self._ends)))
        if apart and not self._hashes.any:
            return 0
        for numbers in self._unhashed():
            self._hashes.add(keyed_hash(pl.Series(numbers), self._key))
        self._ends.clear()
        self._gapless.clear()
        return self._hashes.repeated()

    def _unhashed(self) -> Iterator[IntArray]:
        """Yield the ids that are not hashed yet, in pieces."""
        for ids in self._gapless:
            for start in range(ids.start, ids.stop, FILE_UNITS):
                yield start + np.arange(min(FILE_UNITS, ids.stop - start), dtype=np.int64)
        if len(self._ends) > len(self._gapless):
            with self._increasing_file.open("rb") as file:
                while len(numbers := np.fromfile(file, dtype=np.int64, count=FILE_UNITS)):
                    yield numbers


class SeenHashes:
    """Hashes of units, in files of a folder."""

    def __init__(self, folder: Path, units: int, file_units: int = FILE_UNITS) -> None:
        """Make the folder; ``units`` is about their number."""
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


def _increasing_ids(units: pl.Series) -> IntArray | None:
    """Strictly increasing integers of 64 bits; None if the units are not."""
    if not units.dtype.is_integer():
        return None
    wide = units.cast(pl.Int64, strict=False)
    if wide.null_count():
        return None
    numbers: IntArray = wide.to_numpy()
    return numbers if bool(np.all(numbers[1:] > numbers[:-1])) else None


def _repeated(hashes: HashArray) -> int:
    """Rows beyond the first of each 128-bit value.

    High words alone almost never tie, so they are counted first.
    """
    if pl.Series(hashes[:, 0].copy()).n_unique() == len(hashes):
        return 0
    whole = hashes[ascending(hashes)]
    return int(np.sum(np.all(whole[1:] == whole[:-1], axis=1)))


def admit_stage(contract: Contract, folder: DataFolder, layout: Layout, scratch: Path, reduced: Path) -> Admission:
    """Hold every row of every partition to the contract.

    The rows are streamed: memory holds columns of one segment.

    Args:
        contract: the owner's declarations.
        folder: the data folder.
        layout: all partitions in it.
        scratch: an empty private folder on disk, for 16 bytes a unit, or for all rows where they are reduced.
        reduced: the folder of the dataset's reduced rows, used only if the contract has ``rows``.

    Returns:
        The manifest.

    Raises:
        NotAdmitted: with every problem, and a message that states the first without its count.
        DataError: a file changed meanwhile.
    """
    check = _Check(contract, folder, layout, scratch)
    files = check.all_files()
    given: tuple[AdmittedFile, ...] = ()
    if contract.rows is not None and not check.findings:
        given, files = files, check.reduce(reduced, files)
    findings = (*check.findings, *check.repeated())
    if findings:
        forget_draft(reduced)
        more = " (and more)" if len(findings) > 1 else ""
        raise NotAdmitted(
            f"{findings[0].words}{more}; the data of '{contract.dataset}' are not admitted; their owner is told of "
            "every problem with its count by: causalveil admit FOLDER",
            findings,
        )
    admission = check.admission(files, given)
    if admission.reduced is not None:
        # Only admitted rows come where a run looks for them.
        shutil.rmtree(reduced / admission.reduced, ignore_errors=True)
        (reduced / DRAFT).rename(reduced / admission.reduced)
    return admission


class _Check:
    """One pass through the partitions, with its findings."""

    def __init__(self, contract: Contract, folder: DataFolder, layout: Layout, scratch: Path) -> None:
        self.contract, self.folder, self.layout, self.scratch = contract, folder, layout, scratch
        self.roles, self.key = contract_roles(contract), admission_key(contract.dataset)
        self.first: dict[str, pl.DataType] = {}
        self._stored: dict[str, set[str]] = {}
        self._types: dict[str, pl.DataType] = {}
        self.findings: list[Finding] = []
        self._hash_key = passing_key()
        self._seen: dict[str, SeenUnits] = {}
        self._rules = Rules(self.roles)
        self._together = Together(segment_rows(len(self.roles)), self._frame)

    def all_files(self) -> tuple[AdmittedFile, ...]:
        """Check all rows of every file, those of small files together; problems go to ``findings``."""
        partitions = self.layout.partitions
        files = tuple(self._file(partition) for partition in in_steps(partitions, len(partitions)))
        self._together.close()
        return files

    def _file(self, partition: Partition) -> AdmittedFile:
        admitted = None
        with suppress(OSError), opened(self.folder, partition.path) as file:
            if file.content is not None and partition.rows <= self._together.rows:
                digest = file_digest(file, self.key)
                self._small(partition, file.content)
            else:
                with ThreadPoolExecutor(max_workers=1) as pool:
                    future = pool.submit(file_digest, file, self.key)
                    self._large(partition, file)
                    digest = future.result()
            admitted = None if file.changed else admitted_file(partition, file, digest, modified=file.modified)
        if admitted is None:
            raise DataError(f"{partition.path}: changed while it was looked at; leave the data alone until admitted")
        return admitted

    def admission(self, files: tuple[AdmittedFile, ...], given: tuple[AdmittedFile, ...]) -> Admission:
        """Return the manifest of data without findings."""
        columns = {name: str(dtype) for name, dtype in self.first.items() if name in self.roles or self.contract.rows}
        casts = {}
        for name, stored in sorted(self._stored.items()):
            read = str(read_as(self.roles[name], self._types[name]))
            if stored != {read}:
                casts[name] = CastColumn(stored=tuple(sorted(stored)), read=read)
        return Admission(
            dataset=self.contract.dataset,
            declares=declarations(self.contract),
            key=self.key,
            columns=columns,
            casts=casts,
            files=files,
            given=given,
        )

    def reduce(self, root: Path, files: tuple[AdmittedFile, ...]) -> tuple[AdmittedFile, ...]:
        """Make one row of each unit's rows in ``files``, as a draft of the folder that runs read."""
        make_folder_durably(root)
        draft, place = root / DRAFT, self.scratch / "rows"
        forget_draft(root)
        draft.mkdir(mode=0o700)
        place.mkdir(mode=0o700)

        def each(block: str, units: pl.Series) -> None:
            self._units(block).add(units)

        try:
            # Rows are read a second time, from the same files.
            held = self.folder.held_to(Digests(self.key, {file.path: file for file in files}))
            reduce_stage(self.contract, held, self.layout, place, draft, each, bytes.fromhex(self.key))
            folder = DataFolder(draft)
            layout = list_partitions(folder, None if self.contract.blocks is None else self.contract.blocks.key)
            self.first = column_types(folder, layout.partitions[0])
            return tuple(self._digested(folder, partition) for partition in layout.partitions)
        except BaseException:
            forget_draft(root)
            raise

    def _digested(self, folder: DataFolder, partition: Partition) -> AdmittedFile:
        with opened(folder, partition.path) as file:
            # Without the time of change, so that the same rows reduced again have the same manifest.
            return admitted_file(partition, file, file_digest(file, self.key), modified=0)

    def repeated(self) -> list[Finding]:
        """Return units that have two rows where they may have one."""
        span = self.contract.units_span_blocks
        rule = Rule.unique_in_block if span else Rule.unique
        counts = ((block if span else None, seen.repeated()) for block, seen in sorted(self._seen.items()))
        return [Finding(path=block, column=self.contract.unit, rule=rule, rows=rows) for block, rows in counts if rows]

    def _small(self, partition: Partition, content: bytes) -> None:
        """Check a file in memory, its rows together with those of its neighbours."""
        try:
            file = WholeFile(partition, content)
            types = self._together.types_of(file)
            good, values = self._good(partition, types), folder_values(partition, types)
            if values and partition.rows:
                stored = joined([file.rows(list(values))], list(values))
                self._hold_to_folders(partition, values, [read_frame(stored, as_compared(values))])
            if good and partition.rows:
                self._together.add(partition, file, {name: types[name] for name in good})
        except DataError as problem:
            self._unreadable(problem)

    def _large(self, partition: Partition, file: OpenFile) -> None:
        """Check a file piece by piece."""
        self._together.close()
        try:
            types = types_of(file, partition)
            good = {name: self.roles[name] for name in self._good(partition, types)}
            values, most = folder_values(partition, types), self._together.rows
            if values and partition.rows:
                self._hold_to_folders(partition, values, rows_of(file, partition, as_compared(values), most))
            counts = Counter[tuple[str, Rule]]()
            for frame in rows_of(file, partition, good, most, widen=False) if good else ():
                if partition.rows:
                    counts += self._rules.broken(frame, types)
                    self._see(partition.block, frame)
            self.findings += row_findings(partition, counts)
        except DataError as problem:
            self._unreadable(problem)

    def _hold_to_folders(self, partition: Partition, values: dict[str, str], frames: Iterable[pl.DataFrame]) -> None:
        """Compare columns with the values in their folders' names."""
        counts = Counter[str]()
        for frame in frames:
            counts.update(contradictions(frame, values))
        wrong = {(name, Rule.folder): rows for name, rows in counts.items() if rows}
        if wrong:
            self._together.close()
            self.findings += row_findings(partition, Counter(wrong))

    def _unreadable(self, problem: DataError) -> None:
        self._together.close()
        self.findings.append(Finding(rule=str(problem)))

    def _good(self, partition: Partition, types: Types) -> list[str]:
        """The columns of right types; wrong types become findings."""
        if partition.rows:
            self.first = self.first or dict(types)
            for name in self.roles.keys() & types.keys():
                self._stored.setdefault(name, set()).add(str(types[name]))
                self._types.setdefault(name, types[name])
        # Reduced rows are written anew, and the writer has no whole numbers beyond 64 bits.
        exact = self.contract.rows is not None
        wrong = self._rules.of_types(partition, types, self.first, exact=exact)
        if wrong:
            # Findings are in the order of the files.
            self._together.close()
            self.findings += wrong
        bad = {finding.column for finding in wrong}
        return [name for name in self.roles if name not in bad]

    def _frame(self, partitions: list[Partition], stored: pl.DataFrame, types: Types) -> None:
        """Check the rows of small files together, and file by file only if a rule is broken."""
        frame = read_frame(stored, {name: self.roles[name] for name in types}, widen=False)
        start = 0
        if not self._rules.keep(frame):
            for partition in partitions:
                part = frame[start : start + partition.rows]
                start += partition.rows
                self.findings += row_findings(partition, self._rules.broken(part, types))
        start = 0
        for block, group in groupby(partitions, key=lambda partition: partition.block):
            rows = sum(partition.rows for partition in group)
            self._see(block, frame[start : start + rows])
            start += rows

    def _see(self, block: str, frame: pl.DataFrame) -> None:
        if self.contract.rows is None and self.contract.unit in frame.columns:
            self._units(block).add(values_of(frame, self.contract.unit).drop_nulls())

    def _units(self, block: str) -> SeenUnits:
        """Return the units seen in a block if units span blocks, else in all: a unit may have one row there."""
        scope = block if self.contract.units_span_blocks else ""
        if scope not in self._seen:
            partitions = self.layout.partitions
            units = sum(partition.rows for partition in partitions if not scope or partition.block == scope)
            self._seen[scope] = SeenUnits(self.scratch / f"units-{len(self._seen):05d}", units, self._hash_key)
        return self._seen[scope]


def admitted_file(partition: Partition, file: OpenFile, digest: str, *, modified: int) -> AdmittedFile:
    """Return a file's line of a manifest."""
    return AdmittedFile.taken_from(partition, size=file.size, modified=modified, digest=digest)
