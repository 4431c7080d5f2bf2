"""Public tables beside simulated people: IHDP, LaLonde, right heart catheterisation, fertility.

IHDP (Hill 2011) has real covariates and simulated outcomes whose mean effect in the table is known, in up to five
draws. RHC with simulated outcomes draws patients with replacement, and treatment and death from two logistic curves of
fixed coefficients; its truth is the mean risk difference over all patients. The other three are as they are: their
truth is not known, and what an interval should hold is taken to be least squares on the same rows, so that their error
is that of noise and method, not of sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from causalveil.schemas.documents import read_yaml
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import StandIn
from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.accuracy.populations import SEED, STAND_IN_RUN, KnownPopulation
from causalveil_replication.schroeder2025.data import RHC_COVARIATES, RHC_FILE, rhc
from causalveil_replication.yuan2026.data import load

# Columns of a file of IHDP before its covariates: treatment, outcome, counterfactual, mu0, mu1.
IHDP_FIRST = 5
IHDP_RANGES = ((-3, 2), (-4, 3), (-2, 3), (-1, 2.5), (-5.5, 2.5), (-2, 3), *[(0, 1)] * 7, (1, 2), *[(0, 1)] * 11)
# What the simulated log odds of treatment and death take from patients' standardised covariates.
SIMULATED_TREATMENT, SIMULATED_OUTCOME, SIMULATED_EFFECT = 0.8, 0.8, 0.4


TITLES = {
    "ihdp": "IHDP, simulated outcomes",
    "lalonde": "LaLonde's 445 men, a trial",
    "rhc": "RHC, death within 180 days",
    "rhc-simulated": "RHC, simulated outcomes",
    "fertility": "fertility, weeks worked",
}


def _nobody(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    raise NotImplementedError


@dataclass(frozen=True)
class PublicTable(KnownPopulation):
    """A table, or several draws of one, in place of a generator.

    Attributes:
        frames: columns unit, t, y and the covariates; run k has the k-th of them, again and again.
        truths: what an interval of each should hold.
        simulated: from a generator and the table: treatment and outcome anew, for rows drawn with replacement.
        known: whether the truth is one, not least squares on the same rows.
    """

    frames: tuple[pl.DataFrame, ...] = ()
    truths: tuple[float, ...] = ()
    simulated: Callable[[np.random.Generator, pl.DataFrame], pl.DataFrame] | None = None
    known: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The table's number of rows."""
        return (self.frames[0].height,)

    @property
    def chance(self) -> float:
        """The share that the trial treated."""
        return float(self.frames[0]["t"].to_numpy().mean())

    def truth_in(self, run: int) -> float:
        """The effect in the draw of run ``run``, or least squares on it."""
        return self.truths[run % len(self.truths)]

    def stand_in(self) -> StandIn:
        """What a planner would have to guess, on average over the draws that runs are of."""
        if self.simulated is not None:
            return super().stand_in()
        return _average([self._stand_in_of(frame) for frame in self.frames])

    def draw(self, units: int, run: int) -> pl.DataFrame:
        """All rows in an order of the run's own, from which halves and folds are cut; ``units`` is theirs."""
        del units
        random = np.random.default_rng([SEED, *self.name.encode(), run])
        frame = self.frames[0 if run == STAND_IN_RUN else run % len(self.frames)]
        if self.simulated is not None:
            frame = self.simulated(random, frame[random.integers(0, frame.height, frame.height)])
        return frame[random.permutation(frame.height)].with_columns(unit=np.arange(frame.height))


def _average(found: Sequence[StandIn]) -> StandIn:
    """Of several draws of one table."""
    each = [one.model_dump() for one in found]
    known = {name: [one[name] for one in each] for name in each[0] if each[0][name] is not None}
    return StandIn(**{name: float(np.mean(values)) for name, values in known.items()})


def public_tables(folders: Sequence[Path]) -> tuple[dict[str, PublicTable], list[str]]:
    """The tables whose files lie below ``folders``, by name, and a sentence for each that is left out.

    Raises:
        DataError: a file is there but not as published.
    """
    found: dict[str, PublicTable] = {}
    missing = []
    for title, maker in (("IHDP", _ihdp), ("LaLonde", _lalonde), ("RHC", _rhc), ("fertility", _fertility)):
        some = maker(tuple(folders))
        if not some:
            missing.append(f"{title} is left out: no folder named by --data has its files.")
        found |= {one.name: one for one in some}
    return found, missing


def _find(folders: Sequence[Path], pattern: str) -> list[Path]:
    return next((found for folder in folders if (found := sorted(folder.rglob(pattern)))), [])


def _ihdp(folders: tuple[Path, ...]) -> list[PublicTable]:
    files = _find(folders, "ihdp_[1-5].csv")
    frames, truths = [], []
    for file in files:
        values = pl.read_csv(file, has_header=False, schema_overrides=[pl.Float64] * 30).to_numpy()
        if values.shape[1] != IHDP_FIRST + len(IHDP_RANGES):
            raise DataError(f"{file.name}: is not IHDP as published, which has 30 columns")
        columns = {f"x{place + 1:02d}": values[:, IHDP_FIRST + place] for place in range(len(IHDP_RANGES))}
        frames.append(pl.DataFrame({"unit": np.arange(len(values)), "t": values[:, 0], "y": values[:, 1], **columns}))
        truths.append(float(np.mean(values[:, 4] - values[:, 3])))
    if not frames:
        return []
    declared: dict[str, dict[str, Any]] = {
        f"x{place + 1:02d}": _declared(*ends) for place, ends in enumerate(IHDP_RANGES)
    }
    # The outcome's range is that of the first draw, wide enough for most of the others.
    return [
        PublicTable(
            "ihdp", TITLES["ihdp"], 4.0, (-6, 16), declared, _nobody, False, tuple(frames), tuple(truths), known=True
        )
    ]


def _declared(low: float, high: float) -> dict[str, Any]:
    return {"levels": [low, high]} if high - low == 1 else {"lower": low, "upper": high}


def _lalonde(folders: tuple[Path, ...]) -> list[PublicTable]:
    found = load("LaLonde", folders)
    if found is None:
        return []
    frame = found.frame.rename({"treated": "t", "outcome": "y"})
    declared = {name: _declared(kind["lower"], kind["upper"]) for name, kind in found.covariates.items()}
    return [_as_it_is("lalonde", frame, (0, 61_000), declared, trial=True)]


def _rhc(folders: tuple[Path, ...]) -> list[PublicTable]:
    found = _find(folders, RHC_FILE)
    if not found:
        return []
    frame = rhc(found[0].parent).rename({"catheter": "t", "dead_180": "y"})
    frame, declared = _coded(frame, {name: dict(kind) for name, kind in RHC_COVARIATES.items()})
    x = _standardised(frame, list(declared))
    truth = float(np.mean(_chance(x, 1.0) - _chance(x, 0.0)))
    plain = _as_it_is("rhc", frame, (0, 1), declared)
    simulated = PublicTable(
        "rhc-simulated", TITLES["rhc-simulated"], truth, (0, 1), declared, _nobody, False, (frame,), (truth,),
        _Simulated(tuple(declared), frame), True,
    )  # fmt: skip
    return [plain, simulated]


@dataclass(frozen=True)
class _Simulated:
    """Treatment and death of patients, by logistic curves of one index of all covariates."""

    names: tuple[str, ...]
    table: pl.DataFrame

    def __call__(self, random: np.random.Generator, frame: pl.DataFrame) -> pl.DataFrame:
        """The same patients, treated and dead anew."""
        x = _standardised(frame, list(self.names), self.table)
        chance = 1 / (1 + np.exp(0.4 - SIMULATED_TREATMENT * _index(x)))
        t = (random.random(len(x)) < chance).astype(np.float64)
        y = (random.random(len(x)) < _chance(x, t)).astype(np.float64)
        return frame.with_columns(t=t, y=y)


def _index(x: FloatArray) -> FloatArray:
    found: FloatArray = x @ np.linspace(1.0, 0.4, x.shape[1]) / np.sqrt(np.sum(np.linspace(1.0, 0.4, x.shape[1]) ** 2))
    return found


def _chance(x: FloatArray, t: FloatArray | float) -> FloatArray:
    odds = SIMULATED_OUTCOME * _index(x) + 0.3 * x[:, 0] * x[:, 1] + SIMULATED_EFFECT * np.asarray(t)
    found: FloatArray = 1 / (1 + np.exp(-odds))
    return found


def _standardised(frame: pl.DataFrame, names: list[str], table: pl.DataFrame | None = None) -> FloatArray:
    own = (frame if table is None else table).select(names).to_numpy().astype(np.float64)
    found: FloatArray = (frame.select(names).to_numpy().astype(np.float64) - own.mean(axis=0)) / own.std(axis=0)
    return found


def _fertility(folders: tuple[Path, ...]) -> list[PublicTable]:
    parts, contracts = _find(folders, "fertility/part-*.parquet"), _find(folders, "fertility/dataset.yaml")
    if not parts or not contracts:
        return []
    said = read_yaml(contracts[0])["columns"]
    names = ("age", "ethnicity", "first_girl", "second_girl")
    declared = {
        name: {"levels": [0, 1]}
        if "codes" in said[name]
        else {key: said[name][key] for key in ("lower", "upper", "levels") if key in said[name]}
        for name in names
    }
    frame = pl.concat([pl.read_parquet(part) for part in parts]).rename({"more_than_two": "t", "weeks": "y"})
    frame, declared = _coded(frame, declared)
    return [_as_it_is("fertility", frame, (0, 52), declared)]


def _coded(frame: pl.DataFrame, declared: dict[str, dict[str, Any]]) -> tuple[pl.DataFrame, dict[str, dict[str, Any]]]:
    """Levels by their number in the declared order, as they are what sums of squares are made of."""
    for name, kind in declared.items():
        levels = kind.get("levels")
        if levels is not None and frame[name].dtype == pl.String:
            order = {level: place for place, level in enumerate(levels)}
            frame = frame.with_columns(pl.col(name).replace_strict(order, return_dtype=pl.Int64))
            kind["levels"] = list(range(len(levels)))
    return frame, declared


def _as_it_is(
    name: str,
    frame: pl.DataFrame,
    outcome: tuple[float, float],
    declared: dict[str, dict[str, Any]],
    trial: bool = False,
) -> PublicTable:
    """A table whose truth is taken to be least squares on it."""
    kinds = {place: pl.Int64 if "levels" in kind else pl.Float64 for place, kind in declared.items()}
    kept = frame.select(
        unit=pl.int_range(frame.height),
        t=pl.col("t").cast(pl.UInt8),
        y=pl.col("y").cast(pl.Float64),
        **{column: pl.col(column).cast(kind) for column, kind in kinds.items()},
    )
    reference = least_squares(kept, declared)
    return PublicTable(name, TITLES[name], reference, outcome, declared, _nobody, trial, (kept,), (reference,))


def design_matrix(frame: pl.DataFrame, declared: Any) -> FloatArray:
    """Covariates as numbers, shape (n, columns): one column a level but the first."""
    columns: list[FloatArray] = []
    for name, kind in declared.items():
        values = frame[name].to_numpy().astype(np.float64)
        levels = kind.get("levels")
        columns += [values] if levels is None else [(values == level).astype(np.float64) for level in levels[1:]]
    return np.column_stack(columns)


def least_squares(frame: pl.DataFrame, declared: Any) -> float:
    """The coefficient of treatment beside all covariates, without privacy."""
    x = design_matrix(frame, declared)
    matrix = np.column_stack([np.ones(len(x)), frame["t"].to_numpy().astype(np.float64), x])
    found, *_ = np.linalg.lstsq(matrix, frame["y"].to_numpy().astype(np.float64), rcond=None)
    return float(found[1])
