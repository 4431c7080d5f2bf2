"""The owner's desk as pages: self-contained HTML that refer to nothing but each other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from causalveil.schemas.oversight import Desk, DeskDataset
from causalveil.tasks.privacy.outlook.standing import Burndown
from causalveil.tasks.report.burndown import panels_of
from causalveil.tasks.report.page import environment, style


def desk_html(desk: Desk) -> str:
    """Return the first page: every dataset.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    return _render("desk.html.j2", desk=desk)


def dataset_html(one: DeskDataset, burndowns: Sequence[Burndown], at: datetime) -> str:
    """Return the page of one dataset.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    return _render("desk_dataset.html.j2", one=one, panels=panels_of(burndowns), at=at)


def _render(template: str, **context: object) -> str:
    made = environment()
    made.filters |= {"moment": _moment, "day": _day}
    return made.get_template(template).render(css=style("style.css") + style("desk.css"), **context)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"
