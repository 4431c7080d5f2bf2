"""release.json: everything that may leave the enclave."""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, TypeAdapter

from causalveil.schemas.answers import (
    Answer,
    BalanceRow,
    Benchmark,
    Calibration,
    ContrastAnswer,
    GateResult,
    GateVerdict,
    GroupCurves,
    State,
)
from causalveil.schemas.clusters import Clusters
from causalveil.schemas.columns import Finite
from causalveil.schemas.contradictions import contradictions
from causalveil.schemas.documents import Shown, as_written, parse_json, read_text, table_of
from causalveil.schemas.errors import ReleaseContradicted, StudyError
from causalveil.schemas.estimators.direction import Favours, Pair, Score
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.limits import Limit
from causalveil.schemas.mistakes import validate
from causalveil.schemas.privacy import (
    Amount,
    Charge,
    Frozen,
    Guarantee,
    Half,
    Level,
    Neighbours,
    PublicKey,
    amount_text,
)
from causalveil.schemas.remarks import Remark
from causalveil.schemas.study import Estimand
from causalveil.schemas.warehouse import TableSnapshot

if TYPE_CHECKING:
    import polars as pl

SCHEMA_FILE = Path(__file__).with_name("release-v1.schema.json")
RELEASE_FILE = "release.json"


class Interval(Frozen):
    """A confidence interval and the errors that it covers."""

    lower: Finite
    upper: Finite
    confidence: Finite
    covers: Annotated[tuple[Limit, ...], Field(description="sources of error that the interval covers")]
    whole_range: Annotated[bool, Field(description="noise hides the estimate: the interval is the declared range")]
    bias: Annotated[
        Finite, Field(ge=0, description="how far confounding left out may have moved the estimate, as far as covered")
    ] = 0.0


class Variance(Frozen):
    """Squared standard errors, in squared outcome units, from which pooling weights follow."""

    sampling: Annotated[Finite, Field(ge=0)]
    noise: Annotated[Finite, Field(ge=0)]


class Blocks(Frozen):
    """The parts of the dataset that were charged.

    That no unit spans two of them is the owner's assertion.
    """

    key: str | None
    charged: tuple[str, ...]
    units_span_blocks: bool
    statement: Annotated[str, Field(description="the same in words")] = ""


class PrivacyStatement(Frozen):
    """The guarantee in full."""

    unit: str
    neighbours: Neighbours
    level: Level
    epsilon: Amount
    delta: Amount
    epsilon_pld: Annotated[
        Finite, Field(description="the same charges by privacy loss distributions, at the same delta")
    ]
    unprotected: Annotated[tuple[str, ...], Field(description="what this level leaves public or unbounded, in words")]
    charges: tuple[Charge, ...]
    blocks: Blocks


class NoiseStatement(Frozen):
    """The source of the noise."""

    source: Literal["operating_system", "seeded"]


class Software(Frozen):
    """The software that computed the release."""

    version: str
    dependencies: dict[str, str]


class DataStatement(Frozen):
    """The rows behind public and synthetic data's units, as far as they may be told.

    A release of sensitive data has no such statement.
    """

    rows: Annotated[int, Field(ge=1, description="rows of the source, before any was left out or made one with others")]
    left_out: Annotated[dict[str, int], Field(description="rows without a value, by the column that lacks it")]
    bounds_from_data: Annotated[
        tuple[str, ...], Field(description="columns of the study whose range or levels were drafted from the rows")
    ]


class ApprovalStatement(Frozen):
    """The approval that the contract required for this release."""

    data_class: Annotated[
        Literal["public", "synthetic", "sensitive"], Field(description="of sensitive data an owner grants the budget")
    ]
    owner_key: Annotated[PublicKey | None, Field(description="the key that signs grants and reviews; null: none")]
    review: Annotated[bool, Field(description="whether a release is held until the owner approves it")]

    @property
    def words(self) -> str:
        """Return the statement in words."""
        if self.data_class != "sensitive":
            granted = f"No approval was needed: the data are {self.data_class}, and the contract itself grants the cap."
        elif self.owner_key is None:
            granted = "The data's owner granted the budget, without a signature."
        else:
            granted = f"The data's owner granted the budget, signed with key {self.owner_key}."
        return f"{granted} The owner approves each release before it leaves." if self.review else granted


class LedgerStatement(Frozen):
    """The ledger, and the entry of the run's last charge in its chain, by hash and number.

    A ledger without that entry is an older copy, or was truncated.
    """

    identity: str
    entry_hash: str
    sequence: Annotated[int | None, Field(ge=1, description="number of that entry")] = None
    anchored: Annotated[
        bool | None,
        Field(
            description="whether the file `_ledger.json` beside the rows names the run's reservation, so that an older "
            "copy of the ledger is refused there; null: a simulation, public data that admitted themselves, or a run "
            "of an earlier version"
        ),
    ] = None


class OfStudy(Shown, Frozen):
    """The study that a document answers."""

    kind: str
    schema_version: Literal[1] = 1
    study: str
    study_digest: str
    specification: Annotated[dict[str, Any], Field(description="the study file, without data.path and execution")]


class Release(OfStudy):
    """The common part of every release of a run: its cost and the place of the charge."""

    run_id: str
    dataset: str
    units: Annotated[int, Field(ge=1, description="number of units; public under replace-one")]
    estimator: str
    guarantee: Guarantee
    headline: Annotated[
        str | None, Field(description="what must be read first: that this release has no privacy guarantee; else null")
    ] = None
    warnings: Annotated[
        tuple[Remark, ...],
        Field(description="what `plan` warned of before a row was read, by public facts and its stand-in population"),
    ] = ()
    privacy: PrivacyStatement
    noise: NoiseStatement
    not_for_release: bool
    software: Software
    ledger: LedgerStatement
    data: Annotated[
        DataStatement | None, Field(description="rows behind the units, of public and synthetic data; else null")
    ] = None
    snapshots: Annotated[
        tuple[TableSnapshot, ...],
        Field(description="states of open tables that the rows were taken from; empty where they are of no such table"),
    ] = ()
    units_of_measure: Annotated[
        dict[str, str], Field(description="of the study's columns, as the contract names them")
    ] = Field(default_factory=dict)
    approval: Annotated[
        ApprovalStatement | None,
        Field(description="who had to allow the release; null of simulations"),
    ] = None
    budget: Annotated[
        BudgetOutlook | None, Field(description="what was left of the owner's budget after this run was reserved")
    ] = None

    def brief(self) -> str:
        """Return study, question, answer and cost in one line."""
        asked = getattr(self, "estimand", self.kind)
        return (
            f"{self.study}: {asked} by {self.estimator}, {self.answer()}, epsilon {amount_text(self.privacy.epsilon)}"
        )

    def answer(self) -> str:
        """Return the answer in a few words."""
        return f"{self.units:,} units"


class Correlation(Frozen):
    """The posterior median of an intraclass correlation, and its central 90% interval."""

    low: Annotated[Finite, Field(ge=0, le=1)]
    median: Annotated[Finite, Field(ge=0, le=1)]
    high: Annotated[Finite, Field(ge=0, le=1)]


class AnswerClustering(Frozen):
    """The correlation within clusters in an answer, after adjustment."""

    outcome: str
    group: str
    arm: str
    correlation: Correlation
    design_effect: Annotated[
        Finite, Field(gt=0, description="sampling variance over that of as many independent units")
    ]
    effective_people: Annotated[Finite, Field(gt=0, description="units over the design effect")]
    hidden: Annotated[bool, Field(description="noise hides the correlation: these numbers are its prior's")]


class ClustersStatement(Clusters):
    """The declared clusters, and the correlation within them in each answer with an estimate."""

    answers: tuple[AnswerClustering, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence for each answer."""
        return tuple(map(self._sentence, self.answers))

    def _sentence(self, answer: AnswerClustering) -> str:
        keys = [key for key in ("outcome", "group", "arm") if len({getattr(row, key) for row in self.answers}) > 1]
        place = " in " * bool(keys) + ", ".join(str(getattr(answer, key)) for key in keys)
        if answer.hidden:
            return f"Noise hides the correlation within {self.column}{place}; the interval allows for what is usual."
        icc = answer.correlation
        return (
            f"Intraclass correlation within {self.column}{place}: {icc.median:.2g} ({icc.low:.2g} to {icc.high:.2g}), "
            f"so that all tell as much as {answer.effective_people:,.0f} independent ones."
        )


def interval_from(answer: Answer, confidence: float, covers: tuple[Limit, ...]) -> Interval | None:
    """Return the interval of an answer with what it covers; None where a gate withholds it."""
    ends = answer.interval
    if ends is None:
        return None
    return Interval(
        lower=ends.lower,
        upper=ends.upper,
        confidence=confidence,
        covers=covers,
        whole_range=answer.state is State.unresolved,
        bias=answer.bias or 0.0,
    )


class EffectTable(OfStudy):
    """A table of effects of a run, of sites or of blocks, the headline answer first.

    Its rows are outcomes by subgroups by arms.

    A study of one question has one answer. ``covers`` and ``not_covered`` apply to all intervals.
    """

    estimand: Estimand
    confidence: Annotated[Finite, Field(gt=0, lt=1)]
    answers: Annotated[tuple[Answer, ...], Field(min_length=1, description="the headline answer first")]
    covers: Annotated[tuple[Limit, ...], Field(description="sources of error that every interval covers")]
    not_covered: Annotated[tuple[Limit, ...], Field(description="sources of error that no interval covers")]
    balance: Annotated[
        tuple[BalanceRow, ...],
        Field(description="of each covariate that was adjusted for, by subgroup and arm; empty of other estimators"),
    ] = ()
    gates: tuple[GateResult, ...] = ()
    calibration: Annotated[Calibration | None, Field(description="null: no negative control was asked for")] = None
    curves: Annotated[
        tuple[GroupCurves, ...], Field(description="of times to an event, by subgroup and arm; else empty")
    ] = ()
    if TYPE_CHECKING:
        # Every table has these; each kind declares them at its own place in the file.
        estimator: str
        units_of_measure: dict[str, str]

    def to_frame(self) -> pl.DataFrame:
        """Return the answers as a data frame, a row each; ``to_pandas()`` of it is one of pandas."""
        frame: pl.DataFrame = table_of(self)
        return frame

    @property
    def estimate(self) -> float | None:
        """The headline answer's estimate; None where it has none."""
        return self.answers[0].estimate

    @property
    def interval(self) -> Interval | None:
        """The headline answer's interval; None where it has none."""
        return self.interval_of(self.answers[0])

    @property
    def variance(self) -> Variance | None:
        """The headline answer's variances; None where it has none."""
        return self.variance_of(self.answers[0])

    def variance_of(self, answer: Answer) -> Variance | None:
        """Return an answer's variances; None where a gate withholds it."""
        if answer.sampling_error is None or answer.noise_error is None:
            return None
        return Variance(sampling=answer.sampling_error**2, noise=answer.noise_error**2)

    def interval_of(self, answer: Answer) -> Interval | None:
        """Return the interval of an answer; None where a gate withholds it."""
        return interval_from(answer, self.confidence, self.covers)

    @property
    def gate_failed(self) -> bool:
        """Return whether a declared gate failed."""
        return any(gate.verdict is GateVerdict.failed for gate in self.gates)

    def answer(self) -> str:
        """Return the headline answer's estimate and interval, and how many answers there are."""
        estimate, interval = self.estimate, self.interval
        first = "a withheld answer" if self.answers[0].state is State.withheld else "no answer"
        if estimate is not None and interval is not None:
            ends = f"[{interval.lower:,.4g}, {interval.upper:,.4g}]"
            first = f"{estimate:,.4g}, {interval.confidence:.0%} interval {ends}"
        return first if len(self.answers) == 1 else f"{first}, first of {len(self.answers)} answers"


class EffectRelease(EffectTable, Release):
    """The effects of one run."""

    kind: Literal["effect"] = "effect"
    contrasts: Annotated[
        tuple[ContrastAnswer, ...],
        Field(
            description="of rows of the table, in the order of the study",
            exclude_if=lambda contrasts: not contrasts,
        ),
    ] = ()
    clusters: Annotated[ClustersStatement | None, Field(description="null: units were counted as independent")] = None
    benchmarks: Annotated[
        tuple[Benchmark, ...],
        Field(description="of the headline answer, what each covariate explains; empty of other estimators and trials"),
    ] = ()
    cells: Annotated[
        tuple[Finite, ...] | None,
        Field(description="released numbers that all of times is read off; null where effects are adjusted"),
    ] = None
    details: Annotated[
        dict[str, float | int | str | bool],
        Field(description="post-processing of released values, or declared facts, by name"),
    ]


class ScoreRelease(Frozen):
    """The answer of one score, in released values; None where there is none."""

    score: Score
    answered: Annotated[bool, Field(description="false: propose-test-release gave no answer")]
    x_to_y: Annotated[Finite | None, Field(description="private dependence of y's residuals on x")]
    y_to_x: Annotated[Finite | None, Field(description="private dependence of x's residuals on y")]
    margin: Annotated[Finite | None, Field(description="private y_to_x minus x_to_y: above 0 favours x to y")]
    favours: Favours | None
    order_kept: Annotated[
        Finite | None,
        Field(
            ge=0,
            le=1,
            description="the theorem's probability that noise kept the order of the two scores, at the released "
            "margin; one minus it bounds the chance of so large a margin if the true order is the other",
        ),
    ]
    theorem: Annotated[str, Field(description="which theorem, and what it takes as given")]
    charges: tuple[str, ...]


class Verdict(Frozen):
    """The scores combined, and how."""

    favours: Annotated[Favours | None, Field(description="null: no score answered, or they cancel")]
    weight: Annotated[Finite, Field(ge=-1, le=1, description="above 0 for x to y; 1 if all are certain of it")]
    rule: str


class DirectionRelease(Release):
    """The direction of causation between two variables, as private scores estimate it."""

    kind: Literal["direction"] = "direction"
    pair: Pair
    scores: tuple[ScoreRelease, ...]
    verdict: Verdict
    unbounded_halves: tuple[Half, ...]
    details: Annotated[dict[str, float | int | str | bool], Field(description="declared facts, by name")]

    def answer(self) -> str:
        """Return the direction that the scores favour."""
        if self.verdict.favours is None:
            return "no verdict"
        names = (self.pair.x.name, self.pair.y.name)
        return " -> ".join(names if self.verdict.favours == "x_to_y" else names[::-1])


RELEASES: dict[str, type[Release]] = {
    "effect": EffectRelease,
    "direction": DirectionRelease,
}
# Keys that most readers skip are last in the file.
LAST = ("data", "snapshots", "privacy", "noise", "not_for_release", "software", "ledger", "approval", "budget")


def _any_release() -> Any:
    """Return the union of all kinds, distinguished by ``kind``."""
    return Annotated[reduce(or_, RELEASES.values()), Discriminator("kind")]


def release_schema() -> dict[str, Any]:
    """Return the JSON Schema of release.json: one branch per kind.

    ``schemas/release-v1.schema.json`` is its export.
    """
    schema: dict[str, Any] = TypeAdapter(_any_release()).json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "causalveil release, version 1",
    }


def release_text(release: Release) -> str:
    """Return the bytes of release.json.

    They are indented; keys have the order of the model, with those of ``LAST`` at the end.
    """
    document = release.model_dump(mode="json")
    ordered = {key: document[key] for key in document if key not in LAST} | {key: document[key] for key in LAST}
    return json.dumps(ordered, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_release_text(text: str, where: str = "release") -> Release:
    """Read a release document back.

    Raises:
        StudyError: not JSON, of an unknown kind, or not of the schema; names the version that wrote it.
        ReleaseContradicted: its numbers contradict each other, or its study.
    """
    try:
        document = parse_json(text)
    except ValueError:
        raise StudyError(f"{where}: is not a JSON document") from None
    written = as_written(where, document)
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in RELEASES:
        raise StudyError(f"{written}: 'kind' must be one of: {', '.join(RELEASES)}")
    release = validate(RELEASES[kind], document, written)
    if wrong := list(contradictions(release)):
        raise ReleaseContradicted(f"{where}: contradicts itself: {'; '.join(wrong[:8])}")
    return release


def release_file(path: Path) -> Path:
    """Return the file of a release, given the file or the folder of its run."""
    return path / RELEASE_FILE if path.is_dir() else path


def load_release(path: Path) -> Release:
    """Read a release file back, or that of a run's folder.

    Raises:
        StudyError: missing, or see ``load_release_text``.
    """
    path = release_file(path)
    return load_release_text(read_text(path), str(path))
