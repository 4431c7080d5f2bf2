"""Read the terms of a study, in Wilkinson's notation, as facts.

A formula of this grammar is read and never evaluated, so that the text of a hostile file never becomes code. Libraries
for it evaluate unknown names, and import pandas, which would cost every command a second.

    sum        product + product ...           braces and parentheses go round a product or a comparison
    product    factor : factor, factor * factor
    factor     name, name ^ n, name > number, log(name), sqrt(name), ns(name, ...), I(factor)

    age^2  bmi^3  age^4        powers of a number, centred and scaled by its declared range
    log(income)  sqrt(income)  of a number whose declared range allows it
    ns(age, 4)                 a natural spline of so many columns, by quantiles of what is released
    ns(age, knots=[40, 60])    a natural spline with these knots
    age > 65                   a threshold; also >=, < and <=
    sex:age  sex*age           products of two; with a threshold or a function as sex:(age > 65)

``age^2`` is the square here, as ``I(age^2)`` is in R, and may be written so too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from causalveil.schemas.terms import (
    LEAST_SPLINE,
    MOST_POWER,
    MOST_SPLINE,
    DeclaredTerm,
    TermFactor,
    TermFunction,
)

POWERS = ("^", "**")
# A threshold divides as its complement does: x < c as x >= c. The value: whether x = c is above it.
COMPARED = {">": False, "<=": False, ">=": True, "<": True}
PRODUCTS = (":", "*")
FORMS = "write age^2, log(x), sqrt(x), ns(x, 4), x > 65, or a product of two as sex:age"
UNKNOWN = f"this is no formula that is known; {FORMS}"
CLOSES = {"(": ")", "{": "}", "[": "]"}
# The most levels of nested parentheses; a term needs two.
DEEPEST = 16
_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d][\w.]*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<sign>\*\*|>=|<=|[-+*:^<>(){}\[\],=]))"
)


@dataclass(frozen=True)
class PlacedTerm:
    """A term with the number of its text, and the character at which each factor begins."""

    term: DeclaredTerm
    text: int
    characters: tuple[int, ...]

    def at(self, factor: int = 0) -> str:
        """Return the place of a factor, as a problem begins with it."""
        return place_of(self.text, self.characters[factor])


class FormulaError(ValueError):
    """A text that is no term: where, and what to write."""

    def __init__(self, character: int, problem: str) -> None:
        """Raise a problem at a character, counted from 0."""
        super().__init__(problem)
        self.character = character


def place_of(text: int, character: int) -> str:
    """Return the place in a study file of a character of a term.

    >>> place_of(2, 5)
    "'terms.2', character 5"
    """
    return f"'terms.{text}', character {character}"


def terms_of(texts: Sequence[str]) -> tuple[tuple[PlacedTerm, ...], list[str]]:
    """Return the terms of a study with their places, and a problem for each text that is none.

    >>> terms_of(["sex:age", "age^7"])[1]
    ["'terms.2', character 5: a power is a whole number from 2 to 4; write age^2"]
    """
    terms: list[PlacedTerm] = []
    problems: list[str] = []
    for number, text in enumerate(texts, 1):
        try:
            for placed in _Parser.of(text).terms():
                factors = tuple(factor for factor, _ in placed)
                term = DeclaredTerm(text=_term_text(factors), factors=factors)
                terms.append(PlacedTerm(term, number, tuple(at + 1 for _, at in placed)))
        except FormulaError as error:
            problems.append(f"{place_of(number, error.character + 1)}: {error}")
        except ValidationError:
            problems.append(f"{place_of(number, 1)}: no term has such a name or number; {FORMS}")
    return tuple(terms), problems


Placed = tuple[TermFactor, int]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


@dataclass
class _Parser:
    """Reads the tokens of one text from left to right."""

    tokens: list[_Token]
    place: int = field(default=0)
    depth: int = field(default=0)

    @classmethod
    def of(cls, text: str) -> _Parser:
        """Return the parser of a text, with an empty last token."""
        tokens, at, end = list[_Token](), 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise FormulaError(0, UNKNOWN)
            kind = str(match.lastgroup)
            begin = match.start(kind) - (kind == "quoted")
            tokens.append(_Token("name" if kind == "quoted" else kind, match[kind], begin))
            at = match.end()
        if not tokens:
            raise FormulaError(0, f"this is empty; {FORMS}")
        return cls([*tokens, _Token("end", "", end)])

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def take(self, *signs: str) -> _Token | None:
        """Return the next token and advance, if it is one of these signs; else None."""
        token = self.next
        if token.kind != "sign" or token.text not in signs:
            return None
        self.place += 1
        return token

    def expect(self, *signs: str) -> _Token:
        token = self.take(*signs)
        if token is None:
            raise FormulaError(0, UNKNOWN)
        return token

    def terms(self) -> list[list[Placed]]:
        """Return the factors of each term of the text, each with its character from 0."""
        terms = [self.product()]
        while self.take("+"):
            terms.append(self.product())
        if self.next.kind != "end":
            raise FormulaError(0, UNKNOWN)
        for term in terms:
            if len(term) > 2:
                raise FormulaError(term[2][1], "a product of three; write products of two, as a:b and b:c")
        return terms

    def product(self) -> list[Placed]:
        factors = self.factor()
        while self.take(*PRODUCTS):
            factors += self.factor()
        return factors

    def factor(self) -> list[Placed]:
        """Return one factor, or those of a product in parentheses."""
        opened = self.take("(", "{")
        if opened:
            self.depth += 1
            if self.depth > DEEPEST:
                raise FormulaError(0, UNKNOWN)
            inner = self.product()
            if self.next.text == "+":
                raise FormulaError(inner[0][1], f"a name of a covariate belongs here; {FORMS}")
            self.expect(CLOSES[opened.text])
            self.depth -= 1
            return inner
        token = self.next
        self.place += 1
        if token.kind == "name":
            return [(self.call(token) if self.take("(") else self.comparison(token), token.at)]
        if token.kind == "number":
            raise FormulaError(token.at, f"a number by itself is no term; {FORMS}")
        raise FormulaError(0, UNKNOWN)

    def comparison(self, name: _Token) -> TermFactor:
        """Return a column by itself, its power, or its comparison with a number."""
        if self.take(*POWERS):
            at = self.next.at
            sign = self.next.text == "-"
            return _power(name.text, self.number(), at + sign)
        operator = self.take(*COMPARED)
        if operator:
            knots, reached = (self.number(),), COMPARED[operator.text]
            return TermFactor(column=name.text, function=TermFunction.above, knots=knots, reached=reached)
        return TermFactor(column=name.text)

    def call(self, function: _Token) -> TermFactor:
        """Return the factor of a function, after its opening parenthesis."""
        if function.text == "I":
            (inner, at), *more = self.factor()
            if more:
                raise FormulaError(at, f"a product is no part of a function; {FORMS}")
        elif function.text in ("log", "sqrt") and self.next.kind == "name":
            inner = TermFactor(column=self.covariate(), function=TermFunction(function.text))
        elif function.text == "ns" and self.next.kind == "name":
            inner = self.spline(self.covariate(), function.at)
        else:
            raise FormulaError(function.at, f"no such function of a covariate is known; {FORMS}")
        self.expect(")")
        return inner

    def covariate(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1].text

    def spline(self, name: str, at: int) -> TermFactor:
        self.expect(",")
        named = self.next.text if self.next.kind == "name" else "df"
        if self.next.kind == "name":
            self.place += 1
            self.expect("=")
        if named == "knots":
            knots = self.numbers()
            if 0 < len(knots) < MOST_SPLINE:
                return TermFactor(column=name, function=TermFunction.spline, knots=knots)
        elif named == "df":
            degree = self.number()
            if degree in range(LEAST_SPLINE, MOST_SPLINE + 1):
                return TermFactor(column=name, function=TermFunction.spline, degree=int(degree))
        raise FormulaError(
            at,
            f"a spline has {LEAST_SPLINE} to {MOST_SPLINE} columns, or up to {MOST_SPLINE - 1} knots; "
            f"write ns({name}, 4) or ns({name}, knots=[40, 60])",
        )

    def numbers(self) -> tuple[float, ...]:
        opened = self.expect("[", "(")
        numbers = [self.number()]
        while self.take(","):
            numbers.append(self.number())
        self.expect(CLOSES[opened.text])
        return tuple(numbers)

    def number(self) -> float:
        """Return the next number, with its sign."""
        sign = -1.0 if self.take("-") else 1.0
        token = self.next
        if token.kind == "end":
            raise FormulaError(0, UNKNOWN)
        if token.kind != "number" or not math.isfinite(float(token.text)):
            raise FormulaError(token.at, f"a number belongs here; {FORMS}")
        self.place += 1
        return sign * float(token.text)


def _power(name: str, degree: float, at: int) -> TermFactor:
    if degree not in range(2, MOST_POWER + 1):
        raise FormulaError(at, f"a power is a whole number from 2 to {MOST_POWER}; write {name}^2")
    return TermFactor(column=name, function=TermFunction.power, degree=int(degree))


def _term_text(factors: tuple[TermFactor, ...]) -> str:
    """Return a term in its canonical spelling, which names it."""
    return ":".join(_factor_text(factor, product=len(factors) > 1) for factor in factors)


def _factor_text(factor: TermFactor, *, product: bool) -> str:
    name = factor.column if factor.column.isidentifier() else f"`{factor.column}`"
    match factor.function:
        case TermFunction.power:
            return f"{name}^{factor.degree}"
        case TermFunction.log | TermFunction.sqrt:
            return f"{factor.function}({name})"
        case TermFunction.spline:
            knots = ", ".join(f"{knot:g}" for knot in factor.knots)
            return f"ns({name}, knots=[{knots}])" if knots else f"ns({name}, {factor.degree})"
        case TermFunction.above:
            comparison = f"{name} {'>=' if factor.reached else '>'} {factor.knots[0]:g}"
            return f"({comparison})" if product else comparison
        case _:
            return name
