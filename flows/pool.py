"""The Prefect flow of a coordinator.

The entry of deployments (``causalveil.flows.pool.pool``).

Its parameters are paths. The bundles that it reads are public documents; so is what it writes.
"""

from __future__ import annotations

from pathlib import Path

from causalveil.flows.engine import settings

settings.prepare()

from prefect import State, flow  # noqa: E402  (settings must be in place first)

from causalveil.flows.engine.deployment import refuse_open_server, store_nothing  # noqa: E402
from causalveil.flows.engine.prefect_engine import PrefectEngine, ended_as, tagged  # noqa: E402
from causalveil.flows.run.pooling import PooledResult, pool_sites  # noqa: E402
from causalveil.schemas.asked.study_file import load_study_file  # noqa: E402
from causalveil.schemas.sites.round import load_sites  # noqa: E402
from causalveil.tasks.estimate.findings import failed_gates  # noqa: E402
from causalveil.tasks.report.table import labelled  # noqa: E402


@flow(name="pool", log_prints=False, persist_result=False, validate_parameters=False)
def pool(sites: str, out: str | None = None) -> PooledResult | State[PooledResult]:
    """Verify every expected site's bundle and pool them.

    The state is ``GateFailed`` if a declared gate did.
    """
    store_nothing()
    refuse_open_server()
    engine = PrefectEngine()
    terms = load_sites(Path(sites))
    with tagged(round=terms.round, study=load_study_file(Path(sites).parent / terms.study).name):
        outcome = pool_sites(Path(sites), out, engine)
    rows = [
        {"site": site.site, "units": site.units, "epsilon": float(site.epsilon), "estimate": part.estimate}
        for site, part in zip(outcome.release.sites, outcome.release.answers[0].sites, strict=True)
    ]
    engine.publish("pooled-sites", rows, f"Sites of round {outcome.release.round}")
    said = failed_gates(labelled(outcome.release))
    return outcome if said is None else ended_as("GateFailed", said, outcome)
