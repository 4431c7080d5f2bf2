"""The experiments of Schröder, Hartenstein and Feuerriegel (2025) beside ours."""

from __future__ import annotations

from causalveil.flows.papers.items import Item, Paper
from causalveil.flows.papers.schroeder2025.data import DATASET_1, DATASET_2, TRIAL, Population
from causalveil.flows.papers.schroeder2025.runs import DIFFERENCE, KERNEL, LEVELS, NETWORK, Analysis
from causalveil.flows.papers.schroeder2025.tables import PAPER_COVERAGE, PAPER_RHC

COMMAND = "causalveil replicate intervals --out docs/figures"
WITH_DATA = f"{COMMAND} --data FOLDER"
NOT_YET = "not made yet"
METHODS = {"Kernel": KERNEL, "NN": NETWORK}


def _coverage(name: str, population: Population, method: Analysis, units: int, printed_runs: int, reason: str) -> Item:
    """Coverage at 80, 90 and 95 %."""
    return Item(
        name,
        COMMAND,
        "intervals.csv",
        {"data": population.title, "units": str(units), "method": method.title},
        ("level", tuple(map(str, LEVELS))),
        "coverage",
        share=True,
        printed=PAPER_COVERAGE[population.name, method.name],
        printed_runs=printed_runs,
        reason=reason,
        form=".3f",
    )


SCHROEDER = Paper(
    "Schröder, Hartenstein, Feuerriegel (2025): PrivATE, private confidence intervals",
    "intervals.md",
    (
        *(
            _coverage(f"Table 1: {data.title}, private, {name}", data, method, 3_000, 500, "")
            for data in (DATASET_1, DATASET_2)
            for name, method in METHODS.items()
        ),
        Item("Table 1: standard intervals", reason=NOT_YET),
        Item("Table 1: naive intervals", reason=NOT_YET),
        Item("Figure 4: width over epsilon", reason=NOT_YET),
        Item("Figure 4: width over n", reason=NOT_YET),
        Item(
            "Table 2: right heart catheterisation, half-width at 95 %, epsilon .1 .25 .5",
            WITH_DATA,
            "interval-rhc.csv",
            {"method": KERNEL.title},
            ("epsilon", tuple(PAPER_RHC)),
            "half_width",
            printed=tuple(PAPER_RHC.values()),
            reason="ours are 1.9 times as wide; the paper names three of its eight confounders",
        ),
        Item("Table 2: 80 and 90 %", reason=NOT_YET),
        Item("Figure 5: utility, and the bootstrap", reason=NOT_YET),
        *(
            # The paper's Table 3 has standard errors of a hundred runs beside its text's ten.
            _coverage(f"Table 3: trial, {name}", TRIAL, method, 1_000, 100, "")
            for name, method in {"difference of means": DIFFERENCE, **METHODS}.items()
        ),
        Item("Table 3 and Figure 6: the difference of means as its authors define it", reason=NOT_YET),
    ),
)
