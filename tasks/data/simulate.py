"""A synthetic study of any size with a known effect.

It writes Parquet partitions, study.yaml, dataset.yaml and PROVENANCE.md.

The model, with p covariates of which the first k = min(5, p) confound::

    x_j ~ Uniform(-1, 1)
    P(t = 1 | x) = 1 / (1 + exp(-(2/k) sum_{j<=k} x_j))          in [0.119, 0.881]: overlap within clip [0.1, 0.9]
    y = 1/2 + effect (t - 1/2) + (0.2/k) sum_{j<=k} x_j + v,  v ~ Uniform(-0.1, 0.1)

so y lies in [0, 1] whenever |effect| <= 0.4, and the effect is the same number for every unit: ATE = ATT = ATC =
effect exactly, not on average. Partitions are generated one after the other, so memory is bounded by one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from causalveil.schemas.errors import StudyError, in_own_words, kind_of
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.machine.distribute import in_steps
from causalveil.tasks.machine.files import write_whole

LARGEST_EFFECT = 0.4
_LOG_ODDS = 2.0
_OUTCOME = 0.2
_NOISE = 0.1


def simulate(folder: Path, units: int, covariates: int, partitions: int, seed: int, effect: float = 0.1) -> None:
    """Write a synthetic study into ``folder``; the same arguments give the same values.

    Args:
        folder: created; must not exist or be empty.
        units: n >= 2, in all partitions together.
        covariates: p in 1 .. 1000.
        partitions: number of Parquet files, at most ``units``.
        seed: a non-negative integer.
        effect: the true effect, |effect| <= 0.4.

    Raises:
        StudyError: an argument is out of range, or the folder is not empty or cannot be written.
    """
    _check_arguments(units, covariates, partitions, seed, effect)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudyError(f"{folder}: exists and is not an empty folder; name a new one")
    with in_own_words(
        lambda error: StudyError(f"{folder}: cannot be written ({kind_of(error)})"), OSError, pl.exceptions.ComputeError
    ):
        folder.mkdir(parents=True, exist_ok=True)
        edges = [index * units // partitions for index in range(partitions + 1)]
        for index in in_steps(range(partitions), partitions):
            frame = simulated_rows(edges[index], edges[index + 1], covariates, seed, index, effect)
            frame.write_parquet(folder / f"part-{index:05d}.parquet", compression="lz4", statistics=False)
        # The study comes last: a folder that has one is complete.
        for name, text in _documents(units, covariates, partitions, seed, effect).items():
            write_whole(folder / name, text)


def simulated_rows(start: int, stop: int, covariates: int, seed: int, partition: int, effect: float) -> pl.DataFrame:
    """Return rows ``start`` .. ``stop`` - 1 of the model in the module's docstring.

    Returns:
        Columns unit (int64), treated (int8), outcome (float64 in [0, 1]) and one float64 in [-1, 1] a covariate.
    """
    generator = np.random.default_rng([seed, partition])
    rows = stop - start
    names = covariate_names(covariates)
    columns: dict[str, FloatArray | IntArray | NDArray[np.int8]] = {
        "unit": unit_ids(start, stop, seed),
        "treated": np.empty(0, dtype=np.int8),
        "outcome": np.empty(0),
    }
    shared = np.zeros(rows)
    confounders = min(5, covariates)
    for position, name in enumerate(names):
        values = generator.uniform(-1.0, 1.0, rows)
        columns[name] = values
        if position < confounders:
            shared += values / confounders
    treated = generator.random(rows) < 1.0 / (1.0 + np.exp(-_LOG_ODDS * shared))
    outcome = 0.5 + effect * (treated - 0.5) + _OUTCOME * shared + generator.uniform(-_NOISE, _NOISE, rows)
    columns["treated"] = treated.astype(np.int8)
    # The model cannot leave [0, 1]; its rounding can, by an ulp.
    columns["outcome"] = np.clip(outcome, 0.0, 1.0)
    return pl.DataFrame(columns)


def unit_ids(start: int, stop: int, seed: int) -> IntArray:
    """Return distinct 64-bit ids that look random, of units ``start`` to ``stop`` - 1.

    Shape (stop - start,); they are distinct by construction.

    A bijection of 64-bit words: an offset by the seed, then the finaliser of splitmix64 (Steele, Lea & Flood
    2014), whose steps (xor with a shift, multiplication by an odd number) can each be undone.
    """
    offset = np.uint64(np.random.default_rng([seed, 0, 1]).integers(0, 2**64, dtype=np.uint64))
    word = np.arange(start, stop, dtype=np.uint64) + offset
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (word ^ (word >> np.uint64(31))).view(np.int64)


def covariate_names(covariates: int) -> tuple[str, ...]:
    """Return the names x01, x02, ..., with as many digits as sort them by name."""
    width = max(2, len(str(covariates)))
    return tuple(f"x{index:0{width}d}" for index in range(1, covariates + 1))


def penalty(units: int, covariates: int) -> float:
    """Return a penalty that balances shrinkage against noise for this model at epsilon = 1.

    Shrinkage of the propensity model is about lambda / (lambda + h) with h = 0.07 / (p + 1), the curvature of the
    logistic loss per direction of the unit ball; the noise on the coefficients is about 17 / (n lambda), and its
    effect on the estimate falls with sqrt(p + 1). The sum of the two errors is least near
    0.12 sqrt(1 / n) (21 / (p + 1))^(3/4). One significant digit; between 1e-6 and 0.1.
    """
    best = 0.12 * units**-0.5 * (21.0 / (covariates + 1)) ** 0.75
    return float(f"{min(0.1, max(1e-6, best)):.0e}")


def _check_arguments(units: int, covariates: int, partitions: int, seed: int, effect: float) -> None:
    if units < 2:
        raise StudyError(f"{units} units: at least 2 are needed, one for each half of the split")
    if not 1 <= covariates <= 1000:
        raise StudyError(f"{covariates} covariates: choose 1 to 1000")
    if not 1 <= partitions <= min(units, 99_999):
        raise StudyError(f"{partitions} partitions: choose 1 to {min(units, 99_999)}")
    if seed < 0:
        raise StudyError(f"seed {seed}: choose a number from 0 up")
    if not abs(effect) <= LARGEST_EFFECT:
        raise StudyError(
            f"effect {effect}: outcomes stay in [0, 1] for effects of {LARGEST_EFFECT} at most, either way"
        )


def _documents(units: int, covariates: int, partitions: int, seed: int, effect: float) -> dict[str, str]:
    """The files beside the data, study.yaml last."""
    dataset = f"simulated-{units}-{covariates}-{partitions}-{seed}"
    provenance = f"""# Provenance

Synthetic rows made by `causalveil simulate`, not the data of any person. Rights: none claimed.

| units | covariates | partitions | seed | true effect (ATE = ATT = ATC) |
|---|---|---|---|---|
| {units} | {covariates} | {partitions} | {seed} | {effect:g} |

Covariates are uniform on [-1, 1]. With m the mean of the first {min(5, covariates)} of them, a unit is treated with
probability 1 / (1 + exp(-{_LOG_ODDS:g} m)), which lies between 0.119 and 0.881, and its outcome is
1/2 + {effect:g} (treated - 1/2) + {_OUTCOME:g} m + v with v uniform on [-{_NOISE:g}, {_NOISE:g}]: always in [0, 1].
The effect is the same for every unit, so it is exact in this sample and not only on average.
"""
    columns = "\n".join(f"  {name}: {{lower: -1, upper: 1}}" for name in covariate_names(covariates))
    contract = f"""dataset: {dataset}
data_class: synthetic
ledger: null
unit: unit
columns:
  treated: {{codes: {{control: 0, treated: 1}}}}
  outcome: {{lower: 0, upper: 1}}
{columns}
public: [treated, {", ".join(covariate_names(covariates))}]
caps:
  sample: {{epsilon: 10, delta: 1.0e-4}}
  label: {{epsilon: 10, delta: 1.0e-4}}
  training_units: {{epsilon: 10, delta: 1.0e-4}}
estimators: [regression, balancing, ipw, matching, difference_in_means]
guarantees: [finite_sample]
"""
    study = f"""# Synthetic: the true effect is {effect:g} for every unit (see PROVENANCE.md).
kind: effect
name: {dataset}
treatment: treated
outcome: {{name: outcome}}
covariates: [{", ".join(covariate_names(covariates))}]
estimand: ATE
estimator: {{name: auto}}
privacy: {{epsilon: 1.0, delta: 1.0e-6, level: sample, neighbours: replace_one}}
confidence: 0.95
"""
    return {"PROVENANCE.md": provenance, "dataset.yaml": contract, "study.yaml": study}
