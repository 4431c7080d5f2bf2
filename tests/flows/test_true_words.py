"""Every sentence of desk, log, `plan` and `check` says what is so: rendered with each fact at each value.

As for panel and report (``test_true_sentences.py``): a phrase is there if its fact holds, and not there if it does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.engine.shown import answer_markdown, budget_markdown, committed_line, stage_line
from causalveil.flows.estimators.words import say_effect
from causalveil.flows.plan.budget import budget_of
from causalveil.flows.run.admit import admit_folder
from causalveil.flows.run.check import check
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import BudgetRefused
from causalveil.schemas.oversight import Author, Desk, DeskDataset, DeskGrant, DeskRefusal, DeskRun, Pace
from causalveil.schemas.release import DirectionRelease, EffectRelease, Release
from causalveil.schemas.remarks import PlanCode, Remark
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.privacy.keys import owner_key
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.privacy.ledger.outlook import desk_of
from causalveil.tasks.report.burndown import dataset_html, desk_html
from causalveil.tasks.report.page import TEMPLATES
from tests.flows.test_true_sentences import ALL_OF_IT, PART_OF_IT, plain, texts
from tests.ledger_help import charge, contract, finished, reservation
from tests.report_help import Documents, load, said_of, told
from tests.studies import people, write_study

Facts = Mapping[str, Any]
NOW = datetime(2026, 5, 1, tzinfo=UTC)
BY = Author(at=NOW, actor="ada", host="desk")


def combinations(values: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return facts so that each value of each is there, beside each value of the next one."""
    listed = {name: tuple(some) for name, some in values.items()}
    first = {name: some[0] for name, some in listed.items()}
    names = list(listed)
    return [
        first | {one: a, other: b}
        for one, other in zip(names, [*names[1:], names[0]], strict=True)
        for a, b in itertools.product(listed[one], listed[other])
    ]


# Of the owner's desk.
OF_A_DATASET: dict[str, tuple[Any, ...]] = {
    "held": (0, 1, 2),
    "fits": (None, 0, 1, 12),
    "dry": (False, True),
    "signed": (False, True),
    "review": (False, True),
    "concern": (False, True),
    "refused": (False, True),
    "class": ("sensitive", None),
}


def dataset_of(base: DeskDataset, facts: Facts) -> DeskDataset:
    run: DeskRun = base.runs[0]
    held = tuple(run.model_copy(update={"run_id": f"held-{n}", "state": "held"}) for n in range(facts["held"]))
    grant: DeskGrant = base.grants[0].model_copy(update={"signed": facts["signed"], "review": facts["review"]})
    refusal = DeskRefusal(by=BY, run_id="much", study="s", purpose=None, cost=None, why="too much")
    dry = NOW if facts["dry"] else None
    return base.model_copy(
        update={
            "runs": (run, *held),
            "grants": (grant,),
            "refusals": (refusal,) if facts["refused"] else (),
            "concerns": tuple(base.concerns[:1]) if facts["concern"] else (),
            "pace": None if facts["fits"] is None else Pace(study="s", fits=facts["fits"], days_apart=7.0, dry=dry),
            "data_class": facts["class"],
        }
    )


DATASET_CLAIMS = {
    "Waiting for your review": lambda f: f["held"] > 0,
    "1 more run like the last one fits": lambda f: f["fits"] == 1,
    "12 more runs like the last one fit": lambda f: f["fits"] == 12,
    "0 more runs like the last one fit": lambda f: f["fits"] == 0,
    "at the present pace the run of 2026-05-01 is refused": lambda f: f["dry"] and f["fits"] is not None,
    "grants signed by their owner": lambda f: f["signed"],
    "releases held for review": lambda f: f["review"],
    "The cap of level sample was raised.": lambda f: f["concern"],
    "Nothing.": lambda f: not f["concern"],
    "too much": lambda f: f["refused"],
    "Class not recorded": lambda f: f["class"] is None,
}
DESK_CLAIMS = {
    "1 release waits for review.": lambda f: f["held"] == 1,
    "2 releases wait for review.": lambda f: f["held"] == 2,
    "Nothing.": lambda f: not f["concern"],
    "The cap of level sample was raised.": lambda f: f["concern"],
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk of one dataset with a finished run and a raised cap."""
    folder, patch = tmp_path_factory.mktemp("desk"), pytest.MonkeyPatch()
    with patch.context() as here:
        here.setenv("CAUSALVEIL_HOME", str(folder / "home"))
        ledger, owner = open_ledger(), contract()
        ledger.grant(owner, "opening")
        finished(ledger, reservation("week-1"), owner, folder)
        ledger.grant(contract(epsilon="2"), "a second year")
        return desk_of(ledger, NOW)


def test_each_sentence_of_the_desk_is_there_if_and_only_if_it_is_so(desk: Desk) -> None:
    (base,) = desk.datasets
    said = []
    for facts in combinations(OF_A_DATASET):
        one = dataset_of(base, facts)
        page, front = dataset_html(one, [], NOW), desk_html(desk.model_copy(update={"datasets": (one,)}))
        for words, holds in DATASET_CLAIMS.items():
            assert (words in plain(page)) == bool(holds(facts)), (words, facts)
        for words, holds in DESK_CLAIMS.items():
            assert (words in plain(front)) == bool(holds(facts)), (words, facts)
        said += [page, front]
    unused = base.model_copy(update={"runs": (), "account": base.account.model_copy(update={"blocks": ()})})
    none = desk.model_copy(update={"datasets": ()})
    page, front = dataset_html(unused, [], NOW), desk_html(none)
    assert "No run was ever charged." in page
    assert not any("No run was ever charged." in one for one in said)
    assert "No budget was granted or asked for yet." in front
    assert not any("No budget was granted or asked for yet." in one for one in said)
    whole = plain(" ".join([*said, page, front]).replace(">", "> "))
    dead = {name: sorted(one for one in texts(name) if one not in whole) for name in DESKS}
    # The caption of the burn-down is drawn from an account, in ``test_desk.py``.
    assert {name: [one for one in some if not one.startswith("A dot is a run")] for name, some in dead.items()} == {
        name: [] for name in DESKS
    }


DESKS = tuple(sorted(path.name for path in TEMPLATES.glob("desk*.html.j2")))


def test_what_needs_a_look_is_what_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many datasets of one ledger, each with a fact or without it."""
    facts = {"raised": (False, True), "left": ("0.05", "0.5"), "dead": (False, True), "refused": (2, 3)}
    facts |= {"stranger": (False, True)}
    first = {name: values[0] for name, values in facts.items()}
    last = {name: values[1] for name, values in facts.items()}
    ledger, asked = open_ledger(), [first, last, *({**first, name: last[name]} for name in facts)]
    for place, one in enumerate(asked):
        monkeypatch.setenv("CAUSALVEIL_ACTOR", "ada")
        owner = contract(dataset=f"d{place}")
        ledger.grant(owner, "opening")
        spent = charge(epsilon="0.4" if one["left"] == "0.5" else "0.94")
        finished(ledger, reservation(f"d{place}-first", (spent,), contract=owner), owner, tmp_path)
        if one["stranger"]:
            monkeypatch.setenv("CAUSALVEIL_ACTOR", "eve")
        small = charge(epsilon="0.01")
        second = reservation(f"d{place}-second", (small,), contract=owner)
        if one["dead"]:
            ledger.reserve(second, owner)
        else:
            finished(ledger, second, owner, tmp_path)
        monkeypatch.setenv("CAUSALVEIL_ACTOR", "ada")
        for _ in range(one["refused"]):
            with pytest.raises(BudgetRefused):
                ledger.reserve(reservation(f"d{place}-much", (charge(epsilon="0.9"),), contract=owner), owner)
        if one["raised"]:
            ledger.grant(contract(dataset=f"d{place}", epsilon="1.01"), "a little more")
    shown = {one.dataset: " ".join(concern.text for concern in one.concerns) for one in late(ledger).datasets}
    for place, one in enumerate(asked):
        text = shown[f"d{place}"]
        assert ("cap of level sample was raised" in text) == one["raised"], (one, text)
        assert ("is left of level sample" in text) == (one["left"] == "0.05"), (one, text)
        assert ("has held budget for 8 days" in text) == one["dead"], (one, text)
        assert ("3 requests by ada refused in one day" in text) == (one["refused"] == 3), (one, text)
        assert ("First run by eve" in text) == one["stranger"], (one, text)


def late(ledger: Any) -> Desk:
    return desk_of(ledger, datetime.now(UTC) + timedelta(days=8, hours=1))


def test_a_line_of_the_log_says_what_a_stage_drew_and_what_was_kept() -> None:
    one, two = charge("scales", "0.1"), charge("scores", "0.2")
    run = reservation(charges=(one, two))
    for own, drawn in itertools.product(((), (one,), (one, two)), ((), (one,), (one, two))):
        if not set(drawn) <= set(own):
            continue
        kept = [item for item in own if item not in drawn]
        line = stage_line("scales", own, drawn, own, run)
        assert ("declared and spent nothing" in line) == (not own), line
        assert ("already committed by an earlier try" in line) == bool(kept), line
        said = line.split("already committed")
        assert all(item.name in said[0] for item in drawn)
        assert all(item.name in said[-1] for item in kept)
        assert line.endswith(committed_line(own, run))
        assert f"{len(own)} of 2 charges" in line


@pytest.mark.parametrize("name", ["effect", "drowned", "direction", "undecided", "simulated", "protocol", "survival"])
@pytest.mark.parametrize("unit", [None, "weeks"])
def test_what_prefect_shows_of_a_release_is_so(documents: Documents, name: str, unit: str | None) -> None:
    document = documents[name] | {"units_of_measure": {} if unit is None else {"score": unit}}
    for stated, left in ((None, True), (PART_OF_IT, False), (ALL_OF_IT, True)):
        changes = {"confounding": stated and said_of(stated)} if name in ("effect", "drowned", "simulated") else {}
        changed = told(document, changes) if changes else document
        release = load(changed if left else changed | {"budget": None})
        assert isinstance(release, Release)
        text, cost = answer_markdown(release, Path("r.json")), budget_markdown(release)
        effect = isinstance(release, EffectRelease)
        assert ("% interval |" in text) == effect
        assert ("weeks**" in text) == (unit is not None and effect and name != "survival")
        hidden = isinstance(release, EffectRelease) and release.answers[0].state == "unresolved"
        assert ("interval is the whole declared range" in text) == hidden
        assert ("not for release" in text) == release.not_for_release
        if isinstance(release, DirectionRelease):
            assert ("altitude → heat" in text) == (release.verdict.favours == "x_to_y")
            assert ("No verdict." in text) == (release.verdict.favours is None)
        if effect and stated is not None and changes:
            assert " ".join(stated.sentences) in text
        assert ("What is left is not known" in cost) == (release.budget is None)
        assert ("that the owner granted" in cost) == (release.budget is not None)


def test_a_plan_says_what_a_run_takes_and_whether_it_fits(tmp_path: Path) -> None:
    for place, (cap, runs, known) in enumerate(itertools.product(("10", "1.5", "0.5"), (0, 1), (False, True))):
        if runs and cap == "0.5":
            continue
        path = write_study(
            tmp_path / f"{place}", contract={"dataset": f"p{place}", "caps": {"sample": {"epsilon": cap}}}
        )
        if known and not runs:
            open_ledger().grant(load_contract(path.with_name("dataset.yaml")), "opening")
        if runs:
            run_study(path, out=tmp_path / f"out{place}", engine="direct")
        study, plan = plan_study(path)
        found = budget_of(path, study, plan)
        told = " ".join(map(str, [*found.sentences, *found.warnings]))
        fit = int(float(cap)) - runs
        assert ("refused for lack of budget" in told) == (fit < 1), told
        assert ("one such run is possible" in told) == (fit == 1), told
        assert (f"{fit} such runs are possible" in told) == (fit > 1), told
        assert ("no ledger knows the dataset" in told) == (not known and not runs and fit > 0), told
        assert ("This run uses all of" in told or "This run uses 100%" in told) == (fit == 1 and cap == "1"), told


@pytest.mark.parametrize(("effect", "half"), [(1.0, 0.5), (0.5, 0.5), (-1.0, 0.5), (0.1, 0.5)])
def test_a_plan_says_whether_an_effect_is_larger_than_the_half_width(effect: float, half: float) -> None:
    numbers, sentences, warnings = {"half_width": half}, list[Remark](), list[Remark]()
    say_effect(effect, numbers, sentences, warnings)
    large = abs(effect) > half
    assert [(one.code, one.facts["effect"]) for one in sentences] == [(PlanCode.effect_seen, effect)] * large
    assert [(one.code, one.facts["effect"]) for one in warnings] == [(PlanCode.effect_hidden, effect)] * (not large)


CHECKS: dict[str, tuple[Any, ...]] = {
    "class": ("synthetic", "sensitive"),
    "lacks": (None, "score"),
    "text": (False, True),
    "cap": ("10", "0.5"),
    "allowed": (True, False),
    "granted": (False, True),
    "admitted": (False, True),
}


def test_a_check_lists_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    owner = owner_key(tmp_path / "owner.key", create=True)
    for place, facts in enumerate(combinations(CHECKS)):
        frame = people(60)
        if facts["text"]:
            frame = frame.with_columns(pl.lit("old").alias("age"))
        if facts["lacks"]:
            frame = frame.drop("score")
        contract_of = {
            "dataset": f"c{place}",
            "data_class": facts["class"],
            "owner_key": owner.public,
            "caps": {"sample": {"epsilon": facts["cap"]}},
            "estimators": ["ipw"] if facts["allowed"] else ["regression"],
        }
        path = write_study(tmp_path / f"{place}", frame=frame, contract=contract_of)
        whole = not facts["text"] and not facts["lacks"]
        sensitive, granted = facts["class"] == "sensitive", facts["granted"] or facts["admitted"]
        if granted:
            open_ledger().grant(load_contract(path.with_name("dataset.yaml")), "opening", owner)
        if facts["admitted"] and whole:
            admit_folder(DataFolder(path.parent), DirectEngine())
        told = " ".join(str(one) for one in check(path))
        assert ("column 'score' is missing" in told) == bool(facts["lacks"]), (facts, told)
        assert ("column 'age' must be" in told) == facts["text"], (facts, told)
        assert ("does not allow estimator 'ipw'" in told) == (not facts["allowed"]), (facts, told)
        # The budget is asked about where the study is one that the contract allows.
        assert ("refused for lack of budget" in told) == (facts["cap"] == "0.5" and facts["allowed"]), (facts, told)
        assert ("has not granted it" in told) == (sensitive and facts["allowed"] and not granted), (facts, told)
        admitted = facts["admitted"] and whole
        assert ("has not admitted it" in told) == (sensitive and facts["allowed"] and not admitted), (facts, told)
        nothing = whole and facts["allowed"] and facts["cap"] == "10" and (admitted or not sensitive)
        assert (told == "") == nothing, (facts, told)
