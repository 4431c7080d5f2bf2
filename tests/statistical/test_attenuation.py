"""What randomised treatments leave of an effect: the factor against simulation, and its range against its promise.

Seeds fixed; false-alarm rates stand with each test.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.tasks.estimate.papers.matching import interval
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.lattice import flip_bits
from tests.matching_help import population, two_covariates

KEEP = math.exp(0.7) / (1 + math.exp(0.7))


@pytest.mark.parametrize(("share", "factor"), [(0.05, 0.07), (0.2, 0.22), (0.5, 0.34)])
def test_the_factor_is_what_it_was_computed_to_be_elsewhere(share: float, factor: float) -> None:
    """Values at a keep probability of 0.668, to two digits, from the method's reference notes."""
    assert round(interval.attenuation(share, 0.668), 2) == factor
    assert interval.attenuation(1 - share, 0.668) == pytest.approx(interval.attenuation(share, 0.668))


def test_the_factor_needs_both_arms() -> None:
    assert interval.attenuation(0.0, KEEP) == interval.attenuation(1.0, KEEP) == 0.0
    assert interval.attenuation(0.3, 1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9])
def test_the_factor_is_the_contrast_of_randomised_arms(share: float) -> None:
    """400,000 units, five standard errors: a false alarm once in a million."""
    n = 400_000
    t = (np.random.default_rng(1).random(n) < share).astype(np.uint8)
    arms = flip_bits(t, KEEP, np.random.default_rng(2).bytes)
    contrast = t[arms == 1].mean() - t[arms == 0].mean()
    error = math.sqrt(sum(0.25 / np.count_nonzero(arms == arm) for arm in (0, 1)))
    assert abs(contrast - interval.attenuation(t.mean(), KEEP)) < 5 * error


def test_the_range_of_the_factor_holds_every_share_between() -> None:
    shares = np.linspace(0.01, 0.99, 99)
    factors = [interval.attenuation(share, KEEP) for share in shares]
    for low in range(0, 99, 7):
        for high in range(low, 99, 5):
            least, largest = interval.attenuation_range(shares[low], shares[high], KEEP)
            assert least <= min(factors[low : high + 1]) + 1e-15
            assert largest >= max(factors[low : high + 1]) - 1e-15


def test_the_treated_share_is_missed_as_often_as_promised() -> None:
    """4,000 runs at 10% a side: counts within 5 binomial standard deviations (seed 3, one in a million each)."""
    random = np.random.default_rng(3)
    t = (np.arange(500) < 120).astype(np.uint8)
    below = above = 0
    for _ in range(4_000):
        responses = int(flip_bits(t, KEEP, random.bytes).sum())
        _, low, high = interval.treated_share(responses, 500, KEEP, 0.1)
        below, above = below + (t.mean() < low), above + (t.mean() > high)
    assert abs(below - 400) < 5 * math.sqrt(360)
    assert abs(above - 400) < 5 * math.sqrt(360)


@pytest.mark.parametrize("base", [0.0, -1.0])
def test_estimates_are_attenuated_by_the_factor_and_corrected_by_it(base: float) -> None:
    """40 tables of 3,000 units without confounding, little noise: means within 5 standard errors of their targets."""
    attenuated, corrected = [], []
    for seed in range(40):
        rows = population(3_000, np.random.default_rng(seed), slope=0, outcome=0, base=base, effect=0.4, spread=0.05)
        found = []
        for correct in (False, True):
            study = two_covariates(
                epsilon="40",
                correct_attenuation=correct,
                budget_shares={"weights": 0.2, "scores": 0.2, "treatment": 0.02, "outcome": 0.58},
            )
            found.append(rehearse_effect(study, rows, RehearsalBudget(seed)))
        factor = interval.attenuation(rows.t.mean(), math.exp(0.8) / (1 + math.exp(0.8)))
        attenuated.append(found[0].estimate - 0.4 * factor)
        corrected.append(found[1].estimate - 0.4)
        assert found[0].details["attenuation_factor"] == pytest.approx(factor, abs=0.08)
        wider = [one.interval.upper - one.interval.lower for one in found]
        assert wider[1] > wider[0] / factor * 0.9
    for errors in (attenuated, corrected):
        assert abs(np.mean(errors)) < 5 * np.std(errors) / math.sqrt(40) + 0.005
