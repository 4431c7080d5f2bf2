"""A plan says what matters most first, by one order of kinds: spoiled answers, width, cost, what to declare, the rest.

The order is that of the codes, and each sentence is made of its facts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Formatter

import pytest

from causalveil.flows.api import plan
from causalveil.flows.cli import show
from causalveil.flows.plan.study_plan import planned
from causalveil.schemas.limits import Fact
from causalveil.schemas.plan import StandIn
from causalveil.schemas.remarks import REMARKS, PlanCode, Remark, in_order, remark
from tests.studies import write_study

DATA = Path(__file__).parents[2] / "data"
# One of each kind that plans within seconds; the number of units where no rows lie beside the study.
STUDIES = {
    "colon/study.yaml": None,
    "lalonde/study.yaml": None,
    "sites/study-protocol.yaml": 20_000,
}


def in_places(remarks: Sequence[Remark]) -> bool:
    """Return whether remarks stand in the order of their codes."""
    places = [list(PlanCode).index(one.code) for one in remarks]
    return places == sorted(places)


@pytest.mark.parametrize("study", STUDIES)
def test_a_plan_of_each_shipped_study_is_in_order(study: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = planned(DATA / study, STUDIES[study], StandIn.told(), effect=1e-3)
    told, warned = found.expected["sentences"], found.expected["warnings"]
    assert told
    assert in_places(told)
    assert in_places(warned)
    show.plan(found.study, found.declared, found.expected)
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith(("- ", "Warning: "))]
    assert [line[:2] for line in lines] == ["Wa"] * len(warned) + ["- "] * len(told), "warnings come first"


def test_what_a_run_would_be_refused_for_comes_before_all_else(tmp_path: Path) -> None:
    caps = {"caps": {"sample": {"epsilon": "0.5"}}}
    found = plan(write_study(tmp_path / "study", contract=caps), effect=1e-3)
    assert found.warnings[0].code is PlanCode.over_budget
    assert len(found.warnings) > 1
    assert PlanCode.budget not in [one.code for one in found.sentences], "a run that is refused costs nothing"
    text = str(found)
    assert text.index("Warning: a run would be refused") < text.index("Warning: the expected") < text.index("\n- ")


def test_remarks_of_a_code_keep_their_places() -> None:
    told = [
        remark(PlanCode.one_draw, of=" of a"),
        remark(PlanCode.curve, of="", path="b"),
        remark(PlanCode.unadjusted),
        remark(PlanCode.curve, of="", path="a"),
    ]
    assert in_order(told) == [told[2], told[0], told[1], told[3]]


@pytest.mark.parametrize("code", PlanCode)
def test_each_sentence_of_a_plan_is_made_of_its_facts(code: PlanCode) -> None:
    """A fact that a sentence has and a remark lacks is an error; read again, a remark says the same."""
    facts: dict[str, Fact] = {
        name: (5 if form == "," else 0.5) if form else "x"
        for _, name, form, _ in Formatter().parse(REMARKS[code])
        if name
    }
    one = remark(code, **facts)
    assert "{" not in one.sentence
    assert Remark.model_validate_json(one.model_dump_json()) == one
    for name in facts:
        with pytest.raises(ValueError, match="does not have the facts"):
            remark(code, **{key: fact for key, fact in facts.items() if key != name})
