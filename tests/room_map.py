"""The map of the house: a line for each folder in CONTRIBUTING.md, one for each module in its folder's ``__init__``.

uv run python tests/room_map.py    # writes both anew, from the first lines of docstrings
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
FLOORS = ("flows", "tasks", "schemas", "replication/src")
ROW = re.compile(r"^\| `([\w/]+)/` \|.*\n", re.MULTILINE)
WIDTH = 120


def rooms() -> dict[str, str]:
    """What each folder that holds modules says of itself in the first line of its ``__init__``."""
    found = {}
    for floor in FLOORS:
        for file in sorted((ROOT / floor).rglob("__init__.py")):
            found[file.parent.relative_to(ROOT).as_posix()] = _first_line(file)
    return found


def rows() -> str:
    """The table's rows, floor by floor."""
    return "".join(f"| `{room}/` | {line} |\n" for room, line in rooms().items())


def written() -> str:
    """The rows that stand in the page."""
    return "".join(match.group() for match in ROW.finditer(PAGE.read_text()))


def contents(room: Path) -> str:
    """The docstring that a folder's ``__init__`` should have: its own first line, and a line for each module."""
    lines = [
        f"- ``{module.stem}``: {_first_line(module)}"
        for module in sorted(room.glob("*.py"))
        if module.stem != "__init__"
    ]
    lines += [f"- ``{inner.parent.name}/``: {_first_line(inner)}" for inner in sorted(room.glob("*/__init__.py"))]
    table = "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines)
    return f"{_first_line(room / '__init__.py')}\n\n{table}\n"


def _first_line(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]


def _write_contents(room: Path) -> None:
    file = room / "__init__.py"
    text = file.read_text()
    docstring = ast.parse(text).body[0]
    assert isinstance(docstring, ast.Expr), file
    rest = "".join(text.splitlines(keepends=True)[docstring.end_lineno :])
    file.write_text(f'"""{contents(room)}"""\n{rest}')


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(written(), rows()))
    for one in rooms():
        _write_contents(ROOT / one)
