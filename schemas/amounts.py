"""Exact decimal amounts of privacy budget, parsed from text and never from binary floats.

Three spends of 0.1 fit into 0.3 only in decimals. At most 15 significant digits are accepted, so that an amount
written to JSON as a number and read back is the same decimal.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

MAX_DIGITS = 15
SMALLEST = Decimal("1e-30")
LARGEST = Decimal("1e6")

# Sums of amounts in [1e-30, 1e6] are exact in 60 digits; the trap makes any rounding an error.
EXACT = decimal.Context(prec=60, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])


def parse_amount(value: Any) -> Decimal:
    """Return the exact decimal that ``value`` denotes.

    Args:
        value: text (``"1e-6"``), an int or a Decimal. A float is read by its shortest repr, which is the text
            that a person wrote if it had at most 15 digits.

    Raises:
        ValueError: not a number, not finite, negative, outside [1e-30, 1e6] unless zero, or too many digits.
    """
    if isinstance(value, bool):
        raise ValueError("an amount of budget is a number, not a boolean")
    try:
        amount = value if isinstance(value, Decimal) else Decimal(str(value).strip())
    except decimal.InvalidOperation:
        raise ValueError("not a decimal number") from None
    if not amount.is_finite():
        raise ValueError("must be finite")
    if amount < 0:
        raise ValueError("must not be negative")
    if amount != 0 and not SMALLEST <= amount <= LARGEST:
        raise ValueError(f"must be 0 or between {SMALLEST} and {LARGEST}")
    if len(amount.normalize(EXACT).as_tuple().digits) > MAX_DIGITS:
        raise ValueError(f"has more than {MAX_DIGITS} significant digits")
    return amount


def amount_text(amount: Decimal) -> str:
    """Canonical text of an amount: plain digits for sizes people read, scientific below 1e-4."""
    if amount == 0:
        return "0"
    reduced = amount.normalize(EXACT)
    return f"{reduced:f}" if reduced >= Decimal("0.0001") else f"{reduced:e}"


def add(*amounts: Decimal) -> Decimal:
    """Exact sum; raises ``decimal.Inexact`` rather than round."""
    total = Decimal(0)
    for amount in amounts:
        total = EXACT.add(total, amount)
    return total


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """Exact difference."""
    return EXACT.subtract(left, right)


def float_below(amount: Decimal) -> float:
    """The largest float that is not above ``amount``: calibrating to it never overspends."""
    value = float(amount)
    return math.nextafter(value, 0.0) if Decimal(value) > amount else value


Amount = Annotated[
    Decimal,
    BeforeValidator(parse_amount),
    PlainSerializer(float, return_type=float, when_used="json"),
    WithJsonSchema({"type": "number", "minimum": 0}),
]
