"""Find what contradicts itself in a release: numbers unlike each other, or unlike the study.

Every rule holds of every release that a run makes, whatever its data: a run reads its own release back once it is paid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from causalveil.schemas.composition import largest_sum
from causalveil.schemas.privacy import Guarantee, amount_text
from causalveil.schemas.protocols.answers import Answer, Limits, State
from causalveil.schemas.study import Variant

if TYPE_CHECKING:
    from causalveil.schemas.release import PrivacyStatement, Release

# The count of units that a float still holds exactly.
MOST_UNITS = 2**53
# Beyond it sums of a few variances overflow. Ranges of 1e100 and noise of 1e30 ranges stay below.
LARGEST = 1e300
# Distributions of privacy losses are rounded up on a grid.
PESSIMISM = 1.1
# What a change of units may round.
ROUNDED = 1e-9


def contradictions(release: Release) -> Iterator[str]:
    """Yield what contradicts itself in a release, as field and reason.

    Examples:
        >>> from causalveil.schemas.protocols.answers import Limits
        >>> list(_ends("interval", Limits(lower=1.0, upper=-1.0), None))
        ["'interval': its lower end is above its upper end"]
    """
    if release.units > MOST_UNITS:
        yield "'units': more units than can be counted"
    if release.headline is not None and release.guarantee is not Guarantee.asymptotic:
        yield f"'headline': it denies a guarantee, and 'guarantee' is '{release.guarantee}'"
    if release.not_for_release != (release.noise.source == "seeded"):
        yield f"'not_for_release': it does not go with noise that is '{release.noise.source}'"
    yield from _of_privacy(release.privacy)
    specification = release.specification
    # An asymptotic estimate is cut to no range, and neither is that of a paper's own formulas.
    settings = specification.get("estimator")
    as_printed = isinstance(settings, Mapping) and settings.get("variant") == Variant.paper
    cut = release.guarantee is not Guarantee.asymptotic and not as_printed
    asked = specification.get("outcomes") or [specification.get("outcome")]
    outcomes = [one for one in asked if isinstance(one, Mapping)] if isinstance(asked, list | tuple) else []
    widths = {one.get("name"): _width(one) for one in outcomes}
    horizons = [until for one in outcomes if (until := _number(one, "horizon")) is not None]
    for place, answer in enumerate(getattr(release, "answers", ())):
        width = widths.get(answer.outcome) if cut else None
        if answer.measure is not None:
            width = 1.0 if answer.measure == "risk" else max(horizons, default=None)
        yield from _of_answer(f"answers.{place}", answer, width)


def _of_privacy(privacy: PrivacyStatement) -> Iterator[str]:
    epsilon, delta = privacy.epsilon, privacy.delta
    most = largest_sum(privacy.charges, lambda charge: charge.epsilon)
    apart = largest_sum(privacy.charges, lambda charge: charge.delta)
    said, added = (
        f"epsilon {amount_text(one)} and delta {amount_text(two)}" for one, two in ((epsilon, delta), (most, apart))
    )
    if most <= epsilon and apart <= delta:
        # A sum that keeps the total is the total; only draws whose sum exceeds it are composed otherwise.
        if (most, apart) != (epsilon, delta):
            yield f"'privacy.charges': they add up to {added}, not {said}"
    elif delta == 0 or any(one.epsilon > epsilon or one.delta > delta for one in privacy.charges):
        yield f"'privacy.charges': they cost more than {said}"
    if not 0 <= privacy.epsilon_pld <= PESSIMISM * float(max(epsilon, most)):
        yield "'privacy.epsilon_pld': it is above what the charges cost"


def _of_answer(place: str, answer: Answer, width: float | None) -> Iterator[str]:
    """Check an answer whose effect cannot be larger than ``width``; None: that is not known."""
    for name in ("interval", "simultaneous", "calibrated"):
        limits: Limits | None = getattr(answer, name)
        if limits is None:
            continue
        if answer.estimate is None:
            yield f"'{place}.{name}': an interval without an estimate"
        yield from _ends(f"{place}.{name}", limits, width)
    if answer.estimate is not None and width is not None and abs(answer.estimate) > width * (1 + ROUNDED):
        yield f"'{place}.estimate': beyond the effect's declared range"
    roots = {name: getattr(answer, name) or 0.0 for name in ("noise_error", "sampling_error", "spread")}
    yield from _too_large(f"{place}.", **{name: value * value for name, value in roots.items()})
    yield from _too_large(f"{place}.", estimate=answer.estimate or 0.0, bias=answer.bias or 0.0)
    if width is None or answer.interval is None or answer.state is not State.unresolved or answer.measure == "rmst":
        return
    least = width * (1 - ROUNDED)
    if answer.interval.lower > -least or answer.interval.upper < least:
        yield f"'{place}.state': noise hides the answer, and its interval is not the declared range"


def _ends(place: str, limits: Limits, width: float | None) -> Iterator[str]:
    if limits.lower > limits.upper:
        yield f"'{place}': its lower end is above its upper end"
    most = LARGEST if width is None else width * (1 + ROUNDED)
    if max(abs(limits.lower), abs(limits.upper)) > most:
        yield f"'{place}': " + ("too large to compute with" if width is None else "beyond the effect's declared range")


def _too_large(prefix: str, **numbers: float) -> Iterator[str]:
    yield from (f"'{prefix}{name}': too large to compute with" for name, one in numbers.items() if abs(one) > LARGEST)


def _width(outcome: Any) -> float | None:
    """Return the width of an outcome's declared range; None where a specification does not tell it."""
    lower, upper = _number(outcome, "lower"), _number(outcome, "upper")
    width = math.nan if lower is None or upper is None else upper - lower
    return width if 0 < width < math.inf and not (isinstance(outcome, Mapping) and "horizon" in outcome) else None


def _number(document: Any, key: str) -> float | None:
    value = document.get(key) if isinstance(document, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
