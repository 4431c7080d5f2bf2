"""Find what contradicts itself in a release: numbers unlike each other, or unlike the study.

Every rule holds of every release that a run makes, whatever its data: a run reads its own release back once it is paid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from causalveil.schemas.answers import Answer, Limits, State, robustness_value
from causalveil.schemas.privacy import Charge, Guarantee, Level, amount_text, largest_sum
from causalveil.schemas.study import Variant

if TYPE_CHECKING:
    from causalveil.schemas.release import Interval, PrivacyStatement, Release
    from causalveil.schemas.sites.pooled import (
        CombinedAnswer,
        CombinedTable,
        PooledEstimate,
        PooledPrivacy,
        PooledRelease,
        Series,
        SeriesPrivacy,
        SeriesRun,
        SiteRecord,
    )

# The count of units that a float still holds exactly.
MOST_UNITS = 2**53
# Beyond it sums of a few variances overflow. Ranges of 1e100 and noise of 1e30 ranges stay below.
LARGEST = 1e300
# Distributions of privacy losses are rounded up on a grid.
PESSIMISM = 1.1
# What a change of units may round.
ROUNDED = 1e-9
# What sums over sites may round, on another machine too.
SUMMED = 1e-6
# The draw of which an effect by weights is read.
EFFECT = "effect"
# Below it the formula of Gaussian noise has no rounding that matters.
LARGE_EPSILON = 100.0


def contradictions(release: Release) -> Iterator[str]:
    """Yield what contradicts itself in a release, as field and reason.

    Examples:
        >>> from causalveil.schemas.answers import Limits
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
    width_of = _widths(release.specification, cut=_is_cut(release.specification, release.guarantee))
    for place, answer in enumerate(getattr(release, "answers", ())):
        yield from _of_answer(f"answers.{place}", answer, width_of(answer))
        yield from _of_noise(f"answers.{place}.noise_error", answer, release, width_of(answer))


def contradictions_of_pooled(release: PooledRelease) -> Iterator[str]:
    """Yield what contradicts itself in a pooled release, as field and reason."""
    terms, sites = release.terms.terms, release.sites
    for name in ("round", "model", "pooled_by"):
        if getattr(release, name) != getattr(terms, name):
            yield f"'{name}': it is not what the terms say, which every site answered"
    if {one.site for one in sites} != set(terms.sites):
        yield "'sites': they are not those of the terms"
    if release.units != sum(one.units for one in sites) or release.units > MOST_UNITS:
        yield "'units': they are not those of all sites"
    yield from _of_parallel(release.privacy, sites)
    cut = _is_cut(release.specification, release.guarantee)
    yield from _of_combined(release, [one.site for one in sites], parts_cut=cut)


def contradictions_of_series(series: Series) -> Iterator[str]:
    """Yield what contradicts itself in a series, as field and reason."""
    yield from _of_parallel(series.privacy, series.runs)
    yield from _of_combined(series, None, parts_cut=False)


def _is_cut(specification: Mapping[str, Any], guarantee: Guarantee) -> bool:
    """Return whether answers are cut to the declared range.

    Neither asymptotic ones are, nor those of a paper's own formulas."""
    return guarantee is not Guarantee.asymptotic and not _as_printed(specification)


def _widths(specification: Mapping[str, Any], *, cut: bool = True) -> Callable[[Answer], float | None]:
    """Return how large the effect of an answer can be; None where that is not known."""
    asked = specification.get("outcomes")
    outcomes = [one for one in asked if isinstance(one, Mapping)] if isinstance(asked, list | tuple) else []
    widths = {one.get("name"): _width(one) for one in outcomes}
    horizons = [until for one in outcomes if (until := _number(one, "horizon")) is not None]

    def of(answer: Answer) -> float | None:
        if answer.measure is not None:
            return 1.0 if answer.measure == "risk" else max(horizons, default=None)
        return widths.get(answer.outcome) if cut else None

    return of


def _as_printed(specification: Mapping[str, Any]) -> bool:
    """Return whether a paper's own formulas answer."""
    settings = specification.get("estimator")
    return isinstance(settings, Mapping) and settings.get("variant") == Variant.paper


def _of_parallel(privacy: PooledPrivacy | SeriesPrivacy, parts: Sequence[SiteRecord | SeriesRun]) -> Iterator[str]:
    """Check that a whole costs what the dearest of its parts does: no unit is in two of them."""
    for name in ("epsilon", "delta"):
        if getattr(privacy, name) != max(getattr(one, name) for one in parts):
            yield f"'privacy.{name}': it is not the largest of any part"


def _of_combined(table: CombinedTable, sources: Sequence[str] | None, *, parts_cut: bool) -> Iterator[str]:
    """Check the answers over sites or blocks.

    ``sources``: the sites, of which each answer has a part; None: a series, whose blocks are each answer's own.
    ``parts_cut``: whether the parts are known to lie in the declared range; what they come to always does.
    """
    width_of, part_width_of = _widths(table.specification), _widths(table.specification, cut=parts_cut)
    for at, answer in enumerate(table.answers):
        place, width = f"answers.{at}", width_of(answer)
        yield from _of_answer(place, answer, width)
        if sources is not None and [one.source for one in answer.parts] != list(sources):
            yield f"'{place}.sites': they are not those of the release"
        chosen = table.chosen(answer)
        told = answer.state in (State.answered, State.marked)
        if (
            told != (chosen is not None)
            or told != (answer.estimate is not None)
            or told != (answer.interval is not None)
        ):
            yield f"'{place}.state': it does not go with the numbers of the answer"
        elif chosen is not None and answer.interval is not None:
            said = (answer.estimate, answer.interval.lower, answer.interval.upper, answer.noise_error)
            own = (chosen.estimate, chosen.interval.lower, chosen.interval.upper, math.sqrt(chosen.variance.noise))
            if said != own:
                yield f"'{place}.estimate': its numbers are not those of the declared model"
        for model in ("fixed", "random", "stratified"):
            if (found := getattr(answer, model)) is not None:
                yield from _of_estimate(f"{place}.{model}", found, table.confidence, width)
        for part in answer.parts:
            if part.interval is not None:
                yield from _ends(f"{place}.{part.source}", part.interval, part_width_of(answer))
        if answer.state is not State.withheld:
            yield from _of_weights(place, answer, width)


def _of_estimate(place: str, found: PooledEstimate, confidence: float, width: float | None) -> Iterator[str]:
    yield from _ends(f"{place}.interval", found.interval, width)
    if not found.interval.lower <= found.estimate <= found.interval.upper:
        yield f"'{place}.estimate': outside its interval"
    if found.interval.confidence != confidence:
        yield f"'{place}.interval': of another confidence"
    yield from _too_large(f"{place}.variance.", sampling=found.variance.sampling, noise=found.variance.noise)


def _of_weights(place: str, answer: CombinedAnswer, width: float | None) -> Iterator[str]:
    """Check that each model's estimate and noise are those of the parts, as they are weighed."""
    told = [(one, one.estimate) for one in answer.parts if one.estimate is not None]
    for model in ("fixed", "random"):
        found, weights = getattr(answer, model), [getattr(one, f"weight_{model}") for one in answer.parts]
        if found is None:
            if any(weights):
                yield f"'{place}.weight_{model}': weights without an estimate"
            continue
        share = [getattr(one, f"weight_{model}") for one, _ in told]
        if abs(math.fsum(weights) - 1) > SUMMED or abs(math.fsum(share) - 1) > SUMMED:
            yield f"'{place}.weight_{model}': weights of the answers do not add up to 1"
            continue
        mean = math.fsum(weight * value for weight, (_, value) in zip(share, told, strict=True))
        if width is not None:
            mean = min(max(mean, -width), width)
        largest = max(abs(value) for _, value in told)
        if abs(found.estimate - mean) > SUMMED * max(largest, abs(mean)):
            yield f"'{place}.{model}': it is not the weighted mean of the parts"
        noise = math.fsum(
            (weight * (one.noise_error or 0.0)) ** 2 for weight, (one, _) in zip(share, told, strict=True)
        )
        if abs(found.variance.noise - noise) > SUMMED * max(noise, found.variance.noise):
            yield f"'{place}.{model}.variance.noise': it is not that of the parts"


def _of_noise(place: str, answer: Answer, release: Release, width: float | None) -> Iterator[str]:
    """Check the noise of an answer against the draws that were charged.

    Wherever outcomes are protected an answer has noise. How much it has at least is known where the effect is one
    draw of weighted sums: at level label, and of a difference of two arms' means (``docs/proofs/questions.md``,
    section 10). Of all other estimators noise may be small beside the declared range, as that of scores is, which are
    cut to how far outcomes were seen to vary.
    """
    privacy = release.privacy
    protected = privacy.level in (Level.sample, Level.label) and not _as_printed(release.specification)
    if answer.state not in (State.answered, State.marked) or answer.noise_error is None or not protected:
        return
    if answer.noise_error == 0:
        yield f"'{place}': an answer without noise, and outcomes are protected"
        return
    specification = release.specification
    two_means = release.estimator == "difference_in_means" and not (
        specification.get("subgroups") or specification.get("where") or specification.get("arms")
    )
    if width is None or answer.measure is not None or not (privacy.level is Level.label or two_means):
        return
    drawn = [one for one in privacy.charges if one.name == EFFECT]
    least = min((one.noise_scale or 0.0 for one in drawn), default=0.0) / 2
    if answer.noise_error < (1 - SUMMED) * width * least / release.units:
        yield f"'{place}': less than the noise that was drawn and charged"


def of_charge(drawn: Charge) -> Iterator[str]:
    """Yield that a draw has less noise than its epsilon and delta need.

    Nothing of mechanisms whose noise no formula here says.
    """
    if not drawn.noise_scale or not drawn.sensitivity:
        return
    moved, epsilon = drawn.sensitivity / drawn.noise_scale, float(drawn.epsilon)
    if drawn.mechanism in ("laplace", "l2-laplace"):
        too_little = moved > epsilon * (1 + SUMMED)
    elif drawn.mechanism in ("gaussian", "gaussian (analytic)") and epsilon < LARGE_EPSILON:
        # Balle and Wang 2018, theorem 8.
        spent = _normal(moved / 2 - epsilon / moved) - math.exp(epsilon) * _normal(-moved / 2 - epsilon / moved)
        too_little = spent > float(drawn.delta) * (1 + SUMMED)
    else:
        return
    if too_little:
        yield f"'privacy.charges': the noise of '{drawn.name}' is less than its epsilon and delta need"


def _normal(value: float) -> float:
    """Return the normal distribution function."""
    return math.erfc(-value / math.sqrt(2)) / 2


def _of_privacy(privacy: PrivacyStatement) -> Iterator[str]:
    if privacy.epsilon <= 0:
        yield "'privacy.epsilon': nothing was charged, and noise was drawn"
    for drawn in privacy.charges:
        yield from of_charge(drawn)
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
    if (missed := answer.robustness) is not None:
        value = robustness_value(answer.estimate or 0.0, missed.scale)
        if answer.estimate is None or abs(value - missed.value) > SUMMED:
            yield f"'{place}.robustness': it does not go with the estimate"
    if width is None or answer.interval is None or answer.state is not State.unresolved or answer.measure == "rmst":
        return
    least = width * (1 - ROUNDED)
    if answer.interval.lower > -least or answer.interval.upper < least:
        yield f"'{place}.state': noise hides the answer, and its interval is not the declared range"


def _ends(place: str, limits: Limits | Interval, width: float | None) -> Iterator[str]:
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
