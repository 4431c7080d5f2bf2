"""Sentences of panels and pages that had to be read twice, or were false of their run, when they were read aloud."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from pydantic import TypeAdapter

from causalveil.flows.estimators.regression import warned
from causalveil.schemas.estimators.aipw import AipwEstimator
from causalveil.schemas.estimators.balancing import BalancingEstimator
from causalveil.schemas.estimators.difference import DifferenceEstimator
from causalveil.schemas.estimators.ipw import IpwEstimator
from causalveil.schemas.estimators.matching import MatchingEstimator
from causalveil.schemas.estimators.regression import RegressionEstimator, RegressionStudy
from causalveil.schemas.estimators.survival import SurvivalEstimator
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.release import Release
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.report.facts import PHRASES, UNTOLD, settings_words
from causalveil.tasks.report.numbers import span
from causalveil.tasks.report.page import report_html
from causalveil.tasks.report.panel import panel_text
from tests.flows.test_true_sentences import further
from tests.limits import codes
from tests.report_help import LONG, Documents, load, told
from tests.studies import RESOLVED, merge


def release_of(document: dict[str, Any]) -> Release:
    release = load(document)
    assert isinstance(release, Release)
    return release


def page_of(document: dict[str, Any]) -> str:
    body = report_html(release_of(document)).partition("</style>")[2]
    return " ".join(unescape(re.sub(r"<[^>]+>", "", body)).split())


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (-0.1493, -0.0004932, "−0.149 to −0.0005"),
        (0.002, 100.0, "0.002 to 100"),
        (0.0, 10.0, "0.0 to 10.0"),
        (-3.5, -0.5, "−3.50 to −0.50"),
    ],
)
def test_an_end_of_an_interval_reads_as_zero_only_where_it_is_zero(lower: float, upper: float, text: str) -> None:
    assert span({"lower": lower, "upper": upper}) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.99991, "More than 99.9% of"), (1.0, "100.0% of"), (0.0001, "Less than 0.1% of"), (0.0, "0.0% of")],
)
@pytest.mark.parametrize("name", ["effect", "pooled"])
def test_a_budget_that_is_not_whole_does_not_read_as_whole(
    documents: Documents, name: str, share: float, text: str
) -> None:
    document = documents[name]
    left = {**documents["effect"]["budget"], "share_left": share}
    sites = [{**site, "budget": left} for site in document.get("sites", ())]
    changes = {"sites": sites} if sites else {"budget": left}
    shown = str(load(merge(document, changes)))
    # Within a sentence it begins small.
    assert (text[:1].lower() + text[1:] if sites else text) in shown


def test_tests_and_curves_of_an_adjusted_study_say_that_they_are_not_adjusted(documents: Documents) -> None:
    shown, page = panel_text(release_of(documents["survival, adjusted"])), page_of(documents["survival, adjusted"])
    lead = "The arms as they are, not adjusted. "
    assert "Without adjustment: log-rank p =" in shown
    for what in ("Log-rank tests", "Share without", "Cumulative incidence among the controls"):
        assert f"{lead}{what}" in page
    assert page.count("Log-rank tests, and") == page.count(f"{lead}Log-rank tests, and")
    shown, page = panel_text(release_of(documents["survival"])), page_of(documents["survival"])
    assert "\nLog-rank p =" in shown
    assert lead not in page


@pytest.mark.parametrize("scale", [1.0, 1e-3, 4_000.0, 1e9, 1e-12])
def test_an_answer_has_the_same_decimals_on_panel_and_page(documents: Documents, scale: float) -> None:
    interval = {"lower": -2.0004 * scale, "upper": -0.99 * scale}
    (outcome,) = documents["effect"]["specification"]["outcomes"]
    declared = {"outcomes": [{**outcome, "lower": -3 * scale, "upper": 3 * scale}]}
    changes = {"estimate": -1.5 * scale, "interval": interval, "specification": declared}
    document = told(documents["effect"], changes)
    shown, page = panel_text(release_of(document)), page_of(document)
    found = re.search(r"\n(\S+) +95% interval \[(\S+), (\S+)\]", shown)
    assert found is not None, shown
    if "e" not in found[1]:
        estimate, lower, upper = (one.replace("-", "−") for one in found.groups())
        assert f"Estimate{estimate} ({lower} to {upper})" in page.replace("Estimate ", "Estimate")


# What a page writes as code, and the marks of it on a panel.
CODE = re.compile(r"<code>.*?</code>|`[^`]*`", re.DOTALL)
RAW = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")
NAMES = ("treatment", "outcome", "outcomes", "covariates", "data", "subgroups", "arms", "pair", "where", "censoring")


def test_no_raw_identifier_is_printed_but_names_of_columns(documents: Documents) -> None:
    """Settings, models, states and estimators are words; columns, files and commands are as they are."""
    for name, document in {**documents, **{f"further {n}": one for n, one in enumerate(further(documents))}}.items():
        if name == "hostile":
            continue
        named = json.dumps([document.get(key) for key in ("dataset", "study", "run_id", "sites", "privacy")])
        named += json.dumps([document["specification"].get(key) for key in NAMES])
        body = CODE.sub(" ", report_html(load(document)).partition("</style>")[2])
        shown = CODE.sub(" ", panel_text(load(document)))
        raw = RAW.findall(unescape(re.sub(r"<[^>]+>", " ", body)) + shown)
        assert {one for one in raw if one not in named and LONG[:40] not in one} == set(), name


ESTIMATORS: dict[str, tuple[dict[str, Any], str]] = {
    "ipw": ({"name": "ipw"}, "propensity scores clipped to 0.1 and 0.9"),
    "regression": ({"name": "regression", "parts": "auto"}, "non-linear terms selected from the data"),
    "matching": ({"name": "matching", "caliper": 0.1, "ratio": 1}, "caliper 0.1"),
    "aipw": ({"name": "aipw", "guarantee": "asymptotic"}, "outcome model: kernel ridge regression"),
    "known": (
        {"name": "aipw", "guarantee": "asymptotic", "propensity": {"known": 0.5}},
        "known chance of treatment, 0.5",
    ),
    "balancing": ({"name": "balancing"}, "allowance for imbalance, factor 1"),
    "difference": ({"name": "difference_in_means"}, "covariates explain 50% of the outcome's variance"),
    "survival": ({"name": "survival"}, "share 0.25"),
}


KINDS: dict[str, Any] = {
    "ipw": IpwEstimator,
    "regression": RegressionEstimator,
    "matching": MatchingEstimator,
    "aipw": AipwEstimator,
    "known": AipwEstimator,
    "balancing": BalancingEstimator,
    "difference": DifferenceEstimator,
    "survival": SurvivalEstimator,
}


@pytest.mark.parametrize("case", ESTIMATORS)
def test_every_setting_of_an_estimator_is_described_in_words(case: str) -> None:
    settings, words = ESTIMATORS[case]
    document = TypeAdapter(KINDS[case]).validate_python(settings).model_dump(mode="json")
    said = settings_words(document)
    assert words in said
    assert "_" not in said
    assert "r2" not in said
    assert case == "survival" or set(document) <= {*PHRASES, *UNTOLD}


def test_a_checklist_says_of_arms_as_they_are_that_no_covariate_was_adjusted_for(documents: Documents) -> None:
    page = page_of(told(documents["as they are"], {"bias": 0.3}))
    assert "Adjusted for: age" not in page
    assert "Declared and not adjusted for: age, group." in page
    assert "No confounding, beyond what the interval allows for; overlap" in page
    assert "Among units that agree in" not in page
    assert "Adjusted for: age" in page_of(documents["balance"])


@pytest.mark.parametrize(
    ("curves", "covariates", "code"),
    [
        ("auto", {"age": {"lower": 20, "upper": 60}}, PlanCode.no_curves),
        ("none", {"age": {"lower": 20, "upper": 60}}, PlanCode.curves_not_asked),
        ("auto", {"sex": {"levels": ["f", "m"]}}, None),
    ],
)
def test_a_warning_of_linear_terms_says_why_there_are_no_others(
    curves: str, covariates: dict[str, Any], code: PlanCode | None
) -> None:
    """By size and budget, or since the study asks for none; two levels have no other terms."""
    study = {"estimator": {"name": "regression", "penalty": ..., "curves": curves}, "covariates": covariates}
    asked = merge({**RESOLVED, "covariates": {}}, study)
    found = warned(RegressionStudy.model_validate(asked), Sizes(units=300, train=150, estimation=150), StandIn(), list)
    assert codes(found) == ([] if code is None else [code])
