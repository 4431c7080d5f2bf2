"""Ranges found privately: declare, reserve, count, release once.

The owner writes them into the contract.
"""

from __future__ import annotations

import json
from pathlib import Path

from causalveil.flows.engine.engine import Engine
from causalveil.flows.estimators.stage import RowSource, Run, Stage, carry_out
from causalveil.flows.run.admit import anchor_rows, hold
from causalveil.flows.run.declare import Request, reserve
from causalveil.flows.run.study import check_run_id, new_run_id, settle
from causalveil.schemas.columns import Missing
from causalveil.schemas.contract import CONTRACT_FILE, Contract, Review, load_contract
from causalveil.schemas.declared import NumberColumn
from causalveil.schemas.documents import read_text
from causalveil.schemas.errors import BudgetRefused, CausalveilError, ContractError, LedgerError, StudyError
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.plan import Plan, Sizes
from causalveil.schemas.privacy import Level, amount_text
from causalveil.schemas.studies import RangesFound, RangesStudy
from causalveil.schemas.study import DataSource, EstimatorSettings, PrivacyRequest
from causalveil.tasks.data import ranges
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import MemoryEnclave
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.data.ranges import check_kinds, count_stage
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.privacy.accountant import total
from causalveil.tasks.privacy.budget import FlowBudget, records_folder
from causalveil.tasks.privacy.keys import key_of
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.privacy.noise import SecureNoise
from causalveil.tasks.start.words import scalar

COUNT = Stage[RangesStudy, IntArray](
    "count", lambda step: count_stage(step.study, step.source.folder, step.source.layout, step.source.run_id)
)
RANGES = Stage[RangesStudy, FloatArray](
    "ranges",
    lambda step: ranges.release(step.study, step[COUNT], step.budget),
    charges=lambda study, _: [(ranges.SLOT, ranges.mechanism(len(study.numbers), study.privacy.cost))],
    reads=(COUNT,),
)


def find_ranges(
    folder: Path, columns: tuple[str, ...] | None, epsilon: str, run_id: str | None, stage: Engine
) -> RangesFound:
    """Find ranges for some numbers of a dataset.

    ``epsilon`` is the price for all of them together.

    Args:
        folder: where the contract and the partitions lie.
        columns: numbers; None: those whose ranges the contract leaves open.
        epsilon: the cost, as a decimal.
        run_id: the same id again returns the ranges that were found, free of charge.
        stage: runs the counting.

    Raises:
        ContractError: the contract is wrong, or holds its releases for review.
        StudyError: no column is named, or one is the unit or declared as no number; or units may be in several blocks.
        BudgetRefused: level sample has no cap, or too little of it is left. Nothing was drawn.
        DataError: a column is missing or no number, or the rows are not those that were admitted. Nothing is reserved.
    """
    data = DataFolder(folder)
    contract = data.contract
    study = _study(contract, columns or tuple(contract.open_ranges), epsilon)
    _allowed(contract)
    layout = read_layout(study, data)
    if contract.units_span_blocks and len(layout.blocks) > 1:
        raise StudyError(
            "the contract says that units may have rows in several blocks, and a range is found where each unit has "
            "one row; write ranges by hand"
        )
    check_kinds(study, data, layout)
    charges = RANGES.declare(study, None)
    plan = Plan(
        study=study.name,
        study_digest=study.digest,
        sizes=None,
        charges=charges,
        total=total(charges, study.privacy.cost),
        epsilon_pld=None,
    )
    sizes = Sizes(units=layout.units, train=layout.units, estimation=layout.units)
    run = check_run_id(run_id or new_run_id(study))
    ledger = open_ledger()
    held = hold(contract, data, layout, ledger, stage)
    ledger.grant_itself(contract)
    request = Request(study, held.folder, contract, layout, sizes, plan)
    reservation = reserve(request, held.admission, run, key_of(run, None))
    ledger.reserve(reservation, contract)
    budget = FlowBudget(ledger, reservation, SecureNoise(), records_folder(run))
    stored = budget.stored_document()
    if stored is not None:
        return _read(stored, run)
    source = RowSource(held.folder, layout, Path(), run, None, held.admission)
    going_on = Run(study, sizes, MemoryEnclave([]), budget, source)
    anchor_rows(contract, data, ledger)
    try:
        noisy = carry_out((COUNT, RANGES), going_on, stage)[RANGES]
        result = RangesFound(
            run_id=run,
            dataset=contract.dataset,
            units=layout.units,
            epsilon=amount_text(plan.total.epsilon),
            threshold=ranges.threshold(len(study.numbers), charges[0].noise_scale or 0.0),
            ranges=ranges.ranges_of(study, noisy),
        )
        budget.finish(result.model_dump_json(indent=2) + "\n")
    except CausalveilError as problem:
        settle(ledger, run, problem)
        raise
    finally:
        anchor_rows(contract, data, ledger)
    return result


def _study(contract: Contract, columns: tuple[str, ...], epsilon: str) -> RangesStudy:
    if not columns:
        way = option(columns=Blank("A,B"))
        raise StudyError(f"name the columns to find ranges for: {way}; the contract leaves no range open")
    if contract.unit in columns:
        raise StudyError(f"'{contract.unit}' is the unit; ids have no range")
    for name in columns:
        # Open and undeclared columns are checked by the files' types.
        if not isinstance(contract.columns.get(name), NumberColumn | None):
            raise StudyError(f"column '{name}' is declared with levels or codes, which have no range; leave it out")
    if contract.rows is not None:
        raise ContractError(
            "'rows' makes one row of several, and a range is found where each unit has one row; write ranges by hand"
        )
    return RangesStudy(
        name="ranges",
        data=DataSource(unit=contract.unit, blocks=None if contract.blocks is None else contract.blocks.key),
        estimator=EstimatorSettings(name="ranges"),
        privacy=PrivacyRequest.model_validate({"epsilon": epsilon, "delta": "0"}),
        numbers=tuple(dict.fromkeys(columns)),
        purpose="to find ranges for the contract",
    )


def _allowed(contract: Contract) -> None:
    if Level.sample not in contract.caps:
        raise BudgetRefused(
            f"the contract of '{contract.dataset}' names no cap for level 'sample', which ranges are charged to"
        )
    if contract.review is Review.required:
        raise ContractError(
            f"the contract of '{contract.dataset}' holds releases for review; find ranges before 'review: required'"
        )


def _read(text: str, run: str) -> RangesFound:
    try:
        return RangesFound.model_validate(json.loads(text))
    except ValueError:
        raise LedgerError(f"run {run} found no ranges; it is another kind of run") from None


def declared_lines(folder: Path, release: RangesFound) -> list[str]:
    """Return lines for ``columns`` of dataset.yaml, one for each range that was found."""
    contract = load_contract(folder / CONTRACT_FILE)
    lines = []
    for found in release.ranges:
        if found.lower is not None and found.upper is not None:
            declared = contract.open_ranges.get(found.column)
            keys = {"lower": f"{found.lower:.15g}", "upper": f"{found.upper:.15g}"}
            if declared is not None and declared.nulls is Missing.indicator:
                keys["nulls"] = str(declared.nulls)
            lines.append(f"{scalar(found.column)}: {{{', '.join(f'{key}: {value}' for key, value in keys.items())}}}")
    return lines


def write_into(folder: Path, release: RangesFound) -> Path:
    """Move columns of found ranges from ``open_ranges`` to ``columns`` of the contract's file.

    It edits lines of the file, so that comments stay.

    Raises:
        StudyError: the file is not laid out as `init` drafts it.
    """
    path = folder / CONTRACT_FILE
    lines = read_text(path, ContractError).splitlines()
    moved = {found.column for found in release.ranges if found.lower is not None}
    new = declared_lines(folder, release)
    try:
        start = lines.index("open_ranges:")
        columns = next(number for number, line in enumerate(lines) if line.startswith("columns:"))
    except (ValueError, StopIteration):
        raise StudyError(
            f"{path}: has no block 'open_ranges:' of one line for each column; move them by hand"
        ) from None
    end = start + 1
    while end < len(lines) and lines[end].startswith("  "):
        end += 1
    left = [line for line in lines[start + 1 : end] if line.strip().rpartition(": {")[0].strip("\"'") not in moved]
    block = ["open_ranges:", *left] if left else []
    lines[start:end] = block
    place = columns + 1 if columns < start else columns + 1 + len(block) - (end - start)
    lines[place:place] = [f"  {line}  # found privately by run {release.run_id}" for line in new]
    # A contract that only its owner can read stays so.
    return write_whole(path, "\n".join(lines) + "\n", private=not path.stat().st_mode & 0o077)
