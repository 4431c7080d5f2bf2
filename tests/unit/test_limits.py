"""Limits of intervals: codes, facts and the sentence of each."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from causalveil.schemas.limits import SENTENCES, Code, Limit, limit, united

FACTS = {"columns": ("age", "sex"), "column": "school", "factor": 0.25, "share": "40%", "intervals": (30,)}
FACTS |= {"treatment": "offer", "top": "weeks", "bottom": "taken"}


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_sentence_of_its_facts(code: Code) -> None:
    named = re.findall(r"{(\w+)}", SENTENCES[code])
    said = limit(code, **{name: FACTS[name] for name in named}).sentence
    assert not re.search(r"[{}]|^[A-Z]|\.$", said)
    assert all(str(one) in said for name in named if isinstance(FACTS[name], tuple) for one in FACTS[name])


def test_no_two_codes_have_one_sentence() -> None:
    assert len(set(SENTENCES.values())) == len(Code) == len(SENTENCES)


def test_a_document_is_read_by_code_and_facts() -> None:
    """A sentence that somebody changed in a document is said anew."""
    one = limit(Code.left_out, columns=("age",))
    document = one.model_dump(mode="json")
    assert document["sentence"] == one.sentence
    assert Limit.model_validate(document | {"sentence": "nothing is left out"}) == one
    with pytest.raises(ValidationError):
        Limit.model_validate({"code": "something_else"})


def test_limits_of_several_releases_stand_once() -> None:
    first = (limit(Code.unmeasured), limit(Code.grid, intervals=(40,)), limit(Code.left_out, columns=("age",)))
    second = (limit(Code.grid, intervals=(30,)), limit(Code.unmeasured), limit(Code.left_out, columns=("sex",)))
    found = united([*first, *second])
    assert [one.code for one in found] == [Code.unmeasured, Code.grid, Code.left_out, Code.left_out]
    assert found[1].facts["intervals"] == (30, 40)
    assert found[1].sentence == "error of dividing follow-up into 30 to 40 intervals"
