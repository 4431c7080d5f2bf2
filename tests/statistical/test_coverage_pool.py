"""How often pooled intervals hold the effect, with the intervals, variances and noise that sites really release.

Sites draw as the estimators do: an estimate with sampling error and effect noise, a sampling variance that is itself
noisy and cut at zero, both noises from one spherical draw, the interval from ``tasks.estimate.interval``. Seeds are
fixed; each test states how many rounds it plays, and the bound leaves four Monte-Carlo standard errors: false alarms
below 1 in 10,000 per bound if the seed were drawn anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from causalveil.tasks.estimate.interval import Estimate, Noise, assemble
from causalveil.tasks.sites.pool import Pooled, SiteEstimate, pool

EFFECT = 1.0
CONFIDENCE = 0.95
RANGE = (-100.0, 100.0)


@dataclass(frozen=True)
class Design:
    """One site: sampling variance, noise deviation of its estimate, noise deviation of its released variance."""

    sampling: float
    noise: float
    variance_noise: float


# Sizes and epsilons as different as they are in the field; a quarter to a half of the variance may be noise.
MIXED = (Design(0.04, 0.1, 0.01), Design(0.10, 0.5, 0.05), Design(0.02, 0.05, 0.01), Design(0.30, 0.3, 0.10))
# Noise drowns the sampling variance: half of the released variances are cut at zero.
DROWNED = (Design(0.01, 0.5, 0.20), Design(0.02, 0.8, 0.40), Design(0.01, 0.3, 0.10))
MANY = MIXED * 4


def play(
    designs: tuple[Design, ...], *, rounds: int, seed: int, tau: float = 0.0, pure: bool = False, deaf: bool = False
) -> list[Pooled]:
    """Pooled answers of many rounds. ``deaf``: as if nobody had told the coordinator of the noise."""
    random = np.random.default_rng(seed)
    mixing = 5.5 if pure else None  # ten sums under L2-Laplace noise
    unit = Noise(1 / math.sqrt(2 * 5.5), mixing) if pure else Noise(1.0)
    result = []
    for _ in range(rounds):
        sites = []
        for design in designs:
            spread = math.sqrt(random.gamma(5.5, 1 / 5.5)) if pure else 1.0
            effect_noise, variance_noise = random.normal(0, spread, 2)
            truth = EFFECT + tau * random.normal()
            estimate = Estimate(
                value=truth + math.sqrt(design.sampling) * random.normal() + design.noise * effect_noise,
                variance=design.sampling + design.variance_noise * variance_noise,
                noise=0.0 if deaf else design.noise,
                variance_noise=0.0 if deaf else design.variance_noise,
            )
            if deaf:
                estimate = Estimate(estimate.value, design.sampling, 0.0, 0.0)
            value, interval, variance, _ = assemble(estimate, unit, CONFIDENCE, RANGE)
            sites.append(SiteEstimate("s", value, variance, interval))
        result.append(pool(sites, CONFIDENCE, RANGE))
    return result


def coverage(answers: list[Pooled], model: str) -> float:
    intervals = [getattr(answer, model).interval for answer in answers]
    return float(np.mean([interval.lower <= EFFECT <= interval.upper for interval in intervals]))


def margin(rounds: int) -> float:
    return 4 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / rounds)


@pytest.mark.parametrize("pure", [False, True], ids=["gaussian", "l2-laplace"])
@pytest.mark.parametrize("designs", [MIXED, DROWNED, MANY], ids=["mixed", "drowned", "many"])
def test_one_effect(designs: tuple[Design, ...], pure: bool) -> None:
    """500 rounds (150 of them under L2-Laplace noise), seed 1: both intervals cover."""
    rounds = 150 if pure else 500
    answers = play(designs, rounds=rounds, seed=1, pure=pure)
    assert coverage(answers, "fixed") >= CONFIDENCE - margin(rounds)
    assert coverage(answers, "random") >= CONFIDENCE - margin(rounds)


@pytest.mark.parametrize("designs", [MIXED, DROWNED, MANY], ids=["mixed", "drowned", "many"])
def test_effects_that_differ(designs: tuple[Design, ...]) -> None:
    """500 rounds, seed 2, standard deviation 0.6 between sites: random effects cover their mean.

    Fixed effects do not, unless the noise is larger than the differences.
    """
    answers = play(designs, rounds=500, seed=2, tau=0.6)
    assert coverage(answers, "random") >= CONFIDENCE - margin(500)
    assert designs is DROWNED or coverage(answers, "fixed") < CONFIDENCE - 2 * margin(500)


def test_tau2_is_not_the_noise() -> None:
    """400 rounds of 16 sites, seed 3: the mean of tau2 is near the truth, 0.36, whatever noise was added."""
    answers = play(MANY, rounds=400, seed=3, tau=0.6)
    values = np.array([answer.heterogeneity.tau2 for answer in answers])
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - 0.36) < 4 * error + 0.02


def test_who_forgets_the_noise_is_wrong() -> None:
    """500 rounds, seed 4: the mutant that weighs and measures by sampling variance alone does not cover."""
    for designs in (MIXED, DROWNED):
        answers = play(designs, rounds=500, seed=4, deaf=True)
        assert coverage(answers, "fixed") < CONFIDENCE - margin(500)
