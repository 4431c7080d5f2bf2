"""Hold files to their manifests and to the contract before anything is reserved.

A study's data are held against the manifest of the extract that made them. A column that the warehouse renamed, a type
that changed, a partition that somebody replaced: each ends the run here, where it costs nothing. A folder without a
manifest was filled by hand and is checked by validation alone.

The first stage of a run reads no row: it asks whether sizes and footers are those of the admitted files. Rows were held
to the contract once, when their owner admitted them (``tasks/admission/``); their bytes are digested while
``normalise`` reads them. So no row can make a run fail. Here the study's own schema, whose columns are those of the
contract, is held to each footer by pandera.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from causalveil.schemas.admission.manifest import Admission
from causalveil.schemas.admission.rules import Rule, accepts, type_rule
from causalveil.schemas.contract import CONTRACT_FILE, Contract
from causalveil.schemas.errors import ContractError, DataError
from causalveil.schemas.plan import Layout
from causalveil.schemas.sources import Kind, TableSnapshot
from causalveil.schemas.study import Study
from causalveil.schemas.warehouse import Manifest
from causalveil.tasks.enclave.data_folder import DataFolder, changed
from causalveil.tasks.enclave.partitions import column_types


def check_manifest(study: Study, folder: DataFolder, layout: Layout) -> Manifest | None:
    """Check columns, types and partitions of a study against its data's manifest.

    Footers are read, never rows.

    Returns:
        The manifest, or None where there is none.

    Raises:
        DataError: names the column or the partition; the schema drifted, or files were changed since the extract.
    """
    manifest = folder.manifest()
    if manifest is None:
        return None
    for name in study.columns:
        _check_column(study, manifest, name)
    _check_partitions(manifest, layout)
    for partition in layout.partitions:
        types = column_types(folder, partition)
        for name, kind in manifest.columns.items():
            if name not in types or types[name] != _stored_as(kind):
                raise DataError(
                    f"{partition.path}: column '{name}' is not the {kind} that the manifest says; extract again"
                )
    return manifest


def snapshots_of(folder: DataFolder, layout: Layout) -> tuple[TableSnapshot, ...]:
    """Return the states of open tables that the partitions of a run were taken from.

    Raises:
        DataError: the manifest cannot be read.
    """
    manifest = folder.manifest()
    read = {partition.path.partition("/")[0] for partition in layout.partitions}
    return () if manifest is None else manifest.snapshots(read)


def refuse_telling_losses(contract: Contract, folder: DataFolder) -> None:
    """Refuse sensitive data whose extract left rows out because of their values.

    The number of units would disclose something about these values.

    Raises:
        ContractError: says which column, and what the owner can do.
    """
    manifest = folder.manifest()
    refuse_telling(contract, () if manifest is None else manifest.required)


def refuse_telling(contract: Contract, required: Iterable[str]) -> None:
    """Refuse a source that leaves out sensitive rows without a value, where that is not public.

    Raises:
        ContractError: as :func:`refuse_telling_losses`.
    """
    name = contract.unspeakable(required)
    if name is not None:
        raise ContractError(
            f"rows without '{name}' are left out of sensitive data, so the number of units would tell who has none; "
            f"take '{name}' out of 'required' in source.yaml and extract anew, or write 'recorded_is_public: [{name}]' "
            f"into {CONTRACT_FILE} if that is public"
        )


def _check_column(study: Study, manifest: Manifest, name: str) -> None:
    kind = manifest.columns.get(name)
    if kind is None:
        raise DataError(
            f"the study reads column '{name}', which extract '{manifest.name}' did not take; "
            "declare it in the source file, or mend the study"
        )
    if not accepts(study.roles[name], _stored_as(kind)):
        raise DataError(
            f"column '{name}' was extracted as {kind}, but the study says it {type_rule(study.roles[name])}"
        )


def _check_partitions(manifest: Manifest, layout: Layout) -> None:
    """Files and counts of every block that the run reads are those of the manifest."""
    written = {file.path: file.rows for block in manifest.blocks for file in block.files}
    found = {partition.path: partition.rows for partition in layout.partitions}
    read = {path.partition("/")[0] for path in found}
    missing = sorted(path for path in written if path.partition("/")[0] in read and path not in found)
    for path in [*missing, *sorted(path for path in found if found[path] != written.get(path))]:
        raise DataError(f"{path}: was added, removed or changed since the extract; run the extract again")


def _stored_as(kind: Kind) -> pl.DataType:
    return {
        Kind.integer: pl.Int64(),
        Kind.number: pl.Float64(),
        Kind.boolean: pl.Boolean(),
        Kind.text: pl.String(),
        Kind.date: pl.Date(),
        Kind.timestamp: pl.Datetime("us"),
    }[kind]


def validate_stage(study: Study, folder: DataFolder, layout: Layout, admission: Admission) -> None:
    """Hold columns, sizes and footers of a run's files to the manifest of the admitted data.

    Args:
        study: the study.
        folder: the data folder.
        layout: what :func:`tasks.enclave.partitions.read_layout` found there.
        admission: the manifest.

    Raises:
        DataError: one line with the column or the partition.
        CausalveilError: pandera cannot be imported.
    """
    for name in study.columns:
        if name not in admission.columns:
            raise DataError(
                f"column '{name}' is none of the admitted data; their owner must admit them under the contract as it "
                "stands: causalveil admit FOLDER"
            )
    from causalveil.schemas.admission.contract_schema import ContractSchema

    schema = ContractSchema(study.roles)
    for partition in layout.partitions:
        admitted = admission.by_path.get(partition.path)
        if admitted is None or (admitted.rows, admitted.block) != (partition.rows, partition.block):
            raise changed(partition.path)
        # A file without rows may say anything of its columns.
        wrong = schema.wrong(column_types(folder, partition)) if partition.rows else {}
        for name, rule in wrong.items():
            if rule is Rule.missing:
                raise changed(partition.path)
            raise DataError(f"{partition.path}: column '{name}' {rule}")
