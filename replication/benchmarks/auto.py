"""Expected width of what `estimator: auto` takes, over people and budgets, as a figure and a table.

Run: python -m replication.benchmarks.auto FOLDER     (writes auto-width.csv and auto-width.svg)

No row of data is read: each width is that by which `auto` chooses, the median of few rehearsals with fixed seeds on
people made of public facts. It takes two minutes of processor time. Six numbers declared from -4 to 4, outcome from 0
to 10, delta 1e-6 at sample level. ``tests/flows/test_auto.py`` walks sizes of this grid, and fails where a width rises.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from causalveil.flows.run.estimators import candidates, chosen, expected_width
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.tasks.report.figures import figure, legend, series, write_table

SIZES = tuple(round(100 * 10 ** (step / 4)) for step in range(21))
BUDGETS = ("0.05", "0.2", "1", "4", "16")
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "observational": ("Private covariates", {}, {"delta": "1e-6"}),
    "trial": ("A trial", {"trial": True}, {"delta": "1e-6"}),
    "public columns": ("Public covariates and treatments", {}, {"level": "label", "delta": 0}),
}
ALT = (
    "Expected half-width of the 95% interval over the number of people, a falling line for each epsilon, for private "
    "covariates, a trial, and public covariates; outcome from 0 to 10."
)


def rows() -> list[dict[str, object]]:
    """One row for each case, size and budget."""
    found: list[dict[str, object]] = []
    for case, (_, auto, privacy) in CASES.items():
        for epsilon in BUDGETS:
            file = parse_study_file(
                {
                    "kind": "effect",
                    "name": "grid",
                    "treatment": "t",
                    "outcome": {"name": "y", "lower": 0, "upper": 10},
                    "covariates": {f"x{place}": {"lower": -4, "upper": 4} for place in range(6)},
                    "estimator": {"name": "auto", **auto},
                    "privacy": {**privacy, "epsilon": epsilon},
                }
            )
            for units in SIZES:
                study = chosen(candidates(file, None), file, units)
                width = expected_width(study, units)
                if width is not None:
                    name = study.estimator.name
                    found.append(
                        {
                            "case": case,
                            "epsilon": epsilon,
                            "units": units,
                            "estimator": name,
                            "half_width": round(width, 5),
                        }
                    )
    return found


def main(folder: Path) -> None:
    """Compute, write and draw."""
    found = rows()
    write_table(folder / "auto-width.csv", found)
    with figure(folder / "auto-width.svg", alt=ALT, across=len(CASES), sharey=True) as axes:
        for ax, (case, (title, _, _)) in zip(axes[0], CASES.items(), strict=True):
            for place, epsilon in enumerate(BUDGETS):
                line = [row for row in found if row["case"] == case and row["epsilon"] == epsilon]
                units, widths = ([float(str(row[key])) for row in line] for key in ("units", "half_width"))
                series(ax, units, widths, f"epsilon {epsilon}", place)
            ax.set(xscale="log", yscale="log", xlabel="people", title=title)
        axes[0][0].set_ylabel("expected half-width")
        legend(axes)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
