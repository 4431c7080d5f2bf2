"""Refusals that come before a reservation: an owner reads in the ledger who asked for what the contract forbids.

Of the study's own words only its name and purpose are repeated, and a dataset takes a hundred such entries a day.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from causalveil.schemas.asked.study_file import StudyFile
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import BudgetRefused, ContractError, LedgerError, RunConflict, SiteError, StudyError
from causalveil.schemas.ledger import EarlyRefusal
from causalveil.schemas.study import Study
from causalveil.tasks.privacy.ledger.ledger import ledger_at_hand


@contextmanager
def on_record(
    contract: Contract, asked: StudyFile | Study, run_id: str = "", *, simulate: bool = False
) -> Iterator[None]:
    """Record in the ledger that what happens in the block was refused, if it is; the refusal itself goes on.

    Args:
        contract: of the data. It counts as the owner's if the ledger knows it by its grant; else nothing is written.
        asked: the study, or its file where it did not become one.
        run_id: the run, if it has an id by then.
        simulate: whether the noise would be seeded; such a run has no ledger of record.
    """
    try:
        yield
    except (StudyError, BudgetRefused) as problem:
        if not simulate and not isinstance(problem, SiteError | RunConflict):
            _note(contract, asked, run_id, problem)
        raise


def _note(contract: Contract, asked: StudyFile | Study, run_id: str, problem: StudyError | BudgetRefused) -> None:
    refusal = EarlyRefusal(
        run_id=run_id,
        dataset=contract.dataset,
        policy_digest=contract.digest,
        study=asked.name,
        estimator=asked.estimator.name,
        level=asked.privacy.level,
        cost=asked.privacy.cost,
        purpose=asked.purpose,
        why=_why(problem),
    )
    # What was refused stays refused, whether or not its record can be written.
    with suppress(LedgerError):
        ledger = ledger_at_hand()
        if ledger is not None:
            ledger.note_refusal(refusal, contract)


def _why(problem: StudyError | BudgetRefused) -> str:
    """One of three sentences: an error's own words may repeat what somebody wrote into a study."""
    if isinstance(problem, BudgetRefused):
        return "the contract names no cap for this level"
    if isinstance(problem, ContractError):
        return "the contract forbids what the study asks"
    return "the study contradicts the contract, or its numbers have no proof"
