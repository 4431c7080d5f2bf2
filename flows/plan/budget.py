"""The budget of a dataset before a study runs.

A plan says what it would take of it, a forecast how long a schedule lasts.

Reads the ledger and footers, never a row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from causalveil.flows.plan.curves import with_epsilon
from causalveil.flows.run.declare import blocks_charged, data_folder, declare, find_data, plan_study
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import BudgetRefused, CausalveilError, LedgerError, StudyError
from causalveil.schemas.ledger import BudgetOutlook, Reservation
from causalveil.schemas.plan import Plan
from causalveil.schemas.privacy import Accounting, Level, PrivacyCost, amount_text
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.study import Study
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.privacy.concentrated import rho_of_mu
from causalveil.tasks.privacy.gaussian import mu_of
from causalveil.tasks.privacy.ledger.accounts import WHOLE, Book, Use, use_of
from causalveil.tasks.privacy.ledger.ledger import Ledger, ledger_at_hand
from causalveil.tasks.privacy.ledger.outlook import (
    MOST_RUNS,
    MOST_YEARS,
    NAMED,
    accounts_in,
    count_until,
    cron_of,
    lasting_epsilon,
    outlook,
    runs_of,
    when_dry,
)


class PlannedBudget(NamedTuple):
    """The outlook of a plan, with its sentences.

    There is no outlook where no contract is at hand or it has no cap.
    """

    outlook: BudgetOutlook | None
    sentences: tuple[Remark, ...] = ()
    warnings: tuple[Remark, ...] = ()

    def add_to(self, expected: dict[str, Any]) -> None:
        """Add it to what a plan expects."""
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
    level, warnings = study.privacy.level, list[Remark]()
    book, known = Book(""), False
    try:
        ledger = ledger_at_hand()
        if ledger is not None:
            book = ledger.standing(contract.dataset)
            known = contract.dataset in book.caps
    except LedgerError as problem:
        warnings.append(remark(PlanCode.no_ledger, problem=str(problem)))
    accounts = accounts_in(book, contract.dataset, level, blocks_of(study, folder, contract), contract)
    if not accounts:
        warnings.append(remark(PlanCode.no_cap, dataset=contract.dataset, level=str(level)))
        return PlannedBudget(None, warnings=tuple(warnings))
    found = outlook(accounts, use_of(declared.charges, declared.total), "ledger" if known else "contract")
    if found.fits == 0:
        epsilon = amount_text(declared.total.epsilon)
        warnings.append(remark(PlanCode.over_budget, epsilon=epsilon, account=account_text(found)))
        return PlannedBudget(found, warnings=tuple(warnings))
    whose = "" if known else " (by its contract: no ledger knows the dataset)"
    taken = "all" if found.share is None else f"{100 * found.share:.3g}%"
    runs = "one such run is possible" if found.fits == 1 else f"{found.fits:,} such runs are possible"
    facts = {"taken": taken, "dataset": contract.dataset, "whose": whose, "runs": runs}
    cost = remark(PlanCode.budget, **facts, account=account_text(found))
    return PlannedBudget(found, (cost,), tuple(warnings))


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


class Repeated(NamedTuple):
    """A run that a schedule repeats.

    It has a name and account, what each run uses, and how that depends on epsilon.

    ``use_at`` is None where it is not known without the study.
    """

    name: str
    level: Level
    blocks: tuple[str, ...]
    cost: PrivacyCost
    use: Use
    use_at: Callable[[Decimal], Use | None] | None
    contract: Contract | None = None


def forecast(
    ledger: Ledger,
    dataset: str,
    *,
    study: Path | None = None,
    every: str = "week",
    start: date | None = None,
    until: date | None = None,
) -> dict[str, Any]:
    """Forecast when a schedule has used up a budget, and which epsilon lasts until a day.

    The result has numbers, and the same in ``sentences``.

    Args:
        ledger: that holds the dataset's account.
        dataset: its name.
        study: what runs; None: the dataset's last run again.
        every: ``day``, ``week``, ``month``, ``year`` or a cron expression, in UTC.
        start: first day of the schedule; None: today in UTC.
        until: day until which the budget is to last.

    Raises:
        StudyError: unknown dataset, no run to repeat, a study of other data, or no such schedule or date.
        BudgetRefused: the level has no cap.
        LedgerError: the ledger cannot be used.
    """
    begin = start or datetime.now(UTC).date()
    runs = runs_of(every, begin)
    ledger.refuse_unknown(dataset)
    book = ledger.standing(dataset)
    repeated = _last_run(ledger, dataset) if study is None else _study(study, dataset)
    accounts = accounts_in(book, dataset, repeated.level, repeated.blocks, repeated.contract)
    if not accounts:
        raise BudgetRefused(f"dataset '{dataset}' has no cap for level {repeated.level}, so no run of it would start")
    found = outlook(accounts, repeated.use, "ledger")
    dry = when_dry(accounts, repeated.use, runs)
    how = f"every {every}" if every in NAMED else f"at '{every}'"
    sentences = [
        f"{dry.fits:,} runs like '{repeated.name}' fit, each of epsilon {amount_text(repeated.cost.epsilon)} and delta "
        f"{amount_text(repeated.cost.delta)} ({account_text(found)}).",
        f"Run {how} from {begin} on, {_end(dry.last, dry.dry)}",
    ]
    document: dict[str, Any] = {
        "dataset": dataset,
        "study": repeated.name,
        "budget": found.model_dump(mode="json"),
        "fits": dry.fits,
        "cron": cron_of(every),
        "start": begin.isoformat(),
        "last": _iso(dry.last),
        "dry": _iso(dry.dry),
        "sentences": sentences,
    }
    if until is not None:
        count = count_until(every, begin, until)
        epsilon = None if repeated.use_at is None else lasting_epsilon(accounts, repeated.use_at, count)
        document |= {"until": until.isoformat(), "runs": count, "epsilon": None if epsilon is None else float(epsilon)}
        if repeated.use_at is None:
            lasts = f"which epsilon lasts is said by: causalveil ledger forecast {dataset} --study FILE"
        elif epsilon is None:
            lasts = "no epsilon lasts"
        else:
            lasts = f"epsilon {amount_text(epsilon)} lasts, at delta {amount_text(repeated.cost.delta)} each"
        sentences.append(f"Until {until} that is {count:,} runs: {lasts}.")
    return document


def _study(path: Path, dataset: str) -> Repeated:
    """Return a study file, which must ask the very dataset."""
    study, declared = plan_study(path)
    folder = DataFolder(data_folder(path, study))
    contract = folder.contract
    if contract.dataset != dataset:
        raise StudyError(f"{path} asks dataset '{contract.dataset}', not '{dataset}'")

    def use_at(epsilon: Decimal) -> Use | None:
        try:
            plan = declare(with_epsilon(study, epsilon), declared.sizes)
        except CausalveilError:
            return None
        return use_of(plan.charges, plan.total)

    use, blocks = use_of(declared.charges, declared.total), blocks_of(study, folder, contract)
    return Repeated(study.name, study.privacy.level, blocks, declared.total, use, use_at, contract)


def _last_run(ledger: Ledger, dataset: str) -> Repeated:
    """Return the run that was reserved last, again."""
    run = ledger.last_reservation(dataset)
    if run is None:
        way = f"name a study: causalveil ledger forecast {dataset} --study FILE"
        raise StudyError(f"dataset '{dataset}' has no run yet that could go on; {way}")
    return Repeated(run.study, run.level, run.blocks, run.cost, use_of(run.charges, run.cost), _scaled(run))


def _scaled(run: Reservation) -> Callable[[Decimal], Use | None] | None:
    """Use against epsilon, where it follows from the total alone: all draws Gaussian, whose shares make up its mu."""
    if any(charge.mu is None for charge in run.charges):
        return None

    def use_at(epsilon: Decimal) -> Use | None:
        cost = PrivacyCost(epsilon=epsilon, delta=run.cost.delta)
        return Use(cost.epsilon, cost.delta, rho_of_mu(mu_of(cost)), Decimal(0))

    return use_at


def _end(last: datetime | None, dry: datetime | None) -> str:
    if dry is None:
        return f"it does not run dry within {MOST_YEARS} years and {MOST_RUNS:,} runs."
    refused = f"the run of {dry:%Y-%m-%d} is refused"
    return f"{refused}." if last is None else f"the last that fits is that of {last:%Y-%m-%d}, and {refused}."


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="minutes")
