"""How a study's stages run: engine, workers, cluster. It is no part of what is asked, so a site may change it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from causalveil.schemas.privacy import Frozen


class Runner(StrEnum):
    """What works on partitions: threads of this process, or processes of a Dask or Ray cluster."""

    threads = "threads"
    dask = "dask"
    ray = "ray"


class Execution(Frozen):
    """How the stages run; no part of what they compute, so no part of the digest.

    Without an ``address`` Dask and Ray start ``workers`` processes on this machine for the time of the run.
    """

    engine: Literal["prefect", "direct"] = "prefect"
    runner: Runner = Runner.threads
    workers: Annotated[int, Field(ge=1, le=256)] = 2
    address: Annotated[str | None, Field(min_length=1, pattern=r"^[^@\s]+$")] = None

    @model_validator(mode="after")
    def _cluster_needs_prefect(self) -> Execution:
        if self.runner is Runner.threads:
            if self.address is not None:
                raise ValueError("'address' is that of a cluster; runner 'threads' has none")
        elif self.engine == "direct":
            raise ValueError(f"runner '{self.runner}' is one of Prefect's task runners; it needs engine 'prefect'")
        return self
