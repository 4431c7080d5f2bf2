"""kill -9 in every phase of a matching: record-level noise, too, is drawn once and found again.

As ``test_kill.py``: the parent kills a child at a stage chosen in turn and lets a second child finish the same run id.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from causalveil.schemas.release import load_release
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.flows.test_kill import _kill_at, _start, _stored
from tests.matching_help import matching_changes
from tests.studies import people, write_study

STAGES = ("start", "normalise", "propensity", "scores", "respond", "match", "perturb", "interval")
SEED = 20261122


@pytest.mark.timeout(900)
def test_kill_everywhere_and_resume(tmp_path: Path, home: Path) -> None:
    study = write_study(
        tmp_path / "study",
        frame=people(3000),
        partitions=3,
        study=matching_changes(level="sample", epsilon="1"),
        policy={"caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}}, "estimators": ["matching"]},
    )
    home.mkdir(mode=0o700)
    chance, histogram, survived = random.Random(SEED), Counter(), Counter()
    count = len(STAGES)
    for attempt in range(count):
        run_id, out = f"killed-{attempt}", tmp_path / "out" / str(attempt)
        child, phases = _start(study, out, run_id, home)
        histogram[_kill_at(child, phases, STAGES[attempt % len(STAGES)], chance.expovariate(200))] += 1
        before = _stored(home, run_id)
        survived.update(before.keys())

        child, _ = _start(study, out, run_id, home)
        child.join()
        assert child.exitcode == 0
        after = _stored(home, run_id)
        assert before.items() <= after.items(), "a stored value changed"
        assert set(after) == {"propensity", "scores", "treatment", "effect", "release"}
        open_ledger().verify_release(load_release(out / "release.json"))
        assert not (home / "records" / run_id).exists(), "a finished run leaves no records behind"

    (block,) = open_ledger().account("small").blocks
    assert block.spent.epsilon == count, "each run is charged once"
    assert block.reserved.epsilon == 0
    assert not list((home / "scratch").glob("*/enclave"))
    print(f"killed in: {dict(histogram)}; had released: {dict(survived)}")
    assert len(histogram) >= 4
    assert survived["scores"] > 0, "records that a dead run drew were found again"


def test_a_resumed_run_matches_on_the_same_records(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run dies after its records are drawn, twice; whoever resumes finds scores and arms as they were."""
    from causalveil.flows.api import run_study
    from causalveil.schemas.errors import CausalveilError
    from causalveil.tasks.matching import perturb as match_perturb
    from causalveil.tasks.matching import weights as match_weights

    study = write_study(tmp_path / "study", study=matching_changes(level="sample"), policy={"estimators": ["matching"]})
    honest, seen = match_weights.match_stage, []

    def watched(*arguments):
        seen.append(honest(*arguments))
        return seen[-1]

    watched.__name__ = "match_stage"
    monkeypatch.setattr(match_weights, "match_stage", watched)
    broken = match_perturb.perturb_stage
    for attempt in range(3):

        def dies(*_):
            raise RuntimeError("out of memory")

        dies.__name__ = "perturb_stage"
        monkeypatch.setattr(match_perturb, "perturb_stage", dies if attempt < 2 else broken)
        if attempt < 2:
            with pytest.raises(CausalveilError, match="withheld"):
                run_study(study, out=tmp_path / "out", run_id="again", engine="direct")
        else:
            run_study(study, out=tmp_path / "out", run_id="again", engine="direct")
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
