"""A study in full: the request of the analyst with the declarations of the owner.

``schemas/asked/resolve.py`` completes it. Stages and ledger see this and nothing else; no number in it comes from the
data.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    model_serializer,
    model_validator,
)

from causalveil.schemas.columns import (
    CLIP_MARGIN,
    Column,
    Finite,
    Holds,
    Name,
)
from causalveil.schemas.documents import AnyPath, RuleBroken, digest_of
from causalveil.schemas.plan import Execution
from causalveil.schemas.privacy import Amount, Frozen, Guarantee, Half, Level, Neighbours, PrivacyCost

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Chances = TypeVar("Chances", "float", "NDArray[np.float64]")
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
Slug = Annotated[str, Field(max_length=80, pattern=f"^{SLUG.pattern}$")]


# Keys that say what units without a treatment or an outcome count as.
UNRECORDED = ("missing_treatment", "missing_outcome")
UNPROTECTED = {
    Level.sample: (),
    Level.label: ("every covariate and the treatment of every unit: public by declaration, no noise covers them",),
    Level.training_units: ("the estimation half: its units have no privacy bound at all",),
}
NOTHING_TO_ADJUST_FOR = (
    "'covariates': none are named; where treatment was randomised use estimator {name: auto, trial: true} or "
    "{name: difference_in_means, trial: true} at level 'sample', else name what treatment and outcome both depend on"
)


# An average over units whose density of covariates is tilted by h(e), e the propensity score: by 1, e and 1 - e (Li,
# Morgan and Zaslavsky 2018). Weights h(e)/e of the treated and h(e)/(1 - e) of the controls give both arms that
# density. CONTRIBUTING names the estimators with other rules.
class Estimand(StrEnum):
    """Average effect over all units, over the treated, or over the controls."""

    ATE = "ATE"
    ATT = "ATT"
    ATC = "ATC"

    @classmethod
    def of_arm(cls, arm: int) -> Estimand:
        """Return the estimand over one arm, 0 the controls or 1 the treated."""
        return (cls.ATC, cls.ATT)[arm]

    @property
    def arms(self) -> tuple[int, ...]:
        """The arms whose units the average is over, 0 the controls and 1 the treated."""
        return {"ATE": (0, 1), "ATT": (1,), "ATC": (0,)}[self]

    @property
    def weighted(self) -> tuple[int, ...]:
        """The arms whose units are weighted by h(e)/e or h(e)/(1 - e) other than 1."""
        return self.arms if len(self.arms) == 2 else (1 - self.arms[0],)

    @property
    def adjective(self) -> str:
        """The word for the units that the average is over; empty for all."""
        return {"ATE": "", "ATT": "treated", "ATC": "untreated"}[self]

    def tilt(self, e: Chances) -> Chances:
        """Return h(e); of the share of treated, the part of all units that the average is over."""
        if self is Estimand.ATE:
            return 1.0 + 0.0 * e
        return e if self is Estimand.ATT else 1 - e

    def weights(self, e: Chances) -> tuple[Chances, Chances]:
        """Return h(e)/e and h(e)/(1 - e), the weights of a treated unit and of a control."""
        return self.tilt(e) / e, self.tilt(e) / (1 - e)

    def treated(self, share: float) -> float:
        """Return the share of treated among the units of the average."""
        return {"ATE": share, "ATT": 1.0, "ATC": 0.0}[self]


class Variant(StrEnum):
    """Our mechanisms, or the paper's where they give the guarantee that the paper claims."""

    ours = "ours"
    paper = "paper"


class MissingOutcome(StrEnum):
    """Refuse a unit without an outcome, leave it out of that answer, or count it with a value.

    The value is the middle or an end of the outcome's declared range. It is public, so a unit stays one bounded row and
    n is independent of outcomes. A unit that is left out keeps its row and adds 0 to all sums of that outcome; the
    number of such units is released with noise.
    """

    refuse = "refuse"
    leave_out = "leave_out"
    middle = "middle"
    low = "lower"
    high = "upper"

    @property
    def scaled(self) -> float | None:
        """The value where the declared range is scaled to [-1, 1]; None where no value is filled in."""
        return {"middle": 0.0, "lower": -1.0, "upper": 1.0}.get(self.value)


class MissingTreatment(StrEnum):
    """Refuse a unit without a treatment, or count it in the control (reference) arm."""

    refuse = "refuse"
    control = "control"


def _block_value(value: Any) -> Any:
    """Return the value of a block key as text: YAML reads ``2026`` as a number."""
    if isinstance(value, str) and "=" in value:
        raise ValueError(f"write the value alone, as in {value.rpartition('=')[2][:40] or 2026}")
    return str(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


# The value of a block key: 2026-07 of the folder month=2026-07.
BlockValue = Annotated[str, BeforeValidator(_block_value), Field(min_length=1, max_length=200)]


class Select(Frozen):
    """The blocks that a run reads: the newest N, those named, or from a first to a last."""

    model_config = ConfigDict(populate_by_name=True)

    newest: Annotated[int | None, Field(ge=1)] = None
    blocks: Annotated[
        tuple[BlockValue, ...] | None, Field(min_length=1, description="values of the block key, as in [2026-07]")
    ] = None
    first: Annotated[BlockValue | None, Field(alias="from", description="the first block, as in 2026-05")] = None
    last: Annotated[BlockValue | None, Field(alias="to", description="the last block")] = None

    @model_validator(mode="after")
    def _one_way(self) -> Select:
        keys = (self.newest is not None, self.blocks is not None, self.first is not None or self.last is not None)
        if sum(keys) != 1:
            raise RuleBroken(
                "choose by one of: 'newest', 'blocks', or 'from' and 'to'", "", "newest", "blocks", "from", "to"
            )
        return self

    @model_serializer(mode="plain")
    def _as_written(self) -> dict[str, Any]:
        document = {"newest": self.newest, "blocks": self.blocks, "from": self.first, "to": self.last}
        return {key: value for key, value in document.items() if value is not None}


class DataSource(Frozen):
    """A folder of Parquet partitions (hive layout), the privacy unit, and the block key.

    The ledger keeps an account for each value of the block key.
    """

    path: AnyPath = "."
    unit: Name
    blocks: Name | None = None
    select: Select | None = None

    @model_validator(mode="after")
    def _select_needs_blocks(self) -> DataSource:
        if self.select is not None and self.blocks is None:
            raise RuleBroken("'select' needs 'blocks': name the partition key to select by", "select")
        return self


def _clip_interval(value: tuple[float, float]) -> tuple[float, float]:
    low, high = value
    if not CLIP_MARGIN <= low <= high <= 1 - CLIP_MARGIN:
        raise ValueError(f"clip needs {CLIP_MARGIN:g} <= low <= high <= 1 - {CLIP_MARGIN:g}")
    return value


Clip = Annotated[tuple[Finite, Finite], AfterValidator(_clip_interval)]
Penalty = Annotated[Finite, Field(ge=1e-6, le=100)]


class EstimatorSettings(Frozen):
    """Base of an estimator's settings; ``schemas/studies.py`` lists them by name."""

    name: str


class PrivacyRequest(Frozen):
    """The level and the largest cost of the whole release."""

    epsilon: Amount
    delta: Amount = Field(default=0, validate_default=True)
    level: Level = Level.sample
    neighbours: Neighbours = Neighbours.replace_one

    @model_validator(mode="after")
    def _meaningful(self) -> PrivacyRequest:
        if self.epsilon <= 0:
            raise ValueError("epsilon must be above 0")
        if self.delta >= 1:
            raise ValueError("delta must be below 1")
        return self

    @property
    def cost(self) -> PrivacyCost:
        """The total as an (epsilon, delta) pair."""
        return PrivacyCost(epsilon=self.epsilon, delta=self.delta)


class Study(Frozen):
    """The common part of all studies: data, estimator and privacy.

    ``purpose``: the reason for the study, for the record; it affects no computation. ``execution``: the operator's
    settings. ``choice``: the reason for this estimator, where the study file left it open.
    """

    kind: str
    name: Slug
    data: DataSource
    estimator: EstimatorSettings
    privacy: PrivacyRequest
    purpose: Annotated[str | None, Field(max_length=500)] = None
    execution: Execution = Execution()
    choice: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of :meth:`specification`."""
        return digest_of(self.specification())

    def specification(self) -> dict[str, Any]:
        """Return the study as plain JSON values, the same at every site.

        Keys that affect no release are left out: ``data.path``, ``purpose``, ``execution``, ``choice``, ``expect``.
        """
        document: dict[str, Any] = json.loads(
            self.model_dump_json(exclude={"purpose", "execution", "choice", "expect"})
        )
        del document["data"]["path"]
        if document.get("clusters") is None:
            # Studies of versions before clusters keep their digests.
            document.pop("clusters", None)
        return document

    @property
    def roles(self) -> dict[str, Column]:
        """The requirements on each column."""
        return {self.data.unit: Column(holds=Holds.unit)}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the study reads."""
        return tuple(self.roles)

    def refuse_two_roles(self, also: str = "") -> None:
        """Refuse a column with two roles in the study, or one that is its block key too.

        Raises:
            ValueError: names the column; ``also`` ends the message.
        """
        twice = [column for column, times in Counter((*self.columns, self.data.blocks)).items() if times > 1]
        if twice:
            raise ValueError(
                f"column {min(twice, key=str)!r} has two roles; take it out of one place, each column has one{also}"
            )

    @property
    def question(self) -> str:
        """The question in a few words."""
        return self.kind

    @property
    def training_share(self) -> float | None:
        """The share of the units that only train models; None where all units do all."""
        return None

    @property
    def guarantee(self) -> Guarantee:
        """The kind of proof behind the privacy of this study's release."""
        return Guarantee.finite_sample

    @property
    def release_kind(self) -> str:
        """The kind of its release: of effects, or of a direction."""
        return "effect"

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Statements on what the release does not protect."""
        return UNPROTECTED[self.privacy.level]

    @property
    def unbounded(self) -> tuple[Half, ...]:
        """The halves without a privacy bound at this study's level; the contract must name each."""
        return ()
