"""One item of a reporting guideline, and which sentences of ours answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class GuidelineItem:
    """An item of a guideline, in our words.

    Attributes:
        number: as the guideline numbers it.
        asks: what is asked for.
        facts: names of the sentences (``facts_of``) that answer it, in order.
        people: what nobody but the authors can write; empty: nothing is left to them.
    """

    number: str
    asks: str
    facts: tuple[str, ...] = ()
    people: str = ""

    def filled(self, facts: Mapping[str, str]) -> FilledItem:
        """Return the item, answered with the sentences that there are.

        If there is none, and ``people`` is empty, the item is left to the authors.
        """
        known = tuple(facts[name] for name in self.facts if facts.get(name))
        people = self.people or ("" if known else "this item; neither study, contract nor release says it")
        return FilledItem(self.number, self.asks, known, people)


@dataclass(frozen=True)
class FilledItem:
    """An item with its answer. ``people``: what the authors have yet to write."""

    number: str
    asks: str
    says: tuple[str, ...]
    people: str

    @property
    def state(self) -> str:
        """One of three words that the template knows."""
        if not self.people:
            return "filled"
        return "in part" if self.says else "people"


@dataclass(frozen=True)
class Checklist:
    """A guideline, filled in."""

    title: str
    source: str
    items: tuple[FilledItem, ...]

    @property
    def filled(self) -> int:
        """Items that are wholly answered."""
        return sum(item.state == "filled" for item in self.items)

    @property
    def partly(self) -> int:
        """Items that are answered as far as a machine knows."""
        return sum(item.state == "in part" for item in self.items)
