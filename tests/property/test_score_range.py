"""No row of the declared domain has a score outside the range that was proved, and the range is not idle."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from causalveil.schemas.studies import parse_study
from causalveil.tasks.aipw.outcome_model import OutcomeModel
from causalveil.tasks.aipw.scores import (
    Nuisances,
    common_range,
    fold_range,
    linear_range,
    propensity_range,
    score_range,
    scores,
)
from causalveil.tasks.covariates.encoding import dimension
from causalveil.tasks.enclave import normalise
from causalveil.tasks.enclave.rows import Rows
from tests.studies import RESOLVED, merge

COVARIATES: dict[str, Any] = {
    "a": {"lower": -3, "upper": 7},
    "b": {"lower": 0, "upper": 1},
    "c": {"levels": ["p", "q", "r"]},
}
STUDIES = {
    missing: parse_study(
        merge(
            {key: value for key, value in RESOLVED.items() if key not in ("covariates", "estimator")},
            {"covariates": COVARIATES, "estimator": {"name": "aipw"}, "missing": missing},
        )
    )
    for missing in ("refuse", "indicator")
}


def domain(study: Any, n: int, seed: int) -> np.ndarray:
    """Rows of the domain as normalisation writes them, corners preferred, made by normalisation itself."""
    random = np.random.default_rng(seed)

    def number(lower: float, upper: float) -> list[float | None]:
        inside = random.uniform(lower, upper, n)
        at = random.integers(0, 4, n)
        values = np.where(at == 0, lower, np.where(at == 1, upper, inside)).tolist()
        return [None if study.missing == "indicator" and random.random() < 0.2 else v for v in values]

    level = random.choice(["p", "q", "r", None] if study.missing == "indicator" else ["p", "q", "r"], n)
    frame = pl.DataFrame({"a": number(-3, 7), "b": number(0, 1), "c": level.tolist()})
    return normalise.encode(study, normalise.columns(study, frame), np.arange(n))


def random_models(study: Any, seed: int) -> Nuisances:
    random = np.random.default_rng(seed)
    d = dimension(study)
    size = float(random.choice([0.1, 1.0, 5.0]))
    model = OutcomeModel(
        constants=(float(random.uniform(-1.3, 1.3)), float(random.uniform(-1.3, 1.3))),
        slopes=random.normal(0, size, d - 1),
        limit=float(random.choice([0.0, 0.2, 2.0])),
        radius=float(random.choice([0.3, 0.7, 1.0])),
        common_factor=1.0,
        middle=float(random.choice([0.0, 0.3, -5.0])),
    )
    weights = random.normal(0, 3 * size, d) if random.random() < 0.7 else None
    return Nuisances(model, float(random.uniform(0.05, 0.95)), weights)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["refuse", "indicator"]))
def test_no_point_of_the_domain_leaves_the_range(seed: int, missing: str) -> None:
    study, random = STUDIES[missing], np.random.default_rng(seed)
    models, x = random_models(study, seed), domain(study, 400, seed)
    t, u = random.integers(0, 2, 400).astype(np.uint8), random.choice([-1.0, 1.0, 0.3], 400)
    clip = study.estimator.propensity.bounds

    g, pi, gamma = models.outcome.common(x), models.propensity(x, clip), scores(Rows(x, t, u), models, clip)
    for values, found in (
        (g, common_range(study, models.outcome)),
        (pi, propensity_range(study, models)),
        (gamma, fold_range(study, models)),
    ):
        assert found.low <= values.min()
        assert values.max() <= found.high
    reach = score_range(study, [models, random_models(study, seed + 1)])
    assert np.all(np.abs(gamma - reach.middle) <= reach.half)
    trivial = 4 / min(clip[0], 1 - clip[1])
    assert 2 * reach.half <= trivial * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["refuse", "indicator"]))
def test_linear_ranges_are_attained(seed: int, missing: str) -> None:
    """Among some thousand rows with many corners one comes within 10 % of each end of a linear function."""
    study = STUDIES[missing]
    x = domain(study, 3_000, seed)
    weights = np.random.default_rng(seed).normal(size=dimension(study))
    weights[-1] = 0.0
    values, found = x @ weights, linear_range(study, weights)
    width = found.high - found.low
    assert values.min() - found.low <= 0.1 * width
    assert found.high - values.max() <= 0.1 * width


def test_the_range_is_attained_by_constants() -> None:
    """Arm means and a constant score: the four corners of (t, u) are the four candidates, and the range is exact."""
    study = STUDIES["refuse"]
    models = Nuisances(OutcomeModel((0.3, -0.1), np.zeros(5), 0.0, 1.0, 0.0), 0.7)
    x = domain(study, 4, 0)
    corners = scores(Rows(x, np.array([1, 1, 0, 0], np.uint8), np.array([1.0, -1.0, 1.0, -1.0])), models, (0.1, 0.9))
    found = fold_range(study, models)
    assert abs(corners.max() - found.high) < 1e-6
    assert abs(corners.min() - found.low) < 1e-6


def test_scores_are_the_textbooks() -> None:
    """Row by row, from the formula, in another form."""
    study = STUDIES["refuse"]
    models, x = random_models(study, 4), domain(study, 50, 4)
    random = np.random.default_rng(4)
    t, u = random.integers(0, 2, 50).astype(np.uint8), random.uniform(-1, 1, 50)
    found = scores(Rows(x, t, u), models, (0.1, 0.9))
    g, pi = models.outcome.common(x), models.propensity(x, (0.1, 0.9))
    for i in range(50):
        mu1, mu0 = (min(max(c + g[i], -1), 1) for c in models.outcome.constants)
        expected = mu1 - mu0 + t[i] * (u[i] - mu1) / pi[i] - (1 - t[i]) * (u[i] - mu0) / (1 - pi[i])
        assert abs(found[i] - expected) < 1e-12
