"""STROBE with its extensions RECORD and RECORD-PE, for observational studies of routinely collected health data.

von Elm et al., STROBE, Lancet 2007;370:1453; Benchimol et al., RECORD, PLoS Med 2015;12:e1001885; Langan et al.,
RECORD-PE, BMJ 2018;363:k3532. Items in our words, by their numbers; those of cohorts where designs differ.
"""

from __future__ import annotations

from causalveil.tasks.report.guidelines.item import GuidelineItem

TITLE = "STROBE"
SOURCE = "von Elm et al., Lancet 2007;370:1453–1457; items of cohort studies where designs differ"
EXTENSION_TITLE = "RECORD and RECORD-PE: what they add for routinely collected data and for drugs"
EXTENSION_SOURCE = "Benchimol et al., PLoS Med 2015;12:e1001885; Langan et al., BMJ 2018;363:k3532"

ITEMS = (
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
    GuidelineItem("14c", "follow-up time", (), "follow-up; an exact sum would be private"),
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
    GuidelineItem("7.1.c", "when somebody counts as exposed", (), "time windows"),
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
