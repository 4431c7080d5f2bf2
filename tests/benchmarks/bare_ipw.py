"""The same passes over the same partitions in bare polars and numpy: no privacy, no ledger, no schema library.

    python tests/benchmarks/bare_ipw.py FOLDER

One pass checks nulls, infinities and treatment and hashes the units (uniqueness over all partitions); one pass
normalises and writes the encoded rows; Newton iterations over the training half; one pass over the other half for the
weighted sums. It is what a skilled analyst would write for one study, and the yardstick of `bench_study.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import yaml


def main(folder: Path) -> None:
    study = yaml.safe_load((folder / "study.yaml").read_text())
    contract = yaml.safe_load((folder / "dataset.yaml").read_text())
    unit, treatment, outcome = contract["unit"], study["treatment"], study["outcome"]["name"]
    declared = {name: contract["columns"][name] for name in sorted(study["covariates"])}
    bounds = {name: (column["lower"], column["upper"]) for name, column in declared.items()}
    penalty, (w1, w2) = float(study["estimator"]["penalty"]), study["estimator"].get("clip", [0.1, 0.9])
    files = sorted(folder.rglob("*.parquet"))
    columns = [unit, treatment, outcome, *bounds]
    numeric = [outcome, *bounds]

    hashes = []
    for file in files:
        frame = pl.read_parquet(file, columns=columns)
        checks = frame.select(
            nulls=pl.sum_horizontal(pl.col(columns).is_null().sum()),
            finite=pl.all_horizontal(pl.col(numeric).is_finite().all()),
            binary=pl.col(treatment).cast(pl.Float64).is_in([0.0, 1.0]).all(),
        ).row(0)
        if checks != (0, True, True):
            raise SystemExit("bad data")
        hashes.append(frame[unit].hash(seed=7).to_numpy())
    everyone = np.sort(np.concatenate(hashes))
    if (everyone[1:] == everyone[:-1]).any():
        raise SystemExit("a unit stands twice")
    train_size = round(0.5 * len(everyone))
    threshold = everyone[train_size]
    del everyone

    d = len(bounds) + 1
    with tempfile.TemporaryDirectory() as scratch:
        cuts = []
        for index, file in enumerate(files):
            frame = pl.read_parquet(file, columns=columns)
            order = np.argsort(hashes[index])
            cuts.append(int((hashes[index] < threshold).sum()))
            x = np.empty((len(order), d))
            for column, (name, (low, high)) in enumerate(bounds.items()):
                values = frame[name].to_numpy()[order]
                x[:, column] = (np.clip(values, low, high) - (low + high) / 2) / ((high - low) / 2)
            x[:, -1] = 1
            x /= np.sqrt(d)
            np.save(f"{scratch}/x{index}.npy", x)
            np.save(f"{scratch}/t{index}.npy", frame[treatment].cast(pl.Float64).to_numpy()[order])
            np.save(f"{scratch}/y{index}.npy", frame[outcome].to_numpy()[order])
            del frame, x

        def load(name: str, index: int) -> np.ndarray:
            return np.load(f"{scratch}/{name}{index}.npy", mmap_mode="r")

        w = np.zeros(d)
        for _ in range(50):
            gradient, hessian = np.zeros(d), np.zeros((d, d))
            for index, cut in enumerate(cuts):
                for start in range(0, cut, 65536):
                    x, t = (
                        load("x", index)[start : min(start + 65536, cut)],
                        load("t", index)[start : min(start + 65536, cut)],
                    )
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
    print(sums[0] / sums[1] - sums[2] / sums[3])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
