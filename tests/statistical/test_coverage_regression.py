"""Regression in simulation: intervals cover what they say, on populations whose effect is known.

Runs are seeded (``replication/``). A gate of 95 % in ``runs`` runs is the level at which a true coverage of .95 would
fail once in 2,000 times, by the binomial law.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.accuracy.cells import least_squares_error, run_cell
from causalveil_replication.accuracy.later import LATER
from causalveil_replication.accuracy.populations import POPULATIONS, KnownPopulation

FALSE_ALARM = 1 / 2_000


def least_hits(runs: int) -> int:
    """Fewer intervals than this hold the truth once in 2,000 times if each does with .95."""
    return int(binom.ppf(FALSE_ALARM, runs, 0.95))


def settings(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": "regression", "trial": POPULATIONS[name].trial, **changes}


# Population, units, epsilon, delta, and at most how many times the error of ordinary least squares.
SMALL = [
    ("toeplitz18", 10_000, "1", "1e-6", 2.0),
    ("flags15", 5_000, "1", "1e-6", 3.0),
    # Three of these 60 runs turn out unadjusted.
    ("mixed14", 3_000, "2", "1e-6", 5.5),
    ("rare10", 10_000, "1", "1e-6", 5.0),
    ("trial6", 3_000, "1", "1e-6", 3.0),
    ("normals2", 20_000, "1", "0", 4.0),
]
LARGE = [
    *SMALL,
    ("toeplitz18", 100_000, "1", "1e-6", 1.7),
    ("flags15", 30_000, "1", "1e-6", 2.0),
    ("binary11", 3_000, "1", "1e-6", 3.0),
    ("heavy24", 10_000, "1", "1e-6", 5.0),
    ("weibull6", 10_000, "1", "1e-6", 3.0),
    ("rare5", 10_000, "1", "1e-6", 12.0),
    ("trial6", 100_000, "0.2", "1e-6", 4.0),
]


@pytest.mark.parametrize(("name", "units", "epsilon", "delta", "times"), SMALL)
def test_coverage_and_error(name: str, units: int, epsilon: str, delta: str, times: float) -> None:
    """60 runs: at least 50 intervals hold the truth; the error is not far above that of least squares."""
    cell = run_cell(POPULATIONS[name], settings(name), units, epsilon, delta, runs=60)
    print(f"{name} {units}: coverage {cell.coverage:.3f}, error {cell.error:.3f}, half-width {cell.half_width:.3f}")
    assert round(cell.coverage * 60) >= least_hits(60)
    assert cell.error <= times * least_squares_error(POPULATIONS[name], units, runs=60)


@pytest.mark.long
@pytest.mark.parametrize(("name", "units", "epsilon", "delta", "times"), LARGE)
def test_coverage_over_populations(name: str, units: int, epsilon: str, delta: str, times: float) -> None:
    """300 runs, Monte-Carlo error 1.3 %: at least .90, which leaves three points for the approximations."""
    cell = run_cell(POPULATIONS[name], settings(name), units, epsilon, delta, runs=300)
    print(f"{name} {units}: coverage {cell.coverage:.3f}, error {cell.error:.3f}, half-width {cell.half_width:.3f}")
    assert cell.coverage >= 0.90
    assert cell.error <= times * least_squares_error(POPULATIONS[name], units, runs=60)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", ["1", "2", "8"])
def test_effects_by_a_sine_are_held_where_intervals_are_narrow(epsilon: str) -> None:
    """Effects of 1 + x + sin 2x' of 300,000 people, 100 runs: with squares and products alone .60 to .83 held."""
    cell = run_cell(LATER["varying5"], {"name": "regression"}, 300_000, epsilon, runs=100)
    print(f"varying5 {epsilon}: coverage {cell.coverage:.3f}, error {cell.error:.5f}, half-width {cell.half_width:.5f}")
    assert round(cell.coverage * 100) >= least_hits(100)


def _modified(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A flag of 30 % of people changes the odds of treatment fivefold and the effect from .1 to 3.1; E = 1."""
    flag, z = (random.random(n) < 0.3).astype(np.float64), random.normal(size=(n, 3))
    t = (random.random(n) < 1 / (1 + np.exp(1 - 1.6 * flag - 0.4 * z[:, 0]))).astype(np.float64)
    y = 2 * flag + z[:, 0] + z[:, 1] + (1 + 3 * (flag - 0.3)) * t + random.normal(size=n)
    return np.column_stack([flag, z]), t, y


def _by_site(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Five sites with odds and effects of their own, which differ in sign; E = .9."""
    site, age = random.choice(5, n, p=[0.4, 0.25, 0.2, 0.1, 0.05]), random.normal(size=n)
    t = (random.random(n) < np.array([0.3, 0.5, 0.7, 0.2, 0.6])[site]).astype(np.float64)
    y = np.array([0, 1, -1, 0.5, 2])[site] + 0.5 * age + np.array([1, 0, 2, 1.5, -1])[site] * t
    return np.column_stack([site, age]), t, y + random.normal(size=n)


def _few(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """15 % treated, of people with a flag 2.5 times the odds and an effect that is 2 larger; E = 1."""
    flags, z = (random.random((n, 2)) < [0.25, 0.5]).astype(np.float64), random.normal(size=(n, 3))
    t = (random.random(n) < 1 / (1 + np.exp(2.3 - flags[:, 0] - 0.3 * z[:, 0]))).astype(np.float64)
    y = flags @ [1, 0.5] + z[:, 0] + (1 + 2 * (flags[:, 0] - 0.25)) * t + random.normal(size=n)
    return np.column_stack([flags, z]), t, y


def _events(
    random: np.random.Generator, n: int, confounded: float, treated: float | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """1 to 2 % have an event, by logistic odds of age and six diagnoses, which treatment changes by exp(-.4)."""
    age, flags = random.uniform(40, 90, n), (random.random((n, 6)) < [0.1, 0.2, 0.3, 0.15, 0.25, 0.4]).astype(float)
    odds = -1.2 + confounded * (0.03 * (age - 65) + flags[:, :3] @ [0.5, 0.4, 0.3])
    t = (random.random(n) < 1 / (1 + np.exp(-odds))).astype(float) if treated is None else np.full(n, treated)
    chance = 1 / (1 + np.exp(4.6 - 0.04 * (age - 65) - flags[:, [0, 1, 3]] @ [0.6, 0.5, 0.4] + 0.4 * t))
    return (
        np.column_stack([age, flags]),
        t,
        chance if treated is not None else (random.random(n) < chance).astype(float),
    )


def _by_dose(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The effect is exponential in a normal covariate that drives treatment; E = exp(1/8)."""
    z = random.normal(size=(n, 4))
    t = (random.random(n) < 1 / (1 + np.exp(0.3 - 0.6 * z[:, 0]))).astype(np.float64)
    return z, t, z[:, 0] + 0.5 * z[:, 1] + np.exp(0.5 * z[:, 0]) * t + random.normal(size=n)


def _by_number(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The effect is 1 + z of a normal z that drives treatment; E = 1."""
    z = random.normal(size=(n, 5))
    t = (random.random(n) < 1 / (1 + np.exp(0.5 - 0.9 * z[:, 0] - 0.3 * z[:, 1]))).astype(np.float64)
    return z, t, z @ [1, 0.5, 0.5, 0, 0] + (1 + z[:, 0]) * t + random.normal(size=n)


def _by_square(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The effect is 1 + .4 (z^2 - 1) and rises with another number, both of which drive treatment; E = 1."""
    z = random.normal(size=(n, 4))
    t = (random.random(n) < 1 / (1 + np.exp(0.4 - 0.7 * z[:, 0] + 0.4 * z[:, 1]))).astype(np.float64)
    y = z[:, 0] + 0.6 * z[:, 1] + (1 + 0.4 * (z[:, 0] ** 2 - 1) + 0.4 * z[:, 1]) * t
    return z, t, y + random.normal(size=n)


def _by_product(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The effect is 1 + .5 (z z' - .3), and both numbers, whose correlation is .3, drive treatment; E = 1."""
    z = math.sqrt(0.3) * random.normal(size=(n, 1)) + math.sqrt(0.7) * random.normal(size=(n, 4))
    t = (random.random(n) < 1 / (1 + np.exp(0.4 - 0.6 * z[:, 0] - 0.5 * z[:, 1]))).astype(np.float64)
    return z, t, z[:, 0] + 0.5 * z[:, 2] + (1 + 0.5 * (z[:, 0] * z[:, 1] - 0.3)) * t + random.normal(size=n)


def _by_wave(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Treatment, outcome and effect follow sines of a number that is spread evenly over two turns; E = 1."""
    u, z = random.uniform(0, 10, n), random.normal(size=(n, 2))
    v = (u - 5) / 2.88675
    t = (random.random(n) < 1 / (1 + np.exp(0.2 - 0.6 * np.sin(1.2 * v) - 0.5 * z[:, 0]))).astype(np.float64)
    y = 0.7 * z[:, 0] + np.sin(1.2 * v) + (1 + 0.5 * np.sin(1.5 * v)) * t + random.normal(size=n)
    return np.column_stack([u, z]), t, y


def _visits(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Visits that rise with age and diagnoses, by odds of which 13 % are treated, who have a fifth less; counts."""
    age, flags = random.uniform(0, 90, n), (random.random((n, 3)) < [0.2, 0.1, 0.3]).astype(np.float64)
    t = (random.random(n) < 1 / (1 + np.exp(3 - 0.02 * age - flags @ [0.6, 0.4, -0.3]))).astype(np.float64)
    mean = np.exp(0.3 + 0.012 * age + flags @ [0.5, 0.8, 0.2]) * random.gamma(2, 0.5, n)
    return np.column_stack([age, flags]), t, np.minimum(random.poisson(mean * (1 - 0.2 * t)), 50).astype(np.float64)


def _fewer_visits() -> float:
    """The mean of what treatment takes off: of age by its integral, of flags by their chances."""
    age = 0.3 + math.log(math.expm1(0.012 * 90) / (0.012 * 90))
    flags = [(0.2, 0.5), (0.1, 0.8), (0.3, 0.2)]
    return -0.2 * math.exp(age) * math.prod(1 + chance * math.expm1(slope) for chance, slope in flags)


def _one_in_300(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """About one of 300 people is treated, by logistic odds of two numbers; E = 1."""
    z = random.normal(size=(n, 3))
    t = (random.random(n) < 1 / (1 + np.exp(5.95 - 0.6 * z[:, 0] - 0.3 * z[:, 1]))).astype(np.float64)
    return z, t, z[:, 0] + 0.5 * z[:, 1] + t + random.normal(size=n)


def _undeclared(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Wards and habits as words; .4 % lie in a ward that nobody declared, most treated and 3 higher; E = 1."""
    age, ward, habit = random.normal(size=n), random.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]), random.integers(0, 3, n)
    unknown = random.random(n) < 0.004
    ward[unknown] = 9
    odds = -0.3 + 0.5 * age + 0.6 * (ward == 1) + 0.4 * (habit == 2) + 2 * unknown
    t = (random.random(n) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    y = age + 0.7 * (ward == 1) - 0.4 * (habit == 1) + 3 * unknown + t + random.normal(size=n)
    return np.column_stack([age, ward, habit]), t, y


def _difference_in_chances() -> float:
    """Of a million seeded people."""
    one, other = (_events(np.random.default_rng(9), 1_000_000, 0, treated)[2].mean() for treated in (1, 0))
    return float(one - other)


NORMAL = {f"z{place}": {"lower": -4, "upper": 4} for place in range(3)}
PATIENT = {"age": {"lower": 18, "upper": 100}, **{f"flag{place}": {"levels": [0, 1]} for place in range(6)}}
# Written after the formulas, on which they showed what these did not hold.
UNFORESEEN = {
    "modified": KnownPopulation(
        "modified", "effect by a flag", 1, (-10, 15), {"flag": {"levels": [0, 1]}, **NORMAL}, _modified
    ),
    "reversed": KnownPopulation(
        "reversed",
        "effects by site",
        0.9,
        (-10, 10),
        {"site": {"levels": [0, 1, 2, 3, 4]}, "age": {"lower": -5, "upper": 5}},
        _by_site,
    ),
    "few": KnownPopulation(
        "few",
        "effect by a flag, 15 % treated",
        1,
        (-10, 12),
        {"f": {"levels": [0, 1]}, "g": {"levels": [0, 1]}, **NORMAL},
        _few,
    ),
    "by-dose": KnownPopulation(
        "by-dose",
        "an exponential effect",
        float(np.exp(0.125)),
        (-10, 20),
        {f"z{place}": {"lower": -4, "upper": 4} for place in range(4)},
        _by_dose,
    ),
    "by-number": KnownPopulation(
        "by-number",
        "an effect that rises with a number",
        1,
        (-15, 15),
        {f"z{place}": {"lower": -4, "upper": 4} for place in range(5)},
        _by_number,
    ),
    "by-square": KnownPopulation(
        "by-square",
        "an effect by a square",
        1,
        (-15, 25),
        {f"z{place}": {"lower": -4, "upper": 4} for place in range(4)},
        _by_square,
    ),
    "by-product": KnownPopulation(
        "by-product",
        "an effect by a product",
        1,
        (-15, 20),
        {f"z{place}": {"lower": -4, "upper": 4} for place in range(4)},
        _by_product,
    ),
    "by-wave": KnownPopulation(
        "by-wave",
        "an effect by a sine",
        1,
        (-10, 12),
        {"u": {"lower": 0, "upper": 10}, **{f"z{place}": {"lower": -4, "upper": 4} for place in range(2)}},
        _by_wave,
    ),
    "visits": KnownPopulation(
        "visits",
        "counts, 13 % treated",
        _fewer_visits(),
        (0, 50),
        {"age": {"lower": 0, "upper": 110}, **{f"flag{place}": {"levels": [0, 1]} for place in range(3)}},
        _visits,
    ),
    "one-in-300": KnownPopulation("one-in-300", "few treated", 1, (-10, 10), NORMAL, _one_in_300),
    "undeclared": KnownPopulation(
        "undeclared",
        "a ward that nobody declared",
        1,
        (-10, 12),
        {
            "age": {"lower": -4, "upper": 4},
            "ward": {"levels": [0, 1, 2, 3], "others": "other"},
            "habit": {"levels": [0, 1, 2], "others": "other"},
        },
        _undeclared,
    ),
    "events": KnownPopulation(
        "events", "rare events", _difference_in_chances(), (0, 1), PATIENT, partial(_events, confounded=1)
    ),
    "events-in-a-trial": KnownPopulation(
        "events-in-a-trial",
        "rare events",
        _difference_in_chances(),
        (0, 1),
        PATIENT,
        partial(_events, confounded=0),
        True,
    ),
}


@pytest.mark.parametrize(
    ("name", "units", "epsilon", "delta"),
    [
        ("modified", 200_000, "1", "1e-6"),
        ("modified", 20_000, "8", "1e-6"),
        ("modified", 20_000, "0.5", "1e-6"),
        ("modified", 3_000, "4", "1e-6"),
        ("reversed", 20_000, "0.5", "1e-6"),
        ("few", 20_000, "1", "1e-6"),
        ("few", 200_000, "0.5", "1e-6"),
        ("by-dose", 200_000, "1", "1e-6"),
        ("by-dose", 20_000, "1", "1e-6"),
        ("by-square", 20_000, "4", "1e-6"),
        ("by-product", 20_000, "1", "1e-6"),
        ("by-wave", 60_000, "2", "1e-6"),
        ("by-number", 20_000, "4", "1e-6"),
        ("by-number", 200_000, "1", "1e-6"),
        ("visits", 200_000, "1", "1e-6"),
        ("one-in-300", 200_000, "2", "1e-6"),
        ("undeclared", 40_000, "1", "1e-6"),
        ("undeclared", 5_000, "1", "1e-6"),
        ("events", 20_000, "1", "1e-6"),
        ("events", 200_000, "1", "0"),
        ("events-in-a-trial", 20_000, "1", "1e-6"),
    ],
)
def test_effects_by_a_flag_and_rare_events_are_covered(name: str, units: int, epsilon: str, delta: str) -> None:
    """40 runs: at least 32 intervals hold the truth. With one line for both arms and events cut at three deviations, as
    they once were, none did of the first, two thirds of the first events and none of the other two; of the other flags
    .2 to .5 did where slopes by arm were all or nothing. Of effects by a dose .7 did where lines alone were told apart;
    of those by a number .45 and none where products had slopes that fit lines of both arms; of those by a square none
    where weights balanced products of both arms together, of those by a product none where products went that widen the
    interval by a tenth; of those by a sine a quarter with squares and products alone. Of one treated in 300 none did
    where the treated share was never taken to be below .5 %; of visits .75 where products of each arm went again that
    widen the interval by a twentieth.
    """
    trial = UNFORESEEN[name].trial
    cell = run_cell(UNFORESEEN[name], {"name": "regression", "trial": trial}, units, epsilon, delta, runs=40)
    print(f"{name} {units}: coverage {cell.coverage:.3f}, error {cell.error:.5f}, half-width {cell.half_width:.5f}")
    assert round(cell.coverage * 40) >= least_hits(40)


def test_what_is_not_adjusted_for_is_allowed_for() -> None:
    """300 people and 18 covariates: unadjusted, with a bias of .83 that the declared size covers. 40 runs."""
    cell = run_cell(POPULATIONS["toeplitz18"], settings("toeplitz18"), 300, "1", runs=40)
    assert cell.said == {"unadjusted": 40}
    assert cell.coverage >= 0.9


def test_an_interval_that_was_told_half_of_its_width_is_caught() -> None:
    """Test of the test: half the width covers below the gate. 60 runs."""
    cell = run_cell(POPULATIONS["toeplitz18"], settings("toeplitz18"), 10_000, "1", runs=60, confidence=0.674)
    assert round(cell.coverage * 60) < least_hits(60)


def test_curves_are_followed_where_products_pay_and_linear_is_said_where_not() -> None:
    """A curved population of 30,000: with products the error is a tenth of that without. 8 runs."""
    curved = POPULATIONS["curved8"]
    cells = {
        basis: run_cell(curved, settings("curved8", basis=basis), 30_000, "1", runs=8) for basis in ("auto", "linear")
    }
    assert set(cells["auto"].said) == {"adjusted, with squares and products"}
    assert set(cells["linear"].said) == {"adjusted linearly"}
    assert cells["auto"].error <= 0.1 * cells["linear"].error
