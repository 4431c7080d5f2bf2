"""Facts on confounding: what a mean of estimates says of it, from what each of them says."""

from __future__ import annotations

import pytest

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
    "Adjusted until about 22% of possible linear confounding is left.": of_share(0.95, linear=True),
    "Adjusted until about 1% of possible confounding is left.": of_share(0.9999),
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
