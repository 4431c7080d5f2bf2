"""Record-level noise, too, is drawn once and found again; crashes at exact places are in ``test_crash.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from causalveil.tasks.enclave.enclave import MemoryEnclave
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.matching_help import matching_changes
from tests.studies import write_study


def test_a_resumed_run_matches_on_the_same_records(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run dies after its records are drawn, twice; whoever resumes finds scores and arms as they were."""
    from causalveil.flows.api import run_study
    from causalveil.schemas.errors import CausalveilError
    from causalveil.tasks.matching import weights

    study = write_study(
        tmp_path / "study", study=matching_changes(level="sample"), contract={"estimators": ["matching"]}
    )
    honest, seen = weights.match_stage, []

    def watched(*arguments):
        found = honest(*arguments)
        # The plan rehearses the stage on people whom nobody is; they lie in memory.
        if not any(isinstance(argument, MemoryEnclave) for argument in arguments):
            seen.append(found)
        return found

    watched.__name__ = "match_stage"
    monkeypatch.setattr(weights, "match_stage", watched)
    broken = weights.perturb_stage
    for attempt in range(3):

        def dies(*_):
            raise RuntimeError("out of memory")

        dies.__name__ = "perturb_stage"
        monkeypatch.setattr(weights, "perturb_stage", dies if attempt < 2 else broken)
        if attempt < 2:
            with pytest.raises(CausalveilError, match="withheld"):
                run_study(study, out=tmp_path / "out", run_id="again", engine="direct")
        else:
            run_study(study, out=tmp_path / "out", run_id="again", engine="direct")
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
