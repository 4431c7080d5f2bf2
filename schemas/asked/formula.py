"""Read the terms of a study, in Wilkinson's notation, as facts.

formulaic parses the text to a tree, and nothing evaluates it: only the forms below are taken from the tree, each
as a fact, so that the text of a hostile file never becomes code. Importing formulaic imports pandas, which takes a
second, so that it is imported where a study has terms.

    age^2  bmi^3  age^4        powers of a number, centred and scaled by its declared range
    log(income)  sqrt(income)  of a number whose declared range allows it
    ns(age, 4)                 a natural spline of so many columns, by quantiles of what is released
    ns(age, knots=[40, 60])    the same with knots that are stated
    age > 65                   a threshold; also >=, < and <=
    sex:age  sex*age           products of two; with a threshold or a function as sex:(age > 65)

``age^2`` is the square here, as ``I(age^2)`` is in R, and may be written so too.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

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
_PYTHON = {ast.Gt: ">", ast.LtE: "<=", ast.GtE: ">=", ast.Lt: "<"}
_QUOTED = re.compile(r"`([^`]*)`")


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
            for factors in _factors(text):
                term = DeclaredTerm(text=_words([one for one, _ in factors]), factors=tuple(one for one, _ in factors))
                found.append(PlacedTerm(term, number, tuple(at + 1 for _, at in factors)))
        except FormulaError as wrong:
            problems.append(f"{place_of(number, wrong.character + 1)}: {wrong}")
        except ValidationError:
            problems.append(f"{place_of(number, 1)}: no term has such a name or number; {FORMS}")
    return tuple(found), problems


Placed = tuple[TermFactor, int]


def _factors(text: str) -> Iterator[list[Placed]]:
    """Yield the factors of each term of a text, each with its character from 0."""
    from formulaic.errors import FormulaicError
    from formulaic.parser.algos.tokenize import tokenize
    from formulaic.parser.algos.tokens_to_ast import tokens_to_ast

    try:
        tree = tokens_to_ast(tokenize(text), operator_resolver=_resolver())
    except (FormulaicError, SyntaxError, ValueError, RecursionError) as wrong:
        raise FormulaError(0, f"this is no formula that is known; {FORMS}") from wrong
    if tree is None:
        raise FormulaError(0, f"this is empty; {FORMS}")
    yield from _terms(tree)


@lru_cache(maxsize=1)
def _resolver() -> Any:
    """Return the operators of terms, with the precedence that R and Python give them."""
    from formulaic.parser.types import Operator, OperatorResolver, Token

    class OfTerms(OperatorResolver):  # type: ignore[misc]
        """The operators that a term may have, and no others."""

        @property
        def operators(self) -> list[Operator]:
            two: dict[str, Any] = {"arity": 2, "associativity": "left"}
            return [
                Operator("+", precedence=100, **two),
                *(Operator(one, precedence=50, **two) for one in COMPARED),
                *(Operator(one, precedence=300, **two) for one in PRODUCTS),
                *(Operator(one, precedence=500, **two) for one in POWERS),
                Operator("-", precedence=600, arity=1, fixity="prefix"),
            ]

        def resolve(self, token: Any) -> Iterator[tuple[Any, Any]]:
            """Take 'x >-1' for two operators, which the tokens have as one."""
            one = token.token
            if len(one) > 1 and one not in self.operator_table and one.endswith("-"):
                for part in (one[:-1].strip(), "-"):
                    own = Token(part, kind=token.kind, source=token.source, source_start=token.source_start)
                    yield self._resolve(own, part)
                return
            yield self._resolve(token, one)

    return OfTerms()


def _terms(node: Any) -> Iterator[list[Placed]]:
    if _operator(node) == "+":
        for one in node.args:
            yield from _terms(one)
        return
    yield _product(node)


def _product(node: Any) -> list[Placed]:
    if _operator(node) not in PRODUCTS:
        return [_factor(node)]
    found = [placed for one in node.args for placed in _product(one)]
    if len(found) > 2:
        raise FormulaError(found[2][1], "a product of three; write products of two, as a:b and b:c")
    return found


def _factor(node: Any) -> Placed:
    operator, at = _operator(node), _start(node)
    if operator in POWERS:
        return _power(_name(node.args[0]), _value(node.args[1]), _start(node.args[1])), at
    if operator in COMPARED:
        return _threshold(_name(node.args[0]), operator, _value(node.args[1]), at), at
    if operator:
        raise FormulaError(at, f"'{operator}' is no part of a term here; {FORMS}")
    if node.kind is node.Kind.NAME:
        return TermFactor(column=node.token), at
    if node.kind is node.Kind.PYTHON:
        return _of_call(node.token, at), at
    raise FormulaError(at, f"a number by itself is no term; {FORMS}")


def _power(name: str, degree: float, at: int) -> TermFactor:
    if degree not in range(2, MOST_POWER + 1):
        raise FormulaError(at, f"a power is a whole number from 2 to {MOST_POWER}; write {name}^2")
    return TermFactor(column=name, function=TermFunction.power, degree=int(degree))


def _threshold(name: str, operator: str, value: float, at: int) -> TermFactor:
    if not math.isfinite(value):
        raise FormulaError(at, f"a threshold is a number; write {name} > 65")
    return TermFactor(column=name, function=TermFunction.above, knots=(value,), reached=COMPARED[operator])


def _operator(node: Any) -> str:
    """Return the operator of a node; empty for a token."""
    return str(node.operator.symbol) if hasattr(node, "operator") else ""


def _start(node: Any) -> int:
    """Return the character at which a node begins."""
    if hasattr(node, "operator"):
        return min((_start(one) for one in node.args), default=0)
    return int(node.source_start or 0)


def _name(node: Any) -> str:
    if hasattr(node, "operator") or node.kind is not node.Kind.NAME:
        raise FormulaError(_start(node), f"a name of a covariate belongs here; {FORMS}")
    return str(node.token)


def _value(node: Any) -> float:
    if _operator(node) == "-":
        return -_value(node.args[0])
    if hasattr(node, "operator") or node.kind is not node.Kind.VALUE:
        raise FormulaError(_start(node), f"a number belongs here; {FORMS}")
    try:
        return float(node.token)
    except ValueError:
        raise FormulaError(_start(node), f"a number belongs here; {FORMS}") from None


def _of_call(text: str, at: int) -> TermFactor:
    """Return the factor that a call says, read by Python's own parser and never evaluated."""
    names: list[str] = []

    def placeholder(found: re.Match[str]) -> str:
        names.append(found.group(1))
        return f"quoted_{len(names) - 1}_"

    try:
        tree = ast.parse(_QUOTED.sub(placeholder, text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(at, f"'{text}' is no function that is known; {FORMS}") from None
    quoted = {f"quoted_{place}_": name for place, name in enumerate(names)}
    return _of_python(tree, quoted, at)


def _of_python(node: ast.expr, quoted: dict[str, str], at: int) -> TermFactor:
    match node:
        case ast.Call(func=ast.Name(id="I"), args=[inner], keywords=[]):
            return _of_python(inner, quoted, at)
        case ast.Call(func=ast.Name(id="log" | "sqrt" as function), args=[ast.Name(id=name)], keywords=[]):
            return TermFactor(column=quoted.get(name, name), function=TermFunction(function))
        case ast.Call(func=ast.Name(id="ns"), args=[ast.Name(id=name), *rest], keywords=named):
            return _spline(quoted.get(name, name), rest, named, at)
        case ast.BinOp(left=ast.Name(id=name), op=ast.BitXor() | ast.Pow(), right=right):
            return _power(quoted.get(name, name), _number(right, at), at)
        case ast.Compare(left=ast.Name(id=name), ops=[operator], comparators=[value]) if type(operator) in _PYTHON:
            return _threshold(quoted.get(name, name), _PYTHON[type(operator)], _number(value, at), at)
    raise FormulaError(at, f"no such function of a covariate is known; {FORMS}")


def _spline(name: str, rest: list[ast.expr], named: list[ast.keyword], at: int) -> TermFactor:
    match rest, [(one.arg, one.value) for one in named]:
        case ([value], []) | ([], [("df", value)]):
            degree = _number(value, at)
            if degree in range(LEAST_SPLINE, MOST_SPLINE + 1):
                return TermFactor(column=name, function=TermFunction.spline, degree=int(degree))
        case [], [("knots", ast.List(elts=values) | ast.Tuple(elts=values))] if 0 < len(values) < MOST_SPLINE:
            knots = tuple(_number(value, at) for value in values)
            return TermFactor(column=name, function=TermFunction.spline, knots=knots)
    raise FormulaError(
        at,
        f"a spline has {LEAST_SPLINE} to {MOST_SPLINE} columns, or up to {MOST_SPLINE - 1} knots; "
        f"write ns({name}, 4) or ns({name}, knots=[40, 60])",
    )


def _number(node: ast.expr, at: int) -> float:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_number(inner, at)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _finite(value, at)
    raise FormulaError(at, f"a number belongs here; {FORMS}")


def _finite(value: int | float, at: int) -> float:
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise FormulaError(at, f"a number belongs here; {FORMS}")
    return found


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
