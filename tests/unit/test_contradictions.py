"""What contradicts itself in a release is refused by the name of its field; what a run makes never is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from causalveil.schemas.contradictions import contradictions, of_charge
from causalveil.schemas.errors import ReleaseContradicted
from causalveil.schemas.privacy import Charge
from causalveil.schemas.release import load_release_text
from tests.golden import read
from tests.golden_studies import PEOPLE, effect
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


def quieter(name: str, by: float) -> dict[str, Any]:
    """Return a release whose draws have less noise than their charges need."""
    document = kept(name)
    for one in document["privacy"]["charges"]:
        one["noise_scale"] /= by
    return document


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
        (of_first_row(noise_error=0.0), "'answers.0.noise_error': an answer without noise"),
        (of_answer("regression", noise_error=0.0), "'answers.0.noise_error': an answer without noise"),
        (quieter("ipw", 100), "'privacy.charges': the noise of 'effect' is less than"),
        (quieter("regression", 1.001), "'privacy.charges': the noise of 'scores' is less than"),
        (quieter("survival-protocol", 1.001), "'privacy.charges': the noise of 'cells' is less than"),
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


@pytest.mark.parametrize("level", ["label", "sample"])
def test_an_answer_has_the_noise_that_was_drawn(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of weighted sums the least noise is known: a hundredth of it is refused, as is a tenth of the least."""
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "home"))
    privacy = {"level": level, "delta": 0}
    release = effect("difference", {"privacy": privacy, "estimator": {"trial": True}})(tmp_path / "study", 1)
    document = release.model_dump(mode="json")
    assert list(contradictions(release)) == []
    (answer,) = document["answers"]
    document["answers"] = [{**answer, "noise_error": answer["noise_error"] / 100}]
    refused(document, "'answers.0.noise_error': less than the noise that was drawn")


def golden() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield study, what is answered or charged, and its numbers, of every line of the golden file."""
    for (study, _, what), numbers in read().items():
        yield study, what, numbers


def test_every_draw_of_the_golden_studies_has_the_noise_that_its_charge_needs() -> None:
    found = 0
    for study, what, numbers in golden():
        if not what.startswith("charge "):
            continue
        drawn = Charge.model_construct(
            name=what,
            mechanism=numbers["mechanism"].replace("_", " "),
            sensitivity=float(numbers["sensitivity"]),
            noise_scale=float(numbers["noise_scale"]),
            epsilon=Decimal(numbers["epsilon"]),
            delta=Decimal(numbers["delta"]),
        )
        assert list(of_charge(drawn)) == [], (study, what)
        known = drawn.mechanism in ("laplace", "l2-laplace", "gaussian", "gaussian (analytic)")
        less = drawn.model_copy(update={"noise_scale": 0.999 * (drawn.noise_scale or 0)})
        assert bool(list(of_charge(less))) == known, (study, what)
        found += known
    assert found > 200


def test_every_answer_of_the_golden_studies_has_noise_where_outcomes_are_protected() -> None:
    """And where weighted sums of the small study are drawn once, at least the noise that is known."""
    floors, answers = 0, 0
    scales = {study: float(one["noise_scale"]) for study, what, one in golden() if what == "charge effect"}
    for study, what, numbers in golden():
        if not {"noise", "sampling"} <= numbers.keys() or numbers["noise"] == "None":
            continue
        noise = float(numbers["noise"])
        assert (noise > 0) == ("training_units" not in study), study
        answers += 1
        two_means = "by difference, sample" in study or study.endswith("difference, trial")
        if ("label" in study or two_means) and study.startswith(("effect by", "protocol by")):
            assert noise > 10 * scales[study] / 2 / PEOPLE, (study, what)
            floors += 1
    assert (answers > 800, floors > 100) == (True, True)
