"""What `plan` expects of a regression: people who nobody is, and widths that runs on known populations come to."""

from __future__ import annotations

import re

import numpy as np
import pytest

from causalveil.flows.planning.regression import expected
from causalveil.schemas.plan import StandIn
from causalveil.schemas.studies import parse_study
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.covariates.narrow_ranges import DeclaredRanges, Ranged
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.inference.people import assumed, people
from causalveil.tasks.regression.decide import recipe
from causalveil.tasks.regression.rehearsed import ends, rehearsed
from causalveil_replication.accuracy.cells import run_cell
from causalveil_replication.accuracy.populations import POPULATIONS
from tests.regression_help import make_regression


def test_people_are_as_assumed_and_within_the_declared_ranges() -> None:
    study = make_regression(
        0,
        covariates={
            "a": {"lower": 0, "upper": 1},
            "b": {"lower": 0, "upper": 1},
            "flag": {"lower": 0, "upper": 1, "codes": {"control": 0, "treated": 1}},
            "level": {"levels": ["x", "y", "z"]},
        },
    )
    guess = StandIn(treated=0.2, deviation=1.0, explained=0.5, correlation=0.6, spread=0.25)
    rows = people(study, guess, 2048, randomised=False)
    assert (rows.x**2).sum(axis=1).max() <= 1
    assert rows.t.mean() == pytest.approx(0.2, abs=0.02)
    assert np.corrcoef(rows.x[:, 0], rows.x[:, 1])[0, 1] == pytest.approx(0.6, abs=0.05)
    assert rows.x[:, 0].std() / rows.x[0, -1] == pytest.approx(0.25, abs=0.01)
    within = np.mean([rows.u[rows.t == arm].std() for arm in (0, 1)])
    assert within == pytest.approx(1.0 / 5, rel=0.1)
    assert rows.x[:, 3:6].mean(axis=0) / rows.x[0, -1] == pytest.approx(np.full(3, 1 / 3), abs=0.02)


@pytest.mark.parametrize(("spread", "recorded"), [(0.35, 0.35), (0.45, 0.45), (0.5, 0.5), (0.57, 0.57), (0.95, 0.57)])
def test_ranges_of_people_who_vary_much_cut_nobody(spread: float, recorded: float) -> None:
    """A range was declared so that it holds people: what is said of one that cuts them is not expected of it."""
    rows = people(make_regression(2), StandIn(spread=spread), 4096, randomised=False)
    z = rows.x[:, 0] / rows.x[0, -1]
    assert z.std() == pytest.approx(recorded, abs=0.01)
    assert np.mean(np.abs(z) > 1 - 1e-9) < 0.006
    numbers = Ranged(
        DeclaredRanges((0,), ("z",), (False,)),
        z.mean(keepdims=True),
        z.var(keepdims=True),
        1.0,
        powers=np.array([np.mean(z**8)]),
    )
    assert numbers.unseen[0] == 0


def test_what_covariates_explain_is_a_function_of_what_is_recorded() -> None:
    """Of flags alone, which leave out how far each person is from the next level; and levels of unequal size."""
    study = make_regression(
        0, covariates={name: {"levels": ["a", "b"]} for name in "pqrs"} | {"z": {"levels": [*"abcd"]}}
    )
    guess = StandIn(explained=0.8, correlation=0.0, deviation=1.0)
    rows = people(study, guess, 4096, randomised=True)
    basis = np.column_stack([rows.x, rows.t])
    left = rows.u - basis @ np.linalg.lstsq(basis, rows.u, rcond=None)[0]
    assert left.var() / rows.u.var() == pytest.approx(0.2, abs=0.02)
    shares = people(study, guess, 4096, randomised=True, uneven=True).x.mean(axis=0) / rows.x[0, -1]
    assert shares[:8] == pytest.approx([0.9, 0.1] * 4, abs=0.01)
    assert shares[8:12] == pytest.approx(np.array([8, 4, 2, 1]) / 15, abs=0.01)


def test_the_range_is_over_what_may_be_true_of_the_declared_columns() -> None:
    guess, unlike = StandIn(), ("unrelated", "correlated by", "nothing to do with", "log-normal", "half as frequent")
    columns = {
        "flags alone": ({"a": {"levels": ["x", "y"]}}, {}, {0, 1, 2, 4}),
        "numbers alone": ({"a": {"lower": 0, "upper": 1}}, {}, {0, 1, 2, 3}),
        "a declared scale": ({"a": {"lower": 1, "upper": 9, "scale": "log"}}, {}, {0, 1, 2}),
        "a line, as declared": ({"a": {"lower": 1, "upper": 9, "scale": "linear"}}, {}, {0, 1, 2}),
        "a trial": ({"a": {"lower": 0, "upper": 1}}, {"trial": True}, {0, 1, 3}),
    }
    for name, (covariates, settings, told) in columns.items():
        study = make_regression(0, covariates=covariates, **settings)
        sizes = sizes_of(study, 3_000)
        found = ends(study, sizes, guess)
        assert {place for place, words in enumerate(unlike) if any(words in where for where in found)} == told, name
        said = expected(study, sizes, guess, None)
        assert said["half_width_range"][0] <= min(found.values()), name
        assert said["half_width_range"][1] >= max(found.values()), name
        assert all(where in said["sentences"][1] for where in found), name


def test_covariates_that_confound_nothing_are_the_narrow_end_where_released_moments_decide() -> None:
    """Curves alone confound: 3,000 people, epsilon .5, 10 runs; no correlation of straight confounders is as narrow."""
    population = POPULATIONS["curved8"]
    cell = run_cell(population, {"name": "regression"}, 3_000, "0.5", runs=10)
    study = parse_study(population.study({"name": "regression"}, "0.5", "1e-6"))
    low, high = expected(study, sizes_of(study, 3_000), population.stand_in(), None)["half_width_range"]
    assert low < cell.half_width < high


@pytest.mark.parametrize(
    ("name", "units"), [("rare10", 10_000), ("trial6", 3_000), ("logged6", 10_000), ("binary11", 3_000)]
)
def test_the_expected_width_is_the_mean_measured_one(name: str, units: int) -> None:
    """Within 15 % of the mean of 20 seeded runs, if the reader's assumptions are right."""
    population = POPULATIONS[name]
    cell = run_cell(population, {"name": "regression", "trial": population.trial}, units, "1", runs=20)
    assert cell.planned == pytest.approx(cell.half_width, rel=0.15)


def test_related_covariates_and_fewer_people_widen_it() -> None:
    study = make_regression(8, basis="linear")
    widths = [
        rehearsed(study, sizes_of(study, n), StandIn(correlation=correlation)).half_width
        for n, correlation in ((20_000, 0.0), (20_000, 0.7), (5_000, 0.7))
    ]
    # At 20,000 people correlation costs little.
    assert widths[0] <= 1.01 * widths[1]
    assert widths[1] < widths[2]


def test_plan_speaks_of_products_wherever_a_run_may_use_them() -> None:
    """Sizes from those at which lines alone are paid for to those at which products are."""
    study = make_regression(3)
    allowed = []
    for units in (1_000, 3_000, 6_000, 10_000, 20_000, 40_000, 80_000):
        sizes = sizes_of(study, units)
        said = " ".join(expected(study, sizes, StandIn(), None)["sentences"])
        allowed.append(recipe(study, sizes).basis >= Basis.pairs)
        assert bool(re.search("squares(,| and) products", said)) is allowed[-1]
    assert allowed[-1]
    assert not allowed[0]


def test_an_outcome_of_two_values_is_assumed_to_vary_by_half_its_range() -> None:
    """By codes or by a range of 0 to 1; what the reader states stands, and other outcomes have no guess here."""
    plain = make_regression(2, outcome={"lower": 0, "upper": 10})
    flag = make_regression(2, outcome={"lower": 0, "upper": 1})
    assert assumed(plain, StandIn()).deviation is None
    assert assumed(flag, StandIn()).deviation == 0.5
    assert assumed(flag, StandIn(deviation=0.2)).deviation == 0.2
    rows = people(flag, assumed(flag, StandIn()), 500, randomised=False)
    assert set(np.unique(rows.u)) == {-1.0, 1.0}
