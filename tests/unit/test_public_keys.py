"""Keys of low order are nobody's: the list is derived here from the curve's equation, and each key is refused."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from causalveil.schemas.privacy import LOW_ORDER, PublicKey
from causalveil.tasks.privacy.keys import is_signed, owner_key
from tests.ledger_help import contract

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
KEY: TypeAdapter[str] = TypeAdapter(PublicKey)
Point = tuple[int, int]


def plus(left: Point, right: Point) -> Point:
    """The group law of the twisted Edwards curve -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032, section 5.1)."""
    (x1, y1), (x2, y2) = left, right
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x, y


def xs(y: int) -> list[int]:
    """Both x with (x, y) on the curve."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    if (root * root - square) % P:
        root = root * pow(2, (P - 1) // 4, P) % P
    return sorted({root, -root % P}) if (root * root - square) % P == 0 else []


def times_eight(point: Point) -> Point:
    for _ in range(3):
        point = plus(point, point)
    return point


def text(y: int, sign: int) -> str:
    return f"ed25519:{(y | sign << 255).to_bytes(32, 'little').hex()}"


def test_the_list_holds_all_eight_points_and_nothing_else() -> None:
    points = [(x, y) for y in LOW_ORDER for x in xs(y)]
    assert len(points) == 8, "the subgroup of the cofactor has eight points"
    assert {times_eight(point) for point in points} == {(0, 1)}
    assert {plus(a, b) for a in points for b in points} == set(points)
    ordinary = next((x, y) for y in range(2, 50) for x in xs(y))
    assert times_eight(ordinary) != (0, 1)


@pytest.mark.parametrize("sign", [0, 1])
def test_every_spelling_of_them_is_refused(sign: int) -> None:
    spellings = {*LOW_ORDER, *(y + P for y in LOW_ORDER if y + P < 2**255)}
    assert len(spellings) == 7
    for y in spellings:
        with pytest.raises(ValidationError, match="low order"):
            KEY.validate_python(text(y, sign))


def test_under_such_a_key_nobody_s_signature_passes_for_somebody_s() -> None:
    """Why it matters: with the neutral point as key, R = s B is a signature of every message."""
    neutral = text(1, 0)
    forged = (1).to_bytes(32, "little").hex() + (0).to_bytes(32, "little").hex()
    assert is_signed(neutral, forged, b"any message")
    with pytest.raises(ValidationError):
        contract(owner_key=neutral)


def test_a_real_key_passes() -> None:
    key = owner_key(create=True).public
    assert KEY.validate_python(key) == key
