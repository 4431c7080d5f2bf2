"""The panel of a release of any kind, and the same as plain text: what ``str`` of it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from rich.markup import escape

from causalveil.tasks.report.panel.direction import direction_lines, head_of
from causalveil.tasks.report.panel.parts import LINES, budget_left
from causalveil.tasks.report.panel.pooled import cost_of_series, cost_of_sites
from causalveil.tasks.report.panel.tables import effect_lines, pooled_lines, series_lines

if TYPE_CHECKING:
    from causalveil.schemas.release import Release
    from causalveil.schemas.sites.pooled import Published
    from causalveil.schemas.sites.series import Series


class Finished(Protocol):
    """A run that is finished: its release, and what of it was new."""

    @property
    def release(self) -> Release:
        """The release."""

    @property
    def returned(self) -> int | None:
        """Charges that the ledger held already; None: no stage ran."""

    @property
    def resumed(self) -> bool:
        """True if the ledger knew the run before."""

    @property
    def granted(self) -> bool:
        """True if the data granted themselves at this run."""

    @property
    def admitted(self) -> bool:
        """True if the data were held to their contract at this run."""


def lines_of(result: Finished) -> list[str]:
    """Return the panel of a run: its answer, limits, cost, and whether it ran before."""
    return _of_run(result.release, [*cost(result.release), *_begun(result)])


def panel_of(document: Published | Series) -> list[str]:
    """Return the panel of a release of any kind, pooled or not, or of a series."""
    from causalveil.schemas.release import Release
    from causalveil.schemas.sites.pooled import PooledRelease

    if isinstance(document, Release):
        return _of_run(document, cost(document))
    if isinstance(document, PooledRelease):
        paid = cost_of_sites(document)
        return [*pooled_lines(document, LINES - len(paid)), *paid]
    paid = cost_of_series(document)
    return [*series_lines(document, LINES - len(paid)), *paid]


def panel_text(document: Published | Series) -> str:
    """Return the panel as plain text."""
    return plain_text(panel_of(document))


def plain_text(lines: list[str]) -> str:
    """Return lines without their markup."""
    from rich.text import Text

    return "\n".join(Text.from_markup(line).plain for line in lines)


def _of_run(release: Release, paid: list[str]) -> list[str]:
    found = ANSWERS[release.kind](release, LINES - len(paid)) if release.kind in ANSWERS else [head_of(release)]
    return [*found, *paid]


def cost(release: Release) -> list[str]:
    """Return what a run cost, and what is left."""
    from causalveil.schemas.privacy import amount_text

    privacy, left = release.privacy, release.budget
    spent = f"epsilon {amount_text(privacy.epsilon)}, delta {amount_text(privacy.delta)}"
    open_half = next(iter(getattr(release, "unbounded_halves", ())), None)
    half = {"train": " of the test half", "test": " of the training half"}.get(str(open_half), "")
    what = (
        f"outcomes of one {escape(privacy.unit)}"
        if privacy.level == "label"
        else f"one replaced {escape(privacy.unit)}"
    )
    where = f"{what}{half}, level {str(privacy.level).replace('_', ' ')}"
    promise = "" if release.headline is None else "; the guarantee is asymptotic"
    lines = [f"Differential privacy: {spent} ({where}){promise}."]
    return lines if left is None else [*lines, budget_left(left, release.dataset)]


def _begun(result: Finished) -> list[str]:
    """Return whether a run is a repeated or a resumed one."""
    total = len(result.release.privacy.charges)
    if result.returned is None:
        return ["This run was finished before: its release came from the ledger; nothing ran or was charged."]
    if not result.resumed:
        return []
    return [
        f"This run was begun before: {result.returned} of its {total} charges were in the ledger, "
        f"{total - result.returned} were drawn and charged now."
    ]


def notes(result: Finished) -> list[str]:
    """Return what else a person must know now.

    That is what is not protected, warnings, and what the run did by itself.
    """
    privacy, warned = result.release.privacy, len(result.release.warnings)
    lines = [f"[yellow]Not protected: {escape(sentence)}[/yellow]" for sentence in privacy.unprotected]
    if warned:
        things = "one thing" if warned == 1 else f"{warned} things"
        lines.append(f"[yellow]`causalveil plan` warns of {things} about this study: see the report.[/yellow]")
    if privacy.blocks.key is not None:
        lines.append(escape(privacy.blocks.statement))
    if result.admitted:
        lines.append("All rows of this public or synthetic dataset were held to its contract.")
    if result.granted:
        lines.append("First run on this public or synthetic dataset: the cap of its contract was granted.")
    return lines


# How each kind of release reads within so many lines; without an entry only its question and cost are shown.
ANSWERS: dict[str, Callable[[Any, int], list[str]]] = {
    "effect": effect_lines,
    "direction": direction_lines,
}
