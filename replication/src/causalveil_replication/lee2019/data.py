"""The data of Lee, Gresele, Park and Muandet (2019), both papers, for `replicate weighting`.

LaLonde: the 722 men of the experiment. IHDP: Hill's (2011) 747 infants with simulated outcomes; the papers use 1,000
realisations with published splits into train and test sets; files at hand hold one realisation each and no split, so
that others are made by the recipe of the published ones, and a tenth of the infants, held out at random, stands in for
the published test set. Synthetic data are those of their
section 4, and of Figure 1. A file is known by the digest of its numbers, whatever its formatting.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from causalveil.schemas.errors import DataError
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray

LALONDE, IHDP = "lalonde722.csv", "ihdp_1.csv"
SOURCES = {
    LALONDE: "the experimental LaLonde data of the R package CBPS (722 men), written as CSV with the columns treat, "
    "age, educ, black, hisp, married, nodegr, re74, re75, re74.miss, re78",
    IHDP: "the first of Hill's simulated outcomes on 747 infants, without header, as in the CEVAE and NPCI "
    "repositories (datasets/IHDP/csv); ihdp_2.csv and so on beside it are used too",
}
# SHA-256 of the numbers, row by row, as little-endian doubles.
DIGESTS = {
    LALONDE: "0c0a7f4adc2ac0f1ad8515b276db255e0a9c21ec16c83e16773c2517ddd05c29",
    IHDP: "3648b34f428943038acfa15caf686c9cc8b5155d5a05a915761957a2a2eed83c",
}
M = 500
# Coefficients of Hill's second response surface, and of its intercept, as in the package npci (setting A).
SLOPES, SLOPE_SHARES = np.array([0.0, 0.1, 0.2, 0.3, 0.4]), np.array([0.6, 0.1, 0.1, 0.1, 0.1])
INTERCEPTS = np.linspace(-1, 1, 9)
OFFSET, EFFECT_ON_TREATED = 0.5, 4.0
COEFFICIENTS = np.array([0.5, 0.4, 0.3, 0.2, 0.1])


@dataclass(frozen=True)
class Subjects:
    """Units with what is known of each: rows of shape (n, d), treatments and outcomes of shape (n,)."""

    x: FloatArray
    t: ByteArray
    y: FloatArray

    def at(self, places: IntArray) -> Subjects:
        """The units at ``places``, in that order."""
        return Subjects(self.x[places], self.t[places], self.y[places])


@dataclass(frozen=True)
class Design:
    """The synthetic data of section 4: dimension, units that the effect is estimated from, trials."""

    name: str
    dimension: int
    units: int
    # One coefficient vector for all trials, as in the papers' code; other draws have other seeds.
    seed: int

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """a of treatment and b of outcome, both standard normal, shape (d,)."""
        random = np.random.default_rng([self.seed, self.dimension])
        return random.normal(size=self.dimension), random.normal(size=self.dimension)

    def draw(self, train: int, trial: int) -> tuple[Subjects, Subjects]:
        """Training units and units of the estimate at effect 0; the outcome of a treated unit is higher by the effect.

        Rows are N(0, 9 I), divided by the largest norm of all of them, as the papers do.
        """
        a, b = self.coefficients()
        random = np.random.default_rng([self.seed, self.dimension, train, trial])
        x = random.normal(scale=3, size=(train + self.units, self.dimension))
        x /= np.linalg.norm(x, axis=1).max()
        t = (random.random(len(x)) < 1 / (1 + np.exp(-x @ a))).astype(np.uint8)
        y = x @ b + random.normal(scale=0.1, size=len(x))
        everybody = Subjects(x, t, y)
        return everybody.at(np.arange(train)), everybody.at(np.arange(train, len(x)))


def figure_1(units: int, repeat: int) -> Subjects:
    """The units of Figure 1: five covariates in the unit ball, fixed coefficients, effect 3."""
    random = np.random.default_rng([units, repeat])
    x = random.normal(size=(units, len(COEFFICIENTS)))
    x /= np.linalg.norm(x, axis=1).max()
    t = (random.random(units) < 1 / (1 + np.exp(-x @ COEFFICIENTS))).astype(np.uint8)
    return Subjects(x, t, x @ COEFFICIENTS + 3.0 * t)


def lalonde(folders: tuple[Path, ...]) -> Subjects | None:
    """The 722 men, scaled by the largest norm among them as the papers do; None if the file is in no folder.

    Raises:
        DataError: the file holds other numbers.
    """
    values = _numbers(folders, LALONDE, skip=1)
    if values is None:
        return None
    x = values[:, 1:10]
    return Subjects(x / np.linalg.norm(x, axis=1).max(), values[:, 0].astype(np.uint8), values[:, 10])


def ihdp(folders: tuple[Path, ...]) -> list[Subjects]:
    """Every realisation at hand, rows as published: most lie outside the unit ball. Empty without the first file.

    Raises:
        DataError: the first file holds other numbers.
    """
    if _numbers(folders, IHDP) is None:
        return []
    first = next(path for folder in folders if (path := _find(folder, IHDP)))
    tables = [np.loadtxt(path, delimiter=",") for path in sorted(first.parent.glob("ihdp_*.csv"))]
    return [Subjects(values[:, 5:], values[:, 0].astype(np.uint8), values[:, 1]) for values in tables]


def wanted(name: str) -> str:
    """Which file is missing, from where it is to be had, and its digest."""
    return (
        f"{name} is left out: no folder named by --data has it. It is {SOURCES[name]}; the SHA-256 of its numbers, row "
        f"by row as little-endian doubles, is {DIGESTS[name]}."
    )


def digest_of(values: FloatArray) -> str:
    """The SHA-256 of numbers, row by row, as little-endian doubles, in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()


def within_ball(sample: Subjects) -> Subjects:
    """Divide the units' covariates by the largest norm among them."""
    return Subjects(sample.x / np.linalg.norm(sample.x, axis=1).max(), sample.t, sample.y)


def lalonde_draw(men: Subjects, run: int, held: int = 100) -> tuple[Subjects, Subjects]:
    """Training and estimation units of a run: ``held`` of each arm without replacement, 250 of the others with."""
    random = np.random.default_rng([722, run])
    effect, train = [], []
    for arm in (1, 0):
        members = random.permutation(np.flatnonzero(men.t == arm))
        effect.append(members[:held])
        train.append(random.choice(members[held:], M // 2))
    return men.at(np.concatenate(train)), men.at(np.concatenate(effect))


def ihdp_draw(realisations: list[Subjects], held: int, run: int) -> tuple[Subjects, Subjects]:
    """Training and estimation units of a run: 250 and ``held`` of each arm, both with replacement.

    A tenth of the infants, chosen anew in each run, is where the estimation units are drawn from.
    """
    infants = realisations[run % len(realisations)]
    random = np.random.default_rng([747, run])
    order = random.permutation(len(infants.t))
    size = -(-len(order) // 10)
    sides = [
        np.concatenate([random.choice(side[infants.t[side] == arm], count) for arm in (1, 0)])
        for side, count in ((order[size:], M // 2), (order[:size], held))
    ]
    return infants.at(sides[0]), infants.at(sides[1])


def recipe_draw(infants: Subjects, held: int, run: int) -> tuple[Subjects, Subjects]:
    """Draw as :func:`ihdp_draw` does, from a realisation of its own in every run."""
    return ihdp_draw([realisation(infants, run)], held, run)


def realisation(infants: Subjects, run: int) -> Subjects:
    """The infants with outcomes made anew, as the published ones are: the surfaces and standard normal noise."""
    random = np.random.default_rng([2011, run])
    controls, treated = surfaces(infants, random)
    outcomes = np.where(infants.t != 0, treated, controls) + random.normal(size=len(infants.t))
    return Subjects(infants.x, infants.t, outcomes)


def surfaces(infants: Subjects, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Hill's (2011) second pair of response surfaces, of controls and of the treated, shape (n,) each.

    With b0 and b drawn: mu_0 = exp(b0 + (x + .5)'b), mu_1 = x'b + c, c such that the effect on the treated is 4.
    """
    b, b0 = random.choice(SLOPES, infants.x.shape[1], p=SLOPE_SHARES), random.choice(INTERCEPTS)
    controls, treated = np.exp(b0 + (infants.x + OFFSET) @ b), infants.x @ b
    treated += EFFECT_ON_TREATED - float(np.mean((treated - controls)[infants.t != 0]))
    return controls, treated


def _find(folder: Path, name: str) -> Path | None:
    return next(iter(sorted(folder.rglob(name))), None) if folder.is_dir() else None


def _numbers(folders: tuple[Path, ...], name: str, skip: int = 0) -> FloatArray | None:
    """The file's numbers, shape (rows, columns)."""
    path = next((one for folder in folders if (one := _find(folder, name))), None)
    if path is None:
        return None
    try:
        values: FloatArray = np.loadtxt(path, delimiter=",", skiprows=skip)
    except (OSError, ValueError):
        values = np.empty(0)
    found = digest_of(values)
    if found != DIGESTS[name]:
        raise DataError(
            f"{path}: other numbers than expected (their SHA-256 is {found[:16]}, expected {DIGESTS[name][:16]}); "
            f"wanted is {SOURCES[name]}"
        )
    return values
