"""Every estimator's flow by name. A new one is one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from causalveil.flows.engine.engine import Engine
from causalveil.flows.estimators import aipw, difference, direction, ipw, matching, regression
from causalveil.flows.sequence.run import Run
from causalveil.schemas.plan import Design, Plan, StandIn
from causalveil.schemas.privacy import Charge


class Result(Protocol):
    """What a flow found: the fields that its kind of release has beside those of every release."""

    def fields(self, study: Any) -> dict[str, Any]:
        """By name, as the release's model wants them."""
        ...


class Method(Protocol):
    """An estimator's flow. ``study`` is of the estimator's own class, which the registry of studies pairs with it."""

    def declare(self, study: Any, design: Design) -> tuple[Charge, ...]:
        """Every charge of the study, from public facts alone."""
        ...

    def estimate(self, run: Run[Any], stage: Engine) -> Result:
        """The order of the stages."""
        ...

    def outlook(self, study: Any, plan: Plan, stand_in: StandIn, effect: float | None) -> Mapping[str, Any]:
        """What can be expected: ``sentences`` and ``warnings`` for people, numbers by name for scripts.

        Called with a known number of units only. ``half_width`` is there if the estimator has an interval.
        """
        ...


METHODS: dict[str, Method] = {
    "ipw": ipw,
    "matching": matching,
    "aipw": aipw,
    "difference_in_means": difference,
    "regression": regression,
    "direction": direction,
}
