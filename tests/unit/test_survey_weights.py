"""Survey weights: what a study may ask, what rows weigh, and answers beside weighted least squares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.clusters import SurveyWeights
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.limits import Code
from causalveil.tasks.data.cells import CellRows, shares_of
from causalveil.tasks.report.facts import over_whom
from causalveil.tasks.report.page import populations_of
from tests.limits import codes
from tests.protocol_help import analysed, in_cells, make_protocol
from tests.studies import completed, owned

WEIGHTS = {"column": "pweight", "upper": 5}


def test_a_study_has_the_weights_of_the_contract() -> None:
    weighted = owned({"weights": WEIGHTS})
    study = completed({"weights": "pweight"}, weighted)
    assert study.weights == SurveyWeights(column="pweight", upper=5)
    assert "pweight" in study.columns
    assert study.question == "ATE, weighted by pweight"
    assert "weights" not in completed({}, weighted).specification()
    assert owned({}).digest != weighted.digest


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights": "age"}, "declares no survey weights by column 'age'; it declares 'pweight'"),
        ({"covariates": ["age", "pweight"]}, "pweight"),
        ({"estimator": {"name": "aipw", "guarantee": "asymptotic"}}, "take survey weights"),
        ({"estimator": {"name": "matching"}, "privacy": {"epsilon": 1, "level": "label"}}, "take survey weights"),
        ({"privacy": {"epsilon": 1, "delta": 0}}, "need a delta above 0"),
    ],
    ids=["unknown", "a covariate", "aipw", "matching", "no delta"],
)
def test_what_has_no_weighted_sums_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        completed({"weights": "pweight"} | changes, owned({"weights": WEIGHTS}))


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"column": "age"}, "declared already"),
        ({"upper": 0}, "upper"),
        ({"mean": 6}, "above 'upper'"),
    ],
)
def test_a_contract_with_such_weights_is_refused(weights: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError, match=said):
        owned({"weights": WEIGHTS | weights})


def test_rows_weigh_at_most_one() -> None:
    """A weight above the bound counts as that, one that is negative, missing or no number as 0."""
    own = pl.Series([0.0, 2.5, 5.0, 80.0, -1.0, None, float("nan"), float("inf")])
    found = shares_of(SurveyWeights(column="w", upper=5), own)
    assert found.tolist() == [0, 0.5, 1, 1, 0, 0, 0, 1]


def population(n: int, seed: int) -> tuple[CellRows, np.ndarray]:
    """One stratum is sampled six times as often, and treatment does five times as much there."""
    random = np.random.default_rng(seed)
    rare, z = random.random(n) < 0.6, np.clip(random.normal(0, 0.35, (n, 2)), -1, 1)
    t = (random.random(n) < 1 / (1 + np.exp(-z[:, 0]))).astype(np.uint8)
    w = np.where(rare, 1 / 3, 2.0) * random.uniform(0.5, 1.5, n) / 5
    u = np.clip(-0.2 + 0.2 * z[:, 0] + t * np.where(rare, 0.25, 0.05) + random.uniform(-0.3, 0.3, n), -1, 1)
    return replace(in_cells(z, t, u[:, None], np.zeros(n)), w=w), z


def least_squares(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """The second coefficient of weighted least squares, and its sandwich error (HC0; survey's ``svyglm``)."""
    bread = np.linalg.inv((x.T * w) @ x)
    beta = bread @ (x.T @ (w * y))
    scores = x * (w * (y - x @ beta))[:, None]
    return float(beta[1]), float(np.sqrt((bread @ (scores.T @ scores) @ bread)[1, 1]))


def test_without_noise_a_trial_is_weighted_least_squares() -> None:
    """5,000 units; a deviation of the noise of second moments is added to the variance."""
    rows, _ = population(5_000, 1)
    assert rows.w is not None
    study: Any = make_protocol(
        0, 1, name="difference_in_means", trial=True, weights={"column": "w", "upper": 5}, epsilon="100000"
    )
    found = analysed(study, rows)
    design = np.column_stack([np.ones(len(rows)), rows.t])
    value, error = least_squares(design, 5 * rows.u[:, 0], rows.w)
    answer = found.answers[0]
    assert answer.estimate == pytest.approx(value, abs=2e-3)
    assert error * 0.999 <= (answer.sampling_error or 0) <= 1.01 * error
    effective = sum(float(found.details[f"effective_units[all units][{arm}]"]) for arm in "01")
    by_arm = [rows.w[rows.t == arm] for arm in (0, 1)]
    assert effective == pytest.approx(sum(own.sum() ** 2 / (own**2).sum() for own in by_arm), rel=1e-2)
    assert Code.survey_design in codes(study.taken_for_granted)


def test_with_little_noise_regression_answers_for_the_population() -> None:
    """20,000 units, seed 2, epsilon 50: within four errors of weighted least squares with slopes of each arm."""
    rows, z = population(20_000, 2)
    assert rows.w is not None
    study: Any = make_protocol(2, 1, weights={"column": "w", "upper": 5}, epsilon="50", curves="none")
    found, plain = analysed(study, rows), analysed(study.model_copy(update={"weights": None}), replace(rows, w=None))
    centred = z - rows.w @ z / rows.w.sum()
    design = np.column_stack([np.ones(len(rows)), rows.t, centred, centred * rows.t[:, None]])
    value, error = least_squares(design, 5 * rows.u[:, 0], rows.w)
    answer = found.answers[0]
    assert abs((answer.estimate or 0) - value) < 4 * (answer.noise_error or 0) + 0.01
    assert answer.sampling_error == pytest.approx(error, rel=0.1)
    assert (plain.answers[0].estimate or 0) - (answer.estimate or 0) > 0.2
    assert found.details["effective_units[all units]"] == pytest.approx(rows.w.sum() ** 2 / (rows.w**2).sum(), rel=0.02)


def test_weights_of_one_are_no_weights() -> None:
    """All of the largest weight: estimates agree within what noise is left at epsilon 1,000, and so do errors."""
    rows, _ = population(4_000, 3)
    for how in ({"name": "difference_in_means", "trial": True}, {"curves": "none"}):
        study: Any = make_protocol(2, 1, weights={"column": "w", "upper": 5}, epsilon="1000", **how)
        plain = study.model_copy(update={"weights": None})
        one = analysed(study, replace(rows, w=np.ones(len(rows)))).answers[0]
        two = analysed(plain, replace(rows, w=None)).answers[0]
        assert one.estimate == pytest.approx(two.estimate, abs=0.02)
        assert one.sampling_error == pytest.approx(two.sampling_error, rel=0.05)


def test_a_report_says_by_which_weights_its_population_counts() -> None:
    spec = {"weights": {"column": "pweight", "upper": 5}, "data": {"unit": "person"}}
    assert over_whom(spec, "ATE").endswith(" of the dataset, weighted by pweight")
    assert not over_whom({"data": {"unit": "person"}}, "ATE").endswith("pweight")
    assert populations_of(spec)["ATE"] == "over all units, weighted by pweight"
    cohorts = {"data": {"unit": "person"}, "outcomes": [{"name": f"w{year}", "arm": "2013"} for year in (1, 2)]}
    said = "over the treated units, each answer about its own cohort (2013)"
    assert populations_of(cohorts)["ATT"] == said, "who was treated in no cohort that was named is in no answer"
