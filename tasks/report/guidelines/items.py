"""Items of reporting guidelines, and which sentences of ours answer them.

TARGET, STROBE, RECORD and RECORD-PE.

STROBE with its extensions is for observational studies of routinely collected health data: von Elm et al., STROBE,
Lancet 2007;370:1453; Benchimol et al., RECORD, PLoS Med 2015;12:e1001885; Langan et al., RECORD-PE, BMJ 2018;363:k3532;
those of cohorts where designs differ. TARGET (2025) is the target trial, and how the data emulate it: Cashin, Hansford,
Hernán et al., Transparent Reporting of Observational Studies Emulating a Target Trial: the TARGET Statement, JAMA
2025;334(12):1084-1093, doi 10.1001/jama.2025.13350. Items in our words, by their numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.release import EffectRelease, Release
from causalveil.schemas.sites.pooled import Published
from causalveil.tasks.report.details import estimand_of
from causalveil.tasks.report.flow import UnitFlow, unit_flow
from causalveil.tasks.report.guidelines.facts import facts_of, rows_text
from causalveil.tasks.report.guidelines.times import asks_for_times, times_facts


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


# The file of a guideline's items, its title, and where it was published.
GUIDELINES = (
    (
        "target.csv",
        "TARGET (2025): an observational study as the emulation of a target trial",
        "Cashin et al., JAMA 2025;334(12):1084–1093",
    ),
    (
        "strobe.csv",
        "STROBE",
        "von Elm et al., Lancet 2007;370:1453–1457; items of cohort studies where designs differ",
    ),
    (
        "record.csv",
        "RECORD and RECORD-PE: what they add for routinely collected data and for drugs",
        "Benchimol et al., PLoS Med 2015;12:e1001885; Langan et al., BMJ 2018;363:k3532",
    ),
)


@lru_cache(maxsize=len(GUIDELINES))
def items_of(file: str) -> tuple[GuidelineItem, ...]:
    """Return the items of a guideline from its file, in order.

    Raises:
        CausalveilError: this installation lacks the file.

    Example:
        >>> items_of("strobe.csv")[3]
        GuidelineItem(number='3', asks='objectives and hypotheses', facts=('question', 'declared'), people='')
    """
    try:
        text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    except OSError:
        raise CausalveilError(f"this installation lacks the guideline {file}; install causalveil anew") from None
    rows = csv.DictReader(text.splitlines())
    return tuple(GuidelineItem(one["number"], one["asks"], tuple(one["facts"].split()), one["people"]) for one in rows)


def checklists(
    release: Mapping[str, Any], arms: Mapping[str, Any], flow: UnitFlow, contract: Contract | None
) -> tuple[Checklist, ...]:
    """Return the checklists TARGET, STROBE and RECORD-PE of an observational study.

    There is none where treatment was randomised.

    Args:
        release: the document of a release of effects.
        arms: how units came into the arms.
        flow: of its units.
        contract: the owner's, where it is at hand.
    """
    if arms["randomised"]:
        return ()
    facts = facts_of(release, arms, flow, contract)
    if asks_for_times(release["specification"]):
        facts |= times_facts(release, facts, dict(estimand_of(release)))
    return tuple(
        Checklist(title, source, tuple(item.filled(facts) for item in items_of(file)))
        for file, title, source in GUIDELINES
    )


def guidelines_context(
    release: Published, document: Mapping[str, Any], arms: Mapping[str, Any], contract: Contract | None
) -> dict[str, Any]:
    """Return ``flow``, ``contract`` and ``checklists`` for the templates.

    A pooled release has no flow of its own, and only effects of one run have checklists.
    """
    if not isinstance(release, Release):
        return {"flow": None, "checklists": None}
    flow = unit_flow(document, rows_text(contract) if contract and contract.rows else "")
    if not isinstance(release, EffectRelease):
        return {"flow": flow, "checklists": None}
    return {"flow": flow, "contract": contract, "checklists": checklists(document, arms, flow, contract)}
