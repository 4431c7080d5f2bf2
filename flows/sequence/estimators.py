"""The registry of estimators: a new one is one entry here, one module in ``schemas/estimators/``, one in
``flows/estimators/`` and one folder in ``tasks/``."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from causalveil.flows.estimators.estimator import Estimator
from causalveil.schemas.errors import CausalveilError, StudyError
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
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Study, unrecorded_words

S = TypeVar("S", bound=Study)


# By what a study file declares. Each is imported when a study asks for it: together they take a third of a second.
ESTIMATORS: dict[type[Study], Callable[[], Estimator[Any]]] = {}


def _entry(study: type[S]) -> Callable[[Callable[[], Estimator[S]]], Callable[[], Estimator[S]]]:
    def register(importing: Callable[[], Estimator[S]]) -> Callable[[], Estimator[S]]:
        ESTIMATORS[study] = importing
        return importing

    return register


def _need(library: str, extra: str) -> None:
    """Refuse an estimator whose library is not installed, before a row is read and anything is reserved.

    Raises:
        StudyError: names the extra that has it.
    """
    if find_spec(library) is None:
        raise StudyError(f"this estimator needs {library}, which is not installed; install causalveil[{extra}]")


@_entry(IpwStudy)
def _ipw() -> Estimator[IpwStudy]:
    from causalveil.flows.estimators.ipw import IPW

    return IPW


@_entry(MatchingStudy)
def _matching() -> Estimator[MatchingStudy]:
    _need("numba", "matching")
    from causalveil.flows.estimators.matching import MATCHING

    return MATCHING


@_entry(AipwStudy)
def _aipw() -> Estimator[AipwStudy]:
    from causalveil.flows.estimators.aipw import AIPW

    return AIPW


@_entry(DifferenceStudy)
def _difference() -> Estimator[DifferenceStudy]:
    from causalveil.flows.estimators.difference import DIFFERENCE_IN_MEANS

    return DIFFERENCE_IN_MEANS


@_entry(RegressionStudy)
def _regression() -> Estimator[RegressionStudy]:
    from causalveil.flows.estimators.regression import REGRESSION

    return REGRESSION


@_entry(BalancingStudy)
def _balancing() -> Estimator[BalancingStudy]:
    from causalveil.flows.estimators.balancing import BALANCING

    return BALANCING


@_entry(DirectionStudy)
def _direction() -> Estimator[DirectionStudy]:
    from causalveil.flows.estimators.direction import DIRECTION

    return DIRECTION


@_entry(SurvivalStudy)
def _survival() -> Estimator[SurvivalStudy]:
    from causalveil.flows.estimators.survival import SURVIVAL

    return SURVIVAL


@_entry(RegressionProtocol)
def _regression_protocol() -> Estimator[RegressionProtocol]:
    from causalveil.flows.estimators.protocol import REGRESSION

    return REGRESSION


@_entry(DifferenceProtocol)
def _difference_in_means_protocol() -> Estimator[DifferenceProtocol]:
    from causalveil.flows.estimators.protocol import DIFFERENCE_IN_MEANS

    return DIFFERENCE_IN_MEANS


@_entry(BalancingProtocol)
def _balancing_protocol() -> Estimator[BalancingProtocol]:
    from causalveil.flows.estimators.protocol import BALANCING

    return BALANCING


@_entry(MatchingProtocol)
def _matching_protocol() -> Estimator[MatchingProtocol]:
    _need("numba", "matching")
    from causalveil.flows.estimators.protocol import MATCHING

    return MATCHING


@_entry(SurvivalProtocol)
def _survival_protocol() -> Estimator[SurvivalProtocol]:
    from causalveil.flows.estimators.survival_protocol import SURVIVAL_PROTOCOL

    return SURVIVAL_PROTOCOL


def estimator_of(study: S) -> Estimator[S]:
    """The estimator that a study asks for."""
    return cast(Estimator[S], ESTIMATORS[type(study)]())


def warnings_of(study: Study, sizes: Sizes) -> tuple[str, ...]:
    """Return the warnings that `plan` gives and the release repeats.

    They rest on public facts and the planner's own stand-in population alone.

    What units without a treatment or an outcome count as comes first. The planner adds nothing where it has no numbers
    for such a study.
    """
    from causalveil.tasks.inference.people import assumed

    told = unrecorded_words(study.specification())
    try:
        return (*told, *estimator_of(study).warnings(study, sizes, assumed(study, StandIn())))
    except CausalveilError:
        return told
