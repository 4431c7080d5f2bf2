"""From accepted bundles to the pooled release.

Each site's part is stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from causalveil.schemas.confounding import ConfoundingStatement, over_parts
from causalveil.schemas.documents import digest_of
from causalveil.schemas.errors import BundleError
from causalveil.schemas.limits import Limit
from causalveil.schemas.release import Software
from causalveil.schemas.sites.pooled import PooledPrivacy, PooledRelease, SiteResult
from causalveil.schemas.sites.round import AgreedTerms, Model, Reason
from causalveil.schemas.specification import level_names, with_level_names
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.sites.accept import Accepted
from causalveil.tasks.sites.asked import Asked
from causalveil.tasks.sites.pool import SiteEstimate, pool

DEPENDENCIES = ("numpy", "scipy", "cryptography")


def pooled_release(terms: AgreedTerms, study: EffectStudy, accepted: Sequence[Accepted]) -> PooledRelease:
    """Pool accepted bundles of an effect.

    Args:
        terms: of the round.
        study: that travelled.
        accepted: one per site, from ``tasks.sites.accept.accept``.

    Raises:
        BundleError: a site reports no variance at all.
    """
    width = study.outcome.width
    releases = [item.release for item in accepted]
    estimates = [_estimate(item) for item in accepted]
    pooled = pool(estimates, study.confidence, (-width, width))
    headline = pooled.fixed if terms.model is Model.fixed else pooled.random
    weights = pooled.weights_fixed if terms.model is Model.fixed else pooled.weights_random
    return PooledRelease(
        **of_sites(terms, study, accepted),
        estimate=headline.estimate,
        interval=headline.interval,
        variance=headline.variance,
        fixed=pooled.fixed,
        random=pooled.random,
        heterogeneity=pooled.heterogeneity,
        sites=tuple(
            SiteResult(
                **record_of(item, release.not_covered),
                estimate=one.estimate,
                interval=one.interval,
                variance=one.variance,
                weight_fixed=float(fixed),
                weight_random=float(random),
                confounding=release.answers[0].confounding,
            )
            for item, release, one, fixed, random in zip(
                accepted, releases, estimates, pooled.weights_fixed, pooled.weights_random, strict=True
            )
        ),
        leave_one_out=pooled.leave_one_out,
        confounding=over_sites(
            [(one.answers[0].confounding, float(weight)) for one, weight in zip(releases, weights, strict=True)]
        ),
    )


def over_sites(stated: Sequence[tuple[ConfoundingStatement | None, float]]) -> ConfoundingStatement | None:
    """Return what sites did about confounding together, from each one's statement and weight.

    Return None if a site has none.
    """
    known = [(one, weight) for one, weight in stated if one is not None]
    return over_parts(known) if known and len(known) == len(stated) else None


def of_sites(terms: AgreedTerms, study: Asked, accepted: Sequence[Accepted]) -> dict[str, Any]:
    """Return the fields that every pooled release has, whatever was asked.

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


def _estimate(item: Accepted) -> SiteEstimate:
    """Return a site's only answer.

    Raises:
        BundleError: it is withheld.
    """
    release = item.release
    if release.estimate is None or release.variance is None or release.interval is None:
        raise BundleError(f"site '{item.site}': {Reason.unfit}: its release withholds its answer")
    return SiteEstimate(item.site, release.estimate, release.variance, release.interval)


def record_of(item: Accepted, omitted: tuple[Limit, ...]) -> dict[str, Any]:
    """Return whom a site's answer is of, and where its charge stands.

    ``omitted``: what its intervals do not cover.
    """
    release, statement = item.release, item.bundle.statement
    return {
        "site": item.site,
        "dataset": release.dataset,
        "units": release.units,
        "run_id": release.run_id,
        "epsilon": release.privacy.epsilon,
        "delta": release.privacy.delta,
        "study_digest": release.study_digest,
        "policy_digest": statement.policy_digest,
        "bundle_digest": item.digest,
        "key": item.bundle.key,
        "issued_at": statement.issued_at,
        "finished_at": statement.finished_at,
        "not_covered": omitted,
        "ledger": release.ledger,
        "version": release.software.version,
        "approval": release.approval,
        "budget": release.budget,
    }
