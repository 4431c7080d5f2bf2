"""Coverage and width of adjusted questions of times that are asked together, and beside as many single studies.

python -m replication.benchmarks.survival_together [RUNS]

People of ``survival_adjusted.py``, each in one of two subgroups by chance, so that both have one truth.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np

from causalveil.flows.estimators.rehearsal import gaussian_epsilon
from causalveil.flows.run.estimators import rehearse
from causalveil.schemas.answers import State
from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.tasks.data.enclave import MemoryEnclave, ranks
from causalveil.tasks.data.normalise import columns, encode
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.gaussian import unit_sigma
from replication.benchmarks.survival_adjusted import CONFOUNDED, COVARIATES, MANY, Confounded
from tests.survival_help import HORIZON, IN_FULL, ONE_KIND, found_of, make_survival, make_times

SITES = {"name": "site", "column": {"levels": ["north", "south"]}}
HORIZONS = (HORIZON, 180.0)


def joint_study(
    horizons: Sequence[float], measures: Sequence[Measure], epsilon: str, grouped: bool = True
) -> SurvivalStudy:
    """The protocol of these horizons and measures, adjusted for four covariates."""
    outcomes = [
        {**IN_FULL, **ONE_KIND, "horizon": horizon, "role": "secondary" if place else "primary"}
        for place, horizon in enumerate(horizons)
    ]
    changes: dict[str, Any] = {"subgroups": SITES} if grouped else {}
    measured = [str(one) for one in measures]
    return make_times(
        outcomes=outcomes, trial=False, covariates=COVARIATES, measure=measured, epsilon=epsilon, **changes
    )


def joint_table(study: SurvivalStudy, one: Confounded, n: int, seed: int) -> Findings:
    """What one table of this seed says."""
    random = np.random.default_rng([seed, n, one.seed])
    people, _ = one.people(random, n)
    assert people.covariates is not None
    rows = study.bounded.questions[0]
    enclave = MemoryEnclave(
        [
            {
                "t": people.arm,
                "u": people.time,
                "k": people.kind,
                "g": random.integers(0, len(study.groups), n).astype(np.uint8),
                "h": ranks(n),
                "x": encode(rows, columns(rows, people.covariates), slice(0, n)),
            }
        ]
    )
    found = rehearse(study, enclave, RehearsalBudget(seed), seed)
    assert isinstance(found, Findings)
    return found


@lru_cache(maxsize=8)
def _population(one: Confounded) -> tuple[np.ndarray, np.ndarray]:
    x = np.clip(np.random.default_rng(12).standard_normal((MANY, 2)), -3, 3).sum(axis=1)
    control, treated = (one.times(np.full(MANY, arm, np.uint8), x, np.random.default_rng(7)) for arm in (0, 1))
    return control, treated


@cache
def truth(one: Confounded, measure: Measure, horizon: float) -> float:
    """The true difference until a horizon; its error is a thousandth of a risk."""
    control, treated = _population(one)
    if measure is Measure.risk:
        return float((treated <= horizon).mean() - (control <= horizon).mean())
    return float(np.minimum(treated, horizon).mean() - np.minimum(control, horizon).mean())


@dataclass
class Held:
    """By question and group, how often intervals hold and how wide they are; by run, whether all hold together."""

    hits: dict[tuple[str, str], list[bool]] = field(default_factory=dict)
    halves: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    together: list[bool] = field(default_factory=list)
    unresolved: int = 0

    def add(self, study: SurvivalStudy, one: Confounded, table: Findings) -> None:
        """Count one table."""
        true = {ask.label: truth(one, ask.measure, ask.outcome.horizon) for ask in study.questions}
        all_hold = True
        for answer in table.answers:
            assert answer.interval is not None
            assert answer.simultaneous is not None
            key, value = (answer.outcome, answer.group), true[answer.outcome]
            self.hits.setdefault(key, []).append(answer.interval.lower <= value <= answer.interval.upper)
            self.halves.setdefault(key, []).append((answer.interval.upper - answer.interval.lower) / 2)
            self.unresolved += answer.state is State.unresolved
            all_hold &= answer.simultaneous.lower <= value <= answer.simultaneous.upper
        self.together.append(all_hold)

    @property
    def worst(self) -> tuple[tuple[str, str], float]:
        """The row that holds least often."""
        return min(((key, float(np.mean(own))) for key, own in self.hits.items()), key=lambda one: one[1])


def joint_cell(one: Confounded, n: int, epsilon: str, runs: int, first: int = 0) -> Held:
    """Runs of one population and size: two horizons, two measures, two subgroups."""
    study, found = joint_study(HORIZONS, tuple(Measure), epsilon), Held()
    for seed in range(first, first + runs):
        found.add(study, one, joint_table(study, one, n, seed))
    return found


def one_of(q: int, epsilon: float, delta: float = 1e-6) -> str:
    """The epsilon of a study that has a q-th of mu^2."""
    return f"{gaussian_epsilon(unit_sigma(epsilon, delta) * q**0.5, delta):.6g}"


def beside(one: Confounded, n: int, q: int, runs: int) -> tuple[float, float, float, float]:
    """Half-width and coverage of the risk until the last horizon, asked with q - 1 others and by itself for as much."""
    study = joint_study([HORIZON * (q - place) / q for place in range(q)], [Measure.risk], "1", grouped=False)
    single = make_survival(
        competing=False, epsilon=one_of(q, 1.0), trial=False, covariates=COVARIATES, measure=["risk"]
    )
    true, halves, hits = truth(one, Measure.risk, HORIZON), [], []
    for seed in range(runs):
        people, _ = one.people(np.random.default_rng([seed, n, one.seed]), n)
        both = (joint_table(study, one, n, seed).answers[0].interval, found_of(single, people, seed).interval)
        assert both[0] is not None
        halves.append([(own.upper - own.lower) / 2 for own in both])  # type: ignore[union-attr]
        hits.append([own.lower <= true <= own.upper for own in both])  # type: ignore[union-attr]
    (joint, alone), (held, held_alone) = np.mean(halves, axis=0), np.mean(hits, axis=0)
    return float(joint), float(alone), float(held), float(held_alone)


def main() -> None:
    """Print both tables."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for one in (CONFOUNDED[0], CONFOUNDED[2]):
        for n in (5_000, 30_000):
            found = joint_cell(one, n, "1", runs)
            (question, group), least = found.worst
            single = float(np.mean([hit for own in found.hits.values() for hit in own]))
            print(
                f"| {one.name} | {n:,} | {single:.3f} | {question}, {group}: {least:.2f} "
                f"| {np.mean(found.together):.2f} | {found.unresolved} |",
                flush=True,
            )
            print(
                {
                    key: (round(float(np.mean(own)), 3), round(float(np.mean(found.halves[key])), 4))
                    for key, own in found.hits.items()
                },
                flush=True,
            )
    for n in (5_000, 30_000):
        for q in (2, 4, 8):
            print(n, q, *(f"{value:.4f}" for value in beside(CONFOUNDED[0], n, q, max(runs // 4, 10))), flush=True)


if __name__ == "__main__":
    main()
