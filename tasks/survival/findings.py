"""From noisy cells to what the release says.

Measures with intervals, curves with bands, the log-rank test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, ConfoundingStatement, CovariateBalance
from causalveil.schemas.estimators.survival import (
    ArmCurve,
    Beyond,
    Curves,
    HazardRatio,
    LogRankTest,
    Measure,
    SurvivalStudy,
)
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.release import Interval, MeasuredEffect, Variance
from causalveil.tasks.inference.assemble import (
    NOISY,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.survival import curves
from causalveil.tasks.survival.effects import Bands, Compared, LogRank, TwoArms
from causalveil.tasks.survival.pooling import CensoringStrata, pooled_words


@dataclass(frozen=True)
class SurvivalFindings:
    """Findings of a study of times, of which the first measure is the answer.

    ``restricted_to``: when measures end, where that is before the study's horizon. ``cells``: the noisy numbers that
    all else is read off, of arms as they are.
    """

    measures: tuple[MeasuredEffect, ...]
    curves: Curves
    details: dict[str, float | int | str | bool]
    confounding: ConfoundingStatement
    not_covered: tuple[Limit, ...]
    restricted_to: float | None
    balance: tuple[CovariateBalance, ...]
    cells: tuple[float, ...] | None = None

    @property
    def estimate(self) -> float:
        """Estimate of the first measure."""
        return self.measures[0].estimate

    @property
    def interval(self) -> Interval:
        """Interval of the first measure."""
        return self.measures[0].interval

    def fields(self, study: SurvivalStudy) -> dict[str, Any]:
        """Return what a ``SurvivalRelease`` has beside the fields of every release."""
        return {
            "estimand": study.estimand,
            "estimate": self.estimate,
            "interval": self.interval,
            "variance": self.measures[0].variance,
            "measures": self.measures,
            "curves": self.curves,
            "restricted_to": self.restricted_to,
            "details": self.details,
            "confounding": self.confounding,
            "not_covered": self.not_covered,
            "balance": self.balance,
            "cells": self.cells,
        }


@dataclass(frozen=True)
class Adjusted:
    """An adjusted measure, and what is said of the adjustment.

    Attributes:
        compared: the measure.
        confounding: what was done about it.
        share: of the confounding that the prior expects, what was adjusted for.
        kept_curves: curves that were adjusted for.
        features: how many were adjusted for.
        followed: the least share that censoring leaves until the horizon; 0 where nobody is seen so long.
        covers, not_covered: of confounding that was not adjusted for, what the interval holds and what not.
        balance: of the covariates that were adjusted for.
    """

    compared: Compared
    confounding: ConfoundingStatement
    share: float
    kept_curves: tuple[str, ...]
    features: int
    followed: float
    covers: tuple[Limit, ...]
    not_covered: tuple[Limit, ...]
    balance: tuple[CovariateBalance, ...]


NOT_ADJUSTED: Mapping[Measure, Adjusted] = MappingProxyType({})


def answered_until(study: SurvivalStudy, groups: Sequence[TwoArms]) -> int:
    """Return the number of the interval with which measures end.

    It is the last, or where a study restricts them the last that holds.

    Args:
        study: says whether they are restricted, and what share must be followed for an adjusted effect.
        groups: both arms of every group of censoring, as they were released.
    """
    last, floor = groups[0].grid.intervals, study.censoring.floor if study.covariates else 0.0
    if study.censoring.beyond is Beyond.refuse:
        return last
    return min(one.followed_to(floor) for one in groups) or last


def findings(
    study: SurvivalStudy,
    whole: TwoArms,
    until: int,
    enough: int,
    adjusted: Mapping[Measure, Adjusted] = NOT_ADJUSTED,
    strata: CensoringStrata | None = None,
) -> SurvivalFindings:
    """Read everything off the cells.

    Args:
        study: the study.
        whole: everybody's cells, as they were released.
        until: the interval with which measures end.
        enough: the last interval until which as many are followed as the study wants.
        adjusted: measures that were adjusted for covariates, which take the place of those of the arms as they are.
        strata: of censoring, which these measures have.
    """
    grid, both = whole.grid, whole.until(until)
    allowed = 0.0 if study.covariates else study.estimator.allowed
    crude = [both.contrast(one, study.confidence, allowed) for one in study.measure]
    contrasts = [adjusted[one].compared for one in study.measure] if adjusted else crude
    unseen = adjusted[study.measure[0]].covers if adjusted else ()
    measures = tuple(
        MeasuredEffect(
            measure=measure,
            treated=found.treated,
            control=found.control,
            estimate=found.estimate,
            interval=_interval(study, found, unseen),
            variance=Variance(sampling=found.sampling, noise=found.noise),
        )
        for measure, found in zip(study.measure, contrasts, strict=True)
    )
    if adjusted and strata is not None:
        first = adjusted[study.measure[0]]
        done, about = first.confounding, _of_adjustment(study, first, crude[0], strata)
        open_to = (*first.not_covered, *_lost(study, strata))
    else:
        open_to = limit(Code.not_randomised if study.estimator.trial else Code.beyond_prior), limit(Code.censoring)
        done, about = RANDOMISED if study.estimator.trial else AS_THEY_ARE, {}
    details: dict[str, float | int | str | bool] = {
        "intervals": grid.intervals,
        "followed_until": float(grid.ends[enough - 1]) if enough else 0.0,
        "noise_standard_error": math.sqrt(contrasts[0].noise),
        "sampling_standard_error": math.sqrt(contrasts[0].sampling),
        "adjustment": done.words,
        **about,
    }
    open_to = (*open_to, *_of_the_end(study), limit(Code.grid, intervals=(grid.intervals,)))
    outcome, codes = study.outcome, study.treatment_codes.pair
    shown = TimesShown(outcome.horizon, outcome.unit_of_measure, outcome.origin, outcome.labels)
    drawn = curves_of(shown, whole, study.confidence, (str(codes[0]), str(codes[1])), tested=True)
    end = float(both.grid.horizon) if until < grid.intervals else None
    balance = adjusted[study.measure[0]].balance if adjusted else ()
    return SurvivalFindings(measures, drawn, details, done, open_to, end, balance)


def _of_the_end(study: SurvivalStudy) -> tuple[Limit, ...]:
    """Return what an interval does not cover where noise chose the horizon."""
    return () if study.censoring.beyond is Beyond.refuse else (limit(Code.earlier_horizon),)


def _lost(study: SurvivalStudy, strata: CensoringStrata) -> tuple[Limit, ...]:
    """Return within what losses may not depend on when the event would come."""
    by = [_levels_of(study, name) for name in study.censoring.by]
    if not by:
        return (limit(Code.censoring),)
    _, columns = pooled_words(study, strata)
    pooled = (limit(Code.censoring_pooled, columns=tuple(f"'{name}'" for name in columns)),) if columns else ()
    return (limit(Code.censoring_within, columns=(f"the levels of {by[0]}", *by[1:])), *pooled)


def _of_adjustment(
    study: SurvivalStudy, first: Adjusted, crude: Compared, strata: CensoringStrata
) -> dict[str, float | int | str | bool]:
    """Return the details of the first measure's adjustment, with the unadjusted measure and strata of censoring."""
    texts, _ = pooled_words(study, strata)
    told: dict[str, float | int | str | bool] = {"strata": len(strata.members)} if study.censoring.by else {}
    told |= {"pooled_strata": "; ".join(texts)} if texts else {}
    return {
        "confounding_adjusted_for": first.share,
        "features": first.features,
        "curves": ", ".join(first.kept_curves) or "none",
        "still_followed": first.followed,
        "unadjusted": crude.estimate,
        "unadjusted_lower": crude.lower,
        "unadjusted_upper": crude.upper,
        **told,
    }


def _levels_of(study: SurvivalStudy, name: str) -> str:
    """Return a column of ``censoring.by``, with where its classes begin if it is a number."""
    classes = ", ".join(f"{one:g}" for one in study.censoring.classes.get(name, ()))
    return f"'{name}' (classes from {classes})" if classes else f"'{name}'"


def _interval(study: SurvivalStudy, found: Compared, unseen: tuple[Limit, ...]) -> Interval:
    """Return the interval of a measure, and what it covers.

    Cells have noise, and no variance was released with its own. ``unseen``: of confounding, what adjustment covers.
    """
    covers: tuple[Limit, ...] = NOISY[:2]
    if study.covariates:
        covers = (*covers, limit(Code.noise_of_models), limit(Code.censoring_curves), *unseen)
    return Interval(
        lower=found.lower,
        upper=found.upper,
        confidence=study.confidence,
        covers=(*covers, limit(Code.confounding_of_prior)) if found.bias > 0 else covers,
        coverage=Coverage.normal_approximation,
        whole_range=found.whole_range,
        bias=found.bias,
    )


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
