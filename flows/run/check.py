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


class Checks:
    """Problems of a study so far; steps that need a broken part are left out."""

    def __init__(self) -> None:
        """Begin without a problem."""
        self.problems: list[Problem] = []

    def trying(self, file: Path, step: Callable[[], T]) -> T | None:
        """Return a step's result; on an error of ours add a problem of ``file`` and return None."""
        try:
            return step()
        except CausalveilError as problem:
            self.add(file, None, str(problem).removeprefix(f"{file}: "))
        return None

    def add(self, file: Path, line: int | None, text: str) -> None:
        """Note a problem, once."""
        problem = Problem(str(file), line, text)
        if problem not in self.problems:
            self.problems.append(problem)


def check(path: Path, *, over_sites: bool = False) -> list[Problem]:
    """List every problem of a study file and of the contract beside its data.

    Each comes with its line and what to do.

    Files, contradictions between them, the types in the data's footers, the numbers of the charges, and the remaining
    budget are checked; rows are admission's.

    Args:
        path: of the study file.
        over_sites: ask too whether a coordinator, who has no contract, could pool answers to it. Without a contract
            beside it the file is checked as the coordinator's: by itself.
    """
    checks = Checks()
    document = checks.trying(path, lambda: read_yaml(path))
    study_file = None if document is None else _study_file(path, document, checks)
    place = _folder(path, study_file, document or {})
    folder = checks.trying(place, lambda: DataFolder(place))
    if study_file is not None and folder is not None and not folder.has_contract:
        _without_contract(path, folder, over_sites, checks)
        return checks.problems
    contract = None if folder is None else _contract(folder, checks)
    if study_file is None or document is None or folder is None or contract is None:
        return checks.problems
    _with_source(path, folder, contract, checks)
    study = _together(path, study_file, document, contract, checks)
    if study is not None:
        _with_data(path, folder, study, contract, checks)
        if over_sites:
            from causalveil.flows.run.pooling import check_travels

            checks.trying(path, lambda: check_travels(path))
    return checks.problems


def beyond_check(path: Path) -> str | None:
    """Return the assumptions that no check of a study can see; None where it asks for no effect.

    Whether units are correlated, whether treatment was given by group, and who has rows of which period, rows alone
    show.
    """
    document = read_yaml(path)
    if document.get("kind") == "direction":
        return None
    contract = DataFolder(data_folder(path, load_study_file(path))).find_contract()
    signed = "".join(
        f" Nor can it see whether every unit has all the rows that '{name}' sums: where signs turn values into a "
        "change, a unit with one period counts with its level. 'rows.wide' and 'design: {name: change}' make changes."
        for name in ([] if contract is None or contract.rows is None else contract.rows.aggregates)
        if contract is not None and contract.signed_sum(name)
    )
    if document.get("clusters") is not None:
        dependence = (
            "No check can see whether the contract's number of clusters and the spread of their sizes are true; where "
            "it has more clusters than there are, intervals are too narrow."
        )
    else:
        dependence = (
            f"No check can see, and no interval covers: {SENTENCES[Code.within_groups]}. To compare whole schools: "
            "causalveil init --unit SCHOOL --means, with the noise of as many units as there are schools."
        )
    return dependence + signed


def _without_contract(path: Path, folder: DataFolder, over_sites: bool, checks: Checks) -> None:
    """Check a study as a coordinator's file; at a site say that its contract is missing."""
    from causalveil.flows.run.pooling import check_travels

    travels = Checks()
    travels.trying(path, lambda: check_travels(path, at_a_site=False))
    if over_sites:
        checks.problems += travels.problems
        return
    hint = "" if travels.problems else f". To check a coordinator's study by itself: causalveil check --sites {path}"
    checks.add(folder.path / CONTRACT_FILE, None, f"{NONE}{hint}")


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


def _study_file(path: Path, document: Mapping[str, Any], checks: Checks) -> StudyFile | None:
    model: type[StudyFile] | None = checks.trying(path, lambda: model_of(document, str(path)))
    if model is None:
        return None
    study_file, problems = every_problem(model, document, str(path))
    checks.problems += problems
    return study_file


def _folder(path: Path, study_file: StudyFile | None, document: Mapping[str, Any]) -> Path:
    if study_file is not None:
        return data_folder(path, study_file)
    data = document.get("data")
    folder = data.get("path") if isinstance(data, Mapping) else None
    # No path has a NUL character, which is reported as a control character.
    return path.parent / (folder if isinstance(folder, str) and "\0" not in folder else ".")


def _contract(folder: DataFolder, checks: Checks) -> Contract | None:
    path = folder.path / CONTRACT_FILE
    text = checks.trying(path, lambda: folder.contract_text)
    document = None if text is None else checks.trying(path, lambda: parse_yaml(text, str(path), ContractError))
    if document is None:
        return None
    contract, problems = every_problem(Contract, document, str(path))
    checks.problems += problems
    return contract


def _together(
    path: Path, study_file: StudyFile, document: Mapping[str, Any], contract: Contract, checks: Checks
) -> Study | None:
    """Return the study in full, if study and contract agree."""
    broken = {str(part) for problem in checks.problems for part in problem.place[:2]} - set(contract.offered)
    auto = isinstance(study_file.estimator, AutoEstimator)
    if not auto and checks.trying(path, lambda: answering(study_file, str(path))) is None:
        return None
    full, problems = completed(study_file, contract)
    for problem in (*problems, *not_public_enough(study_file, contract)):
        # A column whose declaration is wrong is not missing as well.
        if not broken.intersection(problem.names):
            checks.add(path, line_of(document, place_of(problem.place, document)), problem.text)
    if problems or checks.problems:
        return None
    if auto:
        return checks.trying(path, lambda: load_study(path))
    study, problems_in_full = every_problem(answering(study_file), full, str(path))
    for mistake in problems_in_full:
        checks.add(path, line_of(document, mistake.place), mistake.text)
    return study


def _with_data(path: Path, folder: DataFolder, study: Study, contract: Contract, checks: Checks) -> None:
    """Check a study against the contract, the data's footers and the remaining budget."""
    contract_file, place = folder.path / CONTRACT_FILE, folder.path
    refused = tuple(refusals(contract, study, simulate=False))
    for refusal in refused:
        checks.add(contract_file, None, str(refusal))
    layout = checks.trying(place, lambda: read_layout(study, folder))
    if layout is not None:
        for text in checks.trying(place, lambda: list(_columns(contract, study, folder))) or ():
            checks.add(place, None, text)
        if contract.units_span_blocks and len(layout.blocks) > 1:
            checks.add(path, None, SEVERAL_BLOCKS)
        if contract.rows is None:
            checks.trying(place, lambda: check_manifest(study, folder, layout))
    units = None if layout is None else checks.trying(place, lambda: known_units(study, folder))
    plan = checks.trying(path, lambda: declare(study, None if units is None else sizes_of(study, units)))
    if plan is None or any(isinstance(refusal, StudyError) for refusal in refused):
        return
    budget = checks.trying(path, lambda: budget_of(path, study, plan))
    for warning in () if budget is None else budget.warnings:
        checks.add(contract_file, None, warning.sentence)
    if contract.data_class is DataClass.sensitive and layout is not None and kept_admission(folder, contract) is None:
        checks.add(place, None, f"its owner has not admitted it under this contract: causalveil admit {folder}")
    ungranted = _ungranted(contract, contract_file)
    if ungranted:
        checks.add(contract_file, None, ungranted)


def _with_source(path: Path, folder: DataFolder, contract: Contract, checks: Checks) -> None:
    """Say which files of the folder's source changed since the last extract.

    The source file lies beside the study or in the data folder. Files that cannot be seen from here are passed over.
    """
    manifest = checks.trying(folder.path, folder.manifest)
    if manifest is None or not manifest.source_files:
        return
    beside = (folder.path / SOURCE_FILE, path.parent / SOURCE_FILE)
    for file in {source_file.resolve() for source_file in beside if source_file.is_file()}:
        source = checks.trying(file, lambda file=file: load_source(file))  # type: ignore[misc]
        if source is None or source.dataset != contract.dataset:
            continue
        filled = {source.to.rstrip("/"), str((file.parent / source.to).resolve())}
        if shown(str(folder.path.resolve())) not in filled:
            continue
        with suppress(CausalveilError):
            changes = changes_since(source, file.parent, manifest)
            names_by_change = {"new": changes.new, "written again": changes.changed, "gone": changes.gone}
            news = "; ".join(f"{change}: {named_files(names)}" for change, names in names_by_change.items() if names)
            # A folder that is not here at all is one of another machine.
            if news and changes.files:
                checks.add(file, None, f"its files changed since the last extract ({news}): causalveil extract {file}")


def _columns(contract: Contract, study: Study, folder: DataFolder) -> Iterator[str]:
    """Say which columns partitions lack, or hold in a type without declared values.

    Admission looks at every column that the contract declares, whichever of them the study reads.
    """
    declared = contract_roles(contract)
    # Where several rows become one, the files hold the columns of the contract, and not those that a study can name.
    named = study.roles if contract.rows is None else {}
    roles = declared | {name: role for name, role in named.items() if name not in declared}
    first: dict[str, pl.DataType] = {}
    paths_by_problem = dict[tuple[str | None, str], list[str]]()
    for partition in list_partitions(folder, None if contract.blocks is None else contract.blocks.key).partitions:
        types = column_types(folder, partition)
        first = first or (types if partition.rows else {})
        exact = contract.rows is not None
        for finding in type_findings(roles, wrong_types(roles, types), partition, types, first, exact=exact):
            problem = finding.column, _sentence(finding, types)
            paths_by_problem.setdefault(problem, []).append(partition.path)
    for (name, sentence), paths in paths_by_problem.items():
        more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
        yield f"{paths[0]}{more}: column '{name}' {sentence}"


def _sentence(finding: Finding, types: Types) -> str:
    if finding.column is None or finding.column not in types:
        return f"{finding.rule}; there are {', '.join(list(types)[:30])}"
    kind = types[finding.column]
    return f"{finding.rule}, and holds {'nested values' if kind == pl.Unknown else kind}"


def _ungranted(contract: Contract, contract_file: Path) -> str:
    """Say what to do where the ledger at hand holds no grant of this contract.

    Public data need none before their first run.
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
