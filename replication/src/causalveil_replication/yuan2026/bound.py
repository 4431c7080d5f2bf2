"""Theorem 3 of Yuan et al. 2026 as a number: the bound on the squared error of an arm's sum, beside that error.

At label level the error of S is known but for the noise: what the caps change in who serves, and a Laplace draw. With
u_j the uses of unit j without caps, the bound is 2 ((k + 1) B/epsilon)^2 + (R B/N)^2, R = sum_j max(0, u_j - k N).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.tasks.estimate.models.nearest import NO_CAP, match_capped
from causalveil.tasks.estimate.papers.matching.scores import exact_scores, fitted
from causalveil.tasks.estimate.papers.matching.weights import caps

if TYPE_CHECKING:
    from causalveil_replication.yuan2026.runs import Prepared

RATIO = 5


def bounds(prepared: Prepared, epsilons: tuple[str, ...]) -> Iterator[dict[str, object]]:
    """One row for every epsilon and arm, in the first run's order: roots of bound and error, over n, outcome units."""
    enclave = prepared.rows[0]
    rows, width = enclave.rows(0), prepared.data.outcome[1] - prepared.data.outcome[0]
    for epsilon in epsilons:
        estimator = {"name": "matching", "ratio": RATIO, "penalty": prepared.penalty, "variant": "paper"}
        study = MatchingStudy.model_validate(
            prepared.data.document(estimator, {"epsilon": epsilon, "delta": 0, "level": "label"})
        )
        score = exact_scores(rows, fitted(study, len(rows), enclave))
        limits = caps(study, score, rows.t)
        free = match_capped(score, rows.t, RATIO, (NO_CAP, NO_CAP)).uses.astype(np.int64)
        capped = match_capped(score, rows.t, RATIO, limits).uses.astype(np.int64)
        for arm, cap, name in ((rows.t != 0, limits[0], "treated"), (rows.t == 0, limits[1], "controls")):
            replaced = int(np.maximum(free[arm] - cap, 0).sum())
            left = int(np.maximum(free[arm] - capped[arm], 0).sum())
            noise = 2 * ((cap / RATIO + 1) * width / float(epsilon)) ** 2
            bias = float((capped[arm] - free[arm]) @ rows.u[arm]) * width / 2 / RATIO
            bound, error = math.sqrt(noise + (replaced * width / RATIO) ** 2), math.sqrt(noise + bias**2)
            yield {
                "data": prepared.data.name,
                "epsilon": float(epsilon),
                "arm": name,
                "cap": cap,
                "replaced": replaced,
                "replaced_in_the_matching": left,
                "root_of_bound": float(f"{bound / len(rows):.6g}"),
                "root_of_error": float(f"{error / len(rows):.6g}"),
                "noise_alone": float(f"{math.sqrt(noise) / len(rows):.6g}"),
                "ratio": round(bound / error, 4),
            }
