"""The tables of `replicate matching`, piece by piece; what is done is kept, so that it is done once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from causalveil_replication.competitors import packaged
from causalveil_replication.pieces import Value, is_kept, kept
from causalveil_replication.yuan2026 import costs as measured
from causalveil_replication.yuan2026 import runs, sweeps
from causalveil_replication.yuan2026.bound import bounds
from causalveil_replication.yuan2026.rivals import COMPETITORS, compare

Rows = list[dict[str, Value]]
Tables = dict[str, Rows]
# What is measured, and the file that holds it.
TABLES = {
    "errors": "matching-errors.csv",
    "competitors": "matching-competitors.csv",
    "coefficients": "matching-coefficients.csv",
    "allocations": "matching-allocations.csv",
    "bounds": "matching-bounds.csv",
    "costs": "matching-costs.csv",
    "several": "matching-several.csv",
}
# Draws of noise in every order of the units, where a draw costs nothing beside the fit; else one.
DRAWS = 4
# What takes long comes late, and has fewer orders of the units.
SLOW = ("privsyn", packaged.NAME, "aim", "auto_label")
ORDERS = {"aim": 5}
MANY, ORDERS_OF_MANY = 2_000, {"privsyn": 3, packaged.NAME: 3, "dpci": 3, "aim": 3}


@dataclass(frozen=True)
class Piece:
    """A part of a table on one data set; those of lower ``order`` are made first, on all data sets."""

    table: str
    name: str
    order: int
    make: Callable[[], Iterable[dict[str, object]]]
    # Whether what it needs is here; else it is read where it is kept, and left out where it is not.
    possible: bool = True

    def rows(self, out: Path, compute: bool) -> Rows | None:
        """Its rows, from ``out/runs`` or made now; None where they are not there and are not to be made."""
        return kept(out, self.name, self.make) if (compute and self.possible) or is_kept(out, self.name) else None


def pieces(
    prepared: runs.Prepared, folders: tuple[Path, ...], with_costs: bool, python: Path | None = None
) -> list[Piece]:
    """Every table on one data set, piece by piece.

    Args:
        prepared: the data set.
        folders: where it was found.
        with_costs: measure seconds and memory too.
        python: of an environment with a competitor's package.
    """
    found = [
        Piece("errors", "errors", 0, partial(runs.measure, prepared)),
        Piece("bounds", "bounds", 1, partial(bounds, prepared, runs.EPSILONS)),
        *(Piece("coefficients", level, 4, partial(sweeps.coefficients, prepared, level)) for level in runs.LEVELS),
        Piece("allocations", "allocations", 5, partial(sweeps.allocations, prepared)),
    ]
    for competitor in (*COMPETITORS, packaged.competitor(python)):
        slow = competitor.name in SLOW
        fewer = ORDERS_OF_MANY if prepared.data.frame.height > MANY else ORDERS
        some = replace(prepared, rows=prepared.rows[: fewer.get(competitor.name)])
        # Pieces of what is slow are smaller, since an hour may be lost.
        for epsilons in [(epsilon,) for epsilon in runs.EPSILONS] if slow else [runs.EPSILONS]:
            name = f"{competitor.name}-{epsilons[0]}" if slow else competitor.name
            draws = 1 if slow or competitor.ours else DRAWS
            make = partial(compare, some, competitor, epsilons, draws)
            possible = competitor.name != packaged.NAME or python is not None
            found.append(Piece("competitors", name, 2 + slow, make, possible))
        if with_costs and competitor.name in measured.MEASURED:
            cost = partial(measured.costs, prepared.data.name, folders, competitor.name)
            found.append(Piece("costs", f"cost-{competitor.name}", 6, cost))
    prefix = f"{prepared.data.name.lower()}-{len(prepared.rows)}"
    return [replace(piece, name=f"{prefix}-{piece.name}") for piece in found]


def made(
    out: Path, work: list[Piece], minutes: float | None, watch: Callable[[str], object]
) -> tuple[Tables, list[str]]:
    """Rows of every table, in the order of ``work``, and the pieces that there was no time for.

    Args:
        out: pieces are kept in ``out/runs``.
        work: what belongs to the tables.
        minutes: after so many nothing more is made; None: everything is.
        watch: told what is being made.
    """
    end = None if minutes is None else time.monotonic() + 60 * minutes
    rows: dict[str, Rows] = {}
    for piece in sorted(work, key=lambda one: one.order):
        watch(piece.name)
        # The page is about the first table, so it is made whatever the time.
        found = piece.rows(out, compute=piece.order == 0 or end is None or time.monotonic() < end)
        if found is not None:
            rows[piece.name] = found
    tables: Tables = {name: [] for name in TABLES}
    for piece in work:
        tables[piece.table] += rows.get(piece.name, [])
    return tables, [piece.name for piece in work if piece.name not in rows and piece.possible]
