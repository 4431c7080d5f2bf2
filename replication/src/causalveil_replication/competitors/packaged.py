"""PrivSyn as the package privsyn-core ships it, in a Python environment of its own, then matching on what it made.

What the package selects is not what the paper's algorithm would (`privsyn.py` here): columns that are left over join
their least dependent partner, and selection stops early at few units. Its noise and its guarantee are its own.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import partial
from pathlib import Path

import numpy as np

from causalveil.schemas.errors import StudyError
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil_replication.competitors.coded import coded, estimate
from causalveil_replication.competitors.competitor import ADD_REMOVE, DELTA, Competitor, Fitted, Instance

NAME, PACKAGE = "privsyn_core", "privsyn-core==0.1.1"
WANTED = (
    f"PrivSyn as packaged is left out: name with --privsyn the Python of an environment that has {PACKAGE} "
    f"(`uv venv FOLDER`, `uv pip install --python FOLDER {PACKAGE}`; then FOLDER/bin/python)."
)
# The package prints as it works, and so its output goes elsewhere.
SCRIPT = f"""
import json, sys
out, sys.stdout = sys.stdout, sys.stderr
import pandas
from privsyn import PrivSynModel
given = json.load(sys.stdin)
names = [str(place) for place in range(len(given["sizes"]))]
model = PrivSynModel(epsilon=given["epsilon"], delta={DELTA}, random_state=given["seed"])
model.fit(pandas.DataFrame(given["codes"], columns=names), dict(zip(names, given["sizes"])))
json.dump(model.sample(len(given["codes"]))[names].to_numpy().tolist(), out)
"""


def competitor(python: Path | None) -> Competitor:
    """The competitor, run by that Python; without one it can be looked up in kept pieces alone."""
    fit = partial(_fitted, python=python)
    return Competitor(NAME, "PrivSyn as packaged, then matching", "sample", ADD_REMOVE, "the package's", DELTA, fit)


def _fitted(instance: Instance, python: Path | None) -> Fitted:
    if python is None:
        raise StudyError(WANTED)
    table = coded(instance)

    # The secret order of the units tells runs apart.
    seed = int.from_bytes(hashlib.sha256(instance.rows.u.tobytes()).digest()[:4])

    def release(epsilon: str, budget: Budget) -> float | None:  # noqa: ARG001  (the package has noise of its own)
        given = {"codes": table.codes.tolist(), "sizes": list(table.sizes), "epsilon": float(epsilon), "seed": seed}
        command = [str(python), "-c", SCRIPT]
        done = subprocess.run(command, input=json.dumps(given), capture_output=True, check=False, text=True)
        if done.returncode != 0:
            raise StudyError(f"{python}: {PACKAGE} does not run there; name a Python that has it")
        return estimate(instance, table, np.array(json.loads(done.stdout), dtype=np.int64))

    return Fitted(None, release)
