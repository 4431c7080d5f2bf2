"""Half-widths that a plan tells beside those that runs come to, on fresh people who are as the plan assumes."""

from __future__ import annotations

from typing import Any

import numpy as np

from causalveil.flows.estimators.rehearsal import Made, people_of_effect
from causalveil.flows.run.estimators import estimator_of, rehearse
from causalveil.schemas.answers import Answer
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.plan import StandIn
from causalveil.schemas.questions import ALL_UNITS
from causalveil.schemas.study import Study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import MemoryEnclave
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.people import people_of
from causalveil.tasks.estimate.times.people import people_of_times
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.protocol_help import make_protocol
from tests.survival_help import make_survival, make_times

FIRST = 1_000
TIMES = {"competing": False, "epsilon": "1"}
ADJUSTS = {"covariates": {f"x{place}": {"lower": -4, "upper": 4} for place in range(6)}, "trial": False}
SITE = {"site": {"levels": ["north", "south", "east"]}}
MANY: dict[str, Study] = {
    "protocol, 3 outcomes": make_protocol(6, 3),
    "protocol, 2 subgroups": make_protocol(6, 2, groups=2),
    "protocol, 3 arms": make_protocol(6, 2, arms=3),
    "protocol of means, 3 outcomes": make_protocol(6, 3, name="difference_in_means", trial=True),
    "protocol, balancing": make_protocol(6, 2, name="balancing", delta="0"),
    "protocol, matching": make_protocol(6, 2, name="matching"),
    "times, trial": make_survival(**TIMES),
    "times, adjusted": make_survival(**TIMES, **ADJUSTS),
    "times, trial, 3% events": make_survival(**TIMES, expect={"risk": 0.03}),
    "times, adjusted, 3% events": make_survival(**TIMES, **ADJUSTS, expect={"risk": 0.03}),
    "times, 3 questions in 3 subgroups": make_times(subgroups={"name": "site", "column": SITE["site"]}),
}


def fresh(study: Study, units: int, stand_in: StandIn, randomised: bool, seed: int) -> MemoryEnclave:
    """A sample of the plan's population, of every subgroup and arm."""
    sample = FIRST + seed
    if isinstance(study, EffectStudy) and study.privacy.level in study.TABLES:
        arms = len(study.arm_names)
        told = stand_in if arms == 2 else stand_in.model_copy(update={"treated": 1 - 1 / arms})
        return people_of(study, told, units, randomised, sample, len(study.groups))
    if isinstance(study, SurvivalStudy):
        return people_of_times(study, stand_in, units, sample)
    return people_of_effect(study, Made(stand_in, units, randomised, sample))


def widths(found: Any) -> dict[str, float]:
    """Half-widths of what a run found, by name: of one effect, of each measure, or of a table's questions."""
    found = getattr(found, "table", found)
    if hasattr(found, "answers"):
        return {
            f"{name}, {where}": float(np.mean([_half(row.interval) for row in found.answers if _is(row, name, where)]))
            for name in dict.fromkeys(row.outcome for row in found.answers)
            for where in ("everybody", "group")
            if any(_is(row, name, where) for row in found.answers)
        }
    return {"effect": _half(found.interval)}


def _is(row: Answer, name: str, where: str) -> bool:
    return row.outcome == name and (row.group == ALL_UNITS) is (where == "everybody") and row.interval is not None


def _half(interval: Any) -> float:
    return float(interval.upper - interval.lower) / 2


def measured(study: Study, units: int, stand_in: StandIn, randomised: bool, runs: int) -> dict[str, float]:
    """Mean half-widths of runs on fresh people."""
    found = [
        widths(rehearse(study, fresh(study, units, stand_in, randomised, seed), RehearsalBudget(FIRST + seed), seed))
        for seed in range(runs)
    ]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def told(study: Study, units: int, stand_in: StandIn) -> dict[str, float]:
    """Half-widths of the plan, by the same names."""
    said = estimator_of(study).expected(study, sizes_of(study, units), stand_in)
    if "answers" in said:
        grouped = getattr(study, "subgroups", None) is not None
        parts = ("everybody", "group") if grouped else ("everybody",)
        return {f"{one['outcome']}, {part}": one[part] for one in said["answers"] for part in parts}
    return {"effect": said["half_width"]}
