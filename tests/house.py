"""The structure of the tree, read off its imports: floors, rooms, circles, and who may do what."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

PRODUCT = ("schemas", "tasks", "flows")
FLOORS = {"schemas": {"schemas"}, "tasks": {"schemas", "tasks"}, "flows": set(PRODUCT), "replication": set(PRODUCT)}
PACKAGE = "causalveil"
# A distribution beside the product, of which the product knows nothing.
BESIDE = "causalveil_replication"
# What makes or replaces a file.
WRITERS = {"write_text", "write_bytes", "O_CREAT", "mkstemp", "NamedTemporaryFile", "touch"}
# What opens a file of rows.
READERS = {"scan_parquet", "read_parquet", "ParquetFile", "read_csv", "scan_csv"}


@dataclass(frozen=True)
class Module:
    """One file: its path below the root, its dotted name and its text."""

    where: str
    name: str
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        """Return its syntax, parsed when it is first asked for."""
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> set[str]:
        """Dotted names of all that is imported anywhere in the module, for type checkers alone left out."""
        return set(_imports(self.tree))

    def finds(self, kind: type[ast.AST]) -> bool:
        """Whether a node of that kind stands anywhere."""
        return any(isinstance(node, kind) for node in ast.walk(self.tree))

    def random(self) -> set[str]:
        """Names by which the module could draw random numbers."""
        roots = {name.split(".")[0] for name in self.imports}
        found = roots & {"random", "opendp", "secrets"}
        for node in ast.walk(self.tree):
            named = isinstance(node, ast.Attribute) and node.attr in {"random", "urandom"}
            if named and ast.unparse(node) in {"np.random", "os.urandom", "numpy.random"}:
                found.add(ast.unparse(node))
        return found

    def reads_rows(self) -> bool:
        """Whether the module opens Parquet or CSV files of rows."""
        return any(isinstance(node, ast.Attribute) and node.attr in READERS for node in ast.walk(self.tree))

    def writes_files(self) -> bool:
        """Whether the module makes files by its own means: by name, or by ``open`` in a mode that writes."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and node.attr in WRITERS:
                return True
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "open":
                modes = [
                    arg.value
                    for arg in [*node.args, *(k.value for k in node.keywords)]
                    if isinstance(arg, ast.Constant)
                ]
                if any(
                    isinstance(mode, str) and set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes
                ):
                    return True
        return False


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


class House:
    """All modules of a tree with folders ``flows``, ``tasks`` and ``schemas``, and the replications beside them."""

    def __init__(self, root: Path, known: Mapping[str, Module] | None = None) -> None:
        """Read every module below ``root``; ``known`` are those of another tree that need not be read again."""
        self.modules: dict[str, Module] = dict(known or {})
        for floor in FLOORS:
            inside = "replication/src" if floor == "replication" else floor
            for path in sorted((root / inside).rglob("*.py")):
                where = path.relative_to(root).as_posix()
                parts = path.relative_to(root).with_suffix("").parts
                parts = parts[2:] if floor == "replication" else (PACKAGE, *parts)
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                self.modules[where] = Module(where, name, path.read_text())
        self._by_name = {module.name: module for module in self.modules.values()}

    def climbing(self) -> list[str]:
        """Imports of a higher floor, and of what stands beside the product."""
        return [
            f"{where} imports {name}"
            for where, module in self.modules.items()
            for name in module.imports
            if (name.startswith(f"{PACKAGE}.") and name.split(".")[1] not in FLOORS[where.split("/")[0]])
            or (name.split(".")[0] == BESIDE and where.split("/")[0] != "replication")
        ]

    def unlisted(self) -> set[str]:
        """Modules that the table of contents in their folder's ``__init__`` does not name."""
        tables = {
            where.rpartition("/")[0]: ast.get_docstring(module.tree) or ""
            for where, module in self.modules.items()
            if where.endswith("/__init__.py")
        }
        return {
            where
            for where in self.modules
            for room, _, name in [where.rpartition("/")]
            if name != "__init__.py" and f"``{name.removesuffix('.py')}``" not in tables.get(room, "")
        }

    def classes(self) -> dict[str, list[str]]:
        """In which modules a class of each public name is defined."""
        found: dict[str, list[str]] = {}
        for where, module in self.modules.items():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(where)
        return found

    def importers(self, name: str, outside: str = "?") -> set[str]:
        """Modules that import ``name`` or something below it, but those of the room ``outside``."""
        return {
            where
            for where, module in self.modules.items()
            if not where.startswith(outside)
            and any(imported == name or imported.startswith(f"{name}.") for imported in module.imports)
        }

    def circles(self) -> list[list[str]]:
        """Groups of modules that import each other, inside functions as well (Tarjan)."""
        arrows = {
            module.name: {self._by_name[name].name for name in module.imports if name in self._by_name} - {module.name}
            for module in self.modules.values()
        }
        index: dict[str, int] = {}
        low: dict[str, int] = {}
        stack: list[str] = []
        found: list[list[str]] = []

        def visit(name: str) -> None:
            index[name] = low[name] = len(index)
            stack.append(name)
            for other in sorted(arrows[name]):
                if other not in index:
                    visit(other)
                    low[name] = min(low[name], low[other])
                elif other in stack:
                    low[name] = min(low[name], index[other])
            if low[name] == index[name]:
                group = []
                while not group or group[-1] != name:
                    group.append(stack.pop())
                if len(group) > 1:
                    found.append(sorted(group))

        for name in sorted(arrows):
            if name not in index:
                visit(name)
        return found
