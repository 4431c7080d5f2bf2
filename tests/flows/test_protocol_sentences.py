"""Sentences of protocols, series and pooled tables that were false of their run, or had to be read twice."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from causalveil.schemas.release import EffectRelease
from causalveil.schemas.sites.pooled import Published
from causalveil.tasks.report.details import AS_THEY_ARE, detail_label
from causalveil.tasks.report.numbers import all_of, is_whole
from causalveil.tasks.report.page import report_html
from causalveil.tasks.report.panel import LINES, panel_text
from tests.report_help import Documents, load
from tests.studies import merge

WHERE = [{"column": "age", "op": ">=", "values": [18], "holds": {"lower": 0, "upper": 99}}]
WHOLE_RANGE = {"lower": -10.0, "upper": 10.0}
TABLES = ("protocol", "protocol of times", "pooled protocol")


def page_of(release: Published) -> str:
    body = report_html(release).partition("</style>")[2]
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())
    return re.sub(r" ([,.;:)])", r"\1", text)


def with_answers(document: dict[str, Any], count: int, **specification: Any) -> dict[str, Any]:
    """Return a release of the first answers over all units alone."""
    answers = [one for one in document["answers"] if one["group"] == "all units"][:count]
    if count == 1:
        answers = [{**one, "simultaneous": None} for one in answers]
    changed = merge(document, {"specification": {"subgroups": None, **specification}})
    plain = {"answers": answers, "gates": [], "balance": [], "site_gates": []}
    kept = changed | {key: value for key, value in plain.items() if key in document}
    if "details" in kept:
        kept["details"] = {key: value for key, value in kept["details"].items() if key != "simultaneous"}
    return kept


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("where", [(), WHERE])
@pytest.mark.parametrize("count", [1, 2])
def test_numbers_and_the_population_are_those_of_the_run(
    documents: Documents, name: str, where: list[dict[str, Any]], count: int
) -> None:
    document = with_answers(documents[name], count, where=where)
    release = load(document)
    page, shown, single = page_of(release), panel_text(release), len(document["answers"]) == 1
    together = sum(one["simultaneous"] is not None for one in document["answers"]) > 1
    assert not re.search(r"\b1 (questions|answers|gates|sites|blocks|negative controls)\b|\b0 negative", page + shown)
    assert ("questions were asked together" in page) == ("Every answer" in page) == (not single)
    assert ("hold all together with" in page) == ("Bonferroni" in page or "joint normal law" in page) == together
    assert ("in brackets those that hold all together" in shown) == together
    assert together == (len(document["answers"]) == 2)
    assert ("intervals do not cover" in shown) == (not single)
    assert ("Among units where age >= 18:" in shown) == ("over all units where age >= 18" in page) == bool(where)
    assert ("all eligible units" in page) == bool(where)
    # Where the answer is a number, it is of those that were asked about.
    assert not re.search(r"over all units,", page) or not where


@pytest.mark.parametrize(
    ("estimand", "where", "words"),
    [
        ("ATE", (), "all units"),
        ("ATT", (), "all treated units"),
        ("ATC", WHERE, "all eligible untreated units"),
        (None, WHERE, "all eligible units"),
    ],
)
def test_all_units_are_those_that_the_study_is_about(estimand: str | None, where: Any, words: str) -> None:
    assert all_of({"estimand": estimand, "where": where}) == words
    assert is_whole(words)
    assert not is_whole("all of them")


def test_details_name_subgroups_and_arms(documents: Documents) -> None:
    asked: dict[str, Any] = {"kind": "protocol", "specification": {"arms": {"levels": ["none", "low"]}}}
    asked["specification"]["treatment"] = "drug"
    assert detail_label("share[all units][none]", asked) == "share of units, arm none"
    assert detail_label("units[women][low]", asked) == "units, women, arm low"
    assert detail_label("units[all units]", asked) == "units, all units"
    assert detail_label("cells", asked | {"estimator": "survival"}) == "cells in which units are counted"
    assert detail_label("cells", asked) == "subgroups times arms"
    release = load(documents["protocol"])
    assert isinstance(release, EffectRelease)
    assert "≈ 400" not in page_of(load(with_answers(documents["protocol"], 1)))


def test_covariates_that_were_not_adjusted_for_are_not_said_to_be(documents: Documents) -> None:
    settings = {"name": "difference_in_means", "trial": False}
    document = merge(documents["protocol"], {"specification": {"estimator": settings}})
    assert settings["name"] in AS_THEY_ARE
    page = page_of(load({**document, "estimator": "difference_in_means"}))
    adjusted = page_of(load(documents["protocol"]))
    for said in (
        "Adjusted for: age.",
        "Among units that agree in age",
        "Overlap (positivity)",
        "age covariate 20 to 60",
    ):
        assert (said in adjusted, said in page) == (True, False), said
    assert "Declared and not adjusted for: age." in page
    assert "age not used 20 to 60" in page
    assert "for confounding up to the size that confounding_prior assumes" in page


@pytest.mark.parametrize("name", ["protocol of times", "survival", "survival, adjusted"])
def test_checklists_of_times_speak_of_times(documents: Documents, name: str) -> None:
    document = merge(documents[name], {"specification": {"estimator": {"trial": False}}})
    adjusts = bool(document["specification"].get("covariates"))
    page = page_of(load(document))
    assert "TARGET (2025)" in page
    for said in (
        "changes the time to death",
        "Times begin at 'randomised' and are compared until 365",
        "losses to follow-up are taken to say nothing of the event.",
        "units are followed from 'randomised'.",
        "Kaplan-Meier and Aalen-Johansen curves of noisy counts",
        "Numbers at risk over time, with noise, stand below the curves.",
        "difference of risks",
    ):
        assert said in page, said
    for false in ("one time point", "clipping is harmless", "knows of no follow-up", "a difference of shares"):
        assert false not in page, false
    assert ("regression of pseudo-outcomes on covariates" in page) == adjusts
    assert ("confounding beyond the size that the confounding prior assumes" in page) == (not adjusts)


@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_an_answer_of_some_subgroups_says_that_noise_hides_the_others(documents: Documents, hidden: int) -> None:
    document = documents["protocol"]
    groups = [one for one in document["answers"] if one["group"] != "all units"]
    behind = {one["group"] for one in groups[:hidden]}
    answers = [
        {**one, "state": "unresolved", "confounding": None, "interval": WHOLE_RANGE} if one["group"] in behind else one
        for one in document["answers"]
    ]
    said = f"Noise hides {hidden} of {len(groups)} subgroups. The first answer is of the others;"
    release = load({**document, "answers": answers})
    page, shown = page_of(release), panel_text(release)
    assert (said in page) == (said in shown) == (hidden > 0)
    assert len(shown.splitlines()) <= LINES
    # Curves of arms as they are have all units, whatever is seen of a subgroup.
    times = documents["protocol of times"]
    rows = [one for one in times["answers"] if one["group"] == "all units"]
    ends = {"risk": {"lower": -1.0, "upper": 1.0}, "rmst": {"lower": -730.0, "upper": 730.0}}
    rows += [
        {**one, "state": "unresolved", "interval": ends[one["measure"]]}
        for one in times["answers"]
        if one["group"] != "all units"
    ]
    assert "Noise hides" not in page_of(load({**times, "answers": rows}))
