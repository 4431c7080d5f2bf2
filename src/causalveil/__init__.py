"""Differentially private causal inference over Parquet partitions.

    import causalveil as cv
    print(cv.plan("study.yaml"))
    result = cv.run("study.yaml", engine="direct")
    if isinstance(result.release, cv.EffectRelease):
        print(result.release.estimate, result.release.interval)

Names are imported at their first use, so that ``import causalveil`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from causalveil.flows.api import draft, load_release, plan, pool, report, run, sensitivity
    from causalveil.flows.plan.study_plan import StudyPlan
    from causalveil.flows.run.declare import load_study
    from causalveil.flows.run.finished import RunResult
    from causalveil.flows.run.pooling import PooledResult
    from causalveil.flows.start_run import Drafted
    from causalveil.schemas.errors import (
        BudgetRefused,
        BundleError,
        CausalveilError,
        ChargesDiffer,
        ContractError,
        ConvergenceError,
        DataError,
        EngineLost,
        GateFailed,
        LedgerError,
        ReleaseContradicted,
        ReleaseHeld,
        RunConflict,
        SiteError,
        StudyError,
        TooFewBlocks,
    )
    from causalveil.schemas.plan import Plan
    from causalveil.schemas.release import DirectionRelease, EffectRelease, Release
    from causalveil.schemas.sites.pooled import PooledRelease
    from causalveil.schemas.study import Study

__all__ = [
    "BudgetRefused",
    "BundleError",
    "CausalveilError",
    "ChargesDiffer",
    "ContractError",
    "ConvergenceError",
    "DataError",
    "DirectionRelease",
    "Drafted",
    "EffectRelease",
    "EngineLost",
    "GateFailed",
    "LedgerError",
    "Plan",
    "PooledRelease",
    "PooledResult",
    "Release",
    "ReleaseContradicted",
    "ReleaseHeld",
    "RunConflict",
    "RunResult",
    "SiteError",
    "Study",
    "StudyError",
    "StudyPlan",
    "TooFewBlocks",
    "draft",
    "load_release",
    "load_study",
    "plan",
    "pool",
    "report",
    "run",
    "sensitivity",
]

# Where names live that are errors. All else that is public is in ``flows.api``,
# whose import also teaches releases how notebooks show them.
_ERRORS = {name for name in __all__ if name.endswith("Error")} | {
    "BudgetRefused",
    "ChargesDiffer",
    "EngineLost",
    "GateFailed",
    "ReleaseContradicted",
    "ReleaseHeld",
    "RunConflict",
    "TooFewBlocks",
}


# Not for type checkers, which would then take every name for a name of ours.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name of the public face at its first use (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module 'causalveil' has no attribute '{name}'")
        home = import_module("causalveil.schemas.errors" if name in _ERRORS else "causalveil.flows.api")
        return getattr(home, name)


def __dir__() -> list[str]:
    """The public face, for completion."""
    return sorted({*globals(), *__all__})
