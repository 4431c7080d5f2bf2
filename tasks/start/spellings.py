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
    r"(id|ids|uid|uuid)(?=$|[\W_\d])"
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
