"""Requirements of a deployed flow on Prefect's server.

A password, one run at a time, events, and nothing stored.

A client that reaches the API of a Prefect server may have its workers run any code. A server that answers an
unauthenticated call was set up without ``PREFECT_SERVER_API_AUTH_STRING``, and runs refuse it.

One run at a time per dataset is a strict global concurrency limit. The ledger needs no such turn-taking, it serialises
its writers by itself. A folder of partitions does: an extract that adds a month while a study reads would end that
study.

Events tell an operator's automation of budget that runs low or refuses, and of a month whose rows are late. They hold
declared amounts and public names alone. They are a courtesy: the ledger is the record, and a server that keeps no
events changes nothing.

Nothing that a flow returns or raises is stored by Prefect: what it keeps is states, whose messages are ours.
``persist_result=False`` keeps results from being stored, but not exceptions: Prefect pickles each, with all that hangs
on it, into local storage that other users can read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from prefect import runtime
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.filesystems import LocalFileSystem
from prefect.settings import PREFECT_API_URL

from causalveil.flows.engine.engine import withheld
from causalveil.flows.engine.prefect_engine import of_prefect
from causalveil.flows.run.finished import RunResult
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import CausalveilError, EngineLost, SiteError
from causalveil.schemas.ledger import BlockAccount
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.warehouse import Manifest
from causalveil.tasks.machine.site import site_settings
from causalveil.tasks.privacy.ledger.ledger import open_ledger

_LOG = logging.getLogger("causalveil.flow")
# Set to "test", a run takes an open server: of a test, with made-up data.
OPEN_SERVER = "CAUSALVEIL_OPEN_SERVER"


def refuse_open_server() -> None:
    """End a deployed run whose server answers a call without a password.

    A run from the command line may use an open server of its own machine, or Prefect's temporary one: no worker of
    these waits for code.

    Raises:
        SiteError: the server is open.
    """
    url = PREFECT_API_URL.value()
    if not runtime.deployment.id or not url or os.environ.get(OPEN_SERVER) == "test":
        return
    if lets_anybody_in(url):
        raise SiteError(
            "the Prefect server answers calls without a password, so any client that reaches it runs code as this "
            "worker; start it with PREFECT_SERVER_API_AUTH_STRING, give its clients PREFECT_API_AUTH_STRING "
            "(deploy/README.md)"
        )


def lets_anybody_in(url: str) -> bool:
    """Return whether the API at ``url`` answers a call that carries no credentials.

    A server that hangs up on such a call does not: it wants a client certificate, say.
    """
    # No secret is sent and no answer is trusted, so any certificate will do.
    try:
        with httpx.Client(verify=False, timeout=30, trust_env=False) as client:
            return client.get(f"{url.rstrip('/')}/admin/version").is_success
    except httpx.HTTPError:
        return False


# After this time a run that was killed gives its turn back: the least that Prefect allows (its default is 300). A run
# that lives renews it.
LEASE_SECONDS = 60.0


def limit_name(dataset: str) -> str:
    """Return the name to give to ``prefect gcl create``."""
    return f"causalveil-{dataset}"


@contextmanager
def one_at_a_time(dataset: str) -> Iterator[None]:
    """Hold the dataset's turn while the block runs; wait for it if another run has it.

    Only runs of a deployment take turns: a run from the command line has a person who watches it, and its server may be
    a temporary one that knows no limits.

    Raises:
        EngineLost: the server does not answer.
        CausalveilError: there is no such limit on the server (strict, so that no run goes on without a limit), or
            another failure within the block.
    """
    if not runtime.deployment.id:
        yield
        return
    name, failure = limit_name(dataset), None
    try:
        # Prefect shows the run as Running from here on, also while it waits.
        _LOG.info(f"asks for the turn of dataset '{dataset}' (limit {name}) and waits here while another run has it")
        with concurrency(name, occupy=1, strict=True, lease_duration=LEASE_SECONDS):
            _LOG.info(f"has the turn of dataset '{dataset}'")
            yield
    except CausalveilError:
        raise
    except Exception as problem:
        failure = _of_the_turn(dataset, problem)
    if failure is not None:
        raise failure from None


def _of_the_turn(dataset: str, problem: Exception) -> CausalveilError:
    """Return our error for a failure of Prefect, its server, or the work that had the turn."""
    if not of_prefect(problem):
        return withheld(f"the work on dataset '{dataset}'", problem)
    # Prefect says so itself, without a cause, where its server answered that there is no such limit.
    if isinstance(problem, ConcurrencySlotAcquisitionError) and problem.__cause__ is None:
        return CausalveilError(
            f"dataset '{dataset}' has no Prefect concurrency limit; its operator must run: "
            f"prefect gcl create {limit_name(dataset)} --limit {site_settings().concurrency}"
        )
    return EngineLost(
        f"Prefect's server did not answer while a run waited for dataset '{dataset}' ({type(problem).__name__}); once "
        "it is up again (PREFECT_API_URL), start the same run again: nothing is charged twice"
    )


LOW = "causalveil.budget.low"
REFUSED = "causalveil.budget.refused"
LATE = "causalveil.extract.late"


def tell_refused(contract: Contract, run_id: str, refusal: str) -> None:
    """Emit the event that the budget of a dataset did not suffice for a run.

    ``refusal``: the ledger's own sentence.
    """
    _emit(REFUSED, contract.dataset, {"run": run_id, "refusal": refusal})


def tell_late(manifest: Manifest) -> None:
    """Emit the event that an extract found no rows in blocks of its range.

    The next extract asks for them again.
    """
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
    resource = {"prefect.resource.id": f"causalveil.dataset.{dataset}", "prefect.resource.name": dataset}
    emit_event(event=event, resource=resource, payload=payload)


class Unstored(LocalFileSystem):
    """A storage that keeps nothing."""

    _block_type_name = "Unstored"
    _block_type_slug = "causalveil-unstored"

    def write_path(self, path: str, content: bytes) -> str:  # type: ignore[override]  # as Prefect's own does
        """Drop what is to be written."""
        del content
        return path

    async def awrite_path(self, path: str, content: bytes) -> str:
        """Drop what is to be written."""
        del content
        return path


def store_nothing() -> None:
    """Have the flow run that is going on, and its task runs, store no result and no exception."""
    context = FlowRunContext.get()
    if context is not None and context.result_store is not None:
        context.result_store.result_storage = Unstored()
