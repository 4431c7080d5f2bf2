"""What a column of the data holds, as the owner declares it in dataset.yaml."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from causalveil.schemas.asked.scale import NumberScale, scaled_ends
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import (
    Bounds,
    Code,
    Codes,
    Finite,
    Levels,
    Missing,
    Name,
    Others,
    distinct_levels,
    event_codes,
)

Words = Annotated[str, Field(max_length=2000)]


class DeclaredColumn(Frozen):
    """What every column has. ``nulls: indicator`` welcomes nulls: a study that uses the column says who has one."""

    nulls: Missing = Missing.refuse
    unit_of_measure: Annotated[str | None, Field(max_length=100)] = None
    description: Words | None = None


class NumberColumn(DeclaredColumn, Bounds):
    """A number and its range, known without looking at the data. Values beyond it are clipped, always.

    ``scale``: on which scale it is read where it is a covariate; a study may say otherwise.
    """

    scale: NumberScale | None = None

    @model_validator(mode="after")
    def _on_its_scale(self) -> NumberColumn:
        scaled_ends(self.scale, self.lower, self.upper)
        return self


class LevelsColumn(DeclaredColumn):
    """A category. ``others``: whether a value that is no level counts as the level ``other``, or is refused."""

    levels: Levels
    others: Others = Others.refuse

    @model_validator(mode="after")
    def _distinct(self) -> LevelsColumn:
        distinct_levels(self.levels)
        return self


class CodesColumn(DeclaredColumn):
    """One of two codes: what a treatment is. As a covariate or an outcome it is 0 for control and 1 for treated."""

    codes: Codes


class FollowUp(Frozen):
    """Times from an origin that everybody has: the longest that counts, and the smallest step that is recorded.

    ``origin``: time zero, in words, as ``randomised`` or ``date of diagnosis``.
    """

    upper: Annotated[Finite, Field(gt=0, le=1e9)]
    origin: Annotated[str, Field(min_length=1, max_length=200)]
    step: Annotated[Finite, Field(ge=1e-9)] = 1.0

    @model_validator(mode="after")
    def _holds_a_step(self) -> Self:
        if self.step > self.upper:
            raise ValueError("'step' is the smallest difference that is recorded, and must not be above 'upper'")
        return self


class TimeColumn(DeclaredColumn):
    """The time from an origin to an event or to the end of follow-up; nothing is asked of what came after ``upper``."""

    time: FollowUp


class EventColumn(DeclaredColumn):
    """What ended a person's follow-up: an event of some kind, or censoring.

    ``censored``: the name of censoring; without it the name whose code is 0 or false.
    """

    event: Annotated[dict[Name, Code], Field(min_length=2, max_length=20)]
    censored: Name | None = None

    @model_validator(mode="after")
    def _one_is_censoring(self) -> Self:
        codes = list(self.codes.values())
        event_codes(tuple(codes))
        if self.censored is not None and self.censored not in self.event:
            raise ValueError(f"'censored' is '{self.censored}', which is none of the names of 'event'")
        if self.censored is None and 0 not in codes:
            raise ValueError("no code of 'event' is 0, so say which of its names is censoring: 'censored: NAME'")
        return self

    @property
    def codes(self) -> dict[str, str | int]:
        """Every name with its code; booleans as 0 and 1."""
        return {name: code if isinstance(code, str) else int(code) for name, code in self.event.items()}

    @property
    def censoring(self) -> str:
        """The name of censoring."""
        return self.censored or next(name for name, code in self.codes.items() if code == 0)


_KINDS: dict[str, type[DeclaredColumn]] = {
    "levels": LevelsColumn,
    "codes": CodesColumn,
    "time": TimeColumn,
    "event": EventColumn,
}


def _column_kind(value: Any) -> str | None:
    # Tags have a space: no key of a contract can be taken for one in a message.
    if isinstance(value, dict):
        kinds = [f"{kind} column" for kind in _KINDS if kind in value]
        return kinds[0] if kinds else "number column"
    models: tuple[type, ...] = (NumberColumn, *_KINDS.values())
    tags = ("number column", *(f"{kind} column" for kind in _KINDS))
    return next((tag for model, tag in zip(models, tags, strict=True) if isinstance(value, model)), None)


Declared = Annotated[
    Annotated[NumberColumn, Tag("number column")]
    | Annotated[LevelsColumn, Tag("levels column")]
    | Annotated[CodesColumn, Tag("codes column")]
    | Annotated[TimeColumn, Tag("time column")]
    | Annotated[EventColumn, Tag("event column")],
    Discriminator(
        _column_kind,
        custom_error_type="column",
        custom_error_message="a column is declared as {lower, upper}, {levels: [...]}, {codes: {control, treated}}, "
        "{time: {upper, origin}} or {event: {NAME: code}}",
    ),
]
