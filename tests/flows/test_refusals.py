"""What is refused before anything is reserved is an entry too: bounded, in our own words, by the granted contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import BudgetRefused, CausalveilError, ChargesDiffer, LedgerError
from causalveil.schemas.ledger import DOCUMENT
from causalveil.schemas.release import release_text
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.ledger import ledger as ledger_module
from causalveil.tasks.privacy.ledger.entry import Entry
from causalveil.tasks.privacy.ledger.ledger import Ledger, ledger_at_hand, open_ledger
from causalveil.tasks.privacy.ledger.outlook import desk_of
from causalveil.tasks.privacy.mechanisms import GaussianNoise, LatticeLaplace
from causalveil.tasks.sites.terms import terms_text
from tests.ledger_help import contract, finished, reservation
from tests.matching_help import matching_changes
from tests.postgres import WHY_NOT, database
from tests.sites_help import some_terms
from tests.studies import command, write_study

SECRET = "a word of the analyst's"


def refusals() -> list[Entry]:
    return [entry for entry in open_ledger().entries_of("small") if entry.kind == "refuse"]


def refused(path: Path, run_id: str | None = "asked", **options: Any) -> CausalveilError:
    with pytest.raises(CausalveilError) as caught:
        run_study(path, out=path.parent / "out", run_id=run_id, engine="direct", **options)
    return caught.value


@pytest.fixture
def granted(tmp_path: Path) -> Path:
    path = write_study(tmp_path / "study")
    open_ledger().grant_itself(load_contract(path.with_name("dataset.yaml")))
    return path


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "a column that is not public": ({"treatment": "score", "outcome": {"name": "age"}}, "contradicts the contract"),
    "an estimator that is not allowed": ({"estimator": {"name": "difference_in_means", "penalty": ...}}, "forbids"),
    "a column of no contract": ({"covariates": {SECRET: {}}}, "contradicts the contract"),
    "too few units": ({"estimator": {"train_fraction": 0.0001}}, "contradicts the contract"),
}


@pytest.mark.parametrize("case", ASKED)
def test_an_early_refusal_is_an_entry(case: str, granted: Path) -> None:
    changes, words = ASKED[case]
    path = write_study(granted.parent, study={**changes, "purpose": "to see"})
    refused(path)
    (entry,) = refusals()
    assert words in entry.document["why"]
    assert SECRET not in entry.body, "nothing is echoed"
    assert (entry.document["asked"]["study"], entry.document["by"]["purpose"]) == ("small", "to see")
    assert len(entry.body) < 1500
    open_ledger().verify()
    assert open_ledger().account("small").runs == ()


def test_a_level_without_a_cap_is_one(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study={"privacy": {"level": "label"}}, contract={"caps": {"label": ...}})
    open_ledger().grant_itself(load_contract(path.with_name("dataset.yaml")))
    assert isinstance(refused(path), BudgetRefused)
    assert "no cap for this level" in refusals()[-1].document["why"]


def test_somebody_else_s_contract_writes_nothing(granted: Path, tmp_path: Path) -> None:
    """A folder of the analyst's own could call itself by any dataset's name."""
    changes = ASKED["an estimator that is not allowed"][0]
    refused(write_study(tmp_path / "own", study=changes, contract={"warn_below": 0.5, "public": []}))
    refused(write_study(tmp_path / "other", study=changes, contract={"dataset": "never-granted"}))
    assert refusals() == []
    assert "never-granted" not in open_ledger().datasets()


def test_a_refusal_makes_no_ledger_and_a_simulation_no_entry(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=ASKED["an estimator that is not allowed"][0])
    refused(path, None)
    assert ledger_at_hand() is None
    open_ledger().grant_itself(load_contract(path.with_name("dataset.yaml")))
    refused(path, simulate=1)
    assert refusals() == []


def test_nobody_fills_a_ledger_by_being_refused(granted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MOST_REFUSALS", 3)
    path = write_study(granted.parent, study=ASKED["an estimator that is not allowed"][0])
    for number in range(3):
        refused(path, f"early-{number}")
    # Also what is refused at the cap.
    over = yaml.safe_load(write_study(granted.parent).read_text())
    path.write_text(yaml.safe_dump({**over, "privacy": {"epsilon": "11", "delta": "1e-6"}}))
    for number in range(2):
        assert isinstance(refused(path, f"late-{number}"), BudgetRefused)
    found = refusals()
    assert [entry.run_id for entry in found] == ["early-0", "early-1", "early-2"]
    assert "not recorded until tomorrow" in json.dumps(found[-1].document)
    open_ledger().verify()


def test_a_ledger_that_cannot_be_written_hides_no_refusal(granted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(granted.parent, study=ASKED["an estimator that is not allowed"][0])
    monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert "does not allow estimator" in str(refused(path, None))


# What is declared is drawn: a stage that leaves a draw out publishes nothing, and old runs that did are named.
WIDE = {"caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}}}
REGRESSION = {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "9"}}


def leave_out(monkeypatch: pytest.MonkeyPatch, mechanism: Any, name: str) -> None:
    """Have a mechanism give back the exact value of one charge."""
    draw = mechanism.release

    def release(self: Any, value: Any, slot: Any, budget: Any) -> Any:
        return value if slot.name == name else draw(self, value, slot, budget)

    monkeypatch.setattr(mechanism, "release", release)


@pytest.mark.parametrize("simulate", [None, 3])
def test_a_stage_that_leaves_its_draw_out_ends_the_run(
    simulate: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_study(tmp_path / "study", study=REGRESSION, contract=WIDE | {"estimators": ["regression"]})
    with monkeypatch.context() as patched:
        leave_out(patched, GaussianNoise, "scores")
        with pytest.raises(ChargesDiffer, match="'scores'"):
            run_study(path, out=tmp_path / "out", run_id="undrawn", simulate=simulate)
    assert not (tmp_path / "out").exists()
    if simulate is not None:
        return
    ran = open_ledger().account("small").runs[0]
    assert (ran.state, str(ran.cost.epsilon)) == ("reserved", "9")
    # Mended, the same run goes on: what was drawn is returned, and what was left out is drawn.
    assert run_study(path, out=tmp_path / "out", run_id="undrawn").returned == 4


def test_what_an_earlier_try_drew_is_not_left_out_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records too: the charge is committed, but the release would be made of exact values."""
    changes = matching_changes(level="sample")
    path = write_study(tmp_path / "study", study=changes, contract=WIDE | {"estimators": ["matching"]})
    for left_out, mechanism in (("effect", None), ("scores", LatticeLaplace)):
        with monkeypatch.context() as patched:
            if mechanism is None:
                patched.setattr(Ledger, "finish", _dies)
            else:
                leave_out(patched, mechanism, left_out)
            with pytest.raises((ChargesDiffer, KeyboardInterrupt)) as ended:
                run_study(path, out=tmp_path / "out", run_id="again")
    assert "'scores'" in str(ended.value)
    assert open_ledger().record("again").undrawn == ()
    assert open_ledger().stored_document("again") is None


def _dies(*_: Any) -> None:
    raise KeyboardInterrupt


def test_an_old_run_that_never_drew_is_named(tmp_path: Path, capfd: Any) -> None:
    """As an older version ended it: the chain holds, the ledger goes on, and verification fails with its name."""
    ledger = open_ledger()
    ledger.grant(contract(), "opening")
    old = reservation("old", contract=contract())
    ledger.reserve(old, contract())
    with ledger._writing() as (connection, _):
        ledger._append(connection, "release", old, {"document": "{}"}, DOCUMENT)
    finished(ledger, reservation("new", contract=contract()), contract(), tmp_path)
    (found,) = open_ledger().verify().undrawn
    assert (found.run_id, found.charges) == ("old", ("outcome",))
    for more in ([], ["trial"], ["--json"]):
        assert command("ledger", "verify", *more) == 5
        shown = capfd.readouterr()
        assert "never drew charges that they declared: old (outcome);" in shown.err
    assert json.loads(shown.out)["error"]["exit_code"] == 5
    assert any("Run old is finished and never drew outcome" in one.text for one in desk_of(ledger).concerns)


# A name that no ledger knows is an error wherever one is taken: no scheduled check stays green by a misprint.
NAMING = [
    ("ledger", "show", "trail"),
    ("ledger", "verify", "trail"),
    ("ledger", "forecast", "trail"),
    ("ledger", "chart", "trail"),
    ("ledger", "export", "trail"),
    ("ledger", "export", "trail", "--format", "registry"),
    ("clean", "--reduced", "trail"),
    ("audit", "trail"),
    ("bundle", "make", "trail", "--site", "north", "--round", "round.json"),
    *(
        ("ledger", command, "trail", *more)
        for command, *more in (
            ("void", "--reason", "no"),
            ("approve", "--key", "owner.key"),
            ("reject", "--reason", "no", "--key", "owner.key"),
            ("release", "--out", "out"),
        )
    ),
]
READING = [("ledger", "verify"), ("ledger", "export"), ("desk",), ("desk", "--json"), ("ledger", "verify", "trial")]


def call(capfd: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    shown = capfd.readouterr()
    return int(str(ended.value.code)), shown.err


@pytest.mark.parametrize("words", NAMING, ids=" ".join)
def test_an_unknown_name_is_an_error(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    open_ledger().grant(contract(), "opening")
    assert call(capfd, "owner", "key", "--key", "owner.key")[0] == call(capfd, "bundle", "key")[0] == 0
    (tmp_path / "round.json").write_text(terms_text(some_terms()))
    code, said = call(capfd, *words)
    assert (code, "trail" in said, said.count("\n")) == (2, True, 1), said
    if words[:2] == ("ledger", "verify"):
        assert "did you mean 'trial'?" in said
        # The advice, followed.
        assert call(capfd, "ledger", "verify", "trial")[0] == 0
    assert not (tmp_path / "export").exists()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_state_folder_without_a_ledger_is_an_error_where_one_is_read(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = call(capfd, *words)
    assert (code, "there is no ledger" in said) == (LedgerError.exit_code, True), said
    assert not (home() / "ledger.db").exists()
    open_ledger().grant(contract(), "opening")
    assert call(capfd, *words)[0] == 0


def test_rows_that_were_reduced_are_cleaned_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    (home() / "reduced" / "gone" / "rows").mkdir(parents=True)
    assert call(capfd, "clean", "--reduced", "gone")[0] == 0
    open_ledger().grant(contract(), "opening")
    assert call(capfd, "clean", "--reduced", "trial")[0] == 0


# `causalveil ledger copy`: the same ledger in another database, and no password on the command line or the screen.
@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with database() as url:
        if url is None:
            pytest.skip(WHY_NOT)
        monkeypatch.setenv("CAUSALVEIL_LEDGER_COPY_URL", url)
        yield url


def test_the_copy_is_the_same_ledger(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path / "study")
    release = run_study(path, out=tmp_path / "out", run_id="before").release
    before = open_ledger()
    assert command("ledger", "copy", "--json") == 0
    shown = capfd.readouterr()
    told = json.loads(shown.out)
    assert told["ledger"] == before.identity
    assert told["entries"] == before.verify().entries
    assert target not in shown.out + shown.err
    monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", target)
    open_ledger().verify_release(release_text(release))
    assert run_study(path, out=tmp_path / "out", run_id="before").resumed, "the run is known there, free of charge"
    run_study(path, out=tmp_path / "next", run_id="after")
    assert open_ledger().account("small").blocks[0].spent.epsilon == 2


def test_a_database_that_has_a_ledger_is_refused(target: str, capfd: pytest.CaptureFixture[str]) -> None:
    open_ledger(target)
    assert command("ledger", "copy") == 5
    assert "name an empty database" in capfd.readouterr().err


def test_no_target_is_named(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("CAUSALVEIL_LEDGER_COPY_URL", raising=False)
    assert command("ledger", "copy") == 2
    assert "CAUSALVEIL_LEDGER_COPY_URL" in capfd.readouterr().err
