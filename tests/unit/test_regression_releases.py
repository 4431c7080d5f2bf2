"""Releases of adjustment say of rows on partitions what they say of arrays in memory, and noise is as planned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.estimators.regression import REGRESSION
from causalveil.flows.plan.study_plan import what_matters
from causalveil.schemas.plan import StandIn
from causalveil.schemas.privacy import Charge
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.normalise import columns, encode
from causalveil.tasks.data.split import Pieces, sizes_of
from causalveil.tasks.estimate.adjust import questions
from causalveil.tasks.estimate.adjust.questions import JointDraws
from causalveil.tasks.estimate.adjust.recipe import LINES, SCORES, joint_recipe, moments_sd, scores_sd
from causalveil.tasks.estimate.adjust.sums import moment_numbers
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.noise import NoiseSource
from replication.benchmarks.adjust_in_memory import InMemory
from tests.regression_help import make_regression
from tests.sensitivity_cases import in_full

UNITS = 4_000
COVARIATES: dict[str, Any] = {
    "age": {"lower": 0, "upper": 80},
    "bmi": {"lower": 10, "upper": 40, "nulls": "indicator"},
    "cost": {"lower": 1, "upper": 1000, "scale": "log"},
    "sex": {"levels": ["f", "m"]},
    "smoker": {"lower": 0, "upper": 1, "codes": {"no": "no", "yes": "yes"}},
    "ward": {"levels": ["a", "b", "c"]},
}


class Exact:
    """A budget without noise: for comparisons of sums alone."""

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        del charge
        return draw(self)  # type: ignore[arg-type]

    spend_records = spend

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        del scale
        return value

    laplace = l2_laplace = gaussian


def people(random: np.random.Generator) -> tuple[pl.DataFrame, FloatArray, FloatArray]:
    z = random.normal(size=(UNITS, 3))
    frame = pl.DataFrame(
        {
            "age": 40 + 12 * z[:, 0],
            "bmi": np.where(random.random(UNITS) < 0.1, np.nan, 25 + 4 * z[:, 1]),
            "cost": np.exp(3 + z[:, 2]),
            "sex": random.choice(["f", "m"], UNITS),
            "smoker": random.choice(["no", "yes"], UNITS, p=[0.7, 0.3]),
            "ward": random.choice(["a", "b", "c"], UNITS, p=[0.5, 0.3, 0.2]),
        }
    )
    frame = frame.with_columns(pl.col("bmi").fill_nan(None))
    t = (random.random(UNITS) < 1 / (1 + np.exp(1 - z[:, 0] - z[:, 0] ** 2))).astype(np.float64)
    return frame, t, np.clip(0.1 * t + 0.2 * z[:, 0] ** 2 + 0.15 * random.normal(size=UNITS), -1, 1)


def apart(one: Any, other: Any) -> float:
    """The largest difference between two releases, both the same where there is noise without end."""
    found = 0.0
    for field in fields(one):
        pair = getattr(one, field.name), getattr(other, field.name)
        if pair[0] is None or field.name.endswith("sd") or field.name in ("scale", "mixing"):
            continue
        for mine, theirs in zip(*pair, strict=True) if isinstance(pair[0], tuple) else [pair]:
            found = max(found, float(np.abs(np.asarray(mine) - np.asarray(theirs)).max(initial=0)))
    return found


TERMS = (
    "age^2",
    "bmi^3",
    "sqrt(cost)",
    "ns(bmi, 3)",
    "age > 50",
    "sex:age",
    "ward:bmi",
    "smoker:(bmi >= 25)",
    "age:bmi",
)


@pytest.mark.parametrize(("delta", "terms"), [("1e-6", ()), ("0", ()), ("1e-6", TERMS)])
def test_rows_say_what_arrays_in_memory_say(delta: str, terms: tuple[str, ...]) -> None:
    """Of all five releases, without noise: numbers, missing ones, logarithms, flags, levels, and terms; seed 4."""
    random = np.random.default_rng(4)
    study = make_regression(0, covariates=COVARIATES, epsilon="50", delta=delta, terms=in_full(*terms))
    frame, t, u = people(random)
    rows = Rows(encode(study, columns(study, frame), slice(0, UNITS)), t.astype(np.uint8), u)
    plan = joint_recipe(study, sizes_of(study, UNITS))
    (z,) = [np.concatenate([block[:, : part.stop - part.start].T for part, block in _blocks(plan, rows)])]
    pieces = Pieces(lambda piece: CellRows.of(rows[1_000 * piece : 1_000 * (piece + 1)]), 4, UNITS)
    drawn = JointDraws(plan, pieces, Exact())
    memory = InMemory(z, t, u, replace(plan.public(0, UNITS), mu=1e15), random)

    scales = drawn.scales()
    assert apart(scales.questions[0][0][0], memory.scales(1)) < 1e-6
    asked = questions.begun(plan, scales)
    lines = drawn.lines(asked)
    assert apart(one(lines), memory.moments(one(asked).lines_asked, one(asked).found_scales, 1)) < 1e-4
    asked = questions.with_lines(plan, asked, lines)
    screen = drawn.screen(asked)
    assert len(one(asked).screen_asked.curves) > 10
    assert apart(one(screen), memory.screen(one(asked).screen_asked, 1)) < 1e-4
    asked = questions.with_screen(asked, screen)
    refit = drawn.refit(asked)
    assert one(asked).refit_asked.curves or terms, "a square drives both"
    assert apart(one(refit), memory.moments(one(asked).refit_asked, one(asked).found_scales, 1)) < 1e-4
    asked = questions.with_refit(asked, refit)
    assert apart(one(drawn.scores(asked)), memory.scores(one(asked).scores_asked, 1)) < 1e-4


def one(released: Any) -> Any:
    """What is released of the one question, or asked."""
    return released[0][0][0]


def _blocks(plan: Any, rows: Rows) -> Any:
    return [(part, np.array(block)) for part, block in plan.encoding.blocks(rows.x)]


@pytest.mark.parametrize("delta", ["1e-6", "0"])
@pytest.mark.parametrize("parts", ["auto", dict.fromkeys(("scales", "lines", "screen", "refit", "scores"), "0.2")])
def test_noise_is_as_the_decisions_take_it(delta: str, parts: Any) -> None:
    """What the posterior plans by is what the mechanisms draw, to the rounding of amounts."""
    study = make_regression(0, covariates=COVARIATES, delta=delta, parts=parts)
    plan = joint_recipe(study, sizes_of(study, UNITS))
    public, lines, scores = plan.public(0, UNITS), plan.mechanism(LINES), plan.mechanism(SCORES)
    assert lines is not None
    assert scores is not None
    numbers = moment_numbers(len(public.columns))
    assert Noise.of(lines, numbers).deviation / UNITS == pytest.approx(moments_sd(public), rel=1e-3)
    scale = scores.known_scale * (math.sqrt(2) if delta == "0" else 1)
    assert scale / UNITS == pytest.approx(scores_sd(public), rel=1e-3)


def test_a_plan_says_what_facts_that_it_was_not_told_would_change() -> None:
    study = make_regression(covariates=COVARIATES)
    sizes = sizes_of(study, UNITS)
    said = what_matters(study, sizes, StandIn(), (), REGRESSION.expected(study, sizes, StandIn()))
    *facts, together = [one.sentence for one in said]
    named = [one.rsplit("state it with `", 1)[1].rstrip("`.").lstrip("-") for one in facts]
    # Covariates' correlation is near the edge of what matters here.
    assert [one for one in named if one != "correlation"] == ["treated", "deviation", "explained", "distance"]
    assert together.startswith("By noise and any one of these it lies between")
    assert all(len(sentence.split()) <= 25 for one in [*facts, together] for sentence in one.split(". "))
    told = StandIn.told(treated=0.4, deviation=2, explained=0.3, correlation=0.3, distance=1)
    assert what_matters(study, sizes, told, told.model_fields_set, REGRESSION.expected(study, sizes, told)) == []
