"""Every way in which a bundle can be wrong, and how it is refused: what somebody changes, and the reason it gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from causalveil.flows.run.pooling import load_round
from causalveil.schemas.documents import text_digest
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.sites.terms import sign_terms
from tests.sites_help import Call, Party, at_home

KEPT = Path(__file__).with_name("kept") / "0.1.0"


def resign(call: Call, name: str, signer: str | None = None, **changes: Any) -> None:
    """Let a site sign a statement that it should not have signed."""
    statement = {**call.statement(name), **changes}
    if "release" in changes:
        text = json.dumps(statement["release"], indent=2, ensure_ascii=False) + "\n"
        statement["release_digest"] = text_digest(text)
    call.put(name, (call.parties[signer or name]).sign(statement))


def changed(call: Call, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Let a site sign a release that it has changed."""
    document = call.statement(name)["release"]
    change(document)
    resign(call, name, release=document)


def released(call: Call, name: str, **changes: Any) -> dict[str, Any]:
    return {**call.statement(name)["release"], **changes}


def answered(call: Call, name: str, **changes: Any) -> dict[str, Any]:
    """Return a site's release with another headline answer."""
    first, *others = call.statement(name)["release"]["answers"]
    return released(call, name, answers=[{**first, **changes}, *others])


def edit(call: Call, name: str, old: str, new: str) -> None:
    text = call.file(name).read_text()
    assert old in text
    call.put(name, text.replace(old, new, 1))


def other_run(call: Call, name: str, run_id: str, **study: Any) -> None:
    """Let a site answer with a run of another study."""
    party = call.parties[name]
    with at_home(party.home):
        known = open_ledger().record(run_id) is not None
    if not known:
        party.run(run_id, study=study)
    call.put(name, party.bundle(run_id, call.signed()))


def other_terms(call: Call, name: str, said: Mapping[str, Any] = MappingProxyType({}), **changes: Any) -> None:
    """Let a site sign terms of this coordinator that were others; sites.yaml stays as it is."""
    before = call.terms
    call.terms = {**before, **changes}
    call.save()
    resign(call, name, terms=call.signed().model_dump(mode="json"), **said)
    call.terms = before
    call.save()


def reopen(call: Call, **changes: Any) -> None:
    """Let every site sign the terms as they are changed to."""
    call.terms = {**call.terms, **changes}
    call.save()
    terms = call.signed().model_dump(mode="json")
    for name in call.parties:
        resign(call, name, terms=terms)


def with_site(call: Call, name: str, **changes: Any) -> dict[str, Any]:
    return {**call.terms["sites"], name: {**call.terms["sites"][name], **changes}}


def ago(**duration: float) -> str:
    return (datetime.now(UTC) - timedelta(**duration)).isoformat().replace("+00:00", "Z")


def estimate_changed(call: Call, sites: dict[str, Party]) -> None:
    value = call.statement("north")["release"]["answers"][0]["estimate"]
    edit(call, "north", f'"estimate": {value!r}', f'"estimate": {value + 1!r}')


def epsilon_changed(call: Call, sites: dict[str, Party]) -> None:
    edit(call, "north", '"epsilon": 1.0', '"epsilon": 0.1')


def respelled(call: Call, sites: dict[str, Party]) -> None:
    edit(call, "north", '"epsilon": 1.0', '"epsilon": 1.00')


def key_twice(call: Call, sites: dict[str, Party]) -> None:
    edit(call, "north", '"site": "north"', '"site": "coast",\n    "site": "north"')


def keys_in_another_order(call: Call, sites: dict[str, Party]) -> None:
    document = json.loads(call.file("north").read_text())
    release = document["statement"]["release"]
    document["statement"]["release"] = dict(reversed(release.items()))
    call.put("north", json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def signature_of_another(call: Call, sites: dict[str, Party]) -> None:
    document = json.loads(call.file("north").read_text())
    document["signature"] = json.loads(call.file("coast").read_text())["signature"]
    call.put("north", json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def key_swapped(call: Call, sites: dict[str, Party]) -> None:
    edit(call, "north", sites["north"].key(), sites["stranger"].key())


def release_of_another_run(call: Call, sites: dict[str, Party]) -> None:
    """Signed by the site, but the statement speaks of another release."""
    statement = call.statement("north")
    statement["release"] = answered(call, "north", estimate=0.0, robustness=None)
    call.put("north", sites["north"].sign(statement))


def signed_by_a_stranger(call: Call, sites: dict[str, Party]) -> None:
    call.put("north", sites["stranger"].sign(call.statement("north")))


def signed_by_another_site(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", "coast")


def speaks_for_another(call: Call, sites: dict[str, Party]) -> None:
    call.put("north", sites["coast"].bundle("asked", call.signed(), site="north"))


def unexpected_site(call: Call, sites: dict[str, Party]) -> None:
    call.put("stranger", sites["stranger"].bundle("asked", call.signed()))


def expired_key(call: Call, sites: dict[str, Party]) -> None:
    reopen(call, sites=with_site(call, "north", expires=ago(minutes=1)))


def another_round(call: Call, sites: dict[str, Party]) -> None:
    other_terms(call, "north", round="winter")


def two_answers(call: Call, sites: dict[str, Party]) -> None:
    call.put("north-again", sites["north"].bundle("asked", call.signed()))


def old_run(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", finished_at=ago(hours=3), issued_at=ago(hours=1))


def signed_too_late(call: Call, sites: dict[str, Party]) -> None:
    reopen(call, closes=ago(hours=1))
    for name in ("coast", "valley"):
        resign(call, name, finished_at=ago(minutes=90), issued_at=ago(minutes=80))


def signed_in_the_future(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", issued_at=ago(minutes=-30))


def signed_before_the_run(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", finished_at=ago(minutes=10), issued_at=ago(minutes=30))


def another_estimand(call: Call, sites: dict[str, Party]) -> None:
    other_run(call, "north", "att", estimand="ATT")


def other_bounds(call: Call, sites: dict[str, Party]) -> None:
    other_run(call, "north", "bounds", outcome={"upper": 20})


def another_level(call: Call, sites: dict[str, Party]) -> None:
    other_run(call, "north", "label", privacy={"level": "label"})


def another_epsilon(call: Call, sites: dict[str, Party]) -> None:
    other_run(call, "north", "cheap", privacy={"epsilon": 0.5})


def epsilon_not_as_agreed(call: Call, sites: dict[str, Party]) -> None:
    reopen(call, sites=with_site(call, "north", privacy={"epsilon": 0.5}))


def contradicts_its_study(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=released(call, "north", study="another"))


def charges_above_the_total(call: Call, sites: dict[str, Party]) -> None:
    privacy = {**call.statement("north")["release"]["privacy"], "epsilon": 0.1}
    resign(call, "north", release=released(call, "north", privacy=privacy))


def ends_in_the_wrong_order(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=answered(call, "north", interval={"lower": 2.0, "upper": 1.0}))


def beyond_the_range(call: Call, sites: dict[str, Party]) -> None:
    """Scores are declared from 0 to 10."""
    resign(call, "north", release=answered(call, "north", estimate=-10.5))


def interval_without_an_estimate(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=answered(call, "north", estimate=None))


def one_charge(call: Call, sites: dict[str, Party]) -> None:
    """The coast names the north's ledger entry as its own, of another dataset."""
    entry = call.statement("north")["release"]["ledger"]["entry_hash"]
    own = call.statement("coast")["release"]
    resign(call, "coast", release={**own, "ledger": {**own["ledger"], "entry_hash": entry}})


def a_direction(call: Call, sites: dict[str, Party]) -> None:
    document = json.loads((KEPT / "direction" / "release.json").read_text())
    resign(call, "north", release=document, **{key: document[key] for key in ("run_id", "study_digest")})


def no_noise(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=answered(call, "north", noise_error=0.0, state="answered"))


def noise_of_a_draw_divided(call: Call, sites: dict[str, Party]) -> None:
    """A hundredth of the noise that the charge needs."""
    privacy = call.statement("north")["release"]["privacy"]
    charges = [{**one, "noise_scale": one["noise_scale"] / 100} for one in privacy["charges"]]
    resign(call, "north", release=released(call, "north", privacy={**privacy, "charges": charges}))


def variance_beyond_floats(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=answered(call, "north", sampling_error=1e200))


def variance_whose_weight_is_beyond_floats(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=answered(call, "north", sampling_error=0.0, noise_error=1e-80))


def another_relation(call: Call, sites: dict[str, Party]) -> None:
    specification = call.statement("north")["release"]["specification"]
    specification = {**specification, "privacy": {**specification["privacy"], "neighbours": "add_remove"}}
    resign(call, "north", release=released(call, "north", specification=specification))


def one_dataset_twice(call: Call, sites: dict[str, Party]) -> None:
    """The coast sends what the north released, signed by itself."""
    resign(call, "coast", **{**call.statement("north"), "site": "coast"})


def edited_model(call: Call, sites: dict[str, Party]) -> None:
    call.terms["model"] = "fixed"
    call.save()


def edited_end(call: Call, sites: dict[str, Party]) -> None:
    call.terms["closes"] = ago(hours=-1)
    call.save()


def struck_out(call: Call, sites: dict[str, Party]) -> None:
    call.terms["sites"] = {name: site for name, site in call.terms["sites"].items() if name != "valley"}
    call.save()
    call.file("valley").unlink()


def answered_other_terms(call: Call, sites: dict[str, Party]) -> None:
    other_terms(call, "north", model="fixed")


def terms_of_another_coordinator(call: Call, sites: dict[str, Party]) -> None:
    with at_home(sites["stranger"].home):
        terms = sign_terms(load_round(call.folder / "sites.yaml")[0])
    resign(call, "north", terms=terms.model_dump(mode="json"))


def terms_edited_after_signing(call: Call, sites: dict[str, Party]) -> None:
    signed = call.statement("north")["terms"]
    resign(call, "north", terms={**signed, "terms": {**signed["terms"], "closes": ago(hours=-2)}})


def no_key(call: Call, sites: dict[str, Party]) -> None:
    (call.folder / "home/bundle.key").rename(call.folder / "home/kept.key")


def one_contract(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "coast", policy_digest=call.statement("north")["policy_digest"])


def equal_numbers(call: Call, sites: dict[str, Party]) -> None:
    """The coast sends the north's numbers as its own, and the terms declare that contracts may be equal."""
    reopen(call, equal_contracts=True)
    resign(call, "coast", release=released(call, "coast", answers=call.statement("north")["release"]["answers"]))


def escape_in_a_text(call: Call, sites: dict[str, Party]) -> None:
    software = {**call.statement("north")["release"]["software"], "version": "0\x1b[2J"}
    resign(call, "north", release=released(call, "north", software=software))


def simulated(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=released(call, "north", not_for_release=True, noise={"source": "seeded"}))


def of_one_unit(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=released(call, "north", units=1))


def another_kind(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=released(call, "north", kind="weather"))


def no_answer(call: Call, sites: dict[str, Party]) -> None:
    call.file("north").unlink()


def no_json(call: Call, sites: dict[str, Party]) -> None:
    call.put("north", "a letter")


def no_bundle(call: Call, sites: dict[str, Party]) -> None:
    call.put("north", "[]")


def no_text(call: Call, sites: dict[str, Party]) -> None:
    call.file("north").write_bytes(b"\xff\xfe{}")


def too_deep(call: Call, sites: dict[str, Party]) -> None:
    call.put("north", "[" * 200_000)


Case = Callable[[Call, dict[str, Party]], None]
TAMPERED: list[tuple[Case, str]] = [
    (estimate_changed, "north.json: tampered: its signature"),
    (epsilon_changed, "north.json: tampered: its signature"),
    (respelled, "north.json: tampered: it is not written"),
    (key_twice, "north.json: tampered: it is not written"),
    (keys_in_another_order, "north.json: tampered: its signature"),
    (signature_of_another, "north.json: tampered: its signature"),
    (key_swapped, "north.json: tampered: its signature"),
    (release_of_another_run, "site 'north': tampered: its statement does not match"),
    (signed_by_a_stranger, "foreign: it speaks for site 'north' but is signed by a key that"),
    (signed_by_another_site, "foreign: it speaks for site 'north' but is signed by the key of site 'coast'"),
    (speaks_for_another, "foreign: it speaks for site 'north' but is signed by the key of site 'coast'"),
    (unexpected_site, "stranger.json: foreign: site 'stranger' is not expected"),
    (expired_key, "site 'north': expired"),
    (another_round, "site 'north': replayed: its bundle answers round 'winter'"),
    (two_answers, "site 'north': replayed: it has more than one"),
    (old_run, "site 'north': stale: its run finished"),
    (signed_too_late, "site 'north': stale: signed on"),
    (signed_in_the_future, "site 'north': early: signed on"),
    (signed_before_the_run, "site 'north': early: signed before"),
    (another_estimand, "site 'north': foreign: it ran another study; differing: estimand"),
    (other_bounds, "site 'north': foreign: it ran another study; differing: outcomes.1.upper"),
    (another_level, "site 'north': foreign: it ran another study; differing: privacy.level"),
    (another_epsilon, "site 'north': foreign: it ran another study; differing: privacy.epsilon"),
    (epsilon_not_as_agreed, "site 'north': foreign: it ran another study; differing: privacy.epsilon"),
    (contradicts_its_study, "site 'north': foreign: its release contradicts the study in: study name"),
    (
        charges_above_the_total,
        "site 'north': contradictory: its release: contradicts itself: 'privacy.charges'",
    ),
    (ends_in_the_wrong_order, "site 'north': contradictory: its release: contradicts itself: 'answers.0.interval'"),
    (beyond_the_range, "site 'north': contradictory: its release: contradicts itself: 'answers.0.estimate': beyond"),
    (interval_without_an_estimate, "'answers.0.interval': an interval without an estimate"),
    (
        no_noise,
        "site 'north': contradictory: its release: contradicts itself: 'answers.0.noise_error': an answer without",
    ),
    (
        noise_of_a_draw_divided,
        "site 'north': contradictory: its release: contradicts itself: 'privacy.charges': the noise",
    ),
    (variance_beyond_floats, "site 'north': contradictory: its release: contradicts itself: 'answers.0.sampling_error"),
    (variance_whose_weight_is_beyond_floats, "site 'north' reports a variance of zero, or one beyond numbers"),
    (another_relation, "site 'north': foreign: it ran another study; differing: privacy.neighbours"),
    (one_dataset_twice, "sites 'north' and 'coast': replayed: they report one dataset"),
    (one_charge, "sites 'north' and 'coast': replayed: they report one charge"),
    (edited_model, "site 'north': foreign: it answered other terms of round 'spring'; differing: model"),
    (edited_end, "site 'north': foreign: it answered other terms of round 'spring'; differing: closes"),
    (struck_out, "site 'north': foreign: it answered other terms of round 'spring'; differing: sites.valley"),
    (answered_other_terms, "site 'north': foreign: it answered other terms of round 'spring'; differing: model"),
    (terms_of_another_coordinator, "site 'north': foreign: it answers terms that another coordinator signed"),
    (terms_edited_after_signing, "site 'north': tampered: the terms of round 'spring' are not as"),
    (no_key, "this coordinator has no key"),
    (one_contract, "sites 'north' and 'coast': replayed: they look like one site under two keys, with equal contracts"),
    (equal_numbers, "sites 'north' and 'coast': replayed: they look like one site under two keys, with equal numbers"),
    (escape_in_a_text, "north.json: unreadable: not a bundle of this version"),
    (simulated, "site 'north': unfit: it was simulated"),
    (a_direction, "site 'north': unfit: a release of kind 'direction' cannot be pooled, only effects can"),
    (of_one_unit, "site 'north': unfit: it is of one unit"),
    (another_kind, "site 'north': unreadable: its release: not as this version"),
    (no_answer, "site 'north': missing"),
    (no_json, "north.json: unreadable: not a JSON"),
    (no_bundle, "north.json: unreadable: not a bundle"),
    (no_text, "north.json: unreadable: not UTF-8"),
    (too_deep, "north.json: unreadable: not a JSON"),
]
