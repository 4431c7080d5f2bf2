"""Words by which people say yes, no, nothing, control and treated. Lower case; a draft writes down what it took."""

from __future__ import annotations

import re


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
# Names that columns of ids have: patient_id, "Person Nr", PID.
ID_NAME = (
    r"(?i)(^|[^a-z])(id|ids|nr|no|key|uid|uuid|pid|mrn|ssn|number|identifier|patient|person|subject|member)([^a-z]|$)"
    r"|[a-z]id$"
)
CURRENCY = "$€£¥₹"
CURRENCY_CODES = ("USD", "EUR", "GBP", "CHF", "JPY", "AUD", "CAD", "SEK", "NOK", "DKK", "INR", "CNY")
# What may stand behind a number; compared in lower case.
UNITS = _words(
    "% kg g mg lb lbs cm m mm km in ft y yr yrs year years h hr hrs hour hours min mins d day days week weeks month "
    "months mmhg mg/dl mmol/l g/l bpm c °c °f usd eur gbp"
)
