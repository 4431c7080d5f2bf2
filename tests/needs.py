"""What tests use where it can be had, and skip without: servers, a browser, published data. Said once, at the start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests import browser, postgres

ROOT = Path(__file__).parents[1]
# Published data sets that are not ours to ship lie beside the checkout; the gate never has them.
SHARED = ROOT.parent / "shared" / "data"
FOLDERS = (ROOT / "data", SHARED)
# What is looked for below these folders, and how many tests use it.
DATA = {"lalonde722.csv": 1, "ihdp/ihdp_1.csv": 1}


# Azure's emulator: `npm install azurite` leaves it in node_modules/.bin, on no path.
AZURITE = os.environ.get("CAUSALVEIL_TEST_AZURITE") or shutil.which("azurite-blob")
NO_AZURITE = "no azurite-blob: npm install azurite, and let CAUSALVEIL_TEST_AZURITE name it"


def shared(name: str) -> Path:
    """A published file or folder beside the checkout; where it is missing, the test skips."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the checkout (../shared/data)")
    return path


def absent() -> list[str]:
    """What this machine lacks, a line for each kind, with what it costs."""
    lines = []
    if not postgres.likely():
        lines.append(f"tests on PostgreSQL: {postgres.WHY_NOT}")
    if browser.missing():
        lines.append(f"tests in a browser: {browser.missing()}")
    if AZURITE is None:
        lines.append(f"a test on Azure's object storage: {NO_AZURITE}")
    return lines + absent_data(DATA)


def absent_data(wanted: dict[str, int]) -> list[str]:
    """Say which published data are not beside the checkout, in a line, or nothing.

    Args:
        wanted: how many tests use what, by its name below the folder.
    """
    data = {name: tests for name, tests in wanted.items() if not any(SHARED.glob(f"**/{name}"))}
    return [f"{sum(data.values())} tests on published data: no {', '.join(data)} below ../shared/data"] if data else []
