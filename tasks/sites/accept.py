"""Acceptance of bundles by a coordinator.

One from each expected site, of this round and study, under a trusted key.

The order of the checks matters only for the message: a site that is refused is told the first reason. All refusals of
a round are told at once.

The first bundle of each site stands. A site that could send a second answer to one call could choose among its noises,
and a person between both could put an older answer in the place of a newer one. So a round that was pooled once takes
the same bundles again, and no others.
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

# How far a site's clock may run ahead of the coordinator's.
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
    """A bundle that is intact, from a site that is expected."""

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
        folder: where the bundles lie; their file names mean nothing.
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
        mine = [item for item in arrived if item.site == name]
        if len(mine) > 1:
            files = " and ".join(Path(item.where).name for item in mine)
            refusals.append(f"site '{name}': {Reason.replayed}: it has more than one bundle ({files})")
        elif mine:
            try:
                accepted[name] = _accept(mine[0], (terms, key), site, expected[name], now)
            except BundleError as problem:
                refusals.append(str(problem))
        elif not any(f"site '{name}'" in refusal for refusal in refusals):
            refusals.append(f"site '{name}': {Reason.missing}: no intact bundle of it in {folder}")
    refusals.extend(_shared_data(list(accepted.values())))
    refusals.extend(_alike(list(accepted.values()), terms.equal_contracts))
    refusals.extend(_named_otherwise(list(accepted.values())))
    if refusals:
        raise BundleError("nothing was pooled: " + "; ".join(refusals))
    return tuple(accepted.values())


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


def _accept(item: _Arrived, of: tuple[AgreedTerms, str], site: Site, expected: Asked, now: datetime) -> Accepted:
    statement, where = item.bundle.statement, f"site '{item.site}'"
    if now >= site.expires:
        raise BundleError(f"{where}: {Reason.expired}: its key expired on {instant_text(site.expires)}")
    refuse_other_terms(statement.terms, *of, where)
    _in_time(statement, now, where)
    release = fit_to_pool(release_of(item.bundle, where), where)
    _same_study(release, expected, where)
    return Accepted(item.site, item.bundle, item.digest, release)


def _in_time(said: Statement, now: datetime, where: str) -> None:
    issued, finished, closes = said.issued_at, said.finished_at, said.terms.terms.closes
    if issued > now + CLOCK_SKEW:
        raise BundleError(f"{where}: {Reason.early}: signed on {instant_text(issued)}, which lies in the future")
    if finished > issued + CLOCK_SKEW:
        raise BundleError(f"{where}: {Reason.early}: signed before its run had finished")
    if finished < said.terms.opened:
        raise BundleError(
            f"{where}: {Reason.stale}: its run finished on {instant_text(finished)}, before the round opened on "
            f"{instant_text(said.terms.opened)}"
        )
    if closes is not None and issued > closes:
        raise BundleError(
            f"{where}: {Reason.stale}: signed on {instant_text(issued)}, after the round closed on "
            f"{instant_text(closes)}"
        )


def _same_study(release: EffectRelease, expected: Asked, where: str) -> None:
    """The site ran what it was asked to: digest, and everything that the release itself says about it.

    Raises:
        BundleError: names the keys of the study that differ.
    """
    differing = sorted(differences(expected.specification(), release.specification))
    if differing:
        raise BundleError(f"{where}: {Reason.foreign}: it ran another study; differing: {', '.join(differing[:8])}")
    privacy = release.privacy
    said: dict[str, tuple[Any, Any]] = {
        "study digest": (release.study_digest, digest_of(release.specification)),
        "unit": (privacy.unit, release.specification["data"].get("unit")),
        "study name": (release.study, expected.name),
        "estimand": (release.estimand, expected.estimand),
        "estimator": (release.estimator, expected.estimator.name),
        "guarantee": (release.guarantee, expected.guarantee),
        "confidence": (release.confidence, expected.confidence),
        "questions": (list(map(Question.of, release.answers)), questions_of(expected)),
        "times": (_times_of(release), _times_asked(expected, release)),
        "neighbouring relation": (privacy.neighbours, expected.privacy.neighbours),
        "level": (privacy.level, expected.privacy.level),
        "epsilon": (privacy.epsilon, expected.privacy.epsilon),
        "delta": (privacy.delta, expected.privacy.delta),
    }
    wrong = [name for name, (value, agreed) in said.items() if value != agreed]
    if wrong:
        raise BundleError(f"{where}: {Reason.foreign}: its release contradicts the study in: {', '.join(wrong)}")


def _times_of(release: EffectRelease) -> list[tuple[Any, ...]]:
    """Return until when, in which unit and from when a release's curves are, and of which events."""
    shown = [one.curves for one in release.curves]
    return sorted({(one.horizon, one.unit or "", one.origin, one.events[0]) for one in shown})


def _times_asked(study: Asked, release: EffectRelease) -> list[tuple[Any, ...]]:
    """Return the same as a study asks it; of other outcomes there are no curves."""
    if not isinstance(study, SurvivalStudy):
        return []
    if not study.asks_one:
        return _times_of(release)
    shown = study.outcome
    return [(shown.horizon, shown.unit_of_measure or "", shown.origin, shown.labels[0])]


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys at which two specifications of one travelling study differ."""
    yield from _differences(travelling(wanted), travelling(found))


def _differences(wanted: Mapping[str, Any], found: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Keys of the study at which two specifications differ.

    Keys that only the site has are not quoted.
    """
    for key in wanted:
        left, right = _by_place(wanted[key]), _by_place(found.get(key))
        if isinstance(left, dict) and isinstance(right, dict):
            yield from _differences(left, right, f"{prefix}{key}.")
        elif left != right:
            yield f"{prefix}{key}"
    if set(found) - set(wanted):
        yield f"{prefix}(keys that the study does not have)"


def _by_place(value: Any) -> Any:
    """Return a list of mappings, as outcomes are, by the place of each, counted from 1; anything else as it is."""
    listed = isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    return {str(place): one for place, one in enumerate(value, 1)} if listed else value


def _shared_data(accepted: Sequence[Accepted]) -> Iterator[str]:
    """Two sites with one dataset of one ledger, or one charge: the declared disjointness cannot be true."""
    for key in ("dataset", "charge"):
        names: dict[str, list[str]] = {}
        for item in accepted:
            ledger = item.release.ledger
            shared = [ledger.identity, item.release.dataset] if key == "dataset" else [ledger.entry_hash]
            names.setdefault(json.dumps(shared), []).append(item.site)
        for sites in names.values():
            if len(sites) > 1:
                yield f"sites {' and '.join(repr(site) for site in sites)}: {Reason.replayed}: they report one {key}"


def _alike(accepted: Sequence[Accepted], declared: bool) -> Iterator[str]:
    """Two sites with equal numbers or contracts: they look like one site under two keys.

    Noise makes equal numbers impossible, but where it hides all and the declared range is the answer. Equal contracts,
    which name the dataset, may be declared to be of different sites. Ids of runs say nothing: people choose them.
    """
    for left, right in combinations(accepted, 2):
        contracts = {item.bundle.statement.policy_digest for item in (left, right)}
        said = {
            "numbers": _numbers(left) == _numbers(right) != (),
            "contracts": not declared and len(contracts) == 1,
        }
        if found := [name for name, equal in said.items() if equal]:
            rest = "" if "numbers" in found else "; where they are two, sites.yaml says 'equal_contracts: true'"
            yield (
                f"sites '{left.site}' and '{right.site}': {Reason.replayed}: they look like one site under two keys, "
                f"with equal {' and '.join(found)}{rest}"
            )


def _numbers(item: Accepted) -> tuple[Any, ...]:
    """Return what noise made of a site's answers; nothing of those that it hides."""
    rows = (row for row in item.release.answers if row.state is not State.unresolved)
    return tuple((row.estimate, row.sampling_error) for row in rows)


def _named_otherwise(accepted: Sequence[Accepted]) -> Iterator[str]:
    """Sites whose owners name the levels of a column otherwise: one code may then mean two things."""
    for item in accepted[1:]:
        first, own = (level_names(one.release.specification) for one in (accepted[0], item))
        if columns := sorted(name for name in {*first, *own} if first.get(name) != own.get(name)):
            yield (
                f"sites '{accepted[0].site}' and '{item.site}': {Reason.foreign}: their contracts name the levels of "
                f"'{columns[0]}' differently; give them the same names, or none"
            )


def settle(ledger: Ledger, round_: str, digests: Mapping[str, str], publish: Callable[[], object]) -> None:
    """Compare with the bundles that this round was pooled from; record those of a new round.

    Nothing is published of others, and nothing recorded of what is not published.

    Args:
        ledger: the coordinator's.
        round_: the round's name.
        digests: SHA-256 of each site's bundle.
        publish: writes the pooled document; a round whose document is not written stays open.

    Raises:
        BundleError: names every site whose bundle is another one than before.
        LedgerError: the ledger cannot be used.
    """
    others = ledger.settle_round(round_, digests, publish)
    if others:
        raise BundleError(
            "nothing was pooled: "
            + "; ".join(f"site '{name}': {Reason.replayed}: its bundle is not the one" for name in others)
            + f" that round '{round_}' was pooled with before; a new answer needs a new round"
        )
