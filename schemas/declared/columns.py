"""What a column of the data holds, as the owner declares it in dataset.yaml."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from causalveil.schemas.asked.scale import NumberScale, scaled_ends
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Bounds, Codes, Levels, Missing, Others, distinct_levels

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


def _column_kind(value: Any) -> str | None:
    # Tags have a space: no key of a contract can be taken for one in a message.
    if isinstance(value, dict):
        kinds = [f"{kind} column" for kind in ("levels", "codes") if kind in value]
        return kinds[0] if kinds else "number column"
    models: tuple[type, ...] = (NumberColumn, LevelsColumn, CodesColumn)
    tags = ("number column", "levels column", "codes column")
    return next((tag for model, tag in zip(models, tags, strict=True) if isinstance(value, model)), None)


Declared = Annotated[
    Annotated[NumberColumn, Tag("number column")]
    | Annotated[LevelsColumn, Tag("levels column")]
    | Annotated[CodesColumn, Tag("codes column")],
    Discriminator(
        _column_kind,
        custom_error_type="column",
        custom_error_message="a column is declared as {lower, upper}, {levels: [...]} or {codes: {control, treated}}",
    ),
]
