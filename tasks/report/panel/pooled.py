"""Panels of what several sites say together, and of what pooling cost.

Nothing beside what each site spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from causalveil.schemas.limits import united
from causalveil.tasks.report.numbers import freedom
from causalveil.tasks.report.panel.parts import (
    adjusted,
    budget_left,
    ends,
    estimate_line,
    estimated,
    limits,
    runs_left,
    share_left,
)

if TYPE_CHECKING:
    from causalveil.schemas.sites.pooled import OfSites, PooledRelease, PooledSurvivalRelease, SiteRecord
    from causalveil.schemas.sites.series import Series


# Why a site has no part in a measure of times.
NO_PART = "noise hides whether any unit was followed so long, or its measures end earlier"


def head_of_sites(release: OfSites, sites: Sequence[SiteRecord], way: str = "") -> str:
    """Return the first line: study, question, estimator, way of pooling, sites and units."""
    asked = f"{release.study}: {release.estimand} by {release.estimator}, {way or f'{release.model} effects'}"
    return escape(f"{asked}, {len(sites)} sites, {release.units:,} units (round {release.round})")


def pooled_lines(release: PooledRelease, room: int) -> list[str]:
    """Return the panel of an effect over several sites, without its cost."""
    unit = release.units_of_measure.get(release.specification["outcome"]["name"])
    apart, fixed = release.heterogeneity, release.model == "fixed"
    name, other = ("random", release.random) if fixed else ("fixed", release.fixed)
    lines = [
        head_of_sites(release, release.sites),
        estimate_line(release.estimate, release.interval, unit),
        *adjusted(release.confounding),
        f"Between sites: tau2 {apart.tau2:.3g}, I2 {apart.i2:.0%}, Q {apart.q:.3g} on {freedom(apart.degrees)}, "
        f"p = {apart.p_value:.2g}. With {name} effects {estimated(other)} {ends(other.interval)}.",
    ]
    omitted = united(one for site in release.sites for one in site.not_covered)
    # Sites are named if all of them have room beside the first limit.
    if len(lines) + len(release.sites) + 2 <= room:
        for site, without in zip(release.sites, release.leave_one_out, strict=True):
            weight = site.weight_fixed if fixed else site.weight_random
            others = without.fixed if fixed or without.random is None else without.random
            lines.append(
                f"- {escape(site.site)}: {estimated(site)} {ends(site.interval)}, weight {weight:.0%}; "
                f"without it {estimated(others)}"
            )
    return lines + limits(omitted, room - len(lines))


def pooled_times_lines(release: PooledSurvivalRelease, room: int) -> list[str]:
    """Return the panel of times to an event over several sites, without its cost."""
    lines = [head_of_sites(release, release.sites, release.way), escape(f"{'; '.join(release.question)}.")]
    for measure in release.measures:
        found = release.headline(measure)
        if found is None:
            lines.append(f"[yellow]{measure.words}: fewer than two sites have an answer beyond the noise.[/yellow]")
            continue
        lines.append(f"{measure.words}: {estimate_line(found.estimate, found.interval, release.unit_of(measure))}")
    lines += adjusted(release.confounding)
    first = release.measures[0]
    if release.log_rank is not None:
        test = release.log_rank
        said = f"Log-rank test within sites: p = {test.p_value:.3g}"
        if test.hazard_ratio is not None:
            ratio = test.hazard_ratio
            said += f", hazard ratio {ratio.estimate:.3g} {escape(f'[{ratio.lower:.3g}, {ratio.upper:.3g}]')}"
        lines.append(f"{said}.")
    if first.heterogeneity is not None:
        apart = first.heterogeneity
        lines.append(
            f"Between sites, first measure: tau2 {apart.tau2:.3g}, I2 {apart.i2:.0%}, Q {apart.q:.3g} on "
            f"{freedom(apart.degrees)}, p = {apart.p_value:.2g}."
        )
    hidden = [escape(part.site) for part in first.sites if part.estimate is None]
    if hidden:
        lines.append(f"[yellow]No answer at {', '.join(hidden)}: {NO_PART}.[/yellow]")
    return lines + limits(release.not_covered, room - len(lines))


def cost_of_sites(release: OfSites, sites: Sequence[SiteRecord]) -> list[str]:
    """Return what the sites spent, and what is left of their budgets."""
    from causalveil.schemas.privacy import amount_text

    privacy = release.privacy
    spent = f"epsilon {amount_text(privacy.epsilon)}, delta {amount_text(privacy.delta)}"
    where = f"one replaced {escape(privacy.unit)}, level {privacy.level.replace('_', ' ')}"
    lines = [f"Differential privacy at each site: {spent} at most ({where}). No unit is in two sites (declared)."]
    known = [site for site in sites if site.budget is not None]
    if len(known) < len(sites):
        return [*lines, "Pooling cost nothing. Each site's ledger says what is left of its budget."]
    scarce = min(known, key=lambda site: (site.budget.fits, site.budget.share_left) if site.budget else (0, 0.0))
    if scarce.budget is None:
        return lines
    share = share_left(scarce.budget)
    left = f"{share[:1].lower()}{share[1:]} of its budget, {runs_left(scarce.budget.fits)}"
    return [*lines, f"Pooling cost nothing. Least is left at {escape(scarce.site)}: {left}."]


def cost_of_series(series: Series) -> list[str]:
    """Return what each block spent, and what is left of the newest one's budget."""
    from causalveil.schemas.privacy import amount_text

    privacy, newest = series.privacy, series.runs[-1]
    spent = f"epsilon {amount_text(privacy.epsilon)}, delta {amount_text(privacy.delta)}"
    where = f"one replaced {escape(privacy.unit)}, level {privacy.level.replace('_', ' ')}"
    lines = [f"Differential privacy of each block: {spent} at most ({where}). The series cost nothing."]
    if series.unreleased:
        lines.insert(0, f"[yellow]{escape(series.unreleased_words)}[/yellow]")
    if newest.budget is not None:
        lines.append(budget_left(newest.budget, f"block {newest.blocks[-1]}"))
    return lines
