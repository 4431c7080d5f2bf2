"""The operator's settings: ``site.toml`` in the state folder, each of them overridden by a variable of its own."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from causalveil.schemas.documents import read_text, validate
from causalveil.schemas.errors import SiteError
from causalveil.schemas.execution import SITE_FILE, SiteSettings
from causalveil.tasks.machine.home import home, private_folder

# Variable: the key of site.toml that it overrides.
VARIABLES = {
    "CAUSALVEIL_LEDGER_URL": "ledger",
    "CAUSALVEIL_SHARED": "shared",
    "CAUSALVEIL_SCRATCH": "scratch",
    "CAUSALVEIL_CONCURRENCY": "concurrency",
    "CAUSALVEIL_ENGINE": "execution.engine",
    "CAUSALVEIL_RUNNER": "execution.runner",
    "CAUSALVEIL_WORKERS": "execution.workers",
    "CAUSALVEIL_ADDRESS": "execution.address",
    "CAUSALVEIL_TLS_CA": "execution.tls.ca",
    "CAUSALVEIL_TLS_CERT": "execution.tls.cert",
    "CAUSALVEIL_TLS_KEY": "execution.tls.key",
}


def site_settings() -> SiteSettings:
    """Read the settings that the operator of this machine chose, from file and environment.

    The environment overrides the file; defaults stand where neither says anything.

    Raises:
        SiteError: the file or a variable is wrong. A URL may hold a password, so no value is quoted.
    """
    path = home() / SITE_FILE
    document: dict[str, Any] = {}
    if path.exists():
        text, problem = read_text(path, SiteError), None
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            problem = f"{path}: is not TOML ({error})"
        if problem:
            raise SiteError(problem)
    for variable, place in VARIABLES.items():
        value = os.environ.get(variable)
        if value:
            *folders, last = place.split(".")
            inner = document
            for folder in folders:
                inner = inner.setdefault(folder, {})
            inner[last] = value
    return validate(SiteSettings, document, str(path), SiteError)


def site_folder() -> Path:
    """Return the folder of what all workers of a site need to go on with each other's runs.

    It holds keys, record-level values of runs under way, and manifests that could not lie beside their data. By default
    it is the state folder.

    Raises:
        SiteError: the settings are wrong.
        CausalveilError: it cannot be made, or other users may write to it.
    """
    shared = site_settings().shared
    return home() if shared is None else private_folder(shared, "let CAUSALVEIL_SHARED name another folder")
