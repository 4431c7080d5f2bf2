"""One run at a time per dataset, whichever deployment it comes from: a strict global concurrency limit of Prefect's.

The ledger needs no such turn-taking, it serialises its writers by itself. A folder of partitions does: an extract that
adds a month while a study reads would end that study.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from causalveil.schemas.errors import CausalveilError, EngineLost
from causalveil.tasks.machine.site import site_settings

_LOG = logging.getLogger("causalveil.flow")
# After so many seconds a run that was killed gives its turn back: the least that Prefect allows (its default is 300). A
# run that lives renews it.
LEASE_SECONDS = 60.0


def limit_name(dataset: str) -> str:
    """The name to give to ``prefect gcl create``."""
    return f"causalveil-{dataset}"


@contextmanager
def one_at_a_time(dataset: str) -> Iterator[None]:
    """Hold the dataset's turn while the block runs; wait for it if another run has it.

    Only runs of a deployment take turns: a run from the command line has a person who watches it, and its server may be
    a temporary one that knows no limits.

    Raises:
        EngineLost: the server does not answer.
        CausalveilError: there is no such limit on the server. Strict, so that nobody is let in for want of one.
    """
    from prefect import runtime
    from prefect.concurrency.sync import concurrency

    if not runtime.deployment.id:
        yield
        return
    name, held = limit_name(dataset), False
    try:
        # Prefect shows the run as Running from here on, also while it waits.
        _LOG.info(f"asks for the turn of dataset '{dataset}' (limit {name}) and waits here while another run has it")
        with concurrency(name, occupy=1, strict=True, lease_duration=LEASE_SECONDS):
            held = True
            _LOG.info(f"has the turn of dataset '{dataset}'")
            yield
    except CausalveilError:
        raise
    except Exception as problem:
        if held or _unreachable(problem):
            raise EngineLost(
                f"Prefect's server did not answer for the turn of dataset '{dataset}' ({type(problem).__name__}); once "
                "it is up again (PREFECT_API_URL), start the same run again: what it drew is charged once"
            ) from None
        failure = CausalveilError(
            f"dataset '{dataset}' has no Prefect concurrency limit ({type(problem).__name__}); its operator must run: "
            f"prefect gcl create {name} --limit {site_settings().concurrency}"
        )
        raise failure from None


def _unreachable(problem: BaseException | None) -> bool:
    """Tell whether a failure comes from a server that was not reached, and not from its answer."""
    import httpx

    while problem is not None:
        if isinstance(problem, httpx.TransportError):
            return True
        problem = problem.__cause__ or problem.__context__
    return False
