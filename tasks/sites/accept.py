"""Acceptance of bundles by a coordinator.

One bundle from each expected site, of this round and study, under a trusted key.

The order of the checks matters only for the message: it states the first reason of each site, for all sites at once.

The first bundle of each site stands. A site that could send a second answer to a call could choose among its noises,
and an attacker between both could replace a newer answer by an older one. So a round that was pooled once takes the
same bundles again, and no others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

from causalveil.schemas.answers import State
from causalveil.schemas.documents import digest_of
from causalveil.schemas.errors import BundleError, StudyError
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.release import EffectRelease
from causalveil.schemas.sites.round import AgreedTerms, Bundle, Reason, Site, Statement, instant_text
from causalveil.schemas.specification import level_names, travelling
from causalveil.schemas.studies import parse_study
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.sites.bundle import fit_to_pool, read_bundle, release_of
from causalveil.tasks.sites.pool import Asked, Question, questions_of
from causalveil.tasks.sites.terms import coordinators_key, refuse_other_terms

# Tolerance by which a site's clock may be ahead of the coordinator's.
CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Accepted:
    """A bundle that passed every check."""

    site: str
    bundle: Bundle
    digest: str
    release: EffectRelease


@dataclass(frozen=True)
class _Arrived:
    """An intact bundle of an expected site."""

    where: str
    bundle: Bundle
    digest: str

    @property
    def site(self) -> str:
        return self.bundle.statement.site


def accept(terms: AgreedTerms, study: Asked, folder: Path, now: datetime) -> tuple[Accepted, ...]:
    """Check every file ``*.json`` of a folder against the terms of the round.

    Args:
        terms: the round's.
        study: the study that travelled.
        folder: of the bundles; their file names mean nothing.
        now: the moment of the check, with a time zone.

    Returns:
        One accepted bundle per expected site, in the order of the terms.

    Raises:
        BundleError: one line that names every refused file and every missing site, each with its reason; or the
            coordinator has no key.
        StudyError: the terms agree on a privacy that the study cannot have.
    """
    key = coordinators_key()
    expected = {name: study_of_site(study, site) for name, site in terms.sites.items()}
    refusals: list[str] = []
    arrived: list[_Arrived] = []
    for path in sorted(folder.glob("*.json")):
        try:
            arrived.append(_arrival(path, terms))
        except BundleError as problem:
            refusals.append(str(problem))
    accepted: dict[str, Accepted] = {}
    for name, site in terms.sites.items():
        of_site = [item for item in arrived if item.site == name]
        if len(of_site) > 1:
            files = " and ".join(Path(item.where).name for item in of_site)
            refusals.append(f"site '{name}': {Reason.replayed}: it has more than one bundle ({files})")
        elif of_site:
            try:
                accepted[name] = _accept(of_site[0], (terms, key), site, expected[name], now)
            except BundleError as problem:
                refusals.append(str(problem))
        elif not any(f"site '{name}'" in refusal for refusal in refusals):
            refusals.append(f"site '{name}': {Reason.missing}: no intact bundle of it in {folder}")
    items = tuple(accepted.values())
    refusals += [*_shared_data(items), *_same_results(items, terms.equal_contracts), *_other_level_names(items)]
    if refusals:
        raise BundleError("nothing was pooled: " + "; ".join(refusals))
    return items


def study_of_site(study: Asked, site: Site) -> Asked:
    """Return the study that a site was asked to run, with the privacy agreed with the site.

    Raises:
        StudyError: the study cannot have that privacy.
    """
    if site.privacy is None:
        return study
    document = study.specification()
    document["privacy"] |= site.privacy.model_dump(exclude_none=True)
    agreed = parse_study(document, "the study with a site's privacy")
    if not isinstance(agreed, Asked):
        raise StudyError("only studies of effects are pooled")
    return agreed


def _arrival(path: Path, terms: AgreedTerms) -> _Arrived:
    """Open a file and find its site.

    Raises:
        BundleError: not intact, or not signed by a key that the terms trust for the site that it names.
    """
    bundle, digest = read_bundle(path)
    name = bundle.statement.site
    site, signer = terms.sites.get(name), terms.site_of(bundle.key)
    if site is None:
        raise BundleError(f"{path.name}: {Reason.foreign}: site '{name}' is not expected in round '{terms.round}'")
    if bundle.key != site.key:
        whose = f"the key of site '{signer}'" if signer else "a key that sites.yaml does not name"
        raise BundleError(f"{path.name}: {Reason.foreign}: it speaks for site '{name}' but is signed by {whose}")
    return _Arrived(path.name, bundle, digest)


def _accept(item: _Arrived, terms: tuple[AgreedTerms, str], site: Site, expected: Asked, now: datetime) -> Accepted:
    """Check a site's bundle; ``terms``: the round's, and the key of the coordinator who signed them."""
    statement, where = item.bundle.statement, f"site '{item.site}'"
    if now >= site.expires:
        raise BundleError(f"{where}: {Reason.expired}: its key expired on {instant_text(site.expires)}")
    refuse_other_terms(statement.terms, *terms, where)
    _in_time(statement, now, where)
    release = fit_to_pool(release_of(item.bundle, where), where)
    _same_study(release, expected, where)
    return Accepted(item.site, item.bundle, item.digest, release)


def _in_time(statement: Statement, now: datetime, where: str) -> None:
    issued, finished, signed = statement.issued_at, statement.finished_at, statement.terms
    closes = signed.terms.closes
    if issued > now + CLOCK_SKEW:
        raise BundleError(f"{where}: {Reason.early}: signed on {instant_text(issued)}, which lies in the future")
    if finished > issued + CLOCK_SKEW:
        raise BundleError(f"{where}: {Reason.early}: signed before its run had finished")
    if finished < signed.opened:
        raise BundleError(
            f"{where}: {Reason.stale}: its run finished on {instant_text(finished)}, before the round opened on "
            f"{instant_text(signed.opened)}"
        )
    if closes is not None and issued > closes:
        raise BundleError(
            f"{where}: {Reason.stale}: signed on {instant_text(issued)}, after the round closed on "
            f"{instant_text(closes)}"
        )


def _same_study(release: EffectRelease, expected: Asked, where: str) -> None:
    """Check that the site ran the study of the round, by digest and by the fields of its release.

    Raises:
        BundleError: names the keys of the study that differ.
    """
    differing = sorted(differences(expected.specification(), release.specification))
    if differing:
        raise BundleError(f"{where}: {Reason.foreign}: it ran another study; differing: {', '.join(differing[:8])}")
    privacy = release.privacy
    stated: dict[str, tuple[Any, Any]] = {
        "study digest": (release.study_digest, digest_of(release.specification)),
        "unit": (privacy.unit, release.specification["data"].get("unit")),
        "study name": (release.study, expected.name),
        "estimand": (release.estimand, expected.estimand),
        "estimator": (release.estimator, expected.estimator.name),
        "guarantee": (release.guarantee, expected.guarantee),
        "confidence": (release.confidence, expected.confidence),
        "questions": (list(map(Question.of, release.answers)), questions_of(expected)),
        "times": (_times_of(release), _times_of_study(expected, release)),
        "neighbouring relation": (privacy.neighbours, expected.privacy.neighbours),
        "level": (privacy.level, expected.privacy.level),
        "epsilon": (privacy.epsilon, expected.privacy.epsilon),
        "delta": (privacy.delta, expected.privacy.delta),
    }
    wrong = [name for name, (value, agreed) in stated.items() if value != agreed]
    if wrong:
        raise BundleError(f"{where}: {Reason.foreign}: its release contradicts the study in: {', '.join(wrong)}")


def _times_of(release: EffectRelease) -> list[tuple[Any, ...]]:
    """Return horizon, unit, origin and events of a release's curves."""
    shown = (group.curves for group in release.curves)
    return sorted({(curves.horizon, curves.unit or "", curves.origin, curves.events[0]) for curves in shown})


def _times_of_study(study: Asked, release: EffectRelease) -> list[tuple[Any, ...]]:
    """Return the same by the study; outcomes without times have no curves."""
    if not isinstance(study, SurvivalStudy):
        return []
    if not study.asks_one:
        return _times_of(release)
    outcome = study.outcome
    return [(outcome.horizon, outcome.unit_of_measure or "", outcome.origin, outcome.labels[0])]


def differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys at which two specifications of one travelling study differ."""
    yield from _differences(travelling(expected), travelling(actual))


def _differences(expected: Mapping[str, Any], actual: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Keys of the study at which two specifications differ.

    Keys that only the site has are not quoted.
    """
    for key in expected:
        left, right = _by_place(expected[key]), _by_place(actual.get(key))
        if isinstance(left, dict) and isinstance(right, dict):
            yield from _differences(left, right, f"{prefix}{key}.")
        elif left != right:
            yield f"{prefix}{key}"
    if set(actual) - set(expected):
        yield f"{prefix}(keys that the study does not have)"


def _by_place(value: Any) -> Any:
    """Return a list of mappings, as of outcomes, as a mapping by place, counted from 1; other values unchanged."""
    listed = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    return {str(place): item for place, item in enumerate(value, 1)} if listed else value


def _shared_data(accepted: Sequence[Accepted]) -> Iterator[str]:
    """Yield a refusal if two sites have the same dataset or the same charge: they are not disjoint."""
    for key in ("dataset", "charge"):
        names: dict[str, list[str]] = {}
        for item in accepted:
            ledger = item.release.ledger
            shared = [ledger.identity, item.release.dataset] if key == "dataset" else [ledger.entry_hash]
            names.setdefault(json.dumps(shared), []).append(item.site)
        for sites in names.values():
            if len(sites) > 1:
                yield f"sites {' and '.join(repr(site) for site in sites)}: {Reason.replayed}: they report one {key}"


def _same_results(accepted: Sequence[Accepted], declared: bool) -> Iterator[str]:
    """Yield a refusal if two sites have equal numbers or contracts, as one site under two keys has.

    Noise makes equal numbers impossible, but where it hides all and the declared range is the answer. Equal contracts,
    which name the dataset, may be declared to be of different sites. Ids of runs prove nothing: people choose them.
    """
    for left, right in combinations(accepted, 2):
        equal_numbers = _numbers(left) == _numbers(right) != ()
        equal_contracts = left.bundle.statement.policy_digest == right.bundle.statement.policy_digest
        equal = ["numbers"] * equal_numbers + ["contracts"] * (equal_contracts and not declared)
        if equal:
            rest = "" if equal_numbers else "; where they are two, sites.yaml says 'equal_contracts: true'"
            yield (
                f"sites '{left.site}' and '{right.site}': {Reason.replayed}: they look like one site under two keys, "
                f"with equal {' and '.join(equal)}{rest}"
            )


def _numbers(item: Accepted) -> tuple[Any, ...]:
    """Return the noisy numbers of a site's answers, without those that noise hides."""
    rows = (row for row in item.release.answers if row.state is not State.unresolved)
    return tuple((row.estimate, row.sampling_error) for row in rows)


def _other_level_names(accepted: Sequence[Accepted]) -> Iterator[str]:
    """Yield a refusal if owners name the levels of a column differently: a code may then mean two things."""
    for item in accepted[1:]:
        first, names = (level_names(site.release.specification) for site in (accepted[0], item))
        if columns := sorted(name for name in {*first, *names} if first.get(name) != names.get(name)):
            yield (
                f"sites '{accepted[0].site}' and '{item.site}': {Reason.foreign}: their contracts name the levels of "
                f"'{columns[0]}' differently; give them the same names, or none"
            )


def settle(ledger: Ledger, round_: str, digests: Mapping[str, str], publish: Callable[[], object]) -> None:
    """Compare with the bundles that this round was pooled from; record those of a new round.

    Other bundles are not published, and unpublished bundles are not recorded.

    Args:
        ledger: the coordinator's.
        round_: the round's name.
        digests: SHA-256 of each site's bundle.
        publish: writes the pooled document; a round whose document is not written stays open.

    Raises:
        BundleError: names every site whose bundle is another one than before.
        LedgerError: the ledger cannot be used.
    """
    changed = ledger.settle_round(round_, digests, publish)
    if changed:
        raise BundleError(
            "nothing was pooled: "
            + "; ".join(f"site '{name}': {Reason.replayed}: its bundle is not the one" for name in changed)
            + f" that round '{round_}' was pooled with before; a new answer needs a new round"
        )
