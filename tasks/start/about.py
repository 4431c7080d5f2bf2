"""Whom a study is about, and in which groups it asks, in the words of options, such as "age >= 25"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import StudyError
from causalveil.schemas.where import Operator
from causalveil.tasks.start.recognise import Found, Looks, as_read

MEASURES = ("difference", "ratio", "odds_ratio")
_COMPARED = re.compile(r"\s*(==|!=|<=|>=|<|>|=)\s*(.+)|\s+(not in|in)\s+(.+)")


def condition(found: Mapping[str, Found], text: str, taken: Collection[str], data_class: DataClass) -> dict[str, Any]:
    """Return a comparison as a study file has it.

    Args:
        found: the columns by name.
        text: such as "age >= 25".
        taken: columns of which no condition may be.
        data_class: of sensitive data values are not compared with those that there are.

    Raises:
        StudyError: it is no comparison of a column with values that it may hold.
    """
    tidy = " ".join(text.split())
    fitting = {name: read for name in found if (read := _after_name(tidy, name)) is not None}
    if not fitting:
        raise StudyError(
            "--where: begin with a column, then one of == != < <= > >= in, and a value, as in --where 'age >= 25' or "
            "--where 'region in north, south'"
        )
    name = max(fitting, key=len)
    one, (sign, values) = found[name], fitting[name]
    op = Operator("==" if sign == "=" else sign)
    if name in taken:
        raise StudyError(f"--where: '{name}' has another part already; eligibility is known before treatment")
    if one.looks not in (Looks.binary, Looks.category, Looks.number):
        raise StudyError(f"--where: column '{name}' holds {one.looks}; compare numbers or a few values")
    words = [part.strip().strip("'\"") for part in (values.split(",") if op.several else [values])]
    numbers = one.looks is Looks.number
    held: list[Any] = [_number(one, word) for word in words] if numbers else _levels(one, words, data_class)
    if op.orders and not numbers:
        raise StudyError(f"--where: the values of '{name}' have no order; use == or in")
    return {"column": name, "op": str(op), **({"values": held} if op.several else {"value": held[0]})}


def _after_name(text: str, name: str) -> tuple[str, str] | None:
    if not text.casefold().startswith(name.casefold()):
        return None
    read = _COMPARED.fullmatch(text[len(name) :])
    return None if read is None else (read[1] or read[3], read[2] or read[4])


def _number(one: Found, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise StudyError(f"--where: '{one.name}' holds numbers, and '{word}' is none") from None
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _levels(one: Found, words: list[str], data_class: DataClass) -> list[Any]:
    """Values as the draft reads them.

    Of sensitive data unknown values stay, as the contract names its levels.
    """
    codes = {str(value).casefold(): value for value in one.values}
    read = []
    for word in words:
        spelt = as_read(one, (word,))[0] if one.values and isinstance(one.values[0], str) else word
        known = codes.get(str(spelt).casefold())
        if known is None and (data_class is not DataClass.sensitive or not isinstance(one.values[0], str)):
            shown = ", ".join(f"'{value}'" for value in one.values)
            told = f"; there are {shown}" if data_class is not DataClass.sensitive else ""
            raise StudyError(f"--where: column '{one.name}' holds no '{word}'{told}")
        read.append(spelt if known is None else int(known) if isinstance(known, bool) else known)
    return read


def groups(one: Found, taken: Collection[str]) -> Found:
    """Return the column whose levels are subgroups.

    Raises:
        StudyError: it has another part, or no few levels.
    """
    if one.name in taken:
        raise StudyError(f"--subgroups: '{one.name}' has another part already; name a column of a few levels")
    if one.looks not in (Looks.binary, Looks.category):
        raise StudyError(f"--subgroups: column '{one.name}' holds {one.looks}; name one of a few levels")
    return one


def measures(words: Iterable[str], *, trial: bool, two_values: bool) -> tuple[str, ...]:
    """Return the measures of an effect, the difference first.

    Raises:
        StudyError: one is none, or what the study asks has no ratios.
    """
    asked = {word.strip().casefold().replace(" ", "_").replace("-", "_") for word in words if word.strip()}
    asked = {{"risk_ratio": "ratio", "rr": "ratio", "or": "odds_ratio"}.get(one, one) for one in asked}
    if unknown := sorted(asked - set(MEASURES)):
        raise StudyError(f"--measure: '{unknown[0]}' is none; there are difference, ratio and odds_ratio")
    if asked - {"difference"} and not trial:
        raise StudyError("--measure: ratios are of arms drawn by lot; say --trial, or leave --measure out")
    if asked - {"difference"} and not two_values:
        raise StudyError("--measure: ratios are of an outcome of two values; leave --measure out")
    return tuple(one for one in MEASURES if one in asked | {"difference"}) if asked - {"difference"} else ()
