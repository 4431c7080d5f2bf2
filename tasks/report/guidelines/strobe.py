"""STROBE with its extensions RECORD and RECORD-PE, for observational studies of routinely collected health data.

von Elm et al., STROBE, Lancet 2007;370:1453; Benchimol et al., RECORD, PLoS Med 2015;12:e1001885; Langan et al.,
RECORD-PE, BMJ 2018;363:k3532. Items in our words, by their numbers; those of cohorts where designs differ.
"""

from __future__ import annotations

from causalveil.tasks.report.guidelines.item import Item

TITLE = "STROBE"
SOURCE = "von Elm et al., Lancet 2007;370:1453–1457; items of cohort studies where designs differ"
EXTENSION_TITLE = "RECORD and RECORD-PE: what they add for routinely collected data and for drugs"
EXTENSION_SOURCE = "Benchimol et al., PLoS Med 2015;12:e1001885; Langan et al., BMJ 2018;363:k3532"

ITEMS = (
    Item("1a", "the design in title or abstract", ("design",), "title"),
    Item("1b", "what was done and found, in the abstract", ("question", "analysis", "found"), "the abstract itself"),
    Item("2", "background", (), "background"),
    Item("3", "objectives and hypotheses", ("question", "declared")),
    Item("4", "design", ("design",)),
    Item("5", "setting, places, dates", ("data",), "places, and dates of exposure, follow-up and collection"),
    Item("6a", "participants: eligibility, selection, follow-up", ("eligibility", "rows"), "criteria and sources"),
    Item("6b", "matching criteria", ("matching",)),
    Item("7", "variables", ("strategies", "outcomes", "covariates", "subgroups"), "diagnostic criteria"),
    Item("8", "measurement", ("descriptions",), "how each variable was measured, in both groups alike or not"),
    Item("9", "bias", ("assumptions", "bias"), "other sources of bias"),
    Item("10", "study size", ("size",)),
    Item("11", "quantitative variables", ("clipped", "bounds")),
    Item("12a", "statistical methods", ("analysis", "privacy")),
    Item("12b", "subgroups and interactions", ("subgroup_methods",)),
    Item("12c", "missing data", ("missing",)),
    Item("12d", "losses to follow-up", ("follow_up",), "how losses were addressed before the data were admitted"),
    Item("12e", "sensitivity analyses", ("sensitivity",)),
    Item("13a", "numbers at each stage", ("flow",), "numbers before admission"),
    Item("13b", "reasons for leaving", ("eligibility",), "reasons before admission"),
    Item("13c", "flow diagram", ("diagram",)),
    Item("14a", "characteristics of participants", ("balance",), "a description of the population from public sources"),
    Item("14b", "missing data, by variable", ("missing",)),
    Item("14c", "follow-up time", (), "follow-up; an exact sum would be private"),
    Item("15", "outcome data", ("means",)),
    Item("16a", "estimates, unadjusted and adjusted, with precision", ("found", "precision", "adjusted_for")),
    Item("16b", "category boundaries", ("bounds",)),
    Item("16c", "relative and absolute risk", ("contrast",)),
    Item("17", "other analyses", ("additional",)),
    Item("18", "key results", ("found",), "the objectives beside them"),
    Item("19", "limitations", ("limits",), "direction and size of other biases"),
    Item("20", "interpretation", ("reading",), "interpretation"),
    Item("21", "generalisability", ("population",), "for whom else it may hold"),
    Item("22", "funding", (), "funding"),
)

EXTENSION = (
    Item("1.1", "the kind of data, and the database's name, in title or abstract", ("data",), "the source's full name"),
    Item("1.2", "region and time, in title or abstract", (), "region and time"),
    Item("1.3", "linkage, in title or abstract", (), "whether databases were linked"),
    Item("4.a", "the design's features; several designs", ("design",), "features such as new users"),
    Item("4.b", "a diagram of exposure, washout, lag, observation", (), "the diagram of time"),
    Item("6.1", "codes and algorithms that select people", ("eligibility",), "codes and algorithms"),
    Item("6.1.a", "criteria of entry and their order; entry once or often", ("rows",), "criteria and their order"),
    Item("6.2", "validation of these codes", (), "validation studies"),
    Item("6.3", "linkage, as a flow", (), "numbers linked, if any were"),
    Item("7.1", "codes of exposures, outcomes, confounders", ("codes",), "codes in the source behind these columns"),
    Item("7.1.a", "how the definition of exposure was made", ("strategies",), "how the definition was arrived at"),
    Item("7.1.b", "where exposure was recorded", ("descriptions",), "prescribed, dispensed or taken, and where"),
    Item("7.1.c", "when somebody counts as exposed", (), "time windows"),
    Item("7.1.d", "current, former, ever, cumulative exposure", (), "to which exposure events are attributed"),
    Item("7.1.e", "dose", (), "how dose and time on therapy were taken"),
    Item("7.1.f", "comparators", ("strategies",), "why this comparator"),
    Item("7.1.g", "people with more than one exposure", ("one_arm",), "how the column was made where both were taken"),
    Item("8.a", "the health system, and how its drug records come about", (), "health system and setting of care"),
    Item("12.1", "access to the database", ("access",), "who prepared the data"),
    Item("12.2", "cleaning", ("admitted",), "cleaning before admission"),
    Item("12.3", "linkage methods and quality", (), "linkage, if there was any"),
    Item("12.1.a", "how assumptions were checked", ("checked",)),
    Item("12.1.b", "several designs or approaches", ("additional",)),
    Item("13.1", "selection by quality, availability, linkage", ("flow",), "filters before admission"),
    Item("19.1", "data that were not made for this question", ("limits",), "misclassification, changing eligibility"),
    Item("19.1.a", "how well the database holds the exposure", (), "how complete exposures are"),
    Item("20.a", "confounding by indication, healthy adherers", ("bias",), "whether it explains the finding"),
    Item("22.1", "protocol, raw data, code", ("sharing", "declared")),
)
