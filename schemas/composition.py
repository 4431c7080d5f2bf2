"""Add up charges over the parts of the units that they touch, in exact decimals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from causalveil.schemas.privacy import Charge, add


def largest_sum(charges: Sequence[Charge], amount: Callable[[Charge], Decimal]) -> Decimal:
    """Return the largest sum of an amount that one unit can meet.

    Of each partition of the units a unit is in one part, and meets the charges that touch it.

    Raises:
        decimal.Inexact: the sum has too many digits.
    """
    common = add(*(amount(charge) for charge in charges if not charge.scope.whole))
    return add(common, *(max(add(*map(amount, met)) for met in group) for group in by_part(charges)))


def by_part(charges: Sequence[Charge]) -> list[list[list[Charge]]]:
    """Return the charges that touch each part of each partition that scopes speak of."""
    wholes = dict.fromkeys(charge.scope.whole for charge in charges if charge.scope.whole)
    return [
        [[c for c in charges if c.scope.whole == whole and part in c.scope.parts] for part in whole] for whole in wholes
    ]
