"""Ten populations with a curve of another kind each, on which curves were judged once they were read as functions.

No setting was chosen on them. Each has two normals with lines and a flag beside the number that bends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from causalveil.tasks.machine.arrays import FloatArray
from replication.benchmarks.judged_populations import FLAG, Potential, Written

# A number, and of it what drives the outcome, the logit of treatment and the effect.
Drawn = tuple[FloatArray, FloatArray, FloatArray, FloatArray | float]


def _beside(draw: Callable[[np.random.Generator, int], Drawn]) -> Callable[[np.random.Generator, int], Potential]:
    def people(random: np.random.Generator, n: int) -> Potential:
        number, outcome, logit, effect = draw(random, n)
        z, flag = random.normal(size=(n, 2)), (random.random(n) < 0.4).astype(np.float64)
        line = 0.4 * z[:, 0] + 0.3 * z[:, 1] + 0.3 * flag
        without = line + outcome + random.normal(size=n)
        return np.column_stack([number, z, flag]), expit(line - 0.4 + logit), without, without + effect

    return people


def _logarithm(random: np.random.Generator, n: int) -> Drawn:
    log = random.normal(size=n)
    return np.exp(10 + 0.9 * log), 0.8 * log, 0.8 * log, 0.4


def _plateau(random: np.random.Generator, n: int) -> Drawn:
    z = random.normal(size=n)
    flat = np.minimum(z, 0.2)
    return z, 1.2 * flat, 1.2 * flat, 0.4


def _step80(random: np.random.Generator, n: int) -> Drawn:
    z = random.normal(size=n)
    over = (z > 0.84).astype(np.float64)
    return z, 1.2 * over, 1.2 * over, 0.4


def _product(random: np.random.Generator, n: int) -> Potential:
    z, flag = random.normal(size=(n, 3)), (random.random(n) < 0.4).astype(np.float64)
    both = z[:, 0] * z[:, 1]
    without = 0.7 * both + 0.4 * z[:, 2] + 0.3 * flag + random.normal(size=n)
    return np.column_stack([z, flag]), expit(0.7 * both + 0.4 * z[:, 2] - 0.2), without, without + 0.4


def _bimodal(random: np.random.Generator, n: int) -> Drawn:
    z = 1.6 * np.where(random.random(n) < 0.4, -1, 1) + 0.6 * random.normal(size=n)
    wave = np.cos(1.3 * z)
    return z, 0.9 * wave, 0.9 * wave, 0.4


def _in_treatment(random: np.random.Generator, n: int) -> Drawn:
    z = random.normal(size=n)
    return z, 0.6 * z, 0.7 * (z**2 - 1), 0.4


def _in_outcome(random: np.random.Generator, n: int) -> Drawn:
    z = random.normal(size=n)
    return z, 0.7 * (z**2 - 1), 0.6 * z, 0.4


def _varying(random: np.random.Generator, n: int) -> Drawn:
    z = random.normal(size=n)
    return z, 0.5 * z, 0.5 * z + 0.4 * (z**2 - 1), 0.4 + 0.6 * (z**2 - 1)


def _few_values(random: np.random.Generator, n: int) -> Drawn:
    values = random.choice(5, n, p=(0.25, 0.3, 0.2, 0.15, 0.1))
    own = np.array([0.6, -0.5, 0.1, -0.4, 1.2])[values]
    return values.astype(np.float64), own, own, 0.4


def _heavy(random: np.random.Generator, n: int) -> Drawn:
    z = random.standard_t(3, n)
    bent = np.arctan(1.5 * z)
    return z, 0.8 * bent, 0.8 * bent, 0.4


def _one(title: str, number: tuple[float, float], draw: Callable[[np.random.Generator, int], Drawn]) -> Written:
    declared = {"number": {"lower": number[0], "upper": number[1]}}
    others = {f"x{place}": {"lower": -4, "upper": 4} for place in range(2)}
    return Written(title, "curves", (-8, 10), declared | others | {"flag": dict(FLAG)}, _beside(draw))


CURVES = {
    "logarithm": _one("the logarithm of an income", (0, 400_000), _logarithm),
    "plateau": _one("a line that ends in a plateau", (-4, 4), _plateau),
    "step80": _one("a threshold that a fifth exceed", (-4, 4), _step80),
    "product": Written("a product of two numbers", "curves", (-8, 10),
                       {f"x{place}": {"lower": -4, "upper": 4} for place in range(3)} | {"flag": dict(FLAG)}, _product),
    "bimodal": _one("a wave along a number with two peaks", (-5, 5), _bimodal),
    "treatment": _one("a square in the treatment alone", (-4, 4), _in_treatment),
    "outcome": _one("a square in the outcome alone", (-4, 4), _in_outcome),
    "squares": _one("an effect that varies with a square", (-4, 4), _varying),
    "values": _one("a number of five values, no line", (0, 4), _few_values),
    "heavy": _one("an arc tangent of a number with heavy tails", (-12, 12), _heavy),
}  # fmt: skip
