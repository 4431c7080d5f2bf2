"""Errors of libraries and stores in our words: their own texts may quote paths, keys, addresses and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from causalveil.schemas.errors import CausalveilError


@contextmanager
def in_own_words(told: Callable[[Exception], CausalveilError]) -> Iterator[None]:
    """Raise what ``told`` makes of any foreign error within the block, without the error itself as its context."""
    try:
        yield
        return
    except CausalveilError:
        raise
    except Exception as error:  # libraries, Arrow, catalogs and file systems share no base
        problem = told(error)
    raise problem
