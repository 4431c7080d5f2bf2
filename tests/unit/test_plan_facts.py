"""A plan names the facts that it was not told; the widths that it says for them are those of a plan that is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from causalveil.flows.api import plan as plan_of
from causalveil.schemas.plan import StandIn
from tests.studies import people, write_study

STUDIES = {
    "regression": {"estimator": {"name": "regression", "penalty": ...}},
    "difference": {"estimator": {"name": "difference_in_means", "penalty": ...}},
}
# The change is a formula's, the width a rehearsal's: they agree up to this factor.
AGREES = {"regression": 2.0, "difference": 1.3}


@pytest.mark.parametrize("name", STUDIES)
def test_each_fact_that_was_not_told_is_named_with_what_it_changes(name: str, tmp_path: Path) -> None:
    allowed = {"estimators": ["regression", "difference_in_means"]}
    study = write_study(tmp_path, frame=people(200), study=STUDIES[name], contract=allowed)
    silent = plan_of(study, units=50_000)
    said = [sentence for sentence in silent.sentences if sentence.startswith("Not told: ")]
    if name != "difference":
        # An unadjusted difference allows for the declared confounding, which is most of it whoever is treated.
        assert any("the treated share, assumed to be 0.5. At 0.1" in one for one in said)
    # The advice is true: told, the plan says about that width, and names the fact no longer.
    for fact, value in {"treated": 0.1, "deviation": silent_deviation(said)}.items():
        told = plan_of(study, units=50_000, **{fact: value})
        assert not any(f"--{fact}" in one for one in told.sentences if one.startswith("Not told: "))
        ratio = told.expected["half_width"] / silent.expected["half_width_if"][fact]
        assert 1 / AGREES[name] <= ratio <= AGREES[name], fact


def silent_deviation(said: list[str]) -> float:
    """The other deviation that the plan speaks of."""
    (one,) = (sentence for sentence in said if "--deviation" in sentence)
    return float(one.split(". At ")[1].split(" the half-width")[0].replace(",", ""))


def test_a_value_is_told_if_it_is_given_even_if_it_is_the_default() -> None:
    assert StandIn.told(treated=0.5, deviation=None).model_fields_set == {"treated"}
    assert StandIn.told(treated=0.5) == StandIn()
