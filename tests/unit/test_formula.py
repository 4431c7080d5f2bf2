"""Terms of a study: what a formula says, what is refused at which character, and that no text is ever evaluated."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from causalveil.schemas.asked.formula import terms_of
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes
from causalveil.tasks.estimate.adjust.features import Encoding, line_values
from causalveil.tasks.estimate.adjust.recipe import joint_recipe
from causalveil.tasks.estimate.adjust.released import EDGES, Public, ReleasedScales
from causalveil.tasks.estimate.adjust.scales import FoundScales, lines_of, scales_of
from causalveil.tasks.estimate.adjust.terms import natural_spline
from tests.studies import merge

STUDY: dict[str, Any] = {
    "kind": "effect",
    "name": "s",
    "treatment": "t",
    "outcome": {"name": "y", "lower": -6, "upper": 6},
    "covariates": {
        "age": {"lower": 18, "upper": 90},
        "income": {"lower": 0, "upper": 100_000},
        "old": {"lower": 0, "upper": 1},
        "sex": {"levels": ["f", "m"]},
        "ward": {"levels": ["a", "b", "c"]},
    },
    "estimator": {"name": "regression"},
    "privacy": {"epsilon": 1, "delta": "1e-6"},
}


def study_of(*terms: str, **changes: Any) -> RegressionStudy:
    found = resolve(parse_study_file(merge(STUDY, {"terms": list(terms), **changes})), None)
    assert isinstance(found, RegressionStudy)
    return found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age ** 2", ["age^2"]),
        ("I(age^3)", ["age^3"]),
        ("age^2 + sex*age", ["age^2", "sex:age"]),
        ("`my age`:sex", ["`my age`:sex"]),
        ("ns(age, df=4)", ["ns(age, 4)"]),
        ("ns(age, knots=(30, 50))", ["ns(age, knots=[30, 50])"]),
        ("age<65", ["age >= 65"]),
        ("{age > -1.5}", ["age > -1.5"]),
        ("x >-1", ["x > -1"]),
        ("sex:(age >= 65)", ["sex:(age >= 65)"]),
        ("log(`a b`)", ["log(`a b`)"]),
    ],
)
def test_a_formula_is_read_in_one_spelling(text: str, said: list[str]) -> None:
    found, problems = terms_of([text])
    assert ([one.term.text for one in found], problems) == (said, [])


WRONG = [
    ("age^7", 5, "a power is a whole number from 2 to 4"),
    ("age^-2", 6, "a power is a whole number"),
    ("sex:ward:age", 10, "a product of three"),
    ("agee^2", 1, "no covariate; add it to 'covariates', or remove the term, did you mean 'age'?"),
    ("sex:y", 5, "'y' is the outcome"),
    ("t:age", 1, "'t' is the treatment"),
    ("age > 95", 1, "the threshold 95 is not within the declared range of 'age', 18 to 90"),
    ("ns(age, knots=[10, 40])", 1, "knot 10 is not within"),
    ("ns(age, knots=[50, 40])", 1, "must ascend"),
    ("ns(age, 9)", 1, "a spline has 2 to 6 columns"),
    ("log(income)", 1, "narrow it in the study to begin above 0"),
    ("sex^2", 1, "write it in a product"),
    ("age:age", 5, "write its square as age^2"),
    ("sex:ns(age, 3)", 5, "a spline of 'age' stands by itself"),
    ("age", 1, "adjusted for as a line already"),
    ("poly(age, 2)", 1, "no such function"),
    ("age - 1", 1, "no formula that is known"),
    ("(age + sex)^2", 2, "a name of a covariate belongs here"),
    ("age^", 1, "no formula that is known"),
    ("((((", 1, "no formula that is known"),
    ("7", 1, "a number by itself"),
]


@pytest.mark.parametrize(("text", "character", "said"), WRONG)
def test_what_is_no_term_is_refused_at_its_character(text: str, character: int, said: str) -> None:
    with pytest.raises(StudyError, match=rf"'terms\.2', character {character}: ") as refused:
        study_of("age^2", text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


HOSTILE = [
    "__import__('os').system('touch /tmp/x')",
    "exec('1')",
    "log(__import__('os'))",
    "I(exec('1'))",
    "{().__class__}",
    "ns(age, knots=[exec('1')])",
    "age > exec('1')",
    "`age`^2; import os",
    "lambda: 1",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_is_evaluated(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant that evaluates a part of it meets a function that fails the test."""

    def evaluated(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a text of the study was evaluated")

    terms_of(["age^2"])
    real = builtins.eval, builtins.exec
    assert real[0]("1 + 1") == 2
    monkeypatch.setattr(builtins, "eval", evaluated)
    monkeypatch.setattr(builtins, "exec", evaluated)
    found, problems = terms_of([text])
    assert not found
    assert problems


def test_what_takes_no_terms_refuses_them_and_curves_are_then_stated() -> None:
    for settings in ({"name": "ipw"}, {"name": "aipw", "guarantee": "asymptotic"}):
        with pytest.raises(StudyError, match="takes no terms; use"):
            study_of("age^2", estimator=settings)
    assert study_of().estimator.curves == "auto"
    assert study_of("age^2").estimator.curves == "none"
    assert study_of("age^2", estimator={"curves": "auto"}).estimator.curves == "auto"
    with pytest.raises(StudyError, match="a term stands twice"):
        study_of("age^2", "I(age**2)")


def test_more_terms_than_size_and_budget_serve_are_refused_with_a_number() -> None:
    """Release 2 of 1,000 people shows more than a fifth of a slope beside few terms, of 100,000 beside all."""
    products = [f"{one}:{number}" for one in ("ward", "sex") for number in ("age", "income")]
    study = study_of("age^2", "age^3", "ns(age, 6)", "ns(income, 6)", *products)

    def recipe(units: int) -> Any:
        return joint_recipe(study, Sizes(units=units, train=units // 2, estimation=units - units // 2))

    with pytest.raises(StudyError, match=r"'terms' make 18 columns, and of 1,000 units .* at most \d+ can be served"):
        recipe(1_000)
    assert len(recipe(100_000).everybody.terms) == 18


def found_of(study: RegressionStudy, draw: Callable[[np.random.Generator, int], dict[str, Any]]) -> Any:
    """Scales of release 1 with little noise, and the lines' values on other people of the same law."""
    encoding, random = Encoding.of(study), np.random.default_rng(8)

    def z_of(n: int) -> np.ndarray:
        drawn = draw(random, n)
        return np.column_stack([drawn[column.name] for column in encoding.encoded])

    z, columns = z_of(40_000), []
    for place, one in enumerate(encoding.encoded):
        cells = np.histogram(z[:, place], EDGES)[0] if one.kind == "number" else np.array([z[:, place].sum()])
        columns.append(cells / len(z))
    outcome = np.histogram(random.normal(0, 0.2, 40_000), EDGES)[0] / 40_000
    arms = np.array([0.0, 0.0, 0.5, 0.04])
    released = ReleasedScales(arms, np.full(4, 1e-4), outcome, tuple(columns), np.full(len(columns) + 1, 1e-4))
    public = Public(100_000, encoding.columns, mu=0.3)
    scales: FoundScales = scales_of(public, released)
    return public, scales, line_values(lines_of(public, scales).lines, z_of(100_000))


def people(random: np.random.Generator, n: int) -> dict[str, Any]:
    """Ages around 46, rather than in the middle of the range; `old` has two values, and nobody is above 85."""
    age = np.clip(random.normal(-0.2, 0.3, n), -1, 0.85)
    return {
        "age": age,
        "income": np.clip(random.exponential(0.3, n) - 1, -1, 1),
        "old": np.where(random.random(n) < 0.3, 1.0, -1.0),
        "sex=m": (random.random(n) < 0.4).astype(float),
        **{f"ward={one}": (np.arange(n) % 3 == place).astype(float) for place, one in enumerate("abc")},
    }


TERMS = ("age^2", "age^3", "ns(age, 4)", "age > 60", "sqrt(income)", "sex:age", "ward:age", "age:income")


def test_terms_are_standardised_beside_their_line_and_one_another() -> None:
    """Means, deviations and correlations of 100,000 people of that law, to cells and sampling; seed 8."""
    public, scales, f = found_of(study_of(*TERMS), people)
    assert scales.terms.left_out == ()
    base = len(scales.kept)
    names = [public.columns[place].name for place in scales.terms.places]
    assert names[2:5] == ["ns(age, 4)[1]", "ns(age, 4)[2]", "ns(age, 4)[3]"]
    assert names[-4:] == ["sex=m:age", "ward=b:age", "ward=c:age", "age:income"]
    terms = f[:, base:]
    assert np.abs(terms.mean(axis=0)).max() < 0.2, "of a root near 0 most; of the others .02"
    assert terms.std(axis=0) == pytest.approx(1, abs=0.2)
    of_age = np.corrcoef(f[:, [0, *range(base, base + 6)]].T) - np.eye(7)
    assert np.abs(of_age).max() < 0.12


def test_a_constant_or_collinear_term_is_left_out_by_its_name() -> None:
    """A square of two values is their line, and nobody is above 88; what is left out does no harm."""
    study = study_of("old^2", "age > 88", "age^2", "sex:(age > 88)")
    public, scales, f = found_of(study, people)
    left_out = [public.columns[place].name for place in scales.terms.left_out]
    assert left_out == ["old^2", "age > 88", "sex:(age > 88)"]
    assert [public.columns[place].name for place in scales.terms.places] == ["age^2"]
    assert list(scales.left_out) == list(scales.terms.left_out)
    assert scales.hidden.tolist() == [0.0] * 3
    assert np.isfinite(f).all()


def test_a_natural_spline_is_straight_beyond_its_outer_knots_and_smooth_between() -> None:
    knots, z = np.array([-0.7, -0.2, 0.1, 0.6]), np.linspace(-1, 1, 4001)
    for basis in range(2):
        second = np.diff(natural_spline(z, knots, basis), 2) / (z[1] - z[0]) ** 2
        middle = z[1:-1]
        assert np.abs(second[(middle < -0.705) | (middle > 0.605)]).max() < 1e-6
        assert np.abs(second[(middle > -0.6) & (middle < 0.5)]).max() > 0.5
        assert np.abs(np.diff(second)).max() < 0.05, "its second derivative has no jump"


def test_a_threshold_divides_where_it_says() -> None:
    """At a value that is exact in whole years: of > the value itself is below, of >= above; whatever its rounding."""
    for text, above in (("age > 60", 61), ("age >= 60", 60), ("age < 60", 60), ("age <= 60", 61)):
        public, scales, _ = found_of(study_of(text), people)
        (line,) = scales.terms.lines
        years = np.arange(18, 91) / 36 - 1.5
        f = line_values((replace(line, column=0),), (years * 0.4 / 0.4)[:, None])[:, 0]
        assert len(np.unique((np.diff(f) > 1).nonzero()[0])) == 1
        assert int((np.diff(f)).argmax()) + 19 == above
        assert not math.isnan(f.sum())
        assert public.terms
