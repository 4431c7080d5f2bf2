"""Tables on a terminal of eighty columns: no cell is cut, and every number stands whole on one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from causalveil.flows.cli import show
from causalveil.flows.plan.study_plan import plan_study
from causalveil.schemas.ledger import Account, RunAccount, Sum
from causalveil.schemas.plan import Plan
from causalveil.schemas.privacy import Level, amount_text

DATA = Path(__file__).parents[2] / "data"
STUDIES = sorted(DATA.rglob("study*.yaml"))


def on_a_terminal(plan: Plan, width: int) -> str:
    console = Console(width=width)
    with console.capture() as found:
        console.print(show.charge_table(plan.charges, title="Charges"))
    return found.get()


@pytest.mark.parametrize("path", STUDIES, ids=[path.relative_to(DATA).as_posix() for path in STUDIES])
@pytest.mark.parametrize("width", [80, 120])
def test_no_charge_is_cut(path: Path, width: int) -> None:
    """A delta of 1e-5 was printed as 1e, and a formula ended in three dots."""
    _, plan = plan_study(path)
    shown = on_a_terminal(plan, width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    words = shown.split()
    for charge in plan.charges:
        assert {amount_text(charge.epsilon), amount_text(charge.delta)} <= {*words}
        assert charge.sensitivity is not None or " ".join(charge.formula.split()) in " ".join(words)


def test_a_ledger_shows_each_runs_study(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its column had no letter's width beside an id of usual length."""
    monkeypatch.setenv("COLUMNS", "80")
    run = RunAccount(
        run_id="fertility-weeks-worked-223e2611",
        study="weeks-worked",
        level=Level.training_units,
        blocks=("all",),
        state="finished",
        cost=Sum(),
        spent=Sum(),
    )
    show.account(Account(dataset="fertility", ledger="0" * 32, caps={}, blocks=(), runs=(run,), older_runs=0))
    _, _, shown = capfd.readouterr().out.partition("Runs, newest first")
    assert "weeks-worked" in [row.strip() for row in shown.splitlines()]
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
