"""The burn-down of a dataset's accounts and the owner's desk, as pages and figures.

What the ledger says, in the style of a report. The desk's pages refer to nothing but each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from causalveil.schemas.ledger import Account
from causalveil.schemas.oversight import Desk, DeskDataset
from causalveil.tasks.privacy.ledger.outlook import Burndown, BurndownStep
from causalveil.tasks.report.numbers import amount, blocks_label, figure, percent
from causalveil.tasks.report.page import environment, style

# In pixels: of a panel, of its plot's upper edge and height.
HEIGHT, TOP, TALL = 196, 14, 150
# In percent of the width, so that percentages have room at the left of a telephone.
LEFT, RIGHT = 14.0, 97.5
# With more steps markers are drawn small.
MANY = 60
FILE_WIDTH, PITCH = 720, 270


@dataclass(frozen=True)
class Tick:
    """A date below the axis; x in percent."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True)
class Segment:
    """A straight piece of a line: x in percent, y in pixels."""

    x1: float
    x2: float
    y1: float
    y2: float


@dataclass(frozen=True)
class Mark:
    """A step: x in percent, y in pixels."""

    x: float
    y: float
    kind: str
    text: str


@dataclass(frozen=True)
class Panel:
    """The drawing of one account."""

    title: str
    caption: str
    description: str
    ticks: tuple[Tick, ...]
    lines: tuple[Segment, ...]
    marks: tuple[Mark, ...]
    radius: float
    height: int = HEIGHT
    left: float = LEFT

    @staticmethod
    def down(share: float) -> float:
        """Return the pixels from the top at which a share of the cap lies."""
        return round(TOP + (1 - share) * TALL, 2)


def burndown_html(account: Account, burndowns: Sequence[Burndown]) -> str:
    """Return one HTML document: styles and figures inside, nothing outside it referred to.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    context = {"account": account.model_dump(mode="json"), "panels": panels_of(burndowns), "css": style("style.css")}
    return environment().get_template("burndown.html.j2").render(context)


def burndown_svg(account: Account, burndowns: Sequence[Burndown]) -> str:
    """Return the same figures, one below the other, as one SVG file.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    panels = panels_of(burndowns)
    context = {
        "account": account.model_dump(mode="json"),
        "panels": panels,
        "width": FILE_WIDTH,
        "inner": FILE_WIDTH - 12,
        "height": PITCH * len(panels) if panels else 40,
        "pitch": PITCH,
    }
    return environment().get_template("burndown.svg.j2").render(context)


def panels_of(burndowns: Sequence[Burndown]) -> list[Panel]:
    """Return the drawing of each account, on one axis of time."""
    moments = [step.at for burndown in burndowns for step in burndown.steps]
    if not moments:
        return []
    first, last = min(moments), max(moments)
    # One axis for all accounts; a little room after the last step, so that its height can be read.
    span = max(last - first, timedelta(seconds=10)) * 1.05
    return [_panel(burndown, first, span) for burndown in burndowns]


def _panel(burndown: Burndown, first: datetime, span: timedelta) -> Panel:
    def across(moment: datetime) -> float:
        return round(LEFT + (moment - first) / span * (RIGHT - LEFT), 3)

    lines, place = [], Panel.down(burndown.steps[0].share_left)
    for step, later in zip(burndown.steps, [*burndown.steps[1:], None], strict=True):
        x, y = across(step.at), Panel.down(step.share_left)
        if y != place:
            lines.append(Segment(x, x, place, y))
        lines.append(Segment(x, across(later.at) if later else RIGHT, y, y))
        place = y
    marks = tuple(Mark(across(s.at), Panel.down(s.share_left), s.kind, _words(s)) for s in burndown.steps)
    end = burndown.steps[-1]
    level, noun = str(burndown.level).replace("_", " "), "block" if len(burndown.blocks) == 1 else "blocks"
    title = f"Level {level}, {noun} {blocks_label(burndown.blocks)}"
    runs = sum(step.kind == "reserve" for step in burndown.steps)
    delta = f" at δ = {amount(end.cap.delta)}" if end.cap.delta > 0 else ""
    caption = (
        f"ε = {figure(float(end.used))} of {amount(end.cap.epsilon)}{delta} is spent or reserved by "
        f"{runs:,} run{'' if runs == 1 else 's'}; {percent(end.share_left)} is left."
    )
    description = (
        f"The share of the cap that is left, from {_date(first, span)} on: it ends at {percent(end.share_left)}."
    )
    return Panel(
        title, caption, description, _ticks(first, span), tuple(lines), marks, 1.5 if len(marks) > MANY else 3.5
    )


def _words(step: BurndownStep) -> str:
    """Return the tooltip of a step."""
    if step.kind == "grant":
        cap = f"ε = {amount(step.cap.epsilon)}, δ = {amount(step.cap.delta)}"
        return f"{step.at:%Y-%m-%d %H:%M}: a cap of {cap} granted"
    did = "voided" if step.kind == "void" else "reserved"
    return f"{step.at:%Y-%m-%d %H:%M}: {step.run} {did}; {percent(step.share_left)} is left"


def _ticks(first: datetime, span: timedelta) -> tuple[Tick, ...]:
    """Return three dates, for which a telephone has room, the outer ones within the axis."""
    return tuple(
        Tick(round(LEFT + part / 2 * (RIGHT - LEFT), 3), _date(first + span * part / 2, span), anchor)
        for part, anchor in enumerate(("start", "middle", "end"))
    )


def _date(moment: datetime, span: timedelta) -> str:
    """Return a moment as exactly as the axis needs."""
    if span >= timedelta(days=4):
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%d %b %H:%M}" if span >= timedelta(minutes=5) else f"{moment:%H:%M:%S}"


def desk_html(desk: Desk) -> str:
    """Return the first page: every dataset.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    return _render("desk.html.j2", desk=desk)


def dataset_html(dataset: DeskDataset, burndowns: Sequence[Burndown], at: datetime) -> str:
    """Return the page of one dataset.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    return _render("desk_dataset.html.j2", one=dataset, panels=panels_of(burndowns), at=at)


def _render(template: str, **context: object) -> str:
    made = environment()
    made.filters |= {"moment": "{:%Y-%m-%d %H:%M}".format, "day": "{:%Y-%m-%d}".format}
    return made.get_template(template).render(css=style("style.css") + style("desk.css"), **context)
