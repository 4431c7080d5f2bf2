"""The tables of `replicate direction`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from causalveil.tasks.report.figures import write_table
from causalveil_replication.kusner2016.pairs import SIZES
from causalveil_replication.kusner2016.runs import Row, always_right, summarise

if TYPE_CHECKING:
    from causalveil_replication.kusner2016.pairs import CausePair

SCORES = ("spearman", "kendall", "hsic", "iqr")
VARIANTS = {"ours": "this code", "paper": "the paper's sensitivities"}
SHOWN_EPSILONS = (0.1, 1.0, 2.0)


@dataclass(frozen=True)
class Results:
    """Everything that was measured; rows as ``runs.py`` gives them."""

    pairs: list[CausePair]
    tests: list[Row]
    sweep: list[Row]
    settings: list[Row]
    theorems: list[Row]
    splits: int
    draws: int
    references: list[Row] = field(default_factory=list)
    nulls: list[Row] = field(default_factory=list)
    neighbours: list[Row] = field(default_factory=list)
    releases: list[Row] = field(default_factory=list)
    looks: list[Row] = field(default_factory=list)

    @cached_property
    def exact(self) -> list[Row]:
        """One row a pair, split and score: is it right without privacy?"""
        first = self.tests[0]
        return [row for row in self.tests if (row["epsilon"], row["variant"]) == (first["epsilon"], first["variant"])]

    @cached_property
    def accuracy(self) -> list[Row]:
        """Accuracy by score, epsilon, variant and class of size; epsilon infinity: no privacy."""
        rows: list[Row] = []
        for size in ("all", *SIZES):
            exact, private = (_of(part, size) for part in (self.exact, self.tests))
            if exact:
                rows += [
                    {"size": size, "variant": "none", "epsilon": float("inf"), **row}
                    for row in summarise(exact, ["score"], "right")
                ]
                rows += [{"size": size, **row} for row in summarise(private, ["score", "epsilon", "variant"])]
        return rows

    @cached_property
    def easy(self) -> list[Row]:
        """As ``accuracy``, over the pairs where the score is right in every split without privacy."""
        rows: list[Row] = []
        for score in SCORES:
            chosen = always_right(self.tests, score)
            kept = [row for row in self.tests if row["score"] == score and row["pair"] in chosen]
            rows += summarise(kept, ["score", "epsilon", "variant"]) if kept else []
        return rows

    @cached_property
    def penalties(self) -> list[Row]:
        """Accuracy by penalty, epsilon and variant, at training-set privacy."""
        if not self.sweep:
            return []
        exact = {row["penalty"]: row["accuracy"] for row in summarise(self.sweep, ["penalty"], "right")}
        rows = summarise(self.sweep, ["penalty", "epsilon", "variant"])
        return [{**row, "without_privacy": exact[row["penalty"]]} for row in rows]


def _of(rows: list[Row], size: str) -> list[Row]:
    return [row for row in rows if size in ("all", row["size"])]


def write_tables(out: Path, found: Results) -> None:
    """Every table as CSV; without pairs those that need none."""
    write_table(out / "direction-theorems.csv", [_rounded(row) for row in found.theorems])
    write_table(out / "direction-neighbours.csv", [_rounded(row) for row in found.neighbours])
    write_table(out / "direction-releases.csv", [_rounded(row) for row in found.releases])
    write_table(out / "direction-looks.csv", [_rounded(row) for row in found.looks])
    if not found.pairs:
        return
    write_table(out / "direction-references.csv", [_rounded(row) for row in reference_rows(found)])
    write_table(out / "direction-null.csv", [{**_rounded(row), "delta": row["delta"]} for row in null_rows(found)])
    columns = ["size", "score", "epsilon", "variant", "pairs", "accuracy", "by_source", "error"]
    columns += ["drawn", "answered", "kept"]
    accuracy = [{name: _short(row.get(name)) for name in columns} for row in found.accuracy]
    write_table(out / "direction-accuracy.csv", accuracy)
    write_table(out / "direction-pairs.csv", pair_rows(found))
    write_table(out / "direction-settings.csv", [_rounded(row) for row in setting_rows(found)])
    write_table(out / "direction-penalty.csv", [_rounded(row) for row in found.penalties])


def main_rows(found: Results) -> list[Row]:
    """Every score without privacy and at three epsilons, over all pairs."""
    rows: list[Row] = []
    for score in SCORES:
        mine = [row for row in found.accuracy if row["score"] == score and row["size"] == "all"]
        plain = next(row for row in mine if row["variant"] == "none")
        rows.append(_line(score, "without privacy", None, plain))
        for variant, label in VARIANTS.items():
            for row in mine:
                if row["variant"] == variant and row["epsilon"] in SHOWN_EPSILONS:
                    rows.append(_line(score, label, row["epsilon"], row))
    return rows


def _line(score: str, label: str, epsilon: float | None, row: Row) -> Row:
    return {
        "score": score,
        "noise": label,
        "epsilon": "-" if epsilon is None else f"{epsilon:g}",
        "P(right)": row["accuracy"],
        "by source": row["by_source"],
        "its error": row["error"],
        "drawn": row.get("drawn"),
        "P(answer)": row.get("answered"),
        "P(order kept)": row.get("kept"),
    }


def reference_rows(found: Results) -> list[Row]:
    """Every reference without privacy, over all pairs."""
    return summarise(found.references, ["reference"], "right")


def null_rows(found: Results) -> list[Row]:
    """P(no answer) of IQR by delta, epsilon and variant: over all pairs, and over those that IQR always gets right.

    ``never``: the share of splits in which no answer is less likely than 1 in 10,000, what the paper could see.
    """
    right = always_right(found.tests, "iqr")
    places = dict.fromkeys((row["epsilon"], row["delta"], row["variant"]) for row in found.nulls)
    rows = []
    for place in places:
        mine = [row for row in found.nulls if (row["epsilon"], row["delta"], row["variant"]) == place]
        good = [row["null"] for row in mine if row["pair"] in right]
        every = [row["null"] for row in mine]
        rows.append(
            {
                **dict(zip(("epsilon", "delta", "variant"), place, strict=True)),
                "splits": len(every),
                "null": sum(every) / len(every),
                "never": sum(one < 1e-4 for one in every) / len(every),
                "null_where_right": sum(good) / len(good) if good else None,
            }
        )
    return sorted(rows, key=lambda row: (row["epsilon"], row["delta"]))


def size_rows(found: Results) -> list[Row]:
    """Every score by class of size, without privacy and at epsilon 1."""
    rows = []
    for size in SIZES:
        mine = [row for row in found.accuracy if row["size"] == size]
        if not mine:
            continue
        line: Row = {"units": size, "pairs": mine[0]["pairs"]}
        for score in SCORES:
            plain = next(row for row in mine if row["score"] == score and row["variant"] == "none")
            noisy = next(row for row in mine if (row["score"], row["variant"], row["epsilon"]) == (score, "ours", 1.0))
            line |= {score: plain["accuracy"], f"{score}, epsilon 1": noisy["accuracy"]}
        rows.append(line)
    return rows


def best_rows(found: Results) -> list[Row]:
    """The best penalty at each epsilon."""
    rows = []
    for epsilon in sorted({row["epsilon"] for row in found.penalties}):
        for variant, label in VARIANTS.items():
            mine = [row for row in found.penalties if (row["epsilon"], row["variant"]) == (epsilon, variant)]
            best = max(mine, key=lambda row: row["accuracy"])
            rows.append(
                {
                    "epsilon": f"{epsilon:g}",
                    "noise": label,
                    "best penalty": best["penalty"],
                    "P(right)": best["accuracy"],
                    "without privacy there": best["without_privacy"],
                    "pairs": best["pairs"],
                }
            )
    return rows


def setting_rows(found: Results) -> list[Row]:
    """Accuracy without privacy, one line a penalty and bandwidth, one column a score."""
    lines: dict[tuple[float, float], Row] = {}
    for row in summarise(found.settings, ["penalty", "bandwidth", "score"], "right"):
        place = (row["penalty"], row["bandwidth"])
        lines.setdefault(place, {"penalty": place[0], "bandwidth": place[1]})[row["score"]] = row["accuracy"]
    return list(lines.values())


def pair_rows(found: Results) -> list[Row]:
    """One line a pair: every score without privacy and at epsilon 1."""
    lines: dict[str, Row] = {
        pair.name: {
            "pair": pair.name,
            "units": len(pair.rows),
            "source_weight": _short(pair.weight),
            "x_causes_y": pair.x_causes_y,
        }
        for pair in found.pairs
    }
    for row in summarise(found.exact, ["pair", "score"], "right"):
        lines[row["pair"]][row["score"]] = _short(row["accuracy"])
    at_one = [row for row in found.tests if row["epsilon"] == 1.0]
    for row in summarise(at_one, ["pair", "score", "variant"]):
        lines[row["pair"]][f"{row['score']}_epsilon_1_{row['variant']}"] = _short(row["accuracy"])
    return list(lines.values())


def _short(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def _rounded(row: Row) -> Row:
    return {name: _short(value) for name, value in row.items()}
