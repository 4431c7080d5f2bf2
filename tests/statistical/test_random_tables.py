"""Tables that nobody chose: where lines confound the default interval holds the truth as often as it says.

Tables and runs are seeded (``replication/benchmarks/random_tables.py``). Of 10 intervals that each hold the truth with
.95 fewer than 7 do in .001 of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from causalveil.flows.run.estimators import expected_width, likely, rehearse_effect
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.adjust.scales import SKEWED, margin
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.accuracy.cells import run_cell
from causalveil_replication.accuracy.populations import KnownPopulation
from replication.benchmarks.adjust_in_memory import EDGES, adjust
from replication.benchmarks.random_tables import Measured, measured, table
from tests.regression_help import in_rows, make_regression

# What an estimate that leaves some confounding says so by.
LINES = ("linearly", "partly", "unadjusted", "with squares")


def of_lines(numbers: Iterable[int]) -> list[Measured]:
    """Those of the tables in which lines alone confound."""
    return [measured(number, plans=0) for number in numbers if table(number).follows == "lines"]


def missed(found: Iterable[Measured]) -> list[Measured]:
    """Return the tables of which fewer than 7 of 10 intervals hold the truth."""
    return [one for one in found if one.fewer(7)]


def warned(found: Iterable[Measured]) -> bool:
    """Return whether all runs of all tables that miss say that confounding is left."""
    return all(any(word in said for word in LINES) for one in missed(found) for said in one.cell.said)


def judge(found: Sequence[Measured], tables: int) -> None:
    """Mean coverage is .93 or more; at most so many tables have fewer than 7 of 10."""
    mean, few = sum(one.cell.coverage for one in found) / len(found), missed(found)
    print(f"{len(found)} tables: mean coverage {mean:.3f}", *(f"{one.words}: {one.cell}" for one in few), sep="\n")
    assert mean >= 0.93
    assert len(few) <= tables


def test_a_dozen_tables() -> None:
    """120 runs of .95 fall below .93 x 120 = 112 once in six; these, seeded, do not."""
    found = of_lines(range(12))
    judge(found, tables=0)
    assert warned(found)


@cache
def two_hundred() -> tuple[Measured, ...]:
    """Return those of lines of the first 200 tables: both tests below read the same runs."""
    return tuple(of_lines(range(200)))


@pytest.mark.long
def test_two_hundred_tables() -> None:
    """About 150 tables of lines: 1,500 runs of .95 have a mean below .93 once in 3,000 times.

    Costs and counts rise as an exponential, which no line follows: 2 tables may have fewer than 7.
    """
    judge(two_hundred(), tables=2)


@pytest.mark.long
@pytest.mark.xfail(
    reason="table 91, counts that rise as an exponential: .6 hold, and all say more than 99%", strict=True
)
def test_tables_that_miss_say_that_confounding_is_left() -> None:
    """A known fault of `regression`: of a curve that noise hides it takes the share that it adjusted for as whole."""
    assert warned(two_hundred())


# Curves that are kept are taken off once, also of many people.
RUNS, UNITS = 4, 300_000


def test_what_kept_curves_confound_is_taken_off_once() -> None:
    """The mean of four runs on seeds 0 to 3, epsilon 1, lies within .0095 of the effect of 1.

    It has a standard deviation of .001: by chance it lies outside once in seven hundred.
    """
    errors = []
    for run in range(RUNS):
        random = np.random.default_rng([3, run])
        x = np.clip(random.normal(size=(UNITS, 8)), -4, 4)
        index = x[:, 0] ** 2 / 2 + x[:, 0] * x[:, 1] + x[:, 2]
        index = (index - index.mean()) / index.std()
        chance = 1 / (1 + np.exp(-np.clip(0.8 * index, -2.5, 2.5)))
        t = (random.random(UNITS) < chance).astype(float)
        y = np.clip(t + index + random.normal(size=UNITS), -10, 10)
        declared = {f"x{place}": {"lower": -4, "upper": 4} for place in range(8)}
        with one_thread():
            errors.append(adjust(x, declared, t, y, (-10.0, 10.0), 1.0, 1e-6, random).estimate - 1)
    assert abs(float(np.mean(errors))) < 0.0095


RUNS_TREATED, LEAST_HITS = 40, 32
EFFECT, RANGE = 0.5, (0, 20)


def costs(random: np.random.Generator, n: int, share: float, trial: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-normal costs around 2 of a range from 0 to 20, which treatment raises by a half."""
    z = random.normal(size=(n, 3))
    odds = np.log(share / (1 - share)) + (0 if trial else 0.4) * z[:, 0]
    t = (random.random(n) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    return z, t, np.exp(0.5 * z[:, 0] + 0.7 * random.normal(size=n)) + EFFECT * t


def population(share: float, trial: bool) -> KnownPopulation:
    """A share that is treated, by odds of a number or by lot."""
    numbers: dict[str, dict[str, Any]] = {f"z{place}": {"lower": -4, "upper": 4} for place in range(3)}
    return KnownPopulation("costs", "costs", EFFECT, RANGE, numbers, partial(costs, share=share, trial=trial), trial)


@pytest.mark.parametrize(
    ("name", "share", "units", "epsilon", "trial", "most"),
    [
        ("regression", 0.01, 3_000, "1", False, 1.5),
        ("regression", 0.01, 3_000, "1", True, 1.5),
        ("regression", 0.02, 3_000, "1", False, 1.5),
        ("regression", 0.01, 20_000, "0.3", False, 1.5),
    ],
)
def test_costs_of_few_treated(name: str, share: float, units: int, epsilon: str, trial: bool, most: float) -> None:
    """With the middle of the range in place of everybody's mean .15 to .85 held; errors were 3.3 to 7.4."""
    estimator = {"name": name, **({"trial": True} if trial else {})}
    cell = run_cell(population(share, trial), estimator, units, epsilon, runs=RUNS_TREATED)
    print(f"{name} {share} {units} {epsilon}: {cell.coverage:.3f}, {cell.error:.2f}, {cell.half_width:.2f}")
    assert round(cell.coverage * RUNS_TREATED) >= LEAST_HITS
    assert cell.error <= most


# Intervals of `regression` where covariates and outcome have heavy tails.
RUNS_TAILS = 40


def held(runs: range, n: int, slopes: list[float], end: float) -> int:
    """Return how many intervals hold the effect of the run's people, in the declared range of the outcome; epsilon 1.

    Five covariates of Student's t, declared from -``end`` to ``end``, move the outcome by ``slopes`` as they are
    recorded there; two of them, as they are, move the chance of treatment.
    """
    found = 0
    for run in runs:
        random = np.random.default_rng([run, n])
        x = np.clip(random.standard_t(1.5, (n, 5)) / 10, -1, 1)
        t = (random.random(n) < 1 / (1 + np.exp(-6.0 * (x[:, 0] + x[:, 1])))).astype(float)
        x = np.clip(x, -end, end)
        level = x @ np.array(slopes) + 0.05 * random.standard_t(2, n)
        without, with_it = np.clip(level, -1, 1), np.clip(level + 0.1, -1, 1)
        declared = {f"x{place}": {"lower": -end, "upper": end} for place in range(5)}
        with one_thread():
            answer = adjust(x, declared, t, np.where(t > 0, with_it, without), (-1.0, 1.0), 1.0, 1e-6, random)
        low, high = answer.intervals[-1]
        found += low <= float((with_it - without).mean()) <= high
    return found


@pytest.mark.parametrize(("n", "least"), [(20_000, 34), (5_000, 32)])
def test_intervals_hold_the_effect(n: int, least: int) -> None:
    """Of 40 runs on seeds 1,000 and on."""
    assert held(range(1_000, 1_000 + RUNS_TAILS), n, [0.5, 0.4, 0.2, 0, 0], end=1.0) >= least


def test_two_equal_tails_are_not_taken_for_skewness() -> None:
    """Of 200 noisy histograms of a Student's t with 1.5 degrees of freedom, cut at ten; a third were; seed 1."""
    random = np.random.default_rng(1)
    seen = np.histogram(np.clip(random.standard_t(1.5, 200_000) / 10, -1, 1), EDGES)[0] / 200_000
    found = [margin(seen + 0.003 * random.standard_normal(len(seen)), 0.003).skewness() for _ in range(200)]
    assert max(map(abs, found)) < SKEWED


def test_a_skewed_number_still_is() -> None:
    """Log-normal costs within a declared range that ends at their 99.9th centile; seed 1."""
    random = np.random.default_rng(1)
    costs = random.lognormal(0, 0.8, 200_000)
    seen = np.histogram(np.clip(costs / np.quantile(costs, 0.999) * 2 - 1, -1, 1), EDGES)[0] / 200_000
    found = [margin(seen + 0.003 * random.standard_normal(len(seen)), 0.003).skewness() for _ in range(50)]
    assert min(found) > SKEWED


def test_a_range_that_ends_where_a_covariate_stops_mattering_is_covered() -> None:
    """The outcome follows covariates to .1 and no further; 20,000 people, 24 runs on seeds 5,000 and on, epsilon 1.

    Where the range goes on to 1 only 8 of 24 hold (docs/is-this-for-me.md). With a true coverage of .95 fewer than 20
    come up once in a hundred and fifty.
    """
    assert held(range(5_000, 5_024), 20_000, [2, 1.5, 0.8, 0, 0], end=0.1) >= 20


# What `auto` takes in a trial is nearly the narrower of what it may take, on made trials of skewed outcomes.
P, SIZES, BUDGETS = 5, (445, 1_500, 5_000, 15_000), ("0.5", "1")
# Share of an index that covariates explain, and the outcome's deviation in [-1, 1].
OUTCOMES = ((0.2, 0.08), (0.2, 0.2), (0.2, 0.35), (0.0, 0.2), (0.4, 0.1))


def trial(explained: float, deviation: float, units: int) -> Rows:
    """Outcomes are log-normal from the low end of their range on."""
    random = np.random.default_rng([P, units, int(explained * 100), int(deviation * 100)])
    z = np.clip(random.normal(size=(units, P)) / 3, -1, 1)
    t = random.integers(0, 2, units).astype(np.uint8)
    index = z @ random.normal(size=P)
    y = np.exp(0.6 * (np.sqrt(explained) * index / index.std() + np.sqrt(1 - explained) * random.normal(size=units)))
    return in_rows(z, t, np.clip(-1 + deviation * (y - y.min()) / y.std() + 0.05 * t, -1, 1))


def studies(epsilon: str) -> tuple[EffectStudy, EffectStudy]:
    """By regression, and by arm means."""
    regression = make_regression(P, trial=True, epsilon=epsilon)
    shared = {
        key: value for key, value in regression.model_dump(mode="json").items() if key not in ("estimator", "terms")
    }
    means = parse_study({**shared, "estimator": {"name": "difference_in_means", "trial": True}})
    assert isinstance(means, EffectStudy)
    return regression, means


def measured_choice(study: EffectStudy, rows: Rows) -> float:
    """The median half-width of three draws."""
    found = [rehearse_effect(study, rows, RehearsalBudget(seed)).interval for seed in range(3)]
    return float(np.median([(one.upper - one.lower) / 2 for one in found]))


@pytest.mark.long
def test_the_choice_in_a_trial_costs_little_width() -> None:
    """By an eighth of the range 1.06 times the narrower on average, 1.57 at most; by a quarter 1.26 and 2.11."""
    costs = []
    for (explained, deviation), units, epsilon in product(OUTCOMES, SIZES, BUDGETS):
        rows, both = trial(explained, deviation, units), studies(epsilon)
        widths = [measured_choice(study, rows) for study in both]
        expected = [expected_width(study, units, likely(study)) or np.inf for study in both]
        costs.append(widths[int(np.argmin(expected))] / min(widths))
    assert np.exp(np.mean(np.log(costs))) < 1.1
    assert max(costs) < 1.7
