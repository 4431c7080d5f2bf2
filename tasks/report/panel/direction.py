"""The first line of every panel of a run, and the panel of a causal direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from causalveil.schemas.limits import Code, limit
from causalveil.tasks.report.numbers import SCORES
from causalveil.tasks.report.panel.parts import limits

if TYPE_CHECKING:
    from causalveil.schemas.release import DirectionRelease, Release


def head_of(release: Release) -> str:
    """Return the first line: study, question, estimator, units; before it a missing guarantee."""
    question = getattr(release, "estimand", release.kind)
    loud = "" if release.headline is None else f"[bold red]{escape(release.headline)}[/bold red] "
    asked = (
        "causal direction" if question == release.estimator else f"{question} by {release.estimator.replace('_', ' ')}"
    )
    named = escape(f"{release.study}: {asked}, {release.units:,} units of {release.dataset}")
    return f"{loud}{named}"


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


# A probability that would be rounded to 1.
SURE = 0.9995
# What no score of a direction speaks of.
DIRECTION_LEFT = (limit(Code.other_samples), limit(Code.common_cause), limit(Code.not_additive))
