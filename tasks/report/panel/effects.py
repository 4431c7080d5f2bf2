"""Panels of one effect.

It is a difference of means, of times to an event, or a causal direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from causalveil.schemas.limits import Code, limit
from causalveil.tasks.report.numbers import SCORES, confidence_level, percent, within
from causalveil.tasks.report.panel.parts import adjusted, ends, estimate_line, limits

if TYPE_CHECKING:
    from causalveil.schemas.release import (
        AnsweredEffect,
        DirectionRelease,
        EffectRelease,
        Release,
        SurvivalRelease,
    )


def head_of(release: Release) -> str:
    """Return the first line: study, question, estimator, units; before it a missing guarantee."""
    question = getattr(release, "estimand", release.kind)
    loud = "" if release.headline is None else f"[bold red]{escape(release.headline)}[/bold red] "
    asked = (
        "causal direction" if question == release.estimator else f"{question} by {release.estimator.replace('_', ' ')}"
    )
    named = escape(f"{release.study}: {asked}, {release.units:,} units of {release.dataset}")
    return f"{loud}{named}"


def effect_lines(release: EffectRelease, room: int) -> list[str]:
    """Return the panel of an effect without its cost."""
    unit = release.units_of_measure.get(release.specification["outcome"]["name"])
    lines = [head_of(release), estimate_line(release.estimate, release.interval, unit), *_about(release)]
    return lines + limits(release.not_covered, room - len(lines))


def _about(release: AnsweredEffect) -> list[str]:
    """Return what was done about confounding, and what is the matter with the estimate, if anything is."""
    interval, details = release.interval, release.details
    lines = _adjusted(release)
    if details.get("chance_contradicted"):
        lines.append("[yellow]The released share of treated contradicts the declared chance of treatment.[/yellow]")
    elif interval.whole_range:
        lines.append("[yellow]The noise was too large: the interval is the whole declared range.[/yellow]")
    if details.get("attenuation_corrected") is False:
        lines.append(_attenuated(details))
    return lines


def _adjusted(release: AnsweredEffect) -> list[str]:
    """Return what was done about confounding; of a release without a statement in its own words."""
    if release.confounding is not None:
        return adjusted(release.confounding)
    words = str(release.details.get("adjustment", ""))
    return [escape(f"{words[:1].upper()}{words[1:]}.")] if words else []


def survival_lines(release: SurvivalRelease, room: int) -> list[str]:
    """Return every measure with its interval, the test, and until when people are seen."""
    curves = release.curves
    unit = escape(f" {curves.unit}") if curves.unit else ""
    event, origin = escape(curves.events[0]), escape(curves.origin)
    first = release.measures[0].measure
    until = curves.horizon if release.restricted_to is None else release.restricted_to
    lines = [
        head_of(release),
        f"{MEASURES[first]} {event} until {until:g}{unit} (origin: {origin})",
        estimate_line(release.estimate, release.interval, curves.unit if first == "rmst" else None),
    ]
    if until < curves.horizon:
        said = f"Too few are followed to {curves.horizon:g}{unit}, so measures end with {until:g}."
        lines.append(f"[yellow]{said}[/yellow]")
    for one in release.measures[1:]:
        value = f"{within(one.estimate, one.interval.lower, one.interval.upper)}{unit if one.measure == 'rmst' else ''}"
        said = f"{MEASURES[one.measure]} {event}: {value}"
        lines.append(f"{said}   {confidence_level(one.interval.confidence)} interval {ends(one.interval)}")
    if curves.log_rank is not None:
        # The test compares the arms as they are: beside an adjusted difference it may point the other way.
        test = "Without adjustment: log-rank p" if "unadjusted" in release.details else "Log-rank p"
        said, ratio = f"{test} = {curves.log_rank.p_value:.3g}", curves.log_rank.hazard_ratio
        if ratio is not None:
            shown = [within(one, ratio.lower, ratio.upper) for one in (ratio.estimate, ratio.lower, ratio.upper)]
            said += f", hazard ratio {shown[0]} {escape(f'[{shown[1]}, {shown[2]}]')}"
        lines.append(f"{said}.")
    if curves.seen_until < curves.horizon:
        lines.append(f"[yellow]People of both arms are seen at risk until {curves.seen_until:.4g}{unit} only.[/yellow]")
    if release.details.get("pooled_strata"):
        left = release.details["strata"]
        lines.append(f"[yellow]Noise hides strata of losses: neighbours are pooled, which leaves {left}.[/yellow]")
    lines += _about(release)
    return lines + limits(release.not_covered, room - len(lines))


def _attenuated(details: Mapping[str, Any]) -> str:
    factor = percent(float(details["attenuation_factor"]))
    return f"[yellow]Attenuated: noise on treatments leaves about {factor} of the effect in the estimate.[/yellow]"


def direction_lines(release: DirectionRelease, room: int) -> list[str]:
    """Return the panel of a causal direction without its cost."""
    x, y = escape(release.pair.x.name), escape(release.pair.y.name)
    names = {"x_to_y": f"{x} → {y}", "y_to_x": f"{y} → {x}"}
    verdict = release.verdict
    said = "The noise decides nothing: no score answered, or they cancel."
    if verdict.favours:
        weight = f"weight {abs(verdict.weight):.2f} from 0 (noise decides) to 1 (it does not)"
        said = f"[bold]{names[verdict.favours]}[/bold]   {weight}"
    lines = [head_of(release), said]
    for score in release.scores:
        name = SCORES.get(score.score, score.score)
        if score.margin is None or score.order_kept is None:
            lines.append(f"{name}: no answer")
            continue
        favoured = names[score.favours] if score.favours else "neither"
        kept = f"{score.order_kept:.1%}" if score.order_kept < SURE else "above 99.9%"
        lines.append(f"{name}: {favoured}, margin {abs(score.margin):.4g} (order kept by the noise: {kept})")
    return lines + limits(DIRECTION_LEFT, room - len(lines), "The scores take no account of")


MEASURES = {"risk": "Difference of the risk of", "rmst": "Difference of the mean time without"}
# A probability that would be rounded to 1.
SURE = 0.9995
# What no score of a direction speaks of.
DIRECTION_LEFT = (limit(Code.other_samples), limit(Code.common_cause), limit(Code.not_additive))
