"""Items of reporting guidelines, and which sentences of ours answer them.

TARGET, STROBE, RECORD and RECORD-PE.

STROBE with its extensions is for observational studies of routinely collected health data: von Elm et al., STROBE,
Lancet 2007;370:1453; Benchimol et al., RECORD, PLoS Med 2015;12:e1001885; Langan et al., RECORD-PE, BMJ 2018;363:k3532;
those of cohorts where designs differ. TARGET (2025) is the target trial, and how the data emulate it: Cashin, Hansford,
Hernán et al., Transparent Reporting of Observational Studies Emulating a Target Trial: the TARGET Statement, JAMA
2025;334(12):1084-1093, doi 10.1001/jama.2025.13350. Items in our words, by their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from causalveil.schemas.contract import Contract
from causalveil.schemas.release import AnsweredEffect, ProtocolRelease, Release
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


STROBE_TITLE = "STROBE"
STROBE_SOURCE = "von Elm et al., Lancet 2007;370:1453–1457; items of cohort studies where designs differ"
EXTENSION_TITLE = "RECORD and RECORD-PE: what they add for routinely collected data and for drugs"
EXTENSION_SOURCE = "Benchimol et al., PLoS Med 2015;12:e1001885; Langan et al., BMJ 2018;363:k3532"

STROBE_ITEMS = (
    GuidelineItem("1a", "the design in title or abstract", ("design",), "title"),
    GuidelineItem(
        "1b", "what was done and found, in the abstract", ("question", "analysis", "found"), "the abstract itself"
    ),
    GuidelineItem("2", "background", (), "background"),
    GuidelineItem("3", "objectives and hypotheses", ("question", "declared")),
    GuidelineItem("4", "design", ("design",)),
    GuidelineItem("5", "setting, places, dates", ("data",), "places, and dates of exposure, follow-up and collection"),
    GuidelineItem(
        "6a", "participants: eligibility, selection, follow-up", ("eligibility", "rows"), "criteria and sources"
    ),
    GuidelineItem("6b", "matching criteria", ("matching",)),
    GuidelineItem("7", "variables", ("strategies", "outcomes", "covariates", "subgroups"), "diagnostic criteria"),
    GuidelineItem("8", "measurement", ("descriptions",), "how each variable was measured, in both groups alike or not"),
    GuidelineItem("9", "bias", ("assumptions", "bias"), "other sources of bias"),
    GuidelineItem("10", "study size", ("size",)),
    GuidelineItem("11", "quantitative variables", ("clipped", "bounds")),
    GuidelineItem("12a", "statistical methods", ("analysis", "privacy")),
    GuidelineItem("12b", "subgroups and interactions", ("subgroup_methods",)),
    GuidelineItem("12c", "missing data", ("missing",)),
    GuidelineItem(
        "12d", "losses to follow-up", ("follow_up",), "how losses were addressed before the data were admitted"
    ),
    GuidelineItem("12e", "sensitivity analyses", ("sensitivity",)),
    GuidelineItem("13a", "numbers at each stage", ("flow",), "numbers before admission"),
    GuidelineItem("13b", "reasons for leaving", ("eligibility",), "reasons before admission"),
    GuidelineItem("13c", "flow diagram", ("diagram",)),
    GuidelineItem(
        "14a", "characteristics of participants", ("balance",), "a description of the population from public sources"
    ),
    GuidelineItem("14b", "missing data, by variable", ("missing",)),
    GuidelineItem("14c", "follow-up time", ("at_risk",), "follow-up; an exact sum would be private"),
    GuidelineItem("15", "outcome data", ("means",)),
    GuidelineItem("16a", "estimates, unadjusted and adjusted, with precision", ("found", "precision", "adjusted_for")),
    GuidelineItem("16b", "category boundaries", ("bounds",)),
    GuidelineItem("16c", "relative and absolute risk", ("contrast",)),
    GuidelineItem("17", "other analyses", ("additional",)),
    GuidelineItem("18", "key results", ("found",), "the objectives beside them"),
    GuidelineItem("19", "limitations", ("limits",), "direction and size of other biases"),
    GuidelineItem("20", "interpretation", ("reading",), "interpretation"),
    GuidelineItem("21", "generalisability", ("population",), "for whom else it may hold"),
    GuidelineItem("22", "funding", (), "funding"),
)

EXTENSION = (
    GuidelineItem(
        "1.1", "the kind of data, and the database's name, in title or abstract", ("data",), "the source's full name"
    ),
    GuidelineItem("1.2", "region and time, in title or abstract", (), "region and time"),
    GuidelineItem("1.3", "linkage, in title or abstract", (), "whether databases were linked"),
    GuidelineItem("4.a", "the design's features; several designs", ("design",), "features such as new users"),
    GuidelineItem("4.b", "a diagram of exposure, washout, lag, observation", (), "the diagram of time"),
    GuidelineItem("6.1", "codes and algorithms that select people", ("eligibility",), "codes and algorithms"),
    GuidelineItem(
        "6.1.a", "criteria of entry and their order; entry once or often", ("rows",), "criteria and their order"
    ),
    GuidelineItem("6.2", "validation of these codes", (), "validation studies"),
    GuidelineItem("6.3", "linkage, as a flow", (), "numbers linked, if any were"),
    GuidelineItem(
        "7.1", "codes of exposures, outcomes, confounders", ("codes",), "codes in the source behind these columns"
    ),
    GuidelineItem(
        "7.1.a", "how the definition of exposure was made", ("strategies",), "how the definition was arrived at"
    ),
    GuidelineItem(
        "7.1.b", "where exposure was recorded", ("descriptions",), "prescribed, dispensed or taken, and where"
    ),
    GuidelineItem("7.1.c", "when a person counts as exposed", (), "time windows"),
    GuidelineItem("7.1.d", "current, former, ever, cumulative exposure", (), "to which exposure events are attributed"),
    GuidelineItem("7.1.e", "dose", (), "how dose and time on therapy were taken"),
    GuidelineItem("7.1.f", "comparators", ("strategies",), "why this comparator"),
    GuidelineItem(
        "7.1.g", "people with more than one exposure", ("one_arm",), "how the column was made where both were taken"
    ),
    GuidelineItem(
        "8.a", "the health system, and how its drug records come about", (), "health system and setting of care"
    ),
    GuidelineItem("12.1", "access to the database", ("access",), "who prepared the data"),
    GuidelineItem("12.2", "cleaning", ("admitted",), "cleaning before admission"),
    GuidelineItem("12.3", "linkage methods and quality", (), "linkage, if there was any"),
    GuidelineItem("12.1.a", "how assumptions were checked", ("checked",)),
    GuidelineItem("12.1.b", "several designs or approaches", ("additional",)),
    GuidelineItem("13.1", "selection by quality, availability, linkage", ("flow",), "filters before admission"),
    GuidelineItem(
        "19.1", "data that were not made for this question", ("limits",), "misclassification, changing eligibility"
    ),
    GuidelineItem("19.1.a", "how well the database holds the exposure", (), "how complete exposures are"),
    GuidelineItem("20.a", "confounding by indication, healthy adherers", ("bias",), "whether it explains the finding"),
    GuidelineItem("22.1", "protocol, raw data, code", ("sharing", "declared")),
)


TARGET_TITLE = "TARGET (2025): an observational study as the emulation of a target trial"
TARGET_SOURCE = "Cashin et al., JAMA 2025;334(12):1084–1093"

TARGET_ITEMS = (
    GuidelineItem(
        "1a", "emulation named; objectives; the target trial in short", ("design", "question"), "title and abstract"
    ),
    GuidelineItem("1b", "data sources, in the abstract", ("data",), "name and origin of the source"),
    GuidelineItem(
        "1c", "assumptions, methods, findings, conclusions, in the abstract", ("analysis", "found"), "the conclusion"
    ),
    GuidelineItem("2", "background and what is not known yet", (), "background"),
    GuidelineItem(
        "3",
        "the causal question: population, strategies, follow-up, outcomes",
        ("question",),
        "end of follow-up",
    ),
    GuidelineItem("4", "why to emulate a trial with these data", (), "rationale"),
    GuidelineItem(
        "5",
        "data sources: purpose, kind, places, dates, linkage",
        ("data", "rows", "descriptions"),
        "why, where and when the data were collected, and how they were linked",
    ),
    GuidelineItem("6a", "target trial: who would be eligible", ("unit",), "criteria of eligibility"),
    GuidelineItem(
        "6b", "target trial: the strategies", ("strategies",), "the strategies in enough detail to carry them out"
    ),
    GuidelineItem("6c", "target trial: assignment", ("random",)),
    GuidelineItem("6d", "target trial: start and end of follow-up", ("start",), "time zero and the end of follow-up"),
    GuidelineItem("6e", "target trial: outcomes", ("outcomes",), "how and when the outcome would be measured"),
    GuidelineItem(
        "6f", "target trial: causal contrasts and effect measures", ("contrast",), "intention to treat, or not"
    ),
    GuidelineItem(
        "6g",
        "target trial: identifying assumptions",
        ("random_assumptions", "losses"),
        "assumptions on losses to follow-up",
    ),
    GuidelineItem("6h", "target trial: analysis", ("contrast", "bounds", "missing")),
    GuidelineItem(
        "7a",
        "emulation: how eligibility was found in the data",
        ("eligibility", "rows"),
        "rules by which people came into the dataset, with nothing later than time zero among them",
    ),
    GuidelineItem(
        "7b",
        "emulation: how strategies were defined in the data",
        ("strategies",),
        "codes and time windows",
    ),
    GuidelineItem("7c", "emulation: how people were classified to a strategy", ("assignment",)),
    GuidelineItem(
        "7d", "emulation: follow-up", ("follow_up",), "that follow-up starts at time zero, and how its end was found"
    ),
    GuidelineItem("7e", "emulation: outcomes", ("outcomes", "clipped"), "how the outcome was ascertained"),
    GuidelineItem("7f", "emulation: causal contrasts", ("contrast",)),
    GuidelineItem(
        "7g.i",
        "emulation: assumptions, baseline confounding among them",
        ("assumptions",),
        "why these assumptions are plausible here",
    ),
    GuidelineItem(
        "7g.ii", "emulation: the variables behind the assumptions", ("covariates",), "that all precede treatment"
    ),
    GuidelineItem("7h.i", "emulation: what the analysis has that the trial's would not", ("analysis", "privacy")),
    GuidelineItem(
        "7h.ii", "emulation: sensitivity analyses", ("sensitivity",), "further analyses, each at its own cost"
    ),
    GuidelineItem(
        "8", "participants: assessed, eligible, in each strategy; a flow", ("flow",), "numbers before admission"
    ),
    GuidelineItem("9", "baseline, by strategy", ("balance",)),
    GuidelineItem(
        "10",
        "length and end of follow-up, by strategy",
        ("at_risk",),
        "length of follow-up; exact numbers would be private",
    ),
    GuidelineItem("11", "missing data, by strategy", ("missing",)),
    GuidelineItem("12", "outcomes, by strategy", ("means",)),
    GuidelineItem("13", "estimates and their precision, absolute and relative", ("found", "precision")),
    GuidelineItem("14", "additional analyses", ("additional",)),
    GuidelineItem("15", "interpretation", ("reading",), "interpretation"),
    GuidelineItem(
        "16", "limitations, and where the emulation differs from the trial", ("limits",), "limitations of the data"
    ),
    GuidelineItem("17", "ethics", ("unprotected",), "approval and consent"),
    GuidelineItem("18", "registration", ("declared",), "registry and number, if there is one"),
    GuidelineItem("19", "data and code", ("sharing",)),
    GuidelineItem("20", "funding", (), "funding"),
    GuidelineItem("21", "interests", (), "interests"),
)

GUIDELINES: tuple[tuple[str, str, tuple[GuidelineItem, ...]], ...] = (
    (TARGET_TITLE, TARGET_SOURCE, TARGET_ITEMS),
    (STROBE_TITLE, STROBE_SOURCE, STROBE_ITEMS),
    (EXTENSION_TITLE, EXTENSION_SOURCE, EXTENSION),
)


def checklists(
    release: Mapping[str, Any], arms: Mapping[str, Any], flow: UnitFlow, contract: Contract | None
) -> tuple[Checklist, ...]:
    """Return the checklists TARGET, STROBE and RECORD-PE of an observational study.

    There is none where treatment was randomised.

    Args:
        release: the document of a release of one effect or of a protocol.
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
        Checklist(title, source, tuple(item.filled(facts) for item in items)) for title, source, items in GUIDELINES
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
    if not isinstance(release, AnsweredEffect | ProtocolRelease):
        return {"flow": flow, "checklists": None}
    return {"flow": flow, "contract": contract, "checklists": checklists(document, arms, flow, contract)}
