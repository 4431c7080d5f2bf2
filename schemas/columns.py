"""What the columns of a study must hold; ``schemas/admission/cohort.py`` makes checks of it."""

from __future__ import annotations

from enum import StrEnum

from causalveil.schemas.privacy import Frozen


class Holds(StrEnum):
    """What a column holds."""

    unit = "unit"
    binary = "binary"
    number = "number"
    level = "level"
    order = "order"


class Nulls(StrEnum):
    """Whether a column may hold nulls: never, not unless the study declares so, or yes."""

    never = "never"
    undeclared = "undeclared"
    welcome = "welcome"


class Column(Frozen):
    """What a column must be before a row of it is used."""

    holds: Holds
    levels: tuple[str | int, ...] = ()
    nulls: Nulls = Nulls.never
    # Which levels may stand in it; None: any value of the levels' type. Codes of a binary column: control, treated.
    admitted: tuple[str | int, ...] | None = None
    codes: tuple[str | int, str | int] = (0, 1)
