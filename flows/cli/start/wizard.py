"""Questions of `causalveil init` in a terminal, and the one sentence where there is no terminal to ask in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from causalveil.schemas.errors import StudyError

if TYPE_CHECKING:
    from causalveil.flows.sequence.start import Survey
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.start.roles import Wishes

_QUESTIONS = {
    "data_class": "How does the owner class the data: public, synthetic or sensitive?",
    "unit": "Which column names the person who is protected?",
    "treatment": "Which column says who was treated?",
    "outcome": "Which column is the outcome?",
}


def data_class(text: str) -> DataClass:
    """The class that a person named.

    Raises:
        StudyError: it is none.
    """
    from causalveil.schemas.contract import DataClass

    if text.strip().lower() not in list(DataClass):
        raise StudyError("--data-class is public, synthetic or sensitive")
    return DataClass(text.strip().lower())


def said(seen: Survey, known: Mapping[str, str | None]) -> dict[str, str]:
    """The answers where nobody can be asked.

    Raises:
        StudyError: names every option that is missing, with the columns that there are.
    """
    missing = [f"--{key.replace('_', '-')}" for key, value in known.items() if value is None]
    if missing:
        columns = ", ".join(f"'{name}'" for name in list(seen.found)[:30])
        alone = " (or --each-row, if none names people)" if "--unit" in missing else ""
        raise StudyError(f"say {' and '.join(missing)}{alone}; the columns are {columns}")
    return {key: value for key, value in known.items() if value is not None}


def asked(seen: Survey, known: Mapping[str, str | None]) -> dict[str, str]:
    """The answers of a person; each question stands above the columns that may be the answer."""
    answers: dict[str, str] = {}
    for key, value in known.items():
        if value is not None:
            answers[key] = value
            continue
        candidates = _candidates(seen, key, tuple(answers.values()))
        if candidates and key != "data_class":
            typer.echo(f"  columns: {', '.join(candidates[:20])}", err=True)
        default = candidates[0] if len(candidates) == 1 or (key == "unit" and candidates) else None
        if key == "unit" and not candidates:
            typer.echo("  no column tells all rows apart; if each row is a person, give --each-row instead", err=True)
        answers[key] = typer.prompt(_QUESTIONS[key], default=default, err=True).strip()
        if key == "data_class":
            data_class(answers[key])
    return answers


def times(seen: Survey, outcome: str, horizon: float) -> tuple[str | None, float]:
    """Ask whether the outcome is a time that another column ends, and until when times are compared; else None."""
    from causalveil.tasks.start.times import times_among

    event = times_among(seen.found.values()).get(outcome)
    if event is None:
        return None, horizon
    typer.echo(f"  '{outcome}' looks like a time to an event, which '{event}' names", err=True)
    answer = typer.prompt("Compare times until when? Nothing: it is a plain number", default="", err=True).strip()
    try:
        return event, float(answer)
    except ValueError:
        return None, horizon


def complete(seen: Survey, wishes: Wishes) -> Wishes:
    """Ask for ranges and levels of sensitive data that no option named; an empty answer leaves one open."""
    from causalveil.flows.sequence.start import parts_of
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.start.draft import asks_for_levels
    from causalveil.tasks.start.recognise import Looks
    from causalveil.tasks.start.roles import resolved

    if wishes.data_class is not DataClass.sensitive:
        return wishes
    parts, wishes = parts_of(seen, wishes), resolved(seen.found, wishes)
    ranges, levels = dict(wishes.ranges), dict(wishes.levels)
    # Times have their horizon for a range.
    for one in (*([parts.outcome] if parts.event is None else []), *parts.covariates):
        if one.looks is Looks.number and one.name not in ranges:
            answer = typer.prompt(f"Range of '{one.name}' from public knowledge, LOW:HIGH", default="", err=True)
            low, _, high = answer.partition(":")
            try:
                ranges[one.name] = (float(low), float(high))
            except ValueError:
                typer.echo("  left open; write it into dataset.yaml", err=True)
        elif one is not parts.outcome and one.name not in levels and asks_for_levels(one):
            answer = typer.prompt(f"Levels of '{one.name}' that anybody may know, A,B,C", default="", err=True)
            named = tuple(part.strip() for part in answer.split(",") if part.strip())
            if len(named) > 1:
                levels[one.name] = named
    return replace(wishes, ranges=ranges, levels=levels)


def _candidates(seen: Survey, key: str, taken: tuple[str, ...]) -> list[str]:
    """Columns that may play a part."""
    from causalveil.tasks.start.recognise import Looks
    from causalveil.tasks.start.roles import unit_candidates

    if key == "unit":
        return unit_candidates(seen.found)
    kinds = {"treatment": (Looks.binary,), "outcome": (Looks.number, Looks.binary)}.get(key, ())
    return [one.name for one in seen.found.values() if one.looks in kinds and one.name not in taken]
