"""A plan says what matters most first, by one order of kinds: spoiled answers, width, cost, what to declare, the rest.

The kinds stand here once more, by the sentences' own words and not by the marks in the code: a new sentence of a plan
gets a line here, and so somebody decides how much it matters.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from causalveil.flows.api import plan
from causalveil.flows.cli import show
from causalveil.flows.estimators.words import Importance, Sentence, in_order
from causalveil.flows.planning.study_plan import planned
from causalveil.schemas.plan import StandIn
from tests.studies import write_study

DATA = Path(__file__).parents[2] / "data"
# One of each kind that plans within seconds; the number of units where no rows lie beside the study.
STUDIES = {
    "colon/study.yaml": None,
    "delays/study-test-half.yaml": None,
    "lalonde/study.yaml": None,
    "lalonde/study-aipw.yaml": None,
    "lalonde/study-difference.yaml": None,
    "sites/study.yaml": None,
    "sites/study-protocol.yaml": 20_000,
}
KINDS = {
    Importance.refused: ("a run would be refused for lack of budget", "'small' has no cap for level"),
    Importance.wrong: (
        "the penalty, .*, shrinks the propensity model",
        "each score gets noise",
        "no covariate is adjusted for",
        "at this size and budget no curve",
        "who has no value of",
        "The interval covers neither the noise",
    ),
    Importance.hidden: (
        "the noise exceeds the outcome's declared range",
        "noise of scale .* hides margins",
        r"[\w' ]+: noise keeps the order of a margin",
        "the expected half-width, .* is larger than an effect",
        r"[\w' ]+: it answers if about",
        "too few ",
    ),
    Importance.unprotected: ("not protected: ",),
    Importance.expected: (
        r"Expected \d+% interval",
        "One (budget|release) for all",
        r"[\w ,:]+: ± ",
        "That is for ",
        "The half-width[^:]* is between",
        "Depending on the size of the effect",
        "The interval allows for a bias",
        "If (treatment|it) depends",
        "An effect of .* is larger than the expected half-width",
        r"[\w' ]+: noise keeps the order of a margin",
        "HSIC on an example",
        r"[\w' ]+: it answers if about",
    ),
    Importance.cost: ("This run uses ", "the ledger could not be asked"),
    Importance.declare: (
        "Not told: ",
        "By noise and any one of these",
        "With delta: ",
        "The number of units is unknown",
        "Where a unit may have several rows",
        r"\d+ negative controls? (is|are) shown",
        "with delta: 0 the interval is narrower",
        "without a delta the noise on",
        "this is the method of a paper",
    ),
    Importance.informs: (
        "auto chose ",
        "The half-width[^:]* is the (median|mean) of",
        "The half-width[^:]* is that of one draw",
        "In .* noise hides the answer",
        "(Assumed|This assumes)",
        "Propensity model: ",
        "The penalty, ",
        "No outcome was read",
        "For what noise and penalty leave",
        "Bias from the propensity noise",
        "Covariates and treatments are public",
        "A treated unit may serve",
        "Epsilon is divided into",
        "A treatment is flipped",
        "Cross-fitting: ",
        "Decided from public sizes",
        r"\d+ intervals of",
        "Numbers at risk have noise",
        "One training unit moves a residual",
    ),
}


def kind_of(sentence: str, *, warns: bool) -> Importance:
    """Return the kind of a sentence; of a test that may or may not answer it depends on whether it warns."""
    found = [kind for kind, starts in KINDS.items() if any(re.match(start, sentence) for start in starts)]
    if len(found) == 2:
        found = [kind for kind in found if warns == (kind < Importance.expected)]
    assert len(found) == 1, f"of what kind is this: {sentence}"
    return found[0]


def in_places(sentences: list[str] | tuple[str, ...], *, warns: bool) -> list[Importance]:
    """Return the kinds of sentences, which are in order."""
    kinds = [kind_of(one, warns=warns) for one in sentences]
    assert all(before <= after for before, after in pairwise(kinds)), list(zip(kinds, sentences, strict=True))
    return kinds


@pytest.mark.parametrize("study", STUDIES)
def test_a_plan_of_each_shipped_study_is_in_order(study: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = planned(DATA / study, STUDIES[study], StandIn.told(), effect=1e-3)
    told, warned = found.expected["sentences"], found.expected["warnings"]
    assert in_places(told, warns=False)
    in_places(warned, warns=True)
    show.plan(found.study, found.declared, found.expected)
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith(("- ", "Warning: "))]
    assert [line[:2] for line in lines] == ["Wa"] * len(warned) + ["- "] * len(told), "warnings come first"


def test_what_a_run_would_be_refused_for_comes_before_all_else(tmp_path: Path) -> None:
    caps = {"caps": {"sample": {"epsilon": "0.5"}}}
    found = plan(write_study(tmp_path / "study", contract=caps), effect=1e-3)
    assert in_places(found.warnings, warns=True)[0] is Importance.refused
    assert len(found.warnings) > 1
    assert Importance.cost not in in_places(found.sentences, warns=False), "a run that is refused costs nothing"
    text = str(found)
    assert text.index("Warning: a run would be refused") < text.index("Warning: the expected") < text.index("\n- ")


def test_sentences_of_a_kind_keep_their_places_and_become_plain_texts() -> None:
    told = [
        Sentence(Importance.declare, "c"),
        "e",
        Sentence(Importance.wrong, "a"),
        Sentence(Importance.declare, "d"),
        Sentence(Importance.cost, "b"),
        "f",
    ]
    assert in_order(told, Importance.informs) == ["a", "b", "c", "d", "e", "f"]
    assert {type(one) for one in in_order(told, Importance.informs)} == {str}
