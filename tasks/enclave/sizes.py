"""The public sizes of a study: how many units it has, and how many serve each purpose."""

from __future__ import annotations

from collections.abc import Callable

from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Sizes
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.split import training_size

MOST_UNITS = 10**13


def sizes_of(study: Study, units: int) -> Sizes:
    """Sizes that every sensitivity depends on; public, since replace-one leaves the number of units alone.

    Args:
        study: the study.
        units: number of units.

    Raises:
        StudyError: so few units that one of the two halves is empty.
        DataError: no units at all.
    """
    if units < 1:
        raise DataError("there are no units")
    if study.training_share is None:
        return Sizes(units=units, train=units, estimation=units)
    train = training_size(units, study.training_share)
    return Sizes(units=units, train=train, estimation=units - train)


def least_units(enough: Callable[[int], bool]) -> int | None:
    """The fewest units, to 1 %, that are enough; None if no number up to 1e13 is.

    Args:
        enough: says so of a number of units; once true it should stay true.
    """
    high = 16
    while not enough(high):
        high *= 2
        if high > MOST_UNITS:
            return None
    low = high // 2
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
