"""What contradicts itself in a release is refused by the name of its field; what a run makes never is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from causalveil.schemas.errors import ReleaseContradicted
from causalveil.schemas.release import load_release_text
from tests.studies import merge

KEPT = Path(__file__).parents[1] / "kept"


def kept(name: str) -> dict[str, Any]:
    """Return a release that an earlier version made."""
    document: dict[str, Any] = json.loads((KEPT / "0.1.0" / name / "release.json").read_text())
    return document


def of_first_row(**changes: Any) -> dict[str, Any]:
    """Return a table of questions with another first answer."""
    document = kept("survival-protocol")
    first, *others = document["answers"]
    return {**document, "answers": [{**first, **changes}, *others]}


def of_answer(name: str, place: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a release with another answer."""
    document = kept(name)
    document["answers"][place] = merge(document["answers"][place], changes)
    return document


@pytest.mark.parametrize("path", sorted(KEPT.rglob("release.json")), ids=lambda path: path.parent.name)
def test_a_release_of_every_kind_contradicts_nothing(path: Path) -> None:
    load_release_text(path.read_text())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"units": 10**30}, "'units': more units than"),
    ({"headline": "No privacy guarantee"}, "'headline': it denies"),
    ({"not_for_release": True}, "'not_for_release'"),
    ({"noise": {"source": "seeded"}}, "'not_for_release'"),
    ({"privacy": {"epsilon": 0.5}}, "'privacy.charges': they cost more"),
    ({"privacy": {"epsilon": 2.0, "delta": 0.1}}, "'privacy.charges': they add up to"),
    ({"privacy": {"charges": []}}, "'privacy.charges': they add up to"),
    ({"privacy": {"epsilon_pld": 50.0}}, "'privacy.epsilon_pld'"),
    ({"privacy": {"epsilon_pld": -1.0}}, "'privacy.epsilon_pld'"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_an_effect_that_contradicts_itself_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    refused(merge(kept("ipw"), changes), said)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (of_first_row(estimate=None), "'answers.0.interval': an interval without an estimate"),
        (of_first_row(interval={"lower": 1.0, "upper": -1.0}), "'answers.0.interval': its lower end"),
        (of_first_row(simultaneous={"lower": 1.0, "upper": -1.0}), "'answers.0.simultaneous': its lower end"),
        (of_first_row(noise_error=1e200), "'answers.0.noise_error': too large"),
        (of_first_row(bias=1e308), "'answers.0.bias': too large"),
        (of_answer("ipw", estimate=10.5), "'answers.0.estimate': beyond"),
        (of_answer("ipw", interval={"lower": 3.0, "upper": 2.0}), "'answers.0.interval': its lower end is above"),
        (of_answer("ipw", interval={"lower": -11.0, "upper": 2.0}), "'answers.0.interval': beyond"),
        (of_answer("ipw", interval={"lower": -9.0, "upper": 9.0}, state="unresolved"), "'answers.0.state': noise"),
        (of_answer("ipw", bias=1e308), "'answers.0.bias': too large"),
        (of_answer("ipw", sampling_error=1e200), "'answers.0.sampling_error': too large"),
        (of_answer("ipw", noise_error=1e308), "'answers.0.noise_error': too large"),
        (of_answer("survival-adjusted", estimate=1.5), "'answers.0.estimate': beyond"),
        (of_answer("survival-adjusted", interval={"upper": 1.5}), "'answers.0.interval': beyond"),
        (of_answer("survival-adjusted", interval={"lower": -0.5}, state="unresolved"), "'answers.0.state'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_table_that_contradicts_itself_is_refused_by_name(document: dict[str, Any], said: str) -> None:
    refused(document, said)


def refused(document: dict[str, Any], said: str) -> None:
    """Check that a document is refused, in one line that names the field."""
    with pytest.raises(ReleaseContradicted, match=r"^a\.json.*contradicts itself") as problem:
        load_release_text(json.dumps(document), "a.json")
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)
    assert problem.value.exit_code == 2
