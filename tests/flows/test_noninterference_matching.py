"""Matching on two neighbouring inputs with the same seeded noise: all that is seen from outside is equal.

The observer and its canonicaliser are those of ``test_noninterference.py``. At sample level the neighbours differ in a
whole row; at label level in one outcome, and then even caps, reuse and counts in the release are equal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from tests.flows.test_noninterference import observe
from tests.matching_help import CONTRACT, matching_changes
from tests.neighbours import neighbour_table
from tests.studies import STUDY, merge, people, write_study

# What a release says of the matching itself: public columns' at label level.
PUBLIC_DETAILS = (
    "treated_arm",
    "control_arm",
    "matched",
    "unmatched",
    "cap_treated",
    "cap_controls",
    "largest_reuse",
    "largest_weight",
    "sensitivity_of_estimate",
    "effective_treated",
    "effective_control",
    "noise_standard_error",
)


def tables(level: str) -> tuple[Any, Any]:
    one = people(600)
    person = dict(zip(one.columns, one.row(17), strict=True)) | {"score": 10.0}
    if level == "sample":
        person |= {"person": 987654321, "treated": not person["treated"], "age": 60.0, "group": "c"}
    return one, neighbour_table(one, 17, person)


@pytest.mark.parametrize("level", ["sample", "label"])
def test_direct_engine_shows_nothing_of_the_data(
    level: str, tmp_path: Path, home: Path, capfd: Any, caplog: Any
) -> None:
    document = merge(STUDY, matching_changes(level=level))
    # The folder of records outlives the first run; here it is there before.
    for folder in (home, home / "records"):
        folder.mkdir(mode=0o700)
    seen = [observe(frame, tmp_path, home, "direct", capfd, caplog, "matching", document) for frame in tables(level)]
    assert set(seen[0]["noisy"]) == {"answers", "details", "curves", "cells"}
    assert seen[0].pop("noisy") != seen[1].pop("noisy"), "the data did differ"
    assert seen[0] == seen[1]


def test_at_label_level_an_outcome_moves_nothing_but_the_noisy_numbers(tmp_path: Path) -> None:
    found = []
    for index, frame in enumerate(tables("label")):
        path = write_study(tmp_path / "study", frame=frame, study=matching_changes(level="label"), contract=CONTRACT)
        out = tmp_path / f"out-{index}"
        found.append(run_study(path, out=out, run_id="observed", simulate=5, engine="direct").release)
    assert found[0].estimate != found[1].estimate
    for name in PUBLIC_DETAILS:
        assert found[0].details[name] == found[1].details[name], name
