"""The analyst's assumption about confounding, which an estimate allows for where the releases show none of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import Field

from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Finite


class ConfoundingPrior(Frozen):
    """Confounding by the covariates that is expected before anything is released.

    The analyst's assumption about the index of the covariates that confounds: ``outcome_r2``, the share of the
    outcome's variance within arms that it explains; ``distance``, by how many of its standard deviations within arms
    the arms' means of it differ. What the releases show takes its place; what noise hides keeps it.
    """

    outcome_r2: Annotated[Finite, Field(ge=0, le=1)] = 0.5
    distance: Annotated[Finite, Field(ge=0, le=10)] = 1.0

    def bias(self, distance: float | None = None) -> float:
        """Return sqrt(outcome_r2) distance: what is allowed for, in standard deviations of the outcome within arms.

        ``distance``: in place of the declared one, where more than it is left.
        """
        return math.sqrt(self.outcome_r2) * (self.distance if distance is None else distance)


def refuse_renamed(document: Any) -> None:
    """Refuse settings of a study document that have another name now.

    Raises:
        ValueError: says what to write in their place.
    """
    estimator = document.get("estimator") if isinstance(document, Mapping) else None
    if not isinstance(estimator, Mapping):
        return
    if "unadjusted" in estimator:
        said = estimator["unadjusted"] if isinstance(estimator["unadjusted"], Mapping) else {}
        names = {"outcome": "outcome_r2", "distance": "distance"}
        prior = ConfoundingPrior().model_dump()
        for key in names.keys() & said.keys():
            # Numbers alone are said again: whatever else stands there may be long.
            with suppress(ValueError, TypeError):
                prior[names[key]] = float(said[key])
        shown = ", ".join(f"{key}: {value}" for key, value in prior.items())
        raise ValueError(f"'estimator.unadjusted' has another name: write confounding_prior: {{{shown}}}")
    if estimator.get("name") == "regression" and "basis" in estimator:
        instead = (
            "write 'curves: none' to adjust by lines alone"
            if estimator["basis"] == "linear"
            else "remove it: curves that the releases show are adjusted for"
        )
        raise ValueError(f"'estimator.basis' is no setting any more: {instead}")
