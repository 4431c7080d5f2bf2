"""Every estimator with every kind of column, level, budget, basis, number of subgroups and arms: cases of the search.

A new estimator needs cases here, and so does a new option that makes a release of its own: tests name what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from causalveil.schemas.asked.formula import terms_of
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.studies import parse_study
from tests.balancing_help import make_balancing
from tests.difference_help import make_difference
from tests.direction_help import OPTIONS, make_direction, option_name
from tests.ipw_help import make_study
from tests.protocol_help import make_protocol
from tests.regression_help import make_regression
from tests.sensitivity_search import Case
from tests.studies import RESOLVED, merge
from tests.survival_help import make_survival, make_times

Covariates = dict[str, dict[str, Any]]
_WIDE = {"lower": 0, "upper": 80}
# One kind of column each. Numbers whose range is not from one whole number to the next have eighth powers somewhere.
KINDS: dict[str, Covariates] = {
    "flag": {"a": {"lower": 0, "upper": 1, "codes": {"no": "no", "yes": "yes"}}},
    "missing flag": {"a": {"lower": 0, "upper": 1, "codes": {"no": 0, "yes": 1}, "nulls": "indicator"}},
    "unit number": {"a": {"lower": 0, "upper": 1}},
    "missing unit number": {"a": {"lower": 0, "upper": 1, "nulls": "indicator"}},
    "number": {"a": _WIDE},
    "missing number": {"a": {**_WIDE, "nulls": "indicator"}},
    "log": {"a": {"lower": 1, "upper": 1000, "scale": "log"}},
    "2 levels": {"a": {"levels": ["a", "b"]}},
    "2 missing levels": {"a": {"levels": ["a", "b"], "nulls": "indicator"}},
    "3 levels": {"a": {"levels": ["a", "b", "c"]}},
    "5 levels": {"a": {"levels": [1, 2, 3, 4, 5]}},
    "other levels": {"a": {"levels": ["a", "b"], "others": "other"}},
    "other missing levels": {"a": {"levels": ["a", "b", "c"], "others": "other", "nulls": "indicator"}},
}
_ONE_EACH = ("flag", "unit number", "number", "missing number", "2 levels", "3 levels", "log")
MIXED: Covariates = {f"x{place}": KINDS[kind]["a"] for place, kind in enumerate(_ONE_EACH)}
MANY: Covariates = {f"x{place:02d}": _WIDE for place in range(12)}
SETS = {**KINDS, "mixed": MIXED, "many": MANY}
# Every form of a term, of MIXED's flag, numbers, missing number, levels and logarithm.
_TERMS = ("x2^2", "x3^4", "ns(x2, 3)", "x3 > 40", "sqrt(x2)", "x0:x2", "x5:x3", "x4:(x2 >= 30)", "x2:x3", "sqrt(x6)")


def in_full(*terms: str) -> list[dict[str, Any]]:
    """Terms as a study in full has them."""
    return [one.term.model_dump(mode="json") for one in terms_of(terms)[0]]


TERMS = in_full(*_TERMS)
ELIGIBLE: list[dict[str, Any]] = [
    {"column": "x2", "holds": _WIDE, "op": ">=", "values": [20.0]},
    {"column": "x5", "holds": {"levels": ["a", "b", "c"]}, "op": "!=", "values": ["c"]},
]
ELIGIBLE_LABEL: list[dict[str, Any]] = [
    {"column": "x00", "holds": {"lower": -1, "upper": 1}, "op": "<", "values": [0.5]}
]


def _only(study: dict[str, Any], covariates: Covariates) -> dict[str, Any]:
    return {**study, "covariates": covariates}


def _matching(covariates: Covariates, **settings: Any) -> MatchingStudy:
    privacy = {key: settings.pop(key) for key in ("epsilon", "delta", "level", "estimand") if key in settings}
    estimand = privacy.pop("estimand", "ATE")
    base = _only({key: value for key, value in RESOLVED.items() if key not in ("covariates", "estimator")}, covariates)
    study = parse_study(
        merge(base, {"estimator": {"name": "matching", **settings}, "privacy": privacy, "estimand": estimand})
    )
    assert isinstance(study, MatchingStudy)
    return study


def _regressions() -> Iterator[Case]:
    def of(said: str, covariates: Covariates = MIXED, epsilon: str = "50", **more: Any) -> Case:
        return Case(f"regression, {said}", make_regression(0, covariates=covariates, epsilon=epsilon, **more), 100, 200)

    for name, covariates in SETS.items():
        yield of(name, covariates)
        yield of(f"{name}, without delta", covariates, delta="0")
    for epsilon in ("1", "1000"):
        yield of(f"epsilon {epsilon}", epsilon=epsilon)
    for estimand in ("ATT", "ATC"):
        yield of(estimand, estimand=estimand)
    yield of("a trial", trial=True)
    yield of("lines alone", curves="none")
    for delta in ("1e-6", "0"):
        yield of(f"terms, delta {delta}", terms=TERMS, delta=delta, curves="none")
        yield of(f"terms and curves, delta {delta}", terms=TERMS, delta=delta)
    yield of("terms, missing number", KINDS["missing number"], terms=in_full("a^2", "ns(a, 4)"), curves="none")
    yield Case("regression, skewed", of("").study, 100, 200, skewed=True)
    for treated in (None, 3):
        clusters = {"column": "school", "number": 6, "treated": treated}
        yield of(f"clusters, {treated} treated", KINDS["number"], clusters=clusters)
    yield of("an event", outcome={"name": "score", "lower": 0, "upper": 1, "codes": {"no": 0, "yes": 1}})
    shares = {"scales": "0.2", "lines": "0.2", "screen": "0.2", "refit": "0.2", "scores": "0.2"}
    for delta in ("1e-6", "0"):
        yield of(f"even parts, delta {delta}", parts=shares, delta=delta)
        yield Case(f"regression, of few, delta {delta}", make_regression(2, delta=delta), 20, 5)


def _protocols() -> Iterator[Case]:
    def of(said: str, covariates: Covariates, outcomes: int, groups: int, arms: int, **more: Any) -> Case:
        study = make_protocol(0, outcomes, groups, arms, covariates=covariates, **{"epsilon": "50", **more})
        said = f"protocol, {said}: {outcomes} outcomes, {groups} groups, {arms} arms"
        return Case(said, study, 40 * groups * arms, 40)

    for name, covariates in SETS.items():
        yield of(name, covariates, 1, 2, 2)
    for groups in (1, 2):
        ratio = {"name": "r", "top": "y0", "bottom": "y1"}
        yield of("products", MIXED, 3, groups, 2, contrasts=[ratio])
    for arms in (2, 3):
        for left_out in (1, 3):
            yield of(f"{left_out} left out", MIXED, 3, 1, arms, left_out=left_out)
    for left_out in (0, 2):
        mean = {"name": "mean", "by_size": True, "of": {"y0": 1, "y2": 1}}
        more = {"of_arms": ("a1", "a1", "a2"), "left_out": left_out, "contrasts": [mean]}
        yield of(f"cohorts, {left_out} left out", MIXED, 3, 1, 3, **more)
    for groups in (1, 2, 3):
        for arms in (2, 3):
            yield of("mixed", MIXED, 3, groups, arms)
            yield of("many", MANY, 2, groups, arms, epsilon="1000")
            yield of("lines alone", MIXED, 2, groups, arms, curves="none")
            yield of("terms", MIXED, 2, groups, arms, terms=TERMS, curves="none")
            yield of("a trial by means", MIXED, 3, groups, arms, name="difference_in_means", trial=True)
    # Who is not eligible adds nothing: with a row that is, and one that is not, and with none that is.
    for groups, name in ((1, "regression"), (3, "regression"), (1, "difference_in_means"), (2, "difference_in_means")):
        yield of(f"eligible, {name}", MIXED, 2, groups, 2, name=name, where=ELIGIBLE)
        yield of(f"eligible, {name}, delta 0", MIXED, 2, groups, 2, name=name, where=ELIGIBLE, delta="0")
    for name, covariates in SETS.items():
        yield of(f"{name}, delta 0", covariates, 1, 1, 2, delta="0")
    for groups in (1, 2):
        for arms in (2, 3):
            yield of("mixed, delta 0", MIXED, 2, groups, arms, delta="0")
    for name in ("regression", "difference_in_means"):
        for treated in (None, 3):
            clusters = {"column": "school", "number": 6, "treated": treated}
            said = f"clusters, {name}, {treated} treated"
            yield of(said, KINDS["number"], 2, 1, 2, name=name, trial=True, clusters=clusters)
            of_arms = None if treated is None else {"a1": 3, "a2": 3}
            several = {"column": "school", "number": 9, "treated": of_arms, "subgroups": "all"}
            yield of(said, KINDS["number"], 2, 2, 3, name=name, trial=True, clusters=several)
        weights = {"column": "pweight", "upper": 5}
        for groups, arms in ((1, 2), (2, 3)):
            yield of(f"weighted, {name}", MIXED, 2, groups, arms, name=name, weights=weights)
    yield Case("protocol, of few", make_protocol(2), 20, 10)


def _label_protocols() -> Iterator[Case]:
    for groups in (1, 2, 3):
        for arms in (2, 3):
            for delta in ("0", "1e-6"):
                study = make_protocol(1, 2, groups, arms, name="balancing", delta=delta, epsilon="100")
                yield Case(f"label protocol, balancing: {groups} groups, {arms} arms, delta {delta}", study, 24)
        study = make_protocol(1, 2, groups, 2, name="balancing", delta="1e-6", epsilon="100", where=ELIGIBLE_LABEL)
        yield Case(f"label protocol, balancing, eligible: {groups} groups", study, 24)
        study = make_protocol(1, 3, groups, 2, name="matching", ratio=1, epsilon="100")
        yield Case(f"label protocol, matching: {groups} groups", study, 24)
        study = make_protocol(1, 2, groups, 2, name="ipw", epsilon="100")
        yield Case(f"label protocol, ipw: {groups} groups", study, 24)


def _ipw() -> Iterator[Case]:
    for name in ("mixed", "missing number", "other missing levels"):
        for level in ("sample", "training_units", "label"):
            study = make_study(epsilon="1000", level=level)
            # Covariates of the small study are replaced and not merged.
            study = type(study).model_validate({**study.model_dump(mode="json"), "covariates": SETS[name]})
            yield Case(f"ipw, {name}, {level}", study, 12)
    for weighting in ("hajek", "horvitz_thompson"):
        for level in ("sample", "training_units", "label")[: 3 if weighting == "hajek" else 2]:
            for delta in ("1e-6", "0"):
                study = make_study(epsilon="1000", delta=delta, level=level, weighting=weighting, clip=[0.05, 0.8])
                yield Case(f"ipw, {weighting}, {level}, delta {delta}", study, 12)
    for penalty in (0.001, 10.0):
        yield Case(f"ipw, penalty {penalty}", make_study(epsilon="1e6", penalty=penalty), 12)
    for level in ("sample", "training_units"):
        study = make_study(epsilon="0.9", level=level, weighting="horvitz_thompson", variant="paper")
        yield Case(f"ipw, paper, {level}", study, 12)


def _matchings() -> Iterator[Case]:
    for estimand in ("ATE", "ATT", "ATC"):
        for level, delta in (("label", "0"), ("sample", "0"), ("sample", "1e-6")):
            study = _matching(MIXED, epsilon="100", delta=delta, level=level, ratio=2, estimand=estimand)
            yield Case(f"matching, {estimand}, {level}, delta {delta}", study, 16)
    for level in ("label", "sample"):
        for ratio, cap in ((1, 2), (3, "adaptive")):
            study = _matching(MIXED, epsilon="100", delta="0", level=level, variant="paper", ratio=ratio, cap=cap)
            yield Case(f"matching, paper, {level}, {ratio} neighbours", study, 16)
    study = _matching(MIXED, epsilon="100", delta="0", level="label", caliper=0.8, confounding_prior={"outcome_r2": 0})
    yield Case("matching within a caliper", study, 16)


def _simple() -> Iterator[Case]:
    for delta in ("1e-6", "0"):
        yield Case(f"difference in means, delta {delta}", make_difference(epsilon="1", delta=delta), 20)
        yield Case(f"difference at label level, delta {delta}", make_difference(level="label", delta=delta), 12)
        for allowance in (0, 1):
            study = make_balancing(0, covariates=MIXED, delta=delta, allowance=allowance)
            yield Case(f"balancing, delta {delta}, allowance {allowance}", study, 16)


def _unrecorded() -> Iterator[Case]:
    """Units without a treatment or an outcome, who count as what the study says."""
    counted = {"missing_treatment": "control", "missing_outcome": "lower"}
    yield Case("regression, unrecorded", make_regression(0, covariates=MIXED, epsilon="50", **counted), 100, 200)
    yield Case("protocol, unrecorded", make_protocol(0, 2, 2, 3, covariates=MIXED, epsilon="50", **counted), 240, 40)
    yield Case("ipw, unrecorded", make_study(epsilon="1000", **counted), 12)
    for level in ("label", "sample"):
        # At label level treatments are public, so that one cannot be missing.
        nulls = counted if level == "sample" else {"missing_outcome": "lower"}
        said = {"label": "difference at label level", "sample": "difference in means"}[level]
        yield Case(f"{said}, unrecorded", make_difference(level=level, epsilon="1", **nulls), 20)
    study = merge(_matching(MIXED, epsilon="100", delta="0", level="sample").model_dump(mode="json"), counted)
    yield Case("matching, unrecorded", MatchingStudy.model_validate(study), 16)


def _directions() -> Iterator[Case]:
    for option in OPTIONS:
        for penalty in (0.01, 1.0):
            study = make_direction(penalty=penalty, epsilon="10", **option)
            yield Case(f"direction, {option_name(option)}, penalty {penalty}", study, 24)
    for protect in (["test"], ["train", "test"]):
        for score in ("spearman", "kendall", "hsic"):
            study = make_direction(scores=[score], protect=protect, delta="0", epsilon="10")
            yield Case(f"direction, {score}, {'+'.join(protect)}", study, 24)


def _times() -> Iterator[Case]:
    for delta in ("1e-6", "0"):
        yield Case(f"survival, delta {delta}", make_survival(delta=delta), 12)
        one = make_survival(competing=False, delta=delta, intervals=7)
        yield Case(f"survival, one kind, delta {delta}", one, 12)
        beside = {"covariates": {"x": {"lower": 0, "upper": 1}, "g": {"levels": ["a", "b"]}}, "delta": delta}
        yield Case(f"survival, adjusted, delta {delta}", make_survival(trial=False, **beside), 12)
        by = {"by": {"g": {"levels": ["a", "b"]}}}
        # At a small epsilon groups of so few are pooled before they are released.
        apart = {**beside, "epsilon": "1000"}
        yield Case(f"survival, adjusted by groups, delta {delta}", make_survival(censoring=by, **apart), 12)
        groups = {"name": "g", "column": {"levels": ["a", "b"], "nulls": "indicator"}}
        arms = {"levels": ["x", "y", "z"], "reference": "y"}
        where = [{"column": "age", "holds": {"lower": 0, "upper": 1}, "op": ">=", "values": [0.3]}]
        many = make_times(delta=delta, epsilon="100", subgroups=groups, arms=arms, where=where, intervals=5)
        yield Case(f"survival, many questions, delta {delta}", many, 12, copies=5)
        both = {"covariates": {"x": {"lower": 0, "upper": 1}}, "trial": False, "epsilon": "1000", "intervals": 5}
        halves = {"by": {"x": {"lower": 0, "upper": 1}}, "classes": {"x": [0.5]}}
        many = make_times(**both, delta=delta, subgroups=groups, where=where, censoring=halves)
        yield Case(f"survival, many adjusted questions, delta {delta}", many, 12, copies=5)
        if delta != "0":
            schools = {"column": "school", "number": 9, "treated": 4, "subgroups": "all"}
            many = make_times(**both, delta=delta, subgroups=groups, clusters=schools)
            yield Case("survival, many questions of clusters", many, 12, copies=5)
        many = make_times(**both, delta=delta, terms=in_full("x^2"))
        yield Case(f"survival, many questions with terms, delta {delta}", many, 12, copies=5)
        many = make_times(**both, delta=delta, arms=arms, measure=["risk", "rmst"])
        yield Case(f"survival, many adjusted questions, three arms, delta {delta}", many, 12, copies=5)
        by = {"by": {"x": {"lower": 0, "upper": 1}}, "classes": {"x": [0.2, 0.6]}, "beyond": "restrict"}
        where = [{"column": "g", "holds": {"levels": ["a", "b"]}, "op": "==", "values": ["a"]}]
        one = make_survival(censoring=by, where=where, **apart)
        yield Case(f"survival, adjusted by classes, eligible, delta {delta}", one, 12)
        yield Case(f"survival, eligible, delta {delta}", make_survival(where=where, delta=delta), 12)
        late = {"entry": "since", "entry_nulls": "indicator", "landmark": 40}
        yield Case(f"survival, late entry, delta {delta}", make_survival(outcome=late, delta=delta), 12)
    nulls = {"time_nulls": "indicator", "event_nulls": "indicator"}
    yield Case("survival, nulls", make_survival(outcome=nulls, missing_treatment="control"), 12)


# What the gate has time for: every line that makes a release, every line that declares a sensitivity.
SHORT = (
    "regression, missing number",
    "regression, other missing levels, without delta",
    "regression, skewed",
    "regression, terms and curves, delta 1e-6",
    "regression, many",
    "regression, of few, delta 0",
    "protocol, number: 1 outcomes, 2 groups, 2 arms",
    "protocol, other missing levels: 1 outcomes, 2 groups, 2 arms",
    "protocol, many: 2 outcomes, 2 groups, 3 arms",
    "protocol, a trial by means: 3 outcomes, 3 groups, 3 arms",
    "protocol, of few",
    "protocol, clusters, regression, 3 treated: 2 outcomes, 1 groups, 2 arms",
    "protocol, clusters, difference_in_means, None treated: 2 outcomes, 2 groups, 3 arms",
    "protocol, weighted, regression: 2 outcomes, 2 groups, 3 arms",
    "protocol, weighted, difference_in_means: 2 outcomes, 1 groups, 2 arms",
    "protocol, mixed, delta 0: 2 outcomes, 2 groups, 3 arms",
    "protocol, eligible, regression: 2 outcomes, 1 groups, 2 arms",
    "protocol, eligible, difference_in_means: 2 outcomes, 1 groups, 2 arms",
    "label protocol, balancing, eligible: 2 groups",
    "label protocol, balancing: 2 groups, 2 arms, delta 1e-6",
    "label protocol, balancing: 1 groups, 3 arms, delta 0",
    "label protocol, matching: 1 groups",
    "label protocol, ipw: 2 groups",
    "ipw, mixed, label",
    "ipw, hajek, sample, delta 1e-6",
    "ipw, horvitz_thompson, training_units, delta 0",
    "ipw, hajek, label, delta 1e-6",
    "ipw, penalty 10.0",
    "ipw, paper, sample",
    "matching, ATE, label, delta 0",
    "matching, ATT, sample, delta 1e-6",
    "matching, paper, sample, 1 neighbours",
    "difference in means, delta 1e-6",
    "difference at label level, delta 0",
    "balancing, delta 1e-6, allowance 0",
    "balancing, delta 0, allowance 1",
    "difference in means, unrecorded",
    "survival, delta 1e-6",
    "survival, delta 0",
    "survival, adjusted, delta 1e-6",
    "survival, adjusted by groups, delta 0",
    "survival, many questions, delta 1e-6",
    "survival, late entry, delta 1e-6",
    "survival, late entry, delta 0",
    "survival, adjusted by classes, eligible, delta 1e-6",
    "direction, test-scores-ours, penalty 1.0",
    "direction, train-scores-ours, penalty 0.01",
    "direction, train+test-difference-ours, penalty 1.0",
    "direction, test-scores-paper, penalty 1.0",
    "direction, train-scores-paper, penalty 1.0",
)


def cases() -> dict[str, Case]:
    """All of them by name."""
    parts = (
        _regressions,
        _protocols,
        _label_protocols,
        _ipw,
        _matchings,
        _simple,
        _unrecorded,
        _times,
        _directions,
    )
    return {case.name: case for part in parts for case in part()}
