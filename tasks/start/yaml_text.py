"""Values as YAML text that every reader takes alike, in files that are written with comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

# Words that some reader of YAML takes for a truth value, a null or a number.
_TAKEN = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"}


def scalar(value: Any) -> str:
    """A text, a number, a truth value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        plain = (
            re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*( [A-Za-z0-9_][A-Za-z0-9_-]*)*", value)
            and value.lower() not in _TAKEN
        )
        return value if plain else json.dumps(value, ensure_ascii=False)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def flow(value: Any) -> str:
    """A value on one line, lists and mappings in brackets."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(one) for one in value) + "]"
    return scalar(value)


def comment(text: str, width: int = 118) -> list[str]:
    """A comment of as many lines as it needs."""
    lines, line = [], "#"
    for word in text.split():
        if len(line) + 1 + len(word) > width and line != "#":
            lines.append(line)
            line = "#"
        line += f" {word}"
    return [*lines, line]


def entry(key: str, value: Any, notes: Iterable[str] = (), indent: str = "  ") -> list[str]:
    """One line ``key: value  # notes``; notes that do not fit stand above."""
    line, told = f"{indent}{scalar(key)}: {flow(value)}", "; ".join(notes)
    if not told:
        return [line]
    if len(line) + len(told) + 4 <= 120:
        return [f"{line}  # {told}"]
    return [*(f"{indent}{one}" for one in comment(told, 118 - len(indent))), line]
