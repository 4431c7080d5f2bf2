"""Read the terms of a study, in Wilkinson's notation, as facts.

A formula of this grammar is read and never evaluated, so that the text of a hostile file never becomes code. The
libraries for it evaluate what they do not know, and import pandas, which would cost every command a second.

    sum        product + product ...           braces and parentheses go round a product or a comparison
    product    factor : factor, factor * factor
    factor     name, name ^ n, name > number, log(name), sqrt(name), ns(name, ...), I(factor)

    age^2  bmi^3  age^4        powers of a number, centred and scaled by its declared range
    log(income)  sqrt(income)  of a number whose declared range allows it
    ns(age, 4)                 a natural spline of so many columns, by quantiles of what is released
    ns(age, knots=[40, 60])    the same with knots that are stated
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
# A threshold divides as its complement does: x < c as x >= c. Which of the two counts values that equal it.
COMPARED = {">": False, "<=": False, ">=": True, "<": True}
PRODUCTS = (":", "*")
FORMS = "write age^2, log(x), sqrt(x), ns(x, 4), x > 65, or a product of two as sex:age"
UNKNOWN = f"this is no formula that is known; {FORMS}"
CLOSES = {"(": ")", "{": "}", "[": "]"}
# How deeply parentheses may lie in one another; a term needs two.
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

    def __init__(self, character: int, said: str) -> None:
        """Say what is wrong at a character, counted from 0."""
        super().__init__(said)
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
    found: list[PlacedTerm] = []
    problems: list[str] = []
    for number, text in enumerate(texts, 1):
        try:
            for factors in _Parser.of(text).terms():
                term = DeclaredTerm(text=_words([one for one, _ in factors]), factors=tuple(one for one, _ in factors))
                found.append(PlacedTerm(term, number, tuple(at + 1 for _, at in factors)))
        except FormulaError as wrong:
            problems.append(f"{place_of(number, wrong.character + 1)}: {wrong}")
        except ValidationError:
            problems.append(f"{place_of(number, 1)}: no term has such a name or number; {FORMS}")
    return tuple(found), problems


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
        """Return the parser of a text, whose last token is empty."""
        found, at, end = list[_Token](), 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise FormulaError(0, UNKNOWN)
            kind = str(match.lastgroup)
            begin = match.start(kind) - (kind == "quoted")
            found.append(_Token("name" if kind == "quoted" else kind, match[kind], begin))
            at = match.end()
        if not found:
            raise FormulaError(0, f"this is empty; {FORMS}")
        return cls([*found, _Token("end", "", end)])

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def take(self, *signs: str) -> _Token | None:
        """Return the next token, and go on, if it is one of these signs."""
        one = self.next
        if one.kind != "sign" or one.text not in signs:
            return None
        self.place += 1
        return one

    def expect(self, *signs: str) -> _Token:
        one = self.take(*signs)
        if one is None:
            raise FormulaError(0, UNKNOWN)
        return one

    def terms(self) -> list[list[Placed]]:
        """Return the factors of each term of the text, each with its character from 0."""
        found = [self.product()]
        while self.take("+"):
            found.append(self.product())
        if self.next.kind != "end":
            raise FormulaError(0, UNKNOWN)
        for term in found:
            if len(term) > 2:
                raise FormulaError(term[2][1], "a product of three; write products of two, as a:b and b:c")
        return found

    def product(self) -> list[Placed]:
        found = self.factor()
        while self.take(*PRODUCTS):
            found += self.factor()
        return found

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
        one = self.next
        self.place += 1
        if one.kind == "name":
            return [(self.of_call(one) if self.take("(") else self.of_name(one), one.at)]
        if one.kind == "number":
            raise FormulaError(one.at, f"a number by itself is no term; {FORMS}")
        raise FormulaError(0, UNKNOWN)

    def of_name(self, name: _Token) -> TermFactor:
        if self.take(*POWERS):
            at = self.next.at
            sign = self.next.text == "-"
            return _power(name.text, self.number(), at + sign)
        compared = self.take(*COMPARED)
        if compared:
            return _threshold(name.text, compared.text, self.number())
        return TermFactor(column=name.text)

    def of_call(self, function: _Token) -> TermFactor:
        """Return the factor of a function, whose parenthesis was taken."""
        if function.text == "I":
            ((inner, _),) = self.one_factor()
        elif function.text in ("log", "sqrt") and self.next.kind == "name":
            inner = TermFactor(column=self.covariate(), function=TermFunction(function.text))
        elif function.text == "ns" and self.next.kind == "name":
            inner = self.spline(self.covariate(), function.at)
        else:
            raise FormulaError(function.at, f"no such function of a covariate is known; {FORMS}")
        self.expect(")")
        return inner

    def one_factor(self) -> list[Placed]:
        found = self.factor()
        if len(found) != 1:
            raise FormulaError(found[0][1], f"a product is no part of a function; {FORMS}")
        return found

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
        found = [self.number()]
        while self.take(","):
            found.append(self.number())
        self.expect(CLOSES[opened.text])
        return tuple(found)

    def number(self) -> float:
        """Return the number that comes next, with its sign."""
        sign = -1.0 if self.take("-") else 1.0
        one = self.next
        if one.kind == "end":
            raise FormulaError(0, UNKNOWN)
        if one.kind != "number" or not math.isfinite(float(one.text)):
            raise FormulaError(one.at, f"a number belongs here; {FORMS}")
        self.place += 1
        return sign * float(one.text)


def _power(name: str, degree: float, at: int) -> TermFactor:
    if degree not in range(2, MOST_POWER + 1):
        raise FormulaError(at, f"a power is a whole number from 2 to {MOST_POWER}; write {name}^2")
    return TermFactor(column=name, function=TermFunction.power, degree=int(degree))


def _threshold(name: str, operator: str, value: float) -> TermFactor:
    return TermFactor(column=name, function=TermFunction.above, knots=(value,), reached=COMPARED[operator])


def _words(factors: list[TermFactor]) -> str:
    """Return a term in one spelling, which names it."""
    return ":".join(_factor_words(one, product=len(factors) > 1) for one in factors)


def _factor_words(one: TermFactor, *, product: bool) -> str:
    name = one.column if one.column.isidentifier() else f"`{one.column}`"
    match one.function:
        case TermFunction.power:
            return f"{name}^{one.degree}"
        case TermFunction.log | TermFunction.sqrt:
            return f"{one.function}({name})"
        case TermFunction.spline:
            how = f"knots=[{', '.join(f'{knot:g}' for knot in one.knots)}]" if one.knots else str(one.degree)
            return f"ns({name}, {how})"
        case TermFunction.above:
            said = f"{name} {'>=' if one.reached else '>'} {one.knots[0]:g}"
            return f"({said})" if product else said
        case _:
            return name
