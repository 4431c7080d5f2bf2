"""The operator's settings of stages on one machine, in ``site.toml`` or the environment.

No study can change them.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Frozen

SITE_FILE = "site.toml"


class Runner(StrEnum):
    """The workers on partitions: threads of this process, or a Dask or Ray cluster."""

    threads = "threads"
    dask = "dask"
    ray = "ray"


class Tls(Frozen):
    """Files of a cluster's certificates, for a scheduler that is not this run's own."""

    ca: Path
    cert: Path
    key: Path


class Execution(Frozen):
    """The operator's settings of how stages run.

    They are no part of what stages compute, so no part of the digest.

    Without an ``address`` Dask and Ray start ``workers`` processes on this machine for the time of the run.
    """

    engine: Literal["prefect", "direct"] = "prefect"
    runner: Runner = Runner.threads
    workers: Annotated[int, Field(ge=1, le=256)] = 2
    address: Annotated[str | None, Field(min_length=1, pattern=r"^[^@\s]+$")] = None
    tls: Tls | None = None

    @model_validator(mode="after")
    def _cluster_needs_prefect(self) -> Execution:
        if self.runner is Runner.threads:
            if self.address is not None:
                raise RuleBroken("'address' is that of a cluster; runner 'threads' has none", "address")
        elif self.engine == "direct":
            raise ValueError(f"runner '{self.runner}' is one of Prefect's task runners; it needs engine 'prefect'")
        if self.tls is not None and (self.runner is not Runner.dask or self.address is None):
            raise RuleBroken("'tls' is for a Dask scheduler that 'address' names", "tls")
        return self


class SiteSettings(Frozen):
    """Everything that the operator of a machine decides, beside Prefect's own settings.

    ``ledger``: its URL; ``shared``: a folder of the workers of one site, with its keys; ``scratch``: where runs keep
    normalised rows; ``actor``: who the ledger says ran something;
    ``concurrency``: runs of one dataset at a time, when a limit is made for it.
    """

    ledger: Annotated[str | None, Field(min_length=1)] = None
    shared: Path | None = None
    scratch: Path | None = None
    actor: Annotated[str | None, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")] = None
    concurrency: Annotated[int, Field(ge=1, le=1000)] = 1
    execution: Execution = Execution()
