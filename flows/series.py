"""The Prefect flow of a series.

The entry of deployments (``causalveil.flows.series.series``), after each month's run.

Its parameters are paths. It reads released documents of the ledger alone and charges nothing.
"""

from __future__ import annotations

import logging
from pathlib import Path

from causalveil.flows.engine import settings

settings.prepare()

from prefect import State, flow  # noqa: E402  (settings must be in place first)
from prefect.states import Cancelled  # noqa: E402

from causalveil.flows.engine.deployment import refuse_open_server, store_nothing  # noqa: E402
from causalveil.flows.engine.engine import guarded  # noqa: E402
from causalveil.flows.engine.prefect_engine import PrefectEngine, tagged  # noqa: E402
from causalveil.flows.run.declare import already, load  # noqa: E402
from causalveil.flows.run.pooling import SeriesResult, make_series  # noqa: E402
from causalveil.schemas.errors import TooFewBlocks  # noqa: E402

_LOG = logging.getLogger("causalveil.flow")


@flow(name="series", log_prints=False, persist_result=False, validate_parameters=False)
def series(study: str, out: str | None = None) -> SeriesResult | State[None]:
    """Pool the released blocks of a study's dataset.

    As long as there are too few of them it ends in the state ``TooFewBlocks``, which is no failure: a schedule begins
    with one block.
    """
    store_nothing()
    refuse_open_server()
    engine = PrefectEngine()
    loaded = guarded(load, Path(study))
    try:
        with tagged(study=loaded.study.name, dataset=loaded.contract.dataset), already(loaded):
            outcome = make_series(Path(study), out, engine)
    except TooFewBlocks as early:
        return Cancelled(name="TooFewBlocks", message=str(early))
    rows = [
        {"outcome": row.outcome, "group": row.group, "blocks": len(row.blocks), "estimate": row.estimate,
         "p_heterogeneity": row.heterogeneity and row.heterogeneity.p_value, "p_drift": row.drift and row.drift.p_value}
        for row in outcome.series.answers
    ]  # fmt: skip
    if outcome.series.unreleased:
        _LOG.warning(outcome.series.unreleased_words)
    engine.publish("series", rows, f"Series of {outcome.series.study} on {outcome.series.dataset}")
    return outcome
