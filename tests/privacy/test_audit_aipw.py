"""AIPW's releases audited from outside on neighbouring tables, with mutants that must be caught.

Each release is drawn thousands of times on two tables that differ in one extreme unit; its likelihood ratio bounds
epsilon from below (``audit.epsilon_lower_bound``, wrong with probability at most 1e-6 a case). Noise is seeded, so that
runs repeat; a third of it must be caught. Delta is large, since no audit by counting sees a loss that 1e-6 hides.
"""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.tasks.adjustment.recipe import SCORES
from causalveil.tasks.aipw.recipe import OutcomeModel, known_recipe
from causalveil.tasks.aipw.stages import summed
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Mechanism
from causalveil.tasks.privacy.noise import SeededNoise
from tests.aipw_help import difference_mechanism, difference_sums, in_memory, make_aipw, make_difference
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.neighbours import neighbour

RUNS, DELTA = 2_500, "0.01"


def row(z: list[float], t: int, u: float) -> Rows:
    return Rows(np.array([[*z, 0.05]]) * (1 - 2.0**-40), np.array([t], np.uint8), np.array([u]))


def others() -> Rows:
    one = row([0.1, 0.1], 1, 0.0)
    return Rows(np.repeat(one.x, 20, axis=0), np.array([0, 1] * 10, np.uint8), np.zeros(20))


def cases() -> dict[str, tuple[Mechanism, list[FloatArray]]]:
    """Name -> mechanism, and the exact values on two neighbouring tables.

    Releases of the outcome model are those of the adjusting estimator: ``test_audit_joint.py``.
    """
    study = make_aipw(2, epsilon="3", delta=DELTA, budget_shares={"outcome_model": "0.1", "effect": "0.9"})
    made = known_recipe(study, sizes_of(study, 100_000))
    mirrored = [neighbour(others(), row([0.0, 0.0], 0, u)) for u in (1.0, -1.0)]
    plain = OutcomeModel(0.5, (0.0, 0.0), 0.3, (), np.zeros(0), np.zeros((2, 0)), 0.0)
    arms = make_difference(epsilon="3", delta=DELTA)
    return {
        "scores": (made.effect, [summed(made, [in_memory([t])], [plain], 1) for t in mirrored]),
        "difference": (
            difference_mechanism(arms, sizes_of(arms, 21)),
            [difference_sums(arms, t) for t in mirrored],
        ),
    }


@pytest.mark.parametrize("name", ["scores", "difference"])
def test_releases_stay_below_the_declared_epsilon_and_less_noise_is_caught(name: str) -> None:
    mechanism, exact = cases()[name]
    budget, way = OpenBudget(SeededNoise(7)), exact[0] - exact[1]
    drawn = [np.array([mechanism.release(value, SCORES, budget) - value for _ in range(RUNS)]) @ way for value in exact]
    declared, delta = float(mechanism.cost.epsilon), float(mechanism.cost.delta)

    def audited(share: float) -> float:
        """Along the difference of the two tables, the likelihood ratio of normal noise; ``share`` of the noise kept."""
        one, other = (value @ way + share * noise for value, noise in zip(exact, drawn, strict=True))
        return epsilon_lower_bound(one, other, delta, 1 - 1e-6)

    print(f"{name}: declared {declared:.3g}, audited {audited(1):.3g}, with a third of the noise {audited(1 / 3):.3g}")
    assert audited(1) <= declared
    assert audited(1 / 3) > declared


def test_a_score_range_from_the_data_is_caught() -> None:
    """Published code takes sensitivities from the data's own maximum: here scores scaled by their own range."""
    mechanism, exact = cases()["scores"]
    own = 1e-3  # everybody but the changed unit has the same score, so the data's own range is next to nothing
    random = np.random.default_rng(3)
    one, other = (value[0] + own * mechanism.noise_scale * random.normal(size=RUNS) for value in exact)
    assert epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6) > float(mechanism.cost.epsilon)
