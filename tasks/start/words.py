"""Read the words of files and names of columns, and write words as YAML.

Words for yes, no, nothing, control and treated are in lower case; a draft writes down what it took. Names may be in
camel case, or of columns that were measured again at another time. YAML text is such that every reader takes it alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


YES = _words("yes y true t 1 ja j oui o si sí s tak da x positive pos")
NO = _words("no n false f 0 nein non nao não nie niet negative neg")
# Where these stand for "no value". `none` is left out: it may well be an answer.
NOTHING = _words(
    "na n/a #n/a n.a. nan null nil missing unknown . .. ... - -- --- ? ?? (null) <na> #null! #value! #div/0!"
) | {"not available", "not known"}
FEMALE = _words("f female woman w weiblich femme")
MALE = _words("m male man männlich homme")
CONTROL = _words("control controls placebo untreated untrained unexposed no none usual baseline standard 0") | {
    "usual care",
    "standard care",
    "not treated",
    "no treatment",
}
# A word before another that denies it: "no statin", "not treated", "non-smoker", "without surgery".
NEGATION = re.compile(r"(?:no|not|non|never|without|ohne|kein|keine|sans|sin)[ _-]+(.+)")
# A code before the word that it stands for: "1_yes", "0=placebo", "(2) female".
CODED = re.compile(r"\(?(\d{1,3})\)?[ _.:=)-]+(?=\D)(.+)")
# Names that columns of ids have: patient_id, "Person Nr", PID.
ID_NAME = (
    r"(?i)(^|[^a-z])(id|ids|nr|no|key|uid|uuid|pid|mrn|ssn|number|identifier|patient|person|subject|member)([^a-z]|$)"
    r"|[a-z]id$"
)
# Names of groups by their ids. Words that merely end so, as "paid" and "covid", are none.
GROUP_ID = (
    r"(?i)(^|[\W_])((school|hospital|clinic|site|county|state|city|village|region|district|firm|company|plant|store|shop|"
    r"household|hh|family|class|teacher|doctor|physician|provider|centre|center|cluster|group|plot)[ _-]?)?"
    r"(id|ids|uid|uuid)(?=$|[\W_\d])|"
    r"(^|[\W_])(school|hosp|hospital|clinic|site|county|village|district|firm|company|plant|store|shop|household|hh|"
    r"family|class|teacher|doctor|physician|prov|provider|centre|center|cluster|plot)[ _-]?(num|number|no|nr|code)"
    r"(?=$|[\W_\d])"
)
# Names of survey weights that nothing else has, and names that the weight of a body has as well.
SURVEY_WEIGHT = (
    r"(?i)(^|[\W_])((survey|sampl\w*|design|final|person|household|expansion|population|post[ _-]?strat\w*|inverse)"
    r"[ _-]?(weights?|wts?|wgts?)|[pfai]weights?|fnlwgt|finalwt|finalwgt|sampwt|perwt|hhwt|asecwt\w*|wtss\w*|wtmec\w*|"
    r"wtint\w*)(?=$|[\W_\d])"
)
WEIGHT = r"(?i)(^|[\W_])(weights?|wts?|wgts?)(?=$|[\W_\d])"
CURRENCY = "$€£¥₹"
CURRENCY_CODES = ("USD", "EUR", "GBP", "CHF", "JPY", "AUD", "CAD", "SEK", "NOK", "DKK", "INR", "CNY")
# What may stand behind a number; compared in lower case.
UNITS = _words(
    "% kg g mg lb lbs cm m mm km in ft y yr yrs year years h hr hrs hour hours min mins d day days week weeks month "
    "months mmhg mg/dl mmol/l g/l bpm c °c °f usd eur gbp"
)
# Words in names of columns that were measured after treatment, as a rule.
AFTER = (
    r"(?i)(^|[\W_])(post|after|follow[ _-]?ups?|fu|discharged?|deaths?|died|dead|deceased|mortality|readmi\w*|"
    r"outcomes?|results?|responses?|recover\w*|complications?|adverse|endpoints?|final|exit|surviv\w*|relapse\w*|recur\w*|later|los|"
    r"length[ _-]of[ _-]stay|end|closed|cured|changed?|improve\w*|satisf\w*)(?=$|[\W_\d])"
)
# Words that say the opposite: a value of the outcome before treatment is the best covariate there is.
BEFORE = (
    r"(?i)(^|[\W_])(pre|before|baseline|base|bl|prior|previous|past|last|initial|lag\w*|history|hx|t0|at[ _-]entry)"
    r"(?=$|[\W_\d])"
)
# Names of moments.
TIME_WORD = (
    r"(?i)(^|[\W_])(date|datum|day|time|timestamp|ts|dob|dod|birth\w*|born|seen|visit\w*|admitted|admission|enrol\w*|entered|"
    r"entry|start\w*|end\w*|created|updated|opened|closed|hired|paid|sold|discharged?|at|on|when|since|until)(?=$|[\W_\d])"
)
# Names of codes: their numbers stand for kinds, and no line follows them.
CODE_NAME = (
    r"(?i)(^|[\W_])(marital|married|region|code|cd|type|kind|class|category|cat|group|grp|zip|postal|county|state|country|"
    r"province|district|precinct|ward|clinic|site|hospital|dept|department|occupation|occ|job|industry|sector|branch|race|ethnic\w*|"
    r"religion|status|cause|reason|education|educ|insurance|payer|provider|center|centre|school|sex|gender)(?=$|[\W_\d])"
)
# Names of times to an event, and of what says how they ended.
FOLLOWED_NAME = (
    r"(?i)(^|[\W_])(time|times|[a-z]{1,3}time|days?|weeks?|months?|years?|survtime|surv(ival)?[ _-]?time|duration|"
    r"tte|os|pfs|dfs|follow[ _-]?up|fu)(?=$|[\W_\d])"
)
EVENT_NAME = (
    r"(?i)(^|[\W_])(status|fustat|events?|cens(or(ed|ing)?)?|died|dead|deaths?|deceased|relapsed?|recur\w*|fail(ed|ure)?|vital)"
    r"(?=$|[\W_\d])"
)


# A name with the number of a time at its end: read1, score_2, bp-12.
_NUMBERED = re.compile(r"(?i)(.*[a-z]{3,})[\W_]?(\d{1,4})")
# As many columns with a number at their end make a last letter such as the k of "readk", "read1", "read2" a time, too.
_FEWEST_NUMBERED = 2


def spoken(name: str) -> str:
    """Return a name with its words separated, as patterns for names expect them.

    "policePrecinct" has two words.
    """
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name)


def stems(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the stem and the time of each name that is there for several times.

    Of "read1" they are "read" and "1".

    Args:
        names: of all columns.
    """
    numbered: dict[str, dict[str, str]] = {}
    every = tuple(names)
    for name in every:
        found = _NUMBERED.fullmatch(name)
        if found is not None:
            numbered.setdefault(found[1].casefold(), {})[name] = found[2]
    for name in every:
        stem = name[:-1].casefold()
        if name[-1:].isalpha() and len(numbered.get(stem, {})) >= _FEWEST_NUMBERED:
            numbered[stem][name] = name[-1].casefold()
    return {name: (stem, time) for stem, times in numbered.items() if len(times) > 1 for name, time in times.items()}


def other_times(names: Iterable[str], treatment: str, outcome: str) -> dict[str, str]:
    """Return columns that by their names may be measured after treatment, with reasons.

    The times in the names are compared.

    What repeats treatment or outcome at a later time tells which times are later; a column of such a time, which is
    there for the time of treatment or outcome as well, was measured then. Times that are no numbers have no order, so
    they count as later.

    Args:
        names: of all columns.
        treatment, outcome: the two that a study is about.
    """
    known = stems(names)
    told: dict[str, str] = {}
    times: dict[str, set[str]] = {}
    for part in (treatment, outcome):
        stem, time = known.get(part, ("", ""))
        again = [one for one, (of, at) in known.items() if stem and of == stem and one != part and _later(at, time)]
        told |= {one: f"by name, '{part}' at another time: may come after treatment" for one in again}
        times.setdefault(time, set()).update(known[one][1] for one in again)
    for name, (stem, time) in known.items():
        own = {at for of, at in known.values() if of == stem}
        if name in (treatment, outcome) or name in told:
            continue
        if any(at in own and time in later for at, later in times.items()):
            told[name] = "by name, of another time than treatment: may come after it"
    return told


def _later(time: str, than: str) -> bool:
    return not (time.isdigit() and than.isdigit()) or int(time) > int(than)


# Words that some reader of YAML takes for a truth value, a null or a number.
_TAKEN = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"}


def scalar(value: Any) -> str:
    """A text, a number, a truth value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        plain = (
            re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*( [A-Za-z0-9_][A-Za-z0-9_-]*)*", value)
            and value.lower() not in _TAKEN
        )
        return value if plain else json.dumps(value, ensure_ascii=False)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def flow(value: Any) -> str:
    """A value on one line, lists and mappings in brackets."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(one) for one in value) + "]"
    return scalar(value)


def comment(text: str, width: int = 118) -> list[str]:
    """A comment of as many lines as it needs."""
    lines, line = [], "#"
    for word in text.split():
        if len(line) + 1 + len(word) > width and line != "#":
            lines.append(line)
            line = "#"
        line += f" {word}"
    return [*lines, line]


def entry(key: str, value: Any, notes: Iterable[str] = (), indent: str = "  ") -> list[str]:
    """One line ``key: value  # notes``; notes that do not fit stand above."""
    line, told = f"{indent}{scalar(key)}: {flow(value)}", "; ".join(notes)
    if not told:
        return [line]
    if len(line) + len(told) + 4 <= 120:
        return [f"{line}  # {told}"]
    return [*(f"{indent}{one}" for one in comment(told, 118 - len(indent))), line]
