"""Report what the released blocks of a dataset say together, over time."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.privacy import Amount, Frozen, Level, Neighbours
from causalveil.schemas.release import ApprovalStatement, LedgerStatement
from causalveil.schemas.sites.pooled import CombinedAnswer, CombinedTable, PooledEstimate, SourcePart
from causalveil.schemas.sites.round import Model
from causalveil.schemas.study import Finite


class SeriesBlock(SourcePart):
    """One release in its place: the blocks that it was charged to, and its answer."""

    blocks: tuple[str, ...]
    run_id: str

    @property
    def source(self) -> str:
        """The blocks, the first and the last of them."""
        return " to ".join(dict.fromkeys((self.blocks[0], self.blocks[-1])))


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


class SeriesAnswer(CombinedAnswer):
    """One question over time; all blocks are there, those without an answer too."""

    blocks: Annotated[tuple[SeriesBlock, ...], Field(min_length=2, description="oldest block first")]
    drift: Drift | None
    newest: Annotated[Newest | None, Field(description="of the newest block that answered")]

    @property
    def parts(self) -> tuple[SourcePart, ...]:
        """The answers of the blocks."""
        return self.blocks


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


class Series(CombinedTable):
    """A series costs nothing: it is post-processing of releases of disjoint blocks.

    ``left_out``: finished runs of the study that charged a block again; the first release of a block counts.
    ``unreleased``: blocks that hold rows, and that no release of the study read.
    """

    kind: Literal["series"] = "series"
    specification: Annotated[dict[str, Any], Field(description="of the newest block's release")]
    dataset: str
    estimator: str
    answers: Annotated[tuple[SeriesAnswer, ...], Field(min_length=1, description="the headline answer first")]
    runs: Annotated[tuple[SeriesRun, ...], Field(min_length=2, description="oldest block first")]
    privacy: SeriesPrivacy
    units_of_measure: Annotated[dict[str, str], Field(description="of the study's columns, as the contract names them")]
    left_out: tuple[str, ...]
    unreleased: tuple[str, ...] = ()
    statement: str

    @property
    def headline_model(self) -> Model:
        """Blocks are pooled as they are, not as a draw from others like them."""
        return Model.fixed

    def estimates(self, answer: CombinedAnswer) -> list[tuple[str, PooledEstimate]]:
        """Return the estimate of an answer over all blocks, by name."""
        return [] if answer.fixed is None else [("all together", answer.fixed)]

    @property
    def unreleased_words(self) -> str:
        """Sentences on blocks that hold rows and have no release, the first five of them."""
        more = f" and {len(self.unreleased) - 5} more" if len(self.unreleased) > 5 else ""
        named = ", ".join(self.unreleased[:5])
        return f"Rows but no release: {named}{more}. 'data.select.blocks' of a study asks for them."

    def brief(self) -> str:
        """Return study, blocks and cost in one line."""
        asked = f"{self.study}: series of {self.dataset} by {self.estimator}, {len(self.runs)} releases"
        return f"{asked}, {len(self.answers)} question{'' if len(self.answers) == 1 else 's'}, at no cost"

    def text(self) -> str:
        """Return the bytes of series.json."""
        document: dict[str, Any] = self.model_dump(mode="json")
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
