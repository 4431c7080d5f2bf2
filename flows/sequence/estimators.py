"""The registry of estimators: a new one is one entry here, one module in ``schemas/estimators/``, one in
``flows/estimators/`` and one folder in ``tasks/``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from causalveil.flows.engine.engine import Engine
from causalveil.flows.sequence.run import Run
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.estimators.protocols import (
    BalancingProtocol,
    DifferenceProtocol,
    MatchingProtocol,
    RegressionProtocol,
)
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge
from causalveil.schemas.study import Study, unrecorded_words
from causalveil.tasks.inference.public_people import PublicPeople

S = TypeVar("S", bound=Study)


class Result(Protocol):
    """What an estimator found: the fields that its kind of release has beside those of every release."""

    def fields(self, study: Any) -> dict[str, Any]:
        """By name, as the release's model wants them."""
        ...


@dataclass(frozen=True)
class Estimator(Generic[S]):
    """An estimator.

    Attributes:
        study: what a study file declares for it.
        declare: every charge of a study, from public facts alone; formulas in n where sizes are None.
        estimate: the order of the stages, the same on every engine, on files and in memory.
        expected: what can be expected of sizes, a stand-in population and the effect that the reader hopes to see:
            ``sentences`` and ``warnings`` for people, numbers by name for scripts. ``half_width`` is among them if the
            estimator has an interval. Of a study whose covariates and treatments are public, the run's own people too.
        formula: the expected half-width by formulas alone, where ``expected`` rehearses: quick and smooth, for a choice
            among estimators.
        most_read: how many people of such a study ``expected`` wants at most; None: it knows nothing of them.
        warned: the warnings of ``expected`` alone, without an effect, where it has numbers that no warning speaks of: a
            run says nothing else of them.
    """

    study: type[S]
    declare: Callable[[S, Sizes | None], tuple[Charge, ...]]
    estimate: Callable[[Run[S], Engine], Result]
    expected: Callable[..., Mapping[str, Any]]
    formula: Callable[[S, Sizes, StandIn], float | None] | None = None
    warned: Callable[[S, Sizes, StandIn], Sequence[str]] | None = None
    most_read: Callable[[S], int] | None = None

    def foresee(
        self, study: S, sizes: Sizes, stand_in: StandIn, effect: float | None, people: PublicPeople | None = None
    ) -> Mapping[str, Any]:
        """``expected``, of the run's own people where there are any."""
        if people is None:
            return self.expected(study, sizes, stand_in, effect)
        return self.expected(study, sizes, stand_in, effect, people)

    def reads(self, study: S) -> int:
        """How many people's covariates and treatments a plan may look at; 0: none."""
        return 0 if self.most_read is None else self.most_read(study)

    def warnings(self, study: S, sizes: Sizes, stand_in: StandIn) -> tuple[str, ...]:
        """What ``expected`` warns of where nobody names an effect."""
        if self.warned is not None:
            return tuple(self.warned(study, sizes, stand_in))
        return tuple(self.expected(study, sizes, stand_in, None)["warnings"])

    def half_width(self, study: S, sizes: Sizes, stand_in: StandIn) -> float | None:
        """By formulas where there are any; None: the estimator has no interval."""
        if self.formula is not None:
            return self.formula(study, sizes, stand_in)
        found: float | None = self.expected(study, sizes, stand_in, None).get("half_width")
        return found


# By what a study file declares. Each is imported when a study asks for it: together they take a third of a second.
ESTIMATORS: dict[type[Study], Callable[[], Estimator[Any]]] = {}


def _entry(study: type[S]) -> Callable[[Callable[[], Estimator[S]]], Callable[[], Estimator[S]]]:
    def register(importing: Callable[[], Estimator[S]]) -> Callable[[], Estimator[S]]:
        ESTIMATORS[study] = importing
        return importing

    return register


@_entry(IpwStudy)
def _ipw() -> Estimator[IpwStudy]:
    from causalveil.flows.estimators import ipw

    return Estimator(IpwStudy, ipw.declare, ipw.estimate, ipw.expected, ipw.formula, ipw.warned, ipw.reads)


@_entry(MatchingStudy)
def _matching() -> Estimator[MatchingStudy]:
    from causalveil.flows.estimators import matching

    return Estimator(
        MatchingStudy,
        matching.declare,
        matching.estimate,
        matching.expected,
        warned=matching.warned,
        most_read=matching.reads,
    )


@_entry(AipwStudy)
def _aipw() -> Estimator[AipwStudy]:
    from causalveil.flows.estimators import aipw

    return Estimator(AipwStudy, aipw.declare, aipw.estimate, aipw.expected, aipw.formula, aipw.warned)


@_entry(DifferenceStudy)
def _difference() -> Estimator[DifferenceStudy]:
    from causalveil.flows.estimators import difference

    return Estimator(DifferenceStudy, difference.declare, difference.estimate, difference.expected)


@_entry(RegressionStudy)
def _regression() -> Estimator[RegressionStudy]:
    from causalveil.flows.estimators import regression

    return Estimator(
        RegressionStudy,
        regression.declare,
        regression.estimate,
        regression.expected,
        regression.formula,
        regression.warned,
    )


@_entry(BalancingStudy)
def _balancing() -> Estimator[BalancingStudy]:
    from causalveil.flows.estimators import balancing

    return Estimator(
        BalancingStudy,
        balancing.declare,
        balancing.estimate,
        balancing.expected,
        balancing.formula,
        balancing.warned,
        balancing.reads,
    )


@_entry(RegressionProtocol)
def _regression_protocol() -> Estimator[RegressionProtocol]:
    from causalveil.flows.estimators import protocol

    return Estimator(
        RegressionProtocol, protocol.declare_regression, protocol.estimate_regression, protocol.expected_regression
    )


@_entry(DifferenceProtocol)
def _difference_protocol() -> Estimator[DifferenceProtocol]:
    from causalveil.flows.estimators import protocol

    return Estimator(
        DifferenceProtocol, protocol.declare_difference, protocol.estimate_difference, protocol.expected_difference
    )


@_entry(BalancingProtocol)
def _balancing_protocol() -> Estimator[BalancingProtocol]:
    from causalveil.flows.estimators import protocol

    return Estimator(BalancingProtocol, protocol.declare_label, protocol.estimate_label, protocol.expected)


@_entry(MatchingProtocol)
def _matching_protocol() -> Estimator[MatchingProtocol]:
    from causalveil.flows.estimators import protocol

    return Estimator(MatchingProtocol, protocol.declare_label, protocol.estimate_label, protocol.expected)


@_entry(DirectionStudy)
def _direction() -> Estimator[DirectionStudy]:
    from causalveil.flows.estimators import direction

    return Estimator(DirectionStudy, direction.declare, direction.estimate, direction.expected)


def estimator_of(study: S) -> Estimator[S]:
    """The estimator that a study asks for."""
    return cast(Estimator[S], ESTIMATORS[type(study)]())


def warnings_of(study: Study, sizes: Sizes) -> tuple[str, ...]:
    """What `plan` warns of, also in the release: of public facts alone and of the planner's own stand-in population.

    What units without a treatment or an outcome count as comes first. The planner adds nothing where it has no numbers
    for such a study.
    """
    from causalveil.tasks.inference.people import assumed

    told = unrecorded_words(study.specification())
    try:
        return (*told, *estimator_of(study).warnings(study, sizes, assumed(study, StandIn())))
    except CausalveilError:
        return told
