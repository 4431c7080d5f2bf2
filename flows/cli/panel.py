"""The panel that a run ends with: the answer, what was adjusted for, its limits, its cost, and where the rest stands.

At most twelve sentences of at most 25 words; everything else is the report's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from causalveil.flows.cli.show_protocol import protocol
from causalveil.tasks.report.numbers import number

if TYPE_CHECKING:
    from causalveil.flows.sequence.finished import RunResult
    from causalveil.schemas.release import (
        AnsweredEffect,
        DirectionRelease,
        EffectRelease,
        ProtocolRelease,
        Release,
        SurvivalRelease,
    )

# So many lines a panel has, and so many limits at most, in order of importance; the report has the rest.
LINES = 12
LIMITS = 3


def lines_of(result: RunResult) -> list[str]:
    """Return the panel of a run: its answer, what the interval leaves out, and its cost.

    What the interval leaves out is listed as far as there is room.
    """
    release, paid = result.release, cost(result)
    found = ANSWERS[release.kind](release, LINES - len(paid)) if release.kind in ANSWERS else [_head(release)]
    return [*found, *paid]


def _head(release: Release) -> str:
    question = getattr(release, "estimand", release.kind)
    loud = "" if release.headline is None else f"[bold red]{release.headline}[/bold red]. "
    return f"{loud}{release.study}: {question} by {release.estimator}, {release.units:,} units of {release.dataset}"


def limits(not_covered: object, room: int, head: str = "The interval does not cover") -> list[str]:
    """Return the first limits of a release's text, and how many more the report has.

    The text separates its limits by a semicolon.
    """
    sentences = [one for one in str(not_covered).split("; ") if one]
    shown = max(min(LIMITS, room - 1, len(sentences)), 1)
    if not sentences:
        return []
    more = len(sentences) - shown
    rest = f" ({more} more in the report)" if more > 0 else ""
    return [f"{head}{rest}:", *(f"- {escape(sentence)}" for sentence in sentences[:shown])]


def cost(result: RunResult) -> list[str]:
    """Return what the run cost and what is left, and whether it was the first or a repeated one."""
    from causalveil.schemas.privacy import amount_text

    release = result.release
    privacy, left = release.privacy, release.budget
    spent = f"epsilon {amount_text(privacy.epsilon)}, delta {amount_text(privacy.delta)}"
    open_half = next(iter(getattr(release, "unbounded_halves", ())), None)
    half = {"train": " of the test half", "test": " of the training half"}.get(str(open_half), "")
    where = f"one replaced {privacy.unit}{half}, level {str(privacy.level).replace('_', ' ')}"
    promise = "" if release.headline is None else "; the guarantee is asymptotic"
    lines = [f"Differential privacy: {spent} ({where}){promise}."]
    if left is not None:
        runs = f"{left.fits:,} more such run{'' if left.fits == 1 else 's'}"
        more = f"enough for {runs}" if left.fits else "too little for another such run"
        lines.append(f"{left.share_left:.1%} of the budget of {release.dataset} is left: {more}.")
    total = len(privacy.charges)
    if result.returned is None:
        lines.append("This run was finished before: its release came from the ledger; nothing ran or was charged.")
    elif result.resumed:
        lines.append(
            f"This run was begun before: {result.returned} of its {total} charges were in the ledger, "
            f"{total - result.returned} were drawn and charged now."
        )
    return lines


def notes(result: RunResult) -> list[str]:
    """Return what else a person must know now.

    That is what is not protected, warnings, and what the run did by itself.
    """
    privacy, warned = result.release.privacy, len(result.release.warnings)
    lines = [f"[yellow]Not protected: {sentence}[/yellow]" for sentence in privacy.unprotected]
    if warned:
        things = "one thing" if warned == 1 else f"{warned} things"
        lines.append(f"[yellow]`causalveil plan` warns of {things} about this study: see the report.[/yellow]")
    if privacy.blocks.key is not None:
        lines.append(privacy.blocks.statement)
    if result.admitted:
        lines.append("All rows of this public or synthetic dataset were held to its contract.")
    if result.granted:
        lines.append("First run on this public or synthetic dataset: the cap of its contract was granted.")
    return lines


def _effect(release: EffectRelease, room: int) -> list[str]:
    lines = [_head(release), _estimate(release, release.units_of_measure.get(release.specification["outcome"]["name"]))]
    lines += _about(release)
    return lines + limits(release.details["not_covered"], room - len(lines))


def _estimate(release: AnsweredEffect, unit: str | None) -> str:
    interval = release.interval
    estimate = f"[bold]{number(release.estimate)}{escape(f' {unit}') if unit else ''}[/bold]"
    return (
        f"{estimate}   {interval.confidence:.0%} interval [bold]{escape(f'[{number(interval.lower)}, ')}"
        f"{number(interval.upper)}][/bold]"
    )


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
    from causalveil.schemas.confounding import AdjustmentState

    found = release.confounding
    if found is None:
        words = str(release.details.get("adjustment", ""))
        return [escape(f"{words[:1].upper()}{words[1:]}.")] if words else []
    whole = found.state in (AdjustmentState.adjusted, AdjustmentState.randomised) and not found.left_out
    said = [escape(one) for one in found.sentences]
    return said if whole else [f"[yellow]{one}[/yellow]" for one in said]


def _survival(release: SurvivalRelease, room: int) -> list[str]:
    """Return every measure with its interval, the test, and until when people are seen."""
    curves = release.curves
    unit = escape(f" {curves.unit}") if curves.unit else ""
    event, origin = escape(curves.events[0]), escape(curves.origin)
    until = curves.horizon if release.restricted_to is None else release.restricted_to
    lines = [
        _head(release),
        f"{MEASURES[release.measures[0].measure]} {event} until {until:g}{unit} (origin: {origin})",
        _estimate(release, curves.unit if release.measures[0].measure == "rmst" else None),
    ]
    if until < curves.horizon:
        said = f"Too few are followed to {curves.horizon:g}{unit}, so measures end with {until:g}."
        lines.append(f"[yellow]{said}[/yellow]")
    for one in release.measures[1:]:
        value = f"{number(one.estimate)}{unit if one.measure == 'rmst' else ''}"
        span = escape(f"[{number(one.interval.lower)}, {number(one.interval.upper)}]")
        said = f"{MEASURES[one.measure]} {event}: {value}"
        lines.append(f"{said}   {one.interval.confidence:.0%} interval {span}")
    if curves.log_rank is not None:
        said, ratio = f"Log-rank p = {curves.log_rank.p_value:.3g}", curves.log_rank.hazard_ratio
        if ratio is not None:
            said += f", hazard ratio {ratio.estimate:.3g} {escape(f'[{ratio.lower:.3g}, {ratio.upper:.3g}]')}"
        lines.append(f"{said}.")
    if curves.seen_until < curves.horizon:
        lines.append(f"[yellow]People of both arms are seen at risk until {curves.seen_until:.4g}{unit} only.[/yellow]")
    lines += _about(release)
    return lines + limits(release.details["not_covered"], room - len(lines))


def _attenuated(details: Mapping[str, Any]) -> str:
    factor = float(details["attenuation_factor"])
    return f"[yellow]Attenuated: noise on treatments leaves about {factor:.3g} of the effect in the estimate.[/yellow]"


def _direction(release: DirectionRelease, room: int) -> list[str]:
    x, y = escape(release.pair.x.name), escape(release.pair.y.name)
    names = {"x_to_y": f"{x} → {y}", "y_to_x": f"{y} → {x}"}
    verdict = release.verdict
    said = "The noise decides nothing: no score answered, or they cancel."
    if verdict.favours:
        weight = f"weight {abs(verdict.weight):.2f} from 0 (noise decides) to 1 (it does not)"
        said = f"[bold]{names[verdict.favours]}[/bold]   {weight}"
    lines = [_head(release), said]
    for score in release.scores:
        if score.margin is None or score.order_kept is None:
            lines.append(f"{score.score}: no answer")
            continue
        favoured = names[score.favours] if score.favours else "neither"
        kept = f"{score.order_kept:.1%}" if score.order_kept < SURE else "above 99.9%"
        lines.append(f"{score.score}: {favoured}, margin {abs(score.margin):.4g} (order kept by the noise: {kept})")
    return lines + limits("; ".join(DIRECTION_LEFT), room - len(lines), "The scores take no account of")


def _protocol(release: ProtocolRelease, room: int) -> list[str]:
    return protocol(release, _head(release), room, limits)


MEASURES = {"risk": "Difference of the risk of", "rmst": "Difference of the mean time without"}
# A probability that would be rounded to 1.
SURE = 0.9995
# What no score of a direction speaks of.
DIRECTION_LEFT = (
    "sampling: other units could favour the other direction",
    "a common cause of both, or effects in both directions",
    "an effect that is not a smooth function of its cause plus independent noise",
)
# How each kind of release reads within so many lines; without an entry only its question and cost are shown.
ANSWERS: dict[str, Callable[[Any, int], list[str]]] = {
    "effect": _effect,
    "survival": _survival,
    "protocol": _protocol,
    "direction": _direction,
}
