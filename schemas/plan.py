"""Declarations of a run before a row is read: the layout of the data, and every charge.

The operator's settings of stages on one machine, in ``site.toml`` or the environment.
No study can change them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.documents import RuleBroken, digest_of
from causalveil.schemas.privacy import Charge, Frozen, PrivacyCost

_NUMBER = re.compile(r"^-?[0-9]+(\.[0-9]+)?$")


def natural_order(blocks: Iterable[str]) -> list[str]:
    """Return blocks from the oldest to the newest.

    They are ordered by number if every value is one, else as text: ``month=9`` stands before ``month=10``.
    The account of the whole, which has no value, comes first.
    """
    values: Mapping[str, str] = {block: block.partition("=")[2] for block in blocks}
    if all(_NUMBER.match(value) for block, value in values.items() if "=" in block):
        return sorted(values, key=lambda block: ("=" in block, Decimal(values[block] or 0), block))
    return sorted(values)


class Partition(Frozen):
    """One Parquet file of the data.

    It has its path below the data folder, its footer's number of rows, and its ledger block.
    """

    path: str
    rows: Annotated[int, Field(ge=0)]
    block: str


class Layout(Frozen):
    """The partitions that a run reads, in the order of their paths.

    Public: paths and counts, nothing else.
    """

    partitions: tuple[Partition, ...]
    dataset_blocks: Annotated[tuple[str, ...], Field(description="every block of the dataset, also those not read")]

    @property
    def units(self) -> int:
        """Number of rows, which is the number of units since each has one row."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def blocks(self) -> tuple[str, ...]:
        """The blocks that the run reads rows of, sorted: one without rows is charged nothing."""
        return tuple(sorted({partition.block for partition in self.partitions if partition.rows}))

    @property
    def digest(self) -> str:
        """SHA-256 of paths and counts: a resumed run must find the same."""
        return digest_of([[p.path, p.rows, p.block] for p in self.partitions])


class Sizes(Frozen):
    """The public numbers of units that sensitivities depend on.

    They are all units, those that train, and those that are estimated on.
    """

    units: int
    train: int
    estimation: int


# The assumed share of eligible units where none is stated; a plan names it.
ASSUMED_ELIGIBLE = 0.5
# A plan advises fewer covariates from this number on, where half of them are narrower than this share.
MANY_COVARIATES, FEWER_HELPS = 10, 0.9


class StandIn(Frozen):
    """Assumptions on the population, stated by the reader of a plan, never taken from the data.

    ``treated``: share of treated units, also each unit's propensity score. ``deviation``: standard deviation
    of the outcome within an arm, in outcome units; None: a quarter of the declared width, or of a binary outcome what
    the mean implies. ``mean``: of the outcome; None: the middle of its declared range. ``explained``: share of
    its variance that covariates explain; ``correlation``: between any two; ``spread``: a numeric covariate's
    standard deviation over half its declared range, None: each estimator's own guess. ``distance``: the difference
    between the arms' means of the index that drives treatment, in standard deviations, unless it is randomised.
    ``eligible``: share of units that meet a study's ``where``; None: half, and a plan says so. ``icc``: intraclass
    correlation within clusters, where a study has them; None: .05 where whole clusters were treated, else .01.
    """

    treated: float = 0.5
    deviation: float | None = None
    mean: float | None = None
    explained: float = 0.3
    correlation: float = 0.3
    spread: float | None = None
    distance: float = 1.0
    eligible: float | None = None
    icc: float | None = None

    @property
    def eligible_share(self) -> float:
        """Return the share of units that meet a study's ``where``: stated or assumed."""
        return ASSUMED_ELIGIBLE if self.eligible is None else self.eligible

    @classmethod
    def told(cls, **values: float | None) -> Self:
        """Return the stand-in with the values that a reader states.

        None keeps a default, which does not count as stated.

        >>> sorted(StandIn.told(treated=0.1, deviation=None).model_fields_set)
        ['treated']
        """
        return cls(**{name: value for name, value in values.items() if value is not None})


class Plan(Frozen):
    """Every charge that a run may make, and their total.

    Without ``sizes`` charges carry formulas in n.
    """

    study: str
    study_digest: str
    sizes: Sizes | None
    charges: tuple[Charge, ...]
    total: PrivacyCost
    epsilon_pld: float | None


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

    They do not affect results, and are not in the digest.

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
    normalised rows; ``actor``: the name under which the ledger records runs;
    ``concurrency``: runs of one dataset at a time, when a limit is made for it.
    """

    ledger: Annotated[str | None, Field(min_length=1)] = None
    shared: Path | None = None
    scratch: Path | None = None
    actor: Annotated[str | None, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")] = None
    concurrency: Annotated[int, Field(ge=1, le=1000)] = 1
    execution: Execution = Execution()
