"""`replicate direction`: the experiments of Kusner et al. 2016, with this code and seeded noise.

Table 2 and Figures 1 and 2 of the paper, on 99 public pairs whose direction is known in place of ten of a competition:
how often each score is right, without privacy and at each epsilon, beside the paper's sensitivities; HSIC over
penalties at training-set privacy; IQR's null rate; references without privacy; neighbours; and the theorems, measured.
Everything runs through ``tasks.estimate.papers.direction``, as a study does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causalveil.flows.cli import show
from causalveil.tasks.machine.distribute import in_steps

if TYPE_CHECKING:
    from causalveil_replication.kusner2016.pairs import CausePair
    from causalveil_replication.kusner2016.runs import Row

SWEEP_EPSILONS = ("0.1", "1", "2", "10")
PENALTIES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
# Penalty and bandwidth of every table; and what else was tried without privacy.
SETTINGS = tuple((penalty, bandwidth) for penalty in (0.001, 0.01, 0.1) for bandwidth in (0.1, 0.2, 0.5))
RATIOS = (0.5, 1.0, 2.0)
# Pairs of the sweep have about as many units as the paper's, which have 7,700 to 7,900.
SWEEP_UNITS = 4_000


def direction(
    out: Annotated[Path, typer.Option(help="folder for tables, page and figures; created", show_default=False)],
    data: Annotated[
        Path | None, typer.Option(help="folder with Tuebingen_pairs.csv, in it or below; see the page")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, max=1000, help="splits of every pair into halves")] = 10,
    draws: Annotated[int, typer.Option(min=100, help="draws for each check of a theorem")] = 10_000,
) -> None:
    """How often private scores find the cause in 99 pairs where it is known (Kusner et al. 2016).

    Rows of a pair are kept in OUT/runs, so that an interrupted command goes on there; delete that folder to start anew.
    """
    from causalveil.tasks.machine.distribute import one_thread
    from causalveil_replication.figures import write_page
    from causalveil_replication.kusner2016 import page
    from causalveil_replication.kusner2016.claims import look_rows, release_rows
    from causalveil_replication.kusner2016.neighbours import neighbour_rows
    from causalveil_replication.kusner2016.pairs import SOURCE, load_pairs
    from causalveil_replication.kusner2016.runs import rehearse_theorems
    from causalveil_replication.kusner2016.tables import Results, write_tables

    pairs = [] if data is None else load_pairs(data)
    # Systems of fifty equations: a second thread costs more than it gives.
    with one_thread(), show.progress() as watch:
        watch("scores of pairs")
        tests, references, nulls = score_pairs(pairs, splits, out / "runs")
        watch("HSIC over penalties")
        sweep = sweep_penalties(pairs, tests, splits, out / "runs") if pairs else []
        watch("other settings")
        settings = try_settings(pairs, splits, out / "runs")
        theorems = rehearse_theorems(RATIOS, draws)
    claims = neighbour_rows(), release_rows(draws), look_rows()
    found = Results(pairs, tests, sweep, settings, theorems, splits, draws, references, nulls, *claims)
    write_tables(out, found)
    if pairs:
        page.draw(out, found)
    else:
        show.line(f"Everything on pairs is left out: no folder is named by --data. Wanted is {SOURCE}.")
    write_page(out / "direction.md", page.parts(found))
    show.line(f"Written: {out / 'direction.md'}")


def score_pairs(pairs: list[CausePair], splits: int, kept: Path) -> tuple[list[Row], list[Row], list[Row]]:
    """Scores with noise, references without, and null rates, of every pair."""
    from causalveil_replication.kept import kept_rows
    from causalveil_replication.kusner2016.references import rehearse_nulls, rehearse_references, rehearse_whole
    from causalveil_replication.kusner2016.runs import rehearse_test

    tests: list[Row] = []
    references: list[Row] = []
    nulls: list[Row] = []
    for number, pair in enumerate(in_steps(pairs, len(pairs))):

        def scores(pair: CausePair = pair, number: int = number) -> list[Row]:
            every = range(splits)
            return [row for split in every for row in rehearse_test(pair, split, seed=number * splits + split)]

        def without(pair: CausePair = pair) -> list[Row]:
            return [r for split in range(splits) for r in rehearse_references(pair, split)] + rehearse_whole(pair)

        def null(pair: CausePair = pair) -> list[Row]:
            return [row for split in range(splits) for row in rehearse_nulls(pair, split)]

        tests += kept_rows(kept / f"direction-scores-{pair.key}-{splits}.json", scores)
        references += kept_rows(kept / f"direction-references-{pair.key}-{splits}.json", without)
        nulls += kept_rows(kept / f"direction-nulls-{pair.key}-{splits}.json", null)
    return tests, references, nulls


def sweep_penalties(pairs: list[CausePair], tests: list[Row], splits: int, kept: Path) -> list[Row]:
    """HSIC at training-set privacy over penalties, on large pairs where it is right in every split without privacy."""
    from causalveil_replication.kept import kept_rows
    from causalveil_replication.kusner2016.runs import always_right, rehearse_training

    chosen = always_right(tests, "hsic")
    large = [pair for pair in pairs if pair.name in chosen and len(pair.rows) >= SWEEP_UNITS]
    rows: list[Row] = []
    for number, pair in enumerate(in_steps(large, len(large))):

        def sweep(pair: CausePair = pair, number: int = number) -> list[Row]:
            return [
                row
                for split in range(splits)
                for row in rehearse_training(pair, split, PENALTIES, SWEEP_EPSILONS, seed=number * splits + split)
            ]

        rows += kept_rows(kept / f"direction-penalties-{pair.key}-{number}-{splits}.json", sweep)
    return rows


def try_settings(pairs: list[CausePair], splits: int, kept: Path) -> list[Row]:
    """Accuracy of every score without privacy at other penalties and bandwidths."""
    from causalveil_replication.kept import kept_rows
    from causalveil_replication.kusner2016.runs import rehearse_scores

    by_pair = []
    for pair in in_steps(pairs, len(pairs)):

        def tried(pair: CausePair = pair) -> list[Row]:
            return [
                {"penalty": penalty, "bandwidth": bandwidth, **row}
                for penalty, bandwidth in SETTINGS
                for split in range(min(splits, 2))
                for row in rehearse_scores(pair, split, bandwidth, penalty)
            ]

        by_pair.append(kept_rows(kept / f"direction-settings-{pair.key}-{min(splits, 2)}.json", tried))
    # Setting by setting, as the table has them.
    return [
        row for place in SETTINGS for rows in by_pair for row in rows if (row["penalty"], row["bandwidth"]) == place
    ]
