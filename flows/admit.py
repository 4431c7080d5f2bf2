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
from causalveil.flows.engine.prefect_engine import WATCHER, PrefectEngine, tagged  # noqa: E402
from causalveil.flows.engine.server import on_a_server  # noqa: E402
from causalveil.flows.sequence.admit import admit_folder  # noqa: E402
from causalveil.schemas.admission.manifest import Admission  # noqa: E402
from causalveil.schemas.errors import CausalveilError  # noqa: E402
from causalveil.tasks.enclave.data_folder import DataFolder  # noqa: E402
from causalveil.tasks.object_storage.copies import folder_at  # noqa: E402


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

    Prefect's API is that of PREFECT_API_URL, the user's own server, or Prefect's temporary one.

    Raises:
        CausalveilError: the stage's own; or that Prefect's API cannot be reached.
    """
    token = WATCHER.set(watch)
    watch("Prefect")
    failure = None
    try:
        with on_a_server():
            return admit(folder)
    except CausalveilError:
        raise
    except Exception as problem:
        failure = type(problem).__name__
    finally:
        WATCHER.reset(token)
    raise CausalveilError(f"Prefect could not run the flow ({failure}); check PREFECT_API_URL, or use --engine direct")
