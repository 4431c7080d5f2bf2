"""The runs of `replicate weighting`: every draw is kept, so that an interrupted command goes on.

Noise is drawn by the mechanism that the papers prove, Gaussian for epsilon < 1, through a rehearsal's budget. The noise
on an estimate is kept as a standard normal number, so that one draw serves every deviation that it is said to have.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.models import logistic
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import GaussianClassic, Sensitivity, Slot
from causalveil.tasks.report.figures import write_table
from causalveil_replication.lee2019.data import Design, Subjects
from causalveil_replication.lee2019.estimates import clipped, matched, read_off_sensitivity, stratified, weighted

PENALTY, DELTA = 0.1, "1e-6"
EPSILONS = ("0.2", "0.4", "0.6", "0.8", "0.99")
FIGURE_EPSILONS = ("0.01", "0.03", "0.05", "0.1", "0.2", "0.4", "0.8", "0.99")
# The text does not name the epsilons of the lines; the printed growth at m = 500 fits these.
LINE_EPSILONS = ("0.1", "0.3", "0.5")
SIZES = (500, 1000, 1500, 2000, 2500)
EFFECTS = (0.1, 2.0)
CLIP = 0.1
BATCH = 100
_MODEL = Slot(name="propensity", scope=Scope.train)
_EFFECT = Slot(name="effect", scope=Scope.estimation)
Draw = Callable[[int], tuple[Subjects, Subjects]]
Kept = TypeVar("Kept", bound="TableDraw | FigureDraw")


class TableDraw(NamedTuple):
    """One run at one epsilon on LaLonde or IHDP; ``plain_*`` without noise; ``normal`` is the estimate's noise."""

    run: int
    epsilon: float
    plain_weighted: float
    weighted: float
    sensitivity: float
    normal: float
    plain_clipped: float
    clipped: float
    plain_stratified: float
    stratified: float
    plain_matched: float
    matched: float


class FigureDraw(NamedTuple):
    """One trial on synthetic data; ``true_scores``: the estimate with the scores that made the treatments."""

    coefficients: int
    run: int
    train: int
    epsilon: float
    effect: float
    true_scores: float
    plain_weighted: float
    weighted: float
    sensitivity: float
    normal: float


@dataclass(frozen=True)
class Trial:
    """A fitted model and its noise: what both kinds of run share."""

    w: FloatArray
    budget: RehearsalBudget
    units: int
    delta: str

    @classmethod
    def of(cls, train: Subjects, seed: int, delta: str, penalty: float = PENALTY) -> Trial:
        """Fit on the training units; ``seed`` fixes every draw of noise."""
        rows = Rows(train.x, train.t, np.zeros(len(train.t)))
        return cls(logistic.fit(lambda _: rows, 1, len(rows), penalty), RehearsalBudget(seed), len(rows), delta)

    def noisy(self, epsilon: str) -> FloatArray:
        """Coefficients released at epsilon, shape (d,), by the sensitivity that holds within the unit ball."""
        return _mechanism(2 / (self.units * PENALTY), epsilon, self.delta).release(self.w, _MODEL, self.budget)

    def normal(self) -> float:
        """The noise of an estimate in its own deviations."""
        release_by = _mechanism(1.0, FIGURE_EPSILONS[-1], self.delta)
        return float(release_by.release(np.zeros(1), _EFFECT, self.budget)[0] / release_by.known_scale)


def table_draws(out: Path, name: str, draw: Draw, runs: int, delta: str = DELTA) -> list[TableDraw]:
    """All runs at every epsilon; those found in ``out`` are not made again."""
    found: list[TableDraw] = []
    for first in range(0, runs, BATCH):
        part = range(first, min(first + BATCH, runs))
        path = out / f"weighting-{name}-{delta}-{part.start}-{part.stop}.csv"
        found += _kept(path, TableDraw, partial(_table_runs, draw, part, delta))
    return found


def _table_runs(draw: Draw, runs: range, delta: str) -> list[TableDraw]:
    return [found for run in runs for found in _table_run(draw, run, delta)]


def _table_run(draw: Draw, run: int, delta: str) -> Iterable[TableDraw]:
    train, effect = draw(run)
    trial = Trial.of(train, run, delta)
    estimators = (weighted, lambda sample, w: clipped(sample, w, CLIP), stratified, matched)
    plain = [estimate(effect, trial.w) for estimate in estimators]
    for epsilon in EPSILONS:
        w = trial.noisy(epsilon)
        noisy = [estimate(effect, w) for estimate in estimators]
        spread = read_off_sensitivity(effect, w), trial.normal()
        pairs = [value for pair in list(zip(plain, noisy, strict=True))[1:] for value in pair]
        yield TableDraw(run, float(epsilon), plain[0], noisy[0], *spread, *pairs)


def figure_draws(out: Path, design: Design, trials: int) -> list[FigureDraw]:
    """Every trial of one coefficient vector; those found in ``out`` are not made again."""
    path = out / f"weighting-{design.name}-{design.seed}-{trials}.csv"
    return _kept(path, FigureDraw, lambda: [draw for run in range(trials) for draw in _figure_run(design, run)])


def _figure_run(design: Design, run: int) -> Iterable[FigureDraw]:
    a, _ = design.coefficients()
    for train_units in SIZES:
        train, effect = design.draw(train_units, run)
        trial = Trial.of(train, 10_000 * design.seed + 10 * run + train_units, DELTA)
        bars = FIGURE_EPSILONS if train_units == FIGURE_TRAIN else ()
        for epsilon in sorted({*bars, *LINE_EPSILONS}, key=float):
            w, normal = trial.noisy(epsilon), trial.normal()
            for size in EFFECTS:
                shifted = Subjects(effect.x, effect.t, effect.y + size * effect.t)
                numbers = [weighted(shifted, used) for used in (a, trial.w, w)]
                spread = read_off_sensitivity(shifted, w)
                place = design.seed, run, train_units, float(epsilon), size
                yield FigureDraw(*place, numbers[0], numbers[1], numbers[2], spread, normal)


FIGURE_TRAIN = 1000


def _kept(path: Path, kind: type[Kept], make: Callable[[], Sequence[Kept]]) -> list[Kept]:
    """The draws in ``path``, made and written first if it is not there; a file is written whole or not at all."""
    if not path.exists():
        write_table(path, [draw._asdict() for draw in make()])
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    whole = {name for name, annotation in kind.__annotations__.items() if annotation in (int, "int")}
    return [
        kind(*(int(row[name]) if name in whole else float(row[name]) for name in kind._fields))  # type: ignore[arg-type]
        for row in rows
    ]


@lru_cache(maxsize=64)
def _mechanism(sensitivity: float, epsilon: str, delta: str) -> GaussianClassic:
    cost = PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(delta))
    bound = Sensitivity(value=sensitivity, norm=Norm.l2, formula="2/(m penalty)")
    return GaussianClassic(sensitivity=bound, cost=cost)
