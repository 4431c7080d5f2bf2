"""Studies, people and whole analyses for tests of times to an event."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from causalveil.flows.sequence.rehearse import rehearse
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.studies import parse_study
from causalveil.tasks.enclave.enclave import MemoryEnclave, ranks
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.survival.findings import SurvivalFindings
from causalveil.tasks.survival.grid import ARMS, Grid
from tests.studies import CONTRACT, merge, write_study

HORIZON = 365.0
STUDY: dict[str, Any] = {
    "kind": "effect",
    "name": "small",
    "treatment": "treated",
    "outcome": {"time": "days", "event": "status", "of": ["death"], "horizon": 365},
    "estimator": {"name": "survival", "trial": True},
    "privacy": {"epsilon": "1.0", "delta": "1e-6"},
}
TIMES = {
    "days": {"time": {"upper": 3650, "origin": "randomised"}, "unit_of_measure": "days"},
    "status": {"event": {"alive": 0, "relapse": 1, "death": 2}},
}
OWNER = CONTRACT | {
    "columns": {"treated": CONTRACT["columns"]["treated"], **TIMES},
    "public": ["treated"],
    "estimators": ["survival"],
}
IN_FULL: dict[str, Any] = {
    "time": "days",
    "event": "status",
    "unit_of_measure": "days",
    "of": ["death"],
    "horizon": HORIZON,
    "upper": 3650,
    "origin": "randomised",
    "step": 1,
    "codes": {"alive": 0, "relapse": 1, "death": 2},
    "censoring": "alive",
}
ONE_KIND = {"codes": {"alive": 0, "death": 1}}


def make_survival(competing: bool = True, **changes: Any) -> SurvivalStudy:
    """A study in full; keys of privacy and of the estimator may stand at the top."""
    privacy = {key: changes.pop(key) for key in ("epsilon", "delta", "level") if key in changes}
    estimator = {key: changes.pop(key) for key in ("trial", "confounding_prior") if key in changes}
    base = STUDY | {
        "data": {"path": ".", "unit": "person"},
        "execution": {"engine": "direct", "workers": 1},
        "outcome": IN_FULL if competing else {**IN_FULL, **ONE_KIND},
    }
    study = parse_study(merge(base, {"privacy": privacy, "estimator": estimator, **changes}))
    assert isinstance(study, SurvivalStudy)
    return study


def patients(n: int, seed: int = 0) -> pl.DataFrame:
    """`n` people of a trial: relapses, deaths, and people lost, in days; some outlive the horizon."""
    random = np.random.default_rng(seed)
    treated = random.random(n) < 0.5
    death, relapse, lost = (random.exponential(mean, n) for mean in (500, 1200, 900))
    death = np.where(treated, death * 1.6, death)
    first = np.minimum(np.minimum(death, relapse), lost)
    status = np.where(first == death, 2, np.where(first == relapse, 1, 0))
    return pl.DataFrame(
        {
            "person": np.arange(n) + 1000,
            "treated": treated,
            "days": np.minimum(np.ceil(first), 1500.0),
            "status": np.where(first > 1500, 0, status),
        }
    )


def write_survival(
    folder: Path,
    *,
    frame: pl.DataFrame | None = None,
    partitions: int = 2,
    study: dict[str, Any] | None = None,
    contract: dict[str, Any] | None = None,
) -> Path:
    """Write study, contract and partitions below `folder`; return the study's path."""
    people = patients(400) if frame is None else frame
    base = STUDY, OWNER
    return write_study(folder, frame=people, partitions=partitions, study=study, contract=contract, base=base)


@dataclass(frozen=True)
class People:
    """Arm, time and kind of event (0: censored) of each person."""

    arm: ByteArray
    time: FloatArray
    kind: ByteArray

    def __len__(self) -> int:
        return len(self.arm)

    def enclave(self) -> MemoryEnclave:
        return MemoryEnclave([{"t": self.arm, "u": self.time, "k": self.kind, "h": ranks(len(self))}])

    def counts(self, grid: Grid) -> FloatArray:
        found = np.bincount(grid.cell(self.arm, self.time, self.kind), minlength=ARMS * grid.cells)
        return found.reshape(ARMS, grid.cells).astype(np.float64)


def found_of(study: SurvivalStudy, people: People, seed: int) -> SurvivalFindings:
    """What the study's own stages find of these people with noise of this seed."""
    found = rehearse(study, people.enclave(), RehearsalBudget(seed), seed)
    assert isinstance(found, SurvivalFindings)
    return found
