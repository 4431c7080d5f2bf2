"""TARGET (2025): the target trial, and how the data emulate it.

Cashin, Hansford, Hernán et al., Transparent Reporting of Observational Studies Emulating a Target Trial: the TARGET
Statement, JAMA 2025;334(12):1084-1093, doi 10.1001/jama.2025.13350. Items in our words, by their numbers.
"""

from __future__ import annotations

from causalveil.tasks.report.guidelines.item import Item

TITLE = "TARGET (2025): an observational study as the emulation of a target trial"
SOURCE = "Cashin et al., JAMA 2025;334(12):1084–1093"

ITEMS = (
    Item("1a", "emulation named; objectives; the target trial in short", ("design", "question"), "title and abstract"),
    Item("1b", "data sources, in the abstract", ("data",), "name and origin of the source"),
    Item("1c", "assumptions, methods, findings, conclusions, in the abstract", ("analysis", "found"), "the conclusion"),
    Item("2", "background and what is not known yet", (), "background"),
    Item(
        "3",
        "the causal question: population, strategies, follow-up, outcomes",
        ("question",),
        "end of follow-up",
    ),
    Item("4", "why to emulate a trial with these data", (), "rationale"),
    Item(
        "5",
        "data sources: purpose, kind, places, dates, linkage",
        ("data", "rows", "descriptions"),
        "why, where and when the data were collected, and how they were linked",
    ),
    Item("6a", "target trial: who would be eligible", ("unit",), "criteria of eligibility"),
    Item("6b", "target trial: the strategies", ("strategies",), "the strategies in enough detail to carry them out"),
    Item("6c", "target trial: assignment", ("random",)),
    Item("6d", "target trial: start and end of follow-up", (), "time zero and the end of follow-up"),
    Item("6e", "target trial: outcomes", ("outcomes",), "how and when the outcome would be measured"),
    Item("6f", "target trial: causal contrasts and effect measures", ("contrast",), "intention to treat, or not"),
    Item("6g", "target trial: identifying assumptions", ("random_assumptions",), "assumptions on losses to follow-up"),
    Item("6h", "target trial: analysis", ("contrast", "bounds", "missing")),
    Item(
        "7a",
        "emulation: how eligibility was found in the data",
        ("eligibility", "rows"),
        "rules by which people came into the dataset, with nothing later than time zero among them",
    ),
    Item(
        "7b",
        "emulation: how strategies were defined in the data",
        ("strategies",),
        "codes and time windows",
    ),
    Item("7c", "emulation: how people were classified to a strategy", ("assignment",)),
    Item("7d", "emulation: follow-up", ("follow_up",), "that follow-up starts at time zero, and how its end was found"),
    Item("7e", "emulation: outcomes", ("outcomes", "clipped"), "how the outcome was ascertained"),
    Item("7f", "emulation: causal contrasts", ("contrast",)),
    Item(
        "7g.i",
        "emulation: assumptions, baseline confounding among them",
        ("assumptions",),
        "why these assumptions are plausible here",
    ),
    Item("7g.ii", "emulation: the variables behind the assumptions", ("covariates",), "that all precede treatment"),
    Item("7h.i", "emulation: what the analysis has that the trial's would not", ("analysis", "privacy")),
    Item("7h.ii", "emulation: sensitivity analyses", ("sensitivity",), "further analyses, each at its own cost"),
    Item("8", "participants: assessed, eligible, in each strategy; a flow", ("flow",), "numbers before admission"),
    Item("9", "baseline, by strategy", ("balance",)),
    Item("10", "length and end of follow-up, by strategy", (), "length of follow-up; exact numbers would be private"),
    Item("11", "missing data, by strategy", ("missing",)),
    Item("12", "outcomes, by strategy", ("means",)),
    Item("13", "estimates and their precision, absolute and relative", ("found", "precision")),
    Item("14", "additional analyses", ("additional",)),
    Item("15", "interpretation", ("reading",), "interpretation"),
    Item("16", "limitations, and where the emulation differs from the trial", ("limits",), "limitations of the data"),
    Item("17", "ethics", ("unprotected",), "approval and consent"),
    Item("18", "registration", ("declared",), "registry and number, if there is one"),
    Item("19", "data and code", ("sharing",)),
    Item("20", "funding", (), "funding"),
    Item("21", "interests", (), "interests"),
)
