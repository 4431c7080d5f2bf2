"""Times to an event over sites by released cells: arms are compared within sites.

Whether any unit was followed to the horizon at a site follows from released numbers at risk, not from estimates.
Post-processing of released values; costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.errors import BundleError
from causalveil.schemas.estimators.survival import LogRankTest, Measure
from causalveil.schemas.estimators.survival_protocol import GroupCurves, SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.protocols.answers import Answer, Limits
from causalveil.schemas.release import EffectRelease, Interval, Variance
from causalveil.schemas.sites.pooled import PooledEstimate
from causalveil.schemas.sites.round import Reason
from causalveil.schemas.studies import parse_study
from causalveil.tasks.inference.assemble import NOISY
from causalveil.tasks.sites.combined import limits_of, together_at
from causalveil.tasks.survival.effects import TwoArms
from causalveil.tasks.survival.findings import TimesShown, told_test
from causalveil.tasks.survival.joint import JointCells, grid_of
from causalveil.tasks.survival.joint_answers import table_stage
from causalveil.tasks.survival.strata import Strata
from causalveil.tasks.survival.strategy import NoisyCells


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


def no_cells(rows: int) -> OfCells:
    """Return that answers are pooled by effects."""
    return OfCells(True, (None,) * rows, (None,) * rows)


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
    found = strata.contrast(measure, confidence, study.estimator.allowed)
    covers: tuple[Limit, ...] = NOISY[:2]
    if study.estimator.allowed > 0:
        covers = (*covers, limit(Code.confounding_of_prior))
    if not strata.all_seen:
        covers = (*covers, limit(Code.unseen_sites))
    interval = Interval(
        lower=found.lower,
        upper=found.upper,
        confidence=confidence,
        covers=covers,
        coverage=Coverage.normal_approximation,
        whole_range=found.whole_range,
        bias=found.bias,
    )
    return PooledEstimate(
        estimate=found.estimate,
        interval=interval,
        variance=Variance(sampling=found.sampling, noise=found.noise),
        standard_error=math.sqrt(found.sampling + found.noise),
    )
