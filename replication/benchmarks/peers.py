"""What people write or use in place of a run, on the same rows: no privacy, no ledger. Used by `speed.py`.

    PYTHON replication/benchmarks/peers.py METHOD STUDY.yaml

The interpreter needs the package; nothing of causalveil is imported. ``regression`` and ``ipw`` are what a skilled
analyst writes for one study in polars and numpy, with the same passes: rows are held to their declared types, no unit
stands twice, and partitions are read one after the other. The packages read all rows and fit them as their guides say.
Prints the estimate, and a standard error where there is one.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml


@dataclass(frozen=True)
class Asked:
    """A study with the ranges that its contract declares."""

    files: list[Path]
    unit: str
    treatment: str
    outcome: str
    bounds: dict[str, tuple[float, float]]
    estimator: dict[str, Any]

    @classmethod
    def of(cls, path: Path) -> Asked:
        study, contract = (yaml.safe_load(one.read_text()) for one in (path, path.with_name("dataset.yaml")))
        declared = {name: contract["columns"][name] for name in sorted(study["covariates"])}
        return cls(
            sorted(path.parent.rglob("*.parquet")),
            contract["unit"],
            study["treatment"],
            study["outcome"]["name"],
            {name: (column["lower"], column["upper"]) for name, column in declared.items()},
            study["estimator"],
        )

    @property
    def columns(self) -> list[str]:
        return [self.unit, self.treatment, self.outcome, *self.bounds]

    def checked(self) -> Iterator[pl.DataFrame]:
        """Each partition, once it is held to its types."""
        for file in self.files:
            frame = pl.read_parquet(file, columns=self.columns)
            checks = frame.select(
                nulls=pl.sum_horizontal(pl.col(self.columns).is_null().sum()),
                finite=pl.all_horizontal(pl.col(self.outcome, *self.bounds).is_finite().all()),
                binary=pl.col(self.treatment).cast(pl.Float64).is_in([0.0, 1.0]).all(),
            ).row(0)
            if checks != (0, True, True):
                raise SystemExit("bad data")
            yield frame

    def encoded(self, frame: pl.DataFrame) -> np.ndarray:
        """Covariates in [-1, 1] and a constant."""
        x = np.ones((len(frame), len(self.bounds) + 1))
        for column, (name, (low, high)) in enumerate(self.bounds.items()):
            x[:, column] = (np.clip(frame[name].to_numpy(), low, high) - (low + high) / 2) / ((high - low) / 2)
        return x

    def whole(self) -> pl.DataFrame:
        """All rows, in memory, the treatment as a number."""
        return pl.read_parquet(self.files, columns=self.columns).with_columns(pl.col(self.treatment).cast(pl.Float64))


def once(hashes: list[np.ndarray]) -> np.ndarray:
    """All hashes in order; no unit stands twice."""
    everyone = np.sort(np.concatenate(hashes))
    if (everyone[1:] == everyone[:-1]).any():
        raise SystemExit("a unit stands twice")
    return everyone


def regression(asked: Asked) -> tuple[float, float]:
    """Least squares on the treatment and the covariates, with White's standard error, in two passes."""
    d = len(asked.bounds) + 2
    gram, cross, hashes = np.zeros((d, d)), np.zeros(d), []

    def rows(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        treated = frame[asked.treatment].cast(pl.Float64).to_numpy()
        return np.column_stack([treated, asked.encoded(frame)]), frame[asked.outcome].to_numpy()

    for frame in asked.checked():
        hashes.append(frame[asked.unit].hash(seed=7).to_numpy())
        x, y = rows(frame)
        gram += x.T @ x
        cross += x.T @ y
    once(hashes)
    beta, meat = np.linalg.solve(gram, cross), np.zeros((d, d))
    for file in asked.files:
        x, y = rows(pl.read_parquet(file, columns=asked.columns))
        x *= (y - x @ beta)[:, None]
        meat += x.T @ x
    bread = np.linalg.inv(gram)
    return float(beta[0]), float(np.sqrt((bread @ meat @ bread)[0, 0]))


def ipw(asked: Asked) -> tuple[float]:
    """A ridge logistic fit by Newton's steps on half of the units, and weighted means of the others."""
    penalty, (w1, w2) = float(asked.estimator["penalty"]), asked.estimator.get("clip", [0.1, 0.9])
    hashes = [frame[asked.unit].hash(seed=7).to_numpy() for frame in asked.checked()]
    everyone = once(hashes)
    train_size = round(0.5 * len(everyone))
    threshold, d, cuts = everyone[train_size], len(asked.bounds) + 1, []
    del everyone
    with tempfile.TemporaryDirectory() as scratch:

        def load(name: str, index: int) -> np.ndarray:
            return np.load(f"{scratch}/{name}{index}.npy", mmap_mode="r")

        for index, file in enumerate(asked.files):
            frame = pl.read_parquet(file, columns=asked.columns)
            order = np.argsort(hashes[index])
            cuts.append(int((hashes[index] < threshold).sum()))
            frame = frame[order]
            np.save(f"{scratch}/x{index}.npy", asked.encoded(frame) / np.sqrt(d))
            np.save(f"{scratch}/t{index}.npy", frame[asked.treatment].cast(pl.Float64).to_numpy())
            np.save(f"{scratch}/y{index}.npy", frame[asked.outcome].to_numpy())
        w = np.zeros(d)
        for _ in range(50):
            gradient, hessian = np.zeros(d), np.zeros((d, d))
            for index, cut in enumerate(cuts):
                for start in range(0, cut, 65536):
                    part = slice(start, min(start + 65536, cut))
                    x, t = load("x", index)[part], load("t", index)[part]
                    p = 1 / (1 + np.exp(-(x @ w)))
                    gradient += x.T @ (p - t)
                    hessian += (x * (p * (1 - p))[:, None]).T @ x
            gradient = gradient / train_size + penalty * w
            if np.linalg.norm(gradient) <= 1e-10:
                break
            w -= np.linalg.solve(hessian / train_size + penalty * np.eye(d), gradient)
        sums = np.zeros(4)
        for index, cut in enumerate(cuts):
            x, t, y = load("x", index)[cut:], load("t", index)[cut:], load("y", index)[cut:]
            p = np.clip(1 / (1 + np.exp(-(x @ w))), w1, w2)
            treated, control = t / p, (1 - t) / (1 - p)
            sums += [treated @ y, treated.sum(), control @ y, control.sum()]
    return (float(sums[0] / sums[1] - sums[2] / sums[3]),)


def statsmodels(asked: Asked) -> tuple[float, float]:
    import statsmodels.api as sm

    frame = asked.whole()
    x = sm.add_constant(frame.select(asked.treatment, *asked.bounds).to_numpy())
    found = sm.OLS(frame[asked.outcome].to_numpy(), x).fit(cov_type="HC1")
    return float(found.params[1]), float(found.bse[1])


def pyfixest(asked: Asked) -> tuple[float, float]:
    import pyfixest as pf

    found = pf.feols(
        f"{asked.outcome} ~ {' + '.join([asked.treatment, *asked.bounds])}", asked.whole().to_pandas(), vcov="HC1"
    )
    return float(found.coef()[asked.treatment]), float(found.se()[asked.treatment])


def doubleml(asked: Asked) -> tuple[float, float]:
    from sklearn.linear_model import LinearRegression, LogisticRegression

    return _irm(asked, LinearRegression(), LogisticRegression())


def doubleml_trees(asked: Asked) -> tuple[float, float]:
    from lightgbm import LGBMClassifier, LGBMRegressor

    return _irm(asked, LGBMRegressor(verbose=-1, n_jobs=1), LGBMClassifier(verbose=-1, n_jobs=1))


def _irm(asked: Asked, outcome: Any, propensity: Any) -> tuple[float, float]:
    """Cross-fitted AIPW of five folds, as DoubleML does by default."""
    import doubleml as dml

    frame = asked.whole().to_pandas()
    data = dml.DoubleMLData(frame, y_col=asked.outcome, d_cols=asked.treatment, x_cols=list(asked.bounds))
    found = dml.DoubleMLIRM(data, outcome, propensity).fit()
    return float(found.coef[0]), float(found.se[0])


METHODS: dict[str, Callable[[Asked], tuple[float, ...]]] = {
    one.__name__: one for one in (regression, ipw, statsmodels, pyfixest, doubleml, doubleml_trees)
}

if __name__ == "__main__":
    print(*METHODS[sys.argv[1]](Asked.of(Path(sys.argv[2]))))
