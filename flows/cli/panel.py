"""The panel that a run ends with: the answer, what was adjusted for, its limits, its cost, and where the rest stands.

At most twelve sentences of at most 25 words; everything else is the report's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from causalveil.flows.cli.protocols.show import protocol

if TYPE_CHECKING:
    from causalveil.flows.sequence.finished import RunResult
    from causalveil.schemas.release import AnsweredEffect, DirectionRelease, Release, SurvivalRelease

# So many limits are shown, in order of importance; the report has all of them.
LIMITS = 3


def answer(release: Release) -> list[str]:
    """Return what a release answers, by its kind; nothing but the question where a kind has no panel of its own."""
    question = getattr(release, "estimand", release.kind)
    head = f"{release.study}: {question} by {release.estimator}, {release.units:,} units of {release.dataset}"
    lines = [head, *ANSWERS.get(release.kind, lambda _: [])(release)]
    return lines if release.headline is None else [f"[bold red]{release.headline}[/bold red]", *lines]


def limits(not_covered: object) -> list[str]:
    """Return the first limits of a release's text, which "; " parts, and how many more the report has."""
    sentences = [one for one in str(not_covered).split("; ") if one]
    if not sentences:
        return []
    more = len(sentences) - LIMITS
    lines = ["The interval does not cover:", *(f"- {escape(sentence)}" for sentence in sentences[:LIMITS])]
    return [*lines, f"- {more} more: see the report"] if more > 0 else lines


def cost(result: RunResult) -> list[str]:
    """Return what the run cost and what is left, and whether it was the first or a repeated one."""
    from causalveil.schemas.privacy import amount_text

    release = result.release
    privacy, left = release.privacy, release.budget
    spent = f"epsilon {amount_text(privacy.epsilon)}, delta {amount_text(privacy.delta)}"
    where = f"one replaced {privacy.unit}, level {str(privacy.level).replace('_', ' ')}"
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
    """Return what else a person must know now: what is not protected, warnings, and what the run did by itself."""
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


def _effect(release: AnsweredEffect) -> list[str]:
    interval, details = release.interval, release.details
    lines = [
        f"[bold]{release.estimate:,.4g}[/bold]   {interval.confidence:.0%} interval "
        f"[bold][{interval.lower:,.4g}, {interval.upper:,.4g}][/bold]"
    ]
    lines += _adjusted(release)
    if details.get("chance_contradicted"):
        lines.append("[yellow]The released share of treated contradicts the declared chance of treatment.[/yellow]")
    elif interval.whole_range:
        lines.append("[yellow]The noise was too large: the interval is the whole declared range.[/yellow]")
    if details.get("attenuation_corrected") is False:
        lines.append(_attenuated(details))
    return lines + limits(details["not_covered"])


def _adjusted(release: AnsweredEffect) -> list[str]:
    """Return what was done about confounding; of a release without a statement in its own words."""
    from causalveil.schemas.confounding import AdjustmentState

    found = release.confounding
    if found is None:
        words = str(release.details.get("adjustment", ""))
        return [escape(f"{words[:1].upper()}{words[1:]}.")] if words else []
    whole = found.state in (AdjustmentState.adjusted, AdjustmentState.randomised) and not found.left_out
    said = [escape(one) for one in (found.done, found.unable) if one]
    return said if whole else [f"[yellow]{one}[/yellow]" for one in said]


def _survival(release: SurvivalRelease) -> list[str]:
    """Return every measure with its interval, the test, and until when people are seen."""
    curves = release.curves
    unit = f" {curves.unit}" if curves.unit else ""
    lines = [
        f"{release.measures[0].measure}, {curves.events[0]} until {curves.horizon:g}{unit} (origin: {curves.origin})"
    ]
    first, *rest = _effect(release)
    lines.append(first)
    for one in release.measures[1:]:
        span = escape(f"[{one.interval.lower:,.4g}, {one.interval.upper:,.4g}]")
        lines.append(f"{one.measure}: {one.estimate:,.4g}   {one.interval.confidence:.0%} interval {span}")
    if curves.log_rank is not None:
        said, ratio = f"log-rank p = {curves.log_rank.p_value:.3g}", curves.log_rank.hazard_ratio
        if ratio is not None:
            said += f", hazard ratio {ratio.estimate:.3g} {escape(f'[{ratio.lower:.3g}, {ratio.upper:.3g}]')}"
        lines.append(said)
    if curves.seen_until < curves.horizon:
        lines.append(f"[yellow]people of both arms are seen at risk until {curves.seen_until:.4g}{unit} alone[/yellow]")
    return lines + rest


def _attenuated(details: Mapping[str, Any]) -> str:
    factor = float(details["attenuation_factor"])
    return f"[yellow]Attenuated: noise on treatments leaves about {factor:.3g} of the effect in the estimate.[/yellow]"


def _direction(release: DirectionRelease) -> list[str]:
    names = {
        "x_to_y": f"{release.pair.x.name} → {release.pair.y.name}",
        "y_to_x": f"{release.pair.y.name} → {release.pair.x.name}",
    }
    verdict = release.verdict
    lines = [
        f"[bold]{names[verdict.favours]}[/bold]   weight {verdict.weight:+.2f}" if verdict.favours else "no verdict"
    ]
    for score in release.scores:
        if score.margin is None or score.order_kept is None:
            lines.append(f"{score.score}: no answer")
            continue
        favoured = names[score.favours] if score.favours else "neither"
        kept = f"noise kept the order with probability {score.order_kept:.3f}"
        lines.append(f"{score.score}: {favoured}, margin {abs(score.margin):.4g}; {kept}")
    return lines


def _protocol(release: Any) -> list[str]:
    return [protocol(release), *limits(release.not_covered)]


# How each kind of release reads; without an entry only its question and cost are shown.
ANSWERS: dict[str, Callable[[Any], list[str]]] = {
    "effect": _effect,
    "survival": _survival,
    "protocol": _protocol,
    "direction": _direction,
}
