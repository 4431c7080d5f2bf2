"""Recipe of the five releases of a table.

The budget of each is decided by public facts, before a row is read. Each is made for all subgroups and outcomes at
once; a study of one outcome is a table of one row. A subgroup has a block of its own; what only outcome k has is
multiplied by w_k, sum w_k^2 = 1. Without a delta releases 1 and 5 have Laplace noise on each number, and there sum w_k
= 1; the others have L2-Laplace noise. Proofs: ``docs/proofs/questions.md``, sections 1 to 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

import numpy as np

from causalveil.schemas.confounding import ConfoundingPrior
from causalveil.schemas.errors import ChargesDiffer, StudyError
from causalveil.schemas.estimators.regression import RegressionEstimator
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.estimate.adjust.features import Encoding
from causalveil.tasks.estimate.adjust.released import CELLS, ColumnKind, Prior, Public
from causalveil.tasks.estimate.adjust.sums import (
    COUNT_L1,
    MOMENTS_ALIKE,
    SCALES_L1,
    SCORES_L1,
    ScaleSums,
    moment_numbers,
)
from causalveil.tasks.estimate.clusters import ClusterTotals
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.estimate.models.lattice_sums import sums_sensitivity
from causalveil.tasks.estimate.people import FLOOR_DEVIATIONS, check_cells
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.gaussian import divide, mu_of
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, Slot, vector_mechanism

R = TypeVar("R")
# Sensitivities of the releases: two parts of 2, moments by arm, two products in a ball, a pair of scores.
SCALES_L2, MOMENTS_L2, SCREEN_L2, SCORES_L2 = math.sqrt(8), 3.0, math.sqrt(8), 2.0
# Candidates of a screen, at most; and noise of a candidate's part in treatment from which nothing is seen.
MOST_CANDIDATES, BLIND = 150, 0.5
# A row of d features is cut to a ball of RADIUS sqrt(d + 1) or more (``radius_of`` in ``scales.py``).
RADIUS = 1.4
# Candidates of each number: its square, a bend and steps.
OF_A_NUMBER = 7


@dataclass(frozen=True)
class Parts:
    """Parts of the budget by release; they add up to 1.

    Of mu^2 where there is a delta (chosen on the tuning tables), of epsilon without one: there noise falls with a part
    and not with its root, so parts are near the roots of those. ``screen`` and ``refit`` are 0 where public facts say
    that nothing would be seen.
    """

    scales: Decimal
    lines: Decimal
    screen: Decimal
    refit: Decimal
    scores: Decimal

    @classmethod
    def of(cls, *hundredths: int) -> Parts:
        """Return parts given in hundredths."""
        return cls(*(Decimal(part) / 100 for part in hundredths))


FULL, LINES_ALONE = Parts.of(12, 32, 12, 15, 29), Parts.of(12, 46, 0, 0, 42)
PURE, PURE_LINES_ALONE = Parts.of(16, 26, 16, 17, 25), Parts.of(21, 40, 0, 0, 39)


def candidates_of(public: Public) -> int:
    """Return the largest number of curves that a screen can have."""
    numbers = sum(column.kind is ColumnKind.number for column in public.columns)
    single = numbers + sum(column.kind is ColumnKind.flag for column in public.columns)
    return min(OF_A_NUMBER * numbers + math.comb(single, 2), MOST_CANDIDATES)


def parts_of(public: Public) -> Parts:
    """Decide the parts: no screen where a half treated would leave a candidate hidden by noise."""
    if public.asked is not None:
        return Parts(*public.asked)
    full, alone = (PURE, PURE_LINES_ALONE) if public.pure else (FULL, LINES_ALONE)
    count = candidates_of(public)
    if not count or public.trial:
        return alone
    noise = noise_sd(public, full.screen, SCREEN_L2, 2 * count) * math.sqrt(count) / 0.25
    return alone if noise > BLIND else full


def may_curve(public: Public) -> bool:
    """Return whether there is a number, or a second covariate.

    A single covariate of levels has a line for each level, and leaves no curve.
    """
    numbers = any(column.kind is ColumnKind.number for column in public.columns)
    return numbers or len({column.covariate for column in public.columns}) > 1


def looks_for_curves(public: Public) -> bool:
    """Return whether squares, bends, steps and products are candidates, from public facts."""
    return not public.trial and parts_of(public).screen > 0 and candidates_of(public) > 0


def noise_sd(public: Public, part: Decimal, sensitivity: float, numbers: int) -> float:
    """Return the standard deviation of the noise on each of some means.

    The noise is Gaussian, or L2-Laplace without a delta.
    """
    if public.pure:
        return sensitivity * math.sqrt(numbers * public.blocks + 1) / (float(part) * public.mu * public.units)
    return sensitivity / (math.sqrt(part) * public.mu * public.units)


def moments_sd(public: Public) -> float:
    """Return the deviation of the noise on a mean of release 2.

    Without a delta it does not tell the arms apart.
    """
    return _moments_sd(public, parts_of(public).lines, len(public.columns))


def refit_sd(public: Public, features: int) -> float:
    """Return the deviation of the noise on a mean of release 4 with this many features."""
    return _moments_sd(public, parts_of(public).refit, features)


def _moments_sd(public: Public, part: Decimal, features: int) -> float:
    return noise_sd(public, part, SCREEN_L2 if public.pure else MOMENTS_L2, moment_numbers(features))


def scores_sd(public: Public) -> float:
    """Return the standard deviation of the noise on a mean of release 5.

    Without a delta it is Laplace noise, of sensitivity 2 in the L1 norm.
    """
    part = parts_of(public).scores
    if public.pure:
        return math.sqrt(2) * SCORES_L1 / (float(part) * public.mu * public.units) / public.scores_weight
    return noise_sd(public, part, SCORES_L2, 2) / public.scores_weight


def least_radius(count: int) -> float:
    """Return the least radius to which rows of ``count`` features and a constant are cut."""
    return RADIUS * math.sqrt(count + 1)


SCALES = Slot(name="scales", scope=Scope.all)
LINES = Slot(name="lines", scope=Scope.all)
SCREEN = Slot(name="screen", scope=Scope.all)
REFIT = Slot(name="refit", scope=Scope.all)
SCORES = Slot(name="scores", scope=Scope.all)
CLUSTERS = Slot(name="clusters", scope=Scope.all)
# Of the scores' part of the budget, what absolute totals of clusters have, and their sensitivity whatever the clusters
# (``docs/proofs/clusters.md``).
CLUSTERS_SHARE, CLUSTERS_L2 = Decimal("0.2"), 2.0
# Curves that release 4 keeps at most.
MOST_KEPT = 6
# An unknown number of units is taken for a large one.
UNKNOWN = 10**9


class AdjustsBy(Protocol):
    """Settings of an estimator that adjusts."""

    @property
    def trial(self) -> bool:
        """True if treatment was randomised."""

    @property
    def confounding_prior(self) -> ConfoundingPrior:
        """Confounding that is expected."""


def laplace_mechanism(numbers: int, units: int | None, size: float, cost: PrivacyCost) -> Laplace:
    """Return the mechanism of exact sums over ``units`` units whose L1 sensitivity is ``size``."""
    # The L1 norm of a rounding error is up to the root of the numbers larger than its length.
    rounded = sums_sensitivity(numbers**2, units, size)
    return Laplace(Sensitivity(rounded.value, Norm.l1, rounded.formula), cost)


def public_of(
    total: PrivacyCost, estimand: str, settings: AdjustsBy, encoding: Encoding, sizes: Sizes | None
) -> Public:
    """Return the public facts of a study that spends all its budget on the five releases."""
    pure, prior = total.delta == 0, settings.confounding_prior
    return Public(
        units=UNKNOWN if sizes is None else sizes.units,
        columns=encoding.columns,
        estimand=estimand,
        trial=settings.trial,
        prior=Prior(prior.outcome_r2, prior.distance),
        mu=float(total.epsilon if pure else mu_of(total)),
        pure=pure,
    )


def noise_on(mechanism: Mechanism, numbers: int) -> Noise:
    """Return the law of the noise on each of some numbers of a release."""
    if isinstance(mechanism, Laplace):
        # Independent Laplace noise on each number is that of one dimension.
        return Noise(mechanism.known_scale, 1.0)
    return Noise.of(mechanism, max(numbers, 1))


def made(released: R | None) -> R:
    """Return a release that every study has.

    Raises:
        ChargesDiffer: it was not made.
    """
    if released is None:
        raise ChargesDiffer("an adjustment lacks a release that every study has; report this")
    return released


# Sensitivity of release 1 where a unit may change its subgroup; in the L1 norm that, and where both arms are counted.
SCALES_OF_GROUPS, SCALES_L1_OF_GROUPS, SCALES_L1_COUNTED = math.sqrt(10), 8.5, 6.75
# Factor of a squared survey weight in release 1, and its sensitivity with it where a unit may change its subgroup.
SQUARED_WEIGHT, SCALES_OF_WEIGHTED_GROUPS = 0.5, math.sqrt(10.5)
# Of release 5 in the L1 norm where a unit may change its subgroup, or its arm among more than two.
SCORES_L1_OF_BLOCKS = 3.0
TWO_ARMS = 2
# The five releases have all of the budget.
ALL: Mapping[str, Decimal] = MappingProxyType({})


@dataclass(frozen=True)
class TableRecipe:
    """Every draw of a table, or of a part of one.

    Attributes:
        everybody: public facts of the first primary outcome as a question about all units.
        encoding: of the rows.
        known: whether the number of units is.
        parts: of the budget, as an average subgroup needs.
        costs: by release; screen and refit are missing where no curve is looked for.
        weights: w_k of the outcomes, whose squares add up to 1.
        first: place of the first primary one.
        groups: number of subgroups.
        arms: number of arms, the reference among them.
        all_counted: whether every unit lies in a subgroup, so that counts add up to a public number.
        totals: of clusters, whose units are correlated; None: units are taken to be independent.
        classes: outcomes that share rows, where some have rows of their own; none where all share all rows.
        shared: whether the first class is of outcomes that all units have.
        products: whether release 5 has products of two outcomes' scores in place of their squares alone.
        factor: of all numbers of a class of outcomes.
        weighted: whether units have survey weights.
    """

    everybody: Public
    encoding: Encoding
    known: bool
    parts: Parts
    costs: dict[str, PrivacyCost]
    weights: tuple[float, ...] = (1.0,)
    first: int = 0
    groups: int = 1
    arms: int = TWO_ARMS
    all_counted: bool = True
    totals: ClusterTotals | None = None
    classes: tuple[tuple[int, ...], ...] = ()
    shared: bool = False
    products: bool = False
    factor: float = 1.0
    weighted: bool = False

    @property
    def of_blocks(self) -> tuple[TableRecipe, ...]:
        """The recipe of each block of a release: of each subgroup, or of each class of outcomes.

        Outcomes of a class share rows. A class has a table's release by itself, times the norm of its outcomes'
        weights: with their squares those of all releases add up (``docs/proofs/questions.md``, section 12). A row
        without such an outcome counts as one that is not eligible.
        """
        return self._of_classes if self.classes else (self,) * self.groups

    @cached_property
    def _of_classes(self) -> tuple[TableRecipe, ...]:
        recipes = []
        for place, outcomes in enumerate(self.classes):
            weights = np.array([self.weights[place] for place in outcomes])
            factor = float(np.linalg.norm(weights))
            recipes.append(
                replace(
                    self,
                    everybody=replace(self.everybody, mu=self.everybody.mu * factor),
                    weights=tuple((weights / factor).tolist()),
                    first=outcomes.index(self.first) if self.first in outcomes else 0,
                    all_counted=self.all_counted and self.shared and place == 0,
                    classes=(),
                    products=False,
                    factor=factor,
                )
            )
        return tuple(recipes)

    @property
    def sides(self) -> int:
        """Comparisons of a subgroup: two arms are one, of more each arm is compared with all others."""
        return 1 if self.arms == TWO_ARMS else self.arms

    @property
    def side_weight(self) -> float:
        """Factor of each comparison's treatment sums in release 3: the squares add up to 1."""
        return math.sqrt(1 / self.sides)

    @property
    def pure(self) -> bool:
        """True if there is no delta."""
        return self.everybody.pure

    @property
    def by_arm(self) -> bool:
        """True if moments are released by arm."""
        return not self.pure or self.arms > TWO_ARMS

    def in_l1(self, slot: Slot) -> bool:
        """Return whether a release is bounded in the L1 norm."""
        return self.pure and slot in (SCALES, SCORES)

    def outcome_weights(self, slot: Slot) -> FloatArray:
        """Return w_k in a release.

        Their squares add up to 1, or the weights themselves where the release is bounded in the L1 norm.
        """
        weights = np.array(self.weights)
        return weights / weights.sum() if self.in_l1(slot) else weights

    @property
    def counts(self) -> int:
        """Number of counts of units in a subgroup.

        In the L1 norm one count is enough of two arms that add up to the public number.
        """
        return 1 if self.pure and self.arms == TWO_ARMS and self.known_units is not None else self.arms

    @property
    def count_weight(self) -> float:
        """Factor of a count of units."""
        return COUNT_L1 if self.pure else 1.0

    @property
    def known_units(self) -> int | None:
        """The number of units of the one subgroup that there is, where that is public."""
        return self.everybody.units if self.groups == 1 and self.all_counted else None

    @property
    def scale_sums(self) -> ScaleSums:
        """Release 1 of one question."""
        return ScaleSums(self.encoding, self.pure, blocks=self.groups > 1)

    @property
    def count_noise(self) -> float:
        """Deviation of the noise on a released number of units."""
        least = min((recipe.factor for recipe in self.of_blocks), default=1.0)
        return noise_on(made(self.mechanism(SCALES)), 1).deviation / self.count_weight / least

    def public(self, outcome: int, units: int, effective: float | None = None) -> Public:
        """Return the public facts of one outcome's question in a subgroup of this many units.

        ``effective``: effective sample size, where units have survey weights.
        """
        ratio = SCORES_L1 / self._block(SCORES)[1] if self.pure else 1.0
        return replace(
            self.everybody,
            units=units,
            effective=effective,
            weight=self.weights[outcome],
            scores_weight=float(self.outcome_weights(SCORES)[outcome]) * ratio,
            blocks=self.blocks,
            estimand="ARM" if self.sides > 1 else self.everybody.estimand,
            asked=asked_of(self.parts),
        )

    @property
    def blocks(self) -> int:
        """Factor by which a release of moments has more numbers than that of one question."""
        return self.groups * (self.arms if self.arms > TWO_ARMS else 1)

    def mechanism(self, slot: Slot) -> Mechanism | None:
        """Return the mechanism of a release, or None where there is none."""
        cost = self.costs.get(slot.name)
        if cost is None:
            return None
        numbers, size = self._block(slot)
        units = self.everybody.units if self.known else None
        if slot == CLUSTERS:
            return vector_mechanism(sums_sensitivity(numbers, units, size), cost)
        if self.in_l1(slot):
            return laplace_mechanism(self.groups * numbers, units, size, cost)
        return vector_mechanism(sums_sensitivity(self.groups * numbers, units, size), cost)

    def _block(self, slot: Slot) -> tuple[int, float]:
        """Return the largest number of sums in a subgroup, and the sensitivity."""
        if self.classes and not (self.products and slot == SCORES):
            blocks = [recipe._block(slot) for recipe in self.of_blocks]
            return sum(numbers for numbers, _ in blocks), max(size for _, size in blocks)
        q, arms, several = len(self.weights), self.arms, self.groups > 1
        # No release 2 or 4 has more features beside the constant.
        most = len(self.encoding.columns) + MOST_KEPT
        if slot == SCALES:
            numbers = (q + 1) * arms + q + (q - 1) * CELLS + self.scale_sums.numbers
            if self.pure:
                counted = SCALES_L1 if self.counts == 1 else SCALES_L1_COUNTED
                return numbers, SCALES_L1_OF_GROUPS if several else counted
            if self.weighted:
                return numbers + 1, SCALES_OF_WEIGHTED_GROUPS if several else SCALES_L2
            return numbers, SCALES_OF_GROUPS if several else SCALES_L2
        if slot == SCREEN:
            return (q + self.sides) * MOST_CANDIDATES, SCREEN_L2
        if slot == CLUSTERS:
            return 0 if self.totals is None else math.prod(self.totals.shape), CLUSTERS_L2
        if slot == SCORES:
            in_l1 = SCORES_L1_OF_BLOCKS if several or arms > TWO_ARMS else SCORES_L1
            if self.products:
                return q + q * (q + 1) // 2, SCORES_L2
            return 2 * q * self.sides, in_l1 if self.pure else SCORES_L2
        # Of a further outcome there are x rho by arm and rho^2; of a third arm all is released once more.
        numbers = arms * (moment_numbers(most) + q * (most + 2))
        return numbers, MOMENTS_L2 if arms == TWO_ARMS and self.by_arm else MOMENTS_ALIKE


def asked_of(found: Parts) -> tuple[Decimal, ...]:
    """Return parts in the order of releases."""
    return tuple(vars(found).values())


def _asked(settings: RegressionEstimator, pure: bool) -> tuple[Decimal, ...] | None:
    """Return the parts that a study asks for; None: they are decided by public sizes."""
    if settings.parts != "auto":
        return tuple(settings.parts.model_dump().values())
    return asked_of(PURE_LINES_ALONE if pure else LINES_ALONE) if settings.curves == "none" else None


def joint_recipe(study: EffectStudy, sizes: Sizes | None, before: Mapping[str, Decimal] = ALL) -> TableRecipe:
    """Return every draw of a table.

    A table whose number of units is unknown counts as a large one.

    Args:
        study: the table.
        sizes: its sizes.
        before: shares of the budget of releases that its outcomes are made of, by name.

    Raises:
        StudyError: a budget that cannot be divided exactly, or more subgroups than it can serve.
    """
    settings, left = cast(RegressionEstimator, study.estimator), 1 - sum(before.values(), Decimal(0))
    encoding, pure = Encoding.of(study.questions[study.first]), study.privacy.delta == 0
    everybody = public_of(study.privacy.cost, str(study.estimand), settings, encoding, sizes)
    stated = bool(getattr(study, "terms", ())) and settings.curves == "none"
    everybody = replace(everybody, asked=_asked(settings, pure), stated=stated)
    if before:
        mu = everybody.mu * (float(left) if pure else math.sqrt(left))
        everybody = replace(everybody, mu=mu, tilted=True)
    total = math.hypot(*study.outcome_weights)
    groups, arms = len(study.groups), len(study.arm_names)
    weights = tuple(weight / total for weight in study.outcome_weights) if pure else study.outcome_weights
    of_all = parts_of(everybody), dict[str, PrivacyCost](), weights, study.first, groups, arms, study.known_units
    recipe = TableRecipe(everybody, encoding, sizes is not None, *of_all)
    counted = study.expected_units(everybody.units)
    average, mu = max(counted // groups, 1), everybody.mu * recipe.side_weight
    chosen = parts_of(replace(everybody, units=average, mu=mu, blocks=recipe.blocks))
    clusters_part = CLUSTERS_SHARE * chosen.scores if study.clusters is not None else Decimal(0)
    chosen = replace(chosen, scores=chosen.scores - clusters_part)
    shares = {name: part * left for name, part in vars(chosen).items()}
    if clusters_part > 0:
        shares = {CLUSTERS.name: clusters_part * left, **shares}
    costs = divide(study.privacy.cost, {**before, **shares})
    totals = None if study.clusters is None else ClusterTotals.of(study, study.clusters, weights)
    recipe = replace(recipe, parts=chosen, costs=costs, totals=totals)
    first = study.outcomes[study.classes[0][0]] if study.classes else None
    shared = first is not None and not first.leaves_out and first.arm is None
    # Elsewhere scores have their squares alone, and contrasts assume the worst.
    products = arms == TWO_ARMS and not pure and getattr(study, "needs_products", False)
    recipe = replace(
        recipe, classes=study.classes, shared=shared, products=products, weighted=study.weights is not None
    )
    if sizes is not None:
        check_cells(counted, groups, arms, FLOOR_DEVIATIONS * recipe.count_noise)
        check_terms(recipe.public(study.first, average))
    return recipe


# Terms are refused where release 2 would show less than this part of the variance of a slope: their slopes would then
# follow the prior. Residuals are taken to be cut at this many deviations, as in the limit that release 1 gives.
LEAST_SHOWN, RESIDUALS_CUT = 0.2, 3.0


def shown(public: Public, terms: int) -> float:
    """Return the share of a slope's variance that release 2 shows with this many terms.

    Of d slopes each is N(0, r^2/d) by the usual prior; the noise on one is that of its cross moment.
    """
    count = len(public.encoded) + terms
    variance = Prior().outcome_r2 / max(count, 1)
    noise = RESIDUALS_CUT * moments_sd(public) * least_radius(count)
    return variance / (variance + noise**2)


def check_terms(public: Public) -> None:
    """Refuse more terms than size and budget can serve.

    Raises:
        StudyError: says how many can be served.
    """
    many = len(public.terms)
    if not many or shown(public, many) >= LEAST_SHOWN:
        return
    most = max((few for few in range(many) if shown(public, few) >= LEAST_SHOWN), default=0)
    served = f"at most {most} can be served" if most else "none can be served"
    raise StudyError(
        f"'terms' make {many} columns, and of {public.units:,} units with this budget {served} beside the covariates: "
        "name fewer terms, or covariates, or spend more"
    )
