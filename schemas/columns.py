"""Columns in full: codes, levels, covariates, and which numbers and names they may have.

One rule holds for all numbers of a file, so that no scale derived from them is infinite, NaN or denormal. Ranges enter
sensitivities by their width, its square and the midpoint, clips by their reciprocals. A declared number within these
limits leaves all of them far inside the floats, whatever a stage does with them.

A number is read as it is, or by its logarithm or square root, after clipping to the declared range. A covariate that
spans orders of magnitude acts on most outcomes by its ratio. On a scale of its own a linear adjustment sees that; which
scale is declared, never taken from the data, so the transformation is public and applies to every row.

A code may have a name, which the owner declares and people read in place of the code. Rows, sums and keys of a release
have the code.

``schemas/admission.py`` makes checks of what the columns of a study must hold.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Frozen

# The level that undeclared values count as, and how people read it where a declared level has that name.
OTHER = "other"
ANY_OTHER = "any other value"
LONGEST_NAME = 200
LARGEST = 1e100
SMALLEST_WIDTH = 1e-100
# A range narrower than this share of its ends has too few floats inside for a midpoint to be between them.
SMALLEST_SHARE = 1e-9
# Clips of propensity scores are as far from 0 and 1, so that no single weight dominates.
CLIP_MARGIN = 1e-6
Finite = Annotated[float, Field(allow_inf_nan=False, strict=False)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f]+$")]


def sane_range(lower: float, upper: float) -> None:
    """Refuse a range whose width, square or midpoint is no ordinary number.

    Raises:
        ValueError: says what to declare instead.
    """
    if not lower < upper:
        raise ValueError("lower must be below upper")
    if not max(abs(lower), abs(upper)) <= LARGEST:
        raise ValueError(f"the ends of a range must lie between -{LARGEST:g} and {LARGEST:g}; use a larger unit")
    width = upper - lower
    if width < SMALLEST_WIDTH:
        raise ValueError(f"a range must be at least {SMALLEST_WIDTH:g} wide; use a smaller unit")
    if width < SMALLEST_SHARE * max(abs(lower), abs(upper)):
        raise ValueError(
            f"a range must be at least {SMALLEST_SHARE:g} of its larger end wide; measure from another zero"
        )


def ordinary(value: float | None) -> bool:
    """Return whether a declared scale is a float from 2**-1000 to 2**1000, or None.

    Such a float is positive and neither infinite, NaN nor denormal; None: not known yet.
    """
    return value is None or (math.isfinite(value) and 2.0**-1000 <= value <= 2.0**1000)


def sane_names(names: Sequence[str], codes: Sequence[str | int]) -> None:
    """Refuse names of codes that a reader could not distinguish or read.

    Args:
        names: the name of each code, in the same order.
        codes: the values in the rows.

    Raises:
        ValueError: says which rule is broken.
    """
    if codes and all(name.strip().isdecimal() for name in names) and not any(str(code).isdecimal() for code in codes):
        raise ValueError(f"names stand before their codes; turn each round, as in {{{codes[0]}: {names[0]}}}")
    first: dict[str | int, str] = {}
    for name, code in zip(names, codes, strict=True):
        if code in first:
            raise ValueError(f"code '{code}' has two names, '{first[code]}' and '{name}'; write one")
        first[code] = name
    seen: dict[str, str] = {}
    of_code = {_read(str(code)): code for code in codes}
    for name, code in zip(names, codes, strict=True):
        if not name.strip():
            raise ValueError(f"the name of code '{code}' is empty; write a word for it")
        if len(name) > LONGEST_NAME:
            raise ValueError(f"the name of code '{code}' has {len(name)} characters; at most {LONGEST_NAME} are read")
        if not name.isprintable():
            raise ValueError(f"the name of code '{code}' holds a character that cannot be printed; take it out")
        if name != name.strip():
            raise ValueError(f"'{name}' begins or ends with a blank; take it out")
        read = _read(name)
        if read in seen:
            raise ValueError(f"the names '{seen[read]}' and '{name}' differ in case or blanks only; rename one")
        seen[read] = name
        if of_code.get(read, code) != code:
            raise ValueError(f"'{name}' is the name of code '{code}' and another code as well; rename it")


def _read(name: str) -> str:
    """Return a name without blanks and case, in normal form, by which names are compared."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def level_labels(levels: Sequence[str | int], names: Sequence[str] | None) -> dict[str, str]:
    """Return how people read each level, by the level as text.

    >>> level_labels((1, 2), ("never", "former"))
    {'1': 'never', '2': 'former', 'other': 'other'}
    """
    shown = dict(zip(map(str, levels), map(str, levels) if names is None else names, strict=True))
    taken = names is not None and any(_read(label) == OTHER for label in names)
    return shown if OTHER in shown else {**shown, OTHER: ANY_OTHER if taken else OTHER}


def codes_of(names: Sequence[str] | None, levels: Sequence[str | int]) -> dict[str, str | int]:
    """Return the level of each name; nothing where levels have none."""
    return {} if names is None else dict(zip(names, levels, strict=True))


def labels_of(column: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a column of a specification; empty where it has no levels."""
    levels = column.get("levels")
    return {} if levels is None else level_labels(levels, column.get("names"))


def levels_text(column: Mapping[str, Any]) -> str:
    """Return the levels of a column in words: names with codes in brackets, if it has names.

    >>> levels_text({"levels": [1, 2], "names": ["never", "former"]})
    'never (1), former (2)'
    """
    levels, names = column["levels"], column.get("names")
    if not names:
        return ", ".join(map(str, levels))
    return ", ".join(f"{name} ({level})" for name, level in zip(names, levels, strict=True))


class NumberScale(StrEnum):
    """The scale on which outcomes are linear in a number: as it is, log, or square root."""

    linear = "linear"
    log = "log"
    sqrt = "sqrt"


def scaled_ends(scale: NumberScale | None, lower: float, upper: float) -> tuple[float, float]:
    """Return the ends of a range on its scale.

    Raises:
        ValueError: the range does not allow the scale; says what to declare instead.
    """
    if scale is None or scale is NumberScale.linear:
        return lower, upper
    if scale is NumberScale.log:
        if lower <= 0:
            raise ValueError(
                "scale 'log' needs a range above 0; declare as 'lower' the smallest value that matters (smaller ones "
                "count as it), or use scale 'sqrt'"
            )
        ends = math.log(lower), math.log(upper)
    else:
        if lower < 0:
            raise ValueError("scale 'sqrt' needs a range from 0 up; raise 'lower' (smaller values count as it)")
        ends = math.sqrt(lower), math.sqrt(upper)
    sane_range(*ends)
    return ends


class Holds(StrEnum):
    """The kinds of values that a column can hold."""

    unit = "unit"
    binary = "binary"
    number = "number"
    time = "time"
    level = "level"
    order = "order"


# Columns that may be read as floats.
FLOATS = (Holds.number, Holds.time, Holds.order)


class Nulls(StrEnum):
    """The rule for nulls in a column: never, not unless the study declares so, or allowed."""

    never = "never"
    undeclared = "undeclared"
    welcome = "welcome"


class Column(Frozen):
    """The requirements on a column before a row of it is used."""

    holds: Holds
    levels: tuple[str | int, ...] = ()
    nulls: Nulls = Nulls.never
    # Levels that rows may hold; None: any value of the levels' type. Codes of a binary column: control, treated.
    admitted: tuple[str | int, ...] | None = None
    codes: tuple[str | int, str | int] = (0, 1)


class Missing(StrEnum):
    """Refuse nulls, or encode them: midpoint plus indicator; in a category, an extra level."""

    refuse = "refuse"
    indicator = "indicator"


class Others(StrEnum):
    """Count values that are no declared level as the level ``other``, or refuse them."""

    other = "other"
    refuse = "refuse"


Code = Annotated[str, Field(strict=True)] | Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)]


def codes_of_64_bits(codes: Iterable[Code]) -> None:
    """Refuse integers of more than 64 bits.

    Raises:
        ValueError: an integer is too large.
    """
    if any(isinstance(code, int) and not abs(code) < 2**63 for code in codes):
        raise ValueError("codes must be integers of 64 bits")


class TwoCodes(Frozen):
    """The two values of a binary column, the one that is read as 0 first.

    Both are text, both whole numbers or both booleans (which may be stored as 0 and 1).
    """

    @model_validator(mode="after")
    def _two(self) -> Self:
        first, second = self.written
        if type(first) is not type(second):
            raise ValueError("codes must be both text, both integers or both booleans")
        if first == second:
            raise ValueError(f"{' and '.join(type(self).model_fields)} must have different codes")
        codes_of_64_bits(self.written)
        return self

    @property
    def written(self) -> tuple[Code, Code]:
        """The codes as they were declared."""
        first, second = (getattr(self, key) for key in type(self).model_fields)
        return first, second

    @property
    def pair(self) -> tuple[str | int, str | int]:
        """The codes; booleans as 0 and 1."""
        first, second = (code if isinstance(code, str) else int(code) for code in self.written)
        return first, second


class Codes(TwoCodes):
    """The codes of a treatment."""

    control: Code
    treated: Code


class YesOrNo(TwoCodes):
    """The codes of an outcome or a covariate: ``no`` is read as 0, ``yes`` as 1."""

    no: Code
    yes: Code


ZERO_ONE = Codes(control=0, treated=1)


def _level(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("a level is text or a whole number; of truth values write 0 and 1")
    return value


LevelCode = Annotated[
    Annotated[str, Field(strict=True)] | Annotated[int, Field(strict=True)],
    BeforeValidator(_level, json_schema_input_type=str | int),
]
Levels = Annotated[tuple[LevelCode, ...], Field(min_length=2, max_length=1000)]
# The name of each level.
LevelNames = tuple[Name, ...] | None


def distinct_levels(levels: tuple[str | int, ...]) -> None:
    """Refuse levels of two types, or a level that is listed twice.

    Raises:
        ValueError: says which rule is broken.
    """
    if len({type(level) for level in levels}) != 1:
        raise ValueError("levels must be all text or all integers")
    if len(set(levels)) != len(levels):
        raise ValueError("a level stands twice")


def distinct_names(names: tuple[str, ...] | None, levels: tuple[str | int, ...]) -> None:
    """Refuse names that do not match the levels one to one, or that read the same.

    Raises:
        ValueError: says which rule is broken.
    """
    if names is None:
        return
    if len(names) != len(levels):
        raise RuleBroken("'names' are one of each level, in the same order", "names")
    sane_names(names, levels)


def event_codes(codes: tuple[str | int, ...]) -> None:
    """Refuse codes of events that are no levels, or that have more than 64 bits.

    Raises:
        ValueError: says which rule is broken.
    """
    distinct_levels(codes)
    codes_of_64_bits(codes)


class Bounds(Frozen):
    """A closed interval that contract or study declares; values beyond it are clipped."""

    lower: Finite
    upper: Finite

    @model_validator(mode="after")
    def _ordered(self) -> Bounds:
        sane_range(self.lower, self.upper)
        return self

    @property
    def width(self) -> float:
        """B = upper - lower."""
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        """The midpoint."""
        return self.lower + self.width / 2


class NumericCovariate(Bounds):
    """A number with declared bounds; with ``codes``, a binary column read as 0 and 1.

    ``scale``: on which outcomes are linear in it, as declared; None where it is not declared.
    """

    scale: NumberScale | None = None
    codes: YesOrNo | None = None
    nulls: Missing = Missing.refuse

    @model_validator(mode="after")
    def _on_its_scale(self) -> NumericCovariate:
        if self.codes is not None and self.scale is not None:
            raise ValueError(f"a column of two codes has no scale '{self.scale}'; remove 'scale'")
        scaled_ends(self.scale, self.lower, self.upper)
        return self

    @property
    def on_scale(self) -> Bounds:
        """The declared bounds on the declared scale."""
        lower, upper = scaled_ends(self.scale, self.lower, self.upper)
        return Bounds(lower=lower, upper=upper)


class CategoricalCovariate(Frozen):
    """A category with the levels that a study distinguishes.

    ``others``: whether any other value counts as the level ``other``. ``known``: the levels that rows may hold, where
    the study leaves some out; None where rows may hold any value, or only ``levels``. ``names``: what people read in
    place of the levels, by the contract.
    """

    levels: Levels
    names: LevelNames = None
    others: Others = Others.refuse
    known: Levels | None = None
    nulls: Missing = Missing.refuse

    @model_validator(mode="after")
    def _distinct(self) -> CategoricalCovariate:
        distinct_levels(self.levels)
        distinct_names(self.names, self.levels)
        return self

    @property
    def labels(self) -> dict[str, str]:
        """The label of each slot, by the slot as text."""
        return level_labels(self.levels, self.names)

    @property
    def of_names(self) -> dict[str, str | int]:
        """The level of each name."""
        return codes_of(self.names, self.levels)

    @property
    def slots(self) -> tuple[str | int, ...]:
        """The levels, and ``other`` where other values are allowed."""
        return self.levels if self.others is Others.refuse or OTHER in self.levels else (*self.levels, OTHER)

    @property
    def expected(self) -> tuple[str | int, ...]:
        """The slots that plans expect units to have: of declared values, if these are several."""
        declared = self.slots if self.known is not None else self.levels
        return declared if len(declared) > 1 else self.slots

    @property
    def admitted(self) -> tuple[str | int, ...] | None:
        """The levels that a row may hold; None: any value."""
        if self.known is not None:
            return self.known
        return self.levels if self.others is Others.refuse else None


def _covariate_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "categorical" if "levels" in value else "numeric"
    return "categorical" if isinstance(value, CategoricalCovariate) else "numeric"


Covariate = Annotated[
    Annotated[NumericCovariate, Tag("numeric")] | Annotated[CategoricalCovariate, Tag("categorical")],
    Discriminator(_covariate_kind),
]


def covariate_role(covariate: NumericCovariate | CategoricalCovariate, nulls: Nulls) -> Column:
    """Return the requirements on the column of a covariate, given the rule for its nulls."""
    if isinstance(covariate, CategoricalCovariate):
        return Column(holds=Holds.level, levels=covariate.levels, nulls=nulls, admitted=covariate.admitted)
    if covariate.codes is not None:
        return Column(holds=Holds.binary, codes=covariate.codes.pair, nulls=nulls)
    return Column(holds=Holds.number, nulls=nulls)
