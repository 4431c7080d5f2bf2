"""Codes and words of limits and remarks, as tests hold them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from causalveil.schemas.limits import Stated


def codes(said: Iterable[Stated]) -> list[Any]:
    """Return the codes of limits or remarks, in their order."""
    return [one.code for one in said]


def words(said: Iterable[Stated]) -> str:
    """Return limits or remarks in words, for tests of what a fact of a run becomes in its sentence."""
    return "; ".join(one.sentence for one in said)
