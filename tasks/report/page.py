"""A release, a plan or a series as a page for people.

Self-contained HTML without network; nothing that is not in the release. The templates in ``tasks/report/templates/``
hold the words; this module gathers their facts. An estimator without a template of its own is shown by the general one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalveil.schemas.columns import levels_text
from causalveil.schemas.confounding import declares_randomised
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.ledger import UNANCHORED
from causalveil.schemas.plan import Plan
from causalveil.schemas.release import DirectionRelease, EffectRelease, EffectTable, Release
from causalveil.schemas.sites.pooled import Published, Series
from causalveil.schemas.specification import one_outcome, outcomes_of
from causalveil.schemas.study import Estimand
from causalveil.schemas.where import condition_words, where_words
from causalveil.tasks.report.details import PLACEHOLDER, as_used, detail_rows, estimand_of, guidelines_context
from causalveil.tasks.report.facts import bounds_text, further_words, takes_parallel_trends
from causalveil.tasks.report.figures import Axis, Line, waterfalls
from causalveil.tasks.report.numbers import (
    SCORES,
    amount,
    at_time,
    beside,
    blocks_label,
    confidence_level,
    counted_terms,
    each_unit,
    end_of,
    figure,
    freedom,
    in_place,
    near,
    p_value,
    percent,
    risk,
    shortened,
    span,
)
from causalveil.tasks.report.panel import out_of_balance, runs_left
from causalveil.tasks.report.robustness import robustness_context
from causalveil.tasks.report.table import context_of, forest_of_parts, labelled, lost_within, place_of, sites_context
from causalveil.tasks.report.times import curves_context

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("templates")


def populations_of(specification: Mapping[str, Any]) -> dict[str, str]:
    """Return by estimand the units that an answer is an average over, in words."""
    among = where_words(specification)
    over = {str(estimand): f"the {estimand.adjective}" if estimand.adjective else "all" for estimand in Estimand}
    which = f"units{f' where {among}' if among else ''}{further_words(specification)}"
    return {name: f"over {every} {which}" for name, every in over.items()}


def report_html(release: Published, contract: Contract | None = None) -> str:
    """Return the page of a release of any kind.

    Args:
        release: as loaded from release.json.
        contract: the owner's, whose descriptions of columns and rows the reporting guidelines then have.

    Returns:
        One HTML document: styles and figures inside, no script, no reference to anything outside.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    return _render(release, "style.css", contract)


def head_html(release: Published) -> str:
    """Return the head of a report as HTML for a notebook.

    It holds the question, the answer with its figure, and the guarantee.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    return _render(release, "notebook.css", fragment=True)


def plan_html(plan: Plan, specification: Mapping[str, Any]) -> str:
    """Return a plan as HTML for a notebook.

    It holds the question, what to expect if the plan says so, and every charge.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    context = {
        "p": plan,
        "r": {"estimand": specification.get("estimand")},
        "spec": specification,
        "one_outcome": one_outcome(specification),
        "css": style("notebook.css"),
        "populations": populations_of(specification),
    }
    return environment().get_template("plan.html.j2").render(context)


def series_html(series: Series) -> str:
    """Return a series as one HTML document without references to anything outside.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    series = labelled(series)
    places = [(row.group, row.arm) for row in series.answers]
    rows = [
        (
            f"{row.outcome}, {place_of(places, row.group, row.arm, row.reference)}",
            row,
            forest_of_parts(series, row),
        )
        for row in series.answers
    ]
    asks = as_used(series.specification)
    context = {
        "series": series,
        "rows": rows,
        "spec": asks,
        "arms": _arms(asks["estimator"]),
        "codes": asks.get("treatment_codes") or {"control": 0, "treated": 1},
        "over": populations_of(asks)[str(asks.get("estimand", "ATE"))],
        "lost_within": lost_within(asks),
        "changes": takes_parallel_trends(series.not_covered),
        "likelihood": likelihood(series.privacy.epsilon),
        "css": style("style.css"),
    }
    return environment().get_template("series.html.j2").render(context)


def style(name: str) -> str:
    """Return a style sheet.

    Raises:
        CausalveilError: this installation lacks it.
    """
    if not (TEMPLATES / name).exists():
        raise CausalveilError(f"this installation of causalveil lacks its report's {name}; install a whole wheel")
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _render(release: Published, sheet: str, contract: Contract | None = None, fragment: bool = False) -> str:
    """Return the whole page of a release, or its head."""
    release = labelled(release)
    document = release.model_dump(mode="json")
    document["specification"] = as_used(document["specification"])
    arms = _arms(document["specification"]["estimator"])
    context: dict[str, Any] = {
        "r": document,
        "spec": document["specification"],
        "one_outcome": one_outcome(document["specification"]),
        "fragment": fragment,
        "css": style(sheet),
        "populations": populations_of(document["specification"]),
        "changes": takes_parallel_trends(getattr(release, "not_covered", ())),
        "bounds": _bounds(document["specification"], arms),
        "arms": arms,
        "likelihood": likelihood(release.privacy.epsilon),
        "codes": document["specification"].get("treatment_codes") or {"control": 0, "treated": 1},
        "unit_of": document.get("units_of_measure", {}),
        "done": _done(release),
        "approval": _approval(release),
        "unanchored": UNANCHORED,
        "approvals": _approvals(release),
        "estimand": estimand_of(document),
        "signed": getattr(release, "terms", None),
        **guidelines_context(release, document, arms, contract),
        **_of_kind(release, document),
    }
    return environment().get_template(f"{release.kind}.html.j2").render(context)


def _done(release: Published) -> tuple[str, ...]:
    """Return the sentences on confounding of the first answer."""
    statement = release.answers[0].confounding if isinstance(release, EffectTable) else None
    return () if statement is None else tuple(statement.sentences)


def _approval(release: Published) -> str:
    """Return the sentence on who had to approve a run's release."""
    return release.approval.words if isinstance(release, Release) and release.approval else ""


def _approvals(release: Published) -> list[tuple[str, str]]:
    """Return the sentence on who had to approve each site's release, by site."""
    if isinstance(release, Release):
        return []
    unsaid = "Its release does not say; the site's ledger does."
    return [(site.site, unsaid if site.approval is None else site.approval.words) for site in release.sites]


def _of_kind(release: Published, document: dict[str, Any]) -> dict[str, Any]:
    """Return the context of a page of this kind beside the release itself."""
    context = _single(release, document) if isinstance(release, Release) else sites_context(release)
    if isinstance(release, EffectTable):
        context |= context_of(release) | curves_context(release)
    return context


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates of reports, with their filters for numbers."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    from markupsafe import Markup, escape

    def coded(text: str) -> Markup:
        """Write text between backticks as code."""
        return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))

    made.filters |= {
        "figure": figure,
        "amount": amount,
        "beside": beside,
        "near": near,
        "freedom": freedom,
        "at_time": at_time,
        "span": span,
        "end_of": end_of,
        "risk": risk,
        "words": lambda name: str(name).replace("_", " "),
        "confidence_level": confidence_level,
        "percent": percent,
        "shortened": shortened,
        "coded": coded,
        "blocks": blocks_label,
        "p_value": p_value,
        "among": where_words,
        "place": lambda row: in_place(row["group"], row["arm"]),
        "runs_left": runs_left,
        "at_least_tenth": lambda share: percent(share) if share >= 0.001 else "less than 0.1%",
        "counted_terms": counted_terms,
        "each_unit": each_unit,
        "score_name": lambda name: (SCORES.get(str(name)) or str(name)).replace("'", "’"),
    }
    return made


def _single(release: Release, document: dict[str, Any]) -> dict[str, Any]:
    """Return the context of the page of one run beside the release itself."""
    tested = isinstance(release, DirectionRelease)
    halves = {"train": "training half", "estimation": "test half" if tested else "estimation half"}
    titles = {half: f"a unit of the {name}" for half, name in halves.items()}
    falls = waterfalls(release.privacy.charges, release.privacy.epsilon, amount, titles)
    context: dict[str, Any] = {
        "waterfalls": falls,
        "halves": halves,
        "details": detail_rows(document),
    }
    if isinstance(release, DirectionRelease):
        context |= _direction(release)
    if isinstance(release, EffectRelease):
        context |= robustness_context(release)
        context["unlike"] = unlike_words(release)
        context["clustered"] = release.clusters
    return context


def unlike_words(release: EffectRelease) -> str:
    """Return that arms of a trial differ beyond chance and noise; empty where they do not."""
    names = str(release.details.get("unlike", ""))
    if not names:
        return ""
    return (
        f"{out_of_balance(names)} All: {names}. Was treatment randomised, and are all randomised units here? The "
        "answer is adjusted for these columns; what else parts the arms it does not know."
    )


def _direction(release: DirectionRelease) -> dict[str, Any]:
    """Return the verdict on a scale from one direction to the other."""
    weight = release.verdict.weight
    line = Line("All scores together", figure(weight), weight, min(weight, 0.0), max(weight, 0.0), 0.4)
    return {"lines": [line], "axis": Axis(-1.0, 1.0)}


def likelihood(epsilon: Decimal) -> str:
    """Return e^epsilon in two digits, or in more where it would read as 1."""
    factor = math.exp(min(float(epsilon), 700.0))
    if factor < 1.05:
        return f"{1 + math.ceil(1e4 * math.expm1(float(epsilon))) / 1e4:.4f}".rstrip("0")
    return figure(float(f"{factor:.2g}"))


def _bounds(specification: Mapping[str, Any], arms: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the bounds that the study declares: (role, column, bounds)."""
    rows = []
    outcome = one_outcome(specification)
    several = outcomes_of(specification) if outcome is None else [{**outcome, "role": "outcome"}]
    if several and "horizon" in several[0]:
        first = several[0]
        horizons = " and ".join(figure(at) for at in sorted({outcome["horizon"] for outcome in several}))
        # With several sites follow-up and the code of censoring differ by contract.
        own = str(first["censoring"]).startswith(PLACEHOLDER)
        longest = "" if own else f"0 to {figure(first['upper'])}, "
        rows.append(("time", first["time"], f"{longest}compared until {horizons}"))
        if first.get("entry"):
            rows.append(("entry", first["entry"], "at risk from then on"))
        events = dict.fromkeys(event for outcome in several for event in outcome["of"])
        lost = "" if own else f"; censored: {first['censoring']}"
        rows.append(("event", first["event"], f"{', '.join(events)}{lost}"))
    else:
        rows += [(outcome["role"].replace("_", " "), outcome["name"], _range(outcome)) for outcome in several]
    groups = specification.get("subgroups")
    if groups and "levels" in groups["column"]:
        rows.append(("subgroups", groups["name"], levels_text(groups["column"])))
    for outcome in specification.get("where") or ():
        rows.append(("eligible", outcome["column"], condition_words(outcome, column=False)))
    for role, variable in (specification.get("pair") or {}).items():
        rows.append((role, variable["name"], _range(variable)))
    for name, covariate in (specification.get("covariates") or {}).items():
        listed = covariate.get("levels") is not None
        rows.append(("covariate", name, levels_text(covariate) if listed else _range(covariate)))
    # Rows must meet the declared bounds of unused columns, too.
    rows += [("not used", name, bounds_text(outcome)) for name, outcome in (specification.get("unused") or {}).items()]
    clip = arms["clip"]
    if clip:
        rows.append(("clipped", "propensity score", f"{figure(clip[0])} to {figure(clip[1])}"))
    return rows


def _arms(estimator: Mapping[str, Any]) -> dict[str, Any]:
    """Return how units came into the arms.

    ``randomised`` and ``chance`` as the study declares; ``clip`` of scores, if any.

    With a known chance no score is fitted, so there is no clip.
    """
    propensity = estimator.get("propensity") or {}
    chance = propensity.get("known")
    return {
        "randomised": declares_randomised(estimator),
        "chance": chance,
        "clip": None if chance is not None else estimator.get("clip") or propensity.get("clip"),
    }


def _range(bounds: Mapping[str, Any]) -> str:
    codes = bounds.get("codes")
    if codes:
        return f"{codes['no']} or {codes['yes']}"
    return f"{figure(bounds['lower'])} to {figure(bounds['upper'])}"
