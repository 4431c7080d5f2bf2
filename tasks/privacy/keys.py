"""Keep the secret of a site, derive the keys of runs, and sign as an owner.

The site secret, and the key that each run derives from it. Neither ever leaves the enclave.

The split of units into training and estimation halves is private only while the enclave alone knows the key
of the hash behind it (``docs/privacy.md``, the split). A run therefore derives its key from a secret of
the site and its run id: a resumed run finds the same key, another run has an independent one, and nothing
has to be stored.

Backup. The secret lies in ``site.key`` in the state folder (``tasks.machine.site``), 32 random bytes, mode 0600.
Back it up as you would a password: with it and a run id the half of each unit is known. It is needed
for one purpose only, to resume a run that was cut short.

Rotation. Delete ``site.key`` while no run is under way; the next run makes a new one. Unfinished runs can
then not be resumed (their reservation holds a check value of the old key: void them); finished releases,
the ledger and all later runs are unaffected.

The owner's Ed25519 key signs grants and reviews; only its public half leaves the owner.

The private half is 32 random bytes in a file of mode 0600. Whoever runs studies should not be able to read it: keep
it on another machine, or under another user, and name the file by ``CAUSALVEIL_OWNER_KEY``.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from causalveil.schemas.errors import CausalveilError, in_own_words, kind_of
from causalveil.schemas.hints import option
from causalveil.schemas.privacy import PREFIX
from causalveil.tasks.machine.files import whole_file
from causalveil.tasks.machine.site import home, site_folder

SECRET_BYTES = 32
SECRET_FILE = "site.key"
# The private half of the key by which a site signs its bundles; it decides about no unit.
SIGNING_FILE = "bundle.key"
_RUN_KEY = b"causalveil run key v1\x00"
_SUBKEY = b"causalveil subkey v1\x00"
_CHECK = b"causalveil check v1\x00"
_SIMULATED = b"causalveil simulated key v1\x00"
_ADMISSION = b"causalveil admission key v1\x00"


@dataclass(frozen=True)
class RunKey:
    """The secret of one run.

    Its 32 bytes are never printed, logged, pickled into a task or stored.
    """

    _secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a key of another length."""
        if len(self._secret) != SECRET_BYTES:
            raise CausalveilError(f"a run key has {SECRET_BYTES} bytes")

    @property
    def check(self) -> str:
        """32 hex digits that a reservation stores, so that a resume under another key is refused.

        HMAC-SHA256 under a label of its own: as long as HMAC is a pseudorandom function the check tells
        nothing about the subkeys.
        """
        return hmac.new(self._secret, _CHECK, hashlib.sha256).hexdigest()[:32]

    def subkey(self, label: str) -> bytes:
        """Return 16 bytes for one purpose (an AES-128 key).

        Purposes with different labels get independent keys.
        """
        return hmac.new(self._secret, _SUBKEY + label.encode(), hashlib.sha256).digest()[:16]


def run_key(run_id: str, secret: bytes | None = None) -> RunKey:
    """Derive the key of run ``run_id`` by HKDF-SHA256 (RFC 5869).

    Args:
        run_id: the public id of the run.
        secret: 32 bytes; None reads the site secret, and makes it on first use.

    Raises:
        CausalveilError: the site secret is unreadable, damaged, or readable by others.
    """
    material = site_secret() if secret is None else _checked(secret, "the given secret")
    derive = HKDF(algorithm=hashes.SHA256(), length=SECRET_BYTES, salt=None, info=_RUN_KEY + run_id.encode())
    return RunKey(derive.derive(material))


def simulated_key(seed: int) -> RunKey:
    """Return the key of a ``--simulate`` run.

    It follows from the seed alone, so the run is marked not for release.
    """
    return RunKey(hashlib.sha256(_SIMULATED + str(seed).encode()).digest())


def admission_key(dataset: str) -> str:
    """Return the key of the digests of a dataset's files, 32 hex digits.

    It is the same whenever the data are admitted here.

    Raises:
        CausalveilError: the site secret is unreadable, damaged, or readable by others.
    """
    derive = HKDF(algorithm=hashes.SHA256(), length=16, salt=None, info=_ADMISSION + dataset.encode())
    return derive.derive(site_secret()).hex()


def passing_key() -> bytes:
    """Return 16 random bytes for a hash that is not needed after this process."""
    return secrets.token_bytes(16)


def key_of(run_id: str, seed: int | None = None) -> RunKey:
    """Return the simulated key if the run is seeded, else the run's own."""
    return run_key(run_id) if seed is None else simulated_key(seed)


def site_secret() -> bytes:
    """Read the 32 bytes of ``site.key``, creating the file first if it does not exist.

    Raises:
        CausalveilError: not a regular file, not 32 bytes, unreadable, open to other users; or left in the state folder
            although the workers of the site share another.
    """
    return kept_secret(_place(SECRET_FILE))


def signing_secret(*, create: bool = False) -> bytes:
    """Read the 32 bytes of ``bundle.key``, the seed of the site's Ed25519 key.

    Args:
        create: make the file first if it does not exist.

    Raises:
        CausalveilError: there is none and none may be made; or as ``site_secret``.
    """
    path = _place(SIGNING_FILE)
    if not create and not path.exists():
        raise CausalveilError(f"{path}: this site has no key to sign with; make one: causalveil bundle key")
    return kept_secret(path)


def _place(name: str) -> Path:
    """Return the path of a secret of the site.

    Raises:
        CausalveilError: the site's folder has none, but the state folder has one.
    """
    path, own = site_folder() / name, home() / name
    if path != own and own.exists() and not path.exists():
        raise CausalveilError(f"{path}: is not there yet, but this machine has a key; run: mv '{own}' '{path}'")
    return path


def kept_secret(path: Path) -> bytes:
    """Return the 32 bytes of a secret file, made on first use.

    Raises:
        CausalveilError: not a regular file, not 32 bytes, unreadable, or open to other users.
    """
    secret = _read(path)
    if secret is None:
        _create(path)
        secret = _read(path)
    if secret is None:
        raise CausalveilError(f"{path}: vanished while it was being read; is the secret being rotated?")
    return _checked(secret, str(path))


def _read(path: Path) -> bytes | None:
    """The bytes of the secret file, or None if there is no such file."""
    with in_own_words(lambda error: CausalveilError(f"{path}: cannot be read ({kind_of(error)})"), OSError):
        try:
            # O_NOFOLLOW: a link could point to a foreign file. O_NONBLOCK: a fifo must not block.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CausalveilError(f"{path}: a secret must be a regular file")
        if status.st_mode & 0o077:
            raise CausalveilError(f"{path}: other users can open this secret; run: chmod 600 '{path}'")
        return file.read(SECRET_BYTES + 1)


def _create(path: Path) -> None:
    """Put a fresh secret at ``path``, never in part, unless another process was faster."""
    with (
        in_own_words(lambda error: CausalveilError(f"{path}: cannot be created ({kind_of(error)})"), OSError),
        # The first process wins, and every other one reads its secret.
        suppress(FileExistsError),
        whole_file(path, durable=True, exclusive=True) as file,
    ):
        file.write(secrets.token_bytes(SECRET_BYTES))


def _checked(secret: bytes, where: str) -> bytes:
    """``secret`` if it has the right length."""
    if len(secret) != SECRET_BYTES:
        raise CausalveilError(
            f"{where}: a secret has exactly {SECRET_BYTES} bytes; restore the file from its backup, "
            "or delete it to rotate (unfinished runs can then not be resumed)"
        )
    return secret


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
        """Return an Ed25519 signature as 128 hex digits."""
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
            f"{file}: no owner's key; name yours by {option('owner_key')} or {OWNER_VARIABLE}, or make one: "
            "causalveil owner key"
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
