"""The one draw on the estimation units: what it touches, what it is charged as, how wide it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from causalveil.schemas.privacy import Scope
from causalveil.tasks.data.enclave import MemoryEnclave
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.tasks.estimate.papers.ipw import weights as weigh
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import GaussianAnalytic, GaussianClassic, L2Laplace
from tests.ipw_help import ESTIMANDS, make_study

N = 2000


def sums_of(study: object) -> np.ndarray:
    return np.linspace(100, 200, len(weigh.statistic_names(study)))


@pytest.mark.parametrize("weighting", ["hajek", "horvitz_thompson"])
def test_every_entry_gets_noise(weighting: str) -> None:
    study = make_study(weighting=weighting)
    sums, budget = sums_of(study), RehearsalBudget(0)
    released = weights.release(study, sizes_of(study, N), sums, budget)
    assert (released != sums).all()
    assert [(charge.name, charge.scope) for charge in budget.charges] == [("effect", Scope.estimation)]
    np.testing.assert_array_equal(sums, sums_of(study))


def test_at_training_units_level_nothing_is_drawn() -> None:
    study = make_study(level="training_units")
    budget = RehearsalBudget(0)
    sums = sums_of(study)
    np.testing.assert_array_equal(weights.release(study, sizes_of(study, N), sums, budget), sums)
    assert budget.charges == []
    assert weights.mechanism(study, sizes_of(study, N)) is None


def test_which_mechanism_releases_the_sums() -> None:
    sizes = sizes_of(make_study(), N)
    assert isinstance(weights.mechanism(make_study(), sizes), GaussianAnalytic)
    assert isinstance(weights.mechanism(make_study(delta=0), sizes), L2Laplace)
    paper = make_study(variant="paper", weighting="horvitz_thompson", epsilon="0.5")
    assert isinstance(weights.mechanism(paper, sizes), GaussianClassic)
    planned = weights.mechanism(make_study(), None)
    assert planned is not None
    assert planned.noise_scale is None


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("epsilon", ["0.2", "0.99"])
def test_the_papers_noise_is_the_papers(estimand: str, epsilon: str) -> None:
    """sigma_n = sqrt(2 ln(1.25/delta)) S/eps, S = (2C/n) max weight (Lee et al. 2019a, section 3.2 and App. F)."""
    study = make_study(variant="paper", weighting="horvitz_thompson", epsilon=epsilon, estimand=estimand)
    sizes = sizes_of(study, N)
    mechanism = weights.mechanism(study, sizes)
    assert mechanism is not None
    assert mechanism.noise_scale is not None
    assert sizes.estimation is not None
    on_tau = weigh.horvitz_thompson_scale(study).half * mechanism.noise_scale / sizes.estimation
    largest = {"ATE": 10, "ATT": 9, "ATC": 9}[estimand]
    expected = math.sqrt(2 * math.log(1.25 / 1e-6)) / float(epsilon) * 2 * 10 / 1000 * largest
    assert on_tau == pytest.approx(expected, rel=1e-8)


def test_the_stage_releases_what_weigh_left() -> None:
    study = make_study()
    enclave = MemoryEnclave([])
    enclave.save(weigh.SUMS, sums_of(study))
    sizes = sizes_of(study, N)
    one = weights.perturb_stage(study, sizes, enclave, RehearsalBudget(3))
    two = weights.release(study, sizes, sums_of(study), RehearsalBudget(3))
    np.testing.assert_array_equal(one, two)
