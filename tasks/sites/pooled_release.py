"""Make the pooled release of accepted bundles, of effects and of times.

Times to an event are pooled by released cells: arms are compared within sites. Whether any unit was followed to the
horizon at a site follows from released numbers at risk, not from estimates.

All other rows are pooled by effects. Pooled negative controls calibrate intervals, and declared gates are judged again
on the pooled balance. Each site's part is stated. Post-processing of released values; costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from causalveil.schemas.answers import (
    Answer,
    BalanceRow,
    Calibration,
    GateResult,
    GateVerdict,
    GroupCurves,
    Limits,
    LogRankTest,
    State,
)
from causalveil.schemas.documents import digest_of
from causalveil.schemas.errors import BundleError
from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit, united
from causalveil.schemas.plan import Sizes
from causalveil.schemas.questions import ALL_UNITS, FailedGate, Gates, OutcomeRole
from causalveil.schemas.release import EffectRelease, Interval, Software, Variance
from causalveil.schemas.sites.pooled import (
    PooledAnswer,
    PooledEstimate,
    PooledPrivacy,
    PooledRelease,
    SiteGate,
    SitePart,
    SiteRecord,
)
from causalveil.schemas.sites.round import AgreedTerms, Model, PooledBy, Reason
from causalveil.schemas.specification import level_names, with_level_names
from causalveil.schemas.studies import parse_study
from causalveil.tasks.estimate.answers import Measured, learn, scale_of
from causalveil.tasks.estimate.findings import balance_gate, critical_of
from causalveil.tasks.estimate.interval import NOISY
from causalveil.tasks.estimate.times.answers import log_rank_test, table_stage
from causalveil.tasks.estimate.times.curves import NoisyCells
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.releases import JointCells, grid_of
from causalveil.tasks.estimate.times.strata import Strata, TimesShown
from causalveil.tasks.sites.accept import Accepted
from causalveil.tasks.sites.pool import (
    Asked,
    CombinedCell,
    SourceAnswer,
    cell_of,
    limits_of,
    number_fields,
    outcomes_of,
    part_fields,
    question_fields,
    together_at,
    widths_of,
)


@dataclass(frozen=True)
class OfCells:
    """The estimates of a table by released cells; without cells, pooling is by effects.

    Attributes:
        by_effects: whether there are no cells.
        rows: the estimate that is stratified by site.
        together: its interval that holds jointly with those of all other rows; None where there is one row.
        curves: the arms' means over sites, where all have one grid.
        log_rank: the test within sites of the first row's events.
    """

    by_effects: bool
    rows: tuple[PooledEstimate | None, ...]
    together: tuple[Limits | None, ...]
    curves: tuple[GroupCurves, ...] = ()
    log_rank: LogRankTest | None = None


def of_cells(study: SurvivalStudy, releases: Mapping[str, EffectRelease]) -> OfCells:
    """Compare arms within sites by their released cells.

    Raises:
        BundleError: a release has no cells, or contradicts them.
    """
    strata, rows = _strata(releases), len(study.measure)
    each = together_at(study.confidence, rows)
    together = [limits_of(_stratified(study, strata, measure, each).interval) for measure in study.measure]
    return OfCells(
        False,
        tuple(_stratified(study, strata, measure, study.confidence) for measure in study.measure),
        tuple(together) if rows > 1 else (None,),
        (_curves(study, strata, next(iter(releases.values())).answers[0]),) if strata.one_grid else (),
        log_rank_test(strata.log_rank(study.confidence)),
    )


def _strata(releases: Mapping[str, EffectRelease]) -> Strata:
    """Return both arms of every site by its released cells.

    Raises:
        BundleError: a release has no cells, or contradicts them.
    """
    arms = tuple(TwoArms(_cells_of(site, release)) for site, release in releases.items())
    return Strata(arms, tuple(release.units for release in releases.values()))


def _cells_of(site: str, release: EffectRelease) -> NoisyCells:
    if release.cells is None:
        raise BundleError(
            f"site '{site}': {Reason.unfit}: its release has no cells, as an older version of causalveil made it; "
            "write 'pooled_by: effects', which pools the same bundles"
        )
    study = parse_study(release.specification, f"the study of site '{site}'")
    if isinstance(study, SurvivalStudy):
        released = np.array(release.cells)
        sizes = Sizes(units=release.units, train=release.units, estimation=release.units)
        whole = len(released) == grid_of(study, release.units).numbers
        if whole and _same_answers(table_stage(study, sizes, released).answers, release.answers):
            return JointCells.read(released, study, sizes).two_arms((0,), 1).cells
    raise BundleError(f"site '{site}': {Reason.foreign}: its release contradicts its own cells")


def _same_answers(computed: Sequence[Answer], released: Sequence[Answer]) -> bool:
    """Return whether answers are the same, up to rounding on another machine."""
    if len(computed) != len(released) or any(row.estimate is None or row.interval is None for row in released):
        return False
    ours, theirs = (
        np.array([(row.estimate, *dict(row.interval or {}).values(), row.sampling_error) for row in rows], dtype=float)
        for rows in (computed, released)
    )
    return bool(np.allclose(ours, theirs, rtol=1e-6, atol=1e-9))


def _curves(study: SurvivalStudy, strata: Strata, row: Answer) -> GroupCurves:
    outcome = study.outcome
    shown = TimesShown(outcome.horizon, outcome.unit_of_measure, outcome.origin, outcome.labels)
    curves = strata.curves(shown, study.confidence, (row.reference, row.arm))
    return GroupCurves(group=row.group, arm=row.arm, reference=row.reference, curves=curves)


def _stratified(study: SurvivalStudy, strata: Strata, measure: Measure, confidence: float) -> PooledEstimate:
    """Return a measure that is stratified by site."""
    contrast = strata.contrast(measure, confidence, study.estimator.bias())
    covers: tuple[Limit, ...] = NOISY[:2]
    if study.estimator.bias() > 0:
        covers = (*covers, limit(Code.confounding_of_prior))
    if not strata.all_seen:
        covers = (*covers, limit(Code.unseen_sites))
    interval = Interval(
        lower=contrast.lower,
        upper=contrast.upper,
        confidence=confidence,
        covers=covers,
        whole_range=contrast.whole_range,
        bias=contrast.bias,
    )
    return PooledEstimate(
        estimate=contrast.estimate,
        interval=interval,
        variance=Variance(sampling=contrast.sampling, noise=contrast.noise),
        standard_error=math.sqrt(contrast.sampling + contrast.noise),
    )


DEPENDENCIES = ("numpy", "scipy", "cryptography")
Releases = Mapping[str, EffectRelease]


# A bundle's numbers come from another machine: an overflow ends the pooling where it happens, and is no answer.
@np.errstate(over="raise", divide="raise", invalid="raise")
def pooled_release(terms: AgreedTerms, study: Asked, accepted: Sequence[Accepted]) -> PooledRelease:
    """Pool accepted bundles.

    Args:
        terms: of the round.
        study: the one that travelled.
        accepted: one per site, of ``tasks.sites.accept.accept``, which checks that all tables have the same rows.

    Raises:
        BundleError: a bundle reports a variance of 0, or its cells cannot be pooled.
        ArithmeticError: numbers are too large or too small together.
    """
    releases, model, widths = {item.site: item.release for item in accepted}, terms.model, widths_of(study)
    tables = [[SourceAnswer(site, release, row) for row in release.answers] for site, release in releases.items()]
    cells = [cell_of(row, study.confidence, widths[row[0].row.outcome]) for row in zip(*tables, strict=True)]
    strata = OfCells(True, (None,) * len(cells), (None,) * len(cells))
    if isinstance(study, SurvivalStudy) and terms.pooled_by is PooledBy.cells:
        strata = of_cells(study, releases)
    calibration, calibrated = _calibrated(study, cells, model, releases)
    balance, declared = _balance(cells, releases, model), getattr(study, "gates", None)
    gates = _gates(declared, balance)
    answers = tuple(
        _answer(cell, limits, _Gated(declared, gates), strata, (place, model))
        for place, (cell, limits) in enumerate(zip(cells, calibrated, strict=True))
    )
    estimates = (answer.stratified or (answer.fixed if model is Model.fixed else answer.random) for answer in answers)
    covers = united(limit for estimate in estimates if estimate for limit in estimate.interval.covers)
    if study.clusters is not None:
        # The sampling error of each site includes it.
        covers = (*covers, limit(Code.within_clusters, column=study.clusters.column))
    return PooledRelease(
        **_of_sites(terms, study, accepted),
        confidence=study.confidence,
        answers=answers,
        covers=covers,
        not_covered=united(limit for release in releases.values() for limit in release.not_covered),
        balance=balance,
        gates=gates,
        site_gates=tuple(
            SiteGate(site=site, **gate.model_dump()) for site, release in releases.items() for gate in release.gates
        ),
        calibration=calibration,
        curves=strata.curves,
        sites=tuple(_record_of(item) for item in accepted),
    )


class _Gated:
    """The answers that gates on balance affect."""

    def __init__(self, declared: Gates | None, results: Sequence[GateResult]) -> None:
        self.failed = {(gate.group, gate.arm) for gate in results if gate.verdict is GateVerdict.failed}
        self.groups = tuple(dict.fromkeys(gate.group for gate in results))
        self.withholds = declared is not None and declared.failed is FailedGate.withhold

    def fail(self, cell: CombinedCell) -> bool:
        """Return whether a gate of an answer failed; answers on all units have all gates."""
        row = cell.row
        groups = self.groups if row.group == ALL_UNITS else (row.group,)
        return any((group, arm) in self.failed for group in groups for arm in (row.arm, row.reference))


def _answer(
    cell: CombinedCell, calibrated: Limits | None, gated: _Gated, strata: OfCells, at: tuple[int, Model]
) -> PooledAnswer:
    """Return a row; ``at``: its place in the table, and the declared model."""
    place, model = at
    stratified, failed = strata.rows[place], gated.fail(cell)
    withheld = failed and gated.withholds
    if cell.pooled is None and stratified is None:
        state = State.unresolved
    elif withheld:
        state = State.withheld
    else:
        marked = any(answer.state is State.marked for answer in cell.weighed)
        state = State.marked if failed or marked else State.answered
    shown = state in (State.answered, State.marked)
    pooled = cell.pooled if shown else None
    declared = cell.of(model) if strata.by_effects else stratified
    simultaneous = cell.simultaneous(model) if strata.by_effects else strata.together[place]
    return PooledAnswer(
        **question_fields(cell.row),
        **number_fields(declared if shown else None),
        state=state,
        simultaneous=simultaneous if shown else None,
        calibrated=calibrated if shown else None,
        spread=cell.spread or None if shown else None,
        confounding=cell.confounding(model) if shown else None,
        log_rank=strata.log_rank if place == 0 else None,
        fixed=None if pooled is None else pooled.fixed,
        random=None if pooled is None else pooled.random,
        stratified=stratified if shown else None,
        heterogeneity=None if pooled is None else pooled.heterogeneity,
        sites=tuple(
            SitePart(site=answer.source, **part_fields(cell, answer, withheld=withheld)) for answer in cell.answers
        ),
        leave_one_out=() if pooled is None else pooled.leave_one_out,
    )


def _calibrated(
    study: Asked, cells: Sequence[CombinedCell], model: Model, releases: Releases
) -> tuple[Calibration | None, tuple[Limits | None, ...]]:
    """Calibrate every other answer's interval by the pooled negative controls.

    Negative controls of times to an event without adjustment calibrate nothing.
    """
    uncalibrated: tuple[Limits | None, ...] = (None,) * len(cells)
    declared = sum(role is OutcomeRole.negative_control for role, _ in outcomes_of(study).values())
    if not declared:
        return None, uncalibrated
    if isinstance(study, SurvivalStudy) and not study.covariates:
        return next(iter(releases.values())).calibration, uncalibrated
    controls = [cell for cell in cells if cell.row.role is OutcomeRole.negative_control]
    shown = [control for cell in controls if cell.row.group == ALL_UNITS and (control := _measured(cell, model))]
    calibration, systematic = learn(declared, shown)
    limits = list[Limits | None]()
    for cell in cells:
        answer = None if cell in controls else _measured(cell, model)
        if systematic is None or answer is None:
            limits.append(None)
            continue
        limits.append(systematic.limits(answer, _quantile(study.confidence, cell, model), cell.width))
    return calibration, tuple(limits)


def _measured(cell: CombinedCell, model: Model) -> Measured | None:
    """Return the estimate under a model for calibration."""
    pooled = cell.of(model)
    if pooled is None:
        return None
    return Measured(pooled.estimate, pooled.standard_error, scale_of(cell.spread, cell.width))


def _quantile(confidence: float, cell: CombinedCell, model: Model) -> float:
    """Return the quantile of the declared model's interval.

    Normal for fixed effects, Student's for random ones (Hartung and Knapp).
    """
    upper = (1 + confidence) / 2
    return float(ndtri(upper) if model is Model.fixed else stdtrit(len(cell.weights) - 1, upper))


def _balance(cells: Sequence[CombinedCell], releases: Releases, model: Model) -> tuple[BalanceRow, ...]:
    """Each covariate's difference, by the weights of sites in the first primary outcome's answer."""
    first = cells[0].row
    of_first = {(cell.row.group, cell.row.arm): cell for cell in cells if cell.row.outcome == first.outcome}
    arms = {arm for _, arm in of_first}
    by_covariate: dict[tuple[str, str, str], list[tuple[float, BalanceRow]]] = {}
    for site, release in releases.items():
        for row in release.balance:
            # The reference has the weights of the first arm's comparison with it.
            arm = row.arm if row.arm in arms else first.arm
            cell = of_first.get((row.group, arm)) or of_first[first.group, arm]
            weight = cell.weight(site, model)
            if weight > 0:
                by_covariate.setdefault((row.group, row.arm, row.covariate), []).append((weight, row))
    rows = []
    for (group, arm, covariate), parts in by_covariate.items():
        total = math.fsum(weight for weight, _ in parts)
        rows.append(
            BalanceRow(
                group=group,
                arm=arm,
                covariate=covariate,
                before=math.fsum(weight * row.before for weight, row in parts) / total,
                after=math.fsum(weight * row.after for weight, row in parts) / total,
                noise_error=math.sqrt(math.fsum((weight * row.noise_error) ** 2 for weight, row in parts)) / total,
            )
        )
    return tuple(rows)


def _gates(declared: Gates | None, balance: Sequence[BalanceRow]) -> tuple[GateResult, ...]:
    """The declared gate on balance, judged on the pooled differences.

    The spread of weights is judged by each site itself.
    """
    if declared is None or declared.balance is None or not balance:
        return ()
    places: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in balance:
        places.setdefault((row.group, row.arm), []).append((row.after, row.noise_error))
    critical, bound = critical_of(len(balance)), declared.balance
    return tuple(balance_gate(group, arm, bound, numbers, critical) for (group, arm), numbers in places.items())


def _of_sites(terms: AgreedTerms, study: Asked, accepted: Sequence[Accepted]) -> dict[str, Any]:
    """Return the fields of study, round and privacy.

    Epsilon and delta of the whole are the largest of any site: sites are disjoint, by declaration, and a release of
    one site depends on no person of another (parallel composition).
    """
    statements = [item.release.privacy for item in accepted]
    # All sites name levels alike, else their bundles are refused.
    specification = with_level_names(study.specification(), level_names(accepted[0].release.specification))
    return {
        "study": study.name,
        "study_digest": digest_of(specification),
        "specification": specification,
        "round": terms.round,
        "units": sum(item.release.units for item in accepted),
        "estimand": study.estimand,
        "estimator": study.estimator.name,
        "guarantee": study.guarantee,
        "model": terms.model,
        "pooled_by": terms.pooled_by,
        "terms": accepted[0].bundle.statement.terms,
        "privacy": PooledPrivacy(
            unit=", ".join(dict.fromkeys(statement.unit for statement in statements)),
            neighbours=study.privacy.neighbours,
            level=study.privacy.level,
            epsilon=max(statement.epsilon for statement in statements),
            delta=max(statement.delta for statement in statements),
            units_disjoint=True,
            unprotected=tuple(dict.fromkeys(text for statement in statements for text in statement.unprotected)),
        ),
        "units_of_measure": dict(
            sorted(set.intersection(*(set(item.release.units_of_measure.items()) for item in accepted)))
        ),
        "software": Software(
            version=version("causalveil"), dependencies={name: version(name) for name in DEPENDENCIES}
        ),
    }


def _record_of(item: Accepted) -> SiteRecord:
    """Return a site's record: its data, its charge, and the signature of its bundle."""
    release, statement = item.release, item.bundle.statement
    return SiteRecord(
        site=item.site,
        dataset=release.dataset,
        units=release.units,
        run_id=release.run_id,
        epsilon=release.privacy.epsilon,
        delta=release.privacy.delta,
        study_digest=release.study_digest,
        policy_digest=statement.policy_digest,
        bundle_digest=item.digest,
        key=item.bundle.key,
        issued_at=statement.issued_at,
        finished_at=statement.finished_at,
        not_covered=release.not_covered,
        ledger=release.ledger,
        version=release.software.version,
        approval=release.approval,
        budget=release.budget,
    )
