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
    if {site.site for site in sites} != set(terms.sites):
        yield "'sites': they are not those of the terms"
    if release.units != sum(site.units for site in sites) or release.units > MOST_UNITS:
        yield "'units': they are not those of all sites"
    yield from _of_parallel(release.privacy, sites)
    cut = _is_cut(release.specification, release.guarantee)
    yield from _of_combined(release, [site.site for site in sites], parts_cut=cut)


def contradictions_of_series(series: Series) -> Iterator[str]:
    """Yield what contradicts itself in a series, as field and reason."""
    yield from _of_parallel(series.privacy, series.runs)
    yield from _of_combined(series, None, parts_cut=False)


def _is_cut(specification: Mapping[str, Any], guarantee: Guarantee) -> bool:
    """Return whether answers are clipped to the declared range: not asymptotic or a paper's own."""
    return guarantee is not Guarantee.asymptotic and not _as_printed(specification)


def _widths(specification: Mapping[str, Any], *, cut: bool = True) -> Callable[[Answer], float | None]:
    """Return the function of an answer that gives its effect's largest size; None where unknown."""
    listed = specification.get("outcomes")
    outcomes = (
        [outcome for outcome in listed if isinstance(outcome, Mapping)] if isinstance(listed, list | tuple) else []
    )
    widths = {outcome.get("name"): _width(outcome) for outcome in outcomes}
    horizons = [horizon for outcome in outcomes if (horizon := _number(outcome, "horizon")) is not None]

    def width_of(answer: Answer) -> float | None:
        if answer.measure is not None:
            return 1.0 if answer.measure == "risk" else max(horizons, default=None)
        return widths.get(answer.outcome) if cut else None

    return width_of


def _as_printed(specification: Mapping[str, Any]) -> bool:
    """Return whether a paper's own formulas answer."""
    settings = specification.get("estimator")
    return isinstance(settings, Mapping) and settings.get("variant") == Variant.paper


def _of_parallel(privacy: PooledPrivacy | SeriesPrivacy, parts: Sequence[SiteRecord | SeriesRun]) -> Iterator[str]:
    """Check that the total cost is the largest of any part (parallel composition)."""
    for name in ("epsilon", "delta"):
        if getattr(privacy, name) != max(getattr(part, name) for part in parts):
            yield f"'privacy.{name}': it is not the largest of any part"


def _of_combined(table: CombinedTable, sources: Sequence[str] | None, *, parts_cut: bool) -> Iterator[str]:
    """Check the answers over sites or blocks.

    ``sources``: the sites, each with a part of every answer; None: a series, whose answers have blocks of their own.
    ``parts_cut``: whether the parts lie in the declared range; combined answers always do.
    """
    width_of, part_width_of = _widths(table.specification), _widths(table.specification, cut=parts_cut)
    for number, answer in enumerate(table.answers):
        place, width = f"answers.{number}", width_of(answer)
        yield from _of_answer(place, answer, width)
        if sources is not None and [part.source for part in answer.parts] != list(sources):
            yield f"'{place}.sites': they are not those of the release"
        chosen = table.chosen(answer)
        has_numbers = answer.state in (State.answered, State.marked)
        if any((number is not None) != has_numbers for number in (chosen, answer.estimate, answer.interval)):
            yield f"'{place}.state': it does not go with the numbers of the answer"
        elif chosen is not None and answer.interval is not None:
            declared = (chosen.estimate, chosen.interval.lower, chosen.interval.upper, math.sqrt(chosen.variance.noise))
            if declared != (answer.estimate, answer.interval.lower, answer.interval.upper, answer.noise_error):
                yield f"'{place}.estimate': its numbers are not those of the declared model"
        for model in ("fixed", "random", "stratified"):
            if (estimate := getattr(answer, model)) is not None:
                yield from _of_estimate(f"{place}.{model}", estimate, table.confidence, width)
        for part in answer.parts:
            if part.interval is not None:
                yield from _ends(f"{place}.{part.source}", part.interval, part_width_of(answer))
        if answer.state is not State.withheld:
            yield from _of_weights(place, answer, width)


def _of_estimate(place: str, pooled: PooledEstimate, confidence: float, width: float | None) -> Iterator[str]:
    yield from _ends(f"{place}.interval", pooled.interval, width)
    if not pooled.interval.lower <= pooled.estimate <= pooled.interval.upper:
        yield f"'{place}.estimate': outside its interval"
    if pooled.interval.confidence != confidence:
        yield f"'{place}.interval': of another confidence"
    yield from _too_large(f"{place}.variance.", sampling=pooled.variance.sampling, noise=pooled.variance.noise)


def _of_weights(place: str, answer: CombinedAnswer, width: float | None) -> Iterator[str]:
    """Check that each model's estimate and noise are weighted sums of the parts'."""
    estimated = [(part, part.estimate) for part in answer.parts if part.estimate is not None]
    for model in ("fixed", "random"):
        pooled, weights = getattr(answer, model), [getattr(part, f"weight_{model}") for part in answer.parts]
        if pooled is None:
            if any(weights):
                yield f"'{place}.weight_{model}': weights without an estimate"
            continue
        share = [getattr(part, f"weight_{model}") for part, _ in estimated]
        if abs(math.fsum(weights) - 1) > SUMMED or abs(math.fsum(share) - 1) > SUMMED:
            yield f"'{place}.weight_{model}': weights of the answers do not add up to 1"
            continue
        mean = math.fsum(weight * value for weight, (_, value) in zip(share, estimated, strict=True))
        if width is not None:
            mean = min(max(mean, -width), width)
        largest = max(abs(value) for _, value in estimated)
        if abs(pooled.estimate - mean) > SUMMED * max(largest, abs(mean)):
            yield f"'{place}.{model}': it is not the weighted mean of the parts"
        noise = math.fsum(
            (weight * (part.noise_error or 0.0)) ** 2 for weight, (part, _) in zip(share, estimated, strict=True)
        )
        if abs(pooled.variance.noise - noise) > SUMMED * max(noise, pooled.variance.noise):
            yield f"'{place}.{model}.variance.noise': it is not that of the parts"


def _of_noise(place: str, answer: Answer, release: Release, width: float | None) -> Iterator[str]:
    """Check the noise of an answer against the draws that were charged.

    Wherever outcomes are protected an answer has noise. Its least amount is known where the effect is one draw of
    weighted sums: at level label, and for a difference of two arms' means (``docs/proofs/questions.md``, section 10).
    Noise of other estimators may be small beside the declared range: scores are clipped by released deviations.
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
    least = min((charge.noise_scale or 0.0 for charge in privacy.charges if charge.name == EFFECT), default=0.0) / 2
    if answer.noise_error < (1 - SUMMED) * width * least / release.units:
        yield f"'{place}': less than the noise that was drawn and charged"


def of_charge(charge: Charge) -> Iterator[str]:
    """Yield a sentence if a draw has less noise than its epsilon and delta need.

    Laplace and Gaussian mechanisms are checked, no others.
    """
    if not charge.noise_scale or not charge.sensitivity:
        return
    ratio, epsilon = charge.sensitivity / charge.noise_scale, float(charge.epsilon)
    if charge.mechanism in ("laplace", "l2-laplace"):
        too_little = ratio > epsilon * (1 + SUMMED)
    elif charge.mechanism in ("gaussian", "gaussian (analytic)") and epsilon < LARGE_EPSILON:
        # Balle and Wang 2018, theorem 8.
        spent = _normal(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * _normal(-ratio / 2 - epsilon / ratio)
        too_little = spent > float(charge.delta) * (1 + SUMMED)
    else:
        return
    if too_little:
        yield f"'privacy.charges': the noise of '{charge.name}' is less than its epsilon and delta need"


def _normal(value: float) -> float:
    """Return the normal distribution function."""
    return math.erfc(-value / math.sqrt(2)) / 2


def _of_privacy(privacy: PrivacyStatement) -> Iterator[str]:
    if privacy.epsilon <= 0:
        yield "'privacy.epsilon': nothing was charged, and noise was drawn"
    for charge in privacy.charges:
        yield from of_charge(charge)
    epsilon, delta = privacy.epsilon, privacy.delta
    epsilon_sum = largest_sum(privacy.charges, lambda charge: charge.epsilon)
    delta_sum = largest_sum(privacy.charges, lambda charge: charge.delta)
    stated, added = (
        f"epsilon {amount_text(pair[0])} and delta {amount_text(pair[1])}"
        for pair in ((epsilon, delta), (epsilon_sum, delta_sum))
    )
    if epsilon_sum <= epsilon and delta_sum <= delta:
        # A sum within the total must equal it; only draws whose sum exceeds the total are composed otherwise.
        if (epsilon_sum, delta_sum) != (epsilon, delta):
            yield f"'privacy.charges': they add up to {added}, not {stated}"
    elif delta == 0 or any(charge.epsilon > epsilon or charge.delta > delta for charge in privacy.charges):
        yield f"'privacy.charges': they cost more than {stated}"
    if not 0 <= privacy.epsilon_pld <= PESSIMISM * float(max(epsilon, epsilon_sum)):
        yield "'privacy.epsilon_pld': it is above what the charges cost"


def _of_answer(place: str, answer: Answer, width: float | None) -> Iterator[str]:
    """Check an answer whose effect is at most ``width``; None: no bound is known."""
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
    if (robustness := answer.robustness) is not None:
        value = robustness_value(answer.estimate or 0.0, robustness.scale)
        if answer.estimate is None or abs(value - robustness.value) > SUMMED:
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
    for name, value in numbers.items():
        if abs(value) > LARGEST:
            yield f"'{prefix}{name}': too large to compute with"


def _width(outcome: Any) -> float | None:
    """Return the width of an outcome's declared range; None where a specification has none."""
    lower, upper = _number(outcome, "lower"), _number(outcome, "upper")
    width = math.nan if lower is None or upper is None else upper - lower
    return width if 0 < width < math.inf and not (isinstance(outcome, Mapping) and "horizon" in outcome) else None


def _number(document: Any, key: str) -> float | None:
    value = document.get(key) if isinstance(document, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
