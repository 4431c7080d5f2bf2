"""Ten questions of a reader who never saw the tool, answered by panel and page of each kind of release.

Answers are facts of the run: numbers of the release, names of columns, who approved, which rows. Each has to stand in
the text; a last test takes them out one by one and sees that they are missed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.pooling import make_series
from causalveil.schemas.confounding import ConfoundingStatement
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.release import DirectionRelease, EffectRelease, EffectTable, Release
from causalveil.schemas.sites.pooled import PooledRelease, Series
from causalveil.tasks.report.numbers import amount, figure, percent, within
from causalveil.tasks.report.page import report_html, series_html
from causalveil.tasks.report.panel import adjusted_by_answer, panel_text, plain_text
from tests.flows.test_sites_times import Clinic, call_of
from tests.flows.test_sites_times import pooled as of_times
from tests.report_help import Documents, load
from tests.sites_help import NAMES, Party
from tests.studies import people, write_study

QUESTIONS = (
    "what was estimated",
    "how sure",
    "what was adjusted for",
    "what may be wrong",
    "what did it cost",
    "may I ask again",
    "who approved",
    "which rows were used",
    "what does epsilon mean here",
    "how do I cite it",
)
CAPS = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label", "training_units")}
ALLOWED: dict[str, Any] = {
    "estimators": ["ipw", "aipw", "regression", "balancing", "difference_in_means", "matching"],
    "guarantees": ["finite_sample", "asymptotic"],
    "caps": CAPS,
}
LABEL = {"level": "label", "delta": "0"}
# Kinds that the documents of ``tests/report_help.py`` have not: estimator, privacy, and what else the study says.
RUNS: dict[str, dict[str, Any]] = {
    "regression": {"estimator": {"name": "regression"}},
    "aipw": {
        "estimator": {"name": "aipw", "guarantee": "asymptotic"},
        "covariates": {"age": {"lower": 20, "upper": 60}, "group": ...},
    },
    "matching sample": {"estimator": {"name": "matching", "penalty": 0.1}, "privacy": {"delta": "0"}},
    "matching": {"estimator": {"name": "matching"}, "privacy": LABEL},
    "balancing": {"estimator": {"name": "balancing"}, "privacy": LABEL},
    "ipw label": {"estimator": {"name": "ipw", "penalty": 0.1}, "privacy": LABEL},
    "difference": {"estimator": {"name": "difference_in_means", "trial": True}},
    "regression where": {
        "estimator": {"name": "regression"},
        "privacy": {"epsilon": "20"},
        "where": [{"column": "age", "op": ">=", "value": 30}],
    },
    "protocol label": {
        "kind": "effect",
        "outcome": ...,
        "outcomes": [{"name": "score", "role": "primary"}],
        "subgroups": "group",
        "covariates": {"group": ...},
        "estimator": {"name": "balancing"},
        "privacy": {**LABEL, "epsilon": "5"},
    },
}
# Kinds of the documents that are as they were run or pooled.
DOCUMENTS = (
    *("protocol", "protocol of times", "survival", "survival, adjusted", "pooled", "pooled fixed", "pooled protocol"),
    *("direction", "undecided"),
)
Read = Release | PooledRelease | Series


def monthly(folder: Path) -> Series:
    """Two months of a trial, and their series."""
    study = {
        "data": {"select": {"newest": 1}},
        "estimator": {"penalty": ..., "name": "difference_in_means", "trial": True},
    }
    blocks = {**ALLOWED, "dataset": "months", "blocks": {"key": "month", "units_span": False}}
    path = write_study(folder / "study", partitions=0, study=study, contract=blocks)
    for month in (1, 2):
        place = path.parent / f"month={month}"
        place.mkdir()
        people(600, seed=month).with_columns(person=pl.col("person") + 10**6 * month).write_parquet(place / "p.parquet")
        run_study(path, out=folder / f"out-{month}", engine="direct")
    return make_series(path, folder / "series", DirectEngine()).series


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Read]:
    """Small runs of the kinds that no document is of, and a series."""
    folder, patch = tmp_path_factory.mktemp("ten"), pytest.MonkeyPatch()
    found: dict[str, Read] = {}
    with patch.context() as here:
        here.setenv("CAUSALVEIL_HOME", str(folder / "home"))
        for place, (name, study) in enumerate(RUNS.items()):
            settings = {"penalty": ..., **study["estimator"]}
            path = write_study(
                folder / f"s{place}",
                frame=people(600, seed=place),
                study={**study, "estimator": settings},
                contract={**ALLOWED, "dataset": f"d{place}"},
            )
            found[name] = run_study(path, out=folder / f"o{place}", engine="direct").release
        found["series"] = monthly(folder / "months")
    return found


def text_of(release: Read) -> str:
    """Panel and page as one text."""
    page = series_html(release) if isinstance(release, Series) else report_html(release)
    body = page.partition("</style>")[2]
    return plain(f"{panel_text(release)}\n{re.sub(r'<[^>]+>', '', body)}")


def plain(text: str) -> str:
    return " ".join(unescape(text).replace("`", "").split())


def stated(release: Read) -> list[ConfoundingStatement | None]:
    return [one.confounding for one in release.answers] if isinstance(release, EffectTable) else []


def done(release: Read) -> list[str]:
    """What was done about confounding, as the panel tells it of one or more answers, whatever noise left of each."""
    rows = release.answers if isinstance(release, EffectTable) else ()
    absent = ["a statement" for one in rows if one.state == "answered" and one.confounding is None]
    return [*absent, *(plain_text([line]) for line in adjusted_by_answer(stated(release)))]


def shown(found: Any) -> str:
    """An estimate as the panel shows it."""
    return within(found.estimate, found.interval.lower, found.interval.upper)


def estimates(release: Read) -> Iterator[tuple[str, Any]]:
    """Every estimate that the panel shows, and its interval."""
    rows = release.answers if isinstance(release, EffectTable) else ()
    # Of several sites, times have a few measures that all stand there.
    few = rows if len(rows) <= 2 or isinstance(release, Series) else rows[:1]
    yield from ((shown(one), one.interval) for one in few if one.estimate is not None)


POPULATIONS = {"ATE": "over all units", "ATT": "over the treated units", "ATC": "over the untreated units"}


def outcomes(release: Read) -> list[str]:
    specification = release.specification
    if "pair" in specification:
        return [specification["pair"][one]["name"] for one in ("x", "y")]
    return [*(each.get("name") or each.get("event") for each in specification.get("outcomes") or ()), ""][:1]


def answers(release: Read) -> dict[str, list[str]]:
    """Return what has to stand in the text, by question."""
    specification, privacy = release.specification, release.privacy
    alone = release if isinstance(release, Release) else None
    parts: list[Any] = list(getattr(release, "sites", getattr(release, "runs", ())))
    adjusted = any(one is not None and one.method is not None for one in stated(release))
    covariates = list(specification.get("covariates") or {}) if adjusted else []
    budgets = [release.budget] if alone else [one.budget for one in parts]
    approvals = [release.approval] if alone else [one.approval for one in parts]
    limits = getattr(release, "not_covered", ())
    found: dict[str, list[str]] = {
        "what was estimated": [*(text for text, _ in estimates(release)), *outcomes(release), release.study],
        "how sure": [within(interval.lower, interval.lower, interval.upper) for _, interval in estimates(release)],
        "what was adjusted for": [*done(release), *covariates],
        "what may be wrong": [one.sentence for one in limits],
        "what did it cost": [f"epsilon {amount_text(privacy.epsilon)}", amount(privacy.epsilon)],
        "may I ask again": [
            f"{one.fits:,} more {'like it fit' if isinstance(release, Series) else 'such run'}"
            for one in budgets
            if one and (alone or isinstance(release, Series))
        ],
        "who approved": [one.words if one else "the ledger" for one in approvals],
        "which rows were used": [getattr(release, "dataset", "")],
        "what does epsilon mean here": [
            f"factor of {figure(float(f'{math.exp(min(float(privacy.epsilon), 700.0)):.2g}'))} at most",
            privacy.unit,
            f"level {privacy.level.replace('_', ' ')}",
        ],
        "how do I cite it": [f"Study {release.study}", "cite as"],
    }
    treatment = specification.get("treatment")
    if treatment:
        found["what was estimated"].append(treatment)
    if alone:
        found["which rows were used"] += [f"{alone.units:,} units"]
        found["how do I cite it"] += [
            alone.run_id,
            alone.ledger.entry_hash[:16],
            f"causalveil {alone.software.version}",
        ]
        found["may I ask again"].append("returns this release, free of charge")
        if alone.budget is not None:
            found["what did it cost"].append(f"{percent(alone.budget.share_left)} is left")
        if alone.data is not None:
            rows = alone.data.rows
            found["which rows were used"].append("none was left out" if rows == alone.units else f"{rows:,} rows")
    else:
        found["may I ask again"].append("may be pooled again at no cost")
        found["which rows were used"] += [f"{one.units:,}" for one in parts] + [one.run_id for one in parts]
        found["how do I cite it"] += [one.ledger.entry_hash[:16] for one in parts]
    if isinstance(release, EffectTable):
        found["what was estimated"].append(POPULATIONS[str(release.estimand)])
    if isinstance(release, EffectRelease | PooledRelease) and release.interval is not None:
        found["how sure"] += [one.sentence for one in release.interval.covers]
    if isinstance(release, DirectionRelease):
        found["how sure"] += [
            f"{abs(release.verdict.weight):.2f}" if release.verdict.favours else "The noise decides nothing"
        ]
        found["what was adjusted for"].append("a common cause of both")
        found["what may be wrong"].append("other units could favour the other direction")
    for one in specification.get("where") or ():
        found["which rows were used"].append(f"{one['column']} {one['op']}")
    return {question: [plain(one) for one in facts if one] for question, facts in found.items()}


def unanswered(release: Read, text: str) -> dict[str, list[str]]:
    """Return the facts that a text lacks, by question."""
    missing = {question: [one for one in facts if one not in text] for question, facts in answers(release).items()}
    return {question: facts for question, facts in missing.items() if facts}


@pytest.mark.parametrize("name", [*RUNS, "series"])
def test_panel_and_page_of_a_run_answer_the_ten_questions(runs: dict[str, Read], name: str) -> None:
    assert tuple(answers(runs[name])) == QUESTIONS
    assert all(answers(runs[name]).values())
    assert unanswered(runs[name], text_of(runs[name])) == {}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_panel_and_page_of_each_other_kind_answer_the_ten_questions(documents: Documents, name: str) -> None:
    release = load(documents[name])
    assert unanswered(release, text_of(release)) == {}


def test_panel_and_page_of_pooled_times_answer_the_ten_questions(tmp_path: Path) -> None:
    parties: dict[str, Party] = {name: Clinic(name, tmp_path / name, seed) for seed, name in enumerate(NAMES)}
    for party in parties.values():
        party.run("asked")
    release = of_times(call_of(tmp_path / "call", parties))
    assert unanswered(release, text_of(release)) == {}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_that_is_taken_out_is_missed(runs: dict[str, Read], question: str) -> None:
    for name in ("regression", "series"):
        text = text_of(runs[name])
        for fact in answers(runs[name])[question]:
            assert question in unanswered(runs[name], text.replace(fact, "")), (name, fact)


def test_details_of_every_kind_have_names_in_words(runs: dict[str, Read], documents: Documents) -> None:
    from causalveil.tasks.report.details import LABELS, UNSHOWN

    for release in [*runs.values(), *(load(documents[name]) for name in DOCUMENTS)]:
        keys = {key.partition("[")[0] for key in getattr(release, "details", {})}
        assert {key for key in keys if not key.startswith(UNSHOWN)} <= set(LABELS), release.estimator


def test_pages_and_panels_write_percents_in_one_way(runs: dict[str, Read], documents: Documents) -> None:
    """A percent sign stands at its number: 95%, in sentences, figures and tables alike."""
    texts = {name: text_of(release) for name, release in runs.items()}
    texts |= {name: text_of(load(document)) for name, document in documents.items()}
    assert all(re.search(r"\d%", text) for text in texts.values())
    assert {name: re.findall(r".{20}\d\s+%", text) for name, text in texts.items() if re.search(r"\d\s+%", text)} == {}
