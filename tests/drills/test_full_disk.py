"""A disk that is full under the scratch folder, the releases or the ledger: a line that says so, and the run goes on.

Each is a file system of its own of a few megabytes, so that the system itself refuses to write.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests import crash
from tests.crash import FINISH
from tests.faults import RELEASED, WHY_NO_CLUSTER, WHY_NO_DISK, cluster, fill, halted, small_disk
from tests.flows.test_kill import CAPS
from tests.studies import people, write_study

# Kilobytes that are left: at each the disk is full at another write.
LEFT = {"scratch": (0, 16, 200), "out": (0, 4), "ledger": (0, 4, 20, 40)}
SPLIT = "stage:split"
PLACES = {"scratch": ("stage:validate", "stage:normalise", "stage:split"), "out": ("stage:validate", "stage:interval")}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 8) as folder:
        if folder is None:
            pytest.skip(WHY_NO_DISK)
        yield folder


def study(folder: Path) -> Path:
    return write_study(folder, frame=people(6000), contract={"caps": CAPS})


def finish(run_id: str, path: Path, out: Path, url: str, before: dict[str, str]) -> None:
    """With room again the same run ends: what was stored is what it returns."""
    run_study(path, out=out, run_id=run_id)
    after = crash.stored(url, run_id)
    assert before.items() <= after.items(), "a stored value changed"
    assert set(after) == {"propensity", "effect", FINISH}
    open_ledger().verify_release((out / "release.json").read_text())


def settle(runs: int) -> None:
    block = open_ledger().account("small").blocks[0]
    assert (block.spent.epsilon, block.reserved.epsilon) == (runs, 0)
    open_ledger().verify()


def charging(places: list[str]) -> tuple[str, ...]:
    """Every commit from the reservation on, and a stage between two."""
    return tuple(
        place for place in places[places.index("before:reserve") :] if place.startswith("before:") or place == SPLIT
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("what", ["scratch", "out", "ledger"])
def test_a_full_disk(
    what: str,
    every: bool,
    disk: Path,
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Any,
) -> None:
    path, around = study(tmp_path / "study"), {"CAUSALVEIL_HOME": str(home), "CAUSALVEIL_ENGINE": "direct"}
    url = f"sqlite:///{(disk if what == 'ledger' else home) / 'ledger.db'}"
    if what == "scratch":
        around["CAUSALVEIL_SCRATCH"] = str(disk / "scratch")
    if what == "ledger":
        around["CAUSALVEIL_LEDGER_URL"] = url
    for name, value in around.items():
        monkeypatch.setenv(name, value)
    places = crash.places(str(path), str(tmp_path / "whole"), "whole", around)
    ended: Counter[str] = Counter()
    chosen = PLACES.get(what) or charging(places)
    for left in LEFT[what] if every else LEFT[what][:1]:
        for place in chosen if every else chosen[1:2]:
            run_id = f"full-{ended.total()}"
            out = (disk if what == "out" else tmp_path) / run_id
            full: list[Path] = []
            how = halted(
                place, lambda to=full, size=left: to.append(fill(disk, size << 10)), str(path), str(out), run_id, around
            )
            full[0].unlink()
            ended[RELEASED if how == RELEASED else "refused"] += 1
            if how != RELEASED:
                assert how.isprintable(), how
                assert "withheld" not in how, how
                assert place == "before:reserve" or run_id in how, f"does not say how to go on: {how}"
            finish(run_id, path, out, url, crash.stored(url, run_id))
    settle(ended.total() + 1)
    record_property("summary", f"disk full under {what}: {dict(ended)}")
    assert ended["refused"] > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_full_disk_under_postgresql(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    """The server itself stops for want of room for its log, or refuses statements; it is started again with room."""
    # Not below the test's folder, which is closed to the server's user.
    mount = Path(tempfile.mkdtemp(prefix="causalveil-drill-"))
    mount.chmod(0o711)
    with small_disk(mount, 120) as place:
        if place is None:
            pytest.skip(WHY_NO_DISK)
        # The server's own user must be able to come there.
        place.chmod(0o711)
        with cluster(within=place) as server:
            if server is None:
                pytest.skip(WHY_NO_CLUSTER)
            monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", server.url)
            url = server.url.replace("postgresql:", "postgresql+psycopg:")
            around = {"CAUSALVEIL_HOME": str(home), "CAUSALVEIL_LEDGER_URL": server.url, "CAUSALVEIL_ENGINE": "direct"}
            path = study(tmp_path / "study")
            places = crash.places(str(path), str(tmp_path / "whole"), "whole", around)
            ended: Counter[str] = Counter()
            for left in (0, 100):
                for at in charging(places):
                    run_id, full = f"full-{ended.total()}", list[Path]()
                    out = tmp_path / run_id
                    how = halted(
                        at,
                        lambda to=full, size=left: to.append(fill(place, size << 10)),
                        *(str(path), str(out), run_id, around),
                    )
                    full[0].unlink()
                    ended[RELEASED if how == RELEASED else "refused"] += 1
                    server.end()
                    server.start()
                    finish(run_id, path, out, url, crash.stored(url, run_id))
            settle(ended.total() + 1)
            record_property("summary", f"disk full under PostgreSQL: {dict(ended)}")


@pytest.mark.timeout(600)
def test_the_advice_of_a_full_scratch_is_true_when_followed(
    disk: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another state folder would be another ledger and a second answer of the same run."""
    monkeypatch.setenv("CAUSALVEIL_SCRATCH", str(disk / "scratch"))
    path, out = study(tmp_path / "study"), tmp_path / "out"
    around = {"CAUSALVEIL_HOME": str(home), "CAUSALVEIL_SCRATCH": str(disk / "scratch")}
    how = halted(SPLIT, lambda: fill(disk, 0), str(path), str(out), "full", around)  # type: ignore[arg-type, return-value]
    (named,) = set(re.findall(r"CAUSALVEIL_[A-Z]+", how))
    monkeypatch.setenv(named, str(tmp_path / "room"))
    run_study(path, out=out, run_id="full", engine="direct")
    monkeypatch.delenv("CAUSALVEIL_SCRATCH")
    monkeypatch.setenv("CAUSALVEIL_HOME", str(home))
    assert [run.state for run in open_ledger().account("small").runs] == ["finished"]
    settle(1)
