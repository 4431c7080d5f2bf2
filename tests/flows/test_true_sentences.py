"""Every sentence of panel and report says what happened: rendered with each fact at each value, and none is unused.

A claim is a phrase and the fact that it states. It must be there if the fact holds, and not there if it does not.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from jinja2 import nodes

from causalveil.flows.cli.owner import held_to
from causalveil.flows.run.finished import RunResult
from causalveil.flows.run.pooling import PooledResult
from causalveil.schemas.confounding import (
    AS_THEY_ARE,
    RANDOMISED,
    AdjustmentState,
    ConfoundingStatement,
    Shortfall,
    of_share,
)
from causalveil.schemas.contract import DataClass
from causalveil.schemas.documents import digest_of
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.release import ApprovalStatement, EffectRelease, Release
from causalveil.schemas.remarks import PlanCode
from causalveil.schemas.sites.pooled import PooledRelease
from causalveil.tasks.report import panel
from causalveil.tasks.report.page import TEMPLATES, environment, head_html, report_html
from causalveil.tasks.report.panel import LINES
from tests.report_help import ALL_OF_IT, PART_OF_IT, STATEMENTS, WHOLE, Documents, load, said_of, told
from tests.studies import merge

UNITS, KEY = 400, "ed25519:" + "1f" * 32
# Facts by name, each with every kind of value that a run can have.
FACTS: dict[str, tuple[Any, ...]] = {
    "done": STATEMENTS,
    "data": (
        None,
        {"rows": UNITS, "left_out": {}, "bounds_from_data": []},
        {"rows": UNITS + 17, "left_out": {"score": 17, "age": 0}, "bounds_from_data": ["age"]},
        {"rows": 3 * UNITS, "left_out": {}, "bounds_from_data": ["age", "group"]},
    ),
    "interval": (
        (2.0, 0.5, 3.5, False),
        (-2.0, -3.5, -0.5, False),
        (0.1, -1.0, 1.2, False),
        (10.0, -10.0, 10.0, True),
    ),
    "fits": (None, 0, 1, 74),
    "begun": ("new", "resumed", "finished"),
    "simulated": (False, True),
    "level": ("sample", "label", "training_units"),
    "guarantee": ("finite_sample", "asymptotic"),
    "missing_outcome": (None, "middle", "lower"),
    "bias": (0.0, 0.3),
    "warnings": ((), (PlanCode.whole_range,), (PlanCode.unadjusted, PlanCode.whole_range)),
    "corrected": (None, False),
    "unit": (None, "weeks"),
    "approval": (
        None,
        {"data_class": "public", "owner_key": None, "review": False},
        {"data_class": "sensitive", "owner_key": None, "review": False},
        {"data_class": "sensitive", "owner_key": KEY, "review": False},
        {"data_class": "sensitive", "owner_key": KEY, "review": True},
    ),
}


def rows_of(facts: Mapping[str, Any]) -> tuple[int, int]:
    """Return rows of the source and rows without a value; (0, 0) where nothing is told."""
    data = facts["data"] or {"rows": 0, "left_out": {}}
    return data["rows"], sum(data["left_out"].values())


def state(facts: Mapping[str, Any]) -> AdjustmentState:
    done: ConfoundingStatement = facts["done"]
    return done.state


def approved(facts: Mapping[str, Any], key: str) -> Any:
    """Return a fact on who had to allow the release; None where it does not say."""
    return (facts["approval"] or {}).get(key)


Holds = Callable[[Mapping[str, Any]], bool]
# Of the page: what it says, and when that is so.
CLAIMS: dict[str, Holds] = {
    "were drafted from the data": lambda f: bool(f["data"] and f["data"]["bounds_from_data"]),
    "this run computed none": lambda f: not (f["data"] and f["data"]["bounds_from_data"]),
    "17 rows left out, without a value of score": lambda f: rows_of(f)[1] == 17,
    "none was left out": lambda f: rows_of(f) == (UNITS, 0),
    "1,200 rows became 400, one per unit": lambda f: rows_of(f)[0] == 3 * UNITS,
    "of sensitive data this is not counted here": lambda f: f["data"] is None,
    "nobody is dropped": lambda f: False,
    "Left out by the run": lambda f: False,
    "ot adjusted: treatment was randomised": lambda f: f["done"] == RANDOMISED,
    "djusted for precision by ": lambda f: state(f) is AdjustmentState.randomised and f["done"].method is not None,
    "covariates explain about 25% of the outcome's variance": lambda f: f["done"].explained is not None,
    "Unadjusted: the arms are compared as they are.": lambda f: (
        state(f) is AdjustmentState.unadjusted and f["done"].shortfall is Shortfall.not_asked
    ),
    "Unadjusted: the noise was too large": lambda f: (
        state(f) is AdjustmentState.unadjusted and f["done"].shortfall is Shortfall.noise
    ),
    "Partly adjusted, ": lambda f: state(f) is AdjustmentState.partly,
    "Adjusted until about 17% of possible confounding is left.": lambda f: f["done"].share == 0.97,
    "until about 72% of possible confounding by the other covariates is left.": lambda f: f["done"].share == 0.48,
    "of possible confounding is left.": lambda f: (
        f["done"].share is not None and not (f["done"].linear or f["done"].left_out)
    ),
    "1 covariate or level could not be adjusted for: privacy noise hides how it varies.": lambda f: bool(
        f["done"].left_out
    ),
    "of possible linear confounding is left.": lambda f: f["done"].linear,
    "Curves and products were not looked for: as large as all expected confounding, they could move the "
    "estimate by 2.5.": lambda f: f["done"].linear and f["done"].unseen is not None,
    "Curves and products other than the declared terms were not looked for.": lambda f: (
        f["done"].linear and f["done"].unseen is None
    ),
    "Curves and products that noise hides could move the estimate by 0.38.": lambda f: (
        f["done"].unseen is not None and not f["done"].linear
    ),
    "the default confounding_prior": lambda f: f["done"].prior == "default",
    "the declared confounding_prior": lambda f: f["done"].prior == "declared",
    "Could not be adjusted for: group is b.": lambda f: bool(f["done"].left_out),
    "Unmeasured confounding.": lambda f: state(f) is not AdjustmentState.randomised and not f["interval"][3],
    "An unmeasured confounder would have to explain": lambda f: (
        state(f) is not AdjustmentState.randomised and not f["interval"][3] and f["interval"][0] != 0.1
    ),
    "raises score by": lambda f: f["interval"][1] > 0,
    "lowers score by": lambda f: f["interval"][2] < 0,
    "No effect on score was shown.": lambda f: f["interval"][0] == 0.1,
    "Nothing can be said of score:": lambda f: f["interval"][3],
    "It allows for a bias of 0.3": lambda f: f["bias"] > 0,
    "Not for release.": lambda f: f["simulated"],
    # Of the checklists for observational studies.
    "may be published; rows may not": lambda f: not f["simulated"] and state(f) is not AdjustmentState.randomised,
    "CONSORT does": lambda f: state(f) is AdjustmentState.randomised,
    "The whole row of any one person, every column": lambda f: f["level"] == "sample",
    "The score of any one person": lambda f: f["level"] == "label",
    "in the training half.": lambda f: f["level"] == "training_units",
    "It holds for units of the training half alone.": lambda f: f["level"] == "training_units",
    "spends what its own half spends": lambda f: f["level"] != "training_units",
    "at this sample size. ": lambda f: f["guarantee"] == "finite_sample",
    "This holds for ever": lambda f: f["guarantee"] == "finite_sample",
    "Nothing is proved at this number of units": lambda f: f["guarantee"] == "asymptotic",
    "the middle of its declared range": lambda f: f["missing_outcome"] == "middle",
    "the lower end of its declared range": lambda f: f["missing_outcome"] == "lower",
    "enough for 74 more such runs.": lambda f: f["fits"] == 74,
    "enough for 1 more such run.": lambda f: f["fits"] == 1,
    "when this release was made: too little for another such run.": lambda f: f["fits"] == 0,
    "plan warned of this study": lambda f: bool(f["warnings"]),
    "Attenuated:": lambda f: f["corrected"] is False,
    " weeks": lambda f: f["unit"] is not None,
    "treated minus controls, in weeks": lambda f: f["unit"] is not None,
    "No approval was needed: the data are public": lambda f: approved(f, "data_class") == "public",
    "owner granted the budget, without a signature": lambda f: (
        approved(f, "data_class") == "sensitive" and not approved(f, "owner_key")
    ),
    f"owner granted the budget, signed with key {KEY}": lambda f: bool(approved(f, "owner_key")),
    "approves each release before it leaves": lambda f: bool(approved(f, "review")),
    "Grants and reviews stand in the ledger": lambda f: True,
}
# The same of the panel.
SHOWN: dict[str, Holds] = {
    "Not adjusted: treatment was randomised.": CLAIMS["ot adjusted: treatment was randomised"],
    "Unadjusted: the arms are compared as they are.": CLAIMS["Unadjusted: the arms are compared as they are."],
    "Unadjusted: the noise was too large": CLAIMS["Unadjusted: the noise was too large"],
    "Adjusted until about 17% of possible confounding is left.": CLAIMS[
        "Adjusted until about 17% of possible confounding is left."
    ],
    **{
        said: CLAIMS[said]
        for said in CLAIMS
        if said.startswith("Curves and products") or said == "of possible linear confounding is left."
    },
    "by the other covariates": CLAIMS["Could not be adjusted for: group is b."],
    "1 covariate or level could not be adjusted for": CLAIMS["Could not be adjusted for: group is b."],
    "interval is the whole declared range": CLAIMS["Nothing can be said of score:"],
    "enough for 74 more such runs": lambda f: f["fits"] == 74,
    "enough for 1 more such run.": lambda f: f["fits"] == 1,
    "too little for another such run": lambda f: f["fits"] == 0,
    "was finished before": lambda f: f["begun"] == "finished",
    "was begun before": lambda f: f["begun"] == "resumed",
    "the guarantee is asymptotic": lambda f: f["guarantee"] == "asymptotic",
    "warns of one thing": lambda f: len(f["warnings"]) == 1,
    "warns of 2 things": lambda f: len(f["warnings"]) == 2,
    "Attenuated": CLAIMS["Attenuated:"],
    " weeks": CLAIMS[" weeks"],
}


def every_value() -> Iterator[dict[str, Any]]:
    """Yield facts so that each value of each is there, and each pair of values of facts next to each other is."""
    first = {name: values[0] for name, values in FACTS.items()}
    yield first
    names = list(FACTS)
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        for a, b in itertools.product(FACTS[one], FACTS[other]):
            yield first | {one: a, other: b}


def with_facts(document: dict[str, Any], facts: Mapping[str, Any]) -> Release:
    """Return a release in which all this is so."""
    estimate, lower, upper, panel = facts["interval"]
    left = facts["fits"] is not None and {**document["budget"], "fits": facts["fits"]}
    asymptotic = facts["guarantee"] == "asymptotic"
    attenuated = {"attenuation_corrected": False, "attenuation_factor": 0.34} if facts["corrected"] is False else {}
    missing = {} if facts["missing_outcome"] is None else {"missing_outcome": facts["missing_outcome"]}
    trial = state(facts) is AdjustmentState.randomised
    changed = told(
        document,
        {
            "units": UNITS,
            "confounding": None,
            "estimator": "regression",
            "data": None,
            "budget": left or None,
            "estimate": estimate,
            "interval": {"lower": lower, "upper": upper},
            "state": "unresolved" if panel else "answered",
            "bias": facts["bias"],
            "sampling_error": 0.4,
            "not_for_release": facts["simulated"],
            "noise": {"source": "seeded" if facts["simulated"] else "operating_system"},
            "guarantee": facts["guarantee"],
            "headline": "NO PRIVACY GUARANTEE" if asymptotic else None,
            "privacy": {"level": facts["level"]},
            "warnings": [{"code": code} for code in facts["warnings"]],
            "units_of_measure": {"score": facts["unit"] or ...},
            "specification": {"estimator": {"name": "regression", "clip": ..., "trial": trial}, **missing},
            "details": {"curves": "none", **attenuated},
        },
    )
    stated = {key: facts[key] for key in ("data", "approval")}
    done = {"confounding": said_of(facts["done"])}
    released = load(told(changed, done) | stated)
    assert isinstance(released, EffectRelease)
    return released


def plain(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", "", text)).split())


def test_each_sentence_is_there_if_and_only_if_it_is_so(documents: Documents) -> None:
    for facts in every_value():
        release = with_facts(documents["effect"], facts)
        page = plain(report_html(release))
        for words, holds in CLAIMS.items():
            assert (words in page) == holds(facts), (words, facts)
        returned = {"new": 0, "resumed": 0, "finished": None}[facts["begun"]]
        result = RunResult(release, Path("r.json"), "r", facts["begun"] != "new", False, returned)
        lines = panel.lines_of(result)
        assert len(lines) <= 12, lines
        shown = plain(re.sub(r"\[/?[a-z ]+\]", "", "\n".join([*lines, *panel.notes(result)])))
        for words, holds in SHOWN.items():
            assert (words in shown) == holds(facts), (words, facts, shown)
        assert all(len(line.split()) <= 25 for line in lines), lines


def texts(template: str) -> set[str]:
    """Return the sentences of a template's source, whatever stands between them."""
    tree = environment().parse((TEMPLATES / template).read_text())
    pieces = [piece for node in tree.find_all(nodes.TemplateData) for piece in re.split(r"<[^>]*>", node.data)]
    words = {" ".join(unescape(piece).split()) for piece in pieces if len(re.findall(r"[a-z]{2,}", piece)) >= 3}
    return {one for one in words if not set(one) & set('"=<>{}')}


def further(documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield releases that say what none of the others does."""
    effect, protocol, survival = documents["effect"], documents["protocol"], documents["survival"]
    covariates = {name: {"lower": 0, "upper": 1} for name in ("age", "x00", "income")}
    rows = [WHOLE | {"covariate": name, "before": 0.1, "after": 0.0, "noise_error": 0.01} for name in ("age", "x00")]
    trial = {"balance": rows, "specification": {"covariates": covariates}}
    correlation = {"low": 0.01, "median": 0.05, "high": 0.2}
    row = {"outcome": "score", "group": "all units", "arm": "1", "correlation": correlation}
    row |= {"design_effect": 2.0, "effective_people": 200.0}
    clusters = {"column": "school", "number": 40, "spread": 0.0, "treated": None, "subgroups": None}
    named = {"specification": {"clusters": clusters}}
    yield merge(effect, named | {"clusters": {**clusters, "answers": [{**row, "hidden": False}]}})
    wide = {"low": 0.0, "median": 0.01, "high": 0.9}
    like_age = {"covariate": "age", "outcome": wide, "treatment": wide}
    yield told(effect, {"benchmarks": [like_age], "sampling_error": 0.4, "confounding": said_of(PART_OF_IT)})
    several = [{**row, "group": group, "hidden": group == "g1"} for group in ("g0", "g1")]
    yield merge(protocol, {"clusters": {**clusters, "answers": several}})
    yield merge(survival, named | {"clusters": {**clusters, "answers": several}})
    yield merge(effect, {"details": {"unlike": "age, group"}})
    yield told(effect, trial | {"confounding": {"left_out": []}})
    yield told(survival, {"values": [survival["answers"][0]["values"][0] + 0.2, 0.1]})
    weighted = {"largest_difference_before": 0.4, "largest_difference_after": 0.02, "cells": 12, "alone_in_cell": 3}
    yield merge(documents["balancing"], {"details": weighted})
    yield merge(documents["means"], {"privacy": {"level": "label"}})
    several = {"levels": ["none", "low", "high"], "reference": "none"}
    yield merge(documents["means"], {"specification": {"arms": several}})
    exact = [{**row, "noise_error": 0.0} for row in documents["balance"]["balance"]]
    yield merge(documents["balance"], {"balance": exact, "privacy": {"level": "label"}})
    yield merge(effect, {"privacy": {"level": "label"}, "details": {**weighted, "choice": "it is the narrowest"}})
    yield merge(documents["aipw"], {"guarantee": "asymptotic"})
    snapshot = {"format": "delta", "table": "s3://lake/visits", "version": 7}
    alone = merge(effect, {"specification": {"covariates": ...}})
    yield merge(alone, {"snapshots": [snapshot], "specification": {"covariates": None}})
    (pair,) = survival["curves"]
    yield merge(survival, {"curves": [merge(pair, {"curves": {"grid_bracket": [-0.3, -0.1]}})]})
    adjusted = {"confounding_adjusted_for": 0.8, "features": 6, "curves": "none", "unadjusted": -0.3}
    named = {
        "covariates": {"age": {"lower": 20, "upper": 60}},
        "censoring": {"by": ["group"], "floor": 0.2},
        "estimator": {"trial": False},
    }
    by_age = {"details": adjusted, "confounding": said_of(PART_OF_IT), "specification": named}
    yield told(survival, by_age)
    yield told(told(survival, by_age), {"details": {"strata": 2, "pooled_strata": "group: b or c"}})
    whole = {"interval": {"lower": -1.0, "upper": 1.0}, "state": "unresolved"}
    yield told(told(survival, by_age), whole | {"details": {"still_followed": 0.1}})
    for landmark in (0, 30):
        late = [survival["specification"]["outcomes"][0] | {"entry": "joined", "landmark": landmark}]
        yield told(survival, whole | {"specification": {"outcomes": late}})
    yield told(documents["aipw"], {"confounding": said_of(RANDOMISED)})
    yield merge(documents["matching"], {"specification": {"estimator": {"ratio": 1}}})
    ratio = {"measure": "ratio", "estimate": 0.8, "lower": 0.6, "upper": None}
    answers = [answer | {"measures": [ratio]} for answer in protocol["answers"]]
    where = [{"column": "age", "op": ">=", "values": [18], "holds": {"lower": 0, "upper": 99}}]
    yield merge(protocol, {"answers": answers, "specification": {"where": where}})
    said = [said_of(PART_OF_IT), said_of(ALL_OF_IT)]
    answers = [{**answer, "confounding": said[place % 2]} for place, answer in enumerate(protocol["answers"])]
    yield merge(protocol, {"answers": answers})
    yield merge(protocol, {"answers": answers[:1]})
    yield merge(
        protocol, {"not_covered": [{"code": code, "facts": {}} for code in ("parallel_trends", "anticipation")]}
    )
    ends = {"interval": {"shape": "interval", "lower": 0.1, "upper": 0.3}, "denominator_z": 4.2}
    over = {"name": "late", "top": "weeks", "bottom": "taken", "state": "answered", "estimate": 0.2} | ends
    yield merge(protocol, {"contrasts": [over]})
    pooled = documents["pooled"]
    (answer,) = pooled["answers"]
    cells = {"pooled_by": "cells", "answers": [{**answer, "stratified": answer[pooled["model"]]}]}
    yield merge(pooled, cells | {"terms": {"terms": {"pooled_by": "cells"}}})
    several = documents["pooled protocol"]
    panel = [one for one in several["answers"] if one["group"] == "all units"]
    yield {**several, "answers": panel[:2]}
    for half in ("train", "test"):
        yield merge(documents["direction"], {"unbounded_halves": [half]})
    times = documents["protocol of times"]
    yield merge(times, {"curves": times["curves"] * 10})
    adjusts = {"covariates": named["covariates"], "estimator": {"trial": False}}
    answers = [{**answer, "confounding": said_of(PART_OF_IT)} for answer in times["answers"]]
    yield merge(times, {"answers": answers, "specification": adjusts})


# Written by other tests: pages of the ledger, of series, and plans.
ELSEWHERE = ("burndown", "desk", "series", "plan")


def test_no_sentence_of_a_report_is_never_rendered(documents: Documents, pages: dict[str, Path]) -> None:
    """A sentence that no run can lead to is dead, and nobody knows whether it is true."""
    rendered = [path.read_text() for path in pages.values()]
    rendered.append(head_html(load(documents["effect"])))
    rendered += [report_html(with_facts(documents["effect"], facts)) for facts in every_value()]
    rendered += [report_html(load(document)) for document in further(documents)]
    said = "\n".join(" ".join(unescape(re.sub(r"<[^>]+>", "\n", page)).split()) for page in rendered)
    names = sorted(path.name for path in TEMPLATES.glob("*.j2") if not path.name.startswith(ELSEWHERE))
    missing = {name: sorted(one for one in texts(name) if one not in said) for name in names}
    assert {name: some for name, some in missing.items() if some} == {}


def lines_of(release: Release) -> list[str]:
    return panel.lines_of(RunResult(release, Path("r.json"), "r", False, False, 0))


STATES = zip(
    [(first, rest) for first in (PART_OF_IT, AS_THEY_ARE, None) for rest in STATEMENTS],
    itertools.cycle(itertools.product((None, "passed", "failed", "cannot_tell"), (None, "weeks"))),
    strict=False,
)


def test_answers_that_are_nearly_whole_are_told_by_the_largest_part_that_is_left() -> None:
    whole, most, partly = of_share(0.9999), of_share(0.97), of_share(0.5)
    assert panel.adjusted_by_answer([whole, most]) == [f"{most.done.removesuffix('.')}, or less."]
    assert [line.startswith("Best") for line in panel.adjusted_by_answer([whole, partly])] == [True, False]


@pytest.mark.parametrize(("stated", "about"), STATES)
def test_a_protocol_says_of_each_answer_what_was_adjusted_for(
    documents: Documents,
    stated: tuple[ConfoundingStatement | None, ConfoundingStatement],
    about: tuple[str | None, str | None],
) -> None:
    (first, rest), (gate, unit) = stated, about
    document = documents["protocol"]
    each = [first, *[rest] * (len(document["answers"]) - 1)]
    answers = [
        {**answer, "confounding": None if one is None else said_of(one)}
        for answer, one in zip(document["answers"], each, strict=True)
    ]
    verdict = {"gate": "balance", "group": "all", "arm": "1", "bound": 0.1, "value": 0.3, "noise_error": 0.1}
    changes = {"answers": answers, "gates": [] if gate is None else [{**verdict, "verdict": gate}] * 2}
    release = load(document | changes | {"units_of_measure": {} if unit is None else {"score": unit}})
    assert isinstance(release, EffectRelease)
    page, lines = plain(report_html(release)), lines_of(release)
    shown = plain("\n".join(lines))
    for one in {one for one in each if one is not None}:
        assert one.sentence in page.replace(one.done, one.sentence)
    different = {one.sentence for one in each if one is not None}
    assert ("What was adjusted for, by answer:" in page) == (len(different) > 1 or first is None)
    assert ("Worst: " in shown) == (len(different) > 1)
    if first is not None:
        assert first.done in page
    assert ("All 2 gates passed." in shown) == (gate == "passed")
    assert ("2 of 2 gates failed" in shown) == (gate == "failed")
    assert ("2 of 2 gates cannot be told" in shown) == (gate == "cannot_tell")
    assert ("treated minus controls, in weeks" in page) == (" weeks" in shown) == (unit is not None)
    assert len(lines) <= LINES
    assert all(len(line.split()) <= 25 for line in lines), lines


def test_a_panel_of_any_kind_has_twelve_short_lines_and_a_console_one(documents: Documents) -> None:
    for name, document in documents.items():
        release = load(document)
        lines = panel.panel_of(release)
        assert len(lines) <= LINES, (name, lines)
        assert all(len(line.split()) <= 25 for line in lines), (name, lines)
        assert str(release).splitlines() == [panel.plain_text([line]) for line in lines]
        assert repr(release) == f"<{type(release).__name__} {release.brief()}>"
        assert "\n" not in repr(release)
        # Names of a hundred letters stand whole.
        assert len(repr(release)) < 200 or name in ("hostile", "direction long"), repr(release)
        assert release.study in repr(release)
        assert f"epsilon {amount_text(release.privacy.epsilon)}" in repr(release)
        if isinstance(release, EffectRelease | PooledRelease) and release.interval is not None:
            assert f"{release.estimate:,.4g}, 95% interval [{release.interval.lower:,.4g}, " in repr(release)
    result = RunResult(load(documents["effect"]), Path("there/r.json"), "r", False, False, 0)
    assert repr(result) == f"<RunResult {result.release.brief()}, there/r.json>"
    assert str(result) == f"{result.release}\nRelease: there/r.json"
    pooled = PooledResult(load(documents["pooled"]), Path("there/r.json"))
    assert repr(pooled) == f"<PooledResult {pooled.release.brief()}, there/r.json>"
    assert str(pooled) == f"{pooled.release}\nRelease: there/r.json"


CODED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "codes": ({"codes": {"no": 1, "yes": 2}}, {"1": "sex = 1", "2": "sex = 2"}),
    "booleans": ({"codes": {"no": False, "yes": True}}, {"0": "sex = 0", "1": "sex = 1"}),
    "whole numbers": ({"levels": [1, 2]}, {"1": "sex = 1", "2": "sex = 2", "(missing)": "sex missing"}),
    "words": ({"levels": ["women", "men"]}, {"women": "women", "men": "men", "(missing)": "sex missing"}),
}


@pytest.mark.parametrize("held", CODED)
def test_a_code_stands_with_the_name_of_its_column(documents: Documents, held: str) -> None:
    column, groups = CODED[held]
    document = documents["protocol"]
    answers = [document["answers"][0], *({**document["answers"][0], "group": group} for group in groups)]
    gates = [
        {"gate": "balance", "group": group, "arm": "1", "bound": 0.1, "value": 0.3, "noise_error": 0.1}
        for group in groups
    ]
    details = {f"units[{group}][1]": 7.0 for group in groups} | {f"curves[{group}]": "none" for group in groups}
    changed = document | {
        "answers": answers,
        "gates": [{**gate, "verdict": "failed"} for gate in gates],
        "details": details,
    }
    release = load(
        merge(changed, {"specification": {"subgroups": {"name": "sex", "column": {"levels": ..., **column}}}})
    )
    page, shown = plain(report_html(release).replace("<", " <")), str(release)
    assert all(group in shown.replace("balance in ", "") for group in groups.values())
    for group in groups.values():
        assert f"units, {group}, treated = 1" in page
        assert f"{group}, treated = 1 0.1" in page
    first = next(iter(groups.values()))
    assert f"balance in {first}, treated = 1: 0.3" in shown


@pytest.mark.parametrize("name", ["pooled", "pooled protocol"])
@pytest.mark.parametrize("unit", [None, "weeks"])
@pytest.mark.parametrize("fits", [None, 0, 1, 74])
def test_a_pooled_panel_says_what_was_adjusted_for_and_what_is_left(
    documents: Documents, name: str, unit: str | None, fits: int | None
) -> None:
    document = documents[name]
    outcome = document["specification"]["outcomes"][0]
    ample = {**documents["effect"]["budget"], "fits": 1_000}
    left = None if fits is None else {**ample, "fits": fits, "share_left": 0.125}
    sites = [{**site, "budget": left if place else ample} for place, site in enumerate(document["sites"])]
    changes = {"sites": sites, "units_of_measure": {} if unit is None else {outcome["name"]: unit}}
    for one in STATEMENTS:
        stated = {"answers": [{**answer, "confounding": said_of(one)} for answer in document["answers"]]}
        release = load(document | changes | stated)
        shown = str(release)
        assert one.done in shown
        assert (" weeks" in shown) == (unit is not None)
        assert ("12.5% of its budget, enough for 74 more such runs" in shown) == (fits == 74)
        assert ("too little for another such run" in shown) == (fits == 0)
        assert ("Each site's ledger says what is left" in shown) == (fits is None)
        assert len(shown.splitlines()) <= LINES, shown
        assert all(len(line.split()) <= 25 for line in shown.splitlines()), shown


@pytest.mark.parametrize("kept", [None, 0.944, 1.0])
@pytest.mark.parametrize("unprotected", [(), ("train",), ("test",)])
def test_a_direction_says_whose_rows_are_protected_and_how_sure_an_order_is(
    documents: Documents, unprotected: tuple[str, ...], kept: float | None
) -> None:
    document = documents["direction"]
    scores = [{**score, "order_kept": kept} for score in document["scores"]]
    release = load(document | {"unbounded_halves": unprotected, "scores": scores})
    assert isinstance(release, Release)
    page, shown = plain(report_html(release)), " ".join(lines_of(release))
    for half, open_half in (("test", "train"), ("training", "test")):
        assert (f"that chance puts in the {half} half" in page) == (unprotected == (open_half,))
        assert (f"It holds for units of the {half} half alone." in page) == (unprotected == (open_half,))
        assert (f"of the {half} half, level" in shown) == (unprotected == (open_half,))
    assert ("The whole row of any one person, every column" in page) == (not unprotected)
    assert ("above 0.999" in page) == ("above 99.9%" in shown) == (kept == 1.0)
    assert ("94.4%" in shown) == (kept == 0.944)


@pytest.mark.parametrize("name", ["pooled", "pooled fixed", "pooled protocol"])
def test_a_page_of_several_sites_says_how_to_cite_it_and_who_approved(documents: Documents, name: str) -> None:
    document = documents[name]
    page = plain(report_html(load(document)))
    sites = ", ".join(site["site"] for site in document["sites"])
    assert f"round {document['round']} of {sites}, terms {digest_of(document['terms'])[:16]}" in page
    assert "may be pooled again at no cost" in page
    for site in document["sites"]:
        assert f"approval of {site['site']}{ApprovalStatement(**site['approval']).words}" in page
    older = [{**site, "approval": None} for site in document["sites"]]
    assert "Its release does not say" in plain(report_html(load({**document, "sites": older})))
    assert plain(report_html(load(document))).count("Its release does not say") == 0


@pytest.mark.parametrize("data_class", DataClass)
def test_an_admission_says_what_becomes_of_changed_files(data_class: DataClass) -> None:
    """Only sensitive data wait for their owner: others are admitted again by the next run."""
    refused = "refused until their owner admits them again" in held_to(data_class)
    assert refused == (data_class is DataClass.sensitive)
    assert ("by itself" in held_to(data_class)) != refused
