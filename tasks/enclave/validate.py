"""The first stage of a run: are the files those that were admitted, as far as sizes and footers tell? Reads no row.

Rows were held to the contract once, when their owner admitted them (``tasks/admission/``); their bytes are digested
while ``normalise`` reads them. So no row can make a run fail. Here the study's own schema, whose columns are those of
the contract, is held to each footer by pandera.
"""

from __future__ import annotations

from causalveil.schemas.admission.cohort import Rule
from causalveil.schemas.admission.manifest import Admission
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.contents import changed
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.partitions import column_types


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
