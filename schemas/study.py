"""A study in full.

What the analyst asks with what the owner declares of the columns (``schemas/asked/resolve.py``).

Stages and ledger see this and nothing else; no number in it comes from the data.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_serializer,
    model_validator,
)

from causalveil.schemas.columns import (
    LONGEST_NAME,
    OTHER,
    Column,
    Holds,
    Nulls,
    NumberScale,
    codes_of,
    level_labels,
    sane_clip,
    sane_names,
    sane_range,
    scaled_ends,
)
from causalveil.schemas.documents import AnyPath, RuleBroken, digest_of
from causalveil.schemas.plan import Execution
from causalveil.schemas.privacy import Amount, Frozen, Guarantee, Half, Level, Neighbours, PrivacyCost

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Chances = TypeVar("Chances", "float", "NDArray[np.float64]")
Finite = Annotated[float, Field(allow_inf_nan=False, strict=False)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f]+$")]
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
Slug = Annotated[str, Field(max_length=80, pattern=f"^{SLUG.pattern}$")]


# What a study says of units without a treatment or an outcome.
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


# An average over units whose density of covariates is tilted by h(e), e the chance of treatment: by 1, e and 1 - e (Li,
# Morgan and Zaslavsky 2018). Weights h(e)/e of the treated and h(e)/(1 - e) of the controls give both arms that
# density. Estimators that weigh by more than that have rules of their own: CONTRIBUTING names them.
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
        """Return the arms whose units the average is over, 0 the controls and 1 the treated."""
        return {"ATE": (0, 1), "ATT": (1,), "ATC": (0,)}[self]

    @property
    def weighted(self) -> tuple[int, ...]:
        """Return the arms whose units stand for others, so that weights differ among them."""
        return self.arms if len(self.arms) == 2 else (1 - self.arms[0],)

    @property
    def adjective(self) -> str:
        """Return the word for the units that the average is over; empty for all."""
        return {"ATE": "", "ATT": "treated", "ATC": "untreated"}[self]

    def tilt(self, e: Chances) -> Chances:
        """Return h(e), of the share of treated the part of all units that the average is over."""
        if self is Estimand.ATE:
            return 1.0 + 0.0 * e
        return e if self is Estimand.ATT else 1 - e

    def weights(self, e: Chances) -> tuple[Chances, Chances]:
        """Return h(e)/e and h(e)/(1 - e), the weight of a treated unit and of a control of chance e."""
        return self.tilt(e) / e, self.tilt(e) / (1 - e)

    def treated(self, share: float) -> float:
        """Return the share of treated among the units of the average, by their share of all."""
        return {"ATE": share, "ATT": 1.0, "ATC": 0.0}[self]


class Variant(StrEnum):
    """Our mechanisms, or the paper's where they give the guarantee that the paper claims."""

    ours = "ours"
    paper = "paper"


class Missing(StrEnum):
    """Refuse nulls, or encode them: declared midpoint plus indicator.

    Nulls of a category are a level of its own.
    """

    refuse = "refuse"
    indicator = "indicator"


class MissingOutcome(StrEnum):
    """Refuse a unit without an outcome, leave it out of that answer, or count it with a value.

    The value is the middle or an end of the outcome's declared range.

    The value is public, so a unit stays one bounded row and n says nothing of outcomes. A unit that is left out keeps
    its row, and adds 0 to all sums of that outcome; how many those are is counted with noise.
    """

    refuse = "refuse"
    leave_out = "leave_out"
    middle = "middle"
    low = "lower"
    high = "upper"

    @property
    def scaled(self) -> float | None:
        """The value on the scale on which the declared range is [-1, 1].

        It is None where such units are refused, or left out.
        """
        return {"middle": 0.0, "lower": -1.0, "upper": 1.0}.get(self.value)


class MissingTreatment(StrEnum):
    """Refuse a unit without a treatment, or count it in the control (reference) arm.

    There it counts as not recorded as treated.
    """

    refuse = "refuse"
    control = "control"


class Others(StrEnum):
    """The treatment of values that are no declared level.

    They count as the level ``other``, or are refused.
    """

    other = "other"
    refuse = "refuse"


Code = Annotated[str, Field(strict=True)] | Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)]


def codes_of_64_bits(codes: Iterable[Code]) -> None:
    """Refuse integers that no column of 64 bits holds.

    Raises:
        ValueError: one is as large.
    """
    if any(isinstance(code, int) and not abs(code) < 2**63 for code in codes):
        raise ValueError("codes must be integers of 64 bits")


class TwoCodes(Frozen):
    """The two values of a binary column, that of 0 first.

    Both are text, both whole numbers or both booleans (stored as 0 and 1, too).
    """

    @model_validator(mode="after")
    def _two(self) -> Self:
        zero, one = self.written
        if type(zero) is not type(one):
            raise ValueError("codes must be both text, both integers or both booleans")
        if zero == one:
            raise ValueError(f"{' and '.join(type(self).model_fields)} must have different codes")
        codes_of_64_bits((zero, one))
        return self

    @property
    def written(self) -> tuple[Code, Code]:
        """The codes as they were declared."""
        zero, one = (getattr(self, key) for key in type(self).model_fields)
        return zero, one

    @property
    def pair(self) -> tuple[str | int, str | int]:
        """The codes; booleans as 0 and 1."""
        zero, one = (code if isinstance(code, str) else int(code) for code in self.written)
        return zero, one


class Codes(TwoCodes):
    """The codes of a treatment."""

    control: Code
    treated: Code


class YesOrNo(TwoCodes):
    """The codes of an outcome or a covariate: ``no`` is read as 0, ``yes`` as 1."""

    no: Code
    yes: Code


ZERO_ONE = Codes(control=0, treated=1)


def _level(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("a level is text or a whole number; of truth values write 0 and 1")
    return value


LevelCode = Annotated[
    Annotated[str, Field(strict=True)] | Annotated[int, Field(strict=True)],
    BeforeValidator(_level, json_schema_input_type=str | int),
]
Levels = Annotated[tuple[LevelCode, ...], Field(min_length=2, max_length=1000)]
# Names of levels, one of each.
LevelNames = tuple[Name, ...] | None


def distinct_levels(levels: tuple[str | int, ...]) -> None:
    """Refuse levels of two types, or one that stands twice.

    Raises:
        ValueError: says which rule is broken.
    """
    if len({type(level) for level in levels}) != 1:
        raise ValueError("levels must be all text or all integers")
    if len(set(levels)) != len(levels):
        raise ValueError("a level stands twice")


def distinct_names(names: tuple[str, ...] | None, levels: tuple[str | int, ...]) -> None:
    """Refuse names of levels that are not one of each, or that read the same.

    Raises:
        ValueError: says which rule is broken.
    """
    if names is None:
        return
    if len(names) != len(levels):
        raise RuleBroken("'names' are one of each level, in the same order", "names")
    sane_names(names, levels)


def event_codes(codes: tuple[str | int, ...]) -> None:
    """Refuse codes of events that a column cannot hold.

    These are levels of no column, or whole numbers that no column holds.

    Raises:
        ValueError: says which rule is broken.
    """
    distinct_levels(codes)
    codes_of_64_bits(codes)


class Bounds(Frozen):
    """A closed interval that contract or study declares. Values beyond it are clipped, always."""

    lower: Finite
    upper: Finite

    @model_validator(mode="after")
    def _ordered(self) -> Bounds:
        sane_range(self.lower, self.upper)
        return self

    @property
    def width(self) -> float:
        """B = upper - lower."""
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        """The midpoint."""
        return self.lower + self.width / 2


class NumericCovariate(Bounds):
    """A number with declared bounds; with ``codes``, a binary column read as 0 and 1.

    ``scale``: on which outcomes follow it linearly, on the analyst's word; None where it was not said.
    """

    scale: NumberScale | None = None
    codes: YesOrNo | None = None
    nulls: Missing = Missing.refuse

    @model_validator(mode="after")
    def _on_its_scale(self) -> NumericCovariate:
        if self.codes is not None and self.scale is not None:
            raise ValueError(f"a column of two codes has no scale '{self.scale}'; remove 'scale'")
        scaled_ends(self.scale, self.lower, self.upper)
        return self

    @property
    def on_scale(self) -> Bounds:
        """The declared bounds on the declared scale."""
        lower, upper = scaled_ends(self.scale, self.lower, self.upper)
        return Bounds(lower=lower, upper=upper)


class CategoricalCovariate(Frozen):
    """A category with the levels that a study tells apart.

    ``others``: whether any other value counts as the level ``other``. ``known``: the levels that the column may hold
    at all, if these are more than ``levels``; None where any value may stand, or where ``levels`` are all. ``names``:
    what people read in place of the levels, by the contract.
    """

    levels: Levels
    names: LevelNames = None
    others: Others = Others.refuse
    known: Levels | None = None
    nulls: Missing = Missing.refuse

    @model_validator(mode="after")
    def _distinct(self) -> CategoricalCovariate:
        distinct_levels(self.levels)
        distinct_names(self.names, self.levels)
        return self

    @property
    def labels(self) -> dict[str, str]:
        """The words that people read for each slot, by the slot as text."""
        return level_labels(self.levels, self.names)

    @property
    def of_names(self) -> dict[str, str | int]:
        """The level of each name."""
        return codes_of(self.names, self.levels)

    @property
    def slots(self) -> tuple[str | int, ...]:
        """Levels that are distinguished; ``other`` is added where allowed and not yet one of them."""
        return self.levels if self.others is Others.refuse or OTHER in self.levels else (*self.levels, OTHER)

    @property
    def expected(self) -> tuple[str | int, ...]:
        """The slots that people are expected to have.

        They are all but one for values that were not declared, if there are two.
        """
        declared = self.slots if self.known is not None else self.levels
        return declared if len(declared) > 1 else self.slots

    @property
    def admitted(self) -> tuple[str | int, ...] | None:
        """The levels that a row may hold; None: any value."""
        if self.known is not None:
            return self.known
        return self.levels if self.others is Others.refuse else None


def _covariate_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "categorical" if "levels" in value else "numeric"
    return "categorical" if isinstance(value, CategoricalCovariate) else "numeric"


Covariate = Annotated[
    Annotated[NumericCovariate, Tag("numeric")] | Annotated[CategoricalCovariate, Tag("categorical")],
    Discriminator(_covariate_kind),
]


def covariate_role(covariate: NumericCovariate | CategoricalCovariate, nulls: Nulls) -> Column:
    """Return what the column of a covariate must hold, given the rule for its nulls."""
    if isinstance(covariate, CategoricalCovariate):
        return Column(holds=Holds.level, levels=covariate.levels, nulls=nulls, admitted=covariate.admitted)
    if covariate.codes is not None:
        return Column(holds=Holds.binary, codes=covariate.codes.pair, nulls=nulls)
    return Column(holds=Holds.number, nulls=nulls)


# Columns that one outcome may be made of, and by what each may be multiplied.
MOST_PARTS, LEAST_TIMES, MOST_TIMES = 20, 1e-6, 1e6


class OutcomePart(Bounds):
    """A column of an outcome that is a linear combination, and its coefficient.

    The column is cut to its declared range before.
    """

    name: Name
    times: Finite
    codes: YesOrNo | None = None

    @model_validator(mode="after")
    def _ordinary(self) -> Self:
        if not LEAST_TIMES <= abs(self.times) <= MOST_TIMES:
            raise ValueError(f"'{self.name}' is multiplied by a number of {LEAST_TIMES:g} to {MOST_TIMES:g}, or less 0")
        return self


class Outcome(Bounds):
    """The outcome column and its declared range.

    With ``codes`` it is a binary column read as 0 and 1. With ``of`` it is no column but a linear combination of some,
    and missing where one of these is; it is cut to its range after they are to theirs.
    """

    name: Name
    codes: YesOrNo | None = None
    of: Annotated[tuple[OutcomePart, ...], Field(max_length=MOST_PARTS, exclude_if=lambda parts: not parts)] = ()
    leaves_out: Annotated[
        bool, Field(description="units without it are left out of its answer", exclude_if=lambda leaves: not leaves)
    ] = False

    @property
    def two_valued(self) -> bool:
        """Return whether it is declared as 0 or 1, and so may vary by half of its range."""
        return self.codes is not None or ((self.lower, self.upper) == (0, 1) and not self.of)

    @property
    def is_change(self) -> bool:
        """Return whether it is a difference: coefficients of several columns add up to 0."""
        return len(self.of) > 1 and abs(math.fsum(part.times for part in self.of)) < LEAST_TIMES

    @property
    def reads(self) -> dict[str, YesOrNo | None]:
        """The columns that it is read from, with their codes."""
        return {part.name: part.codes for part in self.of} or {self.name: self.codes}


def _block_value(value: Any) -> Any:
    """Return the value of a block key as text: YAML reads ``2026`` as a number."""
    if isinstance(value, str) and "=" in value:
        raise ValueError(f"write the value alone, as in {value.rpartition('=')[2][:40] or 2026}")
    return str(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


# The value of a block key: 2026-07 of the folder month=2026-07.
BlockValue = Annotated[str, BeforeValidator(_block_value), Field(min_length=1, max_length=200)]


class Select(Frozen):
    """The blocks that a run reads: the newest so many, those named, or from one to another."""

    model_config = ConfigDict(populate_by_name=True)

    newest: Annotated[int | None, Field(ge=1)] = None
    blocks: Annotated[
        tuple[BlockValue, ...] | None, Field(min_length=1, description="values of the block key, as in [2026-07]")
    ] = None
    first: Annotated[BlockValue | None, Field(alias="from", description="the first block, as in 2026-05")] = None
    last: Annotated[BlockValue | None, Field(alias="to", description="the last block")] = None

    @model_validator(mode="after")
    def _one_way(self) -> Select:
        ways = (self.newest is not None, self.blocks is not None, self.first is not None or self.last is not None)
        if sum(ways) != 1:
            raise RuleBroken(
                "choose by one of: 'newest', 'blocks', or 'from' and 'to'", "", "newest", "blocks", "from", "to"
            )
        return self

    @model_serializer(mode="plain")
    def _as_written(self) -> dict[str, Any]:
        said = {"newest": self.newest, "blocks": self.blocks, "from": self.first, "to": self.last}
        return {key: value for key, value in said.items() if value is not None}


class DataSource(Frozen):
    """A folder of Parquet partitions (hive layout), the privacy unit, and the block key.

    Values of the block key are ledger blocks.
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
    sane_clip(*value)
    return value


Clip = Annotated[tuple[Finite, Finite], AfterValidator(_clip_interval)]


Penalty = Annotated[Finite, Field(ge=1e-6, le=100)]


class EstimatorSettings(Frozen):
    """Base of an estimator's settings; ``schemas/studies.py`` knows them all by name."""

    name: str


class PrivacyRequest(Frozen):
    """The cost that the whole release may have, and its level."""

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

    ``purpose``: why it is asked, for the record; it changes nothing that is computed. ``execution`` is the operator's.
    ``choice``: why this estimator, where the study file left it open.
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
        """SHA-256 over everything that the study means.

        It leaves out ``data.path``, ``purpose`` and ``execution``.
        """
        return digest_of(self.specification())

    def specification(self) -> dict[str, Any]:
        """Return the study as plain JSON values, the same at every site.

        It leaves out ``data.path``, ``purpose``, ``execution`` and what a plan expects.
        """
        left_out = {"purpose", "execution", "choice", "expect"}
        document: dict[str, Any] = json.loads(self.model_dump_json(exclude=left_out))
        del document["data"]["path"]
        if document.get("clusters") is None:
            # A study without clusters means what it meant before there were any.
            document.pop("clusters", None)
        return document

    @property
    def roles(self) -> dict[str, Column]:
        """Declaration of what each column must hold."""
        return {self.data.unit: Column(holds=Holds.unit)}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the study reads."""
        return tuple(self.roles)

    def refuse_two_roles(self, also: str = "") -> None:
        """Refuse a column that stands in two places of the study, or is its block key too.

        Raises:
            ValueError: names the column; ``also``: what else may be wrong.
        """
        twice = [column for column, times in Counter((*self.columns, self.data.blocks)).items() if times > 1]
        if twice:
            raise ValueError(
                f"column {min(twice, key=str)!r} has two roles; take it out of one place, each column has one{also}"
            )

    @property
    def question(self) -> str:
        """Question in a few words for a person."""
        return self.kind

    @property
    def training_share(self) -> float | None:
        """The share of the units that train models and do nothing else.

        It is None where every unit serves every purpose.
        """
        return None

    @property
    def guarantee(self) -> Guarantee:
        """On what the privacy proof of this study's release rests."""
        return Guarantee.finite_sample

    @property
    def release_kind(self) -> str:
        """The kind of its release: of effects, or of a direction."""
        return "effect"

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Statements of what the release leaves public or unbounded."""
        return UNPROTECTED[self.privacy.level]

    @property
    def unbounded(self) -> tuple[Half, ...]:
        """The halves that this study leaves without a bound at its level.

        The contract must name each.
        """
        return ()


# Of sizes that vary more about their mean a few hold most units (``docs/proofs/clusters.md``, section 4).
FEWEST_CLUSTERS, FEWEST_OF_AN_ARM, MOST_SIZES = 6, 3, 2.0
# Clusters for each degree of freedom that covariates take which are constant within them.
PER_CONSTANT = 10
KEY = "clusters"


def too_few(number: int) -> str:
    """Return why so few clusters are refused."""
    return f"{number} clusters are too few to estimate the correlation within them; at least {FEWEST_CLUSTERS}"


def too_unlike(spread: float) -> str:
    """Return why clusters of sizes so unlike are refused."""
    return (
        f"cluster sizes vary too much, with a standard deviation of {spread:.3g} times their mean (at most "
        f"{MOST_SIZES:g}): a few clusters hold most units, and the correlation within them cannot be estimated"
    )


class DeclaredClusters(Frozen):
    """Clusters by the owner's word: how many there are, and how unlike their sizes.

    ``spread``: the standard deviation of their sizes over the mean size; 0 where all are of one size.
    """

    number: Annotated[int, Field(ge=2, le=10**8)]
    spread: Annotated[Finite, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.number < FEWEST_CLUSTERS:
            raise ValueError(too_few(self.number))
        if self.spread > MOST_SIZES:
            raise ValueError(f"{too_unlike(self.spread)}; leave 'clusters' out")
        return self


# How many clusters were treated; of several arms by arm, the reference has the others.
Treated = Annotated[int, Field(ge=1)] | dict[Name, Annotated[int, Field(ge=1)]] | None
EVERY = "all"


class CountedClusters(Frozen):
    """Numbers of clusters that have units of a subgroup: of all, and of treated ones."""

    number: Annotated[int, Field(ge=2, le=10**8)]
    treated: Treated = None

    @model_validator(mode="after")
    def _enough_of_each_arm(self) -> Self:
        if self.number < FEWEST_CLUSTERS:
            raise ValueError(too_few(self.number))
        if self.treated is None:
            return self
        arms = self._with_reference
        if (fewest := min(arms)) < FEWEST_OF_AN_ARM:
            raise RuleBroken(
                f"'treated' leaves an arm {max(fewest, 0)} of {self.number} clusters; each arm needs at least "
                f"{FEWEST_OF_AN_ARM}",
                "treated",
            )
        return self

    @property
    def _with_reference(self) -> tuple[int, ...]:
        """Clusters of each arm, those of the reference first."""
        treated = tuple(self.treated.values()) if isinstance(self.treated, dict) else (self.treated or 0,)
        return self.number - sum(treated), *treated

    def of_arms(self, arms: Sequence[str]) -> tuple[int, ...] | None:
        """Return the clusters of each arm, the reference first.

        None where treatment varies within clusters.

        Raises:
            ValueError: says by what names to write them.
        """
        if self.treated is None:
            return None
        names = list(arms[1:])
        if isinstance(self.treated, int):
            if len(names) > 1:
                raise RuleBroken(f"'treated' says how many clusters each of {names} has, by name", "clusters")
            return self._with_reference
        if sorted(self.treated) != sorted(names):
            raise RuleBroken(f"'treated' names the arms {sorted(self.treated)}, and not {sorted(names)}", "clusters")
        return self._with_reference[0], *(self.treated[name] for name in names)


class Clusters(CountedClusters):
    """The column that names the clusters of units, such as a school or a household.

    A unit without a value is a cluster of its own. ``treated``: how many clusters were treated, where treatment was
    given to whole clusters; None where it varies within them. ``subgroups``: clusters that have units of each subgroup;
    "all": each has units of every one. ``constant``: covariates of which all units of a cluster have one value.
    """

    column: Name
    spread: Annotated[Finite, Field(ge=0, le=MOST_SIZES)] = 1.0
    constant: tuple[Name, ...] = ()
    subgroups: Literal["all"] | dict[str, CountedClusters] | None = None

    @property
    def whole(self) -> bool:
        """True if whole clusters were treated."""
        return self.treated is not None

    def of_group(self, group: str) -> CountedClusters:
        """Return the clusters that have units of a subgroup."""
        return self.subgroups[group] if isinstance(self.subgroups, dict) else self

    def refuse_others(self, groups: Sequence[str] | None, arms: Sequence[str]) -> None:
        """Refuse counts that are not those of a study's subgroups and arms.

        Raises:
            ValueError: says what to write.
        """
        if groups is None and self.subgroups is not None:
            raise RuleBroken("'subgroups' of 'clusters' are those of the study, which has none; leave them out", KEY)
        if groups is not None and self.subgroups is None:
            raise RuleBroken(
                f"how many clusters each subgroup has is not said; write 'subgroups: {EVERY}' in 'clusters' where each "
                f"'{self.column}' has people of every one, else their numbers, as in "
                f"'subgroups: {{{groups[0]}: {{number: N{', treated: M' * self.whole}}}, ...}}'",
                KEY,
            )
        self.of_arms(arms)
        if groups is None or not isinstance(self.subgroups, dict):
            return
        if sorted(self.subgroups) != sorted(groups):
            raise RuleBroken(f"'clusters' names the subgroups {list(self.subgroups)}, and not {list(groups)}", KEY)
        for name, own in self.subgroups.items():
            if own.number > self.number:
                raise RuleBroken(f"subgroup '{name}' has more clusters than the {self.number} that there are", KEY)
            if (own.treated is None) is self.whole:
                raise RuleBroken("'treated' is said of all clusters and of each subgroup's, or of none", KEY)
            own.of_arms(arms)

    def degrees(self, covariates: Mapping[str, Covariate]) -> int:
        """Return how many degrees of freedom the covariates take that are constant within clusters.

        Raises:
            ValueError: one is no covariate, or they are more than a tenth of the clusters.
        """
        if missing := [name for name in self.constant if name not in covariates]:
            raise RuleBroken(f"'constant' of 'clusters' names {missing}, which are no covariates of the study", KEY)
        asked = [covariates[name] for name in self.constant]
        found = sum(len(one.slots) - 1 if isinstance(one, CategoricalCovariate) else 1 for one in asked)
        groups = self.subgroups.values() if isinstance(self.subgroups, dict) else ()
        fewest = min(one.number for one in (self, *groups))
        if found * PER_CONSTANT > fewest:
            raise RuleBroken(
                f"covariates that are constant within '{self.column}' take {found} degrees of freedom, which {fewest} "
                f"clusters do not have to spare ({PER_CONSTANT} clusters for each); adjust for fewer of them",
                KEY,
            )
        return found

    @property
    def role(self) -> Column:
        """The requirement on its column."""
        return Column(holds=Holds.unit, nulls=Nulls.welcome)


class SurveyWeights(Frozen):
    """The column of survey weights and the largest that counts.

    Up to a factor a weight is how many people of the population a unit stands for. One above ``upper`` counts as that,
    and one that is negative or missing as 0. ``mean``: about their mean, where it is known publicly; plans expect it,
    else a quarter of ``upper``.
    """

    column: Name
    upper: Annotated[Finite, Field(gt=0)]
    mean: Annotated[Finite, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _mean_below(self) -> Self:
        if self.mean is not None and self.mean > self.upper:
            raise ValueError(f"'mean' {self.mean:g} of the weights is above 'upper' {self.upper:g}")
        return self

    @property
    def share(self) -> float:
        """The mean weight that plans expect, as a share of the largest."""
        return MEAN_WEIGHT if self.mean is None else self.mean / self.upper

    @property
    def role(self) -> Column:
        """The requirement on its column."""
        return Column(holds=Holds.number, nulls=Nulls.welcome)


# Of the largest weight, what plans take the mean to be: surveys trim weights at three to five times it.
MEAN_WEIGHT = 0.25


def refuse_clusters(study: Any, takes: bool, beside: Sequence[str] = ()) -> None:
    """Refuse clusters where nothing is proved of them.

    Args:
        study: has ``clusters``, an estimator, a privacy request and data.
        takes: whether its estimator takes clusters.
        beside: keys that the study has and that clusters do not go with.

    Raises:
        ValueError: says what to write instead.
    """
    if study.clusters is None:
        return
    if not takes:
        raise RuleBroken(
            f"'clusters': estimator '{study.estimator.name}' counts people one by one; 'regression', "
            "'difference_in_means' and 'survival' with covariates take clusters",
            "clusters",
        )
    if study.privacy.level is not Level.sample:
        raise RuleBroken(
            f"at level '{study.privacy.level}' the sampling variance comes from pairs of people, assumed independent; "
            "'clusters' need level 'sample': declare that, or leave 'clusters' out",
            "clusters",
        )
    if study.privacy.delta == 0:
        raise RuleBroken(
            "'clusters' need a delta above 0, as in delta: 1e-6; without one leave 'clusters' out", "clusters"
        )
    if study.data.blocks is not None:
        raise RuleBroken(
            "'clusters' do not go with blocks, over which a cluster may be spread; leave 'clusters' out, or let the "
            "owner admit one block as a dataset of its own",
            "clusters",
        )
    for key in beside:
        raise RuleBroken(
            f"'{key}' does not go with 'clusters', whose correlation is measured over all units; leave one out", key
        )
