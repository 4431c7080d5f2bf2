"""Making and opening bundles: one release under one site's Ed25519 signature.

The signature is of a label and the canonical bytes of the statement, so that it serves no other purpose. A bundle's
file must have the bytes that this program would write for its content: each bundle has one spelling, no key can occur
twice in it, and no byte of it can be changed unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from causalveil.schemas.documents import NotADocument, parse_json, read_regular, text_digest
from causalveil.schemas.errors import BundleError, ReleaseContradicted, RunConflict, StudyError
from causalveil.schemas.mistakes import validate
from causalveil.schemas.privacy import PREFIX
from causalveil.schemas.release import EffectRelease, Release, load_release_text
from causalveil.schemas.sites.round import Bundle, Reason, SignedTerms, Statement
from causalveil.tasks.privacy.keys import is_signed, signing_secret
from causalveil.tasks.privacy.ledger.ledger import Ledger

LARGEST = 16_000_000
FEWEST_UNITS = 2
_LABEL = b"causalveil bundle 1\x00"


class UnreadableBundle(StudyError):
    """The text is not that of a bundle; callers add whose it is."""


def canonical(label: bytes, document: BaseModel) -> bytes:
    """Return the bytes to sign: a label of their purpose, then the document as ASCII JSON."""
    text = json.dumps(document.model_dump(mode="json"), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return label + text.encode("ascii")


def signature_of(message: bytes) -> str:
    """Return the signature of a message under this site's key.

    Raises:
        CausalveilError: there is no key, or it cannot be used.
    """
    return str(_private_key().sign(message).hex())


def public_key(*, create: bool = False) -> str:
    """Return this site's public key, as ``sites.yaml`` wants it.

    Args:
        create: make the key first if there is none.

    Raises:
        CausalveilError: there is none, or it cannot be used.
    """
    return f"{PREFIX}{_private_key(create=create).public_key().public_bytes_raw().hex()}"


def fingerprint(key: str) -> str:
    """Return 16 hex digits of the key's SHA-256 in groups of four, to be read aloud."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return " ".join(digest[index : index + 4] for index in range(0, 16, 4))


def make_bundle(ledger: Ledger, run_id: str, site: str, terms: SignedTerms) -> str:
    """Sign the release of a finished run that the ledger verifies.

    ``tasks/sites/terms.py`` checks that the terms expect it, and that the run answers no other round.

    Args:
        ledger: the site's.
        run_id: a finished run.
        site: the name under which the coordinator knows this site.
        terms: the coordinator's, which this answers.

    Returns:
        The text of the bundle.

    Raises:
        RunConflict: no such run, or it is not finished.
        BundleError: a release that may not leave, or of a kind that cannot be pooled.
        LedgerError: the ledger does not verify, or does not hold the release.
        CausalveilError: the site has no key to sign with.
    """
    run = ledger.record(run_id)
    if run is None or run.document is None or run.state != "finished":
        raise RunConflict(f"run {run_id} {'is not in this ledger' if run is None else f'is {run.state}, not finished'}")
    text = str(ledger.stored_document(run_id))
    release = load_release_text(text, f"run {run_id}")
    fit_to_pool(release, f"run {run_id}")
    ledger.verify_release(text)
    return sign(
        Statement(
            site=site,
            terms=terms,
            issued_at=datetime.now(UTC),
            finished_at=datetime.fromisoformat(run.document.written_at),
            run_id=run_id,
            study_digest=release.study_digest,
            policy_digest=run.reservation.policy_digest,
            release_digest=text_digest(text),
            release=json.loads(text),
        )
    )


def answers(bundle: Bundle, run_id: str, site: str, terms: SignedTerms) -> bool:
    """Return whether an intact bundle is this site's, on this run and these terms."""
    statement = bundle.statement
    return (statement.run_id, statement.site, statement.terms, bundle.key) == (run_id, site, terms, public_key())


def fit_to_pool(release: Release, where: str) -> EffectRelease:
    """Return a release that can be pooled: of effects, of several units, and no simulation.

    Raises:
        BundleError: another kind, a simulation, or of one unit.
    """
    if not isinstance(release, EffectRelease):
        raise BundleError(
            f"{where}: {Reason.unfit}: a release of kind '{release.kind}' cannot be pooled, only effects can"
        )
    if release.units < FEWEST_UNITS:
        raise BundleError(f"{where}: {Reason.unfit}: it is of one unit, which compares nothing")
    if release.not_for_release or release.noise.source != "operating_system":
        raise BundleError(f"{where}: {Reason.unfit}: it was simulated with seeded noise and is not for release")
    return release


def sign(statement: Statement) -> str:
    """Sign a statement under this site's key, and return the bundle.

    Raises:
        CausalveilError: there is no key, or it cannot be used.
    """
    signature = signature_of(canonical(_LABEL, statement))
    return bundle_text(Bundle(statement=statement, key=public_key(), signature=signature))


def bundle_text(bundle: Bundle) -> str:
    """Return the text of bundle.json: indented, keys in the order of the model."""
    return file_text(bundle.model_dump(mode="json"))


def read_bundle(path: Path) -> tuple[Bundle, str]:
    """Read a bundle and check that it is intact: signed by the key that it names.

    ``tasks/sites/accept.py`` checks whose key that is.

    Returns:
        The bundle and the SHA-256 of its file.

    Raises:
        BundleError: missing, unreadable or tampered; the message quotes nothing of the file.
    """
    try:
        text = read_regular(path, LARGEST).decode("utf-8")
    except FileNotFoundError:
        raise BundleError(f"{path}: {Reason.missing}: no such file") from None
    except NotADocument as problem:
        raise BundleError(f"{path}: {Reason.unreadable}: {problem}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise BundleError(f"{path}: {Reason.unreadable}: not UTF-8 text ({type(problem).__name__})") from None
    return open_bundle(text, str(path)), text_digest(text)


def open_bundle(text: str, where: str) -> Bundle:
    """Parse the text of a bundle and check that it is intact.

    Raises:
        BundleError: unreadable or tampered.
    """
    try:
        document = parse_json(text)
    except ValueError:
        raise BundleError(f"{where}: {Reason.unreadable}: not a JSON document") from None
    try:
        bundle = validate(Bundle, document, where, UnreadableBundle)
        rewritten = bundle_text(bundle)
    except (UnreadableBundle, ValueError, RecursionError):
        raise BundleError(f"{where}: {Reason.unreadable}: not a bundle of this version of causalveil") from None
    if rewritten != text:
        raise BundleError(f"{where}: {Reason.tampered}: it is not written as causalveil writes bundles")
    if not is_signed(bundle.key, bundle.signature, canonical(_LABEL, bundle.statement)):
        raise BundleError(f"{where}: {Reason.tampered}: its signature does not match what it says")
    return bundle


def release_of(bundle: Bundle, where: str) -> Release:
    """Return the release in a bundle, checked against its statement.

    Raises:
        BundleError: of another version of causalveil, contradicts itself, or differs from the statement.
    """
    statement = bundle.statement
    try:
        release = load_release_text(json.dumps(statement.release), "its release")
    except StudyError as problem:
        reason = Reason.contradictory if isinstance(problem, ReleaseContradicted) else Reason.unreadable
        raise BundleError(f"{where}: {reason}: {problem}") from None
    stated = (statement.run_id, statement.study_digest, statement.release_digest)
    if stated != (release.run_id, release.study_digest, text_digest(file_text(statement.release))):
        raise BundleError(f"{where}: {Reason.tampered}: its statement does not match its release")
    return release


def file_text(document: dict[str, Any]) -> str:
    """Return the text of a document's file: indented, keys in their order."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _private_key(*, create: bool = False) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(signing_secret(create=create))
