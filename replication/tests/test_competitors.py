"""Competitors keep what `docs/proofs/competitors.md` says: sensitivities by brute force, budgets by their charges."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from causalveil.schemas.errors import StudyError
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.concentrated import rho_of_cap
from causalveil.tasks.privacy.gaussian import composed, mu_of
from causalveil_replication.competitors import aim, packaged, privsyn, split, strata
from causalveil_replication.competitors.coded import coded, estimate
from causalveil_replication.competitors.competitor import CLIP, SLOT, Competitor, Instance, cost, groups
from causalveil_replication.competitors.graphical import GraphicalModel, JunctionTree, Measurement
from causalveil_replication.competitors.mechanisms import ExponentialChoice, smooth_laplace
from causalveil_replication.yuan2026.data import load
from causalveil_replication.yuan2026.rivals import COMPETITORS, instances
from causalveil_replication.yuan2026.runs import prepare

Record = tuple[int, int, int]
STRATA = 3


@pytest.fixture(scope="module")
def lalonde() -> Instance:
    data = load("LaLonde", (Path(__file__).parents[2] / "data",))
    assert data is not None
    return instances(prepare(data, 2))[0]


def exact(records: list[Record]) -> float:
    """Exact matching from its definition: records are (stratum, arm, outcome)."""
    total, matched = 0.0, 0
    for stratum in range(STRATA):
        arms = [[y for s, a, y in records if s == stratum and a == arm] for arm in (0, 1)]
        if all(arms):
            size = len(arms[0]) + len(arms[1])
            total += size * (sum(arms[1]) / len(arms[1]) - sum(arms[0]) / len(arms[0]))
            matched += size
    return total / matched if matched else 0.0


def table(records: list[Record]) -> strata.Counts:
    counts = np.zeros((STRATA, 2), dtype=np.int64)
    for stratum, arm, _ in records:
        counts[stratum, arm] += 1
    return counts


EVERY_RECORD = list(itertools.product(range(STRATA), (0, 1), (0, 1)))


def neighbours(records: list[Record]) -> list[list[Record]]:
    return [[*records[:i], new, *records[i + 1 :]] for i in range(len(records)) for new in EVERY_RECORD]


def test_local_sensitivity_of_exact_matching_is_bounded_at_every_distance() -> None:
    """150 random tables of 4 to 14 units, and walks of 0 to 3 changes from them: no neighbour is further than A_k."""
    generator = np.random.default_rng(7)
    tight = 0.0
    for _ in range(150):
        start = [EVERY_RECORD[i] for i in generator.integers(len(EVERY_RECORD), size=generator.integers(4, 15))]
        records = start
        for changes in range(4):
            bound = strata.local_sensitivity_within(table(start), changes)
            here = exact(records)
            largest = max(abs(exact(other) - here) for other in neighbours(records))
            assert largest <= bound * (1 + 1e-9)
            tight = max(tight, largest / bound)
            options = neighbours(records)
            records = options[int(generator.integers(len(options)))]
    assert tight > 0.5, "the bound is not vacuous"


def test_the_smooth_sensitivity_is_smooth() -> None:
    """Between neighbours it changes by exp(beta) at most; 60 random tables of up to 60 units, all one-unit moves."""
    generator = np.random.default_rng(8)
    for beta in (0.02, 0.2):
        for _ in range(60):
            counts = generator.integers(0, 11, size=(STRATA, 2))
            here = strata.smooth_sensitivity(counts, beta)
            for leaves, joins in itertools.product(
                np.argwhere(counts > 0).tolist(), itertools.product(range(3), (0, 1))
            ):
                other = counts.copy()
                other[tuple(leaves)] -= 1
                other[joins] += 1
                there = strata.smooth_sensitivity(other, beta)
                assert there <= here * np.exp(beta) * (1 + 1e-6)


def replaced(instance: Instance, generator: np.random.Generator) -> Instance:
    """One unit becomes the worst that the declared domain has: a corner."""
    rows, place = instance.rows, int(generator.integers(len(instance.rows)))
    x, t, u = rows.x.copy(), rows.t.copy(), rows.u.copy()
    x[place, :-1] = generator.choice([-1.0, 1.0], x.shape[1] - 1) * x[place, -1]
    t[place], u[place] = generator.integers(2), generator.choice([-1.0, 1.0])
    return replace(instance, rows=Rows(x, t, u))


@pytest.mark.parametrize("name", ["guha_reiter", "lebeda_g", "lebeda_aipw", "split_matching"])
def test_estimates_of_groups_move_by_their_sensitivity_at_most(lalonde: Instance, name: str) -> None:
    """40 units of LaLonde in turn replaced by corners of the domain; no chance in it: the seed is fixed."""
    small = replace(lalonde, rows=lalonde.rows[:60])
    competitor = next(one for one in COMPETITORS if one.name == name)
    charges = RehearsalBudget(0)
    fitted = competitor.fit(small)
    fitted.release("1", charges)
    bound = (charges.charges[0].sensitivity or 0.0) * small.width / 2
    generator = np.random.default_rng(3)
    moves = []
    for _ in range(40):
        other = competitor.fit(replaced(small, generator)).exact
        assert other is not None
        assert fitted.exact is not None
        moves.append(abs(other - fitted.exact))
    assert 0 < max(moves) <= bound


def test_a_package_runs_in_an_environment_of_its_own(lalonde: Instance, tmp_path: Path) -> None:
    """A stand-in that gives back the codes that it was given: the estimate is that of the coded table."""
    python = tmp_path / "python"
    code = "import json, sys; json.dump(json.load(sys.stdin)['codes'], sys.stdout)"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}"\n')
    python.chmod(0o755)
    same = coded(lalonde)
    found = packaged.competitor(python).fit(lalonde).release("1", RehearsalBudget(0))
    assert found == estimate(lalonde, same, same.codes)
    with pytest.raises(StudyError, match="does not run there"):
        packaged.competitor(Path(sys.executable)).fit(lalonde).release("1", RehearsalBudget(0))
    with pytest.raises(StudyError, match="left out"):
        packaged.competitor(None).fit(lalonde)


def test_the_scores_of_pairs_move_by_less_than_four() -> None:
    """PrivSyn's InDif: 200 random tables of two columns, a unit comes, n in the denominator stays."""
    generator = np.random.default_rng(5)
    for _ in range(200):
        counts = generator.integers(0, 6, size=generator.integers(2, 5, size=2)).astype(float)
        units = max(counts.sum(), 1.0)

        def score(one: np.ndarray, units: float = units) -> float:
            return float(np.abs(one - np.outer(one.sum(axis=1), one.sum(axis=0)) / units).sum())

        for cell in np.ndindex(*counts.shape):
            more = counts.copy()
            more[cell] += 1
            assert abs(score(more) - score(counts)) <= privsyn.INDIF


@pytest.mark.parametrize("competitor", COMPETITORS, ids=lambda one: one.name)
def test_charges_add_up_to_the_budget(lalonde: Instance, competitor: Competitor) -> None:
    """At epsilon 1: laplace draws by their epsilons, Gaussian ones by their mu; halves that nobody shares once."""
    budget = RehearsalBudget(1)
    assert competitor.fit(lalonde).release("1", budget) is not None
    charges = budget.charges
    assert charges
    if competitor.name == "aim":
        rho = sum(float(one.mu) ** 2 / 2 if one.mu else float(one.epsilon) ** 2 / 8 for one in charges)
        assert 0.99 < rho / float(rho_of_cap(Decimal(1), Decimal(competitor.delta))) <= 1
        return
    mus = [charge.mu for charge in charges if charge.mu is not None]
    if len(mus) == len(charges) and len(mus) > 1 and len({charge.scope for charge in charges}) == 1:
        assert composed(mus) <= mu_of(cost("1", competitor.delta)) * (1 + Decimal("1e-9"))
    elif len({charge.scope for charge in charges}) == 1:
        assert sum(charge.epsilon for charge in charges) <= 1
    else:
        assert max(charge.epsilon for charge in charges) <= 1
    assert all(charge.delta <= Decimal(competitor.delta) for charge in charges)


def test_groups_are_disjoint_and_whole() -> None:
    parts = groups(445, 21)
    places = [place for part in parts for place in range(part.start, part.stop)]
    assert places == list(range(445))
    assert {part.stop - part.start for part in parts} == {21, 22}
    assert CLIP == (0.1, 0.9)


def test_public_weights_are_those_of_the_estimate(lalonde: Instance) -> None:
    """Grouped weights give the mean of the groups' estimates."""
    weights = split.grouped_weights(lalonde)
    found = split.averaged(lalonde, split.hajek).exact
    assert found == pytest.approx(float(weights @ lalonde.rows.u) * lalonde.width / 2)


def test_strata_are_declared(lalonde: Instance) -> None:
    """The stratum of a unit depends on its own covariates alone."""
    places, number = strata.strata(lalonde)
    fewer, same = strata.strata(replace(lalonde, rows=Rows(lalonde.rows.x, lalonde.rows.t, -lalonde.rows.u)))
    assert number == same == 4
    np.testing.assert_array_equal(places, fewer)


def test_the_graphical_model_is_the_joint_table_of_its_factors() -> None:
    """Four columns in a loop and one apart: margins, also of columns that share no clique, by the joint table."""
    sizes, loop = (2, 3, 4, 3, 2), [(0, 1), (1, 2), (2, 3), (0, 3), (4,)]
    truth = np.random.default_rng(0).random(sizes)
    truth *= 100 / truth.sum()
    model = GraphicalModel(sizes, 100.0)
    for clique in loop:
        model.measure(Measurement(clique, _margin(truth, clique), 1.0))
    model.fit(300, gain=0.0)
    for clique in loop:
        np.testing.assert_allclose(model.margin(clique), _margin(truth, clique), atol=1e-6)
    logs = np.zeros(sizes)
    for one, factor in zip(model.measurements, model.factors, strict=True):
        logs = logs + factor.reshape([sizes[column] if column in one.clique else 1 for column in range(5)])
    joint = np.exp(logs - logs.max())
    joint *= 100 / joint.sum()
    found = model.margins()
    assert len(found) == 5 + 10
    for clique, table in found.items():
        np.testing.assert_allclose(table, _margin(joint, clique), atol=1e-9)
    codes = model.sample(100_000, np.random.default_rng(1))
    seen = np.bincount(codes[:, 0] * 3 + codes[:, 3], minlength=6) / 1000
    # Six deviations of a share of 100,000 units, in percent: 0.95.
    np.testing.assert_allclose(seen, _margin(joint, (0, 3)).ravel(), atol=0.95)


def test_a_junction_tree_holds_what_is_measured_and_a_column_in_one_piece() -> None:
    """60 random graphs of 2 to 14 columns: all that is measured lies in a clique, and the cliques that hold a column
    hang together, each by its parent; AIM's sum of cells by parts is that of the whole."""
    generator = np.random.default_rng(2)
    for _ in range(60):
        columns = int(generator.integers(2, 15))
        pairs = list(itertools.combinations(range(columns), 2))
        some = generator.choice(len(pairs), size=min(len(pairs), int(generator.integers(0, 20))), replace=False)
        measured = [*((column,) for column in range(columns)), *(pairs[place] for place in some)]
        tree = JunctionTree.over(columns, measured)
        assert all(any(set(one) <= set(clique) for clique in tree.cliques) for one in measured)
        for column in range(columns):
            holders = [place for place, clique in enumerate(tree.cliques) if column in clique]
            assert sum(tree.parents[place] not in holders for place in holders) == 1
        sizes = tuple(range(2, columns + 2))
        model = GraphicalModel(sizes, 1.0, [Measurement(one, np.zeros(1), 1.0) for one in measured])
        most = 1.2 * tree.cells(sizes)
        larger = {pair: JunctionTree.over(columns, [*measured, pair]).cells(sizes) for pair in pairs}
        assert aim.allowed(model, pairs, most) == [pair for pair in pairs if larger[pair] <= most]


def test_the_exponential_mechanism_chooses_as_it_says() -> None:
    """20,000 draws at epsilon 2, scores 0, 1, 2: shares exp(score)/sum to six deviations."""
    mechanism = ExponentialChoice(cost=cost("2"))
    budget = RehearsalBudget(4)
    scores = np.array([0.0, 1.0, 2.0])
    counts = np.bincount([mechanism.choose(scores, SLOT, budget) for _ in range(20_000)], minlength=3)
    expected = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(counts / 20_000, expected, atol=6 * 0.5 / np.sqrt(20_000))


def test_laplace_noise_per_unit_of_smooth_sensitivity_has_the_scale_that_it_says() -> None:
    """20,000 draws at epsilon 4: their mean distance is 2/epsilon to six deviations."""
    mechanism = smooth_laplace(cost("4", "1e-5"))
    assert mechanism.beta == pytest.approx(4 / (2 * np.log(2e5)))
    budget = RehearsalBudget(6)
    moves = [abs(mechanism.release(np.zeros(1), SLOT, budget)[0]) for _ in range(20_000)]
    assert np.mean(moves) == pytest.approx(0.5, abs=6 * 0.5 / np.sqrt(20_000))


def _margin(table: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
    return table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in clique))
