"""The cost of pooling over sites or over blocks, and the first line of a panel of sites.

Nothing beside what each site or block spent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from causalveil.tasks.report.panel.parts import budget_left, runs_left, share_left

if TYPE_CHECKING:
    from causalveil.schemas.sites.pooled import PooledRelease
    from causalveil.schemas.sites.series import Series


def head_of_sites(release: PooledRelease) -> str:
    """Return the first line: study, question, estimator, way of pooling, sites and units."""
    asked = f"{release.study}: {release.estimand} by {release.estimator}, {release.way}"
    return escape(f"{asked}, {len(release.sites)} sites, {release.units:,} units (round {release.round})")


def cost_of_sites(release: PooledRelease) -> list[str]:
    """Return what the sites spent, and what is left of their budgets."""
    from causalveil.schemas.privacy import amount_text

    privacy, sites = release.privacy, release.sites
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
