"""The Prefect flow around an extract.

The entry of deployments (``causalveil.flows.extract.extract``).

Prefect stores one parameter, the path of the source file. The warehouse's URL comes from the worker's environment or
from a Secret block and is handed to stages as a plain argument, which Prefect does not see.
"""

from __future__ import annotations

import logging
from pathlib import Path

from causalveil.flows.engine import settings

settings.prepare()

from prefect import State, flow  # noqa: E402  (settings must be in place first)

from causalveil.flows.engine.deployment import one_at_a_time, refuse_open_server, store_nothing, tell_late  # noqa: E402
from causalveil.flows.engine.engine import Watcher, guarded  # noqa: E402
from causalveil.flows.engine.prefect_engine import PrefectEngine, ended_as, in_this_process, tagged  # noqa: E402
from causalveil.flows.run.admit import Extracted, extract_source, late_line  # noqa: E402
from causalveil.schemas.warehouse import load_source  # noqa: E402

_LOG = logging.getLogger("causalveil.flow")


@flow(name="extract", log_prints=False, persist_result=False, validate_parameters=False)
def extract(source: str) -> Extracted | State[Extracted]:
    """Fill the folder that the source file names; the parameter is a path.

    An extract that found a block without rows ends in the state ``BlocksWithoutRows``: its rows may be late.
    """
    store_nothing()
    refuse_open_server()
    dataset = load_source(Path(source)).dataset
    with tagged(dataset=dataset), one_at_a_time(dataset):
        extracted = guarded(extract_source, Path(source), PrefectEngine())
    for line in extracted.news:
        _LOG.warning(line)
    said = late_line(extracted.manifest)
    if said is None:
        return extracted
    tell_late(extracted.manifest)
    return ended_as("BlocksWithoutRows", said, extracted)


def extract_with_prefect(path: Path, watch: Watcher) -> Extracted:
    """Run the flow in this process.

    Raises:
        CausalveilError: the stages' own; or that Prefect's API cannot be reached.
    """
    extracted: Extracted = in_this_process(lambda: extract(str(path)), watch)
    return extracted
