"""Protocols, tables and whole analyses for tests of many questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from causalveil.flows.run.estimators import rehearse
from causalveil.schemas.studies import STUDIES, parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import MemoryEnclave, ranks
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.regression_help import in_rows
from tests.studies import lifted

OUTCOMES = 2
# What estimators at label level have for a level and a delta.
LEVELS = {"balancing": {"level": "label"}, "ipw": {"level": "label"}, "matching": {"level": "label", "delta": "0"}}


def make_protocol(
    p: int = 2,
    outcomes: int = OUTCOMES,
    groups: int = 1,
    arms: int = 2,
    controls: int = 0,
    left_out: int = 0,
    of_arms: Sequence[str] = (),
    **changes: Any,
) -> EffectStudy:
    """Outcomes `y0`... from 0 to 10, the last `controls` of them negative controls; `p` numbers in [-1, 1].

    Units without one of the last `left_out` outcomes are left out of its answer. `of_arms`: of cohorts, by outcome.
    """
    name = changes.pop("name", "regression")
    settings: Any = STUDIES["effect"][name].model_fields["estimator"].annotation
    changes = lifted(settings, changes)
    roles = ["primary", *["secondary"] * (outcomes - 1 - controls), *["negative_control"] * controls]
    document: dict[str, Any] = {
        "kind": "effect",
        "name": "many",
        "data": {"path": ".", "unit": "person"},
        "execution": {"engine": "direct", "workers": 1},
        "treatment": "treated",
        "outcomes": [{"name": f"y{k}", "lower": 0, "upper": 10, "role": role} for k, role in enumerate(roles)],
        "covariates": {f"x{i:02d}": {"lower": -1, "upper": 1} for i in range(p)},
        "estimator": {"name": name} | changes.pop("estimator"),
        "privacy": {"epsilon": "1", "delta": "1e-6"} | LEVELS.get(name, {}) | changes.pop("privacy"),
    }
    if left_out:
        document["missing_outcome"] = "leave_out"
        for one in document["outcomes"][-left_out:]:
            one["leaves_out"] = True
    for one, arm in zip(document["outcomes"] if of_arms else (), of_arms, strict=True):
        one["arm"] = arm
        document["estimand"] = "ATT"
    if groups > 1:
        column = {"levels": [f"g{g}" for g in range(groups)]}
        document["subgroups"] = {"name": "region", "column": column}
    if arms > 2:
        document["arms"] = {"levels": [f"a{a}" for a in range(arms)], "reference": "a0"}
    study = parse_study(document | changes)
    assert isinstance(study, EffectStudy)
    return study


def in_cells(z: np.ndarray, t: np.ndarray, u: np.ndarray, g: np.ndarray) -> CellRows:
    """Covariates in [-1, 1], shape (n, p); arms; outcomes in [-1, 1], shape (n, q); subgroups."""
    rows = in_rows(z, t, u[:, 0])
    return CellRows(rows.x, rows.t, np.asarray(u, dtype=np.float64), np.asarray(g, dtype=np.uint8))


def enclave_of(rows: CellRows) -> MemoryEnclave:
    """One segment."""
    weighted = {} if rows.w is None else {"w": rows.w}
    return MemoryEnclave([{"x": rows.x, "t": rows.t, "u": rows.u, "g": rows.g, "h": ranks(len(rows)), **weighted}])


def analysed(study: EffectStudy, rows: CellRows, seed: int = 0) -> Findings:
    """The whole protocol with seeded noise."""
    found = rehearse(study, enclave_of(rows), RehearsalBudget(seed))
    assert isinstance(found, Findings)
    return found


def confounded(
    n: int, outcomes: int = OUTCOMES, groups: int = 1, arms: int = 2, p: int = 2, seed: int = 0
) -> tuple[CellRows, np.ndarray]:
    """Rows whose arm and outcomes depend on the same covariates, and the effect on u by group, arm and outcome.

    Effects differ by all three: shape (groups, arms, outcomes), 0 for the reference.
    """
    random = np.random.default_rng(seed)
    z = random.uniform(-1, 1, (n, p))
    g = random.integers(0, groups, n)
    shared = z.mean(axis=1)
    pull = np.exp(np.outer(1.2 * shared, np.arange(arms)))
    t = (random.random(n)[:, None] > np.cumsum(pull / pull.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    effects = 0.1 * np.arange(arms)[None, :, None] * np.linspace(1, 0.5, groups)[:, None, None]
    effects = effects * np.linspace(1, -1, outcomes)[None, None, :]
    base = 0.3 * np.outer(shared, np.linspace(1, 0.2, outcomes)) + random.uniform(-0.2, 0.2, (n, outcomes))
    return in_cells(z, t, base + effects[g, t], g), effects
