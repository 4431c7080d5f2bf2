"""A study by covariate adjustment from noisy moments.

Five releases on all units (``docs/proofs/regression.md``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.confounding import ConfoundingSettings
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Amount, Frozen, Level, add
from causalveil.schemas.study import EstimatorSettings
from causalveil.schemas.table import EffectStudy
from causalveil.schemas.terms import MOST_TERM_COLUMNS, DeclaredTerm, refuse_terms


class BudgetParts(Frozen):
    """Parts of the budget by release, of mu^2 where there is a delta, else of epsilon.

    They add up to 1. Without ``screen`` and ``refit`` no curve is looked for; one of them alone has no use.
    """

    scales: Annotated[Amount, Field(gt=0)]
    lines: Annotated[Amount, Field(gt=0)]
    screen: Annotated[Amount, Field(ge=0)]
    refit: Annotated[Amount, Field(ge=0)]
    scores: Annotated[Amount, Field(gt=0)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if add(self.scales, self.lines, self.screen, self.refit, self.scores) != 1:
            raise ValueError("parts must add up to 1")
        if (self.screen > 0) != (self.refit > 0):
            raise ValueError("parts: screen and refit are both above 0, or both 0")
        return self


class RegressionEstimator(ConfoundingSettings):
    """Slopes and balancing weights from noisy moments, then one pair of orthogonal scores.

    One posterior reads all.

    ``trial``: treatment was randomised, so that nothing confounds. ``curves``: squares, steps and products are adjusted
    for where a release shows them, or ``none`` is looked for, which is the default of a study that declares ``terms``.
    ``parts: auto`` divides the budget by public sizes.
    """

    name: Literal["regression"]
    curves: Literal["auto", "none"] = "auto"
    parts: Literal["auto"] | BudgetParts = "auto"

    @model_validator(mode="after")
    def _no_curves_without_their_parts(self) -> Self:
        if self.curves == "none" and self.parts != "auto" and self.parts.screen > 0:
            raise RuleBroken("'curves: none' looks for no curve: parts.screen and parts.refit must be 0", "curves")
        return self


def of_stated_form(settings: EstimatorSettings, terms: Collection[object]) -> EstimatorSettings:
    """Return the settings of a study that may declare terms.

    With terms it looks for no other curve, unless the settings say that it does.
    """
    if not terms or not isinstance(settings, RegressionEstimator) or "curves" in settings.model_fields_set:
        return settings
    if settings.parts != "auto" and settings.parts.screen > 0:
        return settings
    return settings.model_copy(update={"curves": "none"})


class RegressionStudy(EffectStudy):
    """Treatment effects by adjustment from noisy moments, within each subgroup.

    ``terms``: functions of covariates that are adjusted for as their lines are, from release 2 on.
    """

    TABLES: ClassVar[tuple[Level, ...]] = (Level.sample,)

    TAKES_CLUSTERS: ClassVar[bool] = True
    TAKES_WEIGHTS: ClassVar[bool] = True
    LEAVES_OUT: ClassVar[bool] = True

    estimator: RegressionEstimator
    terms: Annotated[tuple[DeclaredTerm, ...], Field(max_length=MOST_TERM_COLUMNS)] = ()

    @model_validator(mode="after")
    def _terms_of_covariates(self) -> Self:
        refuse_terms(self.terms, self.covariates)
        return self

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.privacy.level is not Level.sample:
            raise ValueError(
                f"estimator 'regression' has no {self.privacy.level} level: every unit is in every release; "
                "use estimator 'ipw'"
            )
        return self

    @property
    def in_l1(self) -> bool:
        """True if scales and scores are bounded in the L1 norm, with Laplace noise on each number."""
        return self.privacy.delta == 0
