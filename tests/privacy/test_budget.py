"""FlowBudget: one draw for each (run, name), whatever fails and whoever asks."""

from __future__ import annotations

import pickle
import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalveil.schemas.errors import BudgetRefused, CausalveilError, ConvergenceError, LedgerError
from causalveil.schemas.privacy import Charge
from causalveil.tasks.privacy.budget import FlowBudget, _decode, _encode, records_folder
from causalveil.tasks.privacy.ledger.ledger import Ledger, Released
from tests.ledger_help import DATASET, budget, charge, contract, never, reservation, value

CHARGES = (charge("model", "0.25"), charge("outcome", "0.25"))


@pytest.fixture
def purse(ledger: Ledger, tmp_path: Path) -> FlowBudget:
    """The budget of a run that is reserved."""
    ledger.grant(contract(), "opening")
    request = reservation(charges=CHARGES)
    ledger.reserve(request, contract())
    return budget(ledger, request, tmp_path)


def entries(purse: FlowBudget) -> int:
    return purse.ledger.verify().entries


class TestSpend:
    def test_a_second_call_finds_the_first_value(self, purse: FlowBudget) -> None:
        drawn = np.random.default_rng().standard_normal((3, 2)) * 1e-300
        first = purse.spend(CHARGES[0], lambda _noise: drawn)
        again = pickle.loads(pickle.dumps(purse)).spend(CHARGES[0], never)
        for array in (first, again):
            assert array.dtype == np.float64
            assert array.shape == (3, 2)
            assert array.tobytes() == drawn.tobytes()
        assert entries(purse) == 4

    def test_the_source_reaches_the_draw(self, purse: FlowBudget) -> None:
        seen = []
        purse.spend(CHARGES[0], lambda noise: seen.append(noise) or np.zeros(1))
        assert seen == [purse.noise]

    def test_the_draw_happens_before_the_commit_and_the_return_after(self, purse: FlowBudget) -> None:
        inside = []

        def draw(_noise: Any) -> Any:
            with purse.ledger.store.read() as connection:
                inside.append(len(list(purse.ledger.store.select(connection))))
            return np.zeros(1)

        purse.spend(CHARGES[0], draw)
        assert inside == [3]
        assert entries(purse) == 4

    @pytest.mark.parametrize("error", [ConvergenceError("x"), ValueError("x"), KeyboardInterrupt()])
    def test_a_failing_draw_charges_nothing(self, purse: FlowBudget, error: BaseException) -> None:
        def draw(_noise: Any) -> Any:
            raise error

        with pytest.raises(type(error)):
            purse.spend(CHARGES[0], draw)
        assert entries(purse) == 3
        purse.spend(CHARGES[0], value(1.0))

    @pytest.mark.parametrize(
        "drawn", [np.array([1, 2]), np.array([np.nan]), np.array([np.inf]), np.array([1.0], dtype=np.float32)]
    )
    def test_only_finite_doubles(self, purse: FlowBudget, drawn: Any) -> None:
        with pytest.raises(CausalveilError, match="nothing was charged"):
            purse.spend(CHARGES[0], lambda _noise: drawn)
        assert entries(purse) == 3

    @pytest.mark.parametrize(
        "change",
        [
            {"name": "other"},
            {"epsilon": "0.26"},
            {"epsilon": "0.24"},
            {"delta": "1e-9"},
            {"sensitivity": 0.3},  # 0.1 + 0.2 was declared
            {"noise_scale": 0.3333},
            {"noise_scale": None},
            {"mechanism": "gaussian"},
            {"scope": "train"},
            {"stage": "propensity"},
            {"formula": "1/n"},
        ],
    )
    def test_only_what_was_declared(self, purse: FlowBudget, change: dict[str, Any]) -> None:
        other = Charge.model_validate({**CHARGES[0].model_dump(), **change})
        for act in (purse.spend, purse.spend_records):
            with pytest.raises(BudgetRefused, match="did not declare"):
                act(other, never)
        purse.spend(CHARGES[0], value(1.0))
        with pytest.raises(BudgetRefused):
            purse.spend(other, never)

    def test_not_without_a_reservation(self, ledger: Ledger, tmp_path: Path) -> None:
        for act in (
            budget(ledger, reservation(), tmp_path).spend,
            budget(ledger, reservation(), tmp_path).spend_records,
        ):
            with pytest.raises(BudgetRefused, match="no reservation"):
                act(charge(), never)

    def test_threads_see_one_draw(self, purse: FlowBudget) -> None:
        draws: list[int] = []
        values: list[bytes] = []

        def work() -> None:
            def draw(_noise: Any) -> Any:
                draws.append(1)
                return np.random.default_rng().standard_normal(4)

            values.append(purse.spend(CHARGES[0], draw).tobytes())

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(draws), len(values), len(set(values))) == (1, 8, 1)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_every_double_comes_back(numbers: list[float]) -> None:
    array = np.array(numbers, dtype=np.float64)
    assert _decode(Released(_encode(array, charge()), "", fresh=True)).tobytes() == array.tobytes()


class TestRecords:
    ARRAY = np.arange(1000, dtype=np.uint8)

    def draw(self, _noise: Any) -> Any:
        return self.ARRAY

    def test_stored_privately_and_found_again(self, purse: FlowBudget) -> None:
        first = purse.spend_records(CHARGES[0], self.draw)
        again = purse.spend_records(CHARGES[0], never)
        for array in (first, again):
            assert array.dtype == np.uint8
            assert (array == self.ARRAY).all()
        (file,) = purse.records.iterdir()
        assert stat.S_IMODE(purse.records.stat().st_mode) == 0o700
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with purse.ledger.store.read() as connection:
            last = list(purse.ledger.store.select(connection))[-1]
        assert set(last.document) == {"by", "charge", "records"}
        assert last.document["records"]["file"] == file.name

    def test_finish_removes_them(self, purse: FlowBudget) -> None:
        purse.spend_records(CHARGES[0], self.draw)
        purse.spend(CHARGES[1], value(1.0))
        purse.finish("{}")
        assert not purse.records.exists()

    @pytest.mark.parametrize(("harm", "words"), [("lose", "is lost"), ("alter", "was altered")])
    def test_lost_or_altered_ends_the_run_and_the_charge_stands(self, purse: FlowBudget, harm: str, words: str) -> None:
        purse.spend_records(CHARGES[0], self.draw)
        (file,) = purse.records.iterdir()
        if harm == "lose":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-1] + b"\0")
        with pytest.raises(CausalveilError, match=f"{words}; the charge stands"):
            purse.spend_records(CHARGES[0], never)
        purse.ledger.void(purse.run_id, "records lost")
        assert str(purse.ledger.account(DATASET).blocks[0].spent.epsilon) == "0.25"

    def test_a_failing_draw_leaves_nothing(self, purse: FlowBudget) -> None:
        def draw(_noise: Any) -> Any:
            raise ConvergenceError("x")

        with pytest.raises(ConvergenceError):
            purse.spend_records(CHARGES[0], draw)
        assert entries(purse) == 3
        assert not purse.records.exists()

    def test_unwritable_folder(self, purse: FlowBudget) -> None:
        purse.records.parent.mkdir()
        purse.records.write_text("not a folder")
        with pytest.raises(CausalveilError, match="nothing was charged"):
            purse.spend_records(CHARGES[0], self.draw)
        assert entries(purse) == 3

    def test_the_loser_of_a_race_returns_the_winner_s_file(self, purse: FlowBudget) -> None:
        winner = np.zeros(3)

        def draw(_noise: Any) -> Any:
            purse.spend_records(CHARGES[0], lambda _noise: winner)
            return np.ones(3)

        assert (purse.spend_records(CHARGES[0], draw) == winner).all()
        assert len(list(purse.records.iterdir())) == 1
        assert entries(purse) == 4

    def test_values_and_records_do_not_mix(self, purse: FlowBudget) -> None:
        purse.spend(CHARGES[0], value(1.0))
        with pytest.raises(LedgerError):
            purse.spend_records(CHARGES[0], never)
        purse.spend_records(CHARGES[1], self.draw)
        with pytest.raises(LedgerError):
            purse.spend(CHARGES[1], never)


def test_records_folder(home: Path) -> None:
    assert records_folder("run-1") == home / "records" / "run-1"


@pytest.mark.parametrize("which", ["records", "records/run-1"])
def test_records_do_not_follow_a_link(ledger: Ledger, tmp_path: Path, which: str) -> None:
    """A planted link would carry values of single units out of the state folder."""
    request = reservation()
    ledger.grant(contract(), "opening")
    ledger.reserve(request, contract())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / which).parent.mkdir(exist_ok=True)
    (tmp_path / which).symlink_to(elsewhere)
    with pytest.raises(CausalveilError, match="is a link"):
        budget(ledger, request, tmp_path).spend_records(charge(), value(1.0, 2.0))
    assert list(elsewhere.iterdir()) == []
    assert ledger.charges_of("run-1") == 0
