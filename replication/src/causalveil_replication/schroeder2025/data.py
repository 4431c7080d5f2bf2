"""The data sets of Schröder, Hartenstein and Feuerriegel (2025), for `replicate intervals` and its tests.

Synthetic, after appendix C.1.1, which follows Oprescu, Syrgkanis and Wu (2019): coefficients are new in every draw::

    X ~ U[0, 1]^p,  A = 1{X beta >= eta},  eta ~ U[-1, 1],  Y = A + X gamma + e,  e ~ U[-1, 1]
    beta_j ~ U[0, 0.3] and gamma_j ~ U[0, 1] for s coordinates chosen at random, 0 elsewhere

so the effect is 1 for everybody and, before any clipping, P(A = 1 | X) = (1 + X beta)/2. Like its source the main
population has one support for both; then confounding is at its strongest. ``separate`` has two supports.

Right heart catheterisation: the 5,735 patients of SUPPORT (Connors et al. 1996), the file ``rhc.csv`` as distributed by
Vanderbilt University's Department of Biostatistics. Treatment: catheterised within a day of admission (``swang1``).
Outcome: dead within 180 days of admission (``dthdte - sadmdte <= 180``); 181 patients without a date of death were last
seen earlier and count as alive. The paper names three of its eight confounders (primary disease, heart rate, coma
score); the other five here are age, sex, physiology score, mean blood pressure and respiration rate. Where the paper
drops outliers, values are clipped to declared bounds, so all patients remain; these columns hold no nulls to impute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from causalveil.schemas.errors import DataError
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.normalise import columns, encode, scaled_outcome

RHC_FILE = "rhc.csv"
RHC_SOURCE = (
    "rhc.csv, right heart catheterisation of 5,735 patients, as Vanderbilt University's Department of Biostatistics "
    "distributes it; its SHA-256 is 9ef4ab578be4b40ad5d97d3a7e08ffdc1f9f76aeeefee51b4996e4221556f8e8"
)
RHC_COVARIATES: Mapping[str, Mapping[str, Any]] = {
    "age": {"lower": 18, "upper": 102},
    "coma": {"lower": 0, "upper": 100},
    "disease": {
        "levels": [
            "ARF",
            "CHF",
            "COPD",
            "Cirrhosis",
            "Colon Cancer",
            "Coma",
            "Lung Cancer",
            "MOSF w/Malignancy",
            "MOSF w/Sepsis",
        ]
    },
    "heart_rate": {"lower": 30, "upper": 220},
    "physiology": {"lower": 0, "upper": 150},
    "pressure": {"lower": 20, "upper": 200},
    "respiration": {"lower": 2, "upper": 70},
    "sex": {"levels": ["Female", "Male"]},
}
_RHC_NUMBERS = {
    "age": "age",
    "scoma1": "coma",
    "hrt1": "heart_rate",
    "aps1": "physiology",
    "meanbp1": "pressure",
    "resp1": "respiration",
}


@dataclass(frozen=True)
class Population:
    """A synthetic population: p covariates of which s matter; how treatment is assigned.

    ``randomised``: exactly half are treated, by lot (appendix E).
    """

    name: str
    title: str
    covariates: int
    support: int
    separate: bool = False
    randomised: bool = False

    @property
    def truth(self) -> float:
        """The effect, of everybody."""
        return 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of outcomes over all coefficients."""
        return -1.0, 2.0 + self.support

    @property
    def names(self) -> tuple[str, ...]:
        """The covariates, in order."""
        return tuple(f"x{index:02d}" for index in range(1, self.covariates + 1))

    def document(self) -> dict[str, Any]:
        """A study of this population, without estimator and privacy."""
        low, high = self.bounds
        return {
            "kind": "effect",
            "name": self.name,
            "data": {"unit": "unit"},
            "treatment": "treated",
            "outcome": {"name": "outcome", "lower": low, "upper": high},
            "covariates": {name: {"lower": 0, "upper": 1} for name in self.names},
        }


DATASET_1 = Population("dataset-1", "Dataset 1 (p = 2)", 2, 2)
DATASET_2 = Population("dataset-2", "Dataset 2 (p = 24, s = 6)", 24, 6)
DATASET_2_SEPARATE = Population("dataset-2-separate", "Dataset 2, separate supports", 24, 6, separate=True)
TRIAL = Population("trial", "Randomised trial (p = 1)", 1, 1, randomised=True)


def draw(population: Population, units: int, seed: int) -> pl.DataFrame:
    """``units`` rows and their coefficients, a function of the seed: unit, treated, outcome and the covariates."""
    random = np.random.default_rng(seed)
    p, s = population.covariates, population.support
    beta, gamma = np.zeros(p), np.zeros(p)
    support = random.choice(p, s, replace=False)
    other = random.choice(p, s, replace=False) if population.separate else support
    beta[other], gamma[support] = random.uniform(0, 0.3, s), random.uniform(0, 1, s)
    x = random.random((units, p))
    if population.randomised:
        treated = random.permutation(units) < units // 2
    else:
        treated = x @ beta >= random.uniform(-1, 1, units)
    outcome = population.truth * treated + x @ gamma + random.uniform(-1, 1, units)
    fixed = {"unit": np.arange(units), "treated": treated.astype(np.int8), "outcome": outcome}
    return pl.DataFrame({**fixed, **dict(zip(population.names, x.T, strict=True))})


def rhc_document() -> dict[str, Any]:
    """The study of right heart catheterisation, without estimator and privacy."""
    return {
        "kind": "effect",
        "name": "rhc",
        "data": {"unit": "unit"},
        "treatment": "catheter",
        "outcome": {"name": "dead_180", "lower": 0, "upper": 1},
        "covariates": {name: dict(bounds) for name, bounds in RHC_COVARIATES.items()},
    }


def rhc(folder: Path) -> pl.DataFrame:
    """The patients of ``folder/rhc.csv``, prepared as the module says: unit, catheter, dead_180 and eight covariates.

    Raises:
        DataError: the file is not there, or is another one.
    """
    path = folder / RHC_FILE
    if not path.is_file():
        raise DataError(f"{path}: no such file; wanted is {RHC_SOURCE}")
    raw = pl.read_csv(path, infer_schema=False, null_values=["NA"])
    wanted = {"ptid", "swang1", "sadmdte", "dthdte", "cat1", "sex", *_RHC_NUMBERS}
    if not wanted <= set(raw.columns):
        raise DataError(f"{path}: lacks columns of the file that Vanderbilt distributes")
    # The file pads numbers with spaces.
    raw = raw.with_columns(pl.col(name).str.strip_chars() for name in wanted)
    survived = pl.col("dthdte").cast(pl.Float64) - pl.col("sadmdte").cast(pl.Float64)
    return raw.select(
        pl.col("ptid").alias("unit"),
        (pl.col("swang1") == "RHC").cast(pl.Int8).alias("catheter"),
        (survived <= 180).fill_null(False).cast(pl.Float64).alias("dead_180"),
        pl.col("cat1").alias("disease"),
        pl.col("sex"),
        *(pl.col(name).cast(pl.Float64).alias(short) for name, short in _RHC_NUMBERS.items()),
    )


def rows_of(study: EffectStudy, frame: pl.DataFrame) -> Rows:
    """The rows of ``frame`` normalised by the study's bounds, in the frame's order, as the stages see them."""
    return Rows(
        encode(study, columns(study, frame), np.arange(frame.height)),
        frame[study.treatment].cast(pl.UInt8).to_numpy(),
        scaled_outcome(study, frame),
    )


def shuffled(rows: Rows, seed: int) -> Rows:
    """Return the rows in an order that the seed fixes."""
    order = np.random.default_rng(seed).permutation(len(rows))
    return Rows(rows.x[order], rows.t[order], rows.u[order])
