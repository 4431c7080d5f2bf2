"""A run's release: made of findings and charges, kept in the ledger, and found there again.

It holds declared facts and released values only. A run that is finished already needs no contract, no data and no key
any more.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from causalveil.flows.engine.engine import Engine
from causalveil.flows.engine.shown import committed_line, returned_line
from causalveil.flows.estimators.estimator import Result
from causalveil.schemas.asked.compare import asks_for
from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.contract import Contract, Review
from causalveil.schemas.documents import as_written, is_stored, own_version, parse_json
from causalveil.schemas.errors import RunConflict, StudyError, kind_of
from causalveil.schemas.estimators.aipw import NO_GUARANTEE
from causalveil.schemas.hints import option
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.limits import Code, Limit, in_order, limit
from causalveil.schemas.plan import Plan
from causalveil.schemas.privacy import Guarantee
from causalveil.schemas.release import (
    RELEASE_FILE,
    RELEASES,
    ApprovalStatement,
    Blocks,
    DataStatement,
    EffectRelease,
    Interval,
    NoiseStatement,
    PrivacyStatement,
    Release,
    Software,
    Variance,
    load_release_text,
)
from causalveil.schemas.remarks import Remark
from causalveil.schemas.studies import parse_study
from causalveil.schemas.study import Study
from causalveil.schemas.table import EffectStudy, TableStudy
from causalveil.tasks.data.data_folder import dataset_around
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.robustness import with_robustness
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.privacy.budget import FlowBudget, drop_records
from causalveil.tasks.privacy.ledger.accounts import use_of
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from causalveil.tasks.privacy.ledger.outlook import accounts_in, outlook_after
from causalveil.tasks.report.panel import lines_of, plain_text
from causalveil.tasks.report.table import TABLE, write_tables
from causalveil.tasks.sites.pool import Asked, questions_of

_LOG = logging.getLogger("causalveil.flow")
DEPENDENCIES = ("numpy", "scipy", "polars", "pandera", "pyarrow", "opendp", "dp-accounting", "prefect", "sqlalchemy")


def assemble_release(
    study: Study,
    contract: Contract,
    plan: Plan,
    warnings: tuple[Remark, ...],
    findings: Result,
    budget: FlowBudget,
    data: DataStatement | None,
    anchored: bool | None,
) -> Release:
    """Return the release of a run whose every charge is committed.

    ``warnings``: the planner's. ``anchored``: whether an older copy of the ledger is refused where the rows lie.
    """
    reservation = budget.reservation
    return RELEASES[study.release_kind](
        study=study.name,
        study_digest=study.digest,
        specification=study.specification(),
        run_id=reservation.run_id,
        dataset=contract.dataset,
        units=reservation.units,
        estimator=study.estimator.name,
        guarantee=study.guarantee,
        headline=NO_GUARANTEE if study.guarantee is Guarantee.asymptotic else None,
        warnings=warnings,
        privacy=PrivacyStatement(
            unit=study.data.unit,
            neighbours=study.privacy.neighbours,
            level=study.privacy.level,
            epsilon=plan.total.epsilon,
            delta=plan.total.delta,
            epsilon_pld=_known(plan.epsilon_pld),
            unprotected=study.unprotected,
            charges=plan.charges,
            blocks=Blocks(
                key=study.data.blocks,
                charged=reservation.blocks,
                units_span_blocks=contract.units_span_blocks,
                statement=blocks_statement(study.data.blocks, contract.units_span_blocks),
            ),
        ),
        noise=NoiseStatement(source=budget.noise.name),
        not_for_release=budget.noise.name == "seeded",
        software=Software(version=own_version(), dependencies={name: version(name) for name in DEPENDENCIES}),
        ledger=budget.ledger.statement(reservation.run_id).model_copy(update={"anchored": anchored}),
        data=data,
        snapshots=reservation.snapshots,
        units_of_measure=units_of(study, contract),
        approval=None if budget.noise.name == "seeded" else approval_of(contract),
        budget=None if budget.noise.name == "seeded" else left_after(contract, budget),
        **_fields(study, findings, reservation.units, () if data is None else data.bounds_from_data),
    )


def _fields(study: Study, findings: Result, units: int, from_rows: Collection[str]) -> dict[str, Any]:
    """Return the findings by field.

    ``from_rows``: columns whose ranges were drafted from the rows, so that no value lies beyond them.

    Each answer says how strong an unmeasured confounder would have to be. The reason for the estimator is among the
    details where ``auto`` chose it. An interval covers correlation within clusters where the study names them, and
    nowhere else.
    """
    if isinstance(findings, Findings) and isinstance(study, TableStudy):
        findings = replace(findings, answers=with_robustness(study, findings, units))
    fields, clusters = findings.fields(study), getattr(study, "clusters", None)
    if clusters is not None:
        fields["covers"] = (*fields["covers"], limit(Code.within_clusters, column=clusters.column))
    elif "not_covered" in fields:
        fields["not_covered"] = in_order((*fields["not_covered"], limit(Code.within_groups)))
    if isinstance(study, EffectStudy) and (design := study.taken_for_granted):
        fields["not_covered"] = in_order((*fields["not_covered"], *design))
    if "not_covered" in fields:
        fields["not_covered"] = _but_of(from_rows, fields["not_covered"])
    if study.choice is not None and "details" in fields:
        fields["details"] = {**fields["details"], "choice": study.choice}
    return fields


def _but_of(columns: Collection[str], limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Return limits, without these columns in those on values beyond a declared range."""
    remaining = list[Limit]()
    for stated in limits:
        if stated.code not in (Code.most_at_limits, Code.many_at_limits):
            remaining.append(stated)
        elif names := tuple(str(name) for name in stated.facts["columns"] if name not in columns):  # type: ignore[union-attr]
            remaining.append(limit(stated.code, columns=names))
    return tuple(remaining)


def units_of(study: Study, contract: Contract) -> dict[str, str]:
    """Return the unit of measure of each column of the study that has one in the contract."""
    offered = {name: contract.offered[name] for name in study.columns if name in contract.offered}
    return {name: column.unit_of_measure for name, column in offered.items() if column.unit_of_measure}


def approval_of(contract: Contract) -> ApprovalStatement:
    """Return who has to allow a release under a contract."""
    required = contract.review is Review.required
    return ApprovalStatement(data_class=contract.data_class.value, owner_key=contract.owner_key, review=required)


def left_after(contract: Contract, budget: FlowBudget) -> BudgetOutlook | None:
    """Return the budget left in the accounts that the run was charged to, by the caps in force.

    None if the owner took the level's cap away during the run: its charges and its release stand.
    """
    run = budget.reservation
    accounts = accounts_in(budget.ledger.sums(), run.dataset, run.level, run.blocks, contract)
    return outlook_after(accounts, use_of(run.charges, run.cost)) if accounts else None


def blocks_statement(key: str | None, units_span_blocks: bool) -> str:
    """Return a sentence on which blocks were charged and on whose word."""
    if key is None:
        return "The whole dataset is one block, and it was charged."
    if units_span_blocks:
        return (
            f"The owner says that units may have rows in several blocks of '{key}', so the account `all` was charged."
        )
    return (
        f"The owner asserts that no unit has rows in two blocks of '{key}', so only the blocks that were read were "
        "charged; a run cannot check this, since it does not see the other blocks."
    )


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a run knows its number of units, so every noise scale of its plan")
    return value


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
        release: the release.
        path: where its file lies.
        run_id: the run.
        resumed: whether the ledger knew the run before.
        granted: whether the data granted themselves at this run.
        admitted: whether the data were held to their contract at this run, for want of an earlier admission.
        returned: how many charges the ledger held already, whose values were returned and not drawn again; None if
            the run was finished, so that its release was returned and no stage ran.
        url: of the folder in object storage where the release lies as well; None: in none.
    """

    release: Release
    path: Path
    run_id: str
    resumed: bool
    granted: bool
    returned: int | None = 0
    admitted: bool = False
    url: str | None = None

    @property
    def estimate(self) -> float | None:
        """The headline answer's estimate; None where a gate withholds it."""
        return self._effect.estimate

    @property
    def interval(self) -> Interval | None:
        """The headline answer's interval; None where a gate withholds it."""
        return self._effect.interval

    @property
    def variance(self) -> Variance | None:
        """The headline answer's variances; None where a gate withholds it."""
        return self._effect.variance

    @property
    def _effect(self) -> EffectRelease:
        if not isinstance(self.release, EffectRelease):
            raise AttributeError(f"a release of kind '{self.release.kind}' estimates no effect")
        return self.release

    def __repr__(self) -> str:
        """Return one line: answer, cost and file."""
        return f"<RunResult {self.release.brief()}, {self.path}>"

    def __str__(self) -> str:
        """Return the panel that a run ends with, as plain text."""
        return f"{plain_text(lines_of(self))}\nRelease: {self.path}"

    def _repr_html_(self) -> str | None:
        """In a notebook a result is shown as its release."""
        return self.release._repr_html_()


def find_stored(path: Path, run_id: str) -> str | None:
    """Return the text of a finished run's release; None if the run is not finished.

    Raises:
        StudyError: the study file is wrong, or another version wrote the release and this one does not read it.
        RunConflict: the run is another study's, or its release was rejected by the data's owner.
        ReleaseHeld: the release waits for the data's owner.
        LedgerError: the ledger cannot be used.
    """
    ledger = open_ledger()
    text = ledger.stored_document(run_id)
    if text is None:
        return None
    drop_records(run_id)
    study_file, where, document = load_study_file(path), f"the release of run {run_id}", parse_json(text)
    try:
        load_release_text(text, where)
        study = parse_study(document["specification"], as_written(where, document))
    except StudyError as problem:
        raise StudyError(f"{problem}; fetch it as it is: causalveil ledger release {run_id} --out DIR") from None
    if not asks_for(study_file, study):
        raise RunConflict(
            f"run id {run_id} is taken by a finished run of another study; choose a new run id, or fetch that run's "
            f"release: causalveil ledger release {run_id} --out DIR"
        )
    return text


def give_back(stored: str, out: str | Path | None, run_id: str, engine: Engine) -> RunResult:
    """Write a stored release where it is wanted; no stage runs and nothing is charged.

    Raises:
        StudyError: the folder cannot be written, or holds another release.
    """
    _LOG.info(returned_line(run_id))
    return deliver(open_ledger(), stored, place_of(out, run_id), run_id, engine, resumed=True, returned=None)


def deliver(
    ledger: Ledger,
    text: str,
    place: Place,
    run_id: str,
    engine: Engine,
    *,
    resumed: bool,
    returned: int | None,
    granted: bool = False,
    admitted: bool = False,
) -> RunResult:
    """Show what a finished run charged, and write its release; see :class:`RunResult`."""
    release = load_release_text(text)
    path = engine.deliver(release, lambda: write_release(place, text))
    run = ledger.record(run_id)
    if run is not None:
        _LOG.info(committed_line([charge for charge, _ in run.charges], run.reservation))
    return RunResult(release, path, run_id, resumed, granted, returned, admitted, place.url)


@dataclass(frozen=True)
class Place:
    """The place of a release: a folder of this machine, and perhaps a URL of object storage."""

    folder: Path
    url: str | None = None


def place_of(out: str | Path | None, run_id: str) -> Place:
    """Return the place of a run's release.

    By default it is ``releases/<run id>`` in the working directory. A release for a URL is written there first, so that
    it can be read here.

    Raises:
        StudyError: it is a URL of something else than object storage, or holds credentials.
    """
    default = Path("releases") / run_id
    try:
        if is_stored(str(out or "")):
            return Place(default, str(out))
    except ValueError as problem:
        raise StudyError(f"{option('out')}: {problem}") from None
    return Place(Path(out) if out is not None else default)


def check_place(place: Place, study: Study) -> None:
    """Check that a study's release could be written to a place, before budget is reserved.

    Makes no file that stays.

    Raises:
        StudyError: another release lies there, it is no folder, nothing can be written to it, or a table would lie
            among the rows of a dataset.
        CausalveilError: a store does not answer, or refuses.
    """
    folder = place.folder
    if isinstance(study, Asked) and len(questions_of(study)) > 1:
        refuse_among_rows(place, "nothing was reserved")
    if place.url is not None:
        from causalveil.tasks.machine.stored_writes import refuse_unwritable

        refuse_unwritable(place.url)
    if (folder / RELEASE_FILE).is_symlink() or (folder / RELEASE_FILE).exists():
        raise StudyError(f"{folder / RELEASE_FILE}: another release lies there; choose another {option('out')}")
    nearest = folder.absolute()
    while not (nearest.exists() or nearest.is_symlink()) and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as problem:
        raise StudyError(
            f"{folder}: no release can be written there ({kind_of(problem)}); choose another {option('out')}; "
            "nothing was reserved"
        ) from None


def refuse_among_rows(place: Place, rest: str) -> None:
    """Refuse to write a table of answers where it would count as rows of a dataset.

    The owner's admission counts every Parquet file below a data folder, so the next run would refuse the data.

    Raises:
        StudyError: the place lies in a data folder; ``rest`` ends the line.
        CausalveilError: a store does not answer.
    """
    around: Path | str | None = dataset_around(place.folder)
    shown: Path | str = place.folder
    if around is None and place.url is not None:
        from causalveil.tasks.machine.stored_writes import dataset_around_url

        around, shown = dataset_around_url(place.url), place.url
    if around is not None:
        raise StudyError(
            f"{shown}: lies in the data folder {around}, where {TABLE} would count as rows of the dataset; choose "
            f"{option('out')} outside of that folder; {rest}"
        )


def write_release(place: Place, text: str) -> Path:
    """Write release.json atomically, and beside it several answers as CSV and Parquet.

    Raises:
        StudyError: the folder or the URL holds another release, the folder cannot be written, or a table would lie
            among the rows of a dataset.
        CausalveilError: a store does not answer, or refuses.
    """
    try:
        release: Release | None = load_release_text(text)
    except StudyError:
        # Another version wrote it: it is fetched as it is.
        release = None
    table = release if isinstance(release, EffectRelease) and len(release.answers) > 1 else None
    if table is not None:
        refuse_among_rows(place, "this run is in the ledger")
    path = write_whole(
        place.folder / RELEASE_FILE,
        text,
        taken=f"another release lies there; choose another {option('out')} (this run is in the ledger)",
        failed=f"the release is in the ledger: run again with the same {option('run_id')} and another {option('out')}",
    )
    if table is not None:
        write_tables(place.folder, table)
    if place.url is not None:
        from causalveil.tasks.machine.stored_writes import put_release

        put_release(place.folder, place.url)
    return path
