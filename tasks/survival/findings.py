"""Curves with bands and the log-rank test, as releases have them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.survival import (
    ArmCurve,
    Curves,
    HazardRatio,
    LogRankTest,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.survival import curves
from causalveil.tasks.survival.effects import Bands, LogRank, TwoArms


@dataclass(frozen=True)
class TimesShown:
    """Facts about times that figures of curves show.

    They are the horizon, its unit, the origin of times, and each kind of events.
    """

    horizon: float
    unit: str | None
    origin: str
    events: tuple[str, ...]


def curves_of(shown: TimesShown, both: TwoArms, confidence: float, names: tuple[str, str], tested: bool) -> Curves:
    """Return both arms, as figures show them.

    Args:
        shown: what figures say of the times.
        both: the arms.
        confidence: of the bands.
        names: of the arms, the controls' first.
        tested: whether the log-rank test of the first kind of events is told.
    """
    grid = both.grid
    bands = both.bands(confidence)
    arms = [_arm(shown.events, both, bands, arm, name) for arm, name in enumerate(names)]
    return Curves(
        **vars(shown),
        times=_numbers(grid.ends),
        arms=(arms[0], arms[1]),
        seen_until=float(grid.ends[both.seen - 1]) if both.seen else 0.0,
        log_rank=log_rank_test(both, confidence) if tested else None,
        grid_bracket=both.grid_bracket(),
    )


def _arm(events: tuple[str, ...], both: TwoArms, bands: Bands, arm: int, name: str) -> ArmCurve:
    rising = curves.incidence(both.cells.counts[arm], both.grid)
    return ArmCurve(
        arm=name,
        survival=_numbers(bands.survival[arm]),
        lower=_numbers(bands.lower[arm]),
        upper=_numbers(bands.upper[arm]),
        incidence={
            label: _numbers(np.clip(curves.never_falling(row), 0, 1)) for label, row in zip(events, rising, strict=True)
        },
        at_risk=_numbers(np.maximum(both.at_risk[arm], 0.0)),
        at_risk_error=_numbers(both.at_risk_error[arm]),
    )


def log_rank_test(both: TwoArms, confidence: float) -> LogRankTest | None:
    """Return the log-rank test of the first kind of events.

    None where people are seen in no interval.
    """
    return told_test(both.log_rank(confidence))


def told_test(found: LogRank | None) -> LogRankTest | None:
    """Return a log-rank test as releases have it."""
    if found is None:
        return None
    ratio = None
    if found.ratio is not None and found.lower is not None and found.upper is not None:
        ratio = HazardRatio(estimate=found.ratio, lower=found.lower, upper=found.upper)
    chance = math.erfc(abs(found.statistic) / math.sqrt(2))
    return LogRankTest(statistic=found.statistic, p_value=chance, hazard_ratio=ratio)


def _numbers(values: FloatArray) -> tuple[float, ...]:
    """Numbers of a figure: what is beyond six decimals is noise in any case."""
    return tuple(np.round(values, 6).tolist())
