"""Who works here, for the record: the operator's setting, else what the system says."""

from __future__ import annotations

import getpass
import os
import platform

from causalveil.schemas.errors import StudyError
from causalveil.tasks.machine.site import site_settings

ACTOR_VARIABLE = "CAUSALVEIL_ACTOR"
LONGEST = 200


def actor() -> str:
    """In whose name this process works: ``CAUSALVEIL_ACTOR``, else ``actor`` of site.toml, else the login name.

    Raises:
        StudyError: the variable is not one line of at most 200 characters.
    """
    configured = os.environ.get(ACTOR_VARIABLE, site_settings().actor)
    if configured is None:
        try:
            return getpass.getuser()
        except (KeyError, OSError):  # a container's user may have no name
            return f"uid {os.getuid()}"
    if not configured.strip() or not configured.isprintable() or len(configured) > LONGEST:
        raise StudyError(f"{ACTOR_VARIABLE}: must be a line of text of at most {LONGEST} characters")
    return configured.strip()


def host() -> str:
    """The name of this machine."""
    return platform.node() or "unknown"
