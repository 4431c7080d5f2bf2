"""Times to an event over sites: measures are pooled as effects, or by released cells.

A site has no part in a measure where noise hides whether any unit was followed to the horizon, or where its measures
end earlier. Both follow from released numbers at risk, not from estimates. Post-processing of released values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from causalveil.schemas.errors import BundleError
from causalveil.schemas.estimators.survival import Curves, Measure
from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit, united
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.protocols.answers import Answer, State
from causalveil.schemas.release import EffectRelease, Interval, Variance
from causalveil.schemas.sites.pooled import (
    CellState,
    PooledEstimate,
    PooledMeasure,
    PooledSurvivalRelease,
    SitePart,
    SiteRecord,
)
from causalveil.schemas.sites.round import AgreedTerms, PooledBy, Reason
from causalveil.schemas.studies import parse_study
from causalveil.tasks.inference.assemble import NOISY
from causalveil.tasks.sites.accept import Accepted
from causalveil.tasks.sites.pool import estimate_of, pool
from causalveil.tasks.sites.pooled_protocol import FEWEST
from causalveil.tasks.sites.pooled_release import of_sites, over_sites, record_of
from causalveil.tasks.survival.effects import TwoArms
from causalveil.tasks.survival.findings import TimesShown, told_test
from causalveil.tasks.survival.joint import JointCells, grid_of
from causalveil.tasks.survival.joint_answers import one_row, table_stage
from causalveil.tasks.survival.strata import Strata
from causalveil.tasks.survival.strategy import NoisyCells


def pooled_times(terms: AgreedTerms, study: SurvivalStudy, accepted: Sequence[Accepted]) -> PooledSurvivalRelease:
    """Pool accepted bundles of a study of times.

    Args:
        terms: of the round.
        study: that travelled.
        accepted: one per site, from ``tasks.sites.accept.accept``, which has seen that all have the same measures.

    Raises:
        BundleError: a bundle reports no variance at all.
    """
    releases = {item.site: item.release for item in accepted}
    strata = _strata(releases) if terms.pooled_by is PooledBy.cells else None
    measures = tuple(_measure(study, measure, releases, place, strata) for place, measure in enumerate(study.measure))
    weights = {part.site: part.weight(terms.model) for part in measures[0].sites}
    return PooledSurvivalRelease(
        **of_sites(terms, study, accepted),
        confidence=study.confidence,
        horizon=study.outcome.horizon,
        unit=study.outcome.unit_of_measure,
        origin=study.outcome.origin,
        events=study.outcome.labels,
        pooled_by=terms.pooled_by,
        measures=measures,
        curves=_curves(study, strata) if strata is not None and strata.one_grid else None,
        log_rank=None if strata is None else told_test(strata.log_rank(study.confidence)),
        confounding=over_sites(
            [(releases[site].answers[0].confounding, weight) for site, weight in weights.items() if weight > 0]
        ),
        not_covered=united(one for release in releases.values() for one in release.not_covered),
        sites=tuple(SiteRecord(**record_of(item, releases[item.site].not_covered)) for item in accepted),
    )


def _strata(releases: dict[str, EffectRelease]) -> Strata:
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
        table, released = study.table, np.array(release.cells)
        sizes = Sizes(units=release.units, train=release.units, estimation=release.units)
        if len(released) == grid_of(table, release.units).numbers:
            found = one_row(study, table_stage(table, sizes, released))
            if _alike(found.fields(study)["answers"], release.answers):
                return JointCells.read(released, table, sizes).two_arms((0,), 1).cells
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


def _curves(study: SurvivalStudy, strata: Strata) -> Curves:
    outcome, codes = study.outcome, study.treatment_codes.pair
    shown = TimesShown(outcome.horizon, outcome.unit_of_measure, outcome.origin, outcome.labels)
    return strata.curves(shown, study.confidence, (str(codes[0]), str(codes[1])))


def _stratified(study: SurvivalStudy, strata: Strata, measure: Measure) -> PooledEstimate:
    """Return a measure that is stratified by site."""
    found = strata.contrast(measure, study.confidence, study.estimator.allowed)
    covers: tuple[Limit, ...] = NOISY[:2]
    if study.estimator.allowed > 0:
        covers = (*covers, limit(Code.confounding_of_prior))
    if not strata.all_seen:
        covers = (*covers, limit(Code.unseen_sites))
    interval = Interval(
        lower=found.lower,
        upper=found.upper,
        confidence=study.confidence,
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


def _measure(
    study: SurvivalStudy,
    measure: Measure,
    releases: dict[str, EffectRelease],
    place: int,
    strata: Strata | None,
) -> PooledMeasure:
    """Pool one measure over the sites that answered it, and if wanted by the cells of all."""
    span = study.outcome.horizon if measure is Measure.rmst else 1.0
    said = {site: release.answers[place] for site, release in releases.items()}
    found = {site: estimate_of(site, release, said[site]) for site, release in releases.items()}
    told = [one for one in found.values() if one is not None]
    pooled = pool(told, study.confidence, (-span, span)) if len(told) >= FEWEST else None
    fixed = {} if pooled is None else dict(zip((one.site for one in told), pooled.weights_fixed, strict=True))
    random = {} if pooled is None else dict(zip((one.site for one in told), pooled.weights_random, strict=True))
    return PooledMeasure(
        measure=measure,
        state=CellState.unresolved if pooled is None and strata is None else CellState.answered,
        fixed=None if pooled is None else pooled.fixed,
        random=None if pooled is None else pooled.random,
        stratified=None if strata is None else _stratified(study, strata, measure),
        heterogeneity=None if pooled is None else pooled.heterogeneity,
        sites=tuple(
            SitePart(
                site=site,
                state=State.unresolved if found[site] is None else State.answered,
                estimate=None if found[site] is None else one.estimate,
                interval=None if found[site] is None else one.interval,
                weight_fixed=float(fixed.get(site, 0.0)),
                weight_random=float(random.get(site, 0.0)),
                confounding=one.confounding,
            )
            for site, one in said.items()
        ),
        leave_one_out=() if pooled is None else pooled.leave_one_out,
    )
