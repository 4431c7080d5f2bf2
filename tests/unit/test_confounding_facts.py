"""Facts on confounding: what a mean of estimates says of it, from what each of them says."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import ndtri

from causalveil.schemas.confounding import (
    AS_THEY_ARE,
    RANDOMISED,
    TOO_NOISY,
    AdjustmentMethod,
    AdjustmentState,
    ConfoundingStatement,
    PriorSource,
    Shortfall,
    by,
    of_share,
    of_trial,
    over_parts,
)
from causalveil.schemas.limits import SENTENCES, Code, Limit, limit, united
from causalveil.schemas.remarks import counted
from causalveil.schemas.specification import unrecorded
from causalveil.schemas.study import MissingOutcome
from causalveil.tasks.estimate.interval import Estimate, Noise, assemble

WHOLE, PART = by(AdjustmentMethod.balancing), by(AdjustmentMethod.balancing, Shortfall.imbalance)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([(RANDOMISED, 1.0), (RANDOMISED, 3.0)], RANDOMISED),
        ([(AS_THEY_ARE, 1.0), (AS_THEY_ARE, 3.0)], AS_THEY_ARE),
        ([(WHOLE, 9.0), (PART, 1.0)], PART),
        ([(of_share(0.96), 1.0), (of_share(0.92), 3.0)], of_share(0.93)),
        ([(of_share(0.8), 0.5), (TOO_NOISY, 0.5)], of_share(0.4)),
        ([(of_share(0.8), 0.5), (of_share(0.8, linear=True), 0.5)], of_share(0.8, linear=True)),
        ([(of_share(0.8, unseen=0.4), 0.5), (TOO_NOISY, 0.5)], of_share(0.4, unseen=0.2)),
        ([(TOO_NOISY, 1.0), (TOO_NOISY, 2.0)], TOO_NOISY),
    ],
)
def test_a_mean_says_what_its_parts_say_together(
    parts: list[tuple[ConfoundingStatement, float]], said: ConfoundingStatement
) -> None:
    found = over_parts(parts)
    assert found.model_copy(update={"share": said.share}) == said
    assert found.share == (None if said.share is None else pytest.approx(said.share))


def test_a_mean_names_what_any_of_its_parts_left_out_and_any_declared_prior() -> None:
    found = over_parts([(of_share(0.5, left_out=("age",)), 1.0), (of_share(0.5, default=False, left_out=("b",)), 1.0)])
    assert found.left_out == ("age", "b")
    assert found.prior is PriorSource.declared
    assert found.state is AdjustmentState.partly


HALF, NOTHING = of_share(0.5, left_out=("age",)), TOO_NOISY.model_copy(update={"left_out": ("a", "b")})
# Each sentence of a statement once; elsewhere tests hold codes and facts.
SAID = {
    "Not adjusted: treatment was randomised.": RANDOMISED,
    "Adjusted for precision by balancing weights: treatment was randomised.": of_trial(AdjustmentMethod.balancing),
    "Adjusted by matching on private scores: treatment was randomised.": of_trial(AdjustmentMethod.private_matching),
    "Adjusted for precision by regression on noisy moments: treatment was randomised, and covariates explain about 25% "
    "of the outcome's variance.": of_trial(AdjustmentMethod.regression, 0.25),
    "Unadjusted: the arms are compared as they are.": AS_THEY_ARE,
    "Unadjusted: the noise was too large for this many people and this budget. 2 covariates or levels could not be "
    "adjusted for: privacy noise hides how they vary.": NOTHING,
    "Adjusted until about 22% of possible linear confounding is left. Curves and products were not looked for: as "
    "large as all expected confounding, they could move the estimate by 0.71.": of_share(
        0.95, linear=True, unseen=0.7071
    ),
    "Adjusted until about 22% of possible linear confounding is left. Curves and products other than the declared "
    "terms were not looked for.": of_share(0.95, linear=True),
    "Adjusted until about 1% of possible confounding is left. Curves and products that noise hides could move the "
    "estimate by 1,234.": of_share(0.9999, unseen=1234.4),
    "Partly adjusted, until about 71% of possible confounding by the other covariates is left. The noise was too large "
    "for this many people and this budget. 1 covariate or level could not be adjusted for: privacy noise hides how it "
    "varies.": HALF,
    "Adjusted by matching on scores that are linear in the covariates.": by(AdjustmentMethod.matching),
    "Adjusted by augmented inverse probability weights.": by(AdjustmentMethod.doubly_robust),
    "Partly adjusted, by balancing weights. Covariates still differ between the weighted arms.": PART,
    "Partly adjusted, by inverse probability weights. The penalty and the noise of the propensity model leave "
    "confounding.": by(AdjustmentMethod.weighting, Shortfall.penalty),
    "Partly adjusted, by matching on private scores. Noise on the scores makes matches of people who differ.": by(
        AdjustmentMethod.private_matching, Shortfall.private_scores
    ),
}


def test_a_statement_is_said_by_its_code_and_facts() -> None:
    assert {" ".join(one.sentences): one for one in SAID.values()} == SAID
    assert {one.method for one in SAID.values()} == {None, *AdjustmentMethod}
    assert {one.shortfall for one in SAID.values()} == {None, *Shortfall}
    for one in SAID.values():
        assert ConfoundingStatement.model_validate_json(one.model_dump_json()) == one


# Intervals that allow for a bias: critical values, and what is added to an interval.
@pytest.mark.parametrize("noise", [Noise(0.0), Noise(1.3), Noise(0.8, 1.0), Noise(0.6, 1.5), Noise(0.4, 5.5)])
@pytest.mark.parametrize("bias", [0.0, 0.3, 2.0, 50.0])
def test_critical_values_are_exceeded_as_often_as_they_say(noise: Noise, bias: float) -> None:
    """Against 2e6 seeded draws of a biased error: a Monte-Carlo error of 1.5e-4, six of them allowed."""
    random = np.random.default_rng(3)
    scale = noise.scale if noise.mixing is None else noise.scale * np.sqrt(random.gamma(noise.mixing, 2, 2_000_000))
    error = random.normal(0, 1.2, 2_000_000) + 0.7 * scale * random.normal(0, 1, 2_000_000)
    found = noise.critical(0.05, bias, 1.44, 0.7)
    assert np.mean(np.abs(bias + error) > found) == pytest.approx(0.05, abs=9e-4)
    assert noise.quantile(0.025, 1.44, 0.7) <= found <= noise.quantile(0.025, 1.44, 0.7) + bias
    if bias == 50.0:
        assert found == pytest.approx(bias + noise.quantile(0.05, 1.44, 0.7)), "one side is left"


def test_an_interval_allows_for_a_bias_in_standard_errors_of_its_own_upper_variance() -> None:
    plain, wide = (Estimate(1.0, 0.04, 0.0, 0.0, bias=bias) for bias in (0.0, 2.0))
    _, narrow, _, _ = assemble(plain, Noise(1.0), 0.95, None)
    _, interval, _, upper = assemble(wide, Noise(1.0), 0.95, None)
    assert (narrow.bias, interval.bias) == (0.0, pytest.approx(2 * math.sqrt(upper)))
    assert interval.upper - 1 == pytest.approx(0.4 - 0.2 * ndtri(0.05), rel=1e-3)
    assert (interval.lower + interval.upper) / 2 == pytest.approx(1.0)


# Limits of intervals: codes, facts and the sentence of each.
FACTS = {"columns": ("age", "sex"), "column": "school", "factor": 0.25, "share": "40%", "intervals": (30,)}
FACTS |= {"treatment": "offer", "top": "weeks", "bottom": "taken", "upper": 5.0, "landmark": 2.0}


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_sentence_of_its_facts(code: Code) -> None:
    named = re.findall(r"{(\w+)(?::g)?}", SENTENCES[code])
    said = limit(code, **{name: FACTS[name] for name in named}).sentence
    assert not re.search(r"[{}]|^[A-Z]|\.$", said)
    assert all(str(one) in said for name in named if isinstance(FACTS[name], tuple) for one in FACTS[name])


def test_no_two_codes_have_one_sentence() -> None:
    assert len(set(SENTENCES.values())) == len(Code) == len(SENTENCES)


def test_a_document_is_read_by_code_and_facts() -> None:
    """A sentence that somebody changed in a document is said anew."""
    one = limit(Code.left_out, columns=("age",))
    document = one.model_dump(mode="json")
    assert document["sentence"] == one.sentence
    assert Limit.model_validate(document | {"sentence": "nothing is left out"}) == one
    with pytest.raises(ValidationError):
        Limit.model_validate({"code": "something_else"})


def test_limits_of_several_releases_stand_once() -> None:
    first = (limit(Code.unmeasured), limit(Code.grid, intervals=(40,)), limit(Code.left_out, columns=("age",)))
    second = (limit(Code.grid, intervals=(30,)), limit(Code.unmeasured), limit(Code.left_out, columns=("sex",)))
    found = united([*first, *second])
    assert [one.code for one in found] == [Code.unmeasured, Code.grid, Code.left_out, Code.left_out]
    assert found[1].facts["intervals"] == (30, 40)
    assert found[1].sentence == "discretisation of follow-up into 30 to 40 intervals"


@pytest.mark.parametrize("counts_as", [one for one in MissingOutcome if one is not MissingOutcome.refuse])
def test_pages_say_how_units_without_an_outcome_count(counts_as: MissingOutcome) -> None:
    outcomes = [{"name": name, "lower": 0.0, "upper": 1.0, "leaves_out": True} for name in ("pay", "hours")]
    told = unrecorded(
        {"missing_outcome": counts_as, "missing_treatment": "control", "treatment": "t", "outcomes": outcomes}
    )
    assert all(one.sentence.startswith(counted(one)) for one in told)
    assert "pay" in " ".join(map(counted, told))
