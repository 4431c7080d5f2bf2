"""What every test stands on: a state folder of its own, one Prefect server, and how tests share processes."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from causalveil.tasks.machine.site import VARIABLES
from tests import needs, session

# Where files cost no wait for a disk: a ledger syncs each commit to it four times, and tests commit many thousands.
# What the product syncs, and when, is counted by tests of its own and does not show in how long it took.
MEMORY, ROOM = Path("/dev/shm"), 8 * 2**30


def in_memory() -> bool:
    """Return whether temporary files may be put into memory: it is large, and programs may start from there."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC


if in_memory():
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None

# A shared machine pauses now and then: an example that took long says nothing.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

# Three processes share two cores. Threads of OpenBLAS wait for each other in a loop that keeps a core busy: where the
# other core is taken, a balance of 1,000 people took 2.5 s of a processor, and .06 s in one thread, with one result.
# The variable is for libraries that are loaded later and for processes that tests start.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
ONE_THREAD = threadpool_limits(1, user_api="blas")

# The operator's settings of a small machine, also for what several tests share; tests of Prefect set their own.
SETTINGS = {"CAUSALVEIL_ENGINE": "direct", "CAUSALVEIL_WORKERS": "1"}
os.environ.update(SETTINGS)

# Prefect's servers keep what holds their concurrency limits in the home folder. Those of several sessions on one
# machine would read, lock and clean up each other's there, and a task run then waited a minute for its turn.
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="prefect-", dir=session.folder())
# What a test looks for in the server's store need not wait for the next of few large batches.
os.environ["PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL"] = "0.5"
os.environ["PREFECT_LOGGING_TO_API_BATCH_INTERVAL"] = "0.5"

# Timed in a clean clone on two cores that did nothing else: 12 min 36 s.
MINUTES = 13
# Fixtures of the session that are dear to make: whoever uses one runs in the process that has it.
DEAR = {
    "prefect_server": "prefect",
    "documents": "reports",
    "pages": "reports",
    "built": "installed",
    "wheel": "installed",
    "release": "installed",
}


def _whole(config: pytest.Config) -> bool:
    """Whether folders were asked for, and not single files."""
    return all(Path(argument).is_dir() for argument in config.args)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than cores for folders, since many tests wait; none for files, whose tests are sooner done."""
    return min(2, os.cpu_count() or 1) + 1 if _whole(config) else 0


def pytest_report_header(config: pytest.Config) -> list[str]:
    """How long it takes and what is left out, said once and here."""
    lines = []
    if config.args == config.getini("testpaths") and config.option.markexpr == "not long":
        lines.append(f"takes about {MINUTES} minutes on two cores that do nothing else; `-m long` has the full counts")
    return lines + [f"skips {line}" for line in needs.absent()]


# Reading all tests makes no garbage: looking for some there took a seventh of the time of reading.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave the tests and all modules out of later searches for garbage, which a full one took half a second for."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share a dear fixture, or a fixture of their module, in one process."""
    for item in items:
        group = next((group for name, group in DEAR.items() if name in getattr(item, "fixturenames", ())), None)
        found = getattr(item, "_fixtureinfo", None)
        if group is None and found is not None:
            definitions = (definition for several in found.name2fixturedefs.values() for definition in several)
            if any(definition.scope == "module" for definition in definitions):
                group = item.nodeid.split("::")[0]
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests counted and wish to have read: their property ``summary``."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, text in getattr(report, "user_properties", ()):
                if name == "summary" and getattr(report, "when", "") == "call":
                    terminalreporter.write_line(text)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Site secret, ledger and scratch of the test, never the developer's own."""
    folder = tmp_path / "causalveil-home"
    monkeypatch.setenv("CAUSALVEIL_HOME", str(folder))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture(autouse=True)
def own_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator ``RANDOM`` of the module begins anew for each test: its draws depend on no test before it."""
    if isinstance(getattr(request.module, "RANDOM", None), np.random.Generator):
        monkeypatch.setattr(request.module, "RANDOM", np.random.default_rng(crc32(request.node.name.encode())))


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prefect server with a new database; its start costs about twenty seconds once."""
    from causalveil.flows.engine import settings

    settings.prepare(quiet=True)
    # Prefect's first flow takes all handlers off the root logger, those of pytest too. Here no test has begun yet.
    from prefect.logging.configuration import setup_logging

    setup_logging()
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_DATABASE_CONNECTION_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        session.keep_tables(Path(str(PREFECT_SERVER_DATABASE_CONNECTION_URL.value()).split("///", 1)[1]))
        yield str(PREFECT_API_URL.value())
