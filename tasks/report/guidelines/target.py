"""TARGET (2025): the target trial, and how the data emulate it.

Cashin, Hansford, Hernán et al., Transparent Reporting of Observational Studies Emulating a Target Trial: the TARGET
Statement, JAMA 2025;334(12):1084-1093, doi 10.1001/jama.2025.13350. Items in our words, by their numbers.
"""

from __future__ import annotations

from causalveil.tasks.report.guidelines.item import GuidelineItem

TITLE = "TARGET (2025): an observational study as the emulation of a target trial"
SOURCE = "Cashin et al., JAMA 2025;334(12):1084–1093"

ITEMS = (
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
    GuidelineItem("6d", "target trial: start and end of follow-up", (), "time zero and the end of follow-up"),
    GuidelineItem("6e", "target trial: outcomes", ("outcomes",), "how and when the outcome would be measured"),
    GuidelineItem(
        "6f", "target trial: causal contrasts and effect measures", ("contrast",), "intention to treat, or not"
    ),
    GuidelineItem(
        "6g", "target trial: identifying assumptions", ("random_assumptions",), "assumptions on losses to follow-up"
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
        "10", "length and end of follow-up, by strategy", (), "length of follow-up; exact numbers would be private"
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
