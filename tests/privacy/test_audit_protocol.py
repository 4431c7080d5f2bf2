"""A protocol's joint releases audited from outside on neighbouring tables, with mutants that must be caught.

As for the regression's (``test_audit_regression.py``): each release is drawn thousands of times on two tables that
differ in one extreme unit, which also changes its subgroup; its likelihood ratio bounds epsilon from below, wrong with
probability at most 1e-6 a case. Noise is seeded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from causalveil.schemas.estimators.protocols import RegressionProtocol
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Mechanism
from causalveil.tasks.privacy.noise import SeededNoise
from causalveil.tasks.protocols.joint import JointRecipe
from causalveil.tasks.protocols.stages import joint_recipe
from causalveil.tasks.protocols.sums import GroupContrast, moment_sums, scale_sums, score_sums
from causalveil.tasks.regression import moments as of_moments
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.recipe import EFFECT
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.protocol_help import in_cells, make_protocol
from tests.regression_help import even_scales

RUNS, EPSILON, DELTA = 2_500, "3", "0.01"
UNITS, OUTCOMES, GROUPS = 1_000_000, 4, 2


def joint() -> JointRecipe:
    """Each release at the whole budget's cost: shares of it are beyond what some thousand runs can tell."""
    study = make_protocol(2, OUTCOMES, GROUPS, epsilon=EPSILON, delta=DELTA, basis="linear")
    assert isinstance(study, RegressionProtocol)
    made, cost = joint_recipe(study, sizes_of(study, UNITS)), study.privacy.cost
    assert made.one.by_arm
    return replace(made, one=replace(made.one, scales=cost, moments=cost, effect=cost))


def table(z: float, t: int, u: float, g: int) -> Pieces:
    """Twenty ordinary people, and an extreme one."""
    z_all = np.vstack([np.full((20, 2), 0.1), [[z, z]]])
    outcomes = np.vstack([np.zeros((20, OUTCOMES)), np.full((1, OUTCOMES), u)])
    rows = in_cells(z_all, np.array([*[0, 1] * 10, t]), outcomes, np.array([*[0, 1] * 10, g]))
    return Pieces(lambda _: rows, 1, len(rows))


def cases(made: JointRecipe) -> dict[str, tuple[Mechanism, list[FloatArray]]]:
    """Name -> mechanism, and the exact values on two neighbouring tables."""
    scales = even_scales(2)
    contrast = GroupContrast(
        Features(made.one.columns, scales, Basis.linear, 1.25, by_arm=Basis.linear),
        np.zeros((2, OUTCOMES)), np.full(OUTCOMES, 0.6),
        np.array([[-1.0], [1.0]]),
    )  # fmt: skip

    def scores(rows: CellRows) -> FloatArray:
        return rows.u

    moments = made.moments_mechanism()
    assert moments is not None
    far, opposite = table(1.0, 1, 1.0, 0), table(-1.0, 1, 1.0, 1)
    return {
        "scales": (made.scales_mechanism(), [scale_sums(p, made) for p in (far, opposite)]),
        "moments": (moments, [moment_sums(p, made, [contrast] * GROUPS) for p in (far, opposite)]),
        "effect": (made.effect_mechanism(), [score_sums(p, made, [scores] * GROUPS) for p in (far, opposite)]),
    }


def audited(mechanism: Mechanism, exact: list[FloatArray], kept: float = 1.0) -> float:
    """The lower bound on epsilon with ``kept`` of the noise."""
    budget, way = OpenBudget(SeededNoise(7)), exact[0] - exact[1]
    one, other = (
        np.array([value + kept * (mechanism.release(value, EFFECT, budget) - value) for _ in range(RUNS)]) @ way
        for value in exact
    )
    return epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6)


@pytest.mark.parametrize("name", ["scales", "moments", "effect"])
def test_joint_releases_stay_below_the_declared_epsilon_and_less_noise_is_caught(name: str) -> None:
    mechanism, exact = cases(joint())[name]
    declared = float(mechanism.cost.epsilon)
    assert audited(mechanism, exact) <= declared
    assert audited(mechanism, exact, 1 / 4) > declared


@pytest.mark.parametrize("name", ["scales", "moments", "effect"])
def test_outcomes_that_are_not_weighted_are_caught(name: str) -> None:
    """A mutant that releases every outcome at the noise of one: sixteen times the squared distance of four of them."""
    made = joint()
    mutant = replace(made, weights=(2.0,) * OUTCOMES)
    mechanism, exact = cases(mutant)[name]
    assert audited(mechanism, exact) > float(mechanism.cost.epsilon)


def test_arms_that_are_told_apart_without_noise_of_their_own_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant whose arms' differences are ten times as large, which adds 100 to squared distances, not 1."""
    monkeypatch.setattr(of_moments, "ARM_GRAM", 10 * of_moments.ARM_GRAM)
    monkeypatch.setattr(of_moments, "ARM_CROSS", 10 * of_moments.ARM_CROSS)
    mechanism, exact = cases(joint())["moments"]
    assert audited(mechanism, exact) > float(mechanism.cost.epsilon)
