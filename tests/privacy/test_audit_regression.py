"""Regression's releases audited from outside on neighbouring tables, with mutants that must be caught.

Each release is drawn thousands of times on two tables that differ in one extreme unit; its likelihood ratio bounds
epsilon from below (``audit.epsilon_lower_bound``, wrong with probability at most 1e-6 a case). Noise is seeded, so that
runs repeat. Delta is large, since no audit by counting sees a loss that 1e-6 hides.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Mechanism
from causalveil.tasks.privacy.noise import SeededNoise
from causalveil.tasks.regression.decide import recipe
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjustment import Adjustment
from causalveil.tasks.regression.moments import moment_sums
from causalveil.tasks.regression.recipe import EFFECT
from causalveil.tasks.regression.scales import scale_sums
from causalveil.tasks.regression.scores import score_sums
from tests.aipw_help import in_memory
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.neighbours import neighbour
from tests.regression_help import even_scales, in_rows, make_regression

RUNS, EPSILON, DELTA = 2_500, "3", "0.01"
UNITS = 100_000


def table(z: list[float], t: int, u: float) -> Rows:
    """Twenty ordinary people, the last replaced by an extreme one."""
    others = in_rows(np.full((20, 2), 0.1), np.array([0, 1] * 10), np.zeros(20))
    return neighbour(others, in_rows(np.array([z]), np.array([t]), np.array([u])))


def cases(delta: str) -> dict[str, tuple[Mechanism, list[FloatArray]]]:
    """Name -> mechanism at the whole budget's cost, and the exact values on two neighbouring tables."""
    study = make_regression(2, epsilon=EPSILON, delta=delta, basis="linear")
    made = recipe(study, sizes_of(study, UNITS))
    # Shares of the budget are beyond what some thousand runs can tell.
    dear = replace(made, scales=study.privacy.cost, moments=study.privacy.cost, effect=study.privacy.cost, by_arm=False)
    scales = even_scales(2)
    features = Features(made.columns, scales, Basis.linear, 1.25)
    nothing = np.zeros(2)
    choice = Adjustment(nothing, nothing, nothing, 0.0, 0.0, (0.5, 0.5), 1.0, 4.0, 0.0, 0.0, False)
    moments = dear.moments_mechanism()
    assert moments is not None
    far, opposite = [1.0, 1.0], [-1.0, -1.0]
    # One of two scores is half way, which is furthest in the L1 norm.
    ends = (1.0, -0.15) if delta == "0" else (1.0, -1.0)
    return {
        "scales": (
            dear.scales_mechanism(),
            [scale_sums(in_memory([t]), made.columns) for t in (table(far, 1, 1.0), table(opposite, 1, -1.0))],
        ),
        "moments": (
            moments,
            [moment_sums(in_memory([t]), features) for t in (table(far, 1, 1.0), table(opposite, 1, 1.0))],
        ),
        "moments by arm": (
            replace(dear, by_arm=True).moments_mechanism() or moments,
            [
                moment_sums(in_memory([t]), replace(features, by_arm=Basis.linear))
                for t in (table(far, 1, 1.0), table(far, 0, -1.0))
            ],
        ),
        "lines by arm": (
            replace(dear, by_arm=True).moments_mechanism() or moments,
            [
                moment_sums(in_memory([t]), replace(features, basis=Basis.squares, by_arm=Basis.linear))
                for t in (table(far, 1, 1.0), table(far, 0, -1.0))
            ],
        ),
        "effect": (
            dear.effect_mechanism(),
            [score_sums(in_memory([table(far, 1, u)]), scales, None, choice) for u in ends],
        ),
    }


@pytest.mark.parametrize("delta", [DELTA, "0"])
@pytest.mark.parametrize("name", ["scales", "moments", "moments by arm", "lines by arm", "effect"])
def test_releases_stay_below_the_declared_epsilon_and_less_noise_is_caught(name: str, delta: str) -> None:
    mechanism, exact = cases(delta)[name]
    budget, way = OpenBudget(SeededNoise(7)), exact[0] - exact[1]
    drawn = [np.array([mechanism.release(value, EFFECT, budget) - value for _ in range(RUNS)]) for value in exact]
    declared, scale = float(mechanism.cost.epsilon), mechanism.noise_scale
    assert scale is not None

    def likelihood(samples: FloatArray, kept: float) -> FloatArray:
        """log p(sample | one) - log p(sample | other), noise scaled by ``kept``."""
        one, other = samples - exact[0], samples - exact[1]
        if delta != "0":
            return samples @ way
        order = 1 if name == "effect" else 2
        norms = [np.linalg.norm(part, order, axis=1) / (scale * kept) for part in (other, one)]
        found: FloatArray = norms[0] - norms[1]
        return found

    def audited(kept: float) -> float:
        """With ``kept`` of the noise."""
        one, other = (likelihood(value + kept * noise, kept) for value, noise in zip(exact, drawn, strict=True))
        return epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6)

    # Without delta noise of 20 numbers has one length and any direction, of which few are the worst.
    less = 1 / 6 if name == "lines by arm" else 1 / 4
    print(
        f"{name}: declared {declared:.3g}, audited {audited(1):.3g}, with {less:.2g} of the noise {audited(less):.3g}"
    )
    assert audited(1) <= declared
    assert audited(less) > declared


def test_a_gram_matrix_that_weighs_more_is_caught() -> None:
    """A mutant that releases eight times the matrix at the noise of sqrt(8): rows at right angles tell it."""
    mechanism, _ = cases(DELTA)["moments"]
    made = recipe(make_regression(2, basis="linear"), sizes_of(make_regression(2), UNITS))
    scales = even_scales(2)
    features = Features(made.columns, scales, Basis.linear, 1.25)
    exact = [moment_sums(in_memory([table(z, 1, 0.0)]), features) for z in ([1.0, 0.0], [0.0, 1.0])]
    weighted = [np.concatenate([value[:5], 8 * value[5:]]) for value in exact]
    budget, way = OpenBudget(SeededNoise(3)), weighted[0] - weighted[1]
    one, other = (np.array([mechanism.release(value, EFFECT, budget) for _ in range(RUNS)]) @ way for value in weighted)
    assert epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6) > float(mechanism.cost.epsilon)


def test_scores_cut_by_their_own_spread_are_caught() -> None:
    """Published code scales by the data's own maximum: everybody but the changed unit has the same score here."""
    mechanism, exact = cases(DELTA)["effect"]
    random, scale = np.random.default_rng(3), mechanism.noise_scale or math.nan
    one, other = (value[0] + 1e-3 * scale * random.normal(size=RUNS) for value in exact)
    assert epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6) > float(mechanism.cost.epsilon)
