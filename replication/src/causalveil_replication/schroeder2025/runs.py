"""Runs of interval estimators on data whose truth is known, for `replicate intervals`.

Every run draws new data (new coefficients too), normalises them by the declared bounds and runs the study's own stages
on rows in memory, with seeded noise and no ledger. Nothing here computes an estimate of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import MemoryEnclave, Rows
from causalveil.tasks.data.simulate import penalty
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.schroeder2025.data import Population, draw, rows_of, shuffled

LEVELS = (0.8, 0.9, 0.95)
CLIP = (0.1, 0.9)
# Noise and learners of run k have this seed plus k, so that they share no random bits with the data of seed k.
NOISE_SEED = 10**6


class OneInterval(NamedTuple):
    """What one run says at one confidence level, in outcome units."""

    run: int
    level: float
    estimate: float
    lower: float
    upper: float


class Summary(NamedTuple):
    """Many runs at one level; ``*_error`` are Monte-Carlo standard errors."""

    runs: int
    level: float
    coverage: float
    coverage_error: float
    bias: float
    bias_error: float
    half_width: float


@dataclass(frozen=True)
class Analysis:
    """A way to an interval: what a study file would say under ``estimator``.

    A ``penalty`` of None is filled in by the numbers of units and covariates.
    """

    name: str
    title: str
    estimator: Mapping[str, Any] = field(hash=False)


def _paper(name: str, title: str, outcome: str, score: str) -> Analysis:
    """Appendix C.2 of the paper, with the shares of its Table 1: 0.9 of epsilon and delta for the effect."""
    model = {"outcome_model": {"model": outcome}, "propensity": {"model": score, "clip": CLIP}, "effect_share": 0.9}
    return Analysis(name, title, {"name": "aipw", "guarantee": "asymptotic", **model})


KERNEL = _paper("asymptotic_kernel", "asymptotic, kernel", "kernel_ridge", "logistic")
NETWORK = _paper("asymptotic_network", "asymptotic, network", "neural_network", "neural_network")
FINITE = Analysis("finite_sample", "finite sample", {"name": "regression"})
ADJUSTED = Analysis("regression_trial", "regression in a trial", {"name": "regression", "trial": True})
DIFFERENCE = Analysis("difference_in_means", "difference in means", {"name": "difference_in_means", "trial": True})
IPW = Analysis("ipw", "weighting", {"name": "ipw", "clip": CLIP, "penalty": None})


def study_of(document: Mapping[str, Any], method: Analysis, units: int, epsilon: str, delta: str) -> EffectStudy:
    """The study of a data set by a method.

    Args:
        document: a study without estimator and privacy.
        method: the estimator.
        units: n, by which a penalty that is left open is chosen.
        epsilon: of the whole budget.
        delta: the same.
    """
    estimator = dict(method.estimator)
    if "penalty" in estimator and estimator["penalty"] is None:
        estimator["penalty"] = penalty(units, len(document["covariates"]))
    privacy = {"epsilon": epsilon, "delta": delta}
    study = parse_study({**document, "estimator": estimator, "privacy": privacy}, method.name)
    if not isinstance(study, EffectStudy):
        raise TypeError("not a study of an effect")
    return study


def synthetic_runs(study: EffectStudy, population: Population, units: int, runs: Iterable[int]) -> list[OneInterval]:
    """Answers of some runs on a population: run k has the data of seed k, whatever the study's estimator."""
    tables = ((run, rows_of(study, draw(population, units, run))) for run in runs)
    return [answer for run, rows in tables for answer in _answers(run, analyse(study, rows, NOISE_SEED + run))]


def shuffled_runs(study: EffectStudy, frame: pl.DataFrame, runs: Iterable[int]) -> list[OneInterval]:
    """Answers of some runs on the same units: run k cuts folds and halves from the order of seed k."""
    rows = rows_of(study, frame)
    orders = ((run, shuffled(rows, run)) for run in runs)
    return [answer for run, order in orders for answer in _answers(run, analyse(study, order, NOISE_SEED + run))]


def analyse(study: EffectStudy, rows: Rows, seed: int, levels: Sequence[float] = LEVELS) -> list[Findings]:
    """One run by the study's estimator: the same data and draws of noise, read at each confidence level.

    Args:
        study: the study.
        rows: all units, in random order: folds and halves are cut from them as they come.
        seed: of the noise, and of stochastic learners.
        levels: confidence levels.
    """
    # The same enclave for all levels: nuisances that are fitted exactly are fitted once.
    enclave = MemoryEnclave.of(rows)
    asked = [study.model_copy(update={"confidence": level}) for level in levels]
    return [rehearse_effect(one, enclave, RehearsalBudget(seed), seed) for one in asked]


def summarise(answers: Sequence[OneInterval], truth: float) -> list[Summary]:
    """Coverage, bias and mean half-width at each level."""
    result = []
    for level in sorted({answer.level for answer in answers}):
        some = [answer for answer in answers if answer.level == level]
        errors = np.array([answer.estimate - truth for answer in some])
        coverage = float(np.mean([answer.lower <= truth <= answer.upper for answer in some]))
        deviation = float(errors.std(ddof=1)) if len(some) > 1 else math.nan
        result.append(
            Summary(
                runs=len(some),
                level=level,
                coverage=coverage,
                coverage_error=math.sqrt(coverage * (1 - coverage) / len(some)),
                bias=float(errors.mean()),
                bias_error=deviation / math.sqrt(len(some)),
                half_width=float(np.mean([(answer.upper - answer.lower) / 2 for answer in some])),
            )
        )
    return result


def _answers(run: int, findings: Sequence[Findings]) -> list[OneInterval]:
    return [
        OneInterval(run, found.interval.confidence, found.estimate, found.interval.lower, found.interval.upper)
        for found in findings
    ]
