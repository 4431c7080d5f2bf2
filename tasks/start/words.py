"""Read words, numbers and dates as people write them, and write words as YAML.

Words for yes, no, nothing, control and treated are in lower case; a draft writes down what it took. Names may be in
camel case, or of columns that were measured again at another time. YAML text is such that every reader takes it alike.

Numbers are such as `$1,200`, `1.200,50 €`, `72 kg`, `(300)`, `45 %`. Which comes first in a date, day or month, is told
by the dates that allow one order only.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl

from causalveil.schemas.warehouse import Kind, TextReading


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
    r"(?i)^(psu|strat(um|a)?)[ _-]?(id|no|nr|num)?$|"
    r"(^|[\W_])((school|hospital|clinic|site|county|state|city|village|region|district|firm|company|plant|store|shop|"
    r"household|hh|family|class|teacher|doctor|physician|provider|centre|center|cluster|group|plot)[ _-]?)?"
    r"(id|ids|uid|uuid)(?=$|[\W_\d])|"
    r"(^|[\W_])(school|hosp|hospital|clinic|site|county|village|district|firm|company|plant|store|shop|household|hh|"
    r"family|class|teacher|doctor|physician|prov|provider|centre|center|cluster|plot)[ _-]?(num|number|no|nr|code)"
    r"(?=$|[\W_\d])"
)
# Names of survey weights that nothing else has, and names that the weight of a body has as well.
SURVEY_WEIGHT = (
    r"(?i)(^|[\W_])((survey|sampl\w*|design|final|person|household|expansion|population|post[ _-]?strat\w*|inverse)"
    r"[ _-]?(weights?|wts?|wgts?)|(per|pers|hh|fam|an|psp)(weights?|wght)|[pfai]weights?|fnlwgt|finalwt|finalwgt|"
    r"sampwt|perwt|hhwt|asecwt\w*|wtss\w*|wtmec\w*|wtint\w*)(?=$|[\W_\d])"
)
WEIGHT = r"(?i)(^|[\W_])(weights?|wghts?|wts?|wgts?)(?=$|[\W_\d])"
CURRENCY = "$€£¥₹"
CURRENCY_CODES = ("USD", "EUR", "GBP", "CHF", "JPY", "AUD", "CAD", "SEK", "NOK", "DKK", "INR", "CNY")
# Units that may stand behind a number; compared in lower case.
UNITS = _words(
    "% kg g mg lb lbs cm m mm km in ft y yr yrs year years h hr hrs hour hours min mins d day days week weeks month "
    "months mmhg mg/dl mmol/l g/l bpm c °c °f usd eur gbp"
)
# Words in names of columns that were measured after treatment, as a rule.
AFTER = (
    r"(?i)(^|[\W_])(post|after|follow[ _-]?ups?|fu|discharged?|deaths?|died|dead|deceased|mortality|readmi[a-z]*|"
    r"(yr|year|mo|mod|month|da|day|age|date|dt|cause)?[_ -]?dth([_ -]?(dt|date|yr|year|age|cause|flag|fl))?|"
    r"outcomes?|results?|responses?|recover[a-z]*|complications?|adverse|s?ae|endpoints?|final|exit|surviv[a-z]*|"
    r"relapse[a-z]*|recur[a-z]*|later|los|length[ _-]of[ _-]stay|end(ed)?|closed|cured|changed?|improve[a-z]*|"
    r"satisf(ied|action))(?=$|[\W_\d])"
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
    r"province|district|precinct|ward|clinic|site|hospital|dept|department|occ|occup(ation)?|job|industry|sector|branch|"
    r"race|ethnic\w*|religion|status|cause|reason|education|educ|insurance|payer|provider|center|centre|school|sex|gender)(?=$|[\W_\d])"
)
# Words for kinds without an order, at the end of a name; and words beside them that tell of a count or an amount.
KIND_NAME = (
    r"(?i)(^|[\W_])(marital|region|code|cd|type|kind|zip|zipcode|postal|postcode|county|state|country|province|district|"
    r"precinct|ward|clinic|site|hospital|dept|department|occ|occup(ation)?|job|industry|sector|branch|race|ethnic\w*|"
    r"religion|cause|reason|insurance|payer|provider|center|centre|school|village|city|town|firm|gender|sex)"
    r"([\W_]?(code|cd|nr|no|num))?[\W_\d]*$"
)
# Names of kinds that stand for a count where their numbers begin with 0: years of school, stays in hospital.
COUNTED_NAME = r"(?i)(^|[\W_])(school|hospital)(?=$|[\W_\d])"
# A column that pandas wrote beside those of a table: the index of its rows.
PANDAS_INDEX = r"__index_level_\d+__|Unnamed: ?\d+"
AMOUNT_WORD = (
    r"(?i)(^|[\W_])(years?|yrs?|months?|days?|hours?|n|num|counts?|size|share|pct|percent|rate|scores?|dist|distance|age|mean|"
    r"avg|rank|grade|total|sum|log|per|income|wages?|cost|price|spend\w*)(?=$|[\W_\d])"
)
# Names of times to an event, and of what says how they ended.
FOLLOWED_NAME = (
    r"(?i)(^|[\W_])(time|times|[a-z]{1,3}time|days?|weeks?|months?|years?|survtime|surv(ival)?[ _-]?time|duration|"
    r"tte|os|pfs|dfs|follow(ed|[ _-]?up)?|fu)(?=$|[\W_\d])"
)
# When people came under observation, where not all did at the origin of times.
ENTRY_NAME = (
    r"(?i)(^|[\W_])((age[ _]?(at[ _]?)?)?(entry|entered|enter|enrol\w*)|t?start|trunc(ation|ated)?)(?=$|[\W_\d])"
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
    """Return a name with its words separated: "police_Precinct" of "policePrecinct"."""
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name)


def stems(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return stem and time of each name of repeated measurements: "read" and "1" of "read1".

    Args:
        names: of all columns.
    """
    numbered: dict[str, dict[str, str]] = {}
    every = tuple(names)
    for name in every:
        match = _NUMBERED.fullmatch(name)
        if match is not None:
            numbered.setdefault(match[1].casefold(), {})[name] = match[2]
    for name in every:
        stem = name[:-1].casefold()
        if name[-1:].isalpha() and len(numbered.get(stem, {})) >= _FEWEST_NUMBERED:
            numbered[stem][name] = name[-1].casefold()
    return {name: (stem, time) for stem, times in numbered.items() if len(times) > 1 for name, time in times.items()}


def other_times(names: Iterable[str], treatment: str, outcome: str) -> dict[str, str]:
    """Return columns that by times in their names may come after treatment, with reasons.

    Treatment and outcome that are repeated at a later time determine the later times. A column at such a time, which
    exists for the time of treatment or outcome as well, was measured then. Times that are no numbers have no order and
    count as later.

    Args:
        names: of all columns.
        treatment, outcome: their names.
    """
    every = tuple(names)
    stems_by_name = stems(every)
    reasons: dict[str, str] = {}
    times: dict[str, set[str]] = {}
    for part in (treatment, outcome):
        stem, time = stems_by_name.get(part, ("", ""))
        again = [
            name
            for name, (own, at) in stems_by_name.items()
            if stem and own == stem and name != part and _later(at, time)
        ]
        reasons |= {name: f"by name, '{part}' at another time: may come after treatment" for name in again}
        times.setdefault(time, set()).update(stems_by_name[name][1] for name in again)
    ends = _of_the_end(every, treatment, outcome) | _of_visits(every)
    reasons |= {name: reason for name, reason in ends.items() if name not in (treatment, outcome)}
    for name, (stem, time) in stems_by_name.items():
        own = {at for own_stem, at in stems_by_name.values() if own_stem == stem}
        if name in (treatment, outcome) or name in reasons:
            continue
        if any(at in own and time in later for at, later in times.items()):
            reasons[name] = "by name, of another time than treatment: may come after it"
    return reasons


def earlier(name: str, outcome: str, stems_by_name: Mapping[str, tuple[str, str]]) -> bool:
    """Check by names whether a column is the outcome before, as "earn96" is of "earn98".

    Args:
        name, outcome: the names.
        stems_by_name: stem and time of each name (:func:`stems`).
    """
    (stem, time), (outcome_stem, end) = stems_by_name.get(name, ("", "")), stems_by_name.get(outcome, ("", ""))
    return bool(stem) and stem == outcome_stem and time.isdigit() and end.isdigit() and int(time) < int(end)


def _of_the_end(names: Iterable[str], treatment: str, outcome: str) -> dict[str, str]:
    """Return columns of the time at which the outcome was measured, with reasons.

    As "price82" is of the change "wt82_71", and "read12" of "math12"; a number that treatment has too says nothing.
    """
    times = re.findall(r"\d{1,4}", outcome)
    if len(set(times)) > 1:
        end, moment = max(times, key=int), f"the time at which the change '{outcome}' ends"
    elif re.search(r"[a-z][\W_]?\d\d+$", outcome, re.IGNORECASE) and times[-1] not in re.findall(r"\d+", treatment):
        end, moment = times[-1], f"the same time as '{outcome}'"
    else:
        return {}
    return {
        name: f"by name, of {moment}: may come after treatment" for name in names if end in re.findall(r"\d{1,4}", name)
    }


# A name with a visit before it: V3.GE, wk12_bp.
_OF_VISIT = re.compile(r"(?i)([a-z]{1,6}\d{1,3})[\W_]+(.+)")


def _of_visits(names: Iterable[str]) -> dict[str, str]:
    """Return columns of a visit, as "V3.GE", that the baseline has as well, as "BL.GE"."""
    every = tuple(names)
    first = {re.sub(BEFORE + r"[\W_]*", "", name).casefold() for name in every if re.match(BEFORE, name)}
    visits = {name: match for name in every if (match := _OF_VISIT.fullmatch(name)) and not re.match(BEFORE, name)}
    return {
        name: f"by name, of '{match[1]}', after the baseline: may come after treatment"
        for name, match in visits.items()
        if match[2].casefold() in first
    }


def _later(time: str, than: str) -> bool:
    return not (time.isdigit() and than.isdigit()) or int(time) > int(than)


# Words that some reader of YAML takes for a truth value, a null or a number.
_TAKEN = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"}


def scalar(value: Any) -> str:
    """Return a text, a number or a truth value as YAML."""
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
    """Return a value as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(element)}" for key, element in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(element) for element in value) + "]"
    return scalar(value)


def comment(text: str, width: int = 118) -> list[str]:
    """Return a comment in lines of ``width`` characters."""
    mark = "# "
    return textwrap.wrap(
        text, width, initial_indent=mark, subsequent_indent=mark, break_long_words=False, break_on_hyphens=False
    )


def entry(key: str, value: Any, notes: Iterable[str] = (), indent: str = "  ") -> list[str]:
    """Return one line ``key: value  # notes``; notes that do not fit stand above."""
    line, note = f"{indent}{scalar(key)}: {flow(value)}", "; ".join(notes)
    if not note:
        return [line]
    if len(line) + len(note) + 4 <= 120:
        return [f"{line}  # {note}"]
    return [*(f"{indent}{line_of_note}" for line_of_note in comment(note, 118 - len(indent))), line]


_PLAIN = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
# Groups of three, or of two before the last three, as in India.
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{2,3})*,\d{3}(\.\d*)?")
_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")
_NAMES = {" ": "spaces", "\u00a0": "no-break spaces", "\u202f": "narrow spaces"}
_SPACES = " \u00a0\u202f'’"
# Not more different whole numbers than this are codes, however they are written.
MOST_CODES = 30
# A word before or behind: a currency's code, a unit of measure.
_CODE = "|".join(CURRENCY_CODES)
_AROUND = re.compile(rf"((?:{_CODE})\s*)?[{CURRENCY}]?\s*([-+(]?.*\d\.?\)?)\s*([^\d\s)]{{1,10}})?")


class Style(NamedTuple):
    """A way of writing numbers: a text without its decorations must match ``shape``."""

    shape: re.Pattern[str]
    remove: tuple[str, ...]
    decimal: str


# Each digit but 0 as 1.
_ONES = str.maketrans("23456789", "11111111")
_STYLES = (Style(_PLAIN, (), "."), Style(_THOUSANDS, (",",), "."), Style(_COMMA, (".",), ","))


def number_reading(
    words: Iterable[str], delimiter: str, most_codes: int = MOST_CODES
) -> tuple[TextReading | None, set[str], tuple[str, ...]]:
    """Return the reading under which most of the words are numbers, and these words.

    Args:
        words: the different values of a column, without spaces around them.
        delimiter: of the file; a semicolon speaks for decimal commas.
        most_codes: not more different whole numbers than this are codes, however they are written.

    Returns:
        TextReading (None if no word is a number), the words that it fits, and what was assumed.
    """
    # Digits other than 0 do not matter to a style: words that differ in them alone are looked at once.
    alike: dict[str, set[str]] = {}
    for word in words:
        alike.setdefault(word.translate(_ONES), set()).add(word)
    shape, fits, notes = _reading_of_shapes(
        {masked: len(written) for masked, written in alike.items()}, delimiter, most_codes
    )
    return shape, {word for masked in fits for word in alike[masked]}, notes


def _reading_of_shapes(
    times: Mapping[str, int], delimiter: str, most_codes: int
) -> tuple[TextReading | None, set[str], tuple[str, ...]]:
    """Return what :func:`number_reading` does, from counted words with their digits masked."""

    def count(those: Iterable[str]) -> int:
        return sum(times[shape] for shape in those)

    bare = {word: _bare(word) for word in times}
    if len(currencies("\n".join(bare))) > 1:
        # Ten dollars and ten euros are no column of numbers until their currency is stated.
        return None, set(), ()
    units = {unit.casefold() for _, unit in bare.values() if unit}
    if len(units) > 1 or not units <= UNITS or ("%" in units and _some_without(bare)):
        # 72 kg beside 158 lb is no column of numbers until its unit is stated, and 12A is a name.
        bare = {word: (core, unit) for word, (core, unit) in bare.items() if not unit}
    cores = {word: core for word, (core, _) in bare.items() if core}
    if any(core[0] == "0" and core[1:].isdecimal() for core in cores.values()):
        return None, set(), ()
    fits = [{word for word, core in cores.items() if style.shape.fullmatch(core)} for style in _STYLES]
    plain, thousands, comma = fits
    notes: tuple[str, ...] = ()
    # The style that fits more words is taken; a semicolon decides for decimal commas in a tie.
    pointed = thousands | plain
    tie = delimiter != ";" and count(pointed) == count(comma)
    if thousands - plain and (count(pointed) > count(comma) or tie):
        chosen, fitting = _STYLES[1], thousands | plain
        notes = ("a comma is read as thousands",)
    elif count(comma) > count(plain):
        chosen, fitting = _STYLES[2], comma
        notes = ("a comma is read as the decimal point",)
    else:
        chosen, fitting = _STYLES[0], plain
    if not fitting:
        return None, set(), ()
    decorations = sorted({piece for word in fitting for piece in _decorations(word)})
    remove = tuple(
        dict.fromkeys([*decorations, *(piece for piece in chosen.remove if any(piece in cores[w] for w in fitting))])
    )
    written = [_stripped(cores[word], chosen) for word in fitting]
    # Where some have no value, tools write codes of kinds as 1.0 and 2.0; of many values some may have decimals.
    few = count(fitting) <= most_codes and all(re.fullmatch(r"[-+]?\d{1,15}(\.0*)?", number) for number in written)
    whole = few or all(re.fullmatch(r"[-+]?\d{1,18}", number) for number in written)
    kind = Kind.integer if whole else Kind.number
    if decorations:
        notes = (*notes, f"without {' and '.join(_NAMES.get(piece, repr(piece)) for piece in decorations)}")
    return TextReading(kind=kind, remove=remove, decimal=chosen.decimal), fitting, notes


def currencies(text: str) -> set[str]:
    """Return the currencies that words name, by sign or by code."""
    upper = text.upper()
    return {sign for sign in CURRENCY if sign in text} | {code for code in CURRENCY_CODES if code in upper}


def _some_without(bare: dict[str, tuple[str, str]]) -> bool:
    """Check whether a number other than 0 has no unit: beside percent signs 0.5 is ambiguous."""
    return any(core.strip("0.,+-") and not unit for core, unit in bare.values() if core)


def _stripped(core: str, style: Style) -> str:
    for piece in style.remove:
        core = core.replace(piece, "")
    return core.replace(style.decimal, ".") if style.decimal == "," else core


def _bare(word: str) -> tuple[str, str]:
    """Return a number without decorations around and between its digits, and the unit behind it."""
    match = _AROUND.fullmatch(word)
    if not match:
        return "", ""
    core = match[2]
    if core.startswith("(") and core.endswith(")"):
        core = "-" + core[1:-1]
    for space in _SPACES:
        core = core.replace(space, "")
    unit = (match[3] or "").strip(CURRENCY)
    return core.strip(CURRENCY + " "), unit


def _decorations(word: str) -> set[str]:
    """Return the pieces of a word that are no part of the number: currency, unit, spaces inside."""
    match = _AROUND.fullmatch(word)
    if not match:
        return set()
    pieces = {sign for sign in CURRENCY if sign in word} | {sign for sign in _SPACES if sign in word and sign != " "}
    pieces |= {piece.strip() for piece in (match[1], match[3]) if piece and piece.strip(CURRENCY + " ")}
    if " " in match[2]:
        pieces.add(" ")
    return pieces


_DAYS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %B %Y",
    "%B %d, %Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%b %d, %Y",
    "%d-%b-%y",
)
# Times of day behind a day; a fraction of a second, and Z for UTC, where computers wrote them.
_HOURS = (" %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p")
_TIMES = (
    *(f"{day}{hour}" for day in _DAYS[:7] for hour in _HOURS),
    *(
        f"%Y-%m-%d{hour}"
        for hour in ("T%H:%M:%S", "T%H:%M", "T%H:%M:%SZ", " %H:%M:%S%.f", "T%H:%M:%S%.f", "T%H:%M:%S%.fZ")
    ),
)
_YEARS = (1800, 2200)


def date_reading(words: Iterable[str]) -> tuple[TextReading | None, set[str], tuple[str, ...]]:
    """Return up to four formats under which most of the words are dates, and these words."""
    text = pl.Series("text", list(words), dtype=pl.String)
    # Few texts hold as many digits as a date; to parse the others sixteen times would take long.
    if text.str.count_matches(r"\d").ge(3).mean() < 0.5:  # type: ignore[operator]
        return None, set(), ()
    fits = {form: _fitting(text, form) for form in (*_DAYS, *_TIMES)}
    chosen: list[str] = []
    covered: set[str] = set()
    while len(chosen) < 4:
        best = max(fits, key=lambda form: len(fits[form] - covered))
        if not fits[best] - covered:
            break
        chosen.append(best)
        covered |= fits[best]
    if not chosen:
        return None, set(), ()
    notes: tuple[str, ...] = ()
    mirrored = {form: form.replace("%d", "%_").replace("%m", "%d").replace("%_", "%m") for form in chosen}
    if any(mirror != form and fits.get(mirror) == fits[form] for form, mirror in mirrored.items()):
        notes = ("day and month cannot be distinguished; the day is taken first",)
    # A year of two digits first: four digits would also take 20 for the year 20.
    return TextReading(kind=Kind.date, formats=tuple(sorted(chosen, key=lambda form: "%y" not in form))), covered, notes


def _fitting(text: pl.Series, form: str) -> set[str]:
    if "%M" in form:
        parsed = text.str.to_datetime(form, strict=False, time_unit="us").dt.date()
    else:
        parsed = text.str.to_date(form, strict=False)
    return set(text.filter(parsed.dt.year().is_between(*_YEARS).fill_null(False)).to_list())
