"""The audit trail in the logs: one JSON line per event, after its commit.

The ledger is the record; the lines are for people and log collectors. They carry amounts and hashes, never a
released value: a line that is lost with a crash loses nothing.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from causalveil.schemas.ledger import Reservation, Sum
from causalveil.schemas.privacy import Charge, PrivacyCost, amount_text

_LOG = logging.getLogger("causalveil.audit")


def log_event(event: str, **facts: Any) -> None:
    """Write one line of JSON at level INFO to the logger ``causalveil.audit``."""
    _LOG.info(json.dumps({"event": event, **facts}))


def whose(reservation: Reservation) -> dict[str, str]:
    """The facts by which lines are grouped."""
    return {
        "study": reservation.study,
        "run": reservation.run_id,
        "dataset": reservation.dataset,
        "level": str(reservation.level),
    }


def amounts(cost: PrivacyCost | Charge | Sum) -> dict[str, str]:
    """Epsilon and delta as exact text."""
    return {"epsilon": amount_text(cost.epsilon), "delta": amount_text(cost.delta)}
