"""Make the three hospitals of data/sites/ again: synthetic patients (see PROVENANCE.md).

uv run python data/sites/prepare.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

HERE = Path(__file__).parent
SEED = 20260301
# Name: patients, effect of early physiotherapy in days, epsilon that the owner lets a study spend, partitions.
HOSPITALS = {"north": (12_000, -2.0, 10, 2), "coast": (8_000, -1.6, 5, 2), "valley": (5_000, -2.3, 10, 1)}
# Counts of the year before, which treatment cannot change: mean of the healthiest, and the declared upper bound.
BEFORE = {
    "visits_before": (2.0, 12),
    "admissions_before": (0.4, 5),
    "prescriptions_before": (3.0, 15),
    "scans_before": (0.6, 6),
    "falls_before": (0.3, 4),
}
WARDS = ("medical", "surgical", "neurological")


def patients(hospital: int, units: int, effect: float) -> pl.DataFrame:
    """The patients of one hospital; ids of different hospitals never meet."""
    random = np.random.default_rng([SEED, hospital])
    age = random.integers(18, 101, units)
    severity = random.uniform(0, 10, units)
    ward = random.choice(WARDS, units, p=(0.5, 0.3, 0.2))
    early = random.random(units) < 1 / (1 + np.exp(-0.04 * (severity - 5)))
    days = 12 + 0.04 * (age - 60) + 0.5 * (severity - 5) + 2 * (ward == "neurological") + effect * (early - 0.5)
    days = np.clip(np.round(days + random.normal(0, 3.5, units)), 0, 30)
    order = random.permutation(units)
    # What the protocol asks besides; drawn apart, so that the columns above stay what they were.
    more = np.random.default_rng([SEED, hospital, 1])
    readmitted = more.random(units) < 0.08 + 0.012 * severity - 0.05 * early
    before = {
        name: np.clip(more.poisson(mean + 0.12 * severity, units), 0, most).astype(np.int16)
        for name, (mean, most) in BEFORE.items()
    }
    # The first year after discharge: readmission, death, or the end of follow-up, whichever comes first.
    later = np.random.default_rng([SEED, hospital, 2])
    means = (900 * np.exp(0.5 * early - severity / 10), 3000, 1500)
    back, death, lost = (later.exponential(mean, units) for mean in means)
    first = np.minimum(np.minimum(back, death), np.minimum(lost, 365))
    status = np.where(first == back, 1, np.where(first == death, 2, 0)).astype(np.int8)
    return pl.DataFrame(
        {
            "patient_id": (hospital + 1) * 1_000_000 + order.astype(np.int64),
            "early_physiotherapy": early,
            "days_in_hospital": days.astype(np.int16),
            "age": age.astype(np.int16),
            "severity": np.round(severity, 1),
            "ward": ward,
            "readmitted": readmitted,
            **before,
            "days_at_home": np.ceil(first).astype(np.int16),
            "status": status,
        }
    )


def contract(name: str, epsilon: int) -> str:
    """The word of a hospital's owner."""
    before = "\n".join(f"  {name}: {{lower: 0, upper: {most}}}" for name, (_, most) in BEFORE.items())
    return f"""# Written by the owner of this hospital's data.
dataset: {name}-patients
data_class: synthetic
ledger: null
unit: patient_id
columns:
  early_physiotherapy: {{codes: {{control: false, treated: true}}}}
  days_in_hospital: {{lower: 0, upper: 30, unit_of_measure: days}}
  age: {{lower: 18, upper: 100, unit_of_measure: years}}
  severity: {{lower: 0, upper: 10}}
  ward: {{levels: [medical, surgical, neurological]}}
  readmitted: {{codes: {{no: false, yes: true}}}}
{before}
  days_at_home: {{time: {{upper: 365, origin: discharged}}, unit_of_measure: days}}
  status: {{event: {{at home: 0, readmission: 1, death: 2}}}}
public: []
caps:
  sample: {{epsilon: {epsilon}, delta: 1.0e-5}}
estimators: [ipw, regression, survival]
guarantees: [finite_sample]
"""


if __name__ == "__main__":
    for hospital, (name, (units, effect, epsilon, partitions)) in enumerate(HOSPITALS.items()):
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        frame = patients(hospital, units, effect)
        size = -(-units // partitions)
        for part in range(partitions):
            frame.slice(part * size, size).write_parquet(
                folder / f"part-{part:02d}.parquet", compression="zstd", statistics=False
            )
        (folder / "dataset.yaml").write_text(contract(name, epsilon), encoding="utf-8")
