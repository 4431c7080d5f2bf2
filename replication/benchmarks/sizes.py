"""Half-widths over sizes and budgets beside those without privacy: the table of docs/is-this-for-me.md.

    python -m replication.benchmarks.sizes [RUNS]

One population, written for a reader's first look and no setting chosen on it: ten covariates in their declared ranges,
a third to two thirds treated, an outcome whose standard deviation is an eighth of its declared range, of which
covariates explain 40%. Widths are in standard deviations of the outcome. Least squares adjusts for the same columns.
"""

from __future__ import annotations

import sys

import numpy as np

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.studies import RESOLVED

COLUMNS, EFFECT, SPREAD = 10, 0.3, 0.25
SIZES, EPSILONS = (1_000, 3_000, 10_000, 30_000, 100_000), ("0.5", "1", "3")


def study(epsilon: str) -> EffectStudy:
    """An outcome from -1 to 1, so that a standard deviation is SPREAD."""
    names = {f"x{place}": {"lower": -1, "upper": 1} for place in range(COLUMNS)}
    asked = {
        **RESOLVED,
        "outcome": {"name": "score", "lower": -1, "upper": 1},
        "covariates": names,
        "estimator": {"name": "regression"},
        "privacy": {"epsilon": epsilon, "delta": "1e-6"},
    }
    found = parse_study(asked)
    assert isinstance(found, EffectStudy)
    return found


def people(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariates, treatment and outcome."""
    random = np.random.default_rng(seed)
    z = np.clip(random.normal(0, 0.35, (n, COLUMNS)), -1, 1)
    drive = z @ np.linspace(1, 0, COLUMNS) / 0.35
    t = random.random(n) < 1 / (1 + np.exp(-0.35 * drive))
    noise = random.normal(0, np.sqrt(0.6), n)
    signal = drive / np.std(drive) * np.sqrt(0.4)
    return z, t, np.clip(SPREAD * (signal + noise + EFFECT * (t - 0.5)), -1, 1)


def least_squares(z: np.ndarray, t: np.ndarray, u: np.ndarray) -> tuple[float, float]:
    """Estimate and half-width at 95%."""
    x = np.column_stack([t, z, np.ones(len(t))])
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ (x.T @ u)
    left = u - x @ beta
    return float(beta[0]), 1.96 * float(np.sqrt(inverse[0, 0] * left @ left / (len(t) - x.shape[1])))


def main(runs: int) -> None:
    """Print a row a size."""
    print("| people | without privacy | epsilon 0.5 | epsilon 1 | epsilon 3 | cover the effect | without privacy |")
    print("|---|---|---|---|---|---|---|")
    for n in SIZES:
        held, told, cells = 0, 0, []
        open_ones = [least_squares(*people(n, seed)) for seed in range(runs)]
        plain = np.median([half for _, half in open_ones]) / SPREAD
        open_held = sum(abs(value / SPREAD - EFFECT) <= half / SPREAD for value, half in open_ones)
        for epsilon in EPSILONS:
            widths = []
            for seed in range(runs):
                z, t, u = people(n, seed)
                x = np.column_stack([z, np.ones(n)]) / np.sqrt(COLUMNS + 1) * (1 - 2.0**-40)
                found = rehearse_effect(study(epsilon), Rows(x, t.astype(np.uint8), u), RehearsalBudget(seed))
                low, high = found.interval.lower / SPREAD, found.interval.upper / SPREAD
                held, told = held + (low <= EFFECT <= high), told + 1
                widths.append((high - low) / 2)
            cells.append(f"{np.median(widths):.2f}" if np.median(widths) >= 0.1 else f"{np.median(widths):.3f}")
        row = f"| {n:,} | {plain:.3f} | {' | '.join(cells)} | {held} of {told} | {open_held} of {runs} |"
        print(row, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
