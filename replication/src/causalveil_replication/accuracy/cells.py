"""One cell of the benchmark: many runs of one estimator on one population at one size and budget.

Every run is the study's own stages on rows in memory, with seeded noise and no ledger. Nothing here
computes an estimate of its own but ordinary least squares, which is private to nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from causalveil.flows.run.estimators import estimator_of, rehearse_effect
from causalveil.schemas.errors import StudyError
from causalveil.schemas.privacy import Level
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.normalise import columns, encode, scaled_outcome
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.people import PublicPeople, thinned
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.accuracy.populations import KnownPopulation

# Noise of run k has this seed plus k.
NOISE_SEED = 10**6
# Of so many runs' people `plan` looks at the public columns, where these are public.
PLANS = 5


@dataclass(frozen=True)
class AccuracyCell:
    """What many runs say, in outcome units.

    Attributes:
        runs: how many.
        error: root mean square error.
        bias: mean error.
        coverage: share of intervals that hold the truth.
        half_width: mean half-width.
        planned: what `plan` expects of it; at label level of the people of the first runs, on average.
        said: how often the release said what of its adjustment.
    """

    runs: int
    error: float
    bias: float
    coverage: float
    half_width: float
    planned: float
    said: Mapping[str, int]


def run_cell(
    population: KnownPopulation,
    estimator: Mapping[str, Any],
    units: int,
    epsilon: str,
    delta: str = "1e-6",
    runs: int = 100,
    confidence: float = 0.95,
    level: str = "sample",
    plans: int = PLANS,
) -> AccuracyCell:
    """Runs 0 to ``runs`` - 1 of an estimator.

    Args:
        population: whom to draw.
        estimator: what a study file says under ``estimator``.
        units: n.
        epsilon, delta: the budget of a run.
        runs: how many; other calls of as many runs see the same people.
        confidence: of intervals.
        level: of privacy.
        plans: of how many runs what `plan` expects is computed; `planned` is no number if of none.

    Raises:
        StudyError: an estimator that has no rehearsal here.
    """
    study = parse_study(population.study(estimator, epsilon, delta, confidence, level))
    if not isinstance(study, EffectStudy):
        raise StudyError("accuracy is measured of effects")
    errors, hits, widths = [], 0, []
    said: dict[str, int] = {}
    for run in range(runs):
        seed = NOISE_SEED + run
        found = rehearse_effect(study, rows_of(study, population, units, run), RehearsalBudget(seed), seed)
        errors.append(found.estimate - population.truth)
        hits += found.interval.lower <= population.truth <= found.interval.upper
        widths.append((found.interval.upper - found.interval.lower) / 2)
        words = "" if found.confounding is None else found.confounding.sentence
        said[words] = said.get(words, 0) + 1
    sizes, seen = sizes_of(study, units), seen_people(study, population, units, range(min(runs, plans)))
    found_plans = [
        estimator_of(study).expected(study, sizes, population.stand_in(), None, people)["half_width"]
        for people in (seen if plans else ())
    ]
    return AccuracyCell(
        runs=runs,
        error=float(np.sqrt(np.mean(np.square(errors)))),
        bias=float(np.mean(errors)),
        coverage=hits / runs,
        half_width=float(np.mean(widths)),
        planned=float(np.mean(found_plans)) if found_plans else math.nan,
        said=said,
    )


def people_read(study: EffectStudy) -> int:
    """Return how many people `plan` reads covariates and treatments of; 0 if these are private."""
    return estimator_of(study).reads(study) if study.privacy.level is Level.label else 0


def seen_people(
    study: EffectStudy, population: KnownPopulation, units: int, runs: range
) -> Iterator[PublicPeople | None]:
    """Whose covariates and treatments `plan` looks at: the people of each run, or nobody's where these are private."""
    most = people_read(study)
    if most == 0:
        yield None
        return
    for run in runs:
        yield PublicPeople(thinned(rows_of(study, population, units, run), most))


def rows_of(study: EffectStudy, population: KnownPopulation, units: int, run: int) -> Rows:
    """The people of a run, normalised by what the study declares."""
    frame = population.draw(units, run)
    treatment = frame[study.treatment].to_numpy()
    x = encode(study, columns(study, frame), np.arange(units))
    return Rows(x, treatment, scaled_outcome(study, frame))


def least_squares_error(population: KnownPopulation, units: int, runs: int = 100) -> float:
    """Root mean square error of ordinary least squares on the covariates as drawn, without privacy."""
    errors = [_least_squares(population, units, run) - population.truth for run in range(runs)]
    return float(np.sqrt(np.mean(np.square(errors))))


def _least_squares(population: KnownPopulation, units: int, run: int) -> float:
    frame = population.draw(units, run)
    names = list(population.covariates)
    ones: FloatArray = np.ones(units)
    matrix = np.column_stack([ones, frame["t"].to_numpy(), frame.select(names).to_numpy()])
    found, *_ = np.linalg.lstsq(matrix.astype(np.float64), frame["y"].to_numpy(), rcond=None)
    return float(found[1])


Estimators = Mapping[str, Callable[[KnownPopulation], Mapping[str, Any]]]
ESTIMATORS: Estimators = {
    "regression": lambda population: {"name": "regression", "trial": population.trial},
    "difference_in_means": lambda population: {"name": "difference_in_means", "trial": population.trial},
}
