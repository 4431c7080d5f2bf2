"""Differentially private causal inference over Parquet partitions.

    import causalveil as cv
    outcome = cv.run("study.yaml", engine="direct")
    outcome.release.estimate, outcome.release.interval

Names are imported at their first use, so that ``import causalveil`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causalveil.flows.api import run_study as run
    from causalveil.flows.sequence.finished import RunResult
    from causalveil.flows.sequence.study import plan_study as plan
    from causalveil.schemas.errors import CausalveilError
    from causalveil.schemas.release import load_release

__all__ = ["CausalveilError", "RunResult", "load_release", "plan", "run"]

# Where each name lives.
_HOMES = {
    "run": ("flows.api", "run_study"),
    "plan": ("flows.sequence.study", "plan_study"),
    "RunResult": ("flows.sequence.finished", "RunResult"),
    "CausalveilError": ("schemas.errors", "CausalveilError"),
    "load_release": ("schemas.release", "load_release"),
}


def __getattr__(name: str) -> Any:
    """Import a name of the public face at its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'causalveil' has no attribute '{name}'")
    module, attribute = _HOMES[name]
    return getattr(import_module(f"causalveil.{module}"), attribute)


def __dir__() -> list[str]:
    """The public face, for completion."""
    return sorted({*globals(), *__all__})
