"""Every way in which a bundle can be wrong: refused by name, exit code 6, nothing pooled, nothing remembered."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from causalveil.flows.cli.main import main
from causalveil.flows.run.pooling import leave_bundle
from causalveil.schemas.errors import BundleError, CausalveilError, ReleaseContradicted, RunConflict, StudyError
from causalveil.schemas.sites.pooled import load_published
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.page import report_html
from causalveil.tasks.sites.bundle import make_bundle, public_key, read_bundle
from causalveil.tasks.sites.terms import terms_text
from tests.bundle_cases import TAMPERED, Case, ago, estimate_changed, expired_key, other_run, reopen, resign, with_site
from tests.sites_help import NAMES, Call, Party, at_home
from tests.studies import command, merge, people, resolved, write_study


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Party]:
    """Three sites and a stranger, each with a run; made once, since nothing here changes them."""
    folder = tmp_path_factory.mktemp("sites")
    parties = {name: Party(name, folder / name, seed) for seed, name in enumerate((*NAMES, "stranger"))}
    for party in parties.values():
        party.key()
        party.run("asked")
    return parties


@pytest.fixture(scope="module")
def honest(sites: dict[str, Party], tmp_path_factory: pytest.TempPathFactory) -> Call:
    """A round in which everybody has answered as they should; made once, and copied for each test."""
    folder = tmp_path_factory.mktemp("honest")
    result = Call(folder / "coordinator", {name: sites[name] for name in NAMES})
    result.write()
    shutil.copy(write_study(folder / "travels"), result.folder / "study.yaml")
    terms = result.signed()
    for name in NAMES:
        result.put(name, sites[name].bundle("asked", terms))
    return result


@pytest.fixture
def call(tmp_path: Path, honest: Call) -> Call:
    shutil.copytree(honest.folder, tmp_path / "coordinator")
    return Call(tmp_path / "coordinator", dict(honest.parties), copy.deepcopy(honest.terms))


def test_an_honest_round_is_pooled_and_again_the_same(call: Call) -> None:
    first = call.pool()
    assert [site.site for site in first.release.sites] == list(NAMES)
    assert first.release.to_frame()["estimate"].to_list() == [first.release.estimate]
    text = first.path.read_text()
    assert call.pool().path.read_text() == text


@pytest.fixture(scope="module")
def document(honest: Call, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The pooled document of the honest round."""
    folder = tmp_path_factory.mktemp("pooled") / "coordinator"
    shutil.copytree(honest.folder, folder)
    found: dict[str, Any] = json.loads(Call(folder, dict(honest.parties), honest.terms).pool().path.read_text())
    return found


def of_row(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the document with another answer."""
    return {**document, "answers": [merge(document["answers"][0], changes)]}


def of_part(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the document with another part of the first site."""
    first, *others = document["answers"][0]["sites"]
    return of_row(document, sites=[{**first, **changes}, *others])


EDITED: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (lambda one: {**one, "model": "fixed"}, "'model': it is not what the terms say"),
    (lambda one: {**one, "round": "autumn"}, "'round': it is not what the terms say"),
    (lambda one: {**one, "pooled_by": "cells"}, "'pooled_by': it is not what the terms say"),
    (lambda one: {**one, "sites": one["sites"][:2]}, "'sites': they are not those of the terms"),
    (lambda one: {**one, "units": 10**30}, "'units': they are not those of all sites"),
    (lambda one: merge(one, {"privacy": {"epsilon": 0.5}}), "'privacy.epsilon': it is not the largest of any part"),
    (lambda one: of_row(one, estimate=-9.0), "'answers.0.estimate': its numbers are not those of the declared model"),
    (lambda one: of_row(one, noise_error=0.0), "'answers.0.estimate': its numbers are not those"),
    (lambda one: of_row(one, interval={"lower": 9.0, "upper": -9.0}), "'answers.0.interval': its lower end is above"),
    (lambda one: of_row(one, estimate=None, interval=None), "'answers.0.state': it does not go with the numbers"),
    (lambda one: of_row(one, state="unresolved"), "'answers.0.state': it does not go with the numbers"),
    (lambda one: of_row(one, simultaneous={"lower": -11.0, "upper": 0.0}), "'answers.0.simultaneous': beyond"),
    (lambda one: of_row(one, fixed={"estimate": 3.0}), "'answers.0.fixed': it is not the weighted mean of the parts"),
    (lambda one: of_row(one, fixed={"interval": {"confidence": 0.5}}), "'answers.0.fixed.interval': of another"),
    (lambda one: of_row(one, fixed={"variance": {"noise": 1e-9}}), "'answers.0.fixed.variance.noise': it is not"),
    (lambda one: of_part(one, estimate=9.0), "'answers.0.fixed': it is not the weighted mean of the parts"),
    (lambda one: of_part(one, weight_random=0.9), "'answers.0.weight_random': weights of the answers do not"),
    (lambda one: of_part(one, interval={"lower": -30.0, "upper": 0.0}), "'answers.0.north': beyond"),
    (lambda one: of_part(one, site="south"), "'answers.0.sites': they are not those of the release"),
]


@pytest.mark.parametrize(("edit", "said"), EDITED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_pooled_document_that_contradicts_itself_is_refused_by_name(
    document: dict[str, Any], edit: Callable[[dict[str, Any]], dict[str, Any]], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "release.json"
    path.write_text(json.dumps(document))
    load_published(path)
    path.write_text(json.dumps(edit(document)))
    with pytest.raises(ReleaseContradicted, match="contradicts itself") as refused:
        load_published(path)
    assert said in str(refused.value)
    assert command("report", path) == 2
    assert not path.with_name("report.html").exists()


@pytest.mark.parametrize(("case", "message"), TAMPERED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_wrong_bundle_is_refused_by_name(call: Call, sites: dict[str, Party], case: Case, message: str) -> None:
    bundles, terms = {name: call.file(name).read_text() for name in NAMES}, copy.deepcopy(call.terms)
    case(call, sites)
    with pytest.raises(BundleError) as refused:
        call.pool()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 6
    assert not (call.folder / "out").exists()
    assert not list((call.folder / "home").rglob("*.json")), "a refused round is not remembered"
    for file in (call.folder / "bundles").iterdir():
        file.unlink()
    for name, text in bundles.items():
        call.put(name, text)
    call.terms = terms
    call.save()
    if (kept := call.folder / "home/kept.key").exists():
        kept.rename(kept.with_name("bundle.key"))
    call.pool()


def test_a_round_whose_document_cannot_be_written_stays_open(call: Call, sites: dict[str, Party]) -> None:
    (call.folder / "out").mkdir()
    (call.folder / "out" / "release.json").write_text("another")
    with pytest.raises(StudyError, match="another release lies there"):
        call.pool()
    (call.folder / "out" / "release.json").unlink()
    call.put("north", sites["north"].bundle("asked", call.signed()))
    call.pool()


def test_an_answer_that_is_not_the_first_is_not_published(call: Call, sites: dict[str, Party]) -> None:
    text = call.pool().path.read_text()
    (call.folder / "out" / "release.json").unlink()
    first = call.file("north").read_text()
    call.put("north", sites["north"].bundle("asked", call.signed()))
    with pytest.raises(BundleError, match="replayed"):
        call.pool()
    assert not (call.folder / "out" / "release.json").exists()
    call.put("north", first)
    assert call.pool().path.read_text() == text


def test_all_refusals_are_told_at_once(call: Call, sites: dict[str, Party]) -> None:
    expired_key(call, sites)
    call.file("coast").unlink()
    with pytest.raises(BundleError, match=r"'north': expired.*'coast': missing"):
        call.pool()


def test_a_round_takes_no_second_answer(call: Call, sites: dict[str, Party]) -> None:
    """Once pooled, a later answer is refused, and so is an earlier one that is put in its place."""
    first = call.file("north").read_text()
    call.pool()
    call.put("north", sites["north"].bundle("asked", call.signed()))
    with pytest.raises(BundleError, match="site 'north': replayed: its bundle is not the one"):
        call.pool()
    call.put("north", first)
    call.pool()


def test_sites_of_one_contract_are_pooled_where_the_terms_say_that_they_are_two(call: Call) -> None:
    reopen(call, equal_contracts=True)
    resign(call, "coast", policy_digest=call.statement("north")["policy_digest"])
    assert len(call.pool().release.sites) == 3


def test_agreed_epsilon_is_accepted_and_stated(call: Call) -> None:
    reopen(call, sites=with_site(call, "coast", privacy={"epsilon": 0.5}))
    other_run(call, "coast", "agreed", privacy={"epsilon": 0.5})
    release = call.pool().release
    assert [float(site.epsilon) for site in release.sites] == [1.0, 0.5, 1.0]
    assert (float(release.privacy.epsilon), release.privacy.units_disjoint) == (1.0, True)
    north, coast, _ = release.answers[0].sites
    assert (coast.noise_error or 0) > (north.noise_error or 0)
    assert coast.weight_fixed < north.weight_fixed


@pytest.fixture(scope="module")
def intact(honest: Call, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("intact") / "north.json"
    path.write_text(honest.file("north").read_text())
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


def test_only_finished_runs_of_this_ledger_are_signed(sites: dict[str, Party], call: Call, tmp_path: Path) -> None:
    terms = call.signed()
    with at_home(sites["north"].home), pytest.raises(RunConflict, match="not in this ledger"):
        make_bundle(open_ledger(), "unheard-of", "north", terms)
    with at_home(tmp_path / "nobody"):
        path = write_study(tmp_path / "study")
        from causalveil.flows.api import run_study

        run_study(path, out=tmp_path / "out", run_id="r", engine="direct")
        with pytest.raises(CausalveilError, match="causalveil bundle key"):
            make_bundle(open_ledger(), "r", "north", terms)


def test_the_signing_key_is_private_and_not_the_split_secret(sites: dict[str, Party], call: Call) -> None:
    home = sites["north"].home
    assert (home / "bundle.key").stat().st_mode & 0o777 == 0o600
    assert (home / "bundle.key").read_bytes() != (home / "site.key").read_bytes()
    text = sites["north"].bundle("asked", call.signed())
    assert (home / "bundle.key").read_bytes().hex() not in text


def test_a_bundle_holds_the_release_and_nothing_of_the_rows(sites: dict[str, Party], call: Call) -> None:
    document = json.loads(sites["north"].bundle("asked", call.signed()))
    assert document["statement"]["release"] == json.loads((sites["north"].folder / "asked/release.json").read_text())
    assert set(document["statement"]) == {
        *("site", "terms", "issued_at", "finished_at", "run_id"),
        *("study_digest", "policy_digest", "release_digest", "release"),
    }
    assert str(sites["north"].folder) not in json.dumps(document)


def test_commands(
    call: Call, sites: dict[str, Party], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert (
        json.loads(out)["statement"]["study_digest"] == resolved(sites["north"].folder / "data-asked/study.yaml").digest
    )
    monkeypatch.setenv("CAUSALVEIL_HOME", str(call.folder / "home"))
    code, out, err = run("pool", terms, "--out", str(call.folder / "out"))
    assert code == 0, err
    for words in (
        "random effects",
        "fixed effects",
        "tau2",
        "I2",
        "weight",
        "No unit is in two sites (declared)",
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


@pytest.mark.parametrize(
    "words", ["bundle key", "bundle make", "bundle show", "round open", "round show", "pool", "report"]
)
def test_every_command_has_help_and_json(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command(*words.split(), "--help") == 0
    assert "--json" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({"covariates": ["age"]}, "the study must declare the range of 'age'"),
        ({"covariates": {"group": None}}, "the range of 'group': {lower, upper}, or its levels: {levels: [a, b]}"),
        ({"outcome": {"name": "score", "lower": ..., "upper": ...}}, "the study must declare the range of 'score'"),
    ],
)
def test_what_a_study_leaves_to_contracts_is_refused_before_anything_is_charged(
    left: dict[str, Any], said: str, call: Call, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A coordinator has none: `check --sites` and a run that is to leave a bundle say what is missing."""
    command("bundle", "key")
    whole = write_study(tmp_path / "whole")
    path = write_study(tmp_path / "study", study=left)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path)])
    assert not ended.value.code, "at a site alone its contract says it"
    terms = tmp_path / "round.json"
    terms.write_text(terms_text(call.signed()))
    for words in (
        ["check", str(path), "--sites"],
        ["run", str(path), "--site", "n", "--round", str(terms), "--run-id", "r"],
    ):
        assert command(*words) == 2
        told = capfd.readouterr()
        assert said in " ".join((told.out + told.err).split())
    assert open_ledger().record("r") is None, "nothing was reserved"
    assert command("check", whole, "--sites") == 0


def test_two_codes_travel_as_a_range_as_the_refusal_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Levels were advised, which a contract of codes refused as a number."""
    columns = {"sex": {"codes": {"no": "f", "yes": "m"}}}
    frame = people(200).with_columns(sex=pl.Series(["f", "m"] * 100))
    for place, (sex, code) in enumerate([({}, 2), ({"levels": ["f", "m"]}, 2), ({"lower": 0, "upper": 1}, 0)]):
        asked = {"covariates": {"sex": sex}}
        path = write_study(tmp_path / str(place), frame=frame, study=asked, contract={"columns": columns})
        assert command("check", path, "--sites") == code
        told = " ".join(capfd.readouterr().out.split())
        assert ("{lower: 0, upper: 1}" in told) == bool(code)
    assert "declares two codes, not levels" not in told


def test_run_leaves_a_bundle_and_asks_before_it_spends(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> tuple[int, str]:
        return command(*words), capfd.readouterr().err

    def run(*words: str) -> tuple[int, str]:
        return said("run", str(path), "--out", str(tmp_path / "out"), "--run-id", "r", *words)

    path = write_study(tmp_path / "study")
    call = Call(tmp_path / "coordinator", {name: Party(name, tmp_path / name, 1) for name in ("south", "east")})
    call.write()
    shutil.copy(path, call.folder / "study.yaml")
    terms = str(call.folder / "round.json")
    assert said("round", "open", str(call.folder / "sites.yaml"))[0] == 0
    assert "both" in run("--site", "north")[1]
    command("bundle", "key")
    code, told = run("--site", "north", "--round", terms)
    assert (code, "do not name site 'north'" in told) == (6, True)
    code, told = run("--site", "south", "--round", terms)
    assert (code, "another key for site 'south'" in told) == (6, True)
    call.terms["sites"]["north"] = {**call.terms["sites"]["south"], "key": public_key()}
    call.save()
    code, told = said("round", "open", str(call.folder / "sites.yaml"))
    assert (code, "other terms lie there" in told) == (2, True)
    Path(terms).unlink()
    assert said("round", "open", str(call.folder / "sites.yaml"))[0] == 0
    assert "simulation" in run("--site", "north", "--round", terms, "--simulate", "1")[1]
    other = write_study(tmp_path / "other", study={"outcome": {"upper": 20}})
    code, told = said("run", str(other), "--run-id", "r", "--site", "north", "--round", terms)
    assert (code, "not the one that the terms speak of" in told) == (6, True)
    cheap = write_study(tmp_path / "cheap", study={"privacy": {"epsilon": 0.5}})
    code, told = said("run", str(cheap), "--run-id", "r", "--site", "north", "--round", terms)
    assert (code, "'privacy.epsilon'" in told) == (6, True)
    assert open_ledger().record("r") is None, "nothing was reserved"
    assert run("--site", "north", "--round", terms)[0] == 0
    bundle, first = read_bundle(tmp_path / "out" / "bundle.json")
    assert (bundle.statement.site, bundle.statement.terms.terms.round) == ("north", "spring")
    assert run("--site", "north", "--round", terms)[0] == 0
    assert read_bundle(tmp_path / "out" / "bundle.json")[1] == first, "the same answer, not a second one"
    assert said("round", "show", terms)[0] == 0


def test_a_release_answers_one_round_and_those_that_follow_it(
    call: Call, sites: dict[str, Party], tmp_path: Path
) -> None:
    """A site that is struck out once answers are seen is a new round, and its document shows both."""
    first = call.signed()
    call.pool()
    (call.folder / "spring.json").write_text(terms_text(first))
    fewer = {name: site for name, site in call.terms["sites"].items() if name != "valley"}
    call.terms |= {"round": "summer", "sites": fewer, "opened": ago(seconds=1)}
    call.save()
    for name in ("north", "coast"):
        with at_home(sites[name].home):
            leave_bundle("asked", name, first, tmp_path / f"{name}-first.json")
            with pytest.raises(BundleError, match="it answered other terms, of round 'spring', which these do not"):
                leave_bundle("asked", name, call.signed(), call.file(name))
    call.terms["follows"] = "spring.json"
    call.save()
    for name in ("north", "coast"):
        call.file(name).unlink()
        with at_home(sites[name].home):
            leave_bundle("asked", name, call.signed(), call.file(name))
            with pytest.raises(BundleError, match="of round 'summer', which these do not"):
                leave_bundle("asked", name, first, tmp_path / f"{name}-again.json")
    call.file("valley").unlink()
    (call.folder / "out" / "release.json").unlink()
    release = call.pool().release
    assert [one.terms.round for one in release.terms.chain] == ["summer", "spring"]
    page = report_html(release)
    assert "Round spring of study" in page
    assert "of sites north, coast, valley." in page


def test_terms_follow_a_round_of_the_same_study_under_a_fresh_name(call: Call) -> None:
    (call.folder / "spring.json").write_text(terms_text(call.signed()))
    call.terms["follows"] = "spring.json"
    call.save()
    with pytest.raises(BundleError, match="a round of the same name"):
        call.signed()
    call.terms["round"] = "summer"
    call.save()
    study = yaml.safe_load((call.folder / "study.yaml").read_text())
    study["outcome"]["upper"] = 20
    (call.folder / "study.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(BundleError, match="asked another question"):
        call.signed()
    (call.folder / "spring.json").write_text("{}")
    with pytest.raises(BundleError, match="not the signed terms of a round"):
        call.signed()
