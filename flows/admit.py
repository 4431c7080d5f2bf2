"""The Prefect flow around an admission: the entry of deployments (``flows/admit.py:admit``).

Prefect stores one parameter, the folder's path. What is wrong with rows, and how many, is told to the owner by the
command alone: the message of the error names a column and a rule, never a count.
"""

from __future__ import annotations

from causalveil.flows.engine import settings

settings.prepare()

from prefect import flow  # noqa: E402  (settings must be in place first)

from causalveil.flows.engine.deployment import one_at_a_time, refuse_open_server, store_nothing  # noqa: E402
from causalveil.flows.engine.engine import Watcher, guarded  # noqa: E402
from causalveil.flows.engine.prefect_engine import PrefectEngine, in_this_process, tagged  # noqa: E402
from causalveil.flows.run.admit import admit_folder  # noqa: E402
from causalveil.schemas.admission import Admission  # noqa: E402
from causalveil.tasks.data.data_folder import DataFolder  # noqa: E402
from causalveil.tasks.machine.object_storage import folder_at  # noqa: E402


@flow(name="admit", log_prints=False, persist_result=False, validate_parameters=False)
def admit(folder: str) -> Admission:
    """Hold all rows in a folder to their contract.

    The parameter is a path, or a URL of object storage.
    """
    store_nothing()
    refuse_open_server()
    with folder_at(folder) as place:
        opened = DataFolder(place)
        dataset = opened.contract.dataset
        with tagged(dataset=dataset), one_at_a_time(dataset):
            return guarded(admit_folder, opened, PrefectEngine())


def admit_with_prefect(folder: str, watch: Watcher) -> Admission:
    """Run the flow in this process.

    Raises:
        CausalveilError: the stage's own; or that Prefect's API cannot be reached.
    """
    admission: Admission = in_this_process(lambda: admit(folder), watch)
    return admission
