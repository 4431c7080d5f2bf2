"""Terms that a study declares beside its covariates.

Each is a function of one row with public bounds. A study writes them as a formula
(``schemas/asked/formula.py``); here they are facts that no code evaluates as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import CategoricalCovariate, Covariate, Finite, Name, NumberScale, NumericCovariate
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Frozen

LONGEST_TERM, MOST_TERMS = 200, 50
# Powers beyond the fourth follow noise. Knots of a spline that states none are at Harrell's quantiles, which he gives
# for three to seven knots (Regression Modeling Strategies, 2015, table 2.3): ends and df - 1 between them.
MOST_POWER, LEAST_SPLINE, MOST_SPLINE = 4, 2, 6
# Which estimators take terms.
TAKES_TERMS = "use {name: regression}, or of times {name: survival}, at level 'sample', or remove them"
# Columns that all terms make together, at most.
MOST_TERM_COLUMNS = 100


class TermFunction(StrEnum):
    """The function of a covariate that a term takes."""

    line = "line"
    power = "power"
    log = "log"
    sqrt = "sqrt"
    spline = "spline"
    above = "above"


class TermFactor(Frozen):
    """A function of one covariate.

    Attributes:
        column: the covariate.
        function: of it.
        degree: of a power, 2 to 4; of a spline by quantiles, how many columns R's ``ns`` has, the line among them.
        knots: of a spline, between the ends of the declared range; of a threshold its one place.
        reached: whether a threshold counts the values that equal it.
    """

    column: Name
    function: TermFunction = TermFunction.line
    degree: Annotated[int, Field(ge=2, le=MOST_SPLINE)] | None = None
    knots: Annotated[tuple[Finite, ...], Field(max_length=MOST_SPLINE)] = ()
    reached: bool = False

    @model_validator(mode="after")
    def _says_what_it_needs(self) -> Self:
        asked = {
            TermFunction.power: (self.degree or MOST_SPLINE) <= MOST_POWER and not self.knots,
            TermFunction.spline: (self.degree is None) is bool(self.knots),
            TermFunction.above: self.degree is None and len(self.knots) == 1,
        }
        if not asked.get(self.function, self.degree is None and not self.knots):
            raise ValueError(f"this is no {self.function} of '{self.column}'; write it as a formula in 'terms'")
        return self

    @property
    def columns(self) -> int:
        """Number of columns beside the covariate's line."""
        if self.function is not TermFunction.spline:
            return 1
        return len(self.knots) if self.knots else (self.degree or LEAST_SPLINE) - 1


class DeclaredTerm(Frozen):
    """A term: a function of one covariate, or the product of functions of two.

    ``text``: as the study wrote it, which names it in every table.
    """

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TERM)]
    factors: Annotated[tuple[TermFactor, ...], Field(min_length=1, max_length=2)]


def wrong_term(term: DeclaredTerm, covariates: Mapping[str, Covariate]) -> tuple[int, str] | None:
    """Return which factor of a term cannot be adjusted for, and what to write instead.

    None if all can be.

    Args:
        term: the term.
        covariates: of the study, with their declared ranges.
    """
    for index, factor in enumerate(term.factors):
        problem = _wrong_factor(factor, covariates, alone=len(term.factors) == 1)
        if problem is not None:
            return index, problem
    first, second = term.factors[0], term.factors[-1]
    if len(term.factors) > 1 and first.column == second.column:
        return 1, f"a product of '{first.column}' with itself; write its square as {first.column}^2"
    return None


def refuse_terms(terms: tuple[DeclaredTerm, ...], covariates: Mapping[str, Covariate]) -> None:
    """Refuse terms that cannot be adjusted for.

    Raises:
        ValueError: names the term, and says what to write.
    """
    for term in terms:
        problem = wrong_term(term, covariates)
        if problem is not None:
            raise RuleBroken(f"'terms': '{term.text}': {problem[1]}", "terms")
    if len({term.factors for term in terms}) < len(terms):
        raise RuleBroken("'terms': a term stands twice; write it once", "terms")
    columns = sum(term_columns(term, covariates) for term in terms)
    if columns > MOST_TERM_COLUMNS:
        raise RuleBroken(
            f"'terms' make {columns} columns, more than {MOST_TERM_COLUMNS}; name fewer, or columns of fewer levels",
            "terms",
        )


def term_columns(term: DeclaredTerm, covariates: Mapping[str, Covariate]) -> int:
    """Return the number of columns of a term; a category has one for each level but the first."""
    columns = 1
    for factor in term.factors:
        covariate = covariates[factor.column]
        columns *= len(covariate.slots) - 1 if isinstance(covariate, CategoricalCovariate) else factor.columns
    return columns


def _wrong_factor(factor: TermFactor, covariates: Mapping[str, Covariate], *, alone: bool) -> str | None:
    name, covariate = factor.column, covariates.get(factor.column)
    if covariate is None:
        return f"'{name}' is no covariate; add it to 'covariates', or remove the term"
    if factor.function is TermFunction.line:
        return f"'{name}' is adjusted for as a line already; remove it from 'terms'" if alone else None
    if not isinstance(covariate, NumericCovariate) or covariate.codes is not None:
        return f"'{name}' has levels or codes and no other function; write it in a product, as {name}:age"
    if factor.function is TermFunction.spline and not alone:
        return f"a spline of '{name}' stands by itself; write a product with {name}, its powers or a threshold"
    return _beyond_range(factor, covariate)


def _beyond_range(factor: TermFactor, covariate: NumericCovariate) -> str | None:
    """Return why a function has no value, or no meaning, within the declared range."""
    name, ends = factor.column, f"{covariate.lower:g} to {covariate.upper:g}"
    if factor.function in (TermFunction.log, TermFunction.sqrt):
        if covariate.scale is not None and covariate.scale == NumberScale(factor.function.value):
            return f"'{name}' has scale '{covariate.scale}', so that its line is this already; remove the term"
        defined = covariate.lower > 0 if factor.function is TermFunction.log else covariate.lower >= 0
        if not defined:
            return (
                f"the declared range of '{name}' is {ends}, where {factor.function}({name}) has no value at every "
                "number; narrow it in the study to begin above 0, as covariates: {" + name + ": {lower: 1}}"
            )
    outside = [f"{knot:g}" for knot in factor.knots if not covariate.lower < knot < covariate.upper]
    if outside:
        kind = "the threshold" if factor.function is TermFunction.above else "knot"
        return f"{kind} {outside[0]} is not within the declared range of '{name}', {ends}; write one between its ends"
    if any(a >= b for a, b in zip(factor.knots, factor.knots[1:], strict=False)):
        return f"knots of '{name}' must ascend; write them in order, each once"
    return None
