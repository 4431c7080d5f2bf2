"""From findings and charges to the release document: declared facts and released values only."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from causalveil.flows.estimators.estimator import Result
from causalveil.schemas.contract import Contract, Review
from causalveil.schemas.estimators.aipw import NO_GUARANTEE
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.plan import Plan
from causalveil.schemas.privacy import Guarantee
from causalveil.schemas.release import (
    RELEASES,
    ApprovalStatement,
    Blocks,
    DataStatement,
    NoiseStatement,
    PrivacyStatement,
    Release,
    Software,
)
from causalveil.schemas.study import Study
from causalveil.tasks.privacy.budget import FlowBudget
from causalveil.tasks.privacy.ledger.usage import use_of
from causalveil.tasks.privacy.outlook.standing import accounts_in, outlook_after

DEPENDENCIES = ("numpy", "scipy", "polars", "pandera", "pyarrow", "opendp", "dp-accounting", "prefect", "sqlalchemy")


def assemble_release(
    study: Study,
    contract: Contract,
    plan: Plan,
    warnings: tuple[str, ...],
    found: Result,
    budget: FlowBudget,
    data: DataStatement | None,
) -> Release:
    """Return the release of a run whose every charge is committed.

    ``warnings``: the planner's.
    """
    reservation = budget.reservation
    return RELEASES[study.release_kind](
        study=study.name,
        study_digest=study.digest,
        specification=study.specification(),
        run_id=reservation.run_id,
        dataset=contract.dataset,
        units=reservation.units,
        estimator=study.estimator.name,
        guarantee=study.guarantee,
        headline=NO_GUARANTEE if study.guarantee is Guarantee.asymptotic else None,
        warnings=warnings,
        privacy=PrivacyStatement(
            unit=study.data.unit,
            neighbours=study.privacy.neighbours,
            level=study.privacy.level,
            epsilon=plan.total.epsilon,
            delta=plan.total.delta,
            epsilon_pld=_known(plan.epsilon_pld),
            unprotected=study.unprotected,
            charges=plan.charges,
            blocks=Blocks(
                key=study.data.blocks,
                charged=reservation.blocks,
                units_span_blocks=contract.units_span_blocks,
                statement=blocks_statement(study.data.blocks, contract.units_span_blocks),
            ),
        ),
        noise=NoiseStatement(source=budget.noise.name),
        not_for_release=budget.noise.name == "seeded",
        software=Software(version=version("causalveil"), dependencies={name: version(name) for name in DEPENDENCIES}),
        ledger=budget.ledger.statement(reservation.run_id),
        data=data,
        snapshots=reservation.snapshots,
        units_of_measure=units_of(study, contract),
        approval=None if budget.noise.name == "seeded" else approval_of(contract),
        budget=None if budget.noise.name == "seeded" else left_after(contract, budget),
        **_fields(study, found),
    )


def _fields(study: Study, found: Result) -> dict[str, Any]:
    """Return the findings by field, with the reason for the estimator where ``auto`` chose it."""
    fields = found.fields(study)
    if study.choice is not None and "details" in fields:
        fields["details"] = {**fields["details"], "choice": study.choice}
    return fields


def units_of(study: Study, contract: Contract) -> dict[str, str]:
    """Return the unit of measure of each column of the study that has one in the contract."""
    columns = {name: contract.offered[name] for name in study.columns if name in contract.offered}
    return {name: one.unit_of_measure for name, one in columns.items() if one.unit_of_measure}


def approval_of(contract: Contract) -> ApprovalStatement:
    """Return who has to allow a release under a contract."""
    required = contract.review is Review.required
    return ApprovalStatement(data_class=contract.data_class.value, owner_key=contract.owner_key, review=required)


def left_after(contract: Contract, budget: FlowBudget) -> BudgetOutlook | None:
    """Return the budget left in the accounts that the run was charged to, by the caps in force.

    None if the owner took the level's cap away while the run was under way: its charges stand, and so does its release.
    """
    run = budget.reservation
    accounts = accounts_in(budget.ledger.sums(), run.dataset, run.level, run.blocks, contract)
    return outlook_after(accounts, use_of(run.charges, run.cost)) if accounts else None


def blocks_statement(key: str | None, units_span_blocks: bool) -> str:
    """Return a sentence on which blocks were charged and on whose word."""
    if key is None:
        return "The whole dataset is one block, and it was charged."
    if units_span_blocks:
        return (
            f"The owner says that units may have rows in several blocks of '{key}', so the account of all was charged."
        )
    return (
        f"The owner asserts that no unit has rows in two blocks of '{key}', so only the blocks that were read were "
        "charged; a run cannot check this, since it does not see the other blocks."
    )


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a run knows its number of units, so every noise scale of its plan")
    return value
