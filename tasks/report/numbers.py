"""Numbers and labels as the pages of reports write them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from causalveil.schemas.columns import labels_of
from causalveil.schemas.limits import number as number
from causalveil.schemas.plan import natural_order
from causalveil.schemas.study import Estimand

# The contrast of two arms.
TWO_SIDES = "treated minus controls"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SUPERSCRIPTED = re.compile("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]")
# Scores of a causal direction by name.
SCORES = {"hsic": "HSIC", "spearman": "Spearman's ρ", "kendall": "Kendall's τ", "iqr": "quartile range"}
# Letters in a line of a figure on a screen of 400 pixels, 13 pixels high.
ACROSS = 42
# A label longer than this leaves its numbers no room beside it.
LONGEST_LABEL = 20
# Names of ``schemas/questions.py``: the subgroup of units without a value, and all units.
MISSING, ALL_UNITS = "(missing)", "all units"


def arm_means(release: Mapping[str, Any]) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Return the arms' means with standard errors; None unless the estimate is their difference."""
    details = release.get("details") or {}
    values = next((row["values"] for row in release.get("answers") or ()), None)
    errors = [details.get(f"mean_{side}_error") for side in ("control", "treated")]
    if values is None or None in errors:
        return None
    pairs = zip(values, (float(error) for error in errors if error is not None), strict=True)
    control, treated = (_with_error(mean, error) for mean, error in pairs)
    return ("treated", treated), ("controls", control)


def _with_error(mean: float, error: float) -> str:
    around = {"lower": mean - 2 * error, "upper": mean + 2 * error}
    return f"{beside(mean, around)} ± {beside(error, around)} (standard error)"


def blocks_label(blocks: Sequence[str], most: int = 1) -> str:
    """Return names of blocks, oldest first; beyond ``most`` the first, the last, their number."""
    ordered = natural_order(blocks)
    return ", ".join(ordered) if len(ordered) <= most else f"{ordered[0]} … {ordered[-1]} ({len(ordered)})"


def figure(value: float | None) -> str:
    """Return a number with four digits, a minus sign, and an exponent beyond 1e-4 to 1e7."""
    if value is None:
        return "–"
    rounded = float(f"{value:.4g}")
    if rounded == 0:
        return "0"
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    if 1e-4 <= abs(rounded) < 1e4:
        digits = max(0, 3 - math.floor(math.log10(abs(rounded))))
        text = f"{rounded:,.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        mantissa, _, power = f"{rounded:.2e}".partition("e")
        text = _power(mantissa.rstrip("0").rstrip("."), str(int(power)))
    return text.replace("-", "−")


def within(value: float, lower: float, upper: float) -> str:
    """Return an estimate or an end of its interval for a terminal, with a page's decimals.

    >>> within(1.94, 1.86, 2.03), within(1.86, 1.86, 2.03)
    ('1.940', '1.860')
    """
    text = end_of(value, {"lower": lower, "upper": upper})
    return number(value) if SUPERSCRIPTED.search(text) else text.replace("−", "-")


def amount(value: float | Decimal) -> str:
    """Return an amount of budget exactly as declared: digits, or a power of ten."""
    # Here alone: a terminal writes numbers by this module, and `--help` must not pay for pydantic.
    from causalveil.schemas.privacy import amount_text, parse_amount

    text = amount_text(parse_amount(value))
    digits, _, power = text.partition("e")
    return _power(digits, power) if power else text


def _power(digits: str, power: str) -> str:
    """Return ``digits`` times ten to the ``power``."""
    raised = f"10{power.translate(SUPERSCRIPTS)}"
    return raised if digits == "1" else f"{digits}·{raised}"


def percent(share: float) -> str:
    """Return a share as percent of three digits; only 1 reads as 100%."""
    digits = f"{100 * share:.3g}"
    if digits == "100" and share < 1:
        digits = "more than 99.9"
    return f"{digits}%"


def confidence_level(confidence: float) -> str:
    """Return the confidence of an interval as percent, with all of its digits: .9875 is no 99%."""
    return f"{100 * confidence:.10g}%"


def beside(value: float, interval: Mapping[str, Any]) -> str:
    """Return a value with the decimals of two digits of its standard error, by its interval."""
    error = (interval["upper"] - interval["lower"]) / 4
    if not 0 < error < math.inf:
        return figure(value)
    decimals = 1 - math.floor(math.log10(error))
    if decimals > 8:
        return figure(value)
    text = f"{value:,.{max(decimals, 0)}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.lstrip("-")


def span(interval: Mapping[str, Any]) -> str:
    """Return an interval of confidence, as text."""
    return f"{end_of(interval['lower'], interval)} to {end_of(interval['upper'], interval)}"


def end_of(value: float, interval: Mapping[str, Any]) -> str:
    """Return an end of an interval as text; only 0 reads as 0.

    >>> span({"lower": -0.1493, "upper": -0.0004932})
    '−0.149 to −0.0005'
    """
    text = beside(value, interval)
    return text if value == 0 or set(text) & set("123456789") else figure(float(f"{value:.1g}"))


def p_value(value: float) -> str:
    """Return a p-value with two digits."""
    return figure(float(f"{value:.2g}"))


def risk(value: float, interval: Mapping[str, Any]) -> str:
    """Return a risk as percent, with the decimals of a difference's interval."""
    return f"{beside(100 * value, {end: 100 * interval[end] for end in ('lower', 'upper')})}%"


def near(value: float, error: float) -> str:
    """Return a value with the decimals of two digits of its standard error."""
    return beside(value, {"lower": value - 2 * error, "upper": value + 2 * error})


def at_time(value: float) -> str:
    """Return a time for a table's head, rounded to an integer from 100 on."""
    return f"{value:,.0f}" if value >= 100 else figure(value)


def counted_terms(names: str) -> str:
    """Return listed terms, each once with its count.

    >>> counted_terms("square of age, step of age, step of age")
    'square of age, step of age (2)'
    """
    counts = Counter(names.split(", "))
    return ", ".join(name if count == 1 else f"{name} ({count})" for name, count in counts.items())


def freedom(degrees: int) -> str:
    """Return degrees of freedom in words.

    >>> freedom(1)
    '1 degree of freedom'
    """
    return f"{counted(degrees, 'degree')} of freedom"


def axis_name(unit: str | None, sides: str = TWO_SIDES) -> str:
    """Return the label of an axis of effects, with the outcome's unit of measure if any."""
    return sides if unit is None else f"{sides}, in {shortened(unit)}"


def group_label(specification: Mapping[str, Any], group: str) -> str:
    """Return a subgroup's label, a code with the name of its column."""
    if group == ALL_UNITS:
        return all_of(specification)
    subgroups = specification.get("subgroups") or {}
    return _coded(subgroups.get("name"), subgroups.get("column") or {}, group)


def all_of(specification: Mapping[str, Any]) -> str:
    """Return the name of all units that a study is about.

    >>> all_of({"estimand": "ATT", "where": [{"column": "age"}]})
    'all eligible treated units'
    """
    among = Estimand(specification.get("estimand") or Estimand.ATE).adjective
    return " ".join(filter(None, ("all", "eligible" if specification.get("where") else "", among, "units")))


def each_unit(estimand: str, unit: str = "unit") -> str:
    """Return a name of any one of the units that an estimand is over.

    >>> each_unit("ATT")
    'every treated unit'
    """
    return " ".join(filter(None, ("every", Estimand(estimand).adjective, unit)))


WHOLE = frozenset(all_of({"estimand": estimand, "where": where}) for estimand in Estimand for where in (None, True))


def is_whole(group: str) -> bool:
    """Return whether a subgroup is all units that a study is about, by any of its names."""
    return group in WHOLE


def counted(count: int, thing: str) -> str:
    """Return a number of things; one of them stands in the singular.

    >>> counted(1, "answer"), counted(0, "answer")
    ('1 answer', '0 answers')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def arm_label(specification: Mapping[str, Any], arm: str) -> str:
    """Return an arm's label, a code with the name of the treatment."""
    arms, codes = specification.get("arms") or {}, specification.get("treatment_codes")
    return _coded(
        specification.get("treatment"), arms if arms else {"codes": codes or {"control": 0, "treated": 1}}, arm
    )


def place_label(specification: Mapping[str, Any], places: Sequence[str]) -> str:
    """Return the label of a subgroup, and of an arm; an arm of all units stands alone."""
    group = group_label(specification, places[0])
    return group if len(places) == 1 else in_place(group, arm_label(specification, places[1]))


def in_place(group: str, arm: str) -> str:
    """Return a subgroup and an arm in words; an arm of all units stands alone.

    >>> in_place("women", "none"), in_place("all units", "treated = 1")
    ('women, arm none', 'treated = 1')
    """
    named = named_arm(arm)
    return named if is_whole(group) else f"{group}, {named}"


def named_arm(arm: str) -> str:
    """Return an arm within a sentence: "arm" before a word, nothing before a code."""
    return arm if "=" in arm else f"arm {arm}"


def _coded(name: str | None, column: Mapping[str, Any], value: str) -> str:
    """Return ``name = value`` for a code without a name; a name or a word stands alone."""
    codes = column.get("codes") or {}
    levels = list(codes.values()) if codes else list(column.get("levels") or ())
    if name is None:
        return value
    if value == MISSING:
        return f"{name} missing"
    if column.get("names"):
        return labels_of(column).get(value, value)
    # Truth values are written 0 and 1.
    written = {str(int(level)) for level in levels if isinstance(level, int)}
    return f"{name} = {value}" if value in written else value


def shortened(label: str, longest: int = LONGEST_LABEL) -> str:
    """Return a label, cut to ``longest`` letters."""
    return label if len(label) <= longest else f"{label[: longest - 1]}…"


def broken(label: str, across: int = ACROSS) -> tuple[str, ...]:
    """Return a label as lines of a figure, broken after spaces, underscores and hyphens.

    >>> broken("number_of_previous_admissions", 20)
    ('number_of_previous_', 'admissions')
    """
    lines = [""]
    for part in re.findall(r"[^\s_/-]*[\s_/-]?", label):
        whole = part
        while len(lines[-1]) + len(whole.rstrip()) > across:
            room = across if not lines[-1] else 0
            lines[-1] += whole[:room]
            whole = whole[room:]
            lines.append("")
        lines[-1] += whole
    return tuple(line.strip() for line in lines if line.strip()) or ("",)


def verdict_of(interval: Mapping[str, Any]) -> str:
    """Return the sign by the interval: drowned, raises, lowers or open."""
    if interval["whole_range"]:
        return "drowned"
    if interval["lower"] > 0:
        return "raises"
    if interval["upper"] < 0:
        return "lowers"
    return "open"
