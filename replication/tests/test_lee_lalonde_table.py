"""The published tables of Lee et al. (2019a), remade from their data with our fit and the paper's noise.

Table 3: LaLonde's experiment (722 people, 9 covariates, no intercept, scaled by the largest norm in the sample, as the
paper does; a real run never does that). 100 + 100 people are held for the effect without replacement, 250 + 250 drawn
with replacement from the others train the model; penalty 0.1, delta 1e-6, scores not clipped. Numbers: share of draws
in which the sign of tau_n (noise on the model only) disagrees with that of tau (no noise), and the mean of tau.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from causalveil.schemas.study import Estimand
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.models import logistic
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.privacy.noise import SeededNoise
from tests import needs
from tests.ipw_help import make_study

EPSILONS = ("0.2", "0.4", "0.6", "0.8", "0.99")
LALONDE = (0.143, 0.072, 0.049, 0.027, 0.035)
IHDP = (0.515, 0.425, 0.344, 0.287, 0.229)
M = 500


def noise_scale(epsilon: str) -> float:
    """The paper's noise on the coefficients at m = 500, with our charge for the optimiser's tolerance."""
    study = make_study(variant="paper", weighting="horvitz_thompson", epsilon=epsilon, penalty=0.1)
    mechanism = logistic.model(study, sizes_of(study, 2 * M)).mechanism()
    assert mechanism is not None
    assert mechanism.noise_scale is not None
    expected = math.sqrt(2 * math.log(1.25 / 1e-6)) / float(epsilon) * 2 / (M * 0.1)
    assert mechanism.noise_scale == pytest.approx(expected, rel=1e-6)
    return mechanism.noise_scale


def raw_estimate(x: FloatArray, t: ByteArray, y: FloatArray, w: FloatArray) -> float:
    weight = weights.weights(Estimand.ATE, 1 / (1 + np.exp(-x @ w)), t)
    return float(np.mean(np.where(t != 0, weight, -weight) * y))


def table(draws: list[tuple[Rows, FloatArray, ByteArray, FloatArray]]) -> tuple[list[float], float]:
    """Share of sign disagreements at each epsilon, and the mean of tau without noise, over the draws."""
    noise = SeededNoise(1)
    disagree, plain = np.zeros(len(EPSILONS)), []
    scales = [noise_scale(epsilon) for epsilon in EPSILONS]
    for train, x, t, y in draws:
        w = logistic.fit(lambda _, train=train: train, 1, len(train), 0.1)
        tau = raw_estimate(x, t, y, w)
        plain.append(tau)
        for k, scale in enumerate(scales):
            disagree[k] += np.sign(raw_estimate(x, t, y, noise.gaussian(w, scale))) != np.sign(tau)
    return (disagree / len(draws)).tolist(), float(np.mean(plain))


def resampled(
    x: FloatArray, t: ByteArray, y: FloatArray, count: int, random: np.random.Generator
) -> list[tuple[Rows, FloatArray, ByteArray, FloatArray]]:
    draws = []
    for _ in range(count):
        held, trained = [], []
        for arm in (1, 0):
            members = random.permutation(np.flatnonzero(t == arm))
            held.append(members[:100])
            trained.append(random.choice(members[100:], 250))
        h, m = np.concatenate(held), np.concatenate(trained)
        draws.append((Rows(x[m], t[m], np.zeros(M)), x[h], t[h], y[h]))
    return draws


def lalonde() -> tuple[FloatArray, ByteArray, FloatArray]:
    values = np.loadtxt(needs.shared("lalonde722.csv"), delimiter=",", skiprows=1)
    x = values[:, 1:10]
    return x / np.linalg.norm(x, axis=1).max(), values[:, 0].astype(np.uint8), values[:, 10]


def check_lalonde(count: int) -> None:
    shares, mean = table(resampled(*lalonde(), count, np.random.default_rng(0)))
    print(f"LaLonde, {count} draws: shares {[round(s, 3) for s in shares]} mean {mean:.0f}")
    for share, printed in zip(shares, LALONDE, strict=True):
        # Both are shares of draws, theirs of 1000; four standard errors of the difference.
        error = math.sqrt(printed * (1 - printed) * (1 / count + 1 / 1000))
        assert abs(share - printed) <= 4 * error
    # The estimate's standard deviation over draws is about 700; their mean is 902 from 1000 draws.
    assert abs(mean - 902) <= 4 * 700 * math.sqrt(1 / count + 1 / 1000)


def test_lalonde_signs_and_mean_are_those_of_table_3() -> None:
    """400 draws; false alarm below 1e-3 for the six comparisons together."""
    check_lalonde(400)


@pytest.mark.long
def test_lalonde_signs_and_mean_with_as_many_draws_as_the_paper() -> None:
    check_lalonde(1000)


def ihdp_draws(count: int) -> list[tuple[Rows, FloatArray, ByteArray, FloatArray]]:
    """Like the paper's, except that a tenth held out at random stands in for the published train/test splits.

    Rows are *not* scaled to the unit ball. Scaled, the shares are .09 .01 0 0 0; unscaled they are near the printed
    ones, so the printed ones seem to come from rows for which 2/(m penalty) is no sensitivity.
    """
    folder, draws = needs.shared("ihdp"), []
    random = np.random.default_rng(0)
    tables = [np.loadtxt(path, delimiter=",") for path in sorted(folder.glob("ihdp_*.csv"))]
    for index in range(count):
        values = tables[index % len(tables)]
        x, t, y = values[:, 5:], values[:, 0].astype(np.uint8), values[:, 1]
        order = random.permutation(len(t))
        sides = [
            np.concatenate([random.choice(side[t[side] == arm], size) for arm in (1, 0)])
            for side, size in ((order[:75], 100), (order[75:], 250))
        ]
        h, m = sides
        draws.append((Rows(x[m], t[m], np.zeros(M)), x[h], t[h], y[h]))
    return draws


def test_ihdp_signs_are_near_those_of_table_2() -> None:
    """400 draws of five realisations where the paper has 1000: within 0.12 of its shares."""
    shares, mean = table(ihdp_draws(400))
    print(f"IHDP, 400 draws: shares {[round(s, 3) for s in shares]} mean {mean:.2f}")
    np.testing.assert_allclose(shares, IHDP, atol=0.12)
    assert shares == sorted(shares, reverse=True)
