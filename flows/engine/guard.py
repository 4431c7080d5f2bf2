"""Filter of error messages: typed errors pass, the text of all others is withheld, since it may quote the data."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from causalveil.schemas.errors import CausalveilError

P = ParamSpec("P")
R = TypeVar("R")
PACKAGE = Path(__file__).parents[2]


def guarded(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that is no stage.

    Typed errors pass; the text of all others is withheld.

    Raises:
        CausalveilError: see :func:`guarded_as`.
    """
    return guarded_as(function.__name__.removesuffix("_stage"), partial(function, *args, **kwargs))


def guarded_as(name: str, call: Callable[[], R]) -> R:
    """Call a stage of that name; let typed errors pass and withhold the text of all others.

    Raises:
        CausalveilError: the stage's own, or one that names the stage, the exception's type and the place in our
            code, never its message.
    """
    failure: CausalveilError
    try:
        return call()
    except CausalveilError as problem:
        failure = problem.with_traceback(None)
    except MemoryError as problem:
        failure = CausalveilError(
            f"stage '{name}' ran out of memory {place(problem)}; have fewer parts worked on at a time "
            "(CAUSALVEIL_WORKERS=1), write smaller Parquet files and admit them anew, or use a larger machine"
        )
    except BaseException as problem:
        # A panic of polars is no Exception, and quotes what it choked on; an interrupt or a signal goes its way.
        if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
            raise
        failure = CausalveilError(
            f"stage '{name}' failed with {type(problem).__name__} {place(problem)}; "
            "its message is withheld because it may quote data"
        )
    # Raised outside the except clause, so that no context with data in it hangs on the error.
    failure.__cause__ = failure.__context__ = None
    raise failure


def place(problem: BaseException) -> str:
    """Return the innermost line of causalveil's own code on the way to ``problem``."""
    ours = [frame for frame in traceback.extract_tb(problem.__traceback__) if _is_ours(frame.filename)]
    if not ours:
        return "outside causalveil's code"
    return f"at {Path(ours[-1].filename).relative_to(PACKAGE)}:{ours[-1].lineno}"


def _is_ours(file: str) -> bool:
    """Return whether a frame's file belongs to the package, in a checkout or an installed wheel."""
    return Path(file).is_relative_to(PACKAGE)
