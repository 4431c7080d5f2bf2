"""Reporting guidelines: every item is answered from the documents or marked for people, and no count is private."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows import api
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import ContractError
from causalveil.tasks.report.details import GUIDELINES, checklists, items_of
from causalveil.tasks.report.facts import facts_of, unit_flow
from tests.studies import write_study

ARMS = {"randomised": False, "chance": None, "clip": [0.1, 0.9]}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("guidelines")
    contract = {"columns": {"score": {"description": "what the clinic noted", "unit_of_measure": "points"}}}
    path = write_study(folder, contract=contract)
    result = api.run_study(path, out=folder / "out", run_id="one", engine="direct", simulate=3)
    return json.loads(result.path.read_text()), result.path


def test_numbers_are_those_of_the_guidelines() -> None:
    assert [item.number for item in items_of("target.csv") if item.number.isdecimal()] == [
        "2",
        "3",
        "4",
        "5",
        *map(str, range(8, 22)),
    ]
    assert [item.number[:2] for item in items_of("target.csv") if item.number[0] in "67"].count("6a") == 1
    # STROBE has 22 items, some with parts.
    assert list(dict.fromkeys(re.sub(r"[a-e]$", "", item.number) for item in items_of("strobe.csv"))) == list(
        map(str, range(1, 23))
    )
    assert [len(items_of(file)) for file, _, _ in GUIDELINES] == [39, 34, 28]
    for file, _, _ in GUIDELINES:
        numbers = [item.number for item in items_of(file)]
        assert len(numbers) == len(set(numbers))


def test_every_item_is_answered_or_left_to_people(ran: tuple[dict[str, Any], Path]) -> None:
    release, _ = ran
    flow = unit_flow(release, "")
    facts = facts_of(release, ARMS, flow, None)
    named = {name for file, _, _ in GUIDELINES for item in items_of(file) for name in item.facts}
    assert named - facts.keys() == set()
    assert facts.keys() - named == set()
    lists = checklists(release, ARMS, flow, None)
    assert [len(one.items) for one in lists] == [len(items_of(file)) for file, _, _ in GUIDELINES]
    for one in lists:
        assert all(item.says or item.people for item in one.items)
        assert 0 < one.filled < len(one.items)


def test_the_contract_answers_more(ran: tuple[dict[str, Any], Path]) -> None:
    release, path = ran
    contract = path.parents[1] / "dataset.yaml"
    without, told = (api.report(path, out=path.with_name(name)) for name in ("a.html", "b.html"))
    told = api.report(path, out=told, contract=contract)
    assert "what the clinic noted" in told.read_text()
    assert "what the clinic noted" not in without.read_text()
    facts = facts_of(release, ARMS, unit_flow(release, ""), load_contract(contract))
    assert facts["descriptions"] == "The owner says: score (points): what the clinic noted."


def test_a_contract_of_other_data_is_refused(ran: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    other = write_study(tmp_path, contract={"dataset": "another"}).with_name("dataset.yaml")
    with pytest.raises(ContractError, match="is of dataset 'another'"):
        api.report(ran[1], out=tmp_path / "page.html", contract=other)


def test_counts_are_the_units_the_halves_and_what_was_released(ran: tuple[dict[str, Any], Path]) -> None:
    release, _ = ran
    flow = unit_flow(release, "")
    units, train = release["units"], round(0.5 * release["units"])
    assert [box.count for box in (*flow.steps, *flow.halves, flow.last)] == [
        # Rows of the source: of synthetic data they may be told.
        *(units, units),
        *(train, units - train),
        units,
    ]
    assert flow.last.released == ()
    released = {**release, "details": {"treated_share": 0.41234, "units[north]": 1234.56}}
    assert unit_flow(released, "").last.released == (("treated", " ≈ 41%"), ("north", " ≈ 1,230"))


def test_randomised_studies_are_told_of_consort(ran: tuple[dict[str, Any], Path]) -> None:
    assert checklists(ran[0], ARMS | {"randomised": True}, unit_flow(ran[0], ""), None) == ()
