"""The terms of a round: signed by the coordinator, checked by every site before it answers.

Terms are fixed before the first bundle is read: a site signs the terms that it answers, and its bundle can be pooled
under no others. A release answers one round, and rounds that follow it. So a coordinator who leaves a site out, or
chooses another model, once answers are seen, needs a second round whose document shows both.
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
    """Return the digest of a study without budgets and contracts, the same at every site."""
    study = travelling(specification)
    privacy = {key: value for key, value in study["privacy"].items() if key not in _OWN}
    return digest_of({**study, "privacy": privacy})


def agreed_terms(file: Sites, study: Study, follows: SignedTerms | None) -> AgreedTerms:
    """Return the terms of a coordinator's file, to be signed.

    Raises:
        BundleError: the round before has the same name, or asked another question.
    """
    question = digest_of_question(study.specification())
    if follows is not None:
        if follows.terms.asked != question:
            raise BundleError(
                f"round '{file.round}': 'follows' names round '{follows.terms.round}', which asked another question; "
                "a round follows one of the same study"
            )
        if file.round in {earlier.terms.round for earlier in follows.chain}:
            raise BundleError(f"round '{file.round}': 'follows' names a round of the same name; choose a fresh one")
    terms = {key: getattr(file, key) for key in Terms.model_fields}
    return AgreedTerms(
        **terms, study=study.name, asked=question, epsilon=study.privacy.epsilon, delta=study.privacy.delta,
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
    """Refuse terms unless one coordinator signed these and those of all rounds before.

    Raises:
        BundleError: names the round.
    """
    for link in signed.chain:
        if link.key != signed.key or not is_signed(link.key, link.signature, canonical(_LABEL, link.terms)):
            raise BundleError(
                f"{where}: {Reason.tampered}: the terms of round '{link.terms.round}' are not as the coordinator "
                "signed them"
            )


def refuse_other_terms(answered: SignedTerms, wanted: AgreedTerms, key: str, where: str) -> None:
    """Refuse a bundle that answers other terms than the coordinator's.

    Args:
        answered: the terms in the bundle.
        wanted: those of the coordinator's file.
        key: the coordinator's.
        where: the site.

    Raises:
        BundleError: terms of another round, of another coordinator, or edited since; names the terms that differ.
    """
    if answered.terms.round != wanted.round:
        raise BundleError(
            f"{where}: {Reason.replayed}: its bundle answers round '{answered.terms.round}', and this is "
            f"'{wanted.round}'"
        )
    refuse_forged(answered, where)
    if answered.key != key:
        raise BundleError(f"{where}: {Reason.foreign}: it answers terms that another coordinator signed")
    if differing := sorted(_differing(answered.terms, wanted)):
        raise BundleError(
            f"{where}: {Reason.foreign}: it answered other terms of round '{wanted.round}'; differing: "
            f"{', '.join(differing[:8])}; put them back, or open a new round that follows this one"
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


def _differing(answered: AgreedTerms, wanted: AgreedTerms) -> Iterator[str]:
    """Yield the names of terms that differ; of ``sites``, each site that differs."""
    left, right = answered.model_dump(mode="json"), wanted.model_dump(mode="json")
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
    """Record in a site's ledger that a run answers these terms, before its bundle is signed.

    Raises:
        BundleError: the run answered another round, which these terms do not follow.
        LedgerError: the ledger cannot be used.
    """
    before = ledger.answer_round(run_id, signed.terms.round, [link.digest for link in signed.chain])
    if before is not None:
        raise BundleError(
            f"run {run_id}: {Reason.replayed}: it answered other terms, of round '{before}', which these do not "
            "follow; ask the coordinator for terms that name that round under 'follows'"
        )
