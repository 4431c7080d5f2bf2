"""Budget of each draw of AIPW with a known propensity: decided from public facts, before a row is read.

Outside each fold two releases of the adjusting estimator, scales and moments of lines; then one pair of scores of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.aipw import UNKNOWN_CHANCE, AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import PrivacyCost, Scope
from causalveil.tasks.adjustment.features import Encoding
from causalveil.tasks.adjustment.parts import RADIUS, moments_sd
from causalveil.tasks.adjustment.recipe import LINES, SCALES, SCORES, UNKNOWN, AdjustmentRecipe
from causalveil.tasks.adjustment.released import Prior, Public
from causalveil.tasks.aipw.scores import Precision, expected_variance
from causalveil.tasks.enclave.split import fold_sizes
from causalveil.tasks.privacy.gaussian import divide, mu_of
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Slot

# Parts of a unit's budget that are tried, in hundredths: scales, lines, scores. The last is that of the adjusting
# estimator without curves, the first buys no slopes, and the others lie between.
TRIED = ((10, 0, 90), (10, 10, 80), (12, 23, 65), (12, 46, 42))
# Of what a study gives to the outcome model, scales take a fifth, as they do of the last of these.
OF_MODEL = Decimal("0.2")
# Residuals are taken to be cut at so many deviations, as in the adjusting estimator's formula.
CUT = 3.0


@dataclass(frozen=True)
class KnownRecipe:
    """Every draw of a study.

    Attributes:
        folds: what is learnt outside each fold.
        scores: of the release of everybody's scores.
        sizes: units of each fold; None while the number of units is unknown.
        chance: of treatment, which is known.
    """

    folds: tuple[AdjustmentRecipe, ...]
    scores: AdjustmentRecipe
    sizes: tuple[int, ...] | None
    chance: float

    @property
    def known_sizes(self) -> tuple[int, ...]:
        """Units of each fold of a run.

        Raises:
            ValueError: the number of units is unknown.
        """
        if self.sizes is None:
            raise ValueError("this needs the number of units")
        return self.sizes

    @property
    def slopes(self) -> bool:
        """True if slopes are learnt; otherwise only arms' means are."""
        return LINES.name in self.folds[0].costs

    def model_draws(self, fold: int) -> Iterator[tuple[Slot, Mechanism | None]]:
        """Yield slot and mechanism of each draw of the outcome model by which a fold is scored."""
        for slot in (SCALES, LINES):
            yield self.folds[fold].slot(slot), self.folds[fold].mechanism(slot)

    @property
    def effect(self) -> Mechanism:
        """The mechanism of the scores.

        Raises:
            ValueError: the budget has no part for them.
        """
        found = self.scores.mechanism(SCORES)
        if found is None:
            raise ValueError("scores have a part of every budget")
        return found

    @property
    def precision(self) -> Precision:
        """Precision with which the mean of scores is known."""
        scale = self.effect.known_scale / sum(self.known_sizes)
        return Precision(sum(self.known_sizes), scale * (math.sqrt(2) if isinstance(self.effect, Laplace) else 1.0))


def known_recipe(study: AipwStudy, sizes: Sizes | None) -> KnownRecipe:
    """Return every draw of a study: as asked, or by the parts of the least expected error.

    Raises:
        StudyError: too few units for the folds, or a budget of so many digits that it cannot be divided exactly.
    """
    asked = study.estimator.budget_shares
    if asked != "auto":
        scales = asked.outcome_model * OF_MODEL
        return _recipe(study, sizes, (scales, asked.outcome_model - scales, asked.effect))
    tried = [_recipe(study, sizes, tuple(Decimal(part) / 100 for part in parts)) for parts in TRIED]
    if sizes is None:
        return tried[-1]
    return min(tried, key=lambda one: expected_of(study, one, StandIn()))


def expected_of(study: AipwStudy, recipe: KnownRecipe, stand_in: StandIn) -> float:
    """Return the expected variance of the estimate, in squared half ranges of the outcome.

    Of d lines slopes are N(0, R^2/d), seen with the noise of the second release: so much of R^2 is explained.
    """
    half, public = study.outcome.width / 2, recipe.folds[0].public
    spread = 0.5 if stand_in.deviation is None else min(stand_in.deviation / half, 1.0)
    middle = 0.0 if stand_in.mean is None else (stand_in.mean - study.outcome.middle) / half
    explained = 0.0
    if recipe.slopes and stand_in.explained > 0:
        d = len(public.columns)
        radius = RADIUS * math.sqrt(d + 1)
        moments = moments_sd(public) * radius
        noise = (CUT * moments) ** 2 + (moments * radius) ** 2 * stand_in.explained
        explained = stand_in.explained**2 / (stand_in.explained + d * noise)
    return expected_variance(
        recipe.chance, (middle, middle), spread, explained, math.sqrt(explained), recipe.precision
    ).variance


def _recipe(study: AipwStudy, sizes: Sizes | None, parts: tuple[Decimal, ...]) -> KnownRecipe:
    """Return the draws of a study whose unit's budget is divided like this: scales, lines, scores.

    Raises:
        StudyError: the chance of treatment is not known, too few units, or a budget that cannot be divided exactly.
    """
    chance = study.estimator.propensity.known
    if chance is None:
        raise StudyError(UNKNOWN_CHANCE)
    total, encoding, folds = study.privacy.cost, Encoding.of(study), study.estimator.folds
    pure, each = total.delta == 0, folds - 1
    costs: dict[str, PrivacyCost] = divide(
        total,
        dict(zip((SCALES.name, LINES.name, SCORES.name), parts, strict=True)),
        {SCALES.name: each, LINES.name: each},
    )
    units = None if sizes is None else fold_sizes(sizes.units, folds)
    zero = Decimal(0)

    def public(count: int | None) -> Public:
        return Public(
            units=UNKNOWN if count is None else count,
            columns=encoding.columns,
            trial=True,
            prior=Prior(),
            mu=float(total.epsilon if pure else mu_of(total)),
            pure=pure,
            # Where no lines are released nothing reads what their part would be; it must not be 0.
            asked=(parts[0] / each, (parts[1] or parts[2]) / each, zero, zero, parts[2]),
        )

    def own(names: tuple[str, ...]) -> dict[str, PrivacyCost]:
        return {name: cost for name, cost in costs.items() if name in names}

    learnt = tuple(
        AdjustmentRecipe(
            public(None if units is None else sum(units) - units[fold]),
            encoding,
            units is not None,
            own((SCALES.name, LINES.name)),
            f"-{fold + 1}",
            Scope.without_fold(fold + 1, folds),
        )
        for fold in range(folds)
    )
    everybody = public(None if units is None else sum(units))
    scores = AdjustmentRecipe(everybody, encoding, units is not None, own((SCORES.name,)))
    return KnownRecipe(learnt, scores, units, chance)
