"""Say what a plan expects of a study: codes with facts, and the one sentence of each.

No row is read for it. Codes stand in the order in which a plan says them: first what spoils the answer, then the
answer that is expected, what it costs, what the reader could change, and last how the numbers came about. Warnings
begin with a small letter, as they follow a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from causalveil.schemas.limits import Fact, Stated, shown


class PlanCode(StrEnum):
    """Name a sentence of a plan."""

    # The run would not start.
    no_cap = "no_cap"
    over_budget = "over_budget"
    # The answer may be off by more than its interval says.
    no_treatment = "no_treatment"
    no_outcome = "no_outcome"
    no_time = "no_time"
    never_at_risk = "never_at_risk"
    cannot_plan = "cannot_plan"
    unadjusted = "unadjusted"
    unadjusted_times = "unadjusted_times"
    no_curves = "no_curves"
    curves_not_asked = "curves_not_asked"
    stated_terms = "stated_terms"
    penalty = "penalty"
    penalty_allowed = "penalty_allowed"
    models_uncovered = "models_uncovered"
    attenuated = "attenuated"
    noisy_scores = "noisy_scores"
    pooled_strata = "pooled_strata"
    # Noise hides the answer, or the effect that the reader hopes to see.
    whole_range = "whole_range"
    margin_hidden = "margin_hidden"
    score_hidden = "score_hidden"
    no_answer = "no_answer"
    below_floor = "below_floor"
    few_at_risk = "few_at_risk"
    effect_hidden = "effect_hidden"
    # The guarantee leaves people out.
    unprotected = "unprotected"
    # The answer's interval.
    asked = "asked"
    interval = "interval"
    clusters = "clusters"
    weights = "weights"
    equal_arms = "equal_arms"
    row = "row"
    contrast = "contrast"
    ratios = "ratios"
    assumed_times = "assumed_times"
    assumed_entries = "assumed_entries"
    public_width = "public_width"
    effect_width = "effect_width"
    unseen_curves = "unseen_curves"
    bias = "bias"
    linear_bias = "linear_bias"
    more_imbalance = "more_imbalance"
    margin_kept = "margin_kept"
    answer = "answer"
    example = "example"
    effect_seen = "effect_seen"
    # What the run takes of the budget.
    no_ledger = "no_ledger"
    budget = "budget"
    # Facts to state and settings to change, each with what it would do.
    no_units = "no_units"
    count_units = "count_units"
    few_controls = "few_controls"
    range_of_parts = "range_of_parts"
    outcome_left_out = "outcome_left_out"
    placebo_hidden = "placebo_hidden"
    fewer_covariates = "fewer_covariates"
    delta_widens = "delta_widens"
    delta_unused = "delta_unused"
    of_a_paper = "of_a_paper"
    untold = "untold"
    untold_range = "untold_range"
    gaussian = "gaussian"
    no_delta = "no_delta"
    target = "target"
    target_missed = "target_missed"
    # How the numbers came about.
    chosen = "chosen"
    public_columns = "public_columns"
    no_outcome_read = "no_outcome_read"
    explained = "explained"
    assumed = "assumed"
    one_draw = "one_draw"
    mean_of_draws = "mean_of_draws"
    median_of_draws = "median_of_draws"
    hidden_draws = "hidden_draws"
    quarter_ranges = "quarter_ranges"
    grid = "grid"
    at_risk = "at_risk"
    propensity_noise = "propensity_noise"
    shrinkage = "shrinkage"
    prior_allowed = "prior_allowed"
    lemma_3 = "lemma_3"
    reuse = "reuse"
    parts = "parts"
    flips = "flips"
    residuals = "residuals"
    curve = "curve"


_AS_THEY_ARE = (
    "no covariate is adjusted for; the interval allows for the confounding that `confounding_prior` assumes. If "
    "treatment was randomised, declare trial: true. Otherwise "
)
_LINES_ALONE = (
    "The estimate is adjusted for linear terms alone, and its interval allows for little non-linear confounding."
)
_PENALTY = (
    "the penalty, {penalty:g}, shrinks the propensity model: about {kept:.0%} of each coefficient is left, and as much "
    "of the adjustment. "
)
# How units without a treatment or an outcome count: a page's flow says it without what follows.
COUNTED: dict[StrEnum, str] = {
    PlanCode.no_treatment: "units without '{column}' count as controls",
    PlanCode.no_outcome: "units without '{column}' count with {value:.6g}, {place} of its declared range",
    PlanCode.outcome_left_out: "units without an outcome are left out of the answer for it ({columns})",
}
REMARKS: dict[StrEnum, str] = {
    PlanCode.no_cap: "'{dataset}' has no cap for level {level}: a run would be refused.",
    PlanCode.over_budget: "a run would be refused for lack of budget: it takes epsilon {epsilon}, and {account}. Ask "
    "for a smaller epsilon, or the data's owner for a larger cap.",
    PlanCode.no_treatment: f"{COUNTED[PlanCode.no_treatment]}: the answer is of being recorded as treated.",
    PlanCode.no_outcome: f"{COUNTED[PlanCode.no_outcome]}. This moves the answer by at most {{far:.6g}} times "
    "the sum of the arms' shares of such units.",
    PlanCode.no_time: "units without {columns} count as censored at once.",
    PlanCode.never_at_risk: "units without {columns} are never at risk, and count nowhere.",
    PlanCode.cannot_plan: "for a treated share of {treated:g} {problem}.",
    PlanCode.unadjusted: f"{_AS_THEY_ARE}estimator 'auto' adjusts as far as size and budget allow.",
    PlanCode.unadjusted_times: f"{_AS_THEY_ARE}declare covariates, which are then adjusted for.",
    PlanCode.no_curves: f"at this size and budget non-linear terms cannot be detected. {_LINES_ALONE}",
    PlanCode.curves_not_asked: f"no non-linear terms are looked for, as `curves: none` asks. {_LINES_ALONE}",
    PlanCode.stated_terms: "of non-linear confounding the declared terms alone are adjusted for: {terms}. What else is "
    "not linear is not covered by the interval.",
    PlanCode.penalty: f"{_PENALTY}Unless treatment was randomised, lower it as far as the noise on the coefficients "
    "allows.",
    PlanCode.penalty_allowed: f"{_PENALTY}The interval allows for the confounding that `confounding_prior` assumes. "
    "Estimator 'auto' adjusts for more of it, if size and budget allow.",
    PlanCode.models_uncovered: "The interval covers neither the noise on the propensity model's coefficients nor their "
    "shrinkage.",
    PlanCode.attenuated: "noise on treatments leaves about {left:.0%} of the effect in the estimate. With "
    "correct_attenuation: true this is corrected, and the interval is wider.",
    PlanCode.noisy_scores: "the propensity scores range from 0 to 1, and their noise has standard deviation {noise}: "
    "matches are nearly random. Unless treatment was randomised, most confounding remains.",
    PlanCode.pooled_strata: "noise would leave about {left} of {strata} strata of 'censoring.by': others are pooled "
    "with neighbours, and losses that depend on pooled levels are not covered. Name fewer columns or levels, or ask "
    "for more epsilon.",
    PlanCode.whole_range: "the noise exceeds the outcome's declared range: expect the whole range as interval.",
    PlanCode.margin_hidden: "noise of scale {scale:.2g} hides margins of HSIC that are as small as {margin:.2g}.",
    PlanCode.score_hidden: "{score}: noise keeps the order of a margin of {margin} with probability {sure:g}. No "
    "margin is above {largest:g}, so noise hides this score.",
    PlanCode.below_floor: "{followed:.0%} are expected to be followed to {horizon:g}, below 'censoring.floor': {then}. "
    "Ask for an earlier horizon.",
    PlanCode.few_at_risk: "too few {where}would be seen at risk at {horizon:g} through the noise: {then}. Ask for an "
    "earlier horizon{fewer}, or for more epsilon.",
    PlanCode.effect_hidden: "the expected half-width, {half_width}, is larger than an effect of {effect:,.12g}{on}"
    "{wrong}{needed}.",
    PlanCode.unprotected: "not protected: {what}.",
    PlanCode.asked: "{releases} for all: {question}.",
    PlanCode.interval: "Expected {confidence} interval: estimate ± {half_width} (standard error {made_of}), for a "
    "treated share of {treated:g}.",
    PlanCode.clusters: "Clustering by {column}: at an intraclass correlation of {icc:g} the design effect is "
    "{effect:.3g}, so {units:,} units tell as much as {people:,.0f} independent ones ({others}). "
    "Counted one by one they would promise ± {half_width}, which does not hold.{assumed}",
    PlanCode.weights: "Survey weights ({column}) are taken to be {share:.0%} of the largest that counts on average"
    "{assumed}: noise is {times:.3g} times that of equal weights, and some weights tell less than equal ones.",
    PlanCode.equal_arms: "That is for arms of one size, {units:,.0f} units each. The answer of a smaller arm has a "
    "wider interval.",
    PlanCode.row: "{name}: {half_width}.{group}{adjustment}{others}",
    PlanCode.contrast: "{name}: ± {half_width} by itself, its rows' errors put together by parts.",
    PlanCode.ratios: "A ratio's interval is about as wide as that of its top divided by its bottom. It has no end "
    "where the bottom is not clearly apart from 0.",
    PlanCode.assumed_times: "That is for {arms}, a risk of {risk:.0%}{kinds} and {lost:.0%} lost until {horizon:g} in "
    "all arms. For another risk or loss write `expect` into the study.",
    PlanCode.assumed_entries: "Half of the people are taken to enter evenly until {horizon:g}, others at the start. "
    "Where fewer are at risk at first, intervals are wider.",
    PlanCode.public_width: "The half-width{of} is between {low} and {high}. It depends on the size of the effect, and "
    "on whether the covariates that predict treatment predict the outcome too.",
    PlanCode.effect_width: "Depending on the size of the effect, expect ± {low} to ± {high}: from none to one standard "
    "deviation of the outcome within arms.",
    PlanCode.unseen_curves: "Curves and products that noise hides or that are not looked for could move the estimate "
    "by {unseen:.2g}, which the interval counts in part.",
    PlanCode.bias: "The interval allows for a bias of {bias} from the imbalance that the weights leave.",
    PlanCode.linear_bias: "If treatment depends linearly on the covariates, the interval allows for a bias of {bias} "
    "from imbalance.",
    PlanCode.more_imbalance: "If it depends on them non-linearly, more imbalance is left and allowed for. The interval "
    "may then be several times wider, and the release says partly adjusted.",
    PlanCode.margin_kept: "{score}: noise keeps the order of a margin of {margin} with probability {sure:g}.",
    PlanCode.answer: "{score}: it answers if about {least} units would have to change to reach another {other}. For "
    "{values} values {distance} would, and it answers with probability {chance:.2g}.",
    PlanCode.example: "HSIC on an example, {example}: the margin is {margin:.2g}, and the direction is right with "
    "probability {right:.2g}.",
    PlanCode.effect_seen: "An effect of {effect:,.12g}{on} is larger than the expected half-width, "
    "{half_width}{wrong}.",
    PlanCode.no_ledger: "the ledger could not be asked what is left: {problem}.",
    PlanCode.budget: "This run uses {taken} of what is left of the budget of '{dataset}'{whose}; {runs} ({account}).",
    PlanCode.no_units: "The number of units is unknown: give {way}, or put the partitions in place.",
    PlanCode.count_units: "Where a unit may have several rows, an admission counts units: causalveil admit FOLDER.",
    PlanCode.outcome_left_out: f"{COUNTED[PlanCode.outcome_left_out]}: it is of those who have it; a plan takes all to "
    "have it.",
    PlanCode.range_of_parts: "the range of '{name}', {lower:g} to {upper:g}, is all that its columns' ranges allow; a "
    "change is usually much smaller. A range four times narrower makes intervals up to twice as narrow: declare "
    "'lower' and 'upper' of it from public knowledge.",
    PlanCode.fewer_covariates: "{many} covariates share the budget: with the first {half} of them expect ± "
    "{half_width}. Take those that bear on treatment and outcome most, by what is known of them.",
    PlanCode.placebo_hidden: "the gate on placebos, {bound:g} standard deviations, cannot pass: even a placebo of 0 is "
    "seen to within ± {reach} alone. Declare a larger bound, fewer placebos, or ask for more epsilon.",
    PlanCode.few_controls: "too few negative controls to calibrate intervals: {controls} of at least {least}.",
    PlanCode.delta_widens: "without a delta the noise on {name} would be {ratio:.2f} times as large: declare "
    "'delta: 0'.",
    PlanCode.delta_unused: "with delta: 0 the interval is narrower, since a release of two numbers gains nothing by a "
    "delta.",
    PlanCode.of_a_paper: "this is the method of a paper, for comparison with it: intervals by estimator '{better}' are "
    "{narrower}.",
    PlanCode.untold: "Not told: {fact}, assumed to be {assumed}. The half-width would be about {others}: state it "
    "{where}.",
    PlanCode.untold_range: "By noise and any one of these it lies between ± {low} and ± {high}.",
    PlanCode.gaussian: "With delta: {delta} the half-width would be ± {half_width}, by Gaussian noise.",
    PlanCode.no_delta: "With delta: 0 the half-width would be ± {half_width}, and no delta would be spent.",
    PlanCode.target: "A half-width of {wanted:,.12g}{of} takes epsilon {epsilon}: expected {half_width}.",
    PlanCode.target_missed: "No epsilon gives a half-width of {wanted:,.12g}{of}: {epsilon} still leaves {half_width}. "
    "Bring more units.",
    PlanCode.chosen: "{choice}.",
    PlanCode.public_columns: "Covariates and treatments are public, so weights and imbalance are those of the data "
    "folder.",
    PlanCode.no_outcome_read: "No outcome was read.",
    PlanCode.explained: "This assumes that covariates explain {explained:.0%} of the outcome's variance.",
    PlanCode.assumed: "This assumes correlations of {correlation:g} between covariates, which explain {explained:.0%} "
    "of the outcome's variance.",
    PlanCode.one_draw: "The half-width{of} is that of one draw of noise.",
    PlanCode.mean_of_draws: "The half-width{of} is the mean of {draws} draws of noise, from ± {low} to ± {high}.",
    PlanCode.median_of_draws: "The half-width{of} is the median of {draws} draws of noise, from ± {low} to ± {high}.",
    PlanCode.hidden_draws: "In {hidden} of them noise hides the answer, and the interval is the whole declared range.",
    PlanCode.quarter_ranges: "Assumed: each outcome's standard deviation is a quarter of its range, of 0 and 1 half.",
    PlanCode.grid: "{intervals} intervals of {length}{unit}{rule}.",
    PlanCode.at_risk: "Numbers at risk have noise of {noise} people in the last interval.",
    PlanCode.propensity_noise: "Propensity model: noise of standard deviation {noise} on each coefficient.",
    PlanCode.shrinkage: "The penalty, {penalty:g}, keeps the norm of the coefficients below {bound} and shrinks each "
    "to about {kept:.0%}.",
    PlanCode.prior_allowed: "For what noise and penalty leave, the interval allows for the confounding that "
    "`confounding_prior` assumes.",
    PlanCode.lemma_3: "Bias from the propensity noise: at most {bias}, if fitted scores are right and none is clipped "
    "(Lemma 3, corrected).",
    PlanCode.reuse: "A treated unit may be matched {treated} times, a control {controls} times. Noise grows with the "
    "largest weight, which the release prints.",
    PlanCode.parts: "Epsilon is divided into {parts}.",
    PlanCode.flips: "Each treatment is flipped with probability {flipped}, which attenuates the effect to {left:.0%}"
    "{divided}.",
    PlanCode.residuals: "One training unit moves a residual, which lies in [-2, 2], by at most {movement:.2g}.",
    PlanCode.curve: "Half-width{of} against epsilon and units: {path}",
}
# Of a test of direction; a warning where it is unlikely to answer.
REMARKS[PlanCode.no_answer] = REMARKS[PlanCode.answer]


class Remark(Stated):
    """A sentence of a plan as a code, with the facts of the study that it has.

    >>> remark(PlanCode.bias, bias=1234.5).sentence
    'The interval allows for a bias of 1,234 from the imbalance that the weights leave.'
    """

    sentences: ClassVar = REMARKS
    code: PlanCode


def remark(code: PlanCode, **facts: Fact) -> Remark:
    """Return a sentence of a plan with its facts."""
    return Remark(code=code, facts=facts)


def counted(one: Remark) -> str:
    """Say what units without a treatment or an outcome count as, and no more."""
    return shown(COUNTED[one.code], one.facts)


def in_order(remarks: Iterable[Remark]) -> list[Remark]:
    """Return remarks in the order of their codes, those of a code as they were added."""
    return sorted(remarks, key=lambda one: list(PlanCode).index(one.code))
