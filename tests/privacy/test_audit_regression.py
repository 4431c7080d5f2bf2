"""Adjustment's releases audited from outside on neighbouring tables, with mutants that must be caught.

Each release is drawn thousands of times on two tables that differ in one extreme unit; its likelihood ratio bounds
epsilon from below (``audit.epsilon_lower_bound``, wrong with probability at most 1e-6 a case). Noise is seeded, so that
runs repeat. Delta is large, since no audit by counting sees a loss that 1e-6 hides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from causalveil.tasks.adjustment.features import ArmScales, Curve, Encoding, FeatureMap, Scores, Shape
from causalveil.tasks.adjustment.five_releases import Sums
from causalveil.tasks.adjustment.recipe import LINES, SCALES, SCORES, SCREEN, AdjustmentRecipe, public_of
from causalveil.tasks.adjustment.sums import MomentSums, ScaleSums, ScoreSums, ScreenSums
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import exact_sums
from causalveil.tasks.privacy.mechanisms import Mechanism, Slot
from causalveil.tasks.privacy.noise import SeededNoise
from tests.aipw_help import in_memory
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.neighbours import neighbour
from tests.regression_help import Design, make_regression

RUNS, EPSILON, DELTA, UNITS = 2_500, "3", "0.01", 100_000
NAMES = ("scales", "moments", "screen", "scores")


def cases(delta: str) -> dict[str, tuple[Mechanism, list[FloatArray]]]:
    """Name -> mechanism at the whole budget's cost, and the exact values on two neighbouring tables."""
    study = make_regression(2, epsilon=EPSILON, delta=delta)
    made, encoding = Design(study), Encoding.of(study)
    public = public_of(study.privacy.cost, "ATE", study.estimator, encoding, sizes_of(study, UNITS))
    plan = AdjustmentRecipe(public, encoding, True, {})
    # Shares of the budget are beyond what some thousand runs can tell.
    dear = replace(plan, costs={one.name: study.privacy.cost for one in (SCALES, LINES, SCREEN, SCORES)})
    arms, none = ArmScales(0.5, (0.0, 0.0), 0.1, 0.2), np.zeros(2)
    turned = Curve(Shape.bend, 1, 1, np.array([-1.0, 1.0]), np.array([-2.0, 2.0]), 0.0, none, 1.0)
    lines = FeatureMap(made.lines, (), 1.0)
    zero = np.zeros((2, 2))

    def row(*z: float, t: int = 1, u: float = 1.0) -> Rows:
        return Rows(np.array([[*z, 1.0]]) * made.encoding.span, np.array([t], np.uint8), np.array([u]))

    def one(slot: Slot, sums: Sums[object], *pair: Rows) -> tuple[Mechanism, list[FloatArray]]:
        mechanism = dear.mechanism(slot)
        assert mechanism is not None
        others = Rows(np.repeat(row(0.1, 0.1).x, 20, axis=0), np.array([0, 1] * 10, np.uint8), np.zeros(20))
        tables = [in_memory([neighbour(others, last)]) for last in pair]
        return mechanism, [exact_sums(table, sums.of, sums.numbers, 1) * sums.weights for table in tables]

    leaves = np.array([-0.5, 0.0])
    screen = replace(
        made.screen, arms=arms, curves=(turned,), radius=1.0, middle=none, apart=none, slopes=zero, weights=leaves
    )
    scores = Scores(arms, replace(lines, radius=10.0), (0.5, 0.5), none, none, zero, zero, none, 1.0)
    by_arm = delta != "0"
    return {
        "scales": one(SCALES, ScaleSums(made.encoding, not by_arm), row(1, 1), row(-1, -1, t=0, u=-1.0)),
        "moments": one(
            LINES,
            MomentSums(made.encoding, lines, arms, by_arm),
            row(1, 1),
            row(1, 1, t=0, u=-1.0) if by_arm else row(-1, -1),
        ),
        "screen": one(SCREEN, ScreenSums(made.encoding, screen), row(1, 1), row(1, -1)),
        "scores": one(SCORES, ScoreSums(made.encoding, scores, not by_arm), row(1, 1), row(1, 1, u=-1.0)),
    }


@pytest.mark.parametrize("delta", [DELTA, "0"])
@pytest.mark.parametrize("name", NAMES)
def test_releases_stay_below_the_declared_epsilon_and_less_noise_is_caught(name: str, delta: str) -> None:
    mechanism, exact = cases(delta)[name]
    budget, way = OpenBudget(SeededNoise(7)), exact[0] - exact[1]
    drawn = [np.array([mechanism.release(value, SCALES, budget) - value for _ in range(RUNS)]) for value in exact]
    declared, scale = float(mechanism.cost.epsilon), mechanism.noise_scale
    assert scale is not None

    def likelihood(samples: FloatArray, kept: float) -> FloatArray:
        """log p(sample | one) - log p(sample | other), noise scaled by ``kept``."""
        if delta != "0":
            return samples @ way
        order = 1 if name in ("scores", "scales") else 2
        found: FloatArray = np.linalg.norm(samples - exact[1], order, axis=1)
        found -= np.linalg.norm(samples - exact[0], order, axis=1)
        return found / (scale * kept)

    def audited(kept: float) -> float:
        """With ``kept`` of the noise."""
        one, other = (likelihood(value + kept * noise, kept) for value, noise in zip(exact, drawn, strict=True))
        return epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6)

    print(f"{name}: declared {declared:.3g}, audited {audited(1):.3g}, with a quarter of the noise {audited(0.25):.3g}")
    assert audited(1) <= declared
    assert audited(0.25) > declared


def test_moments_that_weigh_the_arms_more_are_caught() -> None:
    """A mutant that weighs eight times what differs between the arms at the noise of 3."""
    mechanism, exact = cases(DELTA)["moments"]
    pooled = len(exact[0]) - 9
    mutant = [np.concatenate([value[:pooled], 8 * value[pooled:]]) for value in exact]
    budget, way = OpenBudget(SeededNoise(3)), mutant[0] - mutant[1]
    one, other = (np.array([mechanism.release(value, SCALES, budget) for _ in range(RUNS)]) @ way for value in mutant)
    assert epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6) > float(mechanism.cost.epsilon)


def test_scores_cut_by_their_own_spread_are_caught() -> None:
    """Published code scales by the data's own maximum: everybody but the changed unit has the same score here."""
    mechanism, exact = cases(DELTA)["scores"]
    random, scale = np.random.default_rng(3), mechanism.noise_scale or np.nan
    one, other = (value[0] + 1e-3 * scale * random.normal(size=RUNS) for value in exact)
    assert epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6) > float(mechanism.cost.epsilon)
