"""The stage that looks at all rows of a folder once.

It looks for breaches of the contract and for units that stand twice, and takes digests.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import polars as pl

from causalveil.schemas.admission.casts import Types, read_as, read_frame
from causalveil.schemas.admission.manifest import (
    Admission,
    AdmittedFile,
    CastColumn,
    Digests,
    Finding,
    NotAdmitted,
    declarations,
)
from causalveil.schemas.admission.rules import Rule, contract_roles
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.admission.manifests import DRAFT, forget_draft
from causalveil.tasks.admission.rows import Rules, SeenUnits, Together, WholeFile, joined, row_findings
from causalveil.tasks.enclave.data_folder import DataFolder, file_digest
from causalveil.tasks.enclave.partitions import (
    as_compared,
    column_types,
    contradictions,
    list_partitions,
    opened,
    rows_of,
    said_by_folders,
    segment_rows,
    types_of,
)
from causalveil.tasks.machine.distribute import in_steps
from causalveil.tasks.machine.files import make_folder_durably
from causalveil.tasks.machine.folders import OpenFile
from causalveil.tasks.machine.frames import values_of
from causalveil.tasks.privacy.keys import admission_key, passing_key
from causalveil.tasks.reduction import reduce_stage


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
