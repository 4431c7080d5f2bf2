"""Contrasts and ratios of rows: whose errors add up and how, Fieller's set, what a file may name, gates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from causalveil.schemas.answers import SetShape, State
from causalveil.schemas.asked.compare import asks_for
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import StudyError
from causalveil.schemas.limits import Code
from causalveil.schemas.questions import ALL_UNITS
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.cells import CellRows, of_their_cohorts
from causalveil.tasks.estimate.answers import Part, table
from causalveil.tasks.estimate.contrasts import combined, contrast_answers, fieller_set
from tests.protocol_help import analysed, confounded, make_protocol
from tests.studies import CONTRACT, merge

Z = float(ndtri(0.975))


def part(outcome: int = 0, group: str = ALL_UNITS, value: float = 1.0, **more: Any) -> Part:
    told = {"answered": True, "sampling": 0.01, "noise": 0.04, "bias": 0.0, "spread": 1.0, "confounding": None} | more
    return Part(outcome, group, "1", value=value, **told)


def asked(*contrasts: dict[str, Any], **more: Any) -> EffectStudy:
    return make_protocol(2, 2, 2, **{"contrasts": list(contrasts), **more})


def test_errors_add_up_by_variance_over_subgroups_and_by_deviation_within() -> None:
    study = asked()
    apart = combined(study, [(1.0, part(0, "g1")), (-2.0, part(0, "g0", 3.0))])
    assert (apart.value, apart.sampling, apart.noise) == pytest.approx((-5.0, 0.05, 0.2))
    within = combined(study, [(1.0, part(0, "g1")), (-2.0, part(1, "g1", 3.0))])
    assert (within.sampling, within.noise) == pytest.approx((0.09, 0.2)), "noise on two outcomes is independent"
    whole = combined(study, [(1.0, part()), (-2.0, part(0, "g0"))])
    assert (whole.sampling, whole.noise) == pytest.approx((0.09, 0.36)), "all units share people with each subgroup"
    arms = combined(make_protocol(2, 2, arms=3), [(1.0, part()), (1.0, part(1))])
    assert arms.noise == pytest.approx(0.16)
    assert combined(study, [(1.0, part(bias=0.1)), (-2.0, part(1, bias=0.2))]).bias == pytest.approx(0.5)
    assert not combined(study, [(1.0, part()), (1.0, part(1, answered=False))]).answered


def test_a_released_covariance_narrows_a_contrast_of_two_outcomes() -> None:
    """With one deviation of its noise added, and never beyond what two correlated errors can be."""
    rows = [(1.0, part(0, covariances={1: (0.008, 0.001)})), (-1.0, part(1, covariances={0: (0.008, 0.001)}))]
    assert combined(asked(), rows).sampling == pytest.approx(0.02 - 2 * 0.007)
    rows = [(1.0, part(0, covariances={1: (-0.03, 0.001)})), (-1.0, part(1, covariances={0: (-0.03, 0.001)}))]
    assert combined(asked(), rows).sampling == pytest.approx(0.04)
    study, (rows_, _) = asked({"name": "r", "top": "y0", "bottom": "y1"}), confounded(6_000, 2, 2)
    assert study.needs_products
    assert not asked({"name": "apart", "of": {"y0 | g1": 1, "y0 | g0": -1}}).needs_products
    # Outcomes of one table are made the same twice: errors are those of one outcome, so the difference has none.
    same = CellRows(rows_.x, rows_.t, np.repeat(rows_.u[:, :1], 2, axis=1), rows_.g * 0)
    of = [{"name": "d", "of": {"y0": 1, "y1": -1}}]
    loud = {"epsilon": "50", "contrasts": of}
    (d,) = analysed(make_protocol(2, 2, **loud), same).contrasts
    alone = analysed(make_protocol(2, 2, **loud), same).answers[0]
    assert d.sampling_error < 0.3 * alone.sampling_error


def test_what_models_leave_is_paired_at_worst_within_and_by_shrinkage_over_subgroups() -> None:
    random = np.random.default_rng(1)
    one, other = random.normal(0, 1, 400), random.normal(0, 2, 400)
    drawn = {"noise": 10.0, "adjusted": 1.0}
    within = combined(asked(), [(1.0, part(error=one, **drawn)), (-1.0, part(1, error=other, **drawn))])
    assert math.sqrt(within.models) == pytest.approx(one.std() + other.std(), rel=0.01)
    rows = [(1.0, part(0, "g0", error=one, **drawn)), (-1.0, part(0, "g1", error=other, **drawn))]
    assert combined(asked(), rows).models == pytest.approx(one.var() + other.var())
    drawn["adjusted"] = 0.0
    rows = [(1.0, part(0, "g0", error=one, **drawn)), (-1.0, part(0, "g1", error=other, **drawn))]
    assert math.sqrt(combined(asked(), rows).models) == pytest.approx(one.std() + other.std())


@pytest.mark.parametrize(
    ("top", "bottom", "shape"),
    [(1.0, 1.0, "interval"), (-3.0, 1.0, "interval"), (1.0, -1.0, "interval"), (3.0, 0.1, "rays"), (0.1, 0.1, "line")],
)
def test_a_ratio_has_the_set_of_fieller_s_formula(top: float, bottom: float, shape: str) -> None:
    """Of normal errors the ends are the roots of a quadratic, whichever sign both numbers have."""
    units = (0.1, 0.2)

    def holds(angle: float) -> float:
        return Z - abs(math.cos(angle) * top / units[0] - math.sin(angle) * bottom / units[1])

    found = fieller_set(holds, top / units[0], bottom / units[1], units)
    a, b, c = bottom**2 - (Z * units[1]) ** 2, top * bottom, top**2 - (Z * units[0]) ** 2
    assert found.shape == shape
    if shape == "line":
        assert b**2 - a * c < 0
        return
    roots = sorted((b + sign * math.sqrt(b**2 - a * c)) / a for sign in (-1, 1))
    assert (found.lower, found.upper) == pytest.approx(tuple(roots), rel=1e-6)
    assert (found.shape is SetShape.rays) == (a < 0)


def test_a_first_stage_that_noise_hides_gives_the_line_and_no_wald_interval() -> None:
    study = asked({"name": "late", "top": "y0", "bottom": "y1"})
    rows = [part(0, noise=0.0, sampling=0.01), *(part(0, g) for g in ("g0", "g1")), part(1, value=0.01)]
    rows += [part(1, g) for g in ("g0", "g1")]
    (late,) = contrast_answers(study, rows, table(study, rows))
    assert late.interval is not None
    assert late.interval.shape is SetShape.rays
    assert late.denominator_z == pytest.approx(0.01 / math.sqrt(0.05))
    rows[0] = part(0, value=0.1)
    (late,) = contrast_answers(study, rows, table(study, rows))
    assert late.interval is not None
    assert (late.interval.shape, late.interval.lower) == (SetShape.line, None)
    assert {one.code for one in study.taken_for_granted} == {Code.exclusion}


def test_contrasts_are_in_the_family_that_holds_together_and_behind_gates() -> None:
    study = asked({"name": "apart", "of": {"y0 | g1": 1, "y0 | g0": -1}}, {"name": "both", "of": {"y0": 1, "y1": 1}})
    rows, effects = confounded(6_000, 2, 2)
    found = analysed(study, rows)
    apart, both = found.contrasts
    assert apart.interval is not None
    assert apart.simultaneous is not None
    assert apart.simultaneous.lower < apart.interval.lower < apart.estimate < apart.interval.upper
    assert found.details["simultaneous"] == "Bonferroni over 8 answers"
    first = {(one.outcome, one.group): one for one in found.answers}
    assert apart.estimate == pytest.approx(first["y0", "g1"].estimate - first["y0", "g0"].estimate)
    truth = 5 * (effects[1, 1, 0] - effects[0, 1, 0])
    assert apart.simultaneous.lower <= truth <= apart.simultaneous.upper
    assert both.noise_error > apart.noise_error / 2
    assert {one.code for one in study.taken_for_granted} == {Code.composition}
    withheld = [one.model_copy(update={"state": State.withheld}) for one in found.answers]
    parts = [part(k, group) for k in (0, 1) for group in (ALL_UNITS, "g0", "g1")]
    hidden = contrast_answers(study, parts, withheld)
    assert [(one.state, one.estimate, one.interval) for one in hidden] == [(State.withheld, None, None)] * 2


def test_cohorts_have_effects_of_their_own_and_means_by_size() -> None:
    """Each on its own outcomes against the reference alone, whose trend differs by covariates; seeded noise."""
    mean = {"name": "mean", "by_size": True, "of": {"y0": 1, "y2": 1}}
    study = make_protocol(2, 3, arms=3, of_arms=("a1", "a1", "a2"), contrasts=[mean], epsilon="50")
    assert study.arm_names == ("a0", "treated")
    assert study.classes == ((0, 1), (2,))
    assert make_protocol(2, 3, arms=3, of_arms=("a1", "a1", "a2"), left_out=1).classes == ((0, 1), (2,))
    rows, _ = confounded(9_000, 1, 1, 3)
    effects = np.array([0.3, 0.1, -0.2])
    own = np.array([[0, 0, 0], [1, 1, 0], [0, 0, 1]])[rows.t]
    # In its own cells a cohort has its effect, elsewhere what must not count.
    u = np.clip(rows.u * 0.5 + np.where(own, effects, 0.9 * (rows.t != 0)[:, None]), -1, 1)
    sizes = np.bincount(rows.t)
    t = of_their_cohorts(study, rows.t, u)
    assert np.isnan(u).sum(axis=0).tolist() == [sizes[2], sizes[2], sizes[1]]
    found = analysed(study, CellRows(rows.x, t, u, rows.g))
    hidden = 0.5 * 0.1 * np.array([1, 1, 2])
    for answer, truth in zip(found.answers, effects + hidden, strict=True):
        assert answer.estimate == pytest.approx(5 * truth, abs=0.15)
        assert answer.arm == "treated"
    a, _, c = (one.estimate for one in found.answers)
    (one,) = found.contrasts
    assert one.estimate == pytest.approx((a * sizes[1] + c * sizes[2]) / (sizes[1] + sizes[2]), abs=0.02)
    assert one.sampling_error < math.hypot(*(own.sampling_error for own in found.answers))
    assert one.made_of == "mean by released numbers of treated of (y0), (y2)"


def test_noise_in_sizes_counts_as_far_as_rows_lie_apart() -> None:
    mean = {"name": "m", "by_size": True, "of": {"y0": 1, "y1": 1}}
    study = make_protocol(2, 2, arms=3, of_arms=("a1", "a2"), contrasts=[mean])
    rows = [replace(part(k, value=float(k)), arm="treated") for k in (0, 1)]
    answers = table(study, rows)
    exact, noisy = (
        contrast_answers(study, rows, answers, {0: (100.0, sd), 1: (300.0, sd)})[0].noise_error for sd in (0.0, 40.0)
    )
    assert noisy**2 - exact**2 == pytest.approx((0.1 * 0.75) ** 2 + (0.1 * 0.25) ** 2)


OWNER = merge(CONTRACT, {"columns": {"passed": {"codes": {"no": 0, "yes": 1}}, "late": {"lower": 0, "upper": 5}}})
FILE: dict[str, Any] = {
    "kind": "effect",
    "name": "many",
    "treatment": "treated",
    "outcomes": [{"name": "score", "role": "primary"}, "passed"],
    "subgroups": "group",
    "covariates": ["age"],
    "estimator": {"name": "regression"},
    "privacy": {"epsilon": 1, "delta": "1e-6"},
    "contrasts": [
        {"name": "ab", "of": {"score | a": 1, "score | b": -1}},
        {"name": "r", "top": "ab", "bottom": "passed"},
    ],
    "standardise": {"group": {"a": 0.5, "b": 0.3, "c": 0.2}},
}


def test_a_file_names_rows_and_shares() -> None:
    contract, file = Contract.model_validate(OWNER), parse_study_file(FILE)
    study = resolve(file, contract)
    assert isinstance(study, EffectStudy)
    assert [one.name for one in study.contrasts] == ["ab", "r", "score, standardised", "passed, standardised"]
    assert study.rows_of(study.contrasts[2])[0] == {
        ("score", "a", "1"): 0.5,
        ("score", "b", "1"): 0.3,
        ("score", "c", "1"): 0.2,
    }
    top, bottom = study.rows_of(study.contrasts[1])
    assert (len(top), bottom) == (2, {("passed", ALL_UNITS, "1"): 1.0})
    assert asks_for(file, study)
    assert not asks_for(parse_study_file({**FILE, "standardise": None}), study)
    assert (
        "contrasts"
        not in resolve(parse_study_file({**FILE, "contrasts": [], "standardise": None}), contract).specification()
    )
    with pytest.raises(StudyError, match="rounds of sites pool answers, not contrasts"):
        resolve(file, None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"contrasts": [{"name": "x", "of": {"score | d": 1}}]}, "is no row of the table.*subgroups 'a', 'b', 'c'"),
        ({"contrasts": [{"name": "x", "of": {"scores": 1}}]}, "is no row of the table.*outcomes 'score', 'passed'"),
        ({"contrasts": [{"name": "x", "of": {"score": 1, "score | all units": 1}}]}, "a row that stands there already"),
        ({"contrasts": [{"name": "score", "of": {"score | a": 1}}]}, "names something else too"),
        ({"contrasts": [{"name": "x", "of": {"score": 0}}]}, "a coefficient is 0"),
        ({"contrasts": [{"name": "x", "top": "score"}]}, "'top' and 'bottom' of a ratio"),
        ({"contrasts": [{"name": "x", "top": "y", "bottom": "score"}]}, "'y' is no row"),
        ({"standardise": {"group": {"a": 0.5, "b": 0.3}}}, "do not add up to 1"),
        ({"standardise": {"region": {"a": 0.5, "b": 0.5}}}, "write 'subgroups: region'"),
        ({"estimator": {"name": "aipw", "guarantee": "asymptotic"}}, "answers one question"),
        ({"outcomes": ["score"], "subgroups": None, "standardise": None}, "'ab'|'score . a' is no row"),
    ],
)
def test_what_names_no_row_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        resolve(parse_study_file({**FILE, **changes}), Contract.model_validate(OWNER))
