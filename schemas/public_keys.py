"""Name Ed25519 public keys as files do.

A key is ``ed25519:`` and 64 hex digits, never a point of low order. Under a key of low order a signature that nobody
made verifies for many messages (RFC 8032, section 5.1.7, checks the equation alone). Every key that a file or a ledger
names, of a site or of an owner, is therefore checked here.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

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
    """Return a key as it is, unless it is unsafe (RFC 8032, 5.1.3).

    A key is unsafe if its point has low order or its y coordinate is not reduced.

    Raises:
        ValueError: the key cannot tell who signed.
    """
    y = int.from_bytes(bytes.fromhex(key.removeprefix(PREFIX)), "little") & (2**255 - 1)
    if y >= _P or y in LOW_ORDER:
        raise ValueError("is a point of low order, which is nobody's key; ask its owner for the key that was printed")
    return key


PublicKey = Annotated[
    str,
    Field(pattern=r"^ed25519:[0-9a-f]{64}$", description="an Ed25519 public key"),
    AfterValidator(refuse_low_order),
]
