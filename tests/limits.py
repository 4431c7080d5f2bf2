"""Limits of releases by code, and in words."""

from __future__ import annotations

from collections.abc import Iterable

from causalveil.schemas.limits import Code, Limit


def codes(limits: Iterable[Limit]) -> list[Code]:
    """Their codes, in order."""
    return [one.code for one in limits]


def words(limits: Iterable[Limit]) -> str:
    """Their sentences, one after the other."""
    return "; ".join(one.sentence for one in limits)
