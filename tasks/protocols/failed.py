"""Names of a failed gate: on a terminal, by an exit code, in Prefect."""

from __future__ import annotations

from causalveil.schemas.release import ProtocolRelease
from causalveil.schemas.sites.pooled import PooledProtocolRelease, Published


def failed_gates(release: Published) -> str | None:
    """Return one line that names the gates that failed and where.

    All of this is released. The result is None if none failed.
    """
    if not isinstance(release, ProtocolRelease | PooledProtocolRelease) or not release.gate_failed:
        return None
    failed = [gate for gate in release.gates if gate.verdict == "failed"]
    places = ", ".join(f"{gate.gate} in {gate.group}, {gate.arm}" for gate in failed)
    return f"a declared gate failed ({places}); the release says so, and its charge stands"
