"""Options of the command line and arguments in Python, as messages name them.

A message says ``option(ranges={"age": (0, 110)})``. On the command line that is ``--range 'age=0:110'``, in Python
``ranges={'age': (0, 110)}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_AT_COMMAND_LINE = ContextVar("at_command_line", default=False)

# Options whose names differ from the argument's in Python.
_FLAGS = {
    **{"without": "not", "ranges": "range", "measures": "measure", "recorded": "recorded-is-public"},
    "owner_key": "key",
}
# Options that no function of `import causalveil` has as an argument, by the command that has them.
COMMAND_ALONE = {
    **dict.fromkeys(("arms", "reference", "subgroups", "measures", "most", "means", "each_alone", "last_by"), "init"),
    **dict.fromkeys(("key", "recorded", "never_missing", "written", "encoding", "delimiter", "table"), "init"),
    **{"sweep": "plan", "site": "run", "round": "run", "columns": "ranges", "owner_key": "ledger grant"},
    **{"format": "ledger export", "every": "ledger forecast", "until": "ledger forecast"},
}


class Blank(str):
    """A word that stands for a value in a hint, such as LOW; it has no quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the word itself."""
        return str(self)


LOW, HIGH = Blank("LOW"), Blank("HIGH")


@contextmanager
def at_command_line() -> Iterator[None]:
    """Have messages name options of the command line; without it they name arguments in Python."""
    token = _AT_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _AT_COMMAND_LINE.reset(token)


def option(*names: str, **values: object) -> str:
    """Return options as the caller writes them: on the command line, or as arguments in Python.

    Args:
        names: arguments without a value.
        values: arguments with values: True for a flag, a list for an option that is repeated, and by column a tuple
            of the two ends of a range, or a list of words.

    Examples:
        >>> option("without"), option(where=["age >= 25"]), option(trial=True)
        ('without', "where=['age >= 25']", 'trial=True')
        >>> with at_command_line():
        ...     option("without"), option(where=["age >= 25"]), option(trial=True)
        ('--not', "--where 'age >= 25'", '--trial')
        >>> option(ranges={"age": (LOW, HIGH)}, levels={"region": ["north", "south"]})
        "ranges={'age': (LOW, HIGH)}, levels={'region': ['north', 'south']}"
        >>> with at_command_line():
        ...     option(ranges={"age": (LOW, HIGH)}, levels={"region": ["north", "south"]})
        "--range 'age=LOW:HIGH' --levels 'region=north,south'"
    """
    of_command = [_flag(name) for name in names]
    of_command += [f"{_flag(name)}{word}" for name, value in values.items() for word in _words(value)]
    if _AT_COMMAND_LINE.get():
        return " ".join(of_command)
    for name in (*names, *values):
        if name in COMMAND_ALONE:
            return f"`causalveil {COMMAND_ALONE[name]} {' '.join(of_command)}`"
    # An argument that names no column says that each row is a unit.
    arguments = ["unit=None" if name == "each_row" else name for name in names]
    return ", ".join((*arguments, *(f"{name}={value!r}" for name, value in values.items())))


def _flag(name: str) -> str:
    return f"--{_FLAGS.get(name, name).replace('_', '-')}"


def _words(value: object) -> list[str]:
    """Return what stands behind an option's name, once for each time that it is given."""
    if value is True:
        return [""]
    if isinstance(value, Mapping):
        return [f" {_quoted(f'{column}={_listed(held)}')}" for column, held in value.items()]
    if isinstance(value, list):
        return [f" {_quoted(word)}" for word in value]
    return [f" {_quoted(value) if isinstance(value, str) and not isinstance(value, Blank) else value}"]


def _listed(held: object) -> str:
    if isinstance(held, tuple):
        return ":".join(f"{end:g}" if isinstance(end, float) else str(end) for end in held)
    return ",".join(map(str, held)) if isinstance(held, list) else str(held)


def _quoted(word: str) -> str:
    """Return a word as a shell takes it."""
    return "'" + word.replace("'", "'\"'\"'") + "'"
