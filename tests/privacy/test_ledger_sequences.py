"""Random sequences of everything that can happen to a ledger: never above a cap, and it always verifies."""

from __future__ import annotations

import secrets
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.privacy import Level
from causalveil.tasks.privacy.ledger.ledger import Ledger
from tests.ledger_help import budget, charge, contract, reservation, value

AMOUNTS = st.sampled_from(["0.1", "0.2", "0.3", "1e-12", "0.333333333333333"])
SCOPES = st.sampled_from(["all", "train", "estimation"])
RUNS = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), AMOUNTS),
        st.tuples(
            st.just("reserve"),
            RUNS,
            st.lists(st.tuples(AMOUNTS, SCOPES), min_size=1, max_size=3),
            st.sets(st.sampled_from(["x", "y", "z"]), min_size=1),
        ),
        st.tuples(st.just("spend"), RUNS, st.integers(0, 2)),
        st.tuples(st.sampled_from(["void", "void_if_untouched", "finish"]), RUNS),
    ),
    max_size=25,
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_any_sequence(ledger: Ledger, tmp_path: Path, steps: list[Any]) -> None:
    world = World(ledger, tmp_path)
    for step in steps:
        world.take(*step)
        world.check()
    ledger.verify()


class World:
    """A plain second account of what the ledger should hold, in the simplest Python."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self.dataset = f"d{secrets.token_hex(6)}"
        self.owner = contract("1", dataset=self.dataset)
        ledger.grant(self.owner, "opening")
        self.cap = Decimal(1)
        self.runs: dict[int, dict[str, Any]] = {}

    def take(self, verb: str, *arguments: Any) -> None:
        with suppress(CausalveilError):
            getattr(self, verb)(*arguments)

    def grant(self, epsilon: str) -> None:
        self.owner = contract(epsilon, dataset=self.dataset)
        self.ledger.grant(self.owner, "change")
        self.cap = Decimal(epsilon)

    def reserve(self, number: int, plan: list[tuple[str, str]], blocks: set[str]) -> None:
        charges = tuple(charge(f"c{index}", epsilon, scope=scope) for index, (epsilon, scope) in enumerate(plan))
        request = reservation(
            f"{self.dataset}-{number}",
            charges=charges,
            cost={"epsilon": composed(charges), "delta": "0"},
            blocks=tuple(blocks),
            contract=self.owner,
        )
        room = all(self.used(block) + request.cost.epsilon <= self.cap for block in blocks)
        taken = number in self.runs
        outcome = "refused"
        try:
            outcome = self.ledger.reserve(request, self.owner)
        finally:
            if not taken:
                assert outcome == ("reserved" if room else "refused")
        if not taken:
            self.runs[number] = {"request": request, "drawn": [], "state": "reserved"}

    def spend(self, number: int, index: int) -> None:
        run = self.runs.get(number)
        if run is None or index >= len(run["request"].charges):
            return
        purse = budget(self.ledger, run["request"], self.folder)
        one = run["request"].charges[index]
        purse.spend(one, value(1.0))
        if one not in run["drawn"]:
            assert run["state"] == "reserved"
            run["drawn"].append(one)

    def void(self, number: int) -> None:
        self.ledger.void(f"{self.dataset}-{number}", "test")
        assert self.runs[number]["state"] == "reserved"
        self.runs[number]["state"] = "voided"

    def void_if_untouched(self, number: int) -> None:
        if self.ledger.void_if_untouched(f"{self.dataset}-{number}", "test"):
            assert (self.runs[number]["state"], self.runs[number]["drawn"]) == ("reserved", [])
            self.runs[number]["state"] = "voided"

    def finish(self, number: int) -> None:
        run = self.runs.get(number)
        declared = () if run is None else run["request"].charges
        self.ledger.finish(f"{self.dataset}-{number}", "{}", {one.name for one in declared})
        assert len(self.runs[number]["drawn"]) == len(declared)
        self.runs[number]["state"] = "finished"

    def used(self, block: str) -> Decimal:
        return sum(
            (
                composed(run["drawn"]) if run["state"] == "voided" else run["request"].cost.epsilon
                for run in self.runs.values()
                if block in run["request"].blocks
            ),
            Decimal(0),
        )

    def check(self) -> None:
        account = self.ledger.account(self.dataset, self.owner)
        assert account.caps[Level.sample].epsilon == self.cap
        for block in account.blocks:
            assert block.spent.epsilon + block.reserved.epsilon == self.used(block.block) <= 1
            assert block.remaining.epsilon == max(self.cap - self.used(block.block), Decimal(0))
        states = {run.run_id: run.state for run in account.runs}
        assert states == {f"{self.dataset}-{number}": run["state"] for number, run in self.runs.items()}


def composed(charges: Any) -> Decimal:
    sums = {scope: Decimal(0) for scope in ("all", "train", "estimation")}
    for one in charges:
        sums[one.scope] += one.epsilon
    return sums["all"] + max(sums["train"], sums["estimation"])
