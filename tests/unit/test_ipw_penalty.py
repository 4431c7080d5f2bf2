"""At label level the propensity model costs nothing, so nothing is bought by its penalty: none declared, hardly any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.run.declare import load_study
from causalveil.schemas.estimators.ipw import FREE_PENALTY, IpwStudy
from tests.studies import write_study


@pytest.mark.parametrize(
    ("level", "declared", "penalty"),
    [("label", ..., FREE_PENALTY), ("label", 0.1, 0.1), ("sample", ..., 0.1), ("training_units", ..., 0.1)],
)
def test_the_penalty_of_a_level(level: str, declared: Any, penalty: float, tmp_path: Path) -> None:
    changes = {"estimator": {"penalty": declared}, "privacy": {"level": level}}
    study = load_study(write_study(tmp_path, study=changes))
    assert isinstance(study, IpwStudy)
    assert study.estimator.penalty == penalty
    assert IpwStudy.model_validate(study.model_dump()) == study
