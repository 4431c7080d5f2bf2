"""What a series says: the released blocks of one dataset together, and how they change over time."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from causalveil.schemas.privacy import Frozen
from causalveil.schemas.release import Interval
from causalveil.schemas.sites.pooled import Heterogeneity, PooledEstimate
from causalveil.schemas.study import Finite


class SeriesBlock(Frozen):
    """One release in its place: the blocks that it was charged to, and its answer."""

    blocks: tuple[str, ...]
    run_id: str
    estimate: Finite
    interval: Interval
    standard_error: Annotated[Finite, Field(ge=0, description="of sampling and noise together")]


class Drift(Frozen):
    """The slope of the answers over the blocks' order, by weighted least squares; two-sided p-value under none."""

    per_block: Finite
    standard_error: Annotated[Finite, Field(ge=0)]
    p_value: Annotated[Finite, Field(ge=0, le=1)]


class Newest(Frozen):
    """How far the newest block lies from all others together, and how often chance alone brings it so far."""

    blocks: tuple[str, ...]
    difference: Finite
    standard_error: Annotated[Finite, Field(ge=0)]
    p_value: Annotated[Finite, Field(ge=0, le=1)]


class SeriesRow(Frozen):
    """One question over time. ``missing``: blocks whose answer was withheld or hidden by noise."""

    outcome: str
    group: str
    arm: str
    blocks: tuple[SeriesBlock, ...]
    missing: tuple[str, ...]
    fixed: PooledEstimate
    random: PooledEstimate
    heterogeneity: Heterogeneity
    drift: Drift
    newest: Newest


class Series(Frozen):
    """A series costs nothing: it is post-processing of releases of disjoint blocks.

    ``left_out``: finished runs of the study that charged a block again; the first release of a block counts.
    """

    kind: Literal["series"] = "series"
    schema_version: Literal[1] = 1
    dataset: str
    study: str
    study_digest: str
    estimator: str
    confidence: Finite
    rows: tuple[SeriesRow, ...]
    left_out: tuple[str, ...]
    statement: str

    def text(self) -> str:
        """The bytes of series.json."""
        document: dict[str, Any] = self.model_dump(mode="json")
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
