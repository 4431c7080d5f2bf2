"""What is said of a key that a document may not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import CausalveilError

FERTILITY = Path(__file__).parents[2] / "data" / "fertility"
BOTH = {"lower": 0, "upper": 9, "levels": [1, 2]}
CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("study", {"select": {"newest": 1}}, "unknown key 'select'; it belongs below 'data'"),
    ("study", {"newest": 1}, "unknown key 'newest'; it belongs below 'data.select'"),
    ("study", {"epsilon": 1}, "unknown key 'epsilon'; it belongs below 'privacy'"),
    ("study", {"data": {"privacy": {}}}, "unknown key 'data.privacy'; it belongs at the top of the document"),
    (
        "study",
        {"estimator": {"name": "difference_in_means", "clip": 1}},
        "'estimator.clip' (known keys: confounding_prior, name, trial)",
    ),
    ("study", {"estimator": {"name": "ipw", "penality": 1}}, "did you mean 'penalty'?"),
    ("study", {"treatmnt": "x"}, "did you mean 'treatment'?"),
    (
        "study",
        {
            "estimator": {"name": "survival", "trial": True},
            "outcome": {"name": "death", "time": "days", "event": "status", "of": ["death"], "horizon": 365},
        },
        "unknown key 'outcome.name' (known keys: event, events, horizon, of, origin, role, time, unit_of_measure)",
    ),
    ("dataset", {"lower": 1}, "unknown key 'lower'; it belongs below 'columns'"),
    ("dataset", {"colums": {}}, "did you mean 'columns'?"),
    ("dataset", {"columns": {"age": BOTH}}, "unknown key 'columns.age.lower' (known keys: description, levels,"),
    ("dataset", {"columns": {"age": {"lower": 0, "uper": 9}}}, "unknown key 'columns.age.uper', did you mean 'upper'?"),
)


@pytest.mark.parametrize(("name", "changes", "said"), CASES, ids=[said for _, _, said in CASES])
def test_a_key_that_may_not_be_is_told_where_it_belongs(
    name: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    # A reader of YAML 1.1 takes these two keys for truth values.
    text = (FERTILITY / f"{name}.yaml").read_text().replace("{no:", '{"no":').replace(" yes:", ' "yes":')
    document = yaml.safe_load(text) | changes
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(CausalveilError) as caught:
        load_study_file(path) if name == "study" else load_contract(path)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    key = next(iter(changes))
    assert f"unknown key '{key}', did you mean '{key}'" not in message
