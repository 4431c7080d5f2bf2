"""A protocol's answer as what is pooled: by site or by block."""

from __future__ import annotations

from causalveil.schemas.privacy import Coverage
from causalveil.schemas.protocols.answers import Limits, ProtocolAnswer, State
from causalveil.schemas.release import Interval, Variance
from causalveil.tasks.inference.assemble import NOISY
from causalveil.tasks.sites.pool import SiteEstimate


def estimate_of(name: str, answer: ProtocolAnswer, limits: Limits | None, confidence: float) -> SiteEstimate | None:
    """An answer to be pooled with others; None where noise hides it or a gate withholds it.

    Args:
        name: of the site or block.
        answer: a row of a protocol's table.
        limits: its interval.
        confidence: with which that holds.
    """
    if answer.state in (State.unresolved, State.withheld) or answer.estimate is None or limits is None:
        return None
    return SiteEstimate(
        site=name,
        estimate=answer.estimate,
        variance=Variance(sampling=(answer.sampling_error or 0.0) ** 2, noise=(answer.noise_error or 0.0) ** 2),
        interval=Interval(
            lower=limits.lower,
            upper=limits.upper,
            confidence=confidence,
            covers=NOISY,
            coverage=Coverage.normal_approximation,
            whole_range=False,
            bias=answer.bias or 0.0,
        ),
    )
