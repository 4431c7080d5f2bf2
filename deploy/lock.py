"""Renew the lock: `requirements.lock` (versions and hashes) and the same versions as constraints in `uv.toml`.

    rm -f uv.toml uv.lock && uv run --no-project python deploy/lock.py

`uv run` obeys the constraints, so that every clone resolves to the locked versions; `requirements.lock` serves
`pip install --require-hashes` where an installation must be verified byte by byte. uv's own lock file is not
committed: it names download hosts, and the two files here do not.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# Written by deploy/lock.py; do not edit.\n"


def main() -> None:
    """Resolve afresh and write both files."""
    command = "uv export --quiet --no-emit-workspace --all-groups --no-annotate --no-header --format requirements.txt"
    lock = subprocess.run(command.split(), cwd=ROOT, check=True, capture_output=True, text=True).stdout
    if "://" in lock:
        raise SystemExit("the export names a host; refusing to write it")
    (ROOT / "requirements.lock").write_text(HEADER + lock)
    pins = [re.split(r"\s*\\$", line)[0].strip() for line in lock.splitlines() if re.match(r"\w", line)]
    body = "".join(f'    "{pin}",\n' for pin in pins)
    (ROOT / "uv.toml").write_text(f"{HEADER}constraint-dependencies = [\n{body}]\n")


if __name__ == "__main__":
    main()
