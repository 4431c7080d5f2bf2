"""The three-site study from one command: three hospitals and a coordinator, each with a home of its own.

    uv run python data/sites/run.py
    uv run python data/sites/run.py --study study-protocol.yaml        # many questions at once
    uv run python data/sites/run.py --study study-times.yaml           # times to an event

Every step is a command that a person would type, and is printed. Each hospital is a process of its own with its own
data, contract, ledger and key; the coordinator sees bundles and nothing else. Everything lands in releases/ROUND/.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
STUDIES = ("study.yaml", "study-protocol.yaml", "study-times.yaml")
# What each hospital agreed to spend where that is not what the study says.
AGREED = {"north": None, "coast": "0.5", "valley": None}


class Party:
    """A hospital or the coordinator: a folder, and a state folder of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        """Make the folder."""
        self.name, self.folder = name, folder
        folder.mkdir(parents=True)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a causalveil command in this party's home."""
        print(f"[{self.name}] causalveil {' '.join(words)}", flush=True)
        return subprocess.Popen(
            [sys.executable, "-m", "causalveil", *words],
            env={**os.environ, "CAUSALVEIL_HOME": str(self.folder / "home"), "CAUSALVEIL_LEDGER_URL": ""},
            cwd=HERE.parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self, *words: str) -> str:
        """Run a command to its end; stop everything if it fails."""
        return finish(self.start(*words))


def finish(process: subprocess.Popen[str]) -> str:
    """What a command printed."""
    out, err = process.communicate()
    if process.returncode != 0:
        raise SystemExit(err.strip())
    return out


def study_of(site: str, file: str) -> str:
    """The study as it lies beside a hospital's data: what a person would change in an editor."""
    text = (HERE / file).read_text(encoding="utf-8").replace("{path: .}", f"{{path: {HERE / site}}}")
    agreed = AGREED[site]
    return text if agreed is None else text.replace("{epsilon: 1.0,", f"{{epsilon: {agreed},")


def terms(round_: str, keys: dict[str, str], now: datetime) -> str:
    """The coordinator's sites.yaml: written before an answer is seen."""
    lines = [
        "kind: sites",
        f"round: {round_}",
        "study: study.yaml",
        "bundles: bundles",
        f"opened: {now:%Y-%m-%dT%H:%M:%SZ}",
        "units_disjoint: true        # declared: no one is a patient of two of them",
        "model: random",
        "sites:",
    ]
    for site, key in keys.items():
        agreed = AGREED[site]
        privacy = "" if agreed is None else f", privacy: {{epsilon: {agreed}}}"
        lines.append(f"  {site}: {{key: {key}, expires: {now + timedelta(days=365):%Y-%m-%d}{privacy}}}")
    return "\n".join(lines) + "\n"


def main(out: Path, engine: str, file: str = "study.yaml") -> None:
    """Keys, signed terms, three runs at once, bundles, pool, report."""
    now = datetime.now(UTC)
    round_ = f"round-{now:%Y%m%dT%H%M%S}"
    folder = (out / round_).resolve()
    hospitals = {site: Party(site, folder / site) for site in AGREED}
    coordinator = Party("coordinator", folder / "coordinator")

    asked = {site: party.start("bundle", "key", "--json") for site, party in hospitals.items()}
    keys = {site: json.loads(finish(process))["key"] for site, process in asked.items()}
    shutil.copy(HERE / file, coordinator.folder / "study.yaml")
    (coordinator.folder / "sites.yaml").write_text(terms(round_, keys, now), encoding="utf-8")
    (coordinator.folder / "bundles").mkdir()
    coordinator.answer("round", "open", str(coordinator.folder / "sites.yaml"))

    running = []
    for site, party in hospitals.items():
        study = party.folder / "study.yaml"
        study.write_text(study_of(site, file), encoding="utf-8")
        call = shutil.copy(coordinator.folder / "round.json", party.folder)
        words = ("run", str(study), "--site", site, "--round", str(call), "--engine", engine)
        running.append(party.start(*words, "--out", str(party.folder / "release")))
    for process in running:
        finish(process)
    sent = {site: party.folder / "release" / "bundle.json" for site, party in hospitals.items()}
    for process in [party.start("bundle", "show", str(sent[site])) for site, party in hospitals.items()]:
        finish(process)  # a person reads it here, before it leaves
    for site, bundle in sent.items():
        shutil.copy(bundle, coordinator.folder / "bundles" / f"{site}.json")

    pooled = coordinator.folder / "pooled"
    print(coordinator.answer("pool", str(coordinator.folder / "sites.yaml"), "--out", str(pooled)))
    print(coordinator.answer("report", str(pooled / "release.json")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The three-site study of data/sites/ from one command.")
    parser.add_argument("--out", type=Path, default=Path("releases"), help="where the round's folder is made")
    parser.add_argument("--engine", choices=("direct", "prefect"), default="direct")
    parser.add_argument("--study", choices=STUDIES, default=STUDIES[0])
    options = parser.parse_args()
    main(options.out, options.engine, options.study)
