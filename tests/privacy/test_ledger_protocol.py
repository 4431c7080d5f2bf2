"""Grant, reserve, release, void, finish, account: the rules of one ledger, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from causalveil.schemas.errors import (
    BudgetRefused,
    ChargesDiffer,
    ContractError,
    DataError,
    LedgerError,
    RunConflict,
    StudyError,
)
from causalveil.schemas.ledger import Account, BlockAccount
from causalveil.schemas.privacy import Level
from causalveil.tasks.privacy.ledger.ledger import Ledger, throwaway_ledger
from tests.ledger_help import audit_lines, budget, charge, contract, finished, never, reservation, value


def block(ledger: Ledger, name: str = "all", level: str = "sample") -> BlockAccount:
    found = [b for b in ledger.account("trial").blocks if (b.block, b.level) == (name, level)]
    assert len(found) == 1
    return found[0]


def amounts(account: BlockAccount) -> dict[str, str]:
    parts = ("granted", "spent", "reserved", "remaining")
    return {part: str(getattr(account, part).epsilon.normalize()) for part in parts}


class TestReserve:
    def test_without_a_grant_nothing_is_reserved(self, ledger: Ledger) -> None:
        with pytest.raises(BudgetRefused, match=r"no grant.*ledger grant"):
            ledger.reserve(reservation(), contract())

    def test_level_without_cap_is_refused(self, ledger: Ledger) -> None:
        ledger.grant(contract(), "opening")
        with pytest.raises(BudgetRefused, match="no cap for level label"):
            ledger.reserve(reservation(level="label"), contract())

    def test_three_tenths_fit_into_three_tenths_and_a_fourth_does_not(self, ledger: Ledger) -> None:
        owner = contract("0.3")
        ledger.grant(owner, "opening")
        for number in range(3):
            assert ledger.reserve(reservation(f"run-{number}", contract=owner), owner) == "reserved"
        with pytest.raises(BudgetRefused) as refusal:
            ledger.reserve(reservation("run-3", contract=owner), owner)
        for word in ("'trial'", "sample", "'all'", "reserved 0.3", "requested 0.1", "remaining 0 of 0.3"):
            assert word in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert amounts(block(ledger)) == {"granted": "0.3", "spent": "0", "reserved": "0.3", "remaining": "0"}

    def test_a_refusal_is_an_entry_that_charges_nothing_and_leaves_the_ledger_usable(self, ledger: Ledger) -> None:
        owner = contract("0.3")
        ledger.grant(owner, "opening")
        with pytest.raises(BudgetRefused) as refusal:
            ledger.reserve(reservation(charges=(charge(epsilon="0.4"),), contract=owner), owner)
        assert ledger.verify().entries == 3
        assert ledger.account("trial").runs == ()
        with ledger.store.read() as connection:
            last = ledger.store.head(connection)
        assert last is not None
        assert (last.kind, last.run_id) == ("refuse", "run-1")
        assert last.document["why"] == str(refusal.value)
        assert last.document["asked"]["cost"] == {"epsilon": "0.4", "delta": "0"}
        assert ledger.reserve(reservation(contract=owner), owner) == "reserved"

    def test_delta_has_a_cap_of_its_own(self, ledger: Ledger) -> None:
        owner = contract("10", "1e-6")
        ledger.grant(owner, "opening")
        ledger.reserve(reservation(charges=(charge(delta="6e-7"),), contract=owner), owner)
        with pytest.raises(BudgetRefused, match=r"delta spent or reserved 6e-7, requested 6e-7, remaining 4e-7"):
            ledger.reserve(reservation("run-2", charges=(charge(delta="6e-7"),), contract=owner), owner)

    def test_every_block_is_charged_and_the_full_one_is_named(self, ledger: Ledger) -> None:
        owner = contract("0.2")
        ledger.grant(owner, "opening")
        ledger.reserve(reservation("a", blocks=("march",), contract=owner), owner)
        ledger.reserve(reservation("b", blocks=("march",), contract=owner), owner)
        with pytest.raises(BudgetRefused, match="block 'march'"):
            ledger.reserve(reservation("c", blocks=("april", "march"), contract=owner), owner)
        ledger.reserve(reservation("d", blocks=("april", "may"), contract=owner), owner)
        account = ledger.account("trial")
        assert [(b.block, str(b.remaining.epsilon), b.runs) for b in account.blocks] == [
            ("april", "0.1", 1),
            ("march", "0.0", 2),
            ("may", "0.1", 1),
        ]

    def test_datasets_have_accounts_of_their_own_and_levels_nest(self, ledger: Ledger) -> None:
        """A run at level sample spends the accounts of label and training_units as well, and neither the other way."""
        levels = {"sample": "0.2", "label": "0.2", "training_units": "0.1"}
        caps = {level: {"epsilon": epsilon, "delta": 0} for level, epsilon in levels.items()}
        for owner in (contract(caps=caps), contract(dataset="other", caps=caps)):
            ledger.grant(owner, "opening")
            for number, level in enumerate(("label", "sample")):
                ledger.reserve(reservation(f"{owner.dataset}-{number}", level=level, contract=owner), owner)
            for level, full in (("label", "label"), ("training_units", "training_units"), ("sample", "label")):
                with pytest.raises(BudgetRefused, match=f"level {full}, block 'all'"):
                    ledger.reserve(reservation(f"{owner.dataset}-{level}", level=level, contract=owner), owner)
        assert ledger.verify().runs == 4
        used = {row.level: row.reserved.epsilon for row in ledger.account("trial").blocks}
        assert {level: float(epsilon) for level, epsilon in used.items()} == {
            "sample": 0.1,
            "label": 0.2,
            "training_units": 0.1,
        }

    @pytest.mark.parametrize("edited", ["0.1", "10"])
    def test_an_edited_contract_does_nothing_until_it_is_granted(self, ledger: Ledger, edited: str) -> None:
        ledger.grant(contract("1"), "opening")
        now = contract(edited)
        with pytest.raises(BudgetRefused, match=r"changed after it was granted.*ledger grant"):
            ledger.reserve(reservation(charges=(charge(epsilon="0.1"),), contract=now), now)
        assert ledger.account("trial").runs == ()
        ledger.grant(now, "changed caps")
        assert ledger.reserve(reservation(charges=(charge(epsilon="0.1"),), contract=now), now) == "reserved"
        ledger.verify()

    def test_the_latest_grant_is_in_force(self, ledger: Ledger) -> None:
        wide, narrow = contract("1"), contract("0.2")
        ledger.grant(contract("0.1"), "opening")
        ledger.grant(wide, "more")
        ledger.reserve(reservation(charges=(charge(epsilon="0.5"),), contract=wide), wide)
        ledger.grant(narrow, "less")
        with pytest.raises(BudgetRefused, match=r"remaining 0 of 0\.2"):
            ledger.reserve(reservation("run-2", contract=narrow), narrow)
        ledger.verify()

    def test_public_data_grant_themselves_once(self, ledger: Ledger) -> None:
        assert ledger.grant_itself(contract("0.1"))
        assert not ledger.grant_itself(contract("5"))
        assert not ledger.grant_itself(contract(dataset="people", data_class="sensitive"))
        assert ledger.account("trial").caps[Level.sample].epsilon == Decimal("0.1")

    def test_charges_beyond_the_total_are_refused(self, ledger: Ledger) -> None:
        ledger.grant(contract(), "opening")
        with pytest.raises(BudgetRefused, match="exceed"):
            ledger.reserve(reservation(cost={"epsilon": "0.05", "delta": "0"}), contract())

    def test_foreign_ledger(self, ledger: Ledger) -> None:
        ledger.grant(contract(ledger=ledger.identity), "opening")
        elsewhere = contract(ledger="0" * 32)
        with pytest.raises(LedgerError, match="CAUSALVEIL_LEDGER_URL"):
            ledger.reserve(reservation(contract=elsewhere), elsewhere)
        with pytest.raises(LedgerError):
            ledger.grant(elsewhere, "opening")
        ledger.reserve(reservation(), contract(ledger=ledger.identity))

    def test_data_that_are_not_admitted_are_refused(self, ledger: Ledger) -> None:
        ledger.grant(contract(), "opening")
        with pytest.raises(DataError, match="admitted anew while run run-1 began"):
            ledger.reserve(reservation(admission="d" * 64), contract())
        assert ledger.account("trial").runs == ()

    def test_contract_must_be_the_reservation_s(self, ledger: Ledger) -> None:
        ledger.grant(contract(), "opening")
        with pytest.raises(ContractError):
            ledger.reserve(reservation(), contract("0.9"))


class TestResume:
    def test_the_same_run_is_charged_once(self, ledger: Ledger) -> None:
        ledger.grant(contract(), "opening")
        assert ledger.reserve(reservation(), contract()) == "reserved"
        # A lower contract since then does not stop a run that holds its reservation.
        now = contract("0.01")
        assert ledger.reserve(reservation(contract=now), now) == "resumed"
        assert str(block(ledger).reserved.epsilon) == "0.1"

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"study_digest": "d" * 64}, "study"),
            ({"layout_digest": "d" * 64}, "data layout"),
            ({"key_check": "d" * 32}, "site key"),
            ({"level": "label"}, "privacy level"),
            ({"blocks": ("all", "more")}, "blocks"),
            ({"cost": {"epsilon": "0.2", "delta": "0"}}, "privacy cost"),
            ({"charges": (charge("other"),)}, "declared charges"),
            ({"contents": "d" * 64}, "content of its data files"),
        ],
    )
    def test_another_run_under_the_id_is_refused(self, ledger: Ledger, change: dict[str, Any], words: str) -> None:
        ledger.grant(contract(), "opening")
        ledger.reserve(reservation(), contract())
        with pytest.raises(RunConflict, match=rf"run-1.*{words}.*(new run id|ledger void run-1)"):
            ledger.reserve(reservation(**change), contract())
        assert ledger.verify().entries == 3

    def test_the_id_is_taken_in_every_dataset(self, ledger: Ledger) -> None:
        other = contract(dataset="other")
        for owner in (contract(), other):
            ledger.grant(owner, "opening")
        ledger.reserve(reservation(), contract())
        with pytest.raises(RunConflict, match="dataset"):
            ledger.reserve(reservation(contract=other), other)


class TestVoid:
    CHARGES = (charge("a", "0.1"), charge("b", "0.2"), charge("c", "0.3", scope="train"))

    def test_frees_only_what_was_never_released(self, ledger: Ledger, tmp_path: Path) -> None:
        ledger.grant(contract(), "opening")
        request = reservation(charges=self.CHARGES)
        ledger.reserve(request, contract())
        budget(ledger, request, tmp_path).spend(self.CHARGES[0], value(1.0))
        spent = {"granted": "1", "spent": "0.1", "reserved": "0.5", "remaining": "0.4"}
        assert amounts(block(ledger)) == spent
        ledger.void("run-1", "power cut")
        assert amounts(block(ledger)) == spent | {"reserved": "0", "remaining": "0.9"}
        assert ledger.account("trial").runs[0].state == "voided"
        with pytest.raises(BudgetRefused):
            ledger.reserve(reservation("run-2", charges=(charge(epsilon="0.91"),)), contract())
        ledger.reserve(reservation("run-3", charges=(charge(epsilon="0.9"),)), contract())
        ledger.verify()

    def test_a_part_with_too_many_digits_counts_as_the_whole(self, ledger: Ledger, tmp_path: Path) -> None:
        parts = (charge("a", "0.4"), charge("b", "0.0123456789012345", scope="train"))
        whole = (*parts, charge("c", "0.5", scope="estimation"))
        request = reservation(charges=whole, cost={"epsilon": "0.9", "delta": "0"})
        ledger.grant(contract(), "opening")
        ledger.reserve(request, contract())
        for one in parts:
            budget(ledger, request, tmp_path).spend(one, value(1.0))
        ledger.void("run-1", "power cut")
        assert amounts(block(ledger)) == {"granted": "1", "spent": "0.9", "reserved": "0", "remaining": "0.1"}

    def test_a_voided_run_cannot_go_on(self, ledger: Ledger, tmp_path: Path) -> None:
        ledger.grant(contract(), "opening")
        request = reservation(charges=self.CHARGES)
        ledger.reserve(request, contract())
        purse = budget(ledger, request, tmp_path)
        ledger.void("run-1", "power cut")
        with pytest.raises(RunConflict, match="voided; choose a new run id"):
            ledger.reserve(request, contract())
        with pytest.raises(BudgetRefused, match="voided"):
            purse.spend(self.CHARGES[0], value(1.0))
        with pytest.raises(RunConflict, match="voided"):
            purse.finish("{}")
        with pytest.raises(RunConflict, match="already voided"):
            ledger.void("run-1", "again")

    def test_unknown_and_finished_runs_and_empty_reasons_are_refused(self, ledger: Ledger, tmp_path: Path) -> None:
        ledger.grant(contract(), "opening")
        finished(ledger, reservation(), contract(), tmp_path)
        for run_id in ("nobody", ""):
            with pytest.raises(RunConflict, match="not in this ledger"):
                ledger.void(run_id, "why")
        with pytest.raises(RunConflict, match="already finished"):
            ledger.void("run-1", "why")
        for reason in ("", " \n", "x" * 1001):
            with pytest.raises(StudyError, match="reason"):
                ledger.void("run-1", reason)

    def test_if_untouched(self, ledger: Ledger, tmp_path: Path) -> None:
        ledger.grant(contract(), "opening")
        ledger.reserve(reservation("fresh"), contract())
        ledger.reserve(reservation("drew"), contract())
        budget(ledger, reservation("drew"), tmp_path).spend(charge(), value(1.0))
        assert ledger.void_if_untouched("fresh", "data error")
        assert not ledger.void_if_untouched("fresh", "data error")
        assert not ledger.void_if_untouched("drew", "data error")
        assert not ledger.void_if_untouched("nobody", "data error")
        assert {run.run_id: run.state for run in ledger.account("trial").runs} == {
            "fresh": "voided",
            "drew": "reserved",
        }


class TestFinish:
    def test_document_is_stored_once(self, ledger: Ledger, tmp_path: Path) -> None:
        ledger.grant(contract(), "opening")
        request = reservation()
        assert ledger.stored_document("run-1") is None
        ledger.reserve(request, contract())
        assert ledger.statement("run-1").entry_hash == ledger.verify().head_hash
        purse = budget(ledger, request, tmp_path)
        purse.spend(charge(), value(1.0))
        last = ledger.statement("run-1").entry_hash
        assert last == ledger.verify().head_hash
        purse.finish("{}\n")
        purse.finish("{}\n")
        assert purse.stored_document() == "{}\n"
        assert ledger.statement("run-1").entry_hash == last
        assert ledger.verify().entries == 5
        with pytest.raises(RunConflict, match="another release"):
            purse.finish("{ }\n")
        assert ledger.reserve(request, contract()) == "resumed"

    def test_the_last_charge_is_the_last_one_drawn(self, ledger: Ledger, tmp_path: Path) -> None:
        ledger.grant(contract(), "opening")
        request = reservation(charges=(charge("a"), charge("b")))
        ledger.reserve(request, contract())
        for name in ("b", "a"):
            budget(ledger, request, tmp_path).spend(charge(name), value(1.0))
            assert ledger.statement("run-1").entry_hash == ledger.verify().head_hash

    def test_a_finished_run_draws_nothing_more(self, ledger: Ledger, tmp_path: Path) -> None:
        ledger.grant(contract(), "opening")
        request = reservation(charges=(charge("a"), charge("b")))
        ledger.reserve(request, contract())
        purse = budget(ledger, request, tmp_path)
        first = purse.spend(charge("a"), value(1.0))
        purse.spend(charge("b"), value(1.0))
        purse.finish("{}")
        assert purse.spend(charge("a"), value(2.0)) == first
        with pytest.raises(BudgetRefused, match="did not declare"):
            purse.spend(charge("c"), value(1.0))

    def test_ends_only_once_every_declared_charge_is_drawn(self, ledger: Ledger, tmp_path: Path) -> None:
        """What an earlier try committed counts if this one asked for the value too: else it may hold the exact one."""
        ledger.grant(contract(), "opening")
        request = reservation(charges=(charge("a"), charge("b")))
        ledger.reserve(request, contract())
        first = budget(ledger, request, tmp_path)
        first.spend(charge("a"), value(1.0))
        with pytest.raises(ChargesDiffer, match="declared 'b' and did not draw"):
            first.finish("{}")
        again = budget(ledger, request, tmp_path)
        again.spend(charge("b"), value(1.0))
        with pytest.raises(ChargesDiffer, match="declared 'a' and did not draw"):
            again.finish("{}")
        assert (ledger.record("run-1").state, ledger.stored_document("run-1")) == ("reserved", None)
        assert again.spend(charge("a"), never) == 1.0
        again.finish("{}")
        assert ledger.verify().undrawn == ()

    def test_unknown_run(self, ledger: Ledger) -> None:
        with pytest.raises(RunConflict):
            ledger.finish("nobody", "{}", frozenset())
        with pytest.raises(RunConflict):
            ledger.statement("nobody")


def test_account_is_json(ledger: Ledger, tmp_path: Path) -> None:
    ledger.grant(contract("0.3", "1e-6"), "opening")
    finished(ledger, reservation(contract=contract("0.3")), contract("0.3"), tmp_path)
    account = ledger.account("trial")
    shown = json.loads(account.model_dump_json())
    assert shown["blocks"][0]["remaining"] == {"epsilon": 0.2, "delta": 1e-6}
    assert shown["runs"][0]["state"] == "finished"
    assert isinstance(account, Account)
    assert ledger.account("unheard-of").blocks == ()


def test_audit_lines_carry_amounts_and_no_value(ledger: Ledger, tmp_path: Path) -> None:
    with audit_lines() as lines:
        ledger.grant(contract("0.2"), "opening")
        request = reservation(contract=contract("0.2"))
        ledger.reserve(request, contract("0.2"))
        ledger.reserve(request, contract("0.2"))
        purse = budget(ledger, request, tmp_path)
        purse.spend(charge(), value(0.123456789))
        purse.spend(charge(), value(0.5))
        last = ledger.statement("run-1").entry_hash
        with pytest.raises(BudgetRefused):
            ledger.reserve(
                reservation("big", charges=(charge(epsilon="0.3"),), contract=contract("0.2")), contract("0.2")
            )
        ledger.reserve(reservation("dead", contract=contract("0.2")), contract("0.2"))
        ledger.void("dead", "power cut")
        purse.finish('{"estimate": 0.123456789}')
    assert [line["event"] for line in lines] == [
        "grant", "reserve", "resume", "charge", "refused", "reserve", "void", "finish",
    ]  # fmt: skip
    assert lines[3] == {
        "event": "charge",
        "study": "weeks",
        "run": "run-1",
        "dataset": "trial",
        "level": "sample",
        "stage": "perturb",
        "name": "outcome",
        "mechanism": "laplace",
        "scope": "all",
        "epsilon": "0.1",
        "delta": "0",
        "adds": "epsilon 0.1",
        "ledger": ledger.identity,
        "hash": last,
    }
    assert lines[6]["epsilon"] == "0.1"
    assert "1234567" not in json.dumps(lines)
    assert (0.123456789).hex() not in json.dumps(lines)


def test_pickles_and_hides_its_password(ledger: Ledger) -> None:
    copy = pickle.loads(pickle.dumps(ledger))
    copy.grant(contract(), "opening")
    assert ledger.verify() == copy.verify()
    password = ledger.store.url.password
    assert password is None or str(password) not in repr(ledger)


def test_throwaway(tmp_path: Path) -> None:
    ledger = throwaway_ledger(tmp_path)
    finished(ledger, reservation(), _granted(ledger), tmp_path)
    assert ledger.verify().runs == 1
    assert throwaway_ledger(tmp_path).identity == ledger.identity


def _granted(ledger: Ledger) -> Any:
    ledger.grant(contract(), "simulation")
    return contract()


@pytest.mark.parametrize("run_id", ["", "../x", ".hidden", "a/b", "a b", "x" * 121])
def test_run_ids_are_safe_as_folder_names(run_id: str) -> None:
    with pytest.raises(ValueError, match="run_id"):
        reservation(run_id)


@pytest.mark.parametrize(
    "charges",
    [(charge("release"),), (charge(), charge()), (charge().model_copy(update={"sensitivity": float("inf")}),)],
)
def test_bad_charges_cannot_be_reserved(charges: Any) -> None:
    with pytest.raises(ValueError):
        reservation(charges=charges)
