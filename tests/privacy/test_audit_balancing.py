"""Releases under public weights, of balancing and of `ipw`, audited from outside on two tables.

They differ in one outcome: the unit of the largest weight has it at either end of the range. The likelihood ratio of
thousands of seeded draws bounds epsilon from below (``audit.epsilon_lower_bound``, wrong with probability at most 1e-6
a case). A mutant of less noise must be caught.
"""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.tasks.balancing.weights import weigh
from causalveil.tasks.enclave.enclave import MemoryEnclave, Rows
from causalveil.tasks.ipw import public_scores as ipw
from causalveil.tasks.privacy.noise import SeededNoise
from causalveil.tasks.weighting.weighted_means import SLOT, WeightedUnits, mechanism, sums
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.balancing_help import confounded, make_balancing
from tests.ipw_help import make_study

RUNS, EPSILON = 2_500, "2"
CONFIDENCE = 1 - 1e-6


def weighting(name: str, rows: Rows) -> WeightedUnits:
    """Weights of an estimator."""
    if name == "balancing":
        return weigh(make_balancing(2, epsilon=EPSILON), MemoryEnclave.of(rows))[1]
    return ipw.weigh(make_study(level="label", delta="0"), MemoryEnclave.of(rows))[1]


def released(name: str = "balancing", scale: float = 1.0) -> tuple[np.ndarray, np.ndarray, float]:
    """Log-likelihood ratios of draws on either table; the mutant draws ``scale`` of the noise."""
    study, rows = make_balancing(2, epsilon=EPSILON), confounded(200, 3 if name == "ipw" else 2)
    units = weighting(name, rows)
    treated, control = (
        np.max(units.weights[rows.t == arm]) / total for arm, total in zip((1, 0), units.summary.totals, strict=True)
    )
    arm = 1 if treated >= control else 0
    busiest = int(np.argmax(np.where(rows.t == arm, units.weights, 0)))
    exact = []
    for end in (1.0, -1.0):
        u = np.zeros(len(rows))
        u[busiest] = end
        exact.append(sums(units, rows.t, u, study.privacy.cost))
    release_by, budget = mechanism(study.privacy.cost), OpenBudget(SeededNoise(11))
    noise = release_by.known_scale
    ratios = []
    for value in exact:
        drawn = [value + scale * (release_by.release(value, SLOT, budget) - value) for _ in range(RUNS)]
        away = [np.abs(np.array(drawn) - other).sum(axis=1) / noise for other in exact]
        ratios.append(away[1] - away[0])
    return ratios[0], ratios[1], float(release_by.cost.epsilon)


@pytest.mark.parametrize("name", ["balancing", "ipw"])
def test_the_release_stays_below_the_declared_epsilon(name: str) -> None:
    first, second, declared = released(name)
    found = epsilon_lower_bound(first, second, 0.0, CONFIDENCE)
    assert 0.4 * declared < found <= declared


@pytest.mark.parametrize("name", ["balancing", "ipw"])
@pytest.mark.parametrize("share", [0.4])
def test_less_noise_is_caught(name: str, share: float) -> None:
    first, second, declared = released(name, share)
    assert epsilon_lower_bound(first, second, 0.0, CONFIDENCE) > declared
