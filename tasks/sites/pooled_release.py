"""From accepted bundles to the pooled release: what the sites said, pooled, with everybody's part stated."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from causalveil.schemas.release import EffectRelease, Software
from causalveil.schemas.sites.pooled import PooledPrivacy, PooledRelease, SiteResult
from causalveil.schemas.sites.terms import Model, Sites
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.sites.accept import Accepted
from causalveil.tasks.sites.pool import Pooled, SiteEstimate, pool

DEPENDENCIES = ("numpy", "scipy", "cryptography")


def pooled_release(terms: Sites, study: EffectStudy, accepted: Sequence[Accepted]) -> PooledRelease:
    """Pool accepted bundles.

    Epsilon and delta of the whole are the largest of any site: sites are disjoint, by declaration, and a release of
    one site says nothing of a person of another (parallel composition).

    Args:
        terms: of the round.
        study: that travelled.
        accepted: one per site, from ``tasks.sites.accept.accept``.

    Raises:
        BundleError: a site reports no variance at all.
    """
    width = study.outcome.width
    pooled = pool([_estimate(item) for item in accepted], study.confidence, (-width, width))
    headline = pooled.fixed if terms.model is Model.fixed else pooled.random
    statements = [item.release.privacy for item in accepted]
    return PooledRelease(
        study=study.name,
        study_digest=study.digest,
        specification=study.specification(),
        round=terms.round,
        units=sum(item.release.units for item in accepted),
        estimand=study.estimand,
        estimator=study.estimator.name,
        guarantee=study.guarantee,
        model=terms.model,
        estimate=headline.estimate,
        interval=headline.interval,
        variance=headline.variance,
        fixed=pooled.fixed,
        random=pooled.random,
        heterogeneity=pooled.heterogeneity,
        sites=tuple(_result(item, pooled, position) for position, item in enumerate(accepted)),
        leave_one_out=pooled.leave_one_out,
        sites_digest=terms.digest,
        privacy=PooledPrivacy(
            unit=", ".join(dict.fromkeys(statement.unit for statement in statements)),
            neighbours=study.privacy.neighbours,
            level=study.privacy.level,
            epsilon=max(statement.epsilon for statement in statements),
            delta=max(statement.delta for statement in statements),
            units_disjoint=True,
            unprotected=tuple(dict.fromkeys(text for statement in statements for text in statement.unprotected)),
        ),
        software=Software(version=version("causalveil"), dependencies={name: version(name) for name in DEPENDENCIES}),
    )


def not_covered(release: EffectRelease) -> str:
    """What a site's interval leaves out, in its own words."""
    return str(release.details.get("not_covered", ""))


def _estimate(item: Accepted) -> SiteEstimate:
    release = item.release
    return SiteEstimate(item.site, release.estimate, release.variance, release.interval)


def _result(item: Accepted, pooled: Pooled, position: int) -> SiteResult:
    release, statement = item.release, item.bundle.statement
    return SiteResult(
        site=item.site,
        dataset=release.dataset,
        units=release.units,
        run_id=release.run_id,
        estimate=release.estimate,
        interval=release.interval,
        variance=release.variance,
        weight_fixed=float(pooled.weights_fixed[position]),
        weight_random=float(pooled.weights_random[position]),
        epsilon=release.privacy.epsilon,
        delta=release.privacy.delta,
        study_digest=release.study_digest,
        policy_digest=statement.policy_digest,
        bundle_digest=item.digest,
        key=item.bundle.key,
        issued_at=statement.issued_at,
        finished_at=statement.finished_at,
        not_covered=not_covered(release),
        ledger=release.ledger,
        version=release.software.version,
    )
