"""Failures of Prefect, told from failures of code that Prefect called.

A line that blames Prefect's server sends its reader to a server that is well, where a hook of the caller's own, a full
disk or a defect of ours was at fault. Whose failure it is, the traceback says: the innermost frame that is either ours
or Prefect's. A library that we called, such as pyarrow, lies below a frame of ours; a connection that broke lies below
one of Prefect's.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import prefect

from causalveil.flows.engine.engine import is_ours, withheld
from causalveil.schemas.errors import CausalveilError, EngineLost
from causalveil.schemas.ledger import Reservation

_LOG = logging.getLogger("causalveil.flow")
PREFECT = Path(prefect.__file__).parent


def of_prefect(problem: BaseException) -> bool:
    """Return whether Prefect failed, and not code that it called or a block of ours."""
    # Prefect ends a block whose turn is lost by an error of its own, at whatever line the block is.
    if type(problem).__module__.partition(".")[0] == "prefect":
        return True
    files = [frame.filename for frame in traceback.extract_tb(problem.__traceback__)]
    whose = [is_ours(file) for file in files if is_ours(file) or Path(file).is_relative_to(PREFECT)]
    return bool(whose) and not whose[-1]


@contextmanager
def answering(doing: str, run: Reservation | None) -> Iterator[None]:
    """Turn a failure of Prefect itself within the block into one line that says how to go on.

    The line is in the worker's log too. Of any other failure the text is withheld, as :func:`withheld` says.

    Args:
        doing: what Prefect is asked for.
        run: whose budget is spent, once it is reserved.

    Raises:
        EngineLost: Prefect failed, as it does where its server went away.
        CausalveilError: the block's own, or that something else than Prefect failed in it.
    """
    failure: CausalveilError
    try:
        yield
    except CausalveilError:
        raise
    except Exception as problem:
        failure = _lost(doing, run, problem) if of_prefect(problem) else withheld(doing, problem)
    else:
        return
    # Prefect itself may not be able to record how the run ended: then this line is all that there is.
    _LOG.error(str(failure))
    # No traceback prints what the block failed with, which may quote data.
    raise failure from None


def _lost(doing: str, run: Reservation | None, problem: Exception) -> EngineLost:
    go_on = "start it again" if run is None else f"start run id {run.run_id} again: what it drew is charged once"
    return EngineLost(
        f"Prefect's server did not answer for {doing} ({type(problem).__name__}); once it is up again "
        f"(PREFECT_API_URL, causalveil server status), {go_on}"
    )
