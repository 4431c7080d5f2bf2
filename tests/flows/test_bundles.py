"""Every way in which a bundle can be wrong: refused by name, exit code 6, nothing pooled, nothing remembered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sites_help import NAMES, Call, Party, at_home
from studies import write_study

from flows.cli import main
from schemas.errors import BundleError, CausalveilError, RunConflict
from schemas.studies import load_study
from tasks.bundle import digest_of, make_bundle, read_bundle
from tasks.privacy.ledger import open_ledger


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Party]:
    """Three sites and a stranger, each with a run; made once, since nothing here changes them."""
    folder = tmp_path_factory.mktemp("sites")
    parties = {name: Party(name, folder / name, seed) for seed, name in enumerate((*NAMES, "stranger"))}
    for party in parties.values():
        party.key()
        party.run("asked")
    return parties


@pytest.fixture
def call(tmp_path: Path, sites: dict[str, Party]) -> Call:
    """A round in which everybody has answered as they should."""
    result = Call(tmp_path / "coordinator", {name: sites[name] for name in NAMES})
    result.write()
    shutil.copy(write_study(tmp_path / "travels"), result.folder / "study.yaml")
    for name in NAMES:
        result.put(name, sites[name].bundle("asked"))
    return result


def resign(call: Call, name: str, signer: str | None = None, **changes: Any) -> None:
    """Let a site sign a statement that it should not have signed."""
    statement = {**call.statement(name), **changes}
    if "release" in changes:
        text = json.dumps(statement["release"], indent=2, ensure_ascii=False) + "\n"
        statement["release_digest"] = digest_of(text)
    call.put(name, (call.parties[signer or name]).sign(statement))


def released(call: Call, name: str, **changes: Any) -> dict[str, Any]:
    return {**call.statement(name)["release"], **changes}


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
    call.put(name, party.bundle(run_id))


def ago(**duration: float) -> str:
    return (datetime.now(UTC) - timedelta(**duration)).isoformat().replace("+00:00", "Z")


def estimate_changed(call: Call, sites: dict[str, Party]) -> None:
    value = call.statement("north")["release"]["estimate"]
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
    statement["release"] = released(call, "north", estimate=0.0)
    call.put("north", sites["north"].sign(statement))


def signed_by_a_stranger(call: Call, sites: dict[str, Party]) -> None:
    call.put("north", sites["stranger"].sign(call.statement("north")))


def signed_by_another_site(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", "coast")


def speaks_for_another(call: Call, sites: dict[str, Party]) -> None:
    call.put("north", sites["coast"].bundle("asked", site="north"))


def unexpected_site(call: Call, sites: dict[str, Party]) -> None:
    call.put("stranger", sites["stranger"].bundle("asked"))


def expired_key(call: Call, sites: dict[str, Party]) -> None:
    call.terms["sites"]["north"]["expires"] = ago(minutes=1)
    call.save()


def another_round(call: Call, sites: dict[str, Party]) -> None:
    call.put("north", sites["north"].bundle("asked", "winter"))


def two_answers(call: Call, sites: dict[str, Party]) -> None:
    call.put("north-again", sites["north"].bundle("asked"))


def old_run(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", finished_at=ago(hours=3), issued_at=ago(hours=1))


def signed_too_late(call: Call, sites: dict[str, Party]) -> None:
    call.terms["closes"] = ago(hours=1)
    call.save()
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
    call.terms["sites"]["north"]["privacy"] = {"epsilon": 0.5}
    call.save()


def contradicts_its_study(call: Call, sites: dict[str, Party]) -> None:
    privacy = {**call.statement("north")["release"]["privacy"], "epsilon": 0.1}
    resign(call, "north", release=released(call, "north", privacy=privacy))


def another_relation(call: Call, sites: dict[str, Party]) -> None:
    specification = call.statement("north")["release"]["specification"]
    specification = {**specification, "privacy": {**specification["privacy"], "neighbours": "add_remove"}}
    resign(call, "north", release=released(call, "north", specification=specification))


def one_dataset_twice(call: Call, sites: dict[str, Party]) -> None:
    """The coast sends what the north released, signed by itself."""
    resign(call, "coast", **{**call.statement("north"), "site": "coast"})


def simulated(call: Call, sites: dict[str, Party]) -> None:
    resign(call, "north", release=released(call, "north", not_for_release=True, noise={"source": "seeded"}))


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
    (other_bounds, "site 'north': foreign: it ran another study; differing: outcome.upper"),
    (another_level, "site 'north': foreign: it ran another study; differing: privacy.level"),
    (another_epsilon, "site 'north': foreign: it ran another study; differing: privacy.epsilon"),
    (epsilon_not_as_agreed, "site 'north': foreign: it ran another study; differing: privacy.epsilon"),
    (contradicts_its_study, "site 'north': foreign: its release contradicts the study in: epsilon"),
    (another_relation, "site 'north': foreign: it ran another study; differing: privacy.neighbours"),
    (one_dataset_twice, "sites 'north' and 'coast': replayed: they report one dataset"),
    (simulated, "site 'north': unfit: it was simulated"),
    (another_kind, "site 'north': unreadable: its release is of no kind"),
    (no_answer, "site 'north': missing"),
    (no_json, "north.json: unreadable: not a JSON"),
    (no_bundle, "north.json: unreadable: not a bundle"),
    (no_text, "north.json: unreadable: not UTF-8"),
    (too_deep, "north.json: unreadable: not a JSON"),
]


def test_an_honest_round_is_pooled_and_again_the_same(call: Call) -> None:
    first = call.pool()
    assert [site.site for site in first.release.sites] == list(NAMES)
    text = first.path.read_text()
    assert call.pool().path.read_text() == text


@pytest.mark.parametrize(("case", "message"), TAMPERED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_wrong_bundle_is_refused_by_name(call: Call, sites: dict[str, Party], case: Case, message: str) -> None:
    case(call, sites)
    with pytest.raises(BundleError) as refused:
        call.pool()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 6
    assert not (call.folder / "out").exists()
    assert not list((call.folder / "home").rglob("*.json")), "a refused round is not remembered"


def test_all_refusals_are_told_at_once(call: Call, sites: dict[str, Party]) -> None:
    expired_key(call, sites)
    call.file("coast").unlink()
    with pytest.raises(BundleError, match=r"'north': expired.*'coast': missing"):
        call.pool()


def test_a_round_takes_no_second_answer(call: Call, sites: dict[str, Party]) -> None:
    """Once pooled, a later answer is refused, and so is an earlier one that is put in its place."""
    first = call.file("north").read_text()
    call.pool()
    call.put("north", sites["north"].bundle("asked"))
    with pytest.raises(BundleError, match="site 'north': replayed: its bundle is not the one"):
        call.pool()
    call.put("north", first)
    call.pool()


def test_agreed_epsilon_is_accepted_and_stated(call: Call) -> None:
    other_run(call, "coast", "agreed", privacy={"epsilon": 0.5})
    call.terms["sites"]["coast"]["privacy"] = {"epsilon": 0.5}
    call.save()
    release = call.pool().release
    assert [float(site.epsilon) for site in release.sites] == [1.0, 0.5, 1.0]
    assert (float(release.privacy.epsilon), release.privacy.units_disjoint) == (1.0, True)
    noise = {site.site: site.variance.noise for site in release.sites}
    assert noise["coast"] > noise["north"]
    assert release.sites[1].weight_fixed < release.sites[0].weight_fixed


@pytest.fixture(scope="module")
def intact(sites: dict[str, Party], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("intact") / "north.json"
    path.write_text(sites["north"].bundle("asked"))
    return path, path.read_bytes()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(min_value=0), byte=st.integers(1, 255))
def test_no_byte_can_be_changed(intact: tuple[Path, bytes], position: int, byte: int) -> None:
    path, content = intact
    path.write_bytes(content)
    read_bundle(path)
    changed = bytearray(content)
    changed[position % len(content)] ^= byte
    path.write_bytes(bytes(changed))
    with pytest.raises(BundleError):
        read_bundle(path)


def test_only_finished_runs_of_this_ledger_are_signed(sites: dict[str, Party], tmp_path: Path) -> None:
    with at_home(sites["north"].home), pytest.raises(RunConflict, match="not in this ledger"):
        make_bundle(open_ledger(), "unheard-of", "north", "spring")
    with at_home(tmp_path / "nobody"):
        path = write_study(tmp_path / "study")
        from flows.launch import run_study

        run_study(path, out=tmp_path / "out", run_id="r", engine="direct")
        with pytest.raises(CausalveilError, match="causalveil bundle key"):
            make_bundle(open_ledger(), "r", "north", "spring")


def test_the_signing_key_is_private_and_not_the_split_secret(sites: dict[str, Party]) -> None:
    home = sites["north"].home
    assert (home / "bundle.key").stat().st_mode & 0o777 == 0o600
    assert (home / "bundle.key").read_bytes() != (home / "site.key").read_bytes()
    text = sites["north"].bundle("asked")
    assert (home / "bundle.key").read_bytes().hex() not in text


def test_a_bundle_holds_the_release_and_nothing_of_the_rows(sites: dict[str, Party]) -> None:
    document = json.loads(sites["north"].bundle("asked"))
    assert document["statement"]["release"] == json.loads((sites["north"].folder / "asked/release.json").read_text())
    assert set(document["statement"]) == {
        *("site", "round", "issued_at", "finished_at", "run_id"),
        *("study_digest", "policy_digest", "release_digest", "release"),
    }
    assert str(sites["north"].folder) not in json.dumps(document)


def test_commands(call: Call, sites: dict[str, Party], capfd: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        shown = capfd.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    terms, bundle = str(call.folder / "sites.yaml"), str(call.file("north"))
    code, out, _ = run("bundle", "show", bundle)
    assert code == 0
    assert all(words in out for words in ("site north", "round spring", "study digest", "opendp", "signature matches"))
    code, out, _ = run("bundle", "show", bundle, "--json")
    assert json.loads(out)["statement"]["study_digest"] == load_study(call.folder / "study.yaml").digest
    code, out, err = run("pool", terms, "--out", str(call.folder / "out"))
    assert code == 0, err
    for words in (
        "random effects",
        "fixed effects",
        "tau2",
        "I2",
        "Without coast",
        "nobody is in two sites (declared)",
    ):
        assert words in " ".join(out.split())
    estimate_changed(call, sites)
    code, out, err = run("pool", terms, "--out", str(call.folder / "out"), "--json")
    assert code == 6
    assert json.loads(out)["error"]["type"] == "BundleError"
    assert "tampered" in err
    assert run("bundle", "show", bundle)[0] == 6
    code, out, _ = run("bundle", "key", "--json")
    assert json.loads(out)["key"].startswith("ed25519:")


@pytest.mark.parametrize("command", ["bundle key", "bundle make", "bundle show", "pool", "report"])
def test_every_command_has_help_and_json(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert "--json" in capfd.readouterr().out


def test_run_leaves_a_bundle_and_asks_before_it_spends(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["run", str(path), "--out", str(tmp_path / "out"), "--run-id", "r", *words])
        return int(ended.value.code or 0), capfd.readouterr().err

    path = write_study(tmp_path / "study")
    assert "causalveil bundle key" in run("--site", "north", "--round", "spring")[1]
    assert "both" in run("--site", "north")[1]
    assert open_ledger().record("r") is None, "nothing was reserved"
    with pytest.raises(SystemExit):
        main(["bundle", "key"])
    assert "simulation" in run("--site", "north", "--round", "spring", "--simulate", "1")[1]
    assert run("--site", "north", "--round", "spring")[0] == 0
    bundle, first = read_bundle(tmp_path / "out" / "bundle.json")
    assert (bundle.statement.site, bundle.statement.round, bundle.statement.run_id) == ("north", "spring", "r")
    assert run("--site", "north", "--round", "spring")[0] == 0
    assert read_bundle(tmp_path / "out" / "bundle.json")[1] == first, "the same answer, not a second one"
    assert run("--site", "north", "--round", "summer")[0] == 2
