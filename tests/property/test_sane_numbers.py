"""From 5e-324 to 1e308: a declared number is refused, or every scale that follows from it is an ordinary number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalveil.flows.run.declare import declare
from causalveil.schemas.columns import ordinary
from causalveil.schemas.errors import StudyError
from causalveil.schemas.studies import STUDIES, parse_study
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.models.lattice_sums import bounded
from causalveil.tasks.estimate.papers.ipw import weights
from tests.studies import RESOLVED

# Magnitudes of every power of ten that a float has, and both signs.
SIZES = st.builds(
    lambda sign, exponent, digits: sign * float(f"{digits}e{exponent}"),
    st.sampled_from([-1, 1]),
    st.integers(-324, 308),
    st.floats(1, 9.99),
)
NUMBERS = st.one_of(SIZES, st.sampled_from([0.0, 5e-324, -5e-324, 1e308, -1e308, 1.0, 1 - 2**-53]))
PAIR = {"x": {"name": "age", "lower": 0, "upper": 1}, "y": {"name": "score", "lower": 0, "upper": 1}}
NAMES = [(kind, name) for kind, names in STUDIES.items() for name in names]


def study(kind: str, name: str, lower: float, upper: float, estimator: dict[str, Any]) -> Any:
    privacy = {"epsilon": 1, "delta": 0 if name == "matching" else "1e-6"}
    same = {"kind": kind, "name": "wild", "data": {"unit": "person"}, "privacy": privacy}
    if kind == "direction":
        pair = {"x": PAIR["x"], "y": {"name": "score", "lower": lower, "upper": upper}}
        return parse_study({**same, "pair": pair, "estimator": {"name": name, "scores": ["spearman"], **estimator}})
    effect = {key: RESOLVED[key] for key in ("treatment", "covariates")}
    outcome = {"name": "score", "lower": lower, "upper": upper}
    return parse_study({**same, **effect, "outcome": outcome, "estimator": {"name": name, **estimator}})


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=[name for _, name in NAMES])
@given(lower=NUMBERS, upper=NUMBERS, units=st.sampled_from([40, 10**4, 10**7]))
def test_ranges(kind: str, name: str, lower: float, upper: float, units: int) -> None:
    """Every estimator: refused in one line, or all its scales are ordinary."""
    try:
        asked = study(kind, name, lower, upper, {})
        plan = declare(asked, sizes_of(asked, units))
    except StudyError:
        return
    assert all(ordinary(charge.sensitivity) and ordinary(charge.noise_scale) for charge in plan.charges)


@given(low=NUMBERS, high=NUMBERS, penalty=NUMBERS)
def test_clips_and_penalties(low: float, high: float, penalty: float) -> None:
    """The break: a clip of 5e-309 made 1/low infinite, and one row moved a sum by 2e9."""
    try:
        asked = study("effect", "ipw", 0.0, 1.0, {"clip": [low, high], "penalty": penalty})
        plan = declare(asked, sizes_of(asked, 1000))
    except StudyError:
        return
    assert 1e-6 <= low <= high <= 1 - 1e-6
    assert all(ordinary(charge.sensitivity) and ordinary(charge.noise_scale) for charge in plan.charges)


@pytest.mark.parametrize("weighting", ["hajek", "horvitz_thompson"])
@given(
    low=st.sampled_from([1e-6, 0.1, 0.5]),
    lower=st.sampled_from([-1e100, -1.0, 0.0, 9e98]),
    slope=st.sampled_from([-1e308, -1.0, 5e-324, 1e308]),
)
def test_a_neighbour_moves_a_contribution_by_what_is_declared(
    weighting: str, low: float, lower: float, slope: float
) -> None:
    """Extreme rows under extreme settings: every contribution is a number in [-1, 1]."""
    asked = study("effect", "ipw", lower, lower + 9e99, {"clip": [low, 1 - low], "weighting": weighting})
    x = np.zeros((4, 6))
    x[:, 0] = [1.0, -1.0, 1.0, -1.0]
    rows = Rows(x, np.array([0, 0, 1, 1], np.uint8), np.array([1.0, -1.0, 1.0, -1.0]))
    with np.errstate(all="ignore"):
        found = weights.contributions(asked, rows, np.array([slope, 0, 0, 0, 0, 0]))
    assert np.all(np.isfinite(found))
    assert np.all(np.abs(found) <= 1)


@given(st.lists(st.floats(), max_size=20))
def test_what_is_no_number_becomes_one_before_it_becomes_an_integer(values: list[float]) -> None:
    found = bounded(np.array(values))
    assert np.all(np.abs(found) <= 1)
    whole = np.rint(found * 2.0**40).astype(np.int64)
    assert np.all(np.abs(whole) <= 2**40)
    kept = np.isfinite(values)
    assert np.array_equal(found[kept], np.clip(np.array(values)[kept], -1, 1))
