"""What `plan` says beside what runs come to, on people that are as the plan assumes; and the time of its searches.

    uv run python -m replication.benchmarks.plan [RUNS]    # prints docs/figures/plans.csv

Each row: the half-width that is told, the mean of so many seeded runs of the study's stages on samples of the plan's
own population, their ratio, and processor seconds of the plan, of `--curve` and of `--target-half-width`.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from causalveil.flows.plan import curves
from causalveil.flows.run.estimators import estimator_of, rehearse_effect
from causalveil.schemas.plan import StandIn
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.people import people
from causalveil.tasks.privacy.budget import RehearsalBudget

# By name: settings of the estimator, privacy beside epsilon, and whether it is a trial.
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "difference_in_means, trial": ({"name": "difference_in_means", "trial": True}, {}, True),
    "difference_in_means, label": ({"name": "difference_in_means"}, {"level": "label", "delta": 0}, False),
    "regression": ({"name": "regression"}, {}, False),
    "aipw": ({"name": "aipw", "guarantee": "asymptotic"}, {"delta": "1e-5"}, False),
    "ipw": ({"name": "ipw"}, {}, False),
    "ipw, delta 0": ({"name": "ipw"}, {"delta": 0}, False),
    "ipw, training units": ({"name": "ipw"}, {"level": "training_units"}, False),
    "ipw, Horvitz-Thompson": ({"name": "ipw", "weighting": "horvitz_thompson"}, {}, False),
    "ipw, label": ({"name": "ipw"}, {"level": "label", "delta": 0}, False),
    "matching": ({"name": "matching"}, {}, False),
    "matching, label": ({"name": "matching"}, {"level": "label", "delta": 0}, False),
    "balancing, label": ({"name": "balancing"}, {"level": "label", "delta": 0}, False),
}
CELLS = ((2_000, "1", 0.5), (2_000, "1", 0.2), (20_000, "1", 0.5), (20_000, "0.2", 0.2))


def study_of(name: str, epsilon: str, columns: int = 6) -> EffectStudy:
    """A study of six numbers and an outcome from 0 to 10."""
    estimator, privacy, _ = METHODS[name]
    study = parse_study(
        {
            "kind": "effect",
            "name": "s",
            "data": {"path": ".", "unit": "unit"},
            "treatment": "t",
            "outcome": {"name": "y", "lower": 0, "upper": 10},
            "covariates": {f"x{place}": {"lower": -4, "upper": 4} for place in range(columns)},
            "estimator": estimator,
            "privacy": {"epsilon": epsilon, "delta": "1e-6", **privacy},
        }
    )
    assert isinstance(study, EffectStudy)
    return study


def measured(study: EffectStudy, units: int, stand_in: StandIn, randomised: bool, runs: int) -> float:
    """Mean half-width of runs on samples of the plan's people."""
    widths = []
    for seed in range(runs):
        rows = people(study, stand_in, units, randomised, sample=1_000 + seed)
        found = rehearse_effect(study, rows, RehearsalBudget(1_000 + seed), seed)
        widths.append((found.interval.upper - found.interval.lower) / 2)
    return float(np.mean(widths))


def timed(work: Callable[..., object], *public: Any) -> float:
    """Processor seconds of what is done."""
    begin = time.process_time()
    work(*public)
    return time.process_time() - begin


def main(runs: int, names: list[str]) -> None:
    """Print the table."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(
        ("study", "units", "epsilon", "treated", "told", "measured", "told / measured", "curve s", "target s")
    )
    for name in names or METHODS:
        for units, epsilon, treated in CELLS:
            study, stand_in = study_of(name, epsilon), StandIn(treated=treated)
            sizes = sizes_of(study, units)
            seen = measured(study, units, stand_in, METHODS[name][2], runs)
            told = estimator_of(study).width(study, sizes, stand_in)
            seconds = ["", ""]
            if (units, epsilon) == (20_000, "1"):
                searches = (
                    (curves.curves, (study, units, stand_in)),
                    (curves.target, (study, sizes, stand_in, 0.7 * told, None, told)),
                )
                seconds = [f"{timed(work, *public):.1f}" for work, public in searches]
            row = (name, units, epsilon, treated, f"{told:.4g}", f"{seen:.4g}", f"{told / seen:.2f}", *seconds)
            table.writerow(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
