"""The settings that causalveil relies on, set before Prefect is imported.

Credentials that Prefect keeps are among them.

A user's own settings win. Two of ours are part of the guarantee: results are not persisted and prints are not captured.
A worker's credentials may lie in Prefect's Secret blocks.
"""

from __future__ import annotations

import logging
import os

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.warehouse import Credential

RELIED_ON = {
    # No telemetry leaves the enclave.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # The first start of the temporary server migrates a new database, which takes longer than the default 20 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # Memory leases leave a slot stuck after a restart of the server.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    # The audit trail: our loggers reach Prefect's API.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "causalveil",
    # ... and outside a flow run, as with the direct engine in one process, there is no run to send them to.
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_LOGGING_LOG_PRINTS": "false",
}

# A temporary server lives for one run: no automation waits for its events.
TEMPORARY_SERVER = {"PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false"}

# Variables that name hosts to be called directly where a proxy is set, which Python and its libraries read by either.
DIRECT = ("no_proxy", "NO_PROXY")
PROXIES = ("http_proxy", "https_proxy", "all_proxy")

# On a terminal the release is the message, and an error is one line of ours: Prefect would print its traceback. Its own
# lines still go to its API.
QUIET_TERMINAL = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}


# Those by which Prefect tells of an exception, with its traceback.
TELL_OF_ERRORS = ("prefect.engine", "prefect.flow_runs", "prefect.task_runs")


class OneLine(logging.Filter):
    """Takes the traceback off our typed errors, whose message says what to do.

    Others keep theirs.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        if record.exc_info and isinstance(record.exc_info[1], CausalveilError):
            record.exc_info = record.exc_text = None
        return True


ONE_LINE = OneLine()


def prepare(*, quiet: bool = False) -> None:
    """Set Prefect's settings that the product relies on, without overriding the environment.

    Call before importing Prefect.
    """
    settings = dict(RELIED_ON)
    if not os.environ.get("PREFECT_API_URL"):
        settings |= TEMPORARY_SERVER
    if quiet:
        settings |= QUIET_TERMINAL
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    _call_loopback_directly()
    # Prefect hands our lines on but sets no level, so that the root's WARNING would keep the audit trail out.
    ours = logging.getLogger("causalveil")
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.INFO)
    for name in TELL_OF_ERRORS:
        # A filter that is there already is not added again.
        logging.getLogger(name).addFilter(ONE_LINE)


def _call_loopback_directly() -> None:
    """Keep calls of a server on this machine, and its password, from proxies."""
    if not any(os.environ.get(name) or os.environ.get(name.upper()) for name in PROXIES):
        return
    for variable in DIRECT:
        hosts = os.environ.get(variable) or os.environ.get(variable.upper(), "")
        if "127.0.0.1" not in hosts.split(","):
            os.environ[variable] = ",".join(filter(None, (hosts, "127.0.0.1")))


def secret_of(place: Credential) -> str | None:
    """Return the text of the Secret block that ``place`` names; None if there is no such block.

    Raises:
        CausalveilError: Prefect cannot be reached.
    """
    from prefect.blocks.system import Secret

    failure = None
    try:
        text = Secret.load(str(place.block)).get()  # type: ignore[union-attr]  # the call is synchronous here
    except ValueError:
        return None
    except Exception as problem:
        failure = type(problem).__name__
    if failure:
        raise CausalveilError(
            f"Prefect Secret block '{place.block}' cannot be loaded ({failure}); check PREFECT_API_URL"
        )
    return text if isinstance(text, str) else None
