"""Base of documents that a notebook, ``print`` and a console show, each in its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_PAINTERS: dict[type, Callable[[Any], str]] = {}
_WRITERS: dict[type, Callable[[Any], str]] = {}
_TABLES: dict[type, Callable[[Any], Any]] = {}


class Shown:
    """Base of what a notebook shows as HTML, ``print`` as a few lines, and a console as one.

    The words and figures live on a higher floor, which hands its painters and writers down here. Before a model's
    class in the list of bases, as models have a text of all their fields.
    """

    def brief(self) -> str:
        """Return the gist in one line."""
        return ""

    def __repr__(self) -> str:
        """Return class and gist: all fields would fill a screen."""
        return f"<{type(self).__name__} {self.brief()}>"

    def __str__(self) -> str:
        """Return the lines of the panel where the class has a writer, else the gist."""
        writer = next((_WRITERS[kind] for kind in type(self).__mro__ if kind in _WRITERS), None)
        return self.brief() if writer is None else writer(self)

    def _repr_html_(self) -> str | None:
        """Return a fragment of HTML, as IPython and Jupyter ask for it; None: they show the text."""
        painter = next((_PAINTERS[kind] for kind in type(self).__mro__ if kind in _PAINTERS), None)
        return None if painter is None else painter(self)


def painted_by(kind: type[Shown], painter: Callable[[Any], str]) -> None:
    """Have documents of ``kind`` and of its subclasses shown by ``painter``."""
    _PAINTERS[kind] = painter


def written_by(kind: type[Shown], writer: Callable[[Any], str]) -> None:
    """Have ``str`` of documents of ``kind`` and of its subclasses be the text of ``writer``."""
    _WRITERS[kind] = writer


def tabled_by(kind: type, table: Callable[[Any], Any]) -> None:
    """Have :func:`table_of` documents of ``kind`` be the frame that ``table`` makes of them."""
    _TABLES[kind] = table


def table_of(document: object) -> Any:
    """Return the data frame of a document's rows."""
    return next(_TABLES[kind] for kind in type(document).__mro__ if kind in _TABLES)(document)
