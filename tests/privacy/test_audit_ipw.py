"""The whole estimator audited from outside: what it releases on two neighbouring tables, thousands of times.

One unit differs, in id, x, t and y and is as extreme as declared bounds allow; the others
are all alike, so that nothing but the noise hides it. Every run takes a fresh key, so whether that unit trains the
model is part of what is audited; the fraction is chosen so that it mostly is on the side under audit. Scores are
functions of what was released; epsilon is bounded from below by ``audit.epsilon_lower_bound``.

Each case runs on production keys and noise, where a false alarm has probability below 1e-6 (13 cases), and, four times
as often or more and the same every time, on seeded ones: there the same draws without half of the noise must be caught,
so that a product with half the noise fails as well. To see that, delta is large: where Gaussian noise spends 1e-6 no
audit by counting could. The scale of production noise itself is tested in ``test_noise.py`` and ``test_mechanisms.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Norm
from causalveil.tasks.covariates import dimension
from causalveil.tasks.enclave import normalise
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.enclave.split import leading_rows, sizes_of, training_size
from causalveil.tasks.enclave.unit_hash import ascending, keyed_hash
from causalveil.tasks.ipw import weights
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.models import logistic
from causalveil.tasks.privacy.mechanisms import Mechanism, Sensitivity
from causalveil.tasks.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.ipw_help import make_study

CONFIDENCE = 1 - 1e-6
# Of pure noise a half is seen later than of Gaussian noise.
RUNS, PURE_RUNS, SECURE_RUNS = 1_500, 2_500, 400
UNITS = 100


# The study and its two tables ------------------------------------------------------------------------------


def audited(statistic: str, **changes: Any) -> IpwStudy:
    """One covariate. A heavy penalty and a narrow clip let both stages attain the sensitivity that they declare."""
    fraction = {"coefficients": 0.99, "effect": 0.01, "both": 0.5}[statistic]
    return make_study(
        **{"epsilon": "2", "delta": "0.1", "penalty": 10, "clip": (0.499, 0.501), "train_fraction": fraction} | changes,
        covariates={"age": {"lower": -1, "upper": 1}, "group": ...},
    )


@dataclass(frozen=True)
class Table:
    """A normalised table and the units of its rows; ``memory`` keeps fits, which are functions of their rows."""

    units: pl.Series
    rows: Rows
    memory: dict[bytes, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, study: IpwStudy, special: dict[str, Any], score: float) -> Table:
        common = [{"person": unit, "treated": 1, "score": score, "age": 1.0} for unit in range(UNITS - 1)]
        frame = pl.DataFrame([special, *common])
        x = normalise.encode(study, normalise.columns(study, frame), np.arange(UNITS))
        t = frame["treated"].cast(pl.UInt8).to_numpy()
        return cls(frame["person"], Rows(x, t, normalise.scaled_outcome(study, frame["score"])))

    def take(self, which: IntArray) -> Rows:
        return Rows(self.rows.x[which], self.rows.t[which], self.rows.u[which])

    def fit(self, which: IntArray, penalty: float) -> FloatArray:
        rows = self.take(which)
        key = rows.t.tobytes() + rows.x.tobytes()
        if key not in self.memory:
            self.memory[key] = logistic.fit(lambda _: rows, 1, len(rows), penalty)
        return self.memory[key]


def neighbours(study: IpwStudy, tame: bool = False) -> tuple[Table, Table]:
    """Two tables whose first unit is as far apart as can be: in another arm, across the common direction.

    ``tame``: in the first table no unit is extreme, the special one neither.
    """
    one = {"person": 1_000, "treated": 1, "score": 0.5 if tame else 10.0, "age": -1.0}
    other = {"person": 2_000, "treated": 0, "score": 9.9, "age": -0.95}
    score = 0.5 if tame else 5.0
    return Table.of(study, one, score), Table.of(study, other, score)


# One run ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """What is wrong with the estimator; nothing by default."""

    noise: NoiseSource = field(default_factory=SecureNoise)
    keys: Callable[[int], bytes] = os.urandom
    sensitivity: Callable[[FloatArray], float] | None = None
    memory: list[Mechanism | None] = field(default_factory=list)

    def coefficients_by(self, study: IpwStudy, sizes: Sizes) -> Any:
        """The mechanism of the coefficients, made once: its bound takes 1 ms to find."""
        if not self.memory:
            self.memory.append(logistic.model(study, sizes).mechanism())
        return self.memory[0]


def halves(study: IpwStudy, table: Table, key: bytes) -> tuple[IntArray, IntArray, Sizes]:
    """Training and estimation rows under a new key, and the public sizes."""
    sizes = sizes_of(study, UNITS)
    order = ascending(hashes := keyed_hash(table.units, key))
    first = int(leading_rows([hashes[order]], training_size(UNITS, study.estimator.train_fraction))[0])
    return order[:first], order[first:], sizes


def run(study: IpwStudy, table: Table, mutant: Mutant, statistic: str, budget: OpenBudget) -> FloatArray:
    """Coefficients, effect statistics or both, shape (2, numbers): as released, and without noise."""
    train, estimation, sizes = halves(study, table, mutant.keys(16))
    w = exact_w = table.fit(train, study.estimator.penalty)
    by = mutant.coefficients_by(study, sizes)
    if by is not None:
        w = by.release(w, logistic.SLOT, budget)
    if statistic == "coefficients":
        return np.stack([w, exact_w])
    rows = table.take(estimation)
    sums = summed(study, rows, w)
    if mutant.sensitivity is None:
        z = weights.release(study, sizes, sums, budget)
    else:
        value = mutant.sensitivity(weights.contributions(study, rows, w))
        by = replace(weights.mechanism(study, sizes), sensitivity=Sensitivity(value, Norm.l2, "a mutant's"))
        z = by.release(sums, weights.SLOT, budget)
    effect = np.stack([z, sums])
    return effect if statistic == "effect" else np.hstack([np.stack([w, exact_w]), effect])


# The audit -------------------------------------------------------------------------------------------------


def exact(study: IpwStudy, table: Table, statistic: str, inside: bool = True) -> FloatArray:
    """What the run releases but for noise where the special unit is on the side under audit (or is not).

    Sums at the coefficients of a table without it: a score needs no more, whatever was released.
    """
    sizes = sizes_of(study, UNITS)
    size = sizes.train if statistic == "coefficients" else sizes.estimation
    side = np.arange(UNITS)[: size if inside else None][-(size or 0) :]
    if statistic == "coefficients":
        return table.fit(side, study.estimator.penalty)
    w = table.fit(np.arange(1, UNITS), study.estimator.penalty)
    return summed(study, table.take(side), w)


def summed(study: IpwStudy, rows: Rows, w: FloatArray) -> FloatArray:
    """Sums without noise."""
    return weights.exact_sums(study, lambda _: rows, 1, len(rows), w)


Scores = Callable[[FloatArray], list[FloatArray]]


def scores(study: IpwStudy, tables: tuple[Table, Table], statistic: str) -> Scores:
    """Scores of releases, shape (runs, numbers) -> each (runs,): near the likelihood ratio for various noises."""
    if statistic == "both":
        return both(study, tables)
    one, other = (exact(study, table, statistic) for table in tables)
    way = one - other
    contrast = way - way.mean()

    def of(z: FloatArray) -> list[FloatArray]:
        return [
            np.linalg.norm(z - other, axis=1) - np.linalg.norm(z - one, axis=1),
            z @ way,
            z @ contrast,
            z[:, -1],
        ]

    return of


def both(study: IpwStudy, tables: tuple[Table, Table]) -> Scores:
    """The likelihood ratio of coefficients and sums together: the special unit is in one half or in the other."""
    sizes, d = sizes_of(study, UNITS), dimension(study)
    scales = [logistic.model(study, sizes).mechanism().noise_scale, weights.mechanism(study, sizes).noise_scale]

    def log_density(z: FloatArray, table: Table, trains: bool) -> FloatArray:
        centres = exact(study, table, "coefficients", trains), exact(study, table, "effect", not trains)
        parts = z[:, :d], z[:, d:]
        return -sum(
            (np.square(part - centre).sum(axis=1) / (2 * scale**2))
            for part, centre, scale in zip(parts, centres, scales, strict=True)
        )

    def of(z: FloatArray) -> list[FloatArray]:
        each = [[log_density(z, table, trains) for trains in (True, False)] for table in tables]
        return [np.logaddexp(*each[0]) - np.logaddexp(*each[1]), sum(each[0]) - sum(each[1])]

    return of


def sample(study: IpwStudy, statistic: str, runs: int, mutant: Mutant | None = None) -> list[FloatArray]:
    """Runs on each of the two tables, each shape (runs, 2, numbers): released, and without noise."""
    mutant = replace(mutant or Mutant(), memory=[])
    tables, budget = neighbours(study, tame=mutant.sensitivity is not None), OpenBudget(mutant.noise)
    runs_of_each = [np.array([run(study, table, mutant, statistic, budget) for _ in range(runs)]) for table in tables]
    assert {(charge.epsilon, charge.delta) for charge in budget.charges} == {
        (study.privacy.epsilon, study.privacy.delta)
    }
    return runs_of_each


def audit(study: IpwStudy, statistic: str, samples: list[FloatArray], share: float = 1.0) -> float:
    """A lower bound on epsilon at the declared delta, wrong with probability at most 1 - CONFIDENCE.

    The largest of the scores' bounds, each at its part of the error (union bound). ``share``: of the noise; the rest
    is taken off again, as if it had never been drawn.
    """
    score = scores(study, neighbours(study), statistic)
    one, other = (score(exact + share * (released - exact)) for released, exact in (s.swapaxes(0, 1) for s in samples))
    confidence = 1 - (1 - CONFIDENCE) / len(one)
    pairs = zip(one, other, strict=True)
    return max(epsilon_lower_bound(p, q, float(study.privacy.delta), confidence) for p, q in pairs)


# What is audited -------------------------------------------------------------------------------------------


class BareIntercept(SeededNoise):
    """The last number is released as it is."""

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        return np.append(super().gaussian(value[:-1], scale), value[-1:])

    def l2_laplace(self, value: FloatArray, scale: float) -> FloatArray:
        return np.append(super().l2_laplace(value[:-1], scale), value[-1:])


class SharedDraw(SeededNoise):
    """One number is drawn and added to all, as in a published package."""

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        return value + super().gaussian(np.zeros(1), scale)

    def l2_laplace(self, value: FloatArray, scale: float) -> FloatArray:
        return value + super().l2_laplace(np.zeros(1), scale)


HT = {"weighting": "horvitz_thompson"}
PURE = {"delta": "0"}
PAPER = {"variant": "paper", "epsilon": "0.9", **HT}
# Name, statistic, study, and the share of the noise that the mutant keeps.
CASES: list[tuple[str, str, dict[str, Any], float]] = [
    ("coefficients", "coefficients", {}, 0.5),
    ("coefficients, training units", "coefficients", {"level": "training_units"}, 0.5),
    ("coefficients, pure", "coefficients", PURE, 0.5),
    # The paper's sensitivity is twice what any pair attains here; its noise is twice what so large a delta asks.
    ("coefficients, paper", "coefficients", PAPER, 0.1),
    ("Hajek", "effect", {}, 0.5),
    # Ten numbers: pure noise is mostly across the difference, and half of it is not to be seen in some 10,000 runs.
    ("Hajek, pure", "effect", PURE, 0.25),
    ("HT", "effect", HT, 0.5),
    ("HT, pure", "effect", HT | PURE, 0.5),
    ("HT, paper", "effect", PAPER, 0.2),
    ("both", "both", HT, 1 / 3),
]


# It draws what "coefficients" draws, number for number.
LONG = {"coefficients, training units"}


@pytest.mark.parametrize(
    ("name", "statistic", "changes", "share"),
    [pytest.param(*case, id=case[0], marks=[pytest.mark.long] * (case[0] in LONG)) for case in CASES],
)
def test_releases_stay_below_the_declared_epsilon_and_less_noise_is_caught(
    name: str, statistic: str, changes: dict[str, Any], share: float
) -> None:
    study = audited(statistic, **changes)
    declared = float(study.privacy.epsilon)
    secure = audit(study, statistic, sample(study, statistic, SECURE_RUNS))
    samples = sample(
        study,
        statistic,
        RUNS if study.privacy.delta else PURE_RUNS,
        Mutant(SeededNoise(7), np.random.default_rng(7).bytes),
    )
    honest, mutant = audit(study, statistic, samples), audit(study, statistic, samples, share)
    print(f"{name}: declared {declared}, audited {secure:.2f} {honest:.2f}, with {share:.3g} of the noise {mutant:.2f}")
    assert secure <= declared
    assert honest <= declared
    assert mutant > declared


def own_maximum(numbers: FloatArray) -> float:
    """A sensitivity from the data, as in published code: twice the largest norm of what a unit adds."""
    return float(2 * np.linalg.norm(numbers, axis=0).max())


@pytest.mark.parametrize(
    ("statistic", "mutant"),
    [
        ("effect", Mutant(SeededNoise(7), sensitivity=own_maximum)),
        ("coefficients", Mutant(BareIntercept(7))),
        ("coefficients", Mutant(SharedDraw(7))),
        ("effect", Mutant(SharedDraw(7))),
    ],
    ids=["sensitivity from the data", "bare intercept", "shared draw, coefficients", "shared draw, effect"],
)
def test_other_mistakes_are_caught(statistic: str, mutant: Mutant) -> None:
    study = audited(statistic, **HT)
    samples = sample(study, statistic, 800, replace(mutant, keys=np.random.default_rng(7).bytes))
    found = audit(study, statistic, samples)
    print(f"declared {study.privacy.epsilon}, audited {found:.2f}")
    assert found > study.privacy.epsilon
