"""Levels and flags that hardly anybody has: they are no features, and the interval allows for what so few confound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import StandIn
from causalveil.schemas.studies import parse_study
from causalveil.schemas.study import Estimand
from causalveil.tasks.covariates.columns import Basis, Columns
from causalveil.tasks.covariates.encoding import feature_names
from causalveil.tasks.inference.people import people
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.interval import COVERS_RARE
from causalveil.tasks.regression.lines.adjust import adjust
from causalveil.tasks.regression.lines.hidden import Hidden
from causalveil.tasks.regression.moments import moment_sums, moments_from
from causalveil.tasks.regression.rare import FARTHEST, MOST, most_have, rare_places, rarer_shares
from causalveil.tasks.regression.scales import scale_sums, scales_from
from causalveil_replication.accuracy.cells import rows_of
from causalveil_replication.accuracy.populations import KnownPopulation
from tests.aipw_help import in_memory
from tests.regression_help import analysed

UNITS = 40_000


def wards(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Age, ward and sex that confound; the effect is 1."""
    age, ward, sex = random.normal(size=n), random.choice(3, n, p=[0.5, 0.3, 0.2]), random.integers(0, 2, n)
    t = (random.random(n) < 1 / (1 + np.exp(0.3 - 0.5 * age - 0.7 * (ward == 1)))).astype(float)
    y = age + 0.8 * (ward == 1) - 0.5 * (ward == 2) + 0.3 * sex + t + random.normal(size=n)
    return np.column_stack([age, ward, sex]), t, y


def asked(others: str, **changes: Any) -> tuple[RegressionStudy, KnownPopulation]:
    """Of wards and sexes; ``others``: what becomes of values that nobody declared."""
    covariates = {
        "age": {"lower": -4, "upper": 4},
        "ward": {"levels": [0, 1, 2], "others": others},
        "sex": {"levels": [0, 1], "others": others},
    }
    population = KnownPopulation("wards", "wards", 1, (-10, 10), covariates, wards)
    study = parse_study(population.study({"name": "regression", **changes}, "1", "1e-6"))
    assert isinstance(study, RegressionStudy)
    return study, population


def test_levels_that_nobody_has_cost_little() -> None:
    """40,000 people, four seeds: an interval that allowed for them as for any hidden column was ten times as wide."""
    widths = {}
    for others in ("refuse", "other"):
        study, population = asked(others)
        found = [analysed(study, rows_of(study, population, UNITS, seed), seed) for seed in range(4)]
        assert all(one.interval.lower < 1 < one.interval.upper for one in found)
        assert all(str(one.details["adjustment"]).startswith("adjusted") for one in found)
        widths[others] = np.mean([one.interval.upper - one.interval.lower for one in found])
        for one in found:
            named = str(one.details.get("rare_columns", ""))
            assert (COVERS_RARE in one.interval.covers) == bool(named)
            assert not any(name in key for name in named.split(", ") if name for key in one.details)
        # Noise of seed 3 has one number of four that is 3.3 of its deviations.
        nobody = [one.details.get("rare_columns") == "sex=other, ward=other" for one in found]
        assert nobody.count(True) == (3 if others == "other" else 0)
    assert widths["refuse"] < widths["other"] < 2 * widths["refuse"]


def test_of_a_trial_nothing_is_allowed_for_and_the_columns_go_all_the_same() -> None:
    study, population = asked("other", trial=True)
    found = analysed(study, rows_of(study, population, UNITS, 0))
    assert found.interval.bias == 0
    assert found.details["rare_columns"] == "sex=other, ward=other"
    assert COVERS_RARE not in found.interval.covers


def test_the_allowance_is_four_times_the_declared_confounding_by_share() -> None:
    """Without noise in the moments nothing else is allowed for but lines that do not show what they should: nothing."""
    study, population = asked("other")
    rows, columns = rows_of(study, population, UNITS, 0), Columns.of(study)
    noise = 40.0
    scales = scales_from(scale_sums(in_memory([rows]), columns), UNITS, noise, columns)
    assert [columns.names[place] for place in scales.rare] == ["sex=other", "ward=other"]
    # sqrt(2) is what each sum is multiplied by, and 1/2 of x is one person's entry.
    error = noise / UNITS / np.sqrt(2) / columns.span
    assert scales.rare_share == pytest.approx(2 * np.sqrt(2) * error, rel=1e-6)
    features = Features(columns.without(scales.rare), scales, Basis.linear, 4.0)
    moments = moments_from(moment_sums(in_memory([rows]), features), UNITS, 1e-9, features)
    biases = []
    for one in (scales, replace(scales, rare_share=0.0)):
        choice, _ = adjust(study.estimator, one, moments, Estimand.ATE, UNITS, 1e-6, columns=features.columns)
        assert choice.adjusted
        biases.append(choice.bias)
    declared = np.sqrt(0.5) * scales.spread / scales.limit
    assert biases[0] - biases[1] == pytest.approx(FARTHEST * scales.rare_share * declared)
    assert FARTHEST == 4


def test_shares_of_levels_flags_and_indicators() -> None:
    """A level is 0 or c, a flag -c or c; each value's rarer side; numbers are nobody's."""
    study = parse_study(
        {
            "kind": "effect",
            "name": "shares",
            "data": {"path": ".", "unit": "unit"},
            "treatment": "t",
            "outcome": {"name": "y", "lower": 0, "upper": 10},
            "covariates": {
                "a": {"lower": 0, "upper": 1, "nulls": "indicator"},
                "b": {"lower": 0, "upper": 1, "codes": {"control": "no", "treated": "yes"}},
                "c": {"levels": [1, 2, 3]},
            },
            "estimand": "ATE",
            "estimator": {"name": "regression"},
            "privacy": {"epsilon": 1, "delta": "1e-6"},
        }
    )
    assert isinstance(study, RegressionStudy)
    columns = Columns.of(study)
    c = columns.span
    assert [columns.names[place] for place in columns.two_valued] == ["a (missing)", "b", "c=2", "c=3"]
    centre = np.array([0.1 * c, 0.02 * c, -0.9 * c, 0.97 * c, 0.4 * c])
    shares, errors = rarer_shares(centre, np.full(5, 0.01 * c), columns)
    np.testing.assert_allclose(shares, [1, 0.02, 0.05, 0.03, 0.4])
    np.testing.assert_allclose(errors, [0, 0.01, 0.005, 0.01, 0.01])
    # 2 % of missing values are not told from none by two deviations, but an indicator was declared for them.
    assert rare_places(centre, np.full(5, 0.01 * c), columns) == ((), 0.0)
    places, most = rare_places(centre * [1, 0.1, 1, 1, 1], np.full(5, 0.001 * c), columns)
    assert places == (1,)
    assert most == pytest.approx(0.002 + 2 * 0.001)
    assert most == most_have(shares[[1]] / 10, errors[[1]] / 10)
    left = columns.without(places)
    assert left.names == ("a", "b", "c=2", "c=3")
    assert left.numbers == (0, 1)
    assert columns.undeclared == ()
    assert left.curved == left.unscaled == (0,)
    assert left.owners == (0, 1, 2, 2)
    assert [feature_names(study)[place] for place in left.kept] == list(left.names)
    assert left.features(Basis.pairs) == 4 + 1 + 5
    assert columns.without(()) == columns


def test_a_declared_level_goes_only_where_next_to_nobody_has_it() -> None:
    """Values that nobody declared are expected to be rare, declared ones are not: a flag of 2 % is adjusted for."""
    study, _ = asked("other")
    columns = Columns.of(study)
    shares = {"ward=1": 0.3, "ward=2": 0.2, "sex=1": 0.5}

    def left_out(errors: float, **others: float) -> list[str]:
        known = shares | {name.replace("_", "="): share for name, share in others.items()}
        centre = np.array([known.get(name, 0.0) * columns.span for name in columns.names])
        places, _ = rare_places(centre, np.full(len(centre), errors * columns.span), columns)
        return [columns.names[place] for place in places]

    assert columns.names == ("age", "sex=1", "sex=other", "ward=1", "ward=2", "ward=other")
    assert [columns.names[place] for place in columns.undeclared] == ["sex=other", "ward=other"]
    assert left_out(0.01) == ["sex=other", "ward=other"]
    assert left_out(0.01, ward_other=0.04) == ["sex=other"]
    assert left_out(0.01, ward_2=0.02) == ["sex=other", "ward=other"]
    assert left_out(0.001, ward_2=0.002) == ["sex=other", "ward=2", "ward=other"]
    assert left_out(0.001, ward_2=0.02) == ["sex=other", "ward=other"]


def test_columns_stay_where_many_may_have_them_or_where_they_are_all() -> None:
    study, _ = asked("other")
    columns = Columns.of(study)
    nobody = np.zeros(len(columns.kept))
    few, many = np.full(len(nobody), 0.001), np.full(len(nobody), 0.25)
    common = np.where(np.isin(columns.names, ["ward=1", "ward=2", "sex=1"]), columns.span / 4, 0.0)
    assert len(rare_places(common, few, columns)[0]) == 2
    assert rare_places(common, many, columns) == ((), 0.0)
    assert most_have(nobody[:2], many[:2] / columns.span) > MOST
    flags = columns.without(columns.curved)
    assert rare_places(nobody[: len(flags.kept)], few[: len(flags.kept)], flags) == ((), 0.0)


def test_a_hidden_number_may_confound_as_any_other_and_a_hidden_level_as_few_people_do() -> None:
    """Of the declared confounding: sqrt(h/k) for numbers, four times the share for levels, the less of both rules."""
    study, population = asked("other")
    rows, columns = rows_of(study, population, 4_000, 0), Columns.of(study)
    scales = scales_from(scale_sums(in_memory([rows]), columns), 4_000, 1e-9, columns)
    scales = replace(scales, rare=(), rare_share=0.0)
    k = len(columns.kept)

    def of(hidden: list[int], share: float) -> Hidden:
        gram = np.diag(np.where(np.isin(np.arange(k), hidden), 0.0, 1.0))
        centre = np.where(np.isin(np.arange(k), columns.two_valued), share * columns.span, 0.0)
        one = replace(scales, centre=centre, deviation=np.full(k, columns.span / 4), centre_error=np.zeros(k))
        features = Features(columns, one, Basis.linear, 4.0)
        moments = moments_from(np.zeros(2 * k + 1 + k * (k + 1) // 2), 4_000, 1.0, features)
        return Hidden.of(one, replace(moments, gram=gram, gram_error=0.01), columns)

    number, levels = columns.curved[0], list(columns.two_valued)
    assert of([], 0.01) == Hidden(0.0, 0)
    assert of([number], 0.01) == Hidden(pytest.approx(np.sqrt(1 / k)), 1)
    assert of(levels[:2], 0.01) == Hidden(pytest.approx(4 * 0.02), 0)
    assert of(levels[:1], 0.4) == Hidden(pytest.approx(np.sqrt(1 / k)), 1)
    assert of([number, *levels], 0.01).part == 1
    assert of([number, levels[0]], 0.01) == Hidden(pytest.approx(np.sqrt(1 / (k - 1)) + 0.04), 1)


def test_values_that_a_study_takes_together_are_expected() -> None:
    """`other` of a study that tells fewer levels apart than the contract declares is no level for the undeclared."""
    study, _ = asked("other")
    document = study.model_dump(mode="json", exclude_none=True)
    document["covariates"]["ward"] |= {"levels": [0, 1], "known": [0, 1, 2]}
    narrow = parse_study(document)
    assert isinstance(narrow, RegressionStudy)
    columns = Columns.of(narrow)
    assert [columns.names[place] for place in columns.undeclared] == ["sex=other"]
    rows = people(narrow, StandIn(), 512, False)
    had = dict(zip(feature_names(narrow), (rows.x > 0).sum(axis=0).tolist(), strict=True))
    assert had["sex=other"] == 0
    assert had["ward=other"] > 100


def test_a_column_of_which_most_have_an_undeclared_value_is_named() -> None:
    """As where the contract spells levels otherwise than the data: everybody is *other*."""
    study, population = asked("other")
    rows, names = rows_of(study, population, UNITS, 0), list(feature_names(study))
    sex = [names.index(name) for name in ("sex=0", "sex=1", "sex=other")]
    x = rows.x.copy()
    x[:, sex[2]] = x[:, sex].sum(axis=1)
    x[:, sex[:2]] = 0.0
    for people_, named in ((rows, False), (replace(rows, x=x), True)):
        left = str(analysed(study, people_).details["not_covered"])
        assert ("confounding by sex, most of whose values are not among the declared levels" in left) == named
        assert "ward, of which" not in left


def test_nobody_in_the_stand_in_population_has_a_value_that_nobody_declared() -> None:
    study, _ = asked("other")
    rows = people(study, StandIn(), 512, False)
    had = dict(zip(feature_names(study), (rows.x > 0).sum(axis=0).tolist(), strict=True))
    assert had["sex=other"] == had["ward=other"] == 0
    assert min(had["sex=0"], had["sex=1"], had["ward=0"], had["ward=1"], had["ward=2"]) > 100
