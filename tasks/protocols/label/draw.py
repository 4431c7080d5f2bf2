"""The one draw of a table at label level: two numbers of each outcome in each comparison.

One person has one outcome of each kind, lies in one subgroup, and is in one comparison of it, or in all if they are in
the reference arm. Numbers of outcome k are multiplied by w_k and all by r, so that together they move as far as those
of one question (``docs/proofs/questions.md``, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from causalveil.schemas.estimators.matching import MatchingEstimator
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import PrivacyCost
from causalveil.schemas.protocols.study import EffectStudy
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.inference.people import check_cells
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Mechanism
from causalveil.tasks.protocols.label.weights import Comparison
from causalveil.tasks.weighting import weighted_means
from causalveil.tasks.weighting.imbalance import Weighing, open_units
from causalveil.tasks.weighting.weighted_means import SLOT, exact_sums


@dataclass(frozen=True)
class JointDraw:
    """The draw of a protocol: its cost, the outcomes' weights, and how many arms there are."""

    cost: PrivacyCost
    weights: tuple[float, ...]
    arms: int

    @classmethod
    def of(cls, study: EffectStudy) -> JointDraw:
        """Return the draw of a study."""
        return cls(study.privacy.cost, study.weights, len(study.arm_names))

    @property
    def gaussian(self) -> bool:
        """True if there is a delta to spend."""
        return self.cost.delta > 0

    @property
    def shared(self) -> float:
        """r: a unit of the reference is in arms - 1 comparisons."""
        return 1 / math.sqrt(self.arms - 1) if self.gaussian else 1 / (self.arms - 1)

    @property
    def mechanism(self) -> Mechanism:
        """Gaussian noise, or Laplace noise if there is no delta.

        Weighted numbers of all outcomes move as far together as those of one.
        """
        return weighted_means.mechanism(self.cost)

    def part(self, outcome: int) -> float:
        """Return the factor of an outcome's numbers."""
        return self.weights[outcome] * self.shared

    def louder(self, outcome: int) -> float:
        """Return the ratio of an outcome's noise to that of a draw of its own."""
        return 1 / self.part(outcome)

    def deviation(self, outcome: int) -> float:
        """Return the standard deviation of the noise on an outcome's numbers."""
        return (1.0 if self.gaussian else math.sqrt(2)) * self.mechanism.known_scale / self.part(outcome)


def without_delta(study: EffectStudy) -> float:
    """Return the first primary outcome's noise if no delta were spent, over what it is."""
    privacy = study.privacy.model_copy(update={"delta": Decimal(0)})
    other = JointDraw.of(study.model_copy(update={"privacy": privacy}))
    return other.deviation(study.first) / JointDraw.of(study).deviation(study.first)


def mechanism(study: EffectStudy, sizes: Sizes | None) -> Mechanism:
    """Return the mechanism of the protocol's one draw, the same whatever its size.

    Raises:
        StudyError: more cells than the budget can serve.
    """
    draw = JointDraw.of(study)
    if sizes is not None:
        # With even weights an estimate in [-2, 2] has noise of 2/n of the draw's, n the units of an arm.
        least = -float(ndtri((1 - study.confidence) / 2)) * draw.deviation(study.first)
        if isinstance(study.estimator, MatchingEstimator):
            least = max(least, study.estimator.ratio)
        check_cells(sizes.units, len(study.groups), draw.arms, least)
    return draw.mechanism


def exact_numbers(
    study: EffectStudy, enclave: Enclave, comparisons: Sequence[Comparison], weighed: Sequence[Weighing | None]
) -> FloatArray:
    """Return the numbers before their noise, shape (comparisons, outcomes, 2).

    They are 0 where nothing could be weighed.
    """
    draw = JointDraw.of(study)
    found = np.zeros((len(comparisons), len(study.outcomes), 2))
    for place, (comparison, weighing) in enumerate(zip(comparisons, weighed, strict=True)):
        if weighing is None:
            continue
        rows = comparison.rows(enclave)
        units, in_treated = open_units(rows, weighing.weights), rows.gather("t")
        # One column of each outcome, also where a study has one.
        u = rows.gather("u").reshape(len(in_treated), -1)
        for outcome in range(len(study.outcomes)):
            exact = exact_sums(units, in_treated, u[:, outcome], draw.cost, draw.louder(outcome))
            found[place, outcome] = [float(Fraction(draw.part(outcome)) * one) for one in exact]
    return found


def perturb_stage(
    study: EffectStudy,
    enclave: Enclave,
    comparisons: Sequence[Comparison],
    weighed: Sequence[Weighing | None],
    budget: Budget,
) -> FloatArray:
    """Release the numbers of all comparisons in one draw, shape (comparisons, outcomes, 2)."""
    exact = exact_numbers(study, enclave, comparisons, weighed)
    return JointDraw.of(study).mechanism.release(exact.ravel(), SLOT, budget).reshape(exact.shape)
