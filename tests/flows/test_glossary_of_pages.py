"""Every technical term on a page of a report has an entry in the glossary, with the work that it comes from.

A term that no page has yet waits in ``NOT_SAID``: a page that begins to say it needs an entry first.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from causalveil.tasks.report.page import report_html
from tests.flows.test_true_sentences import further
from tests.report_help import Documents, load

GLOSSARY = Path(__file__).parents[2] / "GLOSSARY.md"
# As pages write a term, and the entry that defines it.
SAID = {
    r"additive noise model": "additive noise model",
    r"Aalen and Johansen|[Cc]umulative incidence": "cumulative incidence",
    r"augmented inverse probability": "AIPW",
    r"balancing weights": "balancing weights",
    r"E-value": "E-value",
    r"bandwidth|kernel ridge": "kernel ridge regression",
    r"[Bb]ands that hold": "confidence band",
    r"Bonferroni": "Bonferroni",
    r"clipped": "clip",
    r"[Cc]ompeting events?": "competing event",
    r"[Cc]ensor": "censored",
    r"Independent censoring": "independent censoring",
    r"95% interval": "interval",
    r"confounding_prior|confounding prior": "confounding prior",
    r"differential(?:ly)? priva": "differential privacy",
    r"[Ee]stimand": "estimand",
    r"[Ff]ixed effects|[Rr]andom effects": "random effects",
    r"gaussian": "Gaussian mechanism",
    r"Hájek|[Ii]nverse probability": "inverse probability weighting",
    r"[Hh]azard ratio": "hazard ratio",
    r"[Hh]eterogeneity|I²|τ²": "heterogeneity",
    r"imbalance": "imbalance",
    r"[Ii]ntercurrent event": "intercurrent event",
    r"interference|SUTVA": "consistency",
    r"isotonic": "isotonic regression",
    r"Kaplan-Meier": "survival curve",
    r"landmark": "landmark",
    r"[Ll]og-rank": "log-rank test",
    r"[Mm]atching": "matching",
    r"[Nn]egative controls?": "negative control",
    r"[Nn]eighbouring": "neighbours (tables)",
    r"[Nn]oise scale": "noise scale",
    r"[Oo]verlap|positivity": "overlap",
    r"People at risk": "people at risk",
    r"possible (linear )?confounding": "possible confounding",
    r"privacy loss distribution": "privacy loss distribution",
    r"[Pp]ropensity": "propensity score",
    r"pseudo-outcome": "pseudo-outcome",
    r"p-value|\bp = ": "p-value",
    r"replace one": "neighbouring relation",
    r"[Rr]estricted mean": "restricted mean survival time",
    r"[Dd]ifference of risks|risk ratio": "risk difference",
    r"[Ss]ensitivity": "sensitivity",
    r"[Ss]imultaneous": "simultaneous interval",
    r"square-root mechanism": "square-root mechanism",
    r"[Ss]tandard errors?": "standard error",
    r"[Ss]tandardised (?:mean )?difference": "standardised difference",
    r"STROBE|RECORD|TARGET": "reporting guideline",
    r"target trial": "target trial",
    r"treatment policy": "treatment policy",
    r"[Uu]nmeasured confounding|[Ee]xchangeab": "unmeasured confounding",
    r"ε\b": "epsilon",
    r"δ\b": "delta",
}
# Ours, or a setting of ours: no work has it by this name.
OURS = {"clip", "confounding prior", "noise scale", "possible confounding", "pseudo-outcome"}
NOT_SAID = (
    *("effective sample size", "zCDP", "bootstrap", "doubly robust", "Horvitz", "propensity trimming"),
    *("odds ratio", "rate ratio", "number needed to treat", "credible interval", "posterior", "false discovery"),
    *("familywise", "interquartile", "multiple imputation", "instrumental variable", "proportional hazards"),
    *("Fine and Gray", "prediction interval", "Rényi", "local differential privacy", "shrinkage"),
    *("statistical significance", "statistically significant", "power of the test", "mediation"),
)
ROW = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", flags=re.MULTILINE)


def words_of(html: str) -> str:
    """Return a page as a reader sees it, figures without their text."""
    seen = re.sub(r"<(style|svg|script)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", seen)).split())


def test_terms_of_pages_are_defined(documents: Documents, pages: dict[str, Path]) -> None:
    texts = [words_of(page.read_text()) for page in pages.values()]
    texts += [words_of(report_html(load(release))) for release in further(documents)]
    entries = dict(ROW.findall(GLOSSARY.read_text()))
    absent = [term for term in SAID if not any(re.search(term, text) for text in texts)]
    assert absent == [], "no page says it any more: name it here as pages write it now"
    assert set(SAID.values()) - entries.keys() == set()
    without = {word for word in {*SAID.values()} - OURS if not re.search(r"(?:19|20)\d\d", entries[word])}
    assert without == set(), "name the textbook or paper that it comes from"
    undefined = {term for term in NOT_SAID for text in texts if term in text}
    assert undefined == set(), "a page says it: define it in the glossary and move it to SAID"
