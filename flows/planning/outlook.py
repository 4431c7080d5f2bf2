"""The share of its dataset's budget that a planned study would take.

How many more like it fit is said as well. No row is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from causalveil.flows.sequence.declare import blocks_charged, find_data
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import LedgerError
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.plan import Plan
from causalveil.schemas.privacy import Accounting, amount_text
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.partitions import read_layout
from causalveil.tasks.privacy.ledger.accounts import Book
from causalveil.tasks.privacy.ledger.ledger import Ledger, ledger_at_hand
from causalveil.tasks.privacy.ledger.usage import WHOLE, use_of
from causalveil.tasks.privacy.outlook.standing import accounts_in, outlook


class PlannedBudget(NamedTuple):
    """The outlook of a plan, with its sentences.

    There is no outlook where no contract is at hand or it has no cap.
    """

    outlook: BudgetOutlook | None
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def add_to(self, expected: dict[str, Any]) -> None:
        """Say it at the end of what a plan expects."""
        expected["sentences"] = [*expected["sentences"], *self.sentences]
        expected["warnings"] = [*expected["warnings"], *self.warnings]


def budget_of(path: Path, study: Study, declared: Plan) -> PlannedBudget:
    """Compare a plan's cost with the budget that its dataset has left.

    Where no ledger knows the dataset, the contract's cap is what is left.

    Raises:
        ContractError: the contract is wrong.
        DataError: partitions are there but cannot be read.
    """
    folder = find_data(path, study)
    contract = None if folder is None else folder.find_contract()
    if folder is None or contract is None:
        return PlannedBudget(None)
    level, warnings = study.privacy.level, []
    book, known = Book(""), False
    try:
        ledger = ledger_at_hand()
        if ledger is not None:
            book = ledger.standing(contract.dataset)
            known = contract.dataset in book.caps
    except LedgerError as problem:
        warnings.append(f"the ledger could not be asked what is left: {problem}.")
    accounts = accounts_in(book, contract.dataset, level, blocks_of(study, folder, contract), contract)
    if not accounts:
        warnings.append(f"'{contract.dataset}' has no cap for level {level}: a run would be refused.")
        return PlannedBudget(None, warnings=tuple(warnings))
    found = outlook(accounts, use_of(declared.charges, declared.total), "ledger" if known else "contract")
    if found.fits == 0:
        warnings.append(
            f"a run would be refused for lack of budget: it takes epsilon {amount_text(declared.total.epsilon)}, and "
            f"{account_text(found)}. Ask for a smaller epsilon, or the data's owner for a larger cap."
        )
        return PlannedBudget(found, warnings=tuple(warnings))
    whose = "" if known else " (by its contract: no ledger knows the dataset)"
    taken = "all" if found.share is None else f"{100 * found.share:.3g} %"
    runs = "one such run is possible" if found.fits == 1 else f"{found.fits:,} such runs are possible"
    sentence = (
        f"This run uses {taken} of what is left of the budget of '{contract.dataset}'{whose}; {runs} "
        f"({account_text(found)})."
    )
    return PlannedBudget(found, (sentence,), tuple(warnings))


def book_of(ledger: Ledger, dataset: str) -> Book:
    """Return the book that a dataset's ledger entries add up to.

    Raises:
        LedgerError: the ledger cannot be used, or an entry breaks a rule.
    """
    return Book(ledger.identity, ledger.history(dataset))


def blocks_of(study: Study, folder: DataFolder, contract: Contract) -> tuple[str, ...]:
    """Return the blocks that a run would be charged to.

    Where no data are at hand, it is the account that holds every run.
    """
    if contract.blocks is None or contract.units_span_blocks or not any(folder.parquet_paths()):
        return (WHOLE,)
    return blocks_charged(contract, read_layout(study, folder))


def account_text(found: BudgetOutlook) -> str:
    """Return an account in words: which, and how much of its cap is used."""
    delta = f" at delta {amount_text(found.cap.delta)}" if found.accounting is Accounting.concentrated else ""
    return (
        f"level {found.level}, block {found.block}: epsilon {amount_text(found.used)} of "
        f"{amount_text(found.cap.epsilon)}{delta} is spent or reserved"
    )
