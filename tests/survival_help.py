"""Studies, people and whole analyses for tests of times to an event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from jsonschema import Draft202012Validator

from causalveil.flows.api import run_study
from causalveil.flows.run.estimators import rehearse
from causalveil.flows.run.finished import RunResult
from causalveil.schemas.asked.compare import asks_for
from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.estimators.survival import Measure, SurvivalEstimator, SurvivalStudy
from causalveil.schemas.studies import parse_study
from causalveil.tasks.data.enclave import MemoryEnclave, ranks
from causalveil.tasks.data.normalise import columns, encode
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.times.answers import findings_of
from causalveil.tasks.estimate.times.curves import ARMS, Grid, NoisyCells
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.pseudo import TimesOutcomes, times_outcomes, values_by_cell
from causalveil.tasks.estimate.times.releases import JointCells, QuestionCells, grid_of, strata_of_rows
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import CONTRACT, RESOLVED, lifted, merge, resolved, write_study

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


def exact_cells(counts: FloatArray, grid: Grid) -> NoisyCells:
    """Return counts without noise, as if they had been released so; shape (2, cells)."""
    size = ARMS * grid.cells
    return NoisyCells(grid, np.asarray(counts, np.float64), np.zeros((size, size)))


def read_cells(released: FloatArray, study: SurvivalStudy, n: int) -> NoisyCells:
    """Return both arms of everybody, as a study reads them off what was released of n people."""
    cells = JointCells.read(released, study, sizes_of(study, n))
    return cells.two_arms(cells.members(None), 1).cells


def outcomes_of(grid: Grid, counts: FloatArray, measure: Measure, size: float = 0.0) -> TimesOutcomes:
    """Outcomes that counts of both arms make of one question, with noise of this size; shape (2, cells)."""
    outcome = {"horizon": grid.horizon, "step": grid.horizon / 100}
    asked = {"trial": False, "covariates": {"x": {"lower": 0, "upper": 1}}, "measure": [measure]}
    study = make_survival(grid.kinds == 2, intervals=grid.intervals, outcome=outcome, **asked)
    cells = JointCells(grid_of(study, 1_000), counts[None].astype(np.float64), np.eye(grid.cells) * size**2, None)
    return times_outcomes(study, cells)


def by_cell(both: TwoArms, measure: Measure) -> FloatArray:
    """Outcomes of both arms by cell before they are scaled, shape (2, cells)."""
    part = QuestionCells(both.grid, np.eye(both.grid.cells))
    return np.stack([values_by_cell(both, measure, side, part) for side in range(ARMS)])


def exact_findings(study: SurvivalStudy, counts: FloatArray) -> Findings:
    """Return what a study reads off counts without noise; shape (2, cells)."""
    size, grid = counts.shape[1], grid_of(study, max(round(float(counts.sum())), 1))
    return findings_of(study, JointCells(grid, counts[None].astype(np.float64), np.zeros((size, size)), None))


def make_survival(competing: bool = True, **changes: Any) -> SurvivalStudy:
    """A study in full; keys of privacy and of the estimator may stand at the top."""
    return in_full(STUDY | {"outcome": IN_FULL if competing else {**IN_FULL, **ONE_KIND}}, changes)


def in_full(base: dict[str, Any], changes: dict[str, Any]) -> SurvivalStudy:
    """A study of times with changes, as the contract completes it."""
    place = {key: RESOLVED[key] for key in ("data", "execution")}
    return cast(SurvivalStudy, parse_study(merge(base | place, lifted(SurvivalEstimator, changes))))


# A protocol of times: three questions of deaths and relapses, with two horizons.
MANY: dict[str, Any] = {
    "kind": "effect",
    "name": "many",
    "treatment": "treated",
    "outcomes": [
        {"time": "days", "event": "status", "of": ["death"], "horizon": 365, "role": "primary"},
        {"time": "days", "event": "status", "of": ["relapse", "death"], "horizon": 365},
        {"time": "days", "event": "status", "of": ["relapse"], "horizon": 730},
    ],
    "estimator": {"name": "survival", "trial": True},
    "privacy": {"epsilon": "1.0", "delta": "1e-6"},
}
SITES = {"site": {"levels": ["north", "south", "east"]}}


def make_times(**changes: Any) -> SurvivalStudy:
    """A protocol of times in full; keys of privacy and of the estimator may stand at the top."""
    outcomes = changes.pop("outcomes", MANY["outcomes"])
    late = {key: changes.pop(key) for key in ("entry", "landmark") if key in changes}
    return in_full(MANY | {"outcomes": [{**IN_FULL, **one, **late} for one in outcomes]}, changes)


def kept_whole(found: RunResult, path: Path, schema: dict[str, Any]) -> None:
    """Check that ledger, file and study agree, and that a run that lost its file has it again at no charge."""
    ledger, text = open_ledger(), found.path.read_text()
    before = ledger.verify()
    ledger.verify_release(text)
    Draft202012Validator(schema).validate(json.loads(text))
    assert "NaN" not in text
    found.path.unlink()
    again = run_study(path, out=found.path.parent, run_id=found.run_id, engine="direct")
    assert again.path.read_text() == text
    assert open_ledger().verify() == before
    # The study in full is the one that the file asks for.
    study = parse_study(resolved(path).model_dump(mode="json"))
    assert isinstance(study, SurvivalStudy)
    assert asks_for(load_study_file(path), study)


def write_times(
    folder: Path, *, frame: pl.DataFrame | None = None, contract: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """Write a protocol of times, its contract and partitions below `folder`; return the study's path."""
    people = of_sites(400) if frame is None else frame
    owner = merge({"columns": SITES}, contract or {})
    return write_study(folder, frame=people, base=(MANY | {"subgroups": "site"}, OWNER), contract=owner, **changes)


def of_sites(n: int, seed: int = 0) -> pl.DataFrame:
    """`n` patients, each of one of three sites."""
    where = np.random.default_rng([seed, 2]).choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2])
    return patients(n, seed).with_columns(site=pl.Series(where))


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


def write_adjusted_times(
    folder: Path,
    *,
    frame: pl.DataFrame | None = None,
    study: dict[str, Any] | None = None,
    contract: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """Write a protocol of times that adjusts, its contract and partitions below `folder`; return the study's path."""
    return write_times(
        folder,
        frame=cared_for_at_sites(3_000) if frame is None else frame,
        study=ADJUSTED | (study or {}),
        contract=merge({"columns": BESIDE}, contract or {}),
        **changes,
    )


def cared_for_at_sites(n: int, seed: int = 0) -> pl.DataFrame:
    """`n` patients as of ``cared_for``, each of one of three sites."""
    return cared_for(n, seed).with_columns(site=of_sites(n, seed)["site"])


# A study that adjusts, and what its contract declares beside times; ``cared_for`` has the rows.
ADJUSTED: dict[str, Any] = {
    "covariates": ["age", "group"],
    "estimator": {"trial": False},
    "measure": ["risk"],
}
BESIDE = {"age": {"lower": 20, "upper": 60}, "group": {"levels": ["a", "b", "c"]}}


def cared_for(n: int, seed: int = 0) -> pl.DataFrame:
    """`n` patients of whom the older are treated more often and die sooner."""
    frame, random = patients(n, seed), np.random.default_rng([seed, 1])
    age, group = random.integers(20, 61, n), random.choice(["a", "b", "c"], n)
    treated = random.random(n) < 1 / (1 + np.exp(-(age - 40) / 20))
    days = np.maximum(np.ceil(frame["days"].to_numpy() * np.exp(-(age - 40) / 40)), 1.0)
    return frame.with_columns(treated=treated, days=days, age=age.astype(float), group=pl.Series(group))


def write_adjusted(
    folder: Path,
    *,
    frame: pl.DataFrame | None = None,
    study: dict[str, Any] | None = None,
    contract: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """Write a study of times that adjusts, its contract and partitions below `folder`; return the study's path."""
    return write_survival(
        folder,
        frame=cared_for(400) if frame is None else frame,
        study=merge(ADJUSTED, study or {}),
        contract=merge({"columns": BESIDE}, contract or {}),
        **changes,
    )


def write_survival(
    folder: Path,
    *,
    frame: pl.DataFrame | None = None,
    **changes: Any,
) -> Path:
    """Write study, contract and partitions below `folder`; return the study's path."""
    people = patients(400) if frame is None else frame
    base = STUDY, OWNER
    return write_study(folder, frame=people, base=base, **changes)


@dataclass(frozen=True)
class People:
    """Arm, time and kind of event (0: censored) of each person."""

    arm: ByteArray
    time: FloatArray
    kind: ByteArray
    covariates: pl.DataFrame | None = None
    group: ByteArray | None = None
    entry: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.arm)

    def enclave(self, study: SurvivalStudy | None = None) -> MemoryEnclave:
        """Their rows; with a study those that it adjusts for, groups of censoring, and who is eligible."""
        everybody = np.zeros(len(self), np.uint8) if self.group is None else self.group
        rows: dict[str, Any] = {"t": self.arm, "u": self.time, "k": self.kind, "g": everybody, "h": ranks(len(self))}
        rows |= {} if self.entry is None else {"e": self.entry}
        if study is not None and self.covariates is not None:
            if study.covariates:
                bounded = study.bounded.questions[0]
                rows["x"] = encode(bounded, columns(bounded, self.covariates), slice(0, len(self)))
            if study.censoring.groups > 1 or study.where:
                rows["g"] = strata_of_rows(study, self.covariates)
        return MemoryEnclave([rows])

    def counts(self, grid: Grid) -> FloatArray:
        found = np.bincount(grid.cell(self.arm, self.time, self.kind), minlength=ARMS * grid.cells)
        if self.entry is not None:
            found += np.bincount(grid.entered(self.arm, self.entry), minlength=grid.numbers)[: grid.numbers]
        return found.reshape(ARMS, grid.cells).astype(np.float64)


def found_of(study: SurvivalStudy, people: People, seed: int) -> Findings:
    """What the study's own stages find of these people with noise of this seed."""
    found = rehearse(study, people.enclave(study), RehearsalBudget(seed), seed)
    assert isinstance(found, Findings)
    return found
