"""Hold all rows of a folder to the contract, once, and each unit to one row.

One stage looks for breaches of the contract and for units that stand twice, and takes digests of the files. The owner
is told of every problem at once, with counts. Of a small file the bytes that were digested are those that are decoded,
and rows of small files are gathered until there are enough of them to be worth a look.

Keyed hashes of unit ids go to scratch, spread over files by value, and each file is looked at once. Numbers that rise
from row to row, as most tables' do, need less: they are written as they are, and nothing more is asked if no two such
pieces overlap. Of numbers without a gap, which count rows, their ends say all. Memory holds the hashes of one piece or
of one file, whatever the number of units.
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
    list_partitions,
    opened,
    other_count,
    reading,
    rows_of,
    said_by_folders,
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
        contract: what the owner declares.
        folder: the data folder.
        layout: all partitions in it.
        scratch: an empty private folder on disk, for 16 bytes a unit, or for all rows where they are reduced.
        reduced: the folder of the dataset's reduced rows; nothing is written there unless the contract has ``rows``.

    Returns:
        The manifest.

    Raises:
        NotAdmitted: with every problem that was found, and a message that tells the first without its count.
        DataError: a file changed meanwhile.
    """
    look = _Look(contract, folder, layout, scratch)
    files = look.at_all()
    given: tuple[AdmittedFile, ...] = ()
    if contract.rows is not None and not look.findings:
        given, files = files, look.reduce(reduced, files)
    findings = (*look.findings, *look.repeated())
    if findings:
        forget_draft(reduced)
        more = " (and more)" if len(findings) > 1 else ""
        raise NotAdmitted(
            f"{findings[0].words}{more}; the data of '{contract.dataset}' are not admitted; their owner is told of "
            "every problem with its count by: causalveil admit FOLDER",
            findings,
        )
    admission = look.admission(files, given)
    if admission.reduced is not None:
        # Rows that nobody admitted never lie where a run could look for them.
        shutil.rmtree(reduced / admission.reduced, ignore_errors=True)
        (reduced / DRAFT).rename(reduced / admission.reduced)
    return admission


class _Look:
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

    def at_all(self) -> tuple[AdmittedFile, ...]:
        """Look at all rows of every file, those of small files together.

        What is wrong goes to ``findings``.
        """
        files = tuple(
            self._at(partition) for partition in in_steps(self.layout.partitions, len(self.layout.partitions))
        )
        self._together.close()
        return files

    def _at(self, partition: Partition) -> AdmittedFile:
        found = None
        with suppress(OSError), opened(self.folder, partition.path) as file:
            if file.content is not None and partition.rows <= self._together.rows:
                digest = file_digest(file, self.key)
                self._small(partition, file.content)
            else:
                with ThreadPoolExecutor(max_workers=1) as pool:
                    waiting = pool.submit(file_digest, file, self.key)
                    self._large(partition, file)
                    digest = waiting.result()
            found = None if file.changed else admitted_file(partition, file, digest, modified=file.modified)
        if found is None:
            raise DataError(f"{partition.path}: changed while it was looked at; leave the data alone until admitted")
        return found

    def admission(self, files: tuple[AdmittedFile, ...], given: tuple[AdmittedFile, ...]) -> Admission:
        """Return the manifest of data in which nothing was found."""
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
            # Rows are read a second time: those of the very files that were looked at.
            held = self.folder.held_to(Digests(self.key, {file.path: file for file in files}))
            reduce_stage(self.contract, held, self.layout, place, draft, each, bytes.fromhex(self.key))
            made = DataFolder(draft)
            layout = list_partitions(made, None if self.contract.blocks is None else self.contract.blocks.key)
            self.first = column_types(made, layout.partitions[0])
            return tuple(self._digested(made, partition) for partition in layout.partitions)
        except BaseException:
            forget_draft(root)
            raise

    def _digested(self, folder: DataFolder, partition: Partition) -> AdmittedFile:
        with opened(folder, partition.path) as file:
            # No time: the same rows reduced again have the same manifest.
            return admitted_file(partition, file, file_digest(file, self.key), modified=0)

    def repeated(self) -> list[Finding]:
        """Return units that have two rows where they may have one."""
        span = self.contract.units_span_blocks
        rule = Rule.unique_in_block if span else Rule.unique
        counts = ((block if span else None, seen.repeated()) for block, seen in sorted(self._seen.items()))
        return [Finding(path=block, column=self.contract.unit, rule=rule, rows=rows) for block, rows in counts if rows]

    def _small(self, partition: Partition, content: bytes) -> None:
        """A file that is in memory: its rows wait for those of its neighbours."""
        try:
            file = WholeFile(partition, content)
            types = self._together.types_of(file)
            good, said = self._good(partition, types), said_by_folders(partition, types)
            if said and partition.rows:
                stored = joined([file.rows(list(said))], list(said))
                self._hold_to_folders(partition, said, [read_frame(stored, as_compared(said))])
            if good and partition.rows:
                self._together.add(partition, file, {name: types[name] for name in good})
        except DataError as problem:
            self._unreadable(problem)

    def _large(self, partition: Partition, file: OpenFile) -> None:
        """A file that is read piece by piece."""
        self._together.close()
        try:
            types = types_of(file, partition)
            good = {name: self.roles[name] for name in self._good(partition, types)}
            said = said_by_folders(partition, types)
            if said and partition.rows:
                self._hold_to_folders(partition, said, rows_of(file, partition, as_compared(said), self._together.rows))
            counts = Counter[tuple[str, Rule]]()
            for frame in rows_of(file, partition, good, self._together.rows, widen=False) if good else ():
                if partition.rows:
                    counts += self._rules.broken(frame, types)
                    self._see(partition.block, frame)
            self.findings += row_findings(partition, counts)
        except DataError as problem:
            self._unreadable(problem)

    def _hold_to_folders(self, partition: Partition, said: dict[str, str], frames: Iterable[pl.DataFrame]) -> None:
        """Hold columns to what folders say of them."""
        counts = Counter[str]()
        for frame in frames:
            counts.update(contradictions(frame, said))
        wrong = {(name, Rule.folder): rows for name, rows in counts.items() if rows}
        if wrong:
            self._together.close()
            self.findings += row_findings(partition, Counter(wrong))

    def _unreadable(self, problem: DataError) -> None:
        self._together.close()
        self.findings.append(Finding(rule=str(problem)))

    def _good(self, partition: Partition, types: Types) -> list[str]:
        """The columns whose types are as they should be; the others are findings."""
        if partition.rows:
            self.first = self.first or dict(types)
            for name in self.roles.keys() & types.keys():
                self._stored.setdefault(name, set()).add(str(types[name]))
                self._types.setdefault(name, types[name])
        # Reduced rows are written anew, by a writer that knows no whole numbers beyond 64 bits.
        exact = self.contract.rows is not None
        wrong = self._rules.of_types(partition, types, self.first, exact=exact)
        if wrong:
            # Findings stand in the order of the files.
            self._together.close()
            self.findings += wrong
        bad = {finding.column for finding in wrong}
        return [name for name in self.roles if name not in bad]

    def _frame(self, partitions: list[Partition], stored: pl.DataFrame, types: Types) -> None:
        """Hold the rows of small files to the rules together, and only if one may be broken, file by file."""
        frame = read_frame(stored, {name: self.roles[name] for name in types}, widen=False)
        start = 0
        if not self._rules.keep(frame):
            for partition in partitions:
                part = frame[start : start + partition.rows]
                start += partition.rows
                self.findings += row_findings(partition, self._rules.broken(part, types))
        start = 0
        for block, group in groupby(partitions, key=lambda one: one.block):
            rows = sum(one.rows for one in group)
            self._see(block, frame[start : start + rows])
            start += rows

    def _see(self, block: str, frame: pl.DataFrame) -> None:
        if self.contract.rows is None and self.contract.unit in frame.columns:
            self._units(block).add(values_of(frame, self.contract.unit).drop_nulls())

    def _units(self, block: str) -> SeenUnits:
        """Return the units seen where a unit may have one row.

        That is in a block if units span blocks, else anywhere.
        """
        scope = block if self.contract.units_span_blocks else ""
        if scope not in self._seen:
            units = sum(one.rows for one in self.layout.partitions if not scope or one.block == scope)
            self._seen[scope] = SeenUnits(self.scratch / f"units-{len(self._seen):05d}", units, self._hash_key)
        return self._seen[scope]


def admitted_file(partition: Partition, file: OpenFile, digest: str, *, modified: int) -> AdmittedFile:
    """Return one line of a manifest."""
    return AdmittedFile.taken_from(partition, size=file.size, modified=modified, digest=digest)
