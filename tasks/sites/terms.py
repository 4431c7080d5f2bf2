"""The terms of a round: signed by the coordinator, checked by every site before it answers.

Terms are fixed before the first bundle is read: a site signs the terms that it answers to, and a coordinator who writes
others can pool no bundle of it. A release answers one round, and rounds that name this one as before them. So whoever
leaves a site out, or chooses another model, once answers are seen, has a second round whose document shows both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from causalveil.schemas.documents import digest_of, parse_json, read_text
from causalveil.schemas.errors import BundleError, CausalveilError
from causalveil.schemas.mistakes import validate
from causalveil.schemas.sites.round import AgreedTerms, Reason, SignedTerms, Sites, Terms, instant_text
from causalveil.schemas.specification import travelling
from causalveil.schemas.study import Study
from causalveil.tasks.privacy.keys import is_signed
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.sites.bundle import UnreadableBundle, canonical, file_text, public_key, signature_of

_LABEL = b"causalveil round 1\x00"
# A site may have agreed on these by itself.
_OWN = ("epsilon", "delta")


def digest_of_question(specification: Mapping[str, Any]) -> str:
    """Return the digest of what a study asks at every site, but for budgets and contracts."""
    asked = travelling(specification)
    privacy = {key: value for key, value in asked["privacy"].items() if key not in _OWN}
    return digest_of({**asked, "privacy": privacy})


def agreed_terms(file: Sites, study: Study, follows: SignedTerms | None) -> AgreedTerms:
    """Return what a coordinator's file says, as it is signed.

    Raises:
        BundleError: the round before has the same name, or asked another question.
    """
    asked = digest_of_question(study.specification())
    if follows is not None:
        if follows.terms.asked != asked:
            raise BundleError(
                f"round '{file.round}': 'follows' names round '{follows.terms.round}', which asked another question; "
                "a round follows one of the same study"
            )
        if file.round in {one.terms.round for one in follows.chain}:
            raise BundleError(f"round '{file.round}': 'follows' names a round of the same name; choose a fresh one")
    terms = {key: getattr(file, key) for key in Terms.model_fields}
    return AgreedTerms(
        **terms, study=study.name, asked=asked, epsilon=study.privacy.epsilon, delta=study.privacy.delta,
        follows=follows,
    )  # fmt: skip


def sign_terms(terms: AgreedTerms) -> SignedTerms:
    """Sign the terms of a round under the coordinator's key, which is made on first use."""
    key = public_key(create=True)
    return SignedTerms(terms=terms, key=key, signature=signature_of(canonical(_LABEL, terms)))


def terms_text(signed: SignedTerms) -> str:
    """Return the text of round.json."""
    return file_text(signed.model_dump(mode="json"))


def read_terms(path: Path) -> SignedTerms:
    """Read round.json and check the signatures in it.

    Raises:
        StudyError: no such file.
        BundleError: unreadable or tampered.
    """
    text = read_text(path)
    try:
        signed = validate(SignedTerms, parse_json(text), str(path), UnreadableBundle)
    except (UnreadableBundle, ValueError, RecursionError):
        raise BundleError(
            f"{path}: {Reason.unreadable}: not the signed terms of a round, which the coordinator makes by: causalveil "
            "round open sites.yaml"
        ) from None
    refuse_forged(signed, str(path))
    return signed


def refuse_forged(signed: SignedTerms, where: str) -> None:
    """Refuse terms that are not, with all rounds before, as one coordinator signed them.

    Raises:
        BundleError: names the round.
    """
    for one in signed.chain:
        if one.key != signed.key or not is_signed(one.key, one.signature, canonical(_LABEL, one.terms)):
            raise BundleError(
                f"{where}: {Reason.tampered}: the terms of round '{one.terms.round}' are not as the coordinator signed "
                "them"
            )


def refuse_other_terms(said: SignedTerms, wanted: AgreedTerms, key: str, where: str) -> None:
    """Refuse a bundle that answers other terms than those that are pooled by.

    Args:
        said: the terms in the bundle.
        wanted: those of the coordinator's file.
        key: the coordinator's.
        where: the site.

    Raises:
        BundleError: terms of another round, of another coordinator, or edited since; names the terms that differ.
    """
    if said.terms.round != wanted.round:
        raise BundleError(
            f"{where}: {Reason.replayed}: its bundle answers round '{said.terms.round}', and this is '{wanted.round}'"
        )
    refuse_forged(said, where)
    if said.key != key:
        raise BundleError(f"{where}: {Reason.foreign}: it answers terms that another coordinator signed")
    if apart := sorted(_apart(said.terms, wanted)):
        raise BundleError(
            f"{where}: {Reason.foreign}: it answered other terms of round '{wanted.round}'; differing: "
            f"{', '.join(apart[:8])}; put them back, or open a new round that follows this one"
        )


def coordinators_key() -> str:
    """Return the coordinator's key.

    Raises:
        BundleError: there is none, so no site answers terms of this coordinator.
    """
    try:
        return public_key()
    except CausalveilError:
        raise BundleError(
            "this coordinator has no key, so no bundle answers its terms; sign them before sites answer: causalveil "
            "round open sites.yaml"
        ) from None


def _apart(said: AgreedTerms, wanted: AgreedTerms) -> Iterator[str]:
    """Yield the terms that differ, by name; of sites which, and what."""
    left, right = (one.model_dump(mode="json") for one in (said, wanted))
    for key in left:
        if key == "sites":
            names = left[key].keys() | right[key].keys()
            yield from (f"sites.{name}" for name in names if left[key].get(name) != right[key].get(name))
        elif left[key] != right[key]:
            yield key


def check_answerable(signed: SignedTerms, site: str, specification: Mapping[str, Any], now: datetime) -> None:
    """Check at a site that its answer to these terms can be pooled; nothing is charged.

    Args:
        signed: the terms.
        site: this site's name.
        specification: of its study.
        now: the moment, with a time zone.

    Raises:
        BundleError: the terms do not expect this site, its key, its study, its budget, or an answer at this time.
        CausalveilError: this site has no key.
    """
    terms, key = signed.terms, public_key()
    where = f"round '{terms.round}'"
    expected = terms.sites.get(site)
    if expected is None:
        raise BundleError(f"{where}: {Reason.foreign}: its terms do not name site '{site}'; ask the coordinator")
    if expected.key != key:
        raise BundleError(
            f"{where}: {Reason.foreign}: its terms have another key for site '{site}' than this one's; send yours: "
            "causalveil bundle key"
        )
    if now >= expected.expires:
        raise BundleError(
            f"{where}: {Reason.expired}: its terms believe this key until {instant_text(expected.expires)}"
        )
    if terms.closes is not None and now > terms.closes:
        raise BundleError(f"{where}: {Reason.stale}: it closed on {instant_text(terms.closes)}")
    if digest_of_question(specification) != terms.asked:
        raise BundleError(
            f"{where}: {Reason.foreign}: this study is not the one that the terms speak of, '{terms.study}'; take the "
            "coordinator's study.yaml, and change data.path and the agreed budget alone"
        )
    own, agreed = specification["privacy"], terms.privacy_of(site)
    for name, wanted in zip(_OWN, agreed, strict=True):
        if float(own[name]) != float(wanted):
            raise BundleError(
                f"{where}: {Reason.foreign}: 'privacy.{name}' of this study is not what the terms have for site "
                f"'{site}', which is {wanted}"
            )


def keep_answer(ledger: Ledger, run_id: str, signed: SignedTerms) -> None:
    """Keep in a site's ledger that a run answers these terms, before its bundle is signed.

    Raises:
        BundleError: the run answered another round, which these terms do not follow.
        LedgerError: the ledger cannot be used.
    """
    before = ledger.answer_round(run_id, signed.terms.round, [one.digest for one in signed.chain])
    if before is not None:
        raise BundleError(
            f"run {run_id}: {Reason.replayed}: it answered other terms, of round '{before}', which these do not "
            "follow; ask the coordinator for terms that name that round under 'follows'"
        )
