"""Limits of an interval as codes with facts, and the one sentence of each.

What an interval covers, and what it does not, is decided by code and facts of a run; no code reads a sentence. Here
alone they are said, so that a page, a panel, a log and a pooled document say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from string import Formatter
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, computed_field, model_validator

from causalveil.schemas.privacy import Frozen

Fact = int | float | str | tuple[int, ...] | tuple[str, ...]


class Code(StrEnum):
    """Name a source of error that an interval covers or not, or why noise hides an answer."""

    # Sources of error that intervals cover.
    sampling = "sampling"
    privacy_noise = "privacy_noise"
    noise_of_estimate = "noise_of_estimate"
    noise_of_variance = "noise_of_variance"
    noise_of_models = "noise_of_models"
    attenuation_factor = "attenuation_factor"
    censoring_curves = "censoring_curves"
    confounding_of_prior = "confounding_of_prior"
    confounding_hidden = "confounding_hidden"
    curves_not_kept = "curves_not_kept"
    imbalance = "imbalance"
    imbalance_times = "imbalance_times"
    hidden_subgroups = "hidden_subgroups"
    unseen_sites = "unseen_sites"
    heterogeneity = "heterogeneity"
    within_clusters = "within_clusters"
    # Sources of error that they do not, in the order in which a release has them.
    left_out = "left_out"
    parallel_trends = "parallel_trends"
    unmeasured = "unmeasured"
    anticipation = "anticipation"
    attrition = "attrition"
    composition = "composition"
    survey_design = "survey_design"
    exclusion = "exclusion"
    not_randomised = "not_randomised"
    beyond_prior = "beyond_prior"
    within_groups = "within_groups"
    clusters_in_curves = "clusters_in_curves"
    other_curves = "other_curves"
    any_curves = "any_curves"
    other_terms = "other_terms"
    curves_beyond_index = "curves_beyond_index"
    curves_beyond_cells = "curves_beyond_cells"
    most_at_limits = "most_at_limits"
    many_at_limits = "many_at_limits"
    extrapolation = "extrapolation"
    matching = "matching"
    caps = "caps"
    noisy_scores = "noisy_scores"
    attenuation = "attenuation"
    nuisance_models = "nuisance_models"
    noise_in_variance = "noise_in_variance"
    controls = "controls"
    calibrated_controls = "calibrated_controls"
    censoring = "censoring"
    censoring_within = "censoring_within"
    censoring_pooled = "censoring_pooled"
    late_entry = "late_entry"
    survivors = "survivors"
    earlier_horizon = "earlier_horizon"
    grid = "grid"
    other_samples = "other_samples"
    common_cause = "common_cause"
    not_additive = "not_additive"
    # Why noise hides an answer.
    noise_hides_arm = "noise_hides_arm"
    arm_too_small = "arm_too_small"
    too_few_followed = "too_few_followed"
    too_few_at_risk = "too_few_at_risk"


# Facts stand in braces; several are listed, and of several numbers the least and the largest are said.
SENTENCES: dict[StrEnum, str] = {
    Code.sampling: "sampling error",
    Code.privacy_noise: "privacy noise",
    Code.noise_of_estimate: "privacy noise on the estimate",
    Code.noise_of_variance: "privacy noise on its variance",
    Code.noise_of_models: "privacy noise in slopes and weights",
    Code.attenuation_factor: "error of the attenuation factor",
    Code.censoring_curves: "error of the released curves of censoring",
    Code.confounding_of_prior: "confounding up to the size that `confounding_prior` assumes",
    Code.confounding_hidden: "confounding as large as `confounding_prior` expects, where noise hides it",
    Code.curves_not_kept: "bias from curves and products that were tested and not selected",
    Code.imbalance: "bias from the imbalance that is left between the arms",
    Code.imbalance_times: "bias from the imbalance that is left between the arms (times the declared allowance, "
    "{factor})",
    Code.hidden_subgroups: "effects of any size in subgroups that noise hides",
    Code.unseen_sites: "effects of any size at sites whose follow-up ends before the horizon",
    Code.heterogeneity: "differences between sites",
    Code.within_clusters: "correlation within {column}, if the number of clusters and the spread of their "
    "sizes are as declared",
    Code.unmeasured: "confounding by variables that are not among the covariates",
    Code.parallel_trends: "a violation of parallel trends: changes that would have differed between the arms without "
    "treatment, given the covariates",
    Code.anticipation: "effects of treatment before the period that changes are taken from (anticipation)",
    Code.attrition: "selection by who has {columns}: units without it are left out (attrition)",
    Code.survey_design: "survey weights ({column}) that are wrong, or above {upper:g}, where they count as that; "
    "strata and clusters of the sample's design",
    Code.composition: "differences of subgroups by who is in them (a difference-in-differences of cross-sections needs "
    "parallel trends, and people of the same kind in each period)",
    Code.exclusion: "effects of {treatment} on {top} other than through {bottom} (exclusion), and people whom "
    "it moves the other way (monotonicity), where a ratio is read as an effect of {bottom}",
    Code.not_randomised: "confounding, if treatment was not randomised as the study declares",
    Code.within_groups: "correlation of outcomes within schools, clinics or households, most of all if whole "
    "ones were treated",
    Code.clusters_in_curves: "correlation within {column} in the unadjusted curves of the arms, their bands and tests",
    Code.beyond_prior: "confounding larger than the size that `confounding_prior` assumes",
    Code.other_curves: "non-linear confounding by curves and products that noise hides, or of other forms",
    Code.any_curves: "non-linear confounding that is stronger than usual; declare `terms` for covariates that act "
    "non-linearly",
    Code.other_terms: "non-linear confounding other than by the declared terms",
    Code.curves_beyond_index: "non-linear confounding beyond squares, products and the propensity index",
    Code.curves_beyond_cells: "non-linear confounding beyond squares, products, joint cells of coarse covariates and "
    "the propensity index",
    Code.left_out: "confounding by {columns}, which could not be adjusted for everywhere",
    Code.most_at_limits: "confounding by {columns} beyond the declared range, at whose limits most values lie (declare "
    "a wider range, or levels)",
    Code.many_at_limits: "confounding by {columns} beyond the declared range, near whose limits many values lie "
    "(declare a wider range, or levels)",
    Code.extrapolation: "effects on kinds of people that one arm lacks, which slopes extrapolate (poor overlap: "
    "the effective sample size of an arm is {share} of its people)",
    Code.matching: "bias from caps on reuse, distant matches and a misspecified score",
    Code.caps: "bias from caps on reuse",
    Code.noisy_scores: "confounding that noise on the scores leaves unadjusted",
    Code.attenuation: "attenuation by randomised treatments: about {factor} of the effect is left",
    Code.nuisance_models: "clipping and misspecification of the nuisance models",
    Code.noise_in_variance: "privacy noise on the variance",
    Code.controls: "bias that negative controls reveal",
    Code.calibrated_controls: "bias that negative controls reveal (the calibrated intervals include it)",
    Code.censoring: "informative censoring within an arm",
    Code.censoring_within: "informative censoring within an arm and levels of {columns}",
    Code.censoring_pooled: "informative censoring by {columns} within pooled strata, which noise would hide",
    Code.late_entry: "entry that depends on the time of the event, within an arm (dependent truncation)",
    Code.survivors: "selection by who had no event until {landmark:g}: of these the arms may be unlike, even in a "
    "trial (survivor bias)",
    Code.earlier_horizon: "the choice of an earlier horizon by noisy numbers",
    Code.grid: "discretisation of follow-up into {intervals} intervals",
    Code.other_samples: "sampling error: other units could favour the other direction",
    Code.common_cause: "a common cause of both, or effects in both directions",
    Code.not_additive: "an effect that is not a smooth function of its cause plus independent noise",
    Code.noise_hides_arm: "noise hides an arm",
    Code.arm_too_small: "an arm is too small to be compared",
    Code.too_few_followed: "after noise, too few people are seen to be followed to the horizon",
    Code.too_few_at_risk: "after noise, too few people are seen at risk all the way to the horizon: where "
    "few have entered at first, a later `landmark` begins with more",
}


def number(value: float, digits: int = 4) -> str:
    """Return a number for a terminal: ``digits`` significant digits, large ones rounded to 1.

    It has a plain minus, and no exponent below ten million.

    >>> number(8943.4), number(8182.9, 3)
    ('8,943', '8,183')
    """
    return f"{value:,.0f}" if 10**digits - 0.5 <= abs(value) < 1e7 else f"{value:,.{digits}g}"


class _Sentence(Formatter):
    """Fill a sentence with facts.

    Numbers without a format have three digits. Lists have commas; of integers only the ends are shown.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec:
            return format(value, format_spec)
        if isinstance(value, tuple):
            numbers = sorted({number for number in value if isinstance(number, int)})
            return " to ".join(map(str, {numbers[0]: 0, numbers[-1]: 0})) if numbers else ", ".join(map(str, value))
        return number(value, 3) if isinstance(value, float) else str(value)


def capital(text: str) -> str:
    """Return a text that begins a sentence.

    >>> capital("no covariate")
    'No covariate'
    """
    return text[:1].upper() + text[1:]


def shown(sentence: str, facts: Mapping[str, Fact]) -> str:
    """Return a sentence with its facts.

    >>> shown("{columns} vary by {ratio} or {ratio:.0%}", {"columns": ("age", "sex"), "ratio": 0.12345})
    'age, sex vary by 0.123 or 12%'
    """
    return _Sentence().vformat(sentence, (), facts)


class Worded(Frozen):
    """Base of facts with a computed sentence, which is ignored when a document is read."""

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        return {key: value for key, value in document.items() if key not in cls.model_computed_fields}


class Stated(Worded):
    """Base of a code with the facts that its sentence has."""

    # The sentence of each code.
    sentences: ClassVar[Mapping[StrEnum, str]]
    code: StrEnum
    facts: Annotated[dict[str, Fact], Field(description="by name, as the sentence has them")] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _has_facts(self) -> Self:
        try:
            _ = self.sentence
        except (KeyError, ValueError):
            raise ValueError(f"'{self.code}' does not have the facts of its sentence") from None
        return self

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The code and its facts in words."""
        return shown(self.sentences[self.code], self.facts)

    def __str__(self) -> str:
        """Return the sentence."""
        return self.sentence


class Limit(Stated):
    """A source of error as a code, with the facts of this run that its sentence has.

    Its words begin with a small letter and end without a full stop.

    >>> Limit(code=Code.left_out, facts={"columns": ("age", "sex")}).sentence
    'confounding by age, sex, which could not be adjusted for everywhere'
    """

    sentences: ClassVar = SENTENCES
    code: Code


def limit(code: Code, **facts: Fact) -> Limit:
    """Return a limit with its facts.

    >>> limit(Code.grid, intervals=(30, 50)).sentence
    'discretisation of follow-up into 30 to 50 intervals'
    """
    return Limit(code=code, facts=facts)


def in_order(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Return limits in the order of their codes.

    >>> [str(ordered.code) for ordered in in_order([limit(Code.censoring), limit(Code.unmeasured)])]
    ['unmeasured', 'censoring']
    """
    return tuple(sorted(limits, key=lambda item: list(Code).index(item.code)))


def united(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Return the distinct limits of several releases in order; of several grids one limit.

    >>> [merged.sentence for merged in united([limit(Code.grid, intervals=(50,)), limit(Code.grid, intervals=(30,))])]
    ['discretisation of follow-up into 30 to 50 intervals']
    """
    distinct: list[Limit] = []
    for item in limits:
        grids = [index for index, earlier in enumerate(distinct) if item.code is earlier.code is Code.grid]
        if grids:
            both = *distinct[grids[0]].facts["intervals"], *item.facts["intervals"]  # type: ignore[misc]
            distinct[grids[0]] = limit(Code.grid, intervals=tuple(sorted(set(both))))
        elif item not in distinct:
            distinct.append(item)
    return tuple(distinct)
