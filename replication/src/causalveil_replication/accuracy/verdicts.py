"""What a cell of the accuracy study calls itself, and whether its interval holds what it promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from causalveil_replication.accuracy.measure import SILENT

Row = dict[str, Any]
# Coverage that a nominal 95 % interval must reach, and how far `plan` may be off.
LEAST, PLAN = 0.93, 0.15
# Standard errors of a coverage that many runs leave in doubt.
DOUBT = 2.0
# Populations whose outcome or treatment no line follows: an interval that is called linear promises nothing there.
CURVED = ("curved8", "interaction6", "varying5", "skewed6", "binary11", "logged6", "zeros5", "rhc-simulated", "ihdp")
# As they are: what an interval holds there is least squares, so coverage says little.
WITHOUT_TRUTH = ("lalonde", "rhc", "fertility")


def kind(says: str) -> str:
    """What a release calls its estimate: adjusted, linearly, partly, unadjusted, randomised, silent, or refused."""
    if says.startswith("refused"):
        return "refused"
    if says in ("", SILENT):
        return "silent"
    if says.startswith("not adjusted"):
        return "randomised"
    if says.startswith("unadjusted"):
        return "unadjusted"
    if says.startswith("partly"):
        return "partly"
    return "linearly" if "linear" in says else "adjusted"


def doubt(row: Row) -> float:
    """The Monte-Carlo standard error of a coverage of ``LEAST`` over the cell's runs."""
    return math.sqrt(LEAST * (1 - LEAST) / row["runs"]) if row["runs"] else math.nan


def known(row: Row) -> bool:
    """Whether the cell answered, and its truth is known."""
    return bool(row["runs"]) and row["population"] not in WITHOUT_TRUTH


def short(row: Row) -> bool:
    """Whether coverage at 95 % lies below ``LEAST`` by more than Monte-Carlo error."""
    return known(row) and bool(row["coverage_95"] < LEAST - DOUBT * doubt(row))


def ratio(row: Row) -> float:
    """Expected over mean measured half-width; NaN where `plan` has none."""
    planned, measured = row.get("planned", math.nan), row["half_width"]
    return planned / measured if measured and measured > 0 else math.nan


def honest(row: Row) -> bool:
    """Whether `plan` is within ``PLAN``."""
    return bool(abs(ratio(row) - 1) <= PLAN)


def foretold(row: Row) -> bool:
    """Whether it is, or the mean measured half-width lies in the range that `plan` prints."""
    low, high = row.get("planned_low", math.nan), row.get("planned_high", math.nan)
    return honest(row) or bool(low <= row["half_width"] <= high)


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Of some cells: how many, how many are short, the worst, and what `plan` said of them."""
    told = [row for row in rows if known(row)]
    ratios = sorted(ratio(row) for row in rows if row["runs"] and not math.isnan(ratio(row)))
    ranges = sorted(row["planned_high"] / row["planned_low"] for row in rows if row.get("planned_low", math.nan) > 0)
    worst = min(told, key=lambda row: row["coverage_95"], default=None)
    return {
        "cells": len(rows),
        "refused": sum(kind(row["says"]) == "refused" for row in rows),
        "coverage, mean": sum(row["coverage_95"] for row in told) / len(told) if told else math.nan,
        "worst": worst["coverage_95"] if worst else math.nan,
        f"below {LEAST}": sum(map(short, rows)),
        "of these `plan` warned": sum(short(row) and bool(row["warned"]) for row in rows),
        "plan / measured, median": ratios[len(ratios) // 2] if ratios else math.nan,
        f"within {PLAN:.0%}": sum(map(honest, rows)) / len(ratios) if ratios else math.nan,
        "or in its range": sum(map(foretold, rows)) / len(ratios) if ratios else math.nan,
        "range, high / low": ranges[len(ranges) // 2] if ranges else math.nan,
        "widest": ranges[-1] if ranges else math.nan,
    }
