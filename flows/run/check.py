"""Everything that is wrong with a study and its contract, at once, before anything runs.

Reads no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from causalveil.flows.plan.budget import budget_of
from causalveil.flows.run.declare import SEVERAL_BLOCKS, data_folder, declare, known_units, load_study
from causalveil.schemas.admission import Finding, Types, contract_roles, wrong_types
from causalveil.schemas.asked.resolve import answering, completed, not_public_enough
from causalveil.schemas.asked.study_file import AutoEstimator, StudyFile, load_study_file, model_of
from causalveil.schemas.contract import CONTRACT_FILE, Contract, DataClass, refusals
from causalveil.schemas.documents import parse_yaml, read_yaml
from causalveil.schemas.errors import CausalveilError, ContractError, StudyError, shown
from causalveil.schemas.limits import SENTENCES, Code
from causalveil.schemas.mistakes import Problem, every_problem, line_of, place_of
from causalveil.schemas.study import Study
from causalveil.schemas.warehouse import SOURCE_FILE, load_source
from causalveil.tasks.data.admit import Rules, type_findings
from causalveil.tasks.data.data_folder import NONE, DataFolder
from causalveil.tasks.data.manifests import check_manifest, kept_admission
from causalveil.tasks.data.partitions import column_types, list_partitions, read_layout
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.privacy.ledger.ledger import ledger_at_hand
from causalveil.tasks.warehouse.read_files import changes_since, named_files

if TYPE_CHECKING:
    from causalveil.schemas.contract_schema import ContractSchema


T = TypeVar("T")


class Checked:
    """Problems as they are found; steps that need what is broken are left out."""

    def __init__(self) -> None:
        """Nothing is wrong yet."""
        self.problems: list[Problem] = []

    def trying(self, file: Path, step: Callable[[], T]) -> T | None:
        """Return a step's result; on an error of ours add a problem of ``file`` and return None."""
        try:
            return step()
        except CausalveilError as problem:
            self.add(file, None, str(problem).removeprefix(f"{file}: "))
        return None

    def add(self, file: Path, line: int | None, text: str) -> None:
        """Note one problem; the same one is told once."""
        problem = Problem(str(file), line, text)
        if problem not in self.problems:
            self.problems.append(problem)


def check(path: Path, *, over_sites: bool = False) -> list[Problem]:
    """List every problem of a study file and of the contract beside its data.

    Each comes with its line and what to do.

    Files, contradictions between them, the types in the data's footers, the numbers that charges come to, and what is
    left of the budget. What only rows can tell is for admission.

    Args:
        path: of the study file.
        over_sites: ask too whether a coordinator, who has no contract, could pool answers to it. Without a contract
            beside it the file is checked as the coordinator's: by itself.
    """
    found = Checked()
    document = found.trying(path, lambda: read_yaml(path))
    asked = None if document is None else _study_file(path, document, found)
    place = _folder(path, asked, document or {})
    folder = found.trying(place, lambda: DataFolder(place))
    if asked is not None and folder is not None and not folder.has_contract:
        _without_contract(path, folder, over_sites, found)
        return found.problems
    contract = None if folder is None else _contract(folder, found)
    if asked is None or document is None or folder is None or contract is None:
        return found.problems
    _with_source(path, folder, contract, found)
    study = _together(path, asked, document, contract, found)
    if study is not None:
        _with_data(path, folder, study, contract, found)
        if over_sites:
            from causalveil.flows.run.pooling import check_travels

            found.trying(path, lambda: check_travels(path))
    return found.problems


def beyond_check(path: Path) -> str | None:
    """Return what no check of a study can see; None where it asks for no effect.

    Whether units are correlated, whether treatment was given by group, and who has rows of which period, stands in rows
    alone.
    """
    asked = read_yaml(path)
    if asked.get("kind") == "direction":
        return None
    contract = DataFolder(data_folder(path, load_study_file(path))).find_contract()
    signed = "".join(
        f" Nor can it see whether every unit has all the rows that '{name}' sums: where signs turn values into a "
        "change, a unit with one period counts with its level. 'rows.wide' and 'design: {name: change}' make changes."
        for name in ([] if contract is None or contract.rows is None else contract.rows.aggregates)
        if contract is not None and contract.signed_sum(name)
    )
    return _alike_beyond(asked) + signed


def _alike_beyond(asked: Mapping[str, Any]) -> str:
    if asked.get("clusters") is not None:
        return (
            "No check can see whether the contract's number of clusters and the spread of their sizes are true; where "
            "it has more clusters than there are, intervals are too narrow."
        )
    return (
        f"No check can see, and no interval covers: {SENTENCES[Code.within_groups]}. To compare whole schools: "
        "causalveil init --unit SCHOOL --means, with the noise of as many units as there are schools."
    )


def _without_contract(path: Path, folder: DataFolder, over_sites: bool, found: Checked) -> None:
    """Check a study as a coordinator's file; at a site a contract is missing, which is said with what to type."""
    from causalveil.flows.run.pooling import check_travels

    travels = Checked()
    travels.trying(path, lambda: check_travels(path, at_a_site=False))
    if over_sites:
        found.problems += travels.problems
        return
    hint = "" if travels.problems else f". To check a coordinator's study by itself: causalveil check --sites {path}"
    found.add(folder.path / CONTRACT_FILE, None, f"{NONE}{hint}")


def schema_of(path: Path) -> tuple[Contract, ContractSchema]:
    """Return the contract beside a study's data, and its pandera schema.

    Admission holds all columns and rows to the schema.

    Raises:
        StudyError: the study file or the contract is wrong.
        DataError: no data are at hand.
        CausalveilError: pandera cannot be imported.
    """
    contract = DataFolder(data_folder(path, load_study_file(path))).contract
    return contract, Rules(contract_roles(contract)).contract


def _study_file(path: Path, document: Mapping[str, Any], found: Checked) -> StudyFile | None:
    model: type[StudyFile] | None = found.trying(path, lambda: model_of(document, str(path)))
    if model is None:
        return None
    asked, problems = every_problem(model, document, str(path))
    found.problems += problems
    return asked


def _folder(path: Path, asked: StudyFile | None, document: Mapping[str, Any]) -> Path:
    if asked is not None:
        return data_folder(path, asked)
    data = document.get("data")
    said = data.get("path") if isinstance(data, Mapping) else None
    # No path has a NUL character, which is told as a control character.
    return path.parent / (said if isinstance(said, str) and "\0" not in said else ".")


def _contract(folder: DataFolder, found: Checked) -> Contract | None:
    path = folder.path / CONTRACT_FILE
    text = found.trying(path, lambda: folder.contract_text)
    document = None if text is None else found.trying(path, lambda: parse_yaml(text, str(path), ContractError))
    if document is None:
        return None
    contract, problems = every_problem(Contract, document, str(path))
    found.problems += problems
    return contract


def _together(
    path: Path, asked: StudyFile, document: Mapping[str, Any], contract: Contract, found: Checked
) -> Study | None:
    """Return the study in full, if study and contract agree."""
    broken = {str(part) for one in found.problems for part in one.place[:2]} - set(contract.offered)
    auto = isinstance(asked.estimator, AutoEstimator)
    if not auto and found.trying(path, lambda: answering(asked, str(path))) is None:
        return None
    full, problems = completed(asked, contract)
    for one in (*problems, *not_public_enough(asked, contract)):
        # A column whose declaration is wrong is not missing as well.
        if not broken.intersection(one.names):
            found.add(path, line_of(document, place_of(one.place, document)), one.text)
    if problems or found.problems:
        return None
    if auto:
        return found.trying(path, lambda: load_study(path))
    study, problems_in_full = every_problem(answering(asked), full, str(path))
    for wrong in problems_in_full:
        found.add(path, line_of(document, wrong.place), wrong.text)
    return study


def _with_data(path: Path, folder: DataFolder, study: Study, contract: Contract, found: Checked) -> None:
    """Check a study against the contract, the data's footers and the budget that is left."""
    contract_file, place = folder.path / CONTRACT_FILE, folder.path
    for refusal in refusals(contract, study, simulate=False):
        found.add(contract_file, None, str(refusal))
    layout = found.trying(place, lambda: read_layout(study, folder))
    if layout is not None:
        for text in found.trying(place, lambda: list(_columns(contract, study, folder))) or ():
            found.add(place, None, text)
        if contract.units_span_blocks and len(layout.blocks) > 1:
            found.add(path, None, SEVERAL_BLOCKS)
        if contract.rows is None:
            found.trying(place, lambda: check_manifest(study, folder, layout))
    units = None if layout is None else found.trying(place, lambda: known_units(study, folder))
    plan = found.trying(path, lambda: declare(study, None if units is None else sizes_of(study, units)))
    if plan is None or any(isinstance(one, StudyError) for one in refusals(contract, study, simulate=False)):
        return
    budget = found.trying(path, lambda: budget_of(path, study, plan))
    for warning in () if budget is None else budget.warnings:
        found.add(contract_file, None, warning.sentence)
    if contract.data_class is DataClass.sensitive and layout is not None and kept_admission(folder, contract) is None:
        found.add(place, None, f"its owner has not admitted it under this contract: causalveil admit {folder}")
    ungranted = _ungranted(contract, contract_file)
    if ungranted:
        found.add(contract_file, None, ungranted)


def _with_source(path: Path, folder: DataFolder, contract: Contract, found: Checked) -> None:
    """Say which files of the folder's source are not as the last extract read them.

    The source file lies beside the study or in the data folder. Of files that cannot be seen from here nothing is said.
    """
    manifest = found.trying(folder.path, folder.manifest)
    if manifest is None or not manifest.source_files:
        return
    for file in {one.resolve() for one in (folder.path / SOURCE_FILE, path.parent / SOURCE_FILE) if one.is_file()}:
        source = found.trying(file, lambda file=file: load_source(file))  # type: ignore[misc]
        if source is None or source.dataset != contract.dataset:
            continue
        filled = {source.to.rstrip("/"), str((file.parent / source.to).resolve())}
        if shown(str(folder.path.resolve())) not in filled:
            continue
        with suppress(CausalveilError):
            changes = changes_since(source, file.parent, manifest)
            told = (("new", changes.new), ("written again", changes.changed), ("gone", changes.gone))
            said = "; ".join(f"{what}: {named_files(names)}" for what, names in told if names)
            # A folder that is not here at all is one of another machine.
            if said and changes.files:
                found.add(file, None, f"its files changed since the last extract ({said}): causalveil extract {file}")


def _columns(contract: Contract, study: Study, folder: DataFolder) -> Iterator[str]:
    """Say which columns are missing or of an unreadable type in the files of all partitions.

    A type is unreadable where what is declared cannot be read from it.

    Admission looks at every column that the contract declares, whichever of them the study reads.
    """
    declared = contract_roles(contract)
    # Where several rows become one, the files hold what the contract declares, and not what a study can name.
    asked = study.roles if contract.rows is None else {}
    alone = {name: role for name, role in asked.items() if name not in declared}
    first: dict[str, pl.DataType] = {}
    roles = declared | alone
    found = dict[tuple[str | None, str], list[str]]()
    for partition in list_partitions(folder, None if contract.blocks is None else contract.blocks.key).partitions:
        types = column_types(folder, partition)
        first = first or (types if partition.rows else {})
        exact = contract.rows is not None
        for one in type_findings(roles, wrong_types(roles, types), partition, types, first, exact=exact):
            told = _told(one, types)
            found.setdefault((one.column, told), []).append(partition.path)
    for (name, told), paths in found.items():
        more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
        yield f"{paths[0]}{more}: column '{name}' {told}"


def _told(one: Finding, types: Types) -> str:
    if one.column is None or one.column not in types:
        return f"{one.rule}; there are {', '.join(list(types)[:30])}"
    kind = types[one.column]
    return f"{one.rule}, and holds {'nested values' if kind == pl.Unknown else kind}"


def _ungranted(contract: Contract, contract_file: Path) -> str:
    """Say what to do where the ledger at hand holds no grant of this very contract; nothing of a public first run.

    Nothing is said where the ledger cannot be asked: that is reported already.
    """
    try:
        ledger = ledger_at_hand()
        grant = None if ledger is None else ledger.standing(contract.dataset).grants.get(contract.dataset)
    except CausalveilError:
        return ""
    grants = f"causalveil ledger grant {contract_file} --reason TEXT"
    if grant is None and contract.data_class is DataClass.sensitive:
        return f"its owner has not granted it: {grants} (`causalveil owner key` first makes the key that signs)"
    if grant is not None and grant.digest != contract.digest:
        return (
            f"the grant of '{contract.dataset}' is for another contract (this one before an edit, or one in another "
            f"folder); its owner grants this one by: {grants}"
        )
    return ""
