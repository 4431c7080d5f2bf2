"""Write the ledger and the releases of this version that later versions are held to: ``python -m tests.kept.make``.

They lie in a folder named by the version, made once for each; a later version leaves those of earlier ones as they
are.
"""

from __future__ import annotations

import gzip
import os
import platform
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from causalveil.flows.api import run_study
from causalveil.schemas.contract import load_contract
from causalveil.schemas.documents import own_version
from causalveil.schemas.errors import ReleaseHeld
from causalveil.schemas.release import RELEASE_FILE
from causalveil.tasks.privacy.keys import owner_key
from causalveil.tasks.privacy.ledger.entry import ReviewVerdict
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.flows.test_kill import STUDIES

FOLDER = Path(__file__).parent
# One of each kind of release, and the estimator that is the default; the first waits for its owner's review.
KEPT = ("ipw", "regression", "direction", "survival, adjusted", "survival, protocol")


def make(folder: Path) -> None:
    """Ask each study of a dataset of its own, in one ledger; keep ledger, studies and releases."""
    folder.mkdir()
    home = folder / "home"
    os.environ |= {"CAUSALVEIL_HOME": str(home), "CAUSALVEIL_ACTOR": "ada", "CAUSALVEIL_WORKERS": "1"}
    platform.node = lambda: "clinic"
    owner, ledger = owner_key(create=True), open_ledger()
    for name in KEPT:
        run = name.replace(", ", "-")
        with tempfile.TemporaryDirectory() as data:
            study = STUDIES[name][1](Path(data), {"name": run})
            contract = study.with_name("dataset.yaml")
            text = contract.read_text().replace("dataset: small", f"dataset: {run}")
            reviewed = f"review: required\nowner_key: {owner.public}\n" if name == KEPT[0] else ""
            contract.write_text(text + reviewed)
            ledger.grant(load_contract(contract), "opening", owner)
            with suppress(ReleaseHeld):
                run_study(study, out=home / run, run_id=run, engine="direct")
            if reviewed:
                ledger.review(run, ReviewVerdict.approve, owner)
            (folder / run).mkdir()
            (folder / run / RELEASE_FILE).write_text(str(ledger.stored_document(run)))
            shutil.copy(study, folder / run)
    (folder / "ledger.db.gz").write_bytes(gzip.compress((home / "ledger.db").read_bytes(), mtime=0))
    shutil.rmtree(home)


if __name__ == "__main__":
    make(FOLDER / own_version())
