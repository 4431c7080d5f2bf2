"""What every test stands on: a state folder of its own, and one Prefect server for the whole session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A shared machine pauses now and then: an example that took long says nothing.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Site secret, ledger and scratch of the test, never the developer's own."""
    folder = tmp_path / "causalveil-home"
    monkeypatch.setenv("CAUSALVEIL_HOME", str(folder))
    monkeypatch.delenv("CAUSALVEIL_LEDGER_URL", raising=False)
    return folder


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prefect server with a new database; its start costs about twenty seconds once."""
    from causalveil.flows.engine import settings

    settings.prepare(quiet=True)
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield str(PREFECT_API_URL.value())
