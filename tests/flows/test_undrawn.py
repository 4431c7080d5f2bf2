"""What is declared is drawn: a stage that leaves a draw out publishes nothing, and old runs that did are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.schemas.errors import ChargesDiffer
from causalveil.schemas.ledger import DOCUMENT
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from causalveil.tasks.privacy.ledger.outlook import desk_of
from causalveil.tasks.privacy.mechanisms import GaussianNoise, LatticeLaplace
from tests.ledger_help import contract, finished, reservation
from tests.matching_help import matching_changes
from tests.studies import write_study

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
        with pytest.raises(SystemExit) as ended:
            main(["ledger", "verify", *more])
        assert ended.value.code == 5
        shown = capfd.readouterr()
        assert "never drew charges that they declared: old (outcome);" in shown.err
    assert json.loads(shown.out)["error"]["exit_code"] == 5
    assert any("Run old is finished and never drew outcome" in one.text for one in desk_of(ledger).concerns)
