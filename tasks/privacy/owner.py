"""The owner's Ed25519 key: it signs grants and reviews, and only its public half is anybody else's business.

The private half is 32 random bytes in a file of mode 0600. Whoever runs studies should not be able to read it: keep
it on another machine, or under another user, and name the file by ``CAUSALVEIL_OWNER_KEY``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.public_keys import PREFIX
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.keys import kept_secret

OWNER_VARIABLE = "CAUSALVEIL_OWNER_KEY"
OWNER_FILE = "owner.key"


@dataclass(frozen=True)
class OwnerKey:
    """A private key that is never printed."""

    _key: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> str:
        """The public half, as a contract's ``owner_key`` wants it."""
        return f"{PREFIX}{self._key.public_key().public_bytes_raw().hex()}"

    def sign(self, message: bytes) -> str:
        """An Ed25519 signature as 128 hex digits."""
        return self._key.sign(message).hex()


def owner_key(path: Path | None = None, *, create: bool = False) -> OwnerKey:
    """Read an owner's private key.

    Args:
        path: the file; None means ``CAUSALVEIL_OWNER_KEY`` or, without that, ``owner.key`` in the state folder.
        create: make the file first if it does not exist.

    Raises:
        CausalveilError: no such file, not 32 bytes, a link, or open to other users.
    """
    configured = os.environ.get(OWNER_VARIABLE)
    file = path or (Path(configured) if configured else home() / OWNER_FILE)
    if not create and not file.exists():
        raise CausalveilError(
            f"{file}: no owner's key; name yours by --key or {OWNER_VARIABLE}, or make one: causalveil owner key"
        )
    return OwnerKey(Ed25519PrivateKey.from_private_bytes(kept_secret(file)))


def is_signed(public: str, signature: str, message: bytes) -> bool:
    """Check whether ``signature`` is that of ``message`` under a public key.

    The key is checked for low order elsewhere.
    """
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public.removeprefix(PREFIX)))
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
