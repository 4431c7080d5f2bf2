"""What a protocol's table promises, over 500 runs: intervals hold one by one, and all together.

And what asking together is worth: half-widths against asking one by one within the same total, where noise rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.questions import ALL_UNITS
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.protocol_help import analysed, confounded, in_cells, make_protocol

RUNS = 500
CASES: dict[str, dict[str, Any]] = {
    "three subgroups": {"n": 30_000, "groups": 3, "arms": 2, "epsilon": "1"},
    "little budget": {"n": 30_000, "groups": 2, "arms": 2, "epsilon": "0.4"},
    "three arms": {"n": 30_000, "groups": 1, "arms": 3, "epsilon": "1"},
    "arms by subgroups": {"n": 60_000, "groups": 2, "arms": 3, "epsilon": "1"},
    "balancing, label": {"n": 6_000, "groups": 3, "arms": 2, "epsilon": "1", "name": "balancing"},
    "balancing, label, Laplace": {
        **{"n": 6_000, "groups": 2, "arms": 2, "epsilon": "1"},
        **{"name": "balancing", "delta": "0"},
    },
    "balancing, label, arms": {"n": 6_000, "groups": 1, "arms": 3, "epsilon": "1", "name": "balancing"},
    "matching, label": {"n": 6_000, "groups": 2, "arms": 2, "epsilon": "1", "name": "matching"},
}


def covered(n: int, groups: int, arms: int, runs: int = RUNS, **asked: str) -> tuple[float, float, float]:
    """How often single intervals hold, all simultaneous ones hold, and the worst row's single intervals do."""
    study = make_protocol(2, 2, groups, arms, **asked)
    single, together = [], []
    for run in range(runs):
        rows, effects = confounded(n, 2, groups, arms, seed=run)
        found, whole = [], True
        for answer in analysed(study, rows, seed=10_000 + run).answers:
            arm, outcome = study.arm_names.index(answer.arm), int(answer.outcome[1:])
            sizes = np.full(groups, 1 / groups)
            truth = 5 * float(
                sizes @ effects[:, arm, outcome]
                if answer.group == ALL_UNITS
                else effects[study.groups.index(answer.group), arm, outcome]
            )
            assert answer.interval is not None
            assert answer.simultaneous is not None
            found.append(answer.interval.lower <= truth <= answer.interval.upper)
            whole &= answer.simultaneous.lower <= truth <= answer.simultaneous.upper
        single.append(found)
        together.append(whole)
    by_row = np.mean(single, axis=0)
    return float(by_row.mean()), float(np.mean(together)), float(by_row.min())


def modified(n: int, groups: int, seed: int) -> CellRows:
    """A flag of 30% changes the odds of treatment fivefold and two outcomes' effects by 3 and -1, beside subgroups."""
    random = np.random.default_rng(seed)
    flag, z = (random.random(n) < 0.3).astype(np.float64), random.normal(size=(n, 3))
    g = random.integers(0, groups, n)
    t = (random.random(n) < 1 / (1 + np.exp(1 - 1.6 * flag - 0.4 * z[:, 0]))).astype(np.float64)
    one = 2 * flag + z[:, 0] + z[:, 1] + (1 + 0.5 * g + 3 * (flag - 0.3)) * t + random.normal(size=n)
    other = flag + z[:, 0] - (1 + (flag - 0.3)) * t + random.normal(size=n)
    covariates = np.clip(np.column_stack([2 * flag - 1, z / 4]), -1, 1)
    return in_cells(covariates, t, np.clip(np.column_stack([one, other]) / 10, -1, 1), g)


def three_arms(n: int, seed: int) -> CellRows:
    """A flag changes the odds of either treatment, and their effects by 3 and by -2."""
    random = np.random.default_rng(seed)
    flag, z = (random.random(n) < 0.3).astype(np.float64), random.normal(size=(n, 3))
    odds = np.column_stack([np.zeros(n), -0.5 + 1.3 * flag + 0.4 * z[:, 0], -0.3 + 0.8 * flag - 0.3 * z[:, 1]])
    chance = np.cumsum(np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True), axis=1)
    t = (random.random(n)[:, None] > chance).sum(axis=1)
    effect = np.column_stack([np.zeros(n), 1 + 3 * (flag - 0.3), 0.5 - 2 * (flag - 0.3)])[np.arange(n), t]
    outcomes = np.stack([2 * flag + z[:, 0] + z[:, 1] + effect, flag + z[:, 0] - effect / 2])
    outcomes += random.normal(size=(2, n))
    covariates = np.clip(np.column_stack([2 * flag - 1, z / 4]), -1, 1)
    return in_cells(covariates, t, np.clip(outcomes.T / 10, -1, 1), np.zeros(n))


def test_effects_of_several_arms_that_differ_with_a_flag_are_covered() -> None:
    """8 runs of four answers, seeded: with slopes that serve all arms .61 held. As for two arms below."""
    study, found = make_protocol(4, 2, 1, 3, epsilon="4"), []
    for run in range(8):
        for answer in analysed(study, three_arms(40_000, run), seed=10_000 + run).answers:
            truth = 0.5 * {"a1": 1.0, "a2": 0.5}[answer.arm] * (1 if answer.outcome == "y0" else -0.5)
            assert answer.interval is not None
            found.append(answer.interval.lower <= truth <= answer.interval.upper)
    print(f"{np.mean(found):.3f}")
    assert np.mean(found) >= 0.7


@pytest.mark.parametrize(("n", "groups", "epsilon"), [(20_000, 1, "1"), (40_000, 2, "4")])
def test_effects_that_differ_with_a_flag_are_covered(n: int, groups: int, epsilon: str) -> None:
    """8 runs of 2 to 6 answers, seeded. With slopes that serve both arms .16 to .31 held, at the same widths.

    Answers of a run are alike; were .95 to hold of 8 runs whose answers were all the same, .7 would fail once in 175.
    """
    study, found = make_protocol(4, 2, groups, epsilon=epsilon), []
    for run in range(8):
        table = analysed(study, modified(n, groups, run), seed=10_000 + run)
        for answer in table.answers:
            of_group = (groups - 1) / 4 if answer.group == ALL_UNITS else study.groups.index(answer.group) / 2
            # u is a tenth of the outcome, whose declared range has the half width 5.
            truth = 0.5 * (1 + of_group if answer.outcome == "y0" else -1)
            assert answer.interval is not None
            found.append(answer.interval.lower <= truth <= answer.interval.upper)
    print(f"{n} {groups} {epsilon}: {np.mean(found):.3f}")
    assert np.mean(found) >= 0.7


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_one_by_one_and_all_together(case: str) -> None:
    """Four standard errors of 500 runs below .95 are .911 for all together; rows of a run are alike, so the same is
    taken for the mean of single ones. A table whose intervals hold as declared fails once in 30,000 times."""
    single, together, worst = covered(**CASES[case])
    print(f"{case}: single {single:.3f}, all together {together:.3f}, worst row {worst:.3f}")
    assert single >= 0.93
    assert together >= 0.911
    assert worst >= 0.90


def half_width(interval: Any) -> float:
    return float(interval.upper - interval.lower) / 2


@pytest.mark.long
def test_asking_together_is_worth_a_multiple() -> None:
    """Five outcomes and eight subgroups within (1, 1e-6), against as many studies that share it as sums do."""
    n = 40_000
    rows, _ = confounded(n, 5, 1, 2, seed=1)
    z = rows.x[:, :2] * np.sqrt(3)
    quiet = in_cells(z, rows.t, rows.u * 0.05, rows.g)
    together = analysed(make_protocol(2, 5), quiet).answers
    one = make_protocol(2, 1, epsilon="0.2", delta="2e-7").questions[0]
    alone = [rehearse_effect(one, Rows(quiet.x, quiet.t, quiet.u[:, k]), RehearsalBudget(k)) for k in range(5)]
    outcomes = np.mean([half_width(one.interval) for one in alone]) / np.mean(
        [half_width(a.interval) for a in together]
    )
    rows, _ = confounded(n, 1, 8, 2, seed=2)
    z = rows.x[:, :2] * np.sqrt(3)
    quiet = in_cells(z, rows.t, rows.u * 0.05, rows.g)
    grouped = [a for a in analysed(make_protocol(2, 1, 8), quiet).answers if a.group != ALL_UNITS]
    alone = []
    for g in range(8):
        own = quiet.g == g
        one = make_protocol(2, 1, epsilon="0.125", delta="1.25e-7").questions[0]
        alone.append(rehearse_effect(one, Rows(quiet.x[own], quiet.t[own], quiet.u[own, 0]), RehearsalBudget(g)))
    subgroups = np.mean([half_width(one.interval) for one in alone]) / np.mean(
        [half_width(a.interval) for a in grouped]
    )
    print(f"half-widths one by one over together: 5 outcomes {outcomes:.2f}, 8 subgroups {subgroups:.2f}")
    assert outcomes >= 2
    assert subgroups >= 5
