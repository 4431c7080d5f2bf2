"""Effects on the time to an event over several sites: every measure pooled as an effect is.

A site has no part in a measure where noise hides whether anybody was followed to the horizon, or where its measures end
earlier. Both follow from released numbers at risk, not from estimates. Post-processing of released values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from causalveil.schemas.errors import BundleError
from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.schemas.protocols.answers import State
from causalveil.schemas.release import MeasuredEffect, SurvivalRelease
from causalveil.schemas.sites.pooled import CellState, PooledMeasure, PooledSurvivalRelease, SitePart, SiteRecord
from causalveil.schemas.sites.round import Reason, Sites
from causalveil.tasks.sites.accept import Accepted
from causalveil.tasks.sites.pool import SiteEstimate, pool
from causalveil.tasks.sites.pooled_protocol import FEWEST, limits_of
from causalveil.tasks.sites.pooled_release import of_sites, over_sites, record_of


def pooled_times(terms: Sites, study: SurvivalStudy, accepted: Sequence[Accepted]) -> PooledSurvivalRelease:
    """Pool accepted bundles of a study of times.

    Args:
        terms: of the round.
        study: that travelled.
        accepted: one per site, from ``tasks.sites.accept.accept``, which has seen that all have the same measures.

    Raises:
        BundleError: a bundle answers no study of times, or reports no variance at all.
    """
    releases = {item.site: _times_of(item) for item in accepted}
    omitted = {site: str(release.details.get("not_covered", "")) for site, release in releases.items()}
    measures = tuple(_measure(study, measure, releases, place) for place, measure in enumerate(study.measure))
    weights = {part.site: part.weight(terms.model) for part in measures[0].sites}
    return PooledSurvivalRelease(
        **of_sites(terms, study, accepted),
        confidence=study.confidence,
        horizon=study.outcome.horizon,
        unit=study.outcome.unit_of_measure,
        origin=study.outcome.origin,
        events=study.outcome.labels,
        measures=measures,
        confounding=over_sites(
            [(releases[site].confounding, weight) for site, weight in weights.items() if weight > 0]
        ),
        not_covered="; ".join(dict.fromkeys(part for text in omitted.values() for part in text.split("; ") if part)),
        sites=tuple(SiteRecord(**record_of(item, omitted[item.site])) for item in accepted),
    )


def _times_of(item: Accepted) -> SurvivalRelease:
    if not isinstance(item.release, SurvivalRelease):
        raise BundleError(f"site '{item.site}': {Reason.unfit}: its release is of kind '{item.release.kind}'")
    return item.release


@dataclass(frozen=True)
class _Said:
    """One site's release, and its answer to one measure.

    ``told`` is whether noise leaves an answer until the study's horizon.
    """

    release: SurvivalRelease
    answer: MeasuredEffect

    @property
    def told(self) -> bool:
        return self.release.restricted_to is None and not self.answer.interval.whole_range

    def estimate(self, site: str) -> SiteEstimate:
        return SiteEstimate(site, self.answer.estimate, self.answer.variance, self.answer.interval)


def _measure(study: SurvivalStudy, measure: Measure, releases: dict[str, SurvivalRelease], place: int) -> PooledMeasure:
    """Pool one measure over the sites that answered it."""
    span = study.outcome.horizon if measure is Measure.rmst else 1.0
    said = {site: _Said(release, release.measures[place]) for site, release in releases.items()}
    told = [one.estimate(site) for site, one in said.items() if one.told]
    pooled = pool(told, study.confidence, (-span, span)) if len(told) >= FEWEST else None
    fixed = {} if pooled is None else dict(zip((one.site for one in told), pooled.weights_fixed, strict=True))
    random = {} if pooled is None else dict(zip((one.site for one in told), pooled.weights_random, strict=True))
    return PooledMeasure(
        measure=measure,
        state=CellState.unresolved if pooled is None else CellState.answered,
        fixed=None if pooled is None else pooled.fixed,
        random=None if pooled is None else pooled.random,
        heterogeneity=None if pooled is None else pooled.heterogeneity,
        sites=tuple(
            SitePart(
                site=site,
                state=State.answered if one.told else State.unresolved,
                estimate=one.answer.estimate if one.told else None,
                interval=limits_of(one.answer.interval) if one.told else None,
                weight_fixed=float(fixed.get(site, 0.0)),
                weight_random=float(random.get(site, 0.0)),
                confounding=one.release.confounding,
            )
            for site, one in said.items()
        ),
        leave_one_out=() if pooled is None else pooled.leave_one_out,
    )
