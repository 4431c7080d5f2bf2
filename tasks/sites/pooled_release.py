"""Make the pooled release of accepted bundles, of effects and of times.

Times to an event over sites by released cells: arms are compared within sites.
Whether any unit was followed to the horizon at a site follows from released numbers at risk, not from estimates.
Post-processing of released values; costs nothing.

From accepted bundles to the pooled release: one table over the sites, row by row.
With the rows are pooled negative controls, which calibrate intervals, and balance, on which declared gates are judged
again. Each site's part is stated. Post-processing of released values; costs nothing.
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
from causalveil.tasks.estimate.times.answers import table_stage, told_test
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
    """The estimates of a table that released cells give; of none, pooling is by effects.

    Attributes:
        by_effects: whether there are no cells.
        rows: the estimate that is stratified by site.
        together: its interval that holds with those of all other rows; None where there is one row.
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
        BundleError: a release has no cells, or says something else than they do.
    """
    strata, rows = _strata(releases), len(study.measure)
    each = together_at(study.confidence, rows)
    together = [limits_of(_stratified(study, strata, measure, each).interval) for measure in study.measure]
    return OfCells(
        False,
        tuple(_stratified(study, strata, measure, study.confidence) for measure in study.measure),
        tuple(together) if rows > 1 else (None,),
        (_curves(study, strata, next(iter(releases.values())).answers[0]),) if strata.one_grid else (),
        told_test(strata.log_rank(study.confidence)),
    )


def _strata(releases: Mapping[str, EffectRelease]) -> Strata:
    """Return both arms of every site as its released cells have them.

    Raises:
        BundleError: a release has no cells, or says something else than they do.
    """
    found = [_cells_of(site, release) for site, release in releases.items()]
    return Strata(tuple(map(TwoArms, found)), tuple(release.units for release in releases.values()))


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
        if whole and _alike(table_stage(study, sizes, released).answers, release.answers):
            return JointCells.read(released, study, sizes).two_arms((0,), 1).cells
    raise BundleError(f"site '{site}': {Reason.foreign}: its release contradicts its own cells")


def _alike(found: Sequence[Answer], said: Sequence[Answer]) -> bool:
    """Return whether answers are the same, up to what another machine rounds otherwise."""
    if len(found) != len(said) or any(one.estimate is None or one.interval is None for one in said):
        return False
    ours, theirs = (
        np.array([(one.estimate, *dict(one.interval or {}).values(), one.sampling_error) for one in rows], dtype=float)
        for rows in (found, said)
    )
    return bool(np.allclose(ours, theirs, rtol=1e-6, atol=1e-9))


def _curves(study: SurvivalStudy, strata: Strata, row: Answer) -> GroupCurves:
    outcome = study.outcome
    shown = TimesShown(outcome.horizon, outcome.unit_of_measure, outcome.origin, outcome.labels)
    curves = strata.curves(shown, study.confidence, (row.reference, row.arm))
    return GroupCurves(group=row.group, arm=row.arm, reference=row.reference, curves=curves)


def _stratified(study: SurvivalStudy, strata: Strata, measure: Measure, confidence: float) -> PooledEstimate:
    """Return a measure that is stratified by site."""
    found = strata.contrast(measure, confidence, study.estimator.bias())
    covers: tuple[Limit, ...] = NOISY[:2]
    if study.estimator.bias() > 0:
        covers = (*covers, limit(Code.confounding_of_prior))
    if not strata.all_seen:
        covers = (*covers, limit(Code.unseen_sites))
    interval = Interval(
        lower=found.lower,
        upper=found.upper,
        confidence=confidence,
        covers=covers,
        whole_range=found.whole_range,
        bias=found.bias,
    )
    return PooledEstimate(
        estimate=found.estimate,
        interval=interval,
        variance=Variance(sampling=found.sampling, noise=found.noise),
        standard_error=math.sqrt(found.sampling + found.noise),
    )


DEPENDENCIES = ("numpy", "scipy", "cryptography")
Releases = Mapping[str, EffectRelease]


# A bundle's numbers come from another machine: what leaves the floats ends the pooling where it does, and is no answer.
@np.errstate(over="raise", divide="raise", invalid="raise")
def pooled_release(terms: AgreedTerms, study: Asked, accepted: Sequence[Accepted]) -> PooledRelease:
    """Pool accepted bundles.

    Args:
        terms: of the round.
        study: that travelled.
        accepted: one per site, from ``tasks.sites.accept.accept``, which has seen that all tables have the same rows.

    Raises:
        BundleError: a bundle reports no variance at all, or its cells cannot be pooled.
        ArithmeticError: numbers are too large or too small together.
    """
    releases, model, widths = {item.site: item.release for item in accepted}, terms.model, widths_of(study)
    tables = [[SourceAnswer(site, release, row) for row in release.answers] for site, release in releases.items()]
    cells = [cell_of(said, study.confidence, widths[said[0].row.outcome]) for said in zip(*tables, strict=True)]
    strata = OfCells(True, (None,) * len(cells), (None,) * len(cells))
    if isinstance(study, SurvivalStudy) and terms.pooled_by is PooledBy.cells:
        strata = of_cells(study, releases)
    calibration, calibrated = _calibrated(study, cells, model, releases)
    balance, asked = _balance(cells, releases, model), getattr(study, "gates", None)
    gates = _gates(asked, balance)
    answers = tuple(
        _answer(cell, limits, _Gated(asked, gates), strata, (place, model))
        for place, (cell, limits) in enumerate(zip(cells, calibrated, strict=True))
    )
    chosen = [
        one
        for answer in answers
        if (one := answer.stratified or (answer.fixed if model is Model.fixed else answer.random))
    ]
    covers = united(limit for one in chosen for limit in one.interval.covers)
    if study.clusters is not None:
        # A site's sampling error holds it.
        covers = (*covers, limit(Code.within_clusters, column=study.clusters.column))
    return PooledRelease(
        **_of_sites(terms, study, accepted),
        confidence=study.confidence,
        answers=answers,
        covers=covers,
        not_covered=united(one for release in releases.values() for one in release.not_covered),
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
    """The gates on balance, as they bear on answers."""

    def __init__(self, asked: Gates | None, found: Sequence[GateResult]) -> None:
        self.failed = {(gate.group, gate.arm) for gate in found if gate.verdict is GateVerdict.failed}
        self.groups = tuple(dict.fromkeys(gate.group for gate in found))
        self.withholds = asked is not None and asked.failed is FailedGate.withhold

    def fail(self, cell: CombinedCell) -> bool:
        """Return whether a gate failed behind an answer; one of all units stands on every subgroup."""
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
        marked = any(one.state is State.marked for one in cell.told)
        state = State.marked if failed or marked else State.answered
    told = state in (State.answered, State.marked)
    pooled = cell.pooled if told else None
    declared = cell.of(model) if strata.by_effects else stratified
    simultaneous = cell.simultaneous(model) if strata.by_effects else strata.together[place]
    confounding = cell.confounding(model) if told else None
    return PooledAnswer(
        **question_fields(cell.row),
        **number_fields(declared if told else None),
        state=state,
        simultaneous=simultaneous if told else None,
        calibrated=calibrated if told else None,
        spread=cell.spread or None if told else None,
        confounding=confounding,
        log_rank=strata.log_rank if place == 0 else None,
        fixed=None if pooled is None else pooled.fixed,
        random=None if pooled is None else pooled.random,
        stratified=stratified if told else None,
        heterogeneity=None if pooled is None else pooled.heterogeneity,
        sites=tuple(SitePart(site=one.source, **part_fields(cell, one, withheld=withheld)) for one in cell.said),
        leave_one_out=() if pooled is None else pooled.leave_one_out,
    )


def _calibrated(
    study: Asked, cells: Sequence[CombinedCell], model: Model, releases: Releases
) -> tuple[Calibration | None, tuple[Limits | None, ...]]:
    """Calibrate every other answer's interval by the pooled negative controls.

    Those of times to an event in arms as they are calibrate nothing.
    """
    nothing: tuple[Limits | None, ...] = (None,) * len(cells)
    declared = sum(role is OutcomeRole.negative_control for role, _ in outcomes_of(study).values())
    if not declared:
        return None, nothing
    if isinstance(study, SurvivalStudy) and not study.covariates:
        return next(iter(releases.values())).calibration, nothing
    controls = [cell for cell in cells if cell.row.role is OutcomeRole.negative_control]
    shown = [found for cell in controls if cell.row.group == ALL_UNITS and (found := _measured(cell, model))]
    calibration, systematic = learn(declared, shown)
    limits = list[Limits | None]()
    for cell in cells:
        one = None if cell in controls else _measured(cell, model)
        if systematic is None or one is None:
            limits.append(None)
            continue
        limits.append(systematic.limits(one, _quantile(study.confidence, cell, model), cell.width))
    return calibration, tuple(limits)


def _measured(cell: CombinedCell, model: Model) -> Measured | None:
    """Return the estimate under a model, as calibration takes it."""
    one = cell.of(model)
    return None if one is None else Measured(one.estimate, one.standard_error, scale_of(cell.spread, cell.width))


def _quantile(confidence: float, cell: CombinedCell, model: Model) -> float:
    """Return the quantile of the declared model's interval.

    Normal for fixed effects, Student's for random ones (Hartung and Knapp).
    """
    upper = (1 + confidence) / 2
    return float(ndtri(upper) if model is Model.fixed else stdtrit(len(cell.weights) - 1, upper))


def _balance(cells: Sequence[CombinedCell], releases: Releases, model: Model) -> tuple[BalanceRow, ...]:
    """Each covariate's difference as the first primary outcome's answer weighs the sites."""
    first = cells[0].row
    weighed = {(cell.row.group, cell.row.arm): cell for cell in cells if cell.row.outcome == first.outcome}
    found: dict[tuple[str, str, str], list[tuple[float, BalanceRow]]] = {}
    for site, release in releases.items():
        for row in release.balance:
            # The reference is weighed as the first arm's comparison with it is.
            arm = row.arm if any(row.arm == one for _, one in weighed) else first.arm
            cell = weighed.get((row.group, arm)) or weighed[first.group, arm]
            weight = cell.weight(site, model)
            if weight > 0:
                found.setdefault((row.group, row.arm, row.covariate), []).append((weight, row))
    rows = []
    for (group, arm, covariate), parts in found.items():
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


def _gates(asked: Gates | None, balance: Sequence[BalanceRow]) -> tuple[GateResult, ...]:
    """The declared gate on balance, judged on the pooled differences.

    The spread of weights is judged by each site itself.
    """
    if asked is None or asked.balance is None or not balance:
        return ()
    places: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in balance:
        places.setdefault((row.group, row.arm), []).append((row.after, row.noise_error))
    critical, bound = critical_of(len(balance)), asked.balance
    return tuple(balance_gate(group, arm, bound, numbers, critical) for (group, arm), numbers in places.items())


def _of_sites(terms: AgreedTerms, study: Asked, accepted: Sequence[Accepted]) -> dict[str, Any]:
    """Return which study was asked in which round, and what it cost.

    Epsilon and delta of the whole are the largest of any site: sites are disjoint, by declaration, and a release of
    one site says nothing of a person of another (parallel composition).
    """
    statements = [item.release.privacy for item in accepted]
    # Every site names levels as the first does: else their bundles are refused.
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
    """Return whom a site's answer is of, and where its charge stands."""
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
