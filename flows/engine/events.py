"""Events for an operator's automation: budget that runs low or refuses, and a month whose rows are late.

Events go to Prefect's server, so they hold declared amounts and public names alone. They are a courtesy: the ledger is
the record, and a server that keeps no events changes nothing.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.sequence.finished import RunResult
from causalveil.schemas.contract import Contract
from causalveil.schemas.ledger import BlockAccount
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.warehouse import Manifest
from causalveil.tasks.privacy.ledger.ledger import open_ledger

LOW = "causalveil.budget.low"
REFUSED = "causalveil.budget.refused"
LATE = "causalveil.extract.late"


def tell_refused(contract: Contract, run_id: str, refusal: str) -> None:
    """The budget of a dataset did not suffice for a run; ``refusal`` is the ledger's own sentence."""
    _emit(REFUSED, contract.dataset, {"run": run_id, "refusal": refusal})


def tell_late(manifest: Manifest) -> None:
    """An extract found no rows in blocks of its range; the next one asks for them again."""
    _emit(LATE, manifest.dataset, {"extract": manifest.name, "blocks": list(manifest.late)})


def tell_if_low(contract: Contract, outcome: RunResult) -> None:
    """Emit an event if a charged block has less left than the share that the contract declares."""
    if contract.warn_below is None or outcome.release.not_for_release:
        return
    privacy = outcome.release.privacy
    charged = set(privacy.blocks.charged)
    blocks = open_ledger().newest(contract.dataset, 0, contract).blocks
    low = [row for row in blocks if row.level is privacy.level and row.block in charged and is_low(row, contract)]
    if low:
        rows = {row.block: {"epsilon": _left(row, "epsilon"), "delta": _left(row, "delta")} for row in low}
        share = {"below": float(contract.warn_below), "level": str(privacy.level), "run": outcome.run_id}
        _emit(LOW, contract.dataset, share | {"left": rows})


def is_low(row: BlockAccount, contract: Contract) -> bool:
    """Return whether a block has less than the declared share of its cap left.

    The share is that of rho, or of the scarcer of epsilon and delta, as the account says.
    """
    return row.share_left < (contract.warn_below or 0)


def _left(row: BlockAccount, what: str) -> str:
    return f"{amount_text(getattr(row.remaining, what))} of {amount_text(getattr(row.granted, what))}"


def _emit(event: str, dataset: str, payload: dict[str, Any]) -> None:
    from prefect.events import emit_event

    resource = {"prefect.resource.id": f"causalveil.dataset.{dataset}", "prefect.resource.name": dataset}
    emit_event(event=event, resource=resource, payload=payload)
