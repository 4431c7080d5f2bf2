"""The stage that looks at all rows of a folder once: against the contract, for units that stand twice, for digests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from causalveil.schemas.admission.cohort import Rule, contract_roles
from causalveil.schemas.admission.manifest import Admission, AdmittedFile, Finding, NotAdmitted, declarations
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.admission.rows import row_findings, type_findings
from causalveil.tasks.admission.units import SeenUnits
from causalveil.tasks.enclave.contents import file_digest, state_of
from causalveil.tasks.enclave.partitions import column_types
from causalveil.tasks.enclave.unit_hash import keyed_hash
from causalveil.tasks.privacy.keys import admission_key, passing_key


def admit_stage(contract: Contract, folder: Path, layout: Layout, scratch: Path) -> Admission:
    """Hold every row of every partition to the contract. Streams: memory holds columns of one partition.

    Args:
        contract: what the owner declares.
        folder: the data folder.
        layout: all partitions in it.
        scratch: an empty private folder on disk, for 16 bytes a unit.

    Returns:
        The manifest.

    Raises:
        NotAdmitted: with every problem that was found, and a message that tells the first without its count.
        DataError: a file changed meanwhile.
    """
    look = _Look(contract, folder, layout, scratch)
    files = tuple(look.at(partition) for partition in layout.partitions)
    findings = (*look.findings, *look.repeated())
    if findings:
        more = " (and more)" if len(findings) > 1 else ""
        raise NotAdmitted(
            f"{findings[0].words}{more}; the data of '{contract.dataset}' are not admitted; their owner is told of "
            "every problem with its count by: causalveil admit FOLDER",
            findings,
        )
    return Admission(
        dataset=contract.dataset,
        declares=declarations(contract),
        key=look.key,
        columns={name: str(dtype) for name, dtype in look.first.items() if name in look.roles},
        files=files,
    )


class _Look:
    """What is found on the way through the partitions."""

    def __init__(self, contract: Contract, folder: Path, layout: Layout, scratch: Path) -> None:
        self.contract, self.folder, self.layout, self.scratch = contract, folder, layout, scratch
        self.roles, self.key = contract_roles(contract), admission_key(contract.dataset)
        self.first: dict[str, pl.DataType] = {}
        self.findings: list[Finding] = []
        self._hash_key = passing_key()
        self._seen: dict[str, SeenUnits] = {}

    def at(self, partition: Partition) -> AdmittedFile:
        """Look at all rows of one file; what is wrong goes to ``findings``."""
        path = self.folder / partition.path
        try:
            before = state_of(path)
            with ThreadPoolExecutor(max_workers=1) as pool:
                digest = pool.submit(file_digest, path, self.key)
                self._rows(partition)
                found = digest.result()
            same = state_of(path) == before
        except OSError:
            same = False
        if not same:
            raise DataError(f"{partition.path}: changed while it was looked at; leave the data alone until admitted")
        return AdmittedFile(
            path=partition.path,
            rows=partition.rows,
            block=partition.block,
            size=before[2],
            modified=before[3],
            digest=found,
        )

    def repeated(self) -> list[Finding]:
        """Units that have two rows where they may have one."""
        span = self.contract.units_span_blocks
        rule = Rule.unique_in_block if span else Rule.unique
        counts = ((block if span else None, seen.repeated()) for block, seen in sorted(self._seen.items()))
        return [Finding(path=block, column=self.contract.unit, rule=rule, rows=rows) for block, rows in counts if rows]

    def _rows(self, partition: Partition) -> None:
        types = column_types(self.folder, partition)
        self.first = self.first or types
        wrong = type_findings(self.roles, partition, types, self.first)
        self.findings += wrong
        bad = {finding.column for finding in wrong}
        good = {name: role for name, role in self.roles.items() if name not in bad}

        def each(frame: pl.DataFrame) -> None:
            if self.contract.unit in good:
                units = frame[self.contract.unit].drop_nulls()
                self._units(partition.block).add(keyed_hash(units, self._hash_key))

        try:
            self.findings += row_findings(good, self.folder, partition, types, each)
        except DataError as problem:
            self.findings.append(Finding(rule=str(problem)))

    def _units(self, block: str) -> SeenUnits:
        """Who was seen where a unit may have one row: in a block if units span blocks, else anywhere."""
        scope = block if self.contract.units_span_blocks else ""
        if scope not in self._seen:
            units = sum(one.rows for one in self.layout.partitions if not scope or one.block == scope)
            self._seen[scope] = SeenUnits(self.scratch / f"units-{len(self._seen):05d}", units)
        return self._seen[scope]
