"""The page of the accuracy study: worst cells beside the best, what cells call themselves, `plan` beside measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from causalveil_replication.accuracy.later import LATER
from causalveil_replication.accuracy.measure import Job
from causalveil_replication.accuracy.methods import CONFIDENCES, EPSILONS, METHODS, UNITS
from causalveil_replication.accuracy.verdicts import LEAST, PLAN, kind, known, ratio, short, summary
from causalveil_replication.figures import markdown_table

Row = dict[str, Any]
# Methods that `auto` takes, whose every cell is listed; and how many cells stand among the best and worst.
LISTED = ("regression", "balancing")
EXTREMES = 15
MARK = "†"


def parts(
    rows: Sequence[Row], missing: Sequence[Job], absent: Sequence[str], titles: dict[str, str], pictures: Sequence[str]
) -> Iterable[str]:
    """The page, piece by piece.

    Args:
        rows: every cell.
        missing: jobs that were not computed.
        absent: a sentence for each public table that was not found.
        titles: of populations, by name.
        pictures: figures as Markdown.
    """
    yield "# Error, coverage and width of every estimator, and what `plan` expects"
    yield _head(rows, missing)
    yield from absent
    yield "## By estimator"
    yield (
        f"Over all populations, sizes and budgets. *Below {LEAST}*: cells whose 95 % interval holds the truth less "
        "often by more than two Monte-Carlo errors. Tables whose truth is not known (LaLonde, RHC and fertility as "
        "they are) count for widths alone. *Plan* at level label sees the runs' own covariates and treatments, which "
        "are public there, and no outcome; elsewhere it sees no row, and what a reader states of the population is "
        "taken to be right. *Or in its range*: many a plan prints between which half-widths the answer depends on what "
        f"nobody knows yet; the share of cells within {PLAN:.0%} or with the mean measured half-width between these "
        "two, and how far they lie apart: the median of high over low, and the widest."
    )
    private = [row for row in rows if METHODS[row["method"]].level]
    yield markdown_table([_named(method) | summary(some) for method, some in _by(private, "method")], {"cells": ".0f"})
    yield "## By what the release calls itself"
    yield markdown_table(
        [
            _named(method) | {"says": word} | summary([row for row in some if kind(row["says"]) == word])
            for method, some in _by(private, "method")
            for word in sorted({kind(row["says"]) for row in some if row["runs"]})
        ]
    )
    yield from pictures
    for method in LISTED:
        some = [row for row in private if row["method"] == method and known(row)]
        if some:
            yield from _extremes(method, some, titles)
    yield "## Cells that fail, of all estimators"
    yield (
        f"Cells that call themselves adjusted in any way, or say nothing, and are below {LEAST} by more than "
        "Monte-Carlo error: population by population, with the number of such cells and the worst."
    )
    yield _failures(private, titles)
    for method in LISTED:
        yield f"## `{METHODS[method].title}`, level {METHODS[method].level}: every cell"
        yield (
            "Root mean square error / coverage of the 95 % interval / plan over measured half-width. `a` adjusted, "
            f"`l` adjusted linearly, `p` partly adjusted, `u` unadjusted (allowing for confounding); **bold**: below "
            f"{LEAST} by more than Monte-Carlo error. {MARK}: written after the formulas were frozen."
        )
        yield _every([row for row in private if row["method"] == method], titles)
    yield "## Without privacy"
    yield "Error / coverage at 95 % of the same people; gradient boosting in two folds for double machine learning."
    yield _without(rows, titles)


def _head(rows: Sequence[Row], missing: Sequence[Job]) -> str:
    counts = Counter(int(row["runs"]) for row in rows if row["runs"])
    numbers = ", ".join(f"{count:,} cells of {runs}" for runs, count in sorted(counts.items()))
    errors = "A coverage of .95 has a standard error of " + ", ".join(
        f"{math.sqrt(0.95 * 0.05 / runs):.2f} over {runs}" for runs in sorted(counts)
    )
    text = (
        "    uv run --package causalveil-replication replicate accuracy --out docs/figures --data FOLDER\n\n"
        f"{len(rows):,} cells: {len({row['population'] for row in rows})} populations, up to "
        f"{len({row['units'] for row in rows})} sizes, budgets of epsilon {', '.join(EPSILONS)} (delta 1e-6 at sample "
        "level where an estimator takes one; label level and *delta 0* spend none). Every run draws new people and "
        "new, seeded noise; all methods of a cell see the same people. Each, with bias, median error and coverage "
        f"at {', '.join(f'{level:.0%}' for level in CONFIDENCES)}, is in [accuracy.csv](accuracy.csv).\n\n"
        f"Runs: {numbers}. {errors}; that of an error stands in the table (`error_mc`). Cells are "
        "kept as they were computed: delete `runs/` after an estimator changes."
    )
    if not missing:
        return text + " No cell is missing."
    sizes: dict[str, Counter[str]] = {}
    for job in missing:
        one = METHODS[job.method]
        name = f"{one.title}, {one.level}" if one.level else one.title
        size = f"{job.units:,}" if job.units in UNITS else "public tables"
        sizes.setdefault(name + (" (delta 0)" if job.method.endswith("-pure") else ""), Counter())[size] += 1
    lines = [
        f"- {name}: " + ", ".join(f"{count} populations of {size}" for size, count in counts.items())
        for name, counts in sizes.items()
    ]
    return text + "\n\n**Not computed:**\n\n" + "\n".join(lines)


def _named(method: str) -> Row:
    one = METHODS[method]
    pure = " (delta 0)" if method.endswith("-pure") else ""
    return {"estimator": f"`{one.title}`{pure}", "level": one.level}


def _by(rows: Sequence[Row], column: str) -> list[tuple[str, list[Row]]]:
    names = list(dict.fromkeys(row[column] for row in rows))
    return [(name, [row for row in rows if row[column] == name]) for name in names]


def _title(name: str, titles: dict[str, str]) -> str:
    return titles.get(name, name) + (f" {MARK}" if name in LATER else "")


def _cell(row: Row, titles: dict[str, str]) -> Row:
    return {
        "population": _title(row["population"], titles),
        "n": f"{row['units']:,.0f}",
        "epsilon": f"{row['epsilon']:g}",
        "says": row["says"],
        "runs": int(row["runs"]),
        "error": row["error"],
        "bias": row["bias"],
        "coverage 80": row["coverage_80"],
        "90": row["coverage_90"],
        "95": row["coverage_95"],
        "half-width": row["half_width"],
        "plan / measured": ratio(row),
        "plan warned": "yes" if row["warned"] else "no",
    }


def _extremes(method: str, rows: list[Row], titles: dict[str, str]) -> Iterable[str]:
    yield f"## `{METHODS[method].title}`, level {METHODS[method].level}: worst and best"
    yield f"The {EXTREMES} cells of lowest coverage (of equals the widest miss first):"
    ordered = sorted(rows, key=lambda row: (row["coverage_95"], -abs(row["bias"]) / max(row["half_width"], 1e-9)))
    yield markdown_table([_cell(row, titles) for row in ordered[:EXTREMES]])
    yield f"The {EXTREMES} narrowest of those that reach {LEAST}, against least squares on the same people:"
    good = [row for row in rows if row["coverage_95"] >= LEAST and row.get("plain", math.nan) > 0]
    near = sorted(good, key=lambda row: row["error"] / row["plain"])
    table = [_cell(row, titles) | {"error / least squares": row["error"] / row["plain"]} for row in near[:EXTREMES]]
    yield markdown_table(table) if table else "None."


def _failures(rows: Sequence[Row], titles: dict[str, str]) -> str:
    found = []
    for method, some in _by(rows, "method"):
        for population, cells in _by(some, "population"):
            failed = [row for row in cells if short(row)]
            if not failed:
                continue
            worst = min(failed, key=lambda row: row["coverage_95"])
            found.append(
                _named(method)
                | {
                    "population": _title(population, titles),
                    "cells below": f"{len(failed)} of {len(cells)}",
                    "says": ", ".join(sorted({kind(row["says"]) for row in failed})),
                    "worst": f"{worst['coverage_95']:.2f} at n {worst['units']:,.0f}, epsilon {worst['epsilon']:g}",
                    "`plan` warned of": sum(bool(row["warned"]) for row in failed),
                }
            )
    return markdown_table(found) if found else "None."


def _every(rows: Sequence[Row], titles: dict[str, str]) -> str:
    table = []
    for population, some in _by(rows, "population"):
        for units, cells in _by(some, "units"):
            line: Row = {"population": _title(population, titles), "n": f"{float(units):,.0f}"}
            for row in cells:
                line[f"epsilon {row['epsilon']:g}"] = _three(row)
            table.append(line)
    return markdown_table(table) if table else "None."


def _three(row: Row) -> str:
    if not row["runs"]:
        return "refused"
    coverage = "" if not known(row) else f"{row['coverage_95']:.2f}"
    coverage = f"**{coverage}**" if short(row) else coverage or "-"
    expected = "-" if math.isnan(ratio(row)) else f"{ratio(row):.2f}"
    return f"{row['error']:.2g} / {coverage} / {expected} {kind(row['says'])[0]}"


def _without(rows: Sequence[Row], titles: dict[str, str]) -> str:
    table = []
    for population, some in _by([row for row in rows if not METHODS[row["method"]].level], "population"):
        for units, cells in _by(some, "units"):
            line: Row = {"population": _title(population, titles), "n": f"{float(units):,.0f}"}
            for name in ("least-squares", "dml"):
                one = next((row for row in cells if row["method"] == name), None)
                line[METHODS[name].title] = f"{one['error']:.3g} / {one['coverage_95']:.2f}" if one else "-"
            table.append(line)
    return markdown_table(table) if table else "None."
