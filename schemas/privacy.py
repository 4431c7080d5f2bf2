"""Name the terms of the guarantee: amounts, neighbours, levels, costs and keys.

Amounts of privacy budget are exact decimals, parsed from text and never from binary floats. Three spends of 0.1 fit
into 0.3 only in decimals. At most 15 significant digits are accepted, so that an amount written to JSON as a number and
read back is the same decimal.

A key is ``ed25519:`` and 64 hex digits, never a point of low order. Under a key of low order forged signatures verify
for many messages (RFC 8032, section 5.1.7, checks the equation alone), so every key in a file or a ledger is checked
here.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema


def met_by_one_unit(charges: Sequence[Charge]) -> list[list[Charge]]:
    """Return the charges on a unit: a list for each half, or one where none is of a half."""
    common = [charge for charge in charges if charge.scope is Scope.all]
    halves = [[charge for charge in charges if charge.scope is half] for half in (Scope.train, Scope.estimation)]
    return [[*common, *half] for half in halves] if any(halves) else [common]


def largest_sum(charges: Sequence[Charge], amount: Callable[[Charge], Decimal]) -> Decimal:
    """Return the largest sum of an amount over the charges on any one unit.

    Raises:
        decimal.Inexact: the sum has too many digits.
    """
    return max(add(*map(amount, met)) for met in met_by_one_unit(charges))


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
        raise ValueError("must be a decimal number, as 1.0 or 1e-6") from None
    if not amount.is_finite():
        raise ValueError("must be finite")
    if amount < 0:
        raise ValueError("must not be negative")
    if amount != 0 and not SMALLEST <= amount <= LARGEST:
        raise ValueError(f"must be 0 or between {SMALLEST} and {LARGEST}")
    # Counted as written: no number of digits is too large to be counted exactly.
    if len("".join(map(str, amount.as_tuple().digits)).rstrip("0")) > MAX_DIGITS:
        raise ValueError(f"has more than {MAX_DIGITS} significant digits")
    return amount


def amount_text(amount: Decimal) -> str:
    """Return an amount as text: plain digits for sizes people read, scientific below 1e-4."""
    if amount == 0:
        return "0"
    reduced = amount.normalize(EXACT)
    return f"{reduced:f}" if reduced >= Decimal("0.0001") else f"{reduced:e}"


def cost_text(cost: Any) -> str:
    """Return epsilon and delta in words."""
    return f"epsilon {amount_text(cost.epsilon)}, delta {amount_text(cost.delta)}"


def add(*amounts: Decimal) -> Decimal:
    """Return the exact sum; raise ``decimal.Inexact`` rather than round."""
    total = Decimal(0)
    for amount in amounts:
        total = EXACT.add(total, amount)
    return total


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """Return the exact difference."""
    return EXACT.subtract(left, right)


def float_below(amount: Decimal) -> float:
    """Return the largest float that is not above ``amount``: calibrating to it never overspends."""
    value = float(amount)
    return math.nextafter(value, 0.0) if Decimal(value) > amount else value


Amount = Annotated[
    Decimal,
    BeforeValidator(parse_amount),
    PlainSerializer(float, return_type=float, when_used="json"),
    WithJsonSchema({"type": "number", "minimum": 0}),
]


class Frozen(BaseModel):
    """Base of all contracts: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def taken_from(cls, document: BaseModel, **own: Any) -> Self:
        """Return a model with the equally named fields of another, and further fields."""
        shared = {key: getattr(document, key) for key in cls.model_fields.keys() & type(document).model_fields.keys()}
        return cls(**shared | own)


class Neighbours(StrEnum):
    """The neighbouring relation of all proofs; ``docs/privacy.md`` says what depends on it."""

    replace_one = "replace_one"


class Level(StrEnum):
    """The parts of a unit's row in which neighbours may differ.

    ``sample``: a unit's whole row. ``label``: its outcome alone (covariates and treatment are public by
    declaration). ``training_units``: the whole row of a unit in the training half; the other half is unbounded.
    """

    sample = "sample"
    label = "label"
    training_units = "training_units"


class Half(StrEnum):
    """The two halves of a split: units that train models, and units to which these are applied."""

    train = "train"
    test = "test"


class Guarantee(StrEnum):
    """The kind of privacy proof: for this sample size, or asymptotic."""

    finite_sample = "finite_sample"
    asymptotic = "asymptotic"


class Accounting(StrEnum):
    """The composition of runs under a cap: zero-concentrated, or sums of epsilon and delta."""

    concentrated = "concentrated"
    basic = "basic"


class Scope(StrEnum):
    """The set of units that a release reads: all units, or one of the two halves of a split.

    Units outside a scope are not charged, so the total is the larger over the halves
    (``tasks/privacy/accountant.py:compose``).
    """

    all = "all"
    train = "train"
    estimation = "estimation"


class Norm(StrEnum):
    """The norm in which a sensitivity is measured."""

    l1 = "l1"
    l2 = "l2"
    bit = "bit"


class PrivacyCost(Frozen):
    """An (epsilon, delta) pair in exact decimals."""

    epsilon: Amount
    delta: Amount


class GaussianCost(PrivacyCost):
    """The cost of one Gaussian draw: mu of Gaussian privacy, and its (epsilon, delta).

    Draws compose by mu alone (``tasks/privacy/gaussian.py``); the pairs of several draws are never added.
    """

    mu: Annotated[Amount, Field(gt=0)]


class Charge(Frozen):
    """One declared draw of noise: its mechanism, the units that it concerns, and its cost.

    ``epsilon`` and ``delta`` hold for the draw alone. Together draws cost less than the sum: Gaussian ones compose by
    ``mu``, and over runs by ``rho`` (``docs/proofs/accounting.md``).

    ``sensitivity`` and ``noise_scale`` are None in a plan whose number of units is unknown; ``formula`` then says
    what they will be. In a release both are numbers.
    """

    name: Annotated[str, Field(description="release name; with the run id, the key under which it is drawn once")]
    stage: str
    mechanism: str
    scope: Scope
    norm: Norm
    sensitivity: float | None
    formula: str
    noise_scale: float | None
    epsilon: Amount
    delta: Amount
    mu: Annotated[Amount | None, Field(description="Gaussian noise: sensitivity over noise scale, rounded up")] = None
    rho: Annotated[
        Amount | None,
        Field(description="zero-concentrated privacy, rounded up; without mu it holds but for a chance of delta"),
    ] = None


PREFIX = "ed25519:"
_P = 2**255 - 19

# The y coordinates of the curve's eight points whose order divides 8; a test derives them from the curve's equation.
LOW_ORDER = frozenset(
    {
        0,
        1,
        _P - 1,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    }
)


def refuse_low_order(key: str) -> str:
    """Return a key; refuse points of low order or with an unreduced y (RFC 8032, 5.1.3).

    Raises:
        ValueError: the key cannot tell who signed.
    """
    y = int.from_bytes(bytes.fromhex(key.removeprefix(PREFIX)), "little") & (2**255 - 1)
    if y >= _P or y in LOW_ORDER:
        raise ValueError(
            "is a point of low order, for which no one can hold the private key; ask its owner for the key that was "
            "printed"
        )
    return key


PublicKey = Annotated[
    str,
    Field(pattern=r"^ed25519:[0-9a-f]{64}$", description="an Ed25519 public key"),
    AfterValidator(refuse_low_order),
]
