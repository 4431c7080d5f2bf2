"""The three hospitals of data/sites/ and their protocol, run once and pooled as often as a test wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sites_help import Call, Party

HERE = Path(__file__).parents[1] / "data" / "sites"
STUDY = HERE / "study-protocol.yaml"
NAMES = ("north", "coast", "valley")


def hospitals(folder: Path) -> dict[str, Party]:
    """Each has run the protocol."""
    parties = {name: Hospital(name, folder / name, 0) for name in NAMES}
    for party in parties.values():
        party.run("asked")
    return parties


def call_of(folder: Path, parties: dict[str, Party], **terms: Any) -> Call:
    """A coordinator with every bundle."""
    call = Call(folder, parties)
    call.write(**terms)
    (folder / "study.yaml").write_text(study_text("."))
    for name, party in parties.items():
        call.put(name, party.bundle("asked", call.signed()))
    return call


def study_text(place: str) -> str:
    """The study beside a hospital's data, at epsilon 5, which every owner allows."""
    text = STUDY.read_text(encoding="utf-8").replace("{path: .}", f"{{path: {place}}}")
    return text.replace("epsilon: 1.0", "epsilon: 5.0")


class Hospital(Party):
    """A site whose data lie in data/sites/."""

    def run(self, run_id: str, **changes: Any) -> Path:
        """A finished run of the protocol."""
        del changes
        path = self.folder / "study.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(study_text(str(HERE / self.name)))
        return self.ran(path, run_id)
