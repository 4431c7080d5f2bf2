"""The map of the house in CONTRIBUTING.md: a line for each folder of modules, as its ``__init__`` says.

uv run python tests/room_map.py    # writes the map anew
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
FLOORS = ("flows", "tasks", "schemas", "replication/src")
ROW = re.compile(r"^\| `([\w/]+)/` \|.*\n", re.MULTILINE)


def rooms() -> dict[str, str]:
    """What each folder that holds modules says of itself in the first line of its ``__init__``."""
    found = {}
    for floor in FLOORS:
        for file in sorted((ROOT / floor).rglob("__init__.py")):
            line = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]
            found[file.parent.relative_to(ROOT).as_posix()] = line
    return found


def rows() -> str:
    """The table's rows, floor by floor."""
    return "".join(f"| `{room}/` | {line} |\n" for room, line in rooms().items())


def written() -> str:
    """The rows that stand in the page."""
    return "".join(match.group() for match in ROW.finditer(PAGE.read_text()))


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(written(), rows()))
