"""Every kind of release audited from outside on neighbouring tables, with mutants that must be caught.

A release is drawn thousands of times on two tables that differ in one extreme unit; the likelihood ratio of what is
drawn bounds epsilon from below (``audit.epsilon_lower_bound``, wrong with probability at most 1e-6 a case). Noise is
seeded, so that runs repeat; its scale in production is held in ``test_noise.py`` and ``test_mechanisms.py``, whole runs
are audited in ``test_audit_composition.py``. With a part of the noise the same draws must be caught. Delta is large,
since no audit by counting sees a loss that 1e-6 hides.

A new release is one function here: its mechanism, and its exact values on two tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Norm, Scope
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import MemoryEnclave, Rows
from causalveil.tasks.data.split import Pieces, sizes_of
from causalveil.tasks.estimate import difference as means
from causalveil.tasks.estimate.adjust.questions import joined
from causalveil.tasks.estimate.adjust.recipe import TWO_ARMS, TableRecipe
from causalveil.tasks.estimate.adjust.releases import JointSums, by_block, numbers_of
from causalveil.tasks.estimate.clusters import Contributions
from causalveil.tasks.estimate.label.balancing import weigh
from causalveil.tasks.estimate.label.comparisons import JointDraw
from causalveil.tasks.estimate.label.weighings import weigh_by_propensity
from causalveil.tasks.estimate.models import logistic
from causalveil.tasks.estimate.papers.direction.stages import (
    Draw,
    TestRows,
    draws,
    measure,
    regress,
    release,
    release_regressions,
    vectors,
)
from causalveil.tasks.estimate.papers.ipw import weights as ipw
from causalveil.tasks.estimate.papers.matching import scores as match_scores
from causalveil.tasks.estimate.papers.matching import weights as match_weights
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import Grid
from causalveil.tasks.estimate.times.releases import count_cells
from causalveil.tasks.estimate.times.releases import mechanism as cells_of
from causalveil.tasks.estimate.weights import weighted_means
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import L2Laplace, Mechanism, RandomisedResponse, Slot
from causalveil.tasks.privacy.noise import SeededNoise
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.balancing_help import confounded, make_balancing
from tests.difference_help import difference_mechanism, difference_sums, make_difference
from tests.direction_help import answered, make_direction, rows
from tests.ipw_help import make_study
from tests.joint_help import SLOTS, Shape
from tests.matching_help import two_covariates
from tests.neighbours import neighbour
from tests.protocol_help import make_protocol
from tests.sensitivity_search import Attack, Effort
from tests.sensitivity_search import Case as SearchCase
from tests.survival_help import People, make_survival

RUNS, EPSILON, DELTA = 2_500, "2", "0.05"
CONFIDENCE = 1 - 1e-6


class Case(NamedTuple):
    """A mechanism, exact values on two neighbouring tables, and the part of the noise at which it must be caught.

    ``least``: what the audit must see of the declared epsilon; ``runs``: how many draws of each table.
    """

    mechanism: Any
    one: FloatArray
    other: FloatArray
    kept: float = 1 / 3
    least: float = 0.0
    runs: int = RUNS


def statistics(case: Case, kept: float, seed: int = 7) -> list[FloatArray]:
    """Log-likelihood ratios, but for a factor, of draws on either table with a part of the noise."""
    mechanism, tables, budget = case.mechanism, (case.one, case.other), OpenBudget(SeededNoise(seed))
    if isinstance(mechanism, RandomisedResponse):
        mechanism = kept_more(mechanism, kept)
        bits = [mechanism.release(np.tile(t, case.runs), SLOT, budget).reshape(case.runs, -1) for t in tables]
        return [(drawn == case.one).sum(axis=1) - (drawn == case.other).sum(axis=1) for drawn in bits]
    gaussian = mechanism.cost.delta > 0
    order = 1 if mechanism.sensitivity.norm is Norm.l1 else 2

    def ratios(table: FloatArray) -> FloatArray:
        if isinstance(mechanism, L2Laplace):
            noise = np.array([mechanism.release(table, SLOT, budget) - table for _ in range(case.runs)])
        else:
            # Noise of each number is drawn by itself: that of many runs at once.
            noise = mechanism.release(np.tile(table, case.runs), SLOT, budget).reshape(case.runs, -1) - table
        drawn = table + kept * noise
        if gaussian:
            return np.asarray(drawn @ (case.one - case.other))
        away = [np.linalg.norm(drawn - value, order, axis=1) for value in (case.other, case.one)]
        return np.asarray(away[0] - away[1])

    return [ratios(table) for table in tables]


SLOT = Slot("audited", Scope.all)


def kept_more(mechanism: RandomisedResponse, kept: float) -> Any:
    """The mutant of a response: it flips less often."""

    class Kept:
        def release(self, bits: Any, slot: Slot, budget: Any) -> Any:
            keep = 1 - (1 - mechanism.keep_probability) * kept
            return SeededNoise.randomised_response(budget.noise, bits, keep)

    return mechanism if kept == 1 else Kept()


def audited(case: Case, kept: float = 1.0) -> float:
    """A lower bound on epsilon."""
    return epsilon_lower_bound(*statistics(case, kept), float(case.mechanism.cost.delta), CONFIDENCE)


# The cases: by name, a function that makes one.


def adjusting(
    name: str,
    outcomes: int,
    groups: int,
    arms: int,
    delta: str,
    recipe: Callable[[Shape], TableRecipe] | None = None,
    **how: int,
) -> Case:
    """A release of the adjusting estimator on twenty ordinary people and an extreme one, who may change her subgroup.

    Lines are so steep that the constant is nothing beside them; in scores outcomes alone turn around.
    """
    covariates = {f"n{place}": {"lower": 0, "upper": 1} for place in range(2)}
    steep = 4.0 if name == "scores" else 1e6
    one = Shape(outcomes, groups, arms, covariates, steep=steep, privacy=("3", delta), **how)
    several, pure = int(groups > 1), one.recipe.pure
    alike = pure and arms == TWO_ARMS
    # What is farthest apart: lines that stay and arms that change, or candidates that turn around, or subgroups.
    last = {
        "scales": (one.row([1, 1], 1, 1, 0), one.row([-1, -1], 0, 1 if several else -0.5 if pure else -1, several)),
        "moments": (one.row([1, 1], 1, 1, 0), one.row([-1, -1], 1, 1, 0) if alike else one.row([1, 1], 0, -1, 0)),
        "screen": (one.row([1, 1], 1, 1, 0), one.row([-1, 1], 1, 1, 0)),
        "scores": (one.row([1, 1], 1, 1, 0), one.row([1, 1], 1, -1, 0)),
    }[name]
    block: JointSums = one.together if one.left_out else one.block(name, None if recipe is None else recipe(one))
    found = []
    parts = ("x", "t", "u", "g", "w") if one.weighted else ("x", "t", "u", "g")
    others = [one.row([0.1, 0.1], at % arms, 0, at % groups) for at in range(20)]
    for row in last:
        table = [*others, row]
        people = CellRows(*(np.concatenate([getattr(each, part) for each in table]) for part in parts))
        of = [lambda some: joined(block.of(some))] * groups
        sums = by_block(Pieces([people].__getitem__, 1, len(people)), of, [numbers_of(block)] * groups, 1)
        found.append(np.concatenate([each * joined(block.weights) for each in sums]))
    mechanism = one.mechanism(name)
    # Laplace noise on many numbers hides a pair far better than its epsilon says.
    plain = delta != "0" or (outcomes == 1 and mechanism.sensitivity.norm is Norm.l1)
    return Case(mechanism, *found, kept=1 / 4 if plain else 1 / 64)


def row(z: list[float], t: int, u: float) -> Rows:
    return Rows(np.array([[*z, 0.05]]) * (1 - 2.0**-40), np.array([t], np.uint8), np.array([u]))


def mirrored() -> list[Rows]:
    """Twenty ordinary people, and a control whose outcome is at one end, or at the other."""
    one = row([0.1, 0.1], 1, 0.0)
    others = Rows(np.repeat(one.x, 20, axis=0), np.array([0, 1] * 10, np.uint8), np.zeros(20))
    return [neighbour(others, row([0.0, 0.0], 0, u)) for u in (1.0, -1.0)]


def difference() -> Case:
    study = make_difference(epsilon="3", delta="0.01")
    exact = [difference_sums(study, table) for table in mirrored()]
    return Case(difference_mechanism(study, sizes_of(study, 21)), *exact)


def weighted_difference(weight: float = 1.0) -> Case:
    """Of twenty-one people of full weight the last one turns around; ``weight``: hers, of a mutant that cuts none."""
    how: dict[str, Any] = {"name": "difference_in_means", "trial": True, "weights": {"column": "w", "upper": 5}}
    study: Any = make_protocol(0, 1, epsilon="3", delta="0.01", **how)
    t, u, found = (np.arange(21) % 2).astype(np.uint8), np.zeros((21, 1)), []
    for last in (1.0, -1.0):
        u[-1] = last
        rows = CellRows(np.zeros((21, 1)), t, u.copy(), np.zeros(21, np.uint8), np.ones(21))
        found.append(means.sums(study, Pieces([rows].__getitem__, 1, 21)) * weight)
    return Case(means.mechanism(study, sizes_of(study, 100_000)), *found)


def absolute(treated: int | None, factor: float = 1.0) -> Case:
    """Absolute totals of six clusters, the first of whose ten people turns around.

    ``factor``: of what a person counts; a mutant cuts nobody.
    """
    clusters = {"column": "school", "number": 6, "treated": treated}
    study: Any = make_protocol(
        0, 1, name="difference_in_means", trial=True, epsilon="3", delta="0.05", clusters=clusters
    )
    mechanism, codes = means.clusters_mechanism(study, sizes_of(study, 100_000)), np.arange(60).astype(np.uint64) % 6
    totals, (t, u), found = means.totals_of(study), ((np.arange(60) % 2).astype(np.uint8), np.ones(60)), []
    one = np.ones((1, 1, 2))
    influence, added = means.Influence(0 * one, one), Contributions(one, one, one[0], one[..., None], one[..., 0])
    for last in (1.0, -1.0):
        u[0] = last
        rows = CellRows(np.zeros((60, 1)), t, u[:, None].copy(), np.zeros(60, np.uint8))
        pieces = Pieces([rows].__getitem__, 1, 60)
        found.append(factor * totals.exact(added, pieces, lambda _: codes, influence.of_rows, 1).ravel())
    return Case(mechanism, *found)


def public_weights(name: str, *, forgets_reuse: bool = False) -> Case:
    """The unit of the largest weight has its outcome at either end of the range; all else is public."""
    people = confounded(200, 3 if name == "ipw" else 2)
    if name == "matching":
        study: Any = two_covariates(level="label", ratio=1, cap=2, epsilon=EPSILON)
        random = np.random.default_rng(9)
        x = random.uniform(-1, 1, (60, 2))
        people = Rows(np.column_stack([x, np.ones(60)]) / 2, (random.random(60) < 0.3).astype(np.uint8), np.zeros(60))
        reuse, units = match_weights.weigh(study, match_scores.exact_scores(people, np.array([1.5, -2, 0.3])), people.t)
        mechanism: Mechanism = match_weights.mechanism(study)
        sums = lambda u: match_weights.sums(study, reuse, units, people.t, u)  # noqa: E731
    else:
        study = make_balancing(2, epsilon=EPSILON) if name == "balancing" else make_study(level="label", delta="0")
        find = weigh if name == "balancing" else weigh_by_propensity
        units = find(study, MemoryEnclave.of(people))[1]
        mechanism = weighted_means.mechanism(make_balancing(2, epsilon=EPSILON).privacy.cost)
        sums = lambda u: weighted_means.sums(units, people.t, u, study.privacy.cost)  # noqa: E731
    shares = [
        units.weights * (people.t == arm) / total for arm, total in zip((1, 0), units.summary.totals, strict=True)
    ]
    u = np.zeros(len(people))
    u[int(np.maximum(*shares).argmax())] = 1.0
    # As if a unit's outcome counted once, however often the unit serves.
    once = np.array([float(units.summary.largest_weight) * len(people), 1.0]) if forgets_reuse else 1.0
    return Case(mechanism, sums(u) * once, sums(-u) * once, kept=0.4, least=0 if forgets_reuse else 0.3)


def label_table(name: str, delta: str, arms: int, weights: float | None = None) -> Case:
    """The outcomes of one person of a table at level label: the pair that a short search finds farthest apart."""
    study = make_protocol(1, 3, 1, arms, name=name, epsilon=EPSILON, delta=delta, level="label")
    attack, draw = Attack(SearchCase(f"label table, {name}", study, 12 * arms)), JointDraw.of(study)
    found = attack.found("effect", Effort(few=6, climbs=1, tables=1, heaviest=2))
    assert found.pair is not None
    one, other = (attack._with("effect", found.table, found.slot, row).vector for row in found.pair)
    # A mutant that releases every outcome at the noise of one.
    factor = 1.0 if weights is None else replace(draw, weights=(weights,) * 3).part(0) / draw.part(0)
    return Case(draw.mechanism, factor * one, factor * other, kept=1 / 5)


def propensity(**changes: Any) -> Case:
    """Coefficients where the special unit, across the direction of all others, is in the training half."""
    study = ipw_study(0.99, **changes)
    sizes = sizes_of(study, 100)
    mechanism = logistic.model(study, sizes).mechanism()
    fits = [logistic.fit(lambda _, one=one: one, 1, len(one), study.estimator.penalty) for one in ipw_tables()]
    return Case(mechanism, *fits, kept=0.1 if "variant" in changes else 0.5)


def weighted_sums(**changes: Any) -> Case:
    study = ipw_study(0.01, **changes)
    w = logistic.fit(lambda _: ipw_tables()[0][1:], 1, 99, study.estimator.penalty)
    exact = [ipw.exact_sums(study, lambda _, one=one: one, 1, 99, w) for one in ipw_tables()]
    pure_of_many = changes.get("delta") == "0" and "weighting" not in changes
    return Case(
        ipw.mechanism(study, sizes_of(study, 100)), *exact, kept=0.2 if pure_of_many or "variant" in changes else 0.5
    )


def ipw_study(fraction: float, **changes: Any) -> Any:
    """One covariate. A heavy penalty and a narrow clip let both stages attain what they declare."""
    base = {"epsilon": "2", "delta": "0.1", "penalty": 10, "clip": (0.499, 0.501), "train_fraction": fraction}
    return make_study(**base | changes, covariates={"age": {"lower": -1, "upper": 1}, "group": ...})


def ipw_tables() -> tuple[Rows, Rows]:
    """The special unit first: in either arm, its covariate across that of 98 others, at the ends of the outcome."""
    half = np.sqrt(0.5) * (1 - 2.0**-40)
    others = Rows(np.full((98, 2), half), np.ones(98, np.uint8), np.zeros(98))

    def with_first(z: float, t: int, u: float) -> Rows:
        x = np.vstack([[[z * half, half]], others.x])
        return Rows(x, np.append(np.uint8(t), others.t), np.append(u, others.u))

    return with_first(-1.0, 1, 1.0), with_first(-0.95, 0, 0.99)


def cells(delta: str, grid: Grid = Grid(50, 2, 365.0), twice: bool = False) -> Case:  # noqa: B008
    """A death among the treated, or a control who is lost in the same interval: cells without a common entry.

    With late entry both entered late, so that two cells of each person move.
    """
    study = make_survival(epsilon="3", delta=delta, outcome={"entry": "since"} if grid.entries else {})
    found = []
    for group, arm, kind in ((0, 1, 1), (grid.groups - 1, 0, 0)):
        kinds = np.array([0, 1, 2, 0] * 5 + [kind], np.uint8)
        groups = None if grid.groups == 1 else np.array([0, 1, 2, 1] * 5 + [group], np.uint8)
        people = People(
            np.array([0, 1] * 10 + [arm], np.uint8), np.append(np.linspace(1, 400, 20), 12.0), kinds, None, groups
        )
        if grid.entries:
            people = replace(people, entry=np.append(np.zeros(20), 5.0))
        counts = count_cells(people.enclave(), grid, 1)
        parts = [curves.measured(counts, grid, plain=delta == "0")]
        if twice:
            # Everybody's cells beside those of subgroups: a person would be in two.
            parts.append(curves.measured(counts.reshape(grid.groups, -1).sum(axis=0), grid, plain=False))
        found.append(np.concatenate(parts))
    tell = np.flatnonzero(found[0] - found[1])
    return Case(cells_of(study), *(one[tell] for one in found), kept=1 / 3 if delta == "0" else 0.4, least=0.3)


def records(name: str) -> Case:
    """The special unit's score from end to end, or its treatment: noise on each unit's own number."""
    parts = dict.fromkeys(("weights", "scores", "treatment", "outcome"), "0.01") | {name: "0.97"}
    study = two_covariates(epsilon=EPSILON, ratio=1, cap=2, penalty=10, budget_shares=parts)
    if name == "treatment":
        bits = np.arange(10, dtype=np.uint8) % 2
        flipped = bits.copy()
        flipped[0] = 1
        return Case(match_scores.treatment_mechanism(study), bits, flipped, kept=1 / 2, least=0.3)
    ends = (np.array([[z, 0.0, 0.5]]) for z in (1.0, -1.0))
    one, other = (
        match_scores.exact_scores(Rows(x, np.zeros(1, np.uint8), np.zeros(1)), np.array([20.0, 0, 0])) for x in ends
    )
    return Case(match_scores.mechanism(study), one, other, kept=1 / 2, least=0.3)


ENTERED = Grid(20, 2, 365.0, entries=True)


@cache
def cases() -> dict[str, Callable[[], Case]]:
    found: dict[str, Callable[[], Case]] = {}
    for shape in ((1, 1, 2), (4, 2, 2), (4, 2, 3)):
        for name in SLOTS:
            for delta in ("0.01", "0"):
                found[f"{name}, {shape}, delta {delta}"] = partial(adjusting, name, *shape, delta)
    for name in SLOTS:
        found[f"{name}, weighted"] = partial(adjusting, name, 2, 2, 2, "0.01", weighted=True)
    for own, said in ((0, ""), (2, " of outcomes that a row may lack")):
        found[f"scores with products{said}"] = partial(
            adjusting, "scores", 3, 1, 2, "0.01", products=True, left_out=own
        )
    horvitz = {"weighting": "horvitz_thompson"}
    paper = {"variant": "paper", "epsilon": "0.9", **horvitz}
    return found | {
        "difference in means": difference,
        "difference in means, weighted": weighted_difference,
        "clusters": partial(absolute, None),
        "clusters by arm": partial(absolute, 3),
        **{f"weights of {name}": partial(public_weights, name) for name in ("balancing", "ipw", "matching")},
        **{
            f"label table, {name}, {arms} arms, delta {delta}": partial(label_table, name, delta, arms)
            for name, arms, delta in (
                ("balancing", 2, "0"),
                ("balancing", 3, "0.01"),
                ("matching", 2, "0"),
                ("ipw", 2, "0.01"),
                ("difference_in_means", 3, "0"),
            )
        },
        "coefficients": propensity,
        "coefficients, pure": partial(propensity, delta="0"),
        "coefficients, paper": partial(propensity, **paper),
        "Hajek": weighted_sums,
        "Hajek, pure": partial(weighted_sums, delta="0"),
        "Horvitz-Thompson": partial(weighted_sums, **horvitz),
        "Horvitz-Thompson, pure": partial(weighted_sums, **horvitz, delta="0"),
        "Horvitz-Thompson, paper": partial(weighted_sums, **paper),
        "cells": partial(cells, "0.01"),
        "cells, pure": partial(cells, "0"),
        "cells and entries": partial(cells, "0.01", ENTERED),
        "cells and entries, pure": partial(cells, "0", ENTERED),
        "cells of subgroups": partial(cells, "0.01", Grid(20, 2, 365.0, 3, 3)),
        "records of scores": partial(records, "scores"),
        "records of treatments": partial(records, "treatment"),
    }


@pytest.mark.parametrize("name", cases())
def test_releases_stay_below_the_declared_epsilon_and_less_noise_is_caught(name: str) -> None:
    case = cases()[name]()
    declared, whole, less = float(case.mechanism.cost.epsilon), audited(case), audited(case, case.kept)
    print(f"{name}: declared {declared:.3g}, audited {whole:.3g}, with {case.kept:.3g} of the noise {less:.3g}")
    assert case.least * declared <= whole <= declared < less


def scaled(name: str, factor: float) -> Case:
    """A case whose values are as large as a mutant makes them."""
    case = cases()[name]()
    return case._replace(one=factor * case.one, other=factor * case.other)


def unweighted(name: str) -> Case:
    return adjusting(name, 4, 2, 2, "0.01", lambda one: replace(one.recipe, weights=(2.0,) * 4))


def arms_in_full() -> Case:
    case, one = (
        adjusting("moments", 1, 1, 2, "0.01"),
        Shape(1, 1, 2, {f"n{p}": {"lower": 0, "upper": 1} for p in range(2)}),
    )
    weights = one.block("moments").weights
    own = np.concatenate([np.full(part.size, 8.0 if name.startswith("arm") else 1.0) for name, part in weights.items()])
    return case._replace(one=own * case.one, other=own * case.other)


def own_range() -> Case:
    """Published code takes sensitivities from the data: all others have one outcome, so noise is next to nothing."""
    return scaled("difference in means", 1e3)


MUTANTS: dict[str, Callable[[], Case]] = {
    **{f"every outcome at the noise of one, {name}": partial(unweighted, name) for name in SLOTS},
    "every outcome at the noise of one, label": lambda: label_table("balancing", "0", 2, 1.0),
    "every outcome at the noise of one, label and Gaussian": lambda: label_table("balancing", "0.01", 2, 2.0),
    "a budget for each subgroup": lambda: scaled("scales, (4, 2, 2), delta 0.01", 4),
    "moments that weigh the arms more": arms_in_full,
    "a range of the data's own": own_range,
    "a weight above its bound": lambda: weighted_difference(5.0),
    "totals of clusters that nobody is cut for": lambda: absolute(3, 6.0),
    "a sensitivity that forgets reuse": lambda: public_weights("matching", forgets_reuse=True),
    "everybody beside subgroups": lambda: cells("0.01", Grid(20, 2, 365.0, 3, 3), True)._replace(runs=40_000),
    "entries at the noise of exits alone": lambda: cells("0.01", ENTERED)._replace(
        mechanism=cells_of(make_survival(epsilon="3", delta="0.01")), runs=40_000
    ),
    "columns as long as they are": lambda: scaled("cells", 1.8)._replace(runs=20_000),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    case = MUTANTS[name]()
    assert audited(case) > float(case.mechanism.cost.epsilon)


def test_arms_of_true_treatments_would_show() -> None:
    """Randomise the treatment, then match between the true arms: their sizes are published and differ for certain."""
    study, seen = two_covariates(epsilon="2", ratio=1, cap=2, penalty=10), np.array([0, 7, 0, 7, 7, 7, 0, 7, 0, 7]) / 8
    arms = [np.array([first, *([1, 0] * 5)[:9]], np.uint8) for first in (0, 1)]
    assert len({match_weights.weigh(study, seen, t)[0].treated for t in arms}) == 2, "no epsilon bounds that"


# Direction finding: tests of distances may answer with no answer, which is a value of its own.

TEST, NO_ANSWER = 41, -1e6
FLAT = np.zeros((30, 2))
STEPS = np.linspace(-0.9, 0.9, TEST)
SORTED = np.column_stack([STEPS, STEPS])
CLUSTERS = np.array([[-0.9, -0.9]] * 27 + [[0.9, 0.9]] * 14)
EDGE = np.array([[0.0, 0.0]] * 11 + [[0.5, 0.5]] * 30)
ANYWHERE = np.random.default_rng(2).uniform(-1, 1, (TEST, 2))
ENDS, MANY_ENDS = (np.array([[-1.0, 1.0], [1.0, 1.0]] * count) for count in (10, 2_000))
FEW = np.column_stack([np.linspace(-1, 1, 5), np.linspace(-0.5, 0.5, 5) ** 2])
Halves = tuple[FloatArray, FloatArray]


def replaced(pairs: FloatArray, place: int, *pair: float) -> FloatArray:
    result = pairs.copy()
    result[place] = pair
    return result


def exact(study: DirectionStudy, name: str, train: FloatArray, test: FloatArray) -> tuple[Draw, FloatArray]:
    """A draw and what it is made on."""
    sizes = Sizes(units=len(train) + len(test), train=len(train), estimation=len(test))
    table = TestRows(test, np.arange(len(test))[::-1].copy())
    (draw,) = (draw for draw in draws(study, sizes) if draw.slot.name == name)
    return draw, measure(study, sizes, draw, vectors(table, regress(study, lambda _: train, 1)), table)


class HalfNoise(SeededNoise):
    """The mutant: half of the noise."""

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        return super().laplace(value, scale / 2)


def directed(study: DirectionStudy, name: str, tables: tuple[Halves, Halves], *, mutant: bool = False) -> float:
    """A lower bound on epsilon: values between what the two tables say, added up with the sign of the change."""
    measured = [exact(study, name, *side) for side in tables]
    change = measured[1][1] - measured[0][1]
    low, high = (bound(measured[0][1], measured[1][1]) for bound in (np.minimum, np.maximum))
    samples = []
    for seed, (draw, numbers) in enumerate(measured):
        budget = OpenBudget((HalfNoise if mutant else SeededNoise)(seed))

        def one(found: FloatArray | None) -> float:
            if found is None:
                return NO_ANSWER
            k = len(found)
            return float(np.sum(np.sign(change[:k]) * np.clip(found, low[:k], high[:k])))

        samples.append(np.array([one(release(draw, numbers, budget)) for _ in range(RUNS)]))
    return epsilon_lower_bound(*samples, float(study.privacy.delta), CONFIDENCE)


def ranked(score: str, **changes: Any) -> DirectionStudy:
    base = {"scores": [score], "release": "scores", "epsilon": EPSILON, "delta": "0", "protect": ["test"]}
    return make_direction(**base | changes)


def ranges(**changes: Any) -> DirectionStudy:
    base = {
        "scores": ["iqr"],
        "release": "difference",
        "epsilon": EPSILON,
        "delta": DELTA,
        "protect": ["test"],
        "bin": 1.0,
    }
    return make_direction(**base | changes)


def by_training(score: str) -> DirectionStudy:
    bins = 1.0 if score == "iqr" else None
    return make_direction(scores=[score], protect=["train"], epsilon=EPSILON, delta=DELTA, penalty=1.0, bin=bins)


def directions() -> Iterator[tuple[str, DirectionStudy, str, tuple[Halves, Halves]]]:
    yield (
        "hsic of the test half",
        ranked("hsic", penalty=1.0),
        "hsic",
        ((FLAT, CLUSTERS), (FLAT, replaced(CLUSTERS, 40, -0.9, 0.9))),
    )
    for protect in (["train"], ["train", "test"]):
        study = ranked("hsic", protect=protect, penalty=1.0, bandwidth=1.0)
        yield f"hsic of {protect}", study, "hsic", ((ENDS, ANYWHERE), (replaced(ENDS, 0, -1, -1), ANYWHERE))
    for place in (0, 20):
        yield f"ranges, row {place}", ranges(), "iqr", ((FLAT, ANYWHERE), (FLAT, replaced(ANYWHERE, place, 1, -1)))
    # Ranges that one row makes or breaks: the adversary's table. Only the chance delta of an answer tells.
    yield "ranges on the edge of zero", ranges(), "iqr", ((FLAT, EDGE), (FLAT, replaced(EDGE, 0, 0.5, 0.5)))
    for score, name in (("spearman", "ranks"), ("iqr", "iqr")):
        tables = (MANY_ENDS, FEW), (replaced(MANY_ENDS, 0, -1, -1), FEW)
        yield f"{name} of the training half", by_training(score), name, tables


@pytest.mark.parametrize(("study", "name", "tables"), [pytest.param(*rest, id=said) for said, *rest in directions()])
def test_directions_keep_their_promise(study: DirectionStudy, name: str, tables: tuple[Halves, Halves]) -> None:
    assert directed(study, name, tables) <= float(EPSILON)


@pytest.mark.parametrize("score", ["spearman", "kendall"])
def test_rank_scores_attain_their_promise_and_no_more(score: str) -> None:
    """The corner-to-corner move that attains 6/(m + 1) and 4/m, in both directions at once."""
    tables = (FLAT, SORTED), (FLAT, replaced(SORTED, 0, 0.95, -0.95))
    assert (
        1.2
        < directed(ranked(score), score, tables)
        <= float(EPSILON)
        < directed(ranked(score), score, tables, mutant=True)
    )
    # One sensitivity for two scores: half of the declared noise.
    assert directed(ranked(score, epsilon="4"), score, tables) > float(EPSILON)


def test_the_unprotected_half_shows() -> None:
    """Under `protect: [test]` a training unit may be seen: that is what the contract's line allows."""
    study = ranked("kendall", epsilon="0.5", penalty=1e-4)
    one, other = (
        exact(study, "kendall", np.array([pair]), ANYWHERE * [1.0, 0.05])[1] for pair in ([0.5, 1.0], [-0.2, -1.0])
    )
    assert np.abs(one - other).max() > 4 / TEST


def test_noisy_regressions_carry_the_training_half() -> None:
    """Both halves: what ranks see of the training rows is the released weights, and those alone."""
    study = make_direction(scores=["kendall"], protect=["train", "test"], epsilon="2", delta="0", penalty=1.0)
    train = np.zeros((40, 2))
    fitted = regress(study, lambda _: train, 1)
    noisy = release_regressions(study, Sizes(units=81, train=40, estimation=41), fitted, OpenBudget(SeededNoise(0)))
    assert noisy is not None
    assert all(not np.array_equal(a.weights, b.weights) for a, b in zip(fitted, noisy, strict=True))
    budget = OpenBudget(SeededNoise(0))
    answered(study, train, rows(SORTED), budget)
    assert [charge.scope for charge in budget.charges] == ["train", "train", "estimation"]
