"""Report what the released blocks of a dataset say together, over time."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from causalveil.schemas.confounding import ConfoundingStatement
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.limits import Limit
from causalveil.schemas.privacy import Amount, Frozen, Level, Neighbours
from causalveil.schemas.release import (
    ApprovalStatement,
    Interval,
    LedgerStatement,
)
from causalveil.schemas.shown import Shown
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
    """The slope of the answers over the blocks' order, by weighted least squares.

    The p-value is two-sided, for no slope.
    """

    per_block: Finite
    standard_error: Annotated[Finite, Field(ge=0)]
    p_value: Annotated[Finite, Field(ge=0, le=1)]


class Newest(Frozen):
    """The distance of the newest block from all others together.

    It says how often chance alone brings it so far.
    """

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
    confounding: Annotated[
        ConfoundingStatement | None,
        Field(description="what was done about confounding in all blocks; null if a block's release does not say"),
    ] = None


class SeriesRun(Frozen):
    """One release of a series: its rows, cost, approval and place in the ledger."""

    run_id: str
    blocks: tuple[str, ...]
    units: int
    epsilon: Amount
    delta: Amount
    approval: ApprovalStatement | None
    budget: Annotated[BudgetOutlook | None, Field(description="what was left of the block's budget after that run")]
    ledger: LedgerStatement


class SeriesPrivacy(Frozen):
    """The guarantee of a series.

    No unit is in two blocks, so a unit spends what its own block spent.
    """

    unit: str
    level: Level
    neighbours: Neighbours
    epsilon: Annotated[Amount, Field(description="the largest of any block")]
    delta: Annotated[Amount, Field(description="the largest of any block")]
    unprotected: tuple[str, ...]


class Series(Shown, Frozen):
    """A series costs nothing: it is post-processing of releases of disjoint blocks.

    ``left_out``: finished runs of the study that charged a block again; the first release of a block counts.
    ``unreleased``: blocks that hold rows, and that no release of the study read.
    """

    kind: Literal["series"] = "series"
    schema_version: Literal[1] = 1
    dataset: str
    study: str
    study_digest: str
    estimator: str
    specification: Annotated[dict[str, Any], Field(description="of the newest block's release")]
    confidence: Finite
    rows: tuple[SeriesRow, ...]
    runs: Annotated[tuple[SeriesRun, ...], Field(min_length=2, description="oldest block first")]
    privacy: SeriesPrivacy
    not_covered: Annotated[tuple[Limit, ...], Field(description="sources of error that no interval covers")]
    units_of_measure: Annotated[dict[str, str], Field(description="of the study's columns, as the contract names them")]
    left_out: tuple[str, ...]
    unreleased: tuple[str, ...] = ()
    statement: str

    @property
    def unreleased_words(self) -> str:
        """Sentences on blocks that hold rows and have no release, the first five of them."""
        more = f" and {len(self.unreleased) - 5} more" if len(self.unreleased) > 5 else ""
        named = ", ".join(self.unreleased[:5])
        return f"Rows but no release: {named}{more}. 'data.select.blocks' of a study asks for them."

    def brief(self) -> str:
        """Return study, blocks and cost in one line."""
        asked = f"{self.study}: series of {self.dataset} by {self.estimator}, {len(self.runs)} releases"
        return f"{asked}, {len(self.rows)} question{'' if len(self.rows) == 1 else 's'}, at no cost"

    def text(self) -> str:
        """Return the bytes of series.json."""
        document: dict[str, Any] = self.model_dump(mode="json")
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
