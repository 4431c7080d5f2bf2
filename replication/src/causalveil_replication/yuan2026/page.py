"""The page and the figures of `replicate matching`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalveil.tasks.report.figures import figure, legend, series
from causalveil_replication.figures import markdown_table, picture
from causalveil_replication.pieces import Value
from causalveil_replication.yuan2026 import page_doors, page_rivals, page_sweeps
from causalveil_replication.yuan2026.data import SOURCES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[Mapping[str, object]]
Tables = Mapping[str, list[dict[str, Value]]]
ERROR, CAPS, NEIGHBOURS = "matching-error.svg", "matching-caps.svg", "matching-neighbours.svg"
MAIN = (
    ("label level", {"level": "label", "mechanism": "one draw"}),
    ("label level, the paper's two draws", {"level": "label", "mechanism": "two draws"}),
    ("sample level", {"level": "sample", "mechanism": "one draw"}),
    ("sample level, attenuation corrected", {"level": "sample", "mechanism": "attenuation corrected"}),
)
PRIVATE = {"mechanism": "one draw"}
BOTH_LEVELS = "label level above, sample level below"
MAIN_ALT = ("; ".join(label for label, _ in MAIN), "both levels together")
CAPS_ALT = ("the adaptive cap, and caps of 1, 10 and 50 times N uses", BOTH_LEVELS)
NEIGHBOURS_ALT = ("1, 3, 5 and 7 neighbours", BOTH_LEVELS)


def chosen(rows: Rows, **wanted: object) -> list[Mapping[str, object]]:
    """The rows that have every value in ``wanted``, by ascending epsilon."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return sorted(found, key=lambda row: float(str(row["epsilon"])))


def data_sets(rows: Rows) -> list[str]:
    """The data sets of the table, in its order."""
    return list(dict.fromkeys(str(row["data"]) for row in rows))


def draw(out: Path, tables: Tables) -> None:
    """Write every figure into ``out``."""
    rows = tables["errors"]
    if tables["competitors"]:
        page_rivals.draw(out, tables["competitors"])
    page_sweeps.draw(out, rows, tables["coefficients"], tables["allocations"])
    main = {**PRIVATE, "cap": "adaptive", "neighbours": 5}

    def errors(axes: Axes, data: str) -> None:
        for index, (label, wanted) in enumerate(MAIN):
            _line(axes, chosen(rows, **{**main, **wanted, "data": data}), label, index)

    _panels(out / ERROR, rows, alt(rows, *MAIN_ALT), [("", errors)])

    def caps(level: str) -> Callable[[Axes, str], None]:
        def lines(axes: Axes, data: str) -> None:
            for index, cap in enumerate(_values(rows, "cap")):
                wanted = {**main, "level": level, "data": data, "cap": cap}
                _line(axes, chosen(rows, **wanted), f"cap {cap}", index)

        return lines

    def neighbours(level: str) -> Callable[[Axes, str], None]:
        def lines(axes: Axes, data: str) -> None:
            for index, ratio in enumerate(_values(rows, "neighbours")):
                wanted = {**main, "level": level, "data": data, "neighbours": ratio}
                _line(axes, chosen(rows, **wanted), f"N = {ratio}", index)

        return lines

    for name, texts, lines in ((CAPS, CAPS_ALT, caps), (NEIGHBOURS, NEIGHBOURS_ALT, neighbours)):
        bands = [(f"{level} level", lines(level)) for level in ("label", "sample")]
        _panels(out / name, rows, alt(rows, *texts), bands)


def alt(rows: Rows, lines: str, levels: str) -> str:
    """Describe what a figure shows, for who cannot see it; the page's tables have the numbers."""
    names = data_sets(rows)
    return (
        f"Relative error of private matching against epsilon from 0.5 to 4, on a logarithmic scale, one panel each for "
        f"{', '.join(names)}, {levels}. Lines: {lines}."
    )


def parts(tables: Tables, missing: Iterable[str], seeds: int) -> list[str]:
    """The Markdown page, part by part."""
    rows = tables["errors"]
    found = data_sets(rows)
    # The paper's setting, N = 5 and the adaptive cap, by mechanism.
    table = [
        {
            "data": data,
            "release": label,
            **{
                f"epsilon {row['epsilon']:g}": f"{row['relative_error']:.2f} ± {row['standard_error']:.2f}"
                for row in chosen(rows, **{**PRIVATE, **wanted, "data": data, "cap": "adaptive", "neighbours": 5})
            },
        }
        for data in found
        for label, wanted in MAIN
    ]
    anchors = [
        {"data": data}
        | {f"N = {ratio}": f"{_first(rows, data=data, neighbours=ratio):,.4g}" for ratio in _values(rows, "neighbours")}
        for data in found
    ]
    caps = [
        {
            "data": data,
            "cap": cap,
            **{
                f"error, {level} level": f"{_mean(rows, data=data, cap=cap, level=level):.2f}"
                for level in ("label", "sample")
            },
            **{
                f"uses of a treated unit / a control, epsilon {epsilon:g}": _uses(rows, data, cap, epsilon)
                for epsilon in (1, 4)
            },
        }
        for data in found
        for cap in _values(rows, "cap")
    ]
    return [
        "# Private matching on the data sets of Yuan et al. (2026)",
        "Written by `uv run --package causalveil-replication replicate matching`. Relative error |private - "
        "non-private| / |non-private| of the "
        f"average effect, mean over {seeds} runs ± its standard error. Every run has its own secret order of traversal "
        "and its own noise (seeded, for no release), the same ones in every cell, so that columns compare better than "
        "their errors say and cells do not err independently. The non-private estimate is nearest-neighbour matching "
        "with the same N on the same propensity model, without caps or noise. `delta` is 0 throughout.",
        "All numbers: [matching-errors.csv](matching-errors.csv). Declared outcome ranges: IHDP -2 to 12, LaLonde 0 to "
        "61,000 dollars, ACIC -13 to 28, Synth 2 to 10.",
        *missing,
        "## N = 5, adaptive caps",
        picture(ERROR, alt(rows, *MAIN_ALT), "Relative error by epsilon; bands are one standard error."),
        markdown_table(table),
        "*Label level*: one draw of noise on the estimate itself, scaled to the largest weight that the matching gave; "
        "a part of its epsilon (`variance_share`) is spent on the interval. *The paper's two draws*: one for each "
        "arm's sum, scaled to the caps, with no interval. *Sample level*: every score has noise of a twentieth of "
        "epsilon, so that matching on scores is close to matching at random and adjusts for little; and randomised "
        "treatments shrink the estimate towards zero. *Attenuation corrected*: divided by what they leave of it, which "
        "helps where confounding is weak and cannot where it is strong (Synth).",
        "Without privacy:",
        markdown_table(anchors),
        *page_rivals.parts(tables["competitors"]),
        *page_doors.claim_parts(tables["competitors"]),
        *page_doors.parts(tables["competitors"]),
        "## Caps",
        picture(CAPS, alt(rows, *CAPS_ALT), f"Adaptive against fixed caps (times N uses), N = 5; {BOTH_LEVELS}."),
        "Mean error over all epsilons, and how often a unit may serve at label level. A cap that would leave a unit "
        "without neighbours is raised to the least that cannot, so a cap of 1 is often more.",
        markdown_table(caps),
        "## Number of neighbours",
        picture(NEIGHBOURS, alt(rows, *NEIGHBOURS_ALT), f"N = 1, 3, 5 and 7, adaptive caps; {BOTH_LEVELS}."),
        *page_sweeps.parts(tables["errors"], tables["coefficients"], tables["allocations"], tables["bounds"]),
        *page_rivals.cost_parts(tables["costs"], tables["competitors"]),
        *several_parts(tables["several"]),
        "## Data",
        "Synth is simulated by the command (`replication/src/causalveil_replication/yuan2026/data.py`). The others "
        "are looked for "
        "below the folders named by `--data`, and below `data/` of the repository; one that is missing is left out.",
        "\n".join(f"- {name}: {source}." for name, source in SOURCES.items()),
    ]


def several_parts(rows: Rows) -> list[str]:
    """Return the section on treatments of several values."""
    table: dict[tuple[object, object], dict[str, object]] = {}
    for row in rows:
        line = table.setdefault((row["level"], row["effect"]), {"level": row["level"], "effect": row["effect"]})
        line["non-private"] = f"{row['non_private']:.3f}"
        line[f"epsilon {row['epsilon']:g}"] = f"{row['relative_error']:.2f} ± {row['standard_error']:.2f}"
    return ["## Treatments of several values", SEVERAL, markdown_table(list(table.values()))] if rows else []


SEVERAL = (
    "What the paper sketches for more than two treatments and does not run: a multinomial logit, noise on every unit's "
    "probabilities, generalised randomised response, a matching estimate for every pair of values. Sensitivities, "
    "division and the distance, by which score two units are near, are ours (`docs/proofs/competitors.md`, section 6). "
    "3,000 simulated units, three values, each half a point above the one before; relative error against matching "
    "without privacy. At sample level effects shrink as with two values. All numbers: "
    "[matching-several.csv](matching-several.csv)."
)


def _mean(rows: Rows, **wanted: object) -> float:
    errors = [float(str(row["relative_error"])) for row in chosen(rows, **PRIVATE, neighbours=5, **wanted)]
    return sum(errors) / len(errors)


def _uses(rows: Rows, data: str, cap: object, epsilon: float) -> str:
    row = chosen(rows, **PRIVATE, data=data, cap=cap, level="label", neighbours=5, epsilon=epsilon)
    return "-" if not row else f"{row[0]['uses_of_a_treated_unit_at_most']} / {row[0]['uses_of_a_control_at_most']}"


def _values(rows: Rows, key: str) -> list[object]:
    return list(dict.fromkeys(row[key] for row in rows))


def _first(rows: Rows, **wanted: object) -> Any:
    return chosen(rows, **wanted)[0]["non_private"]


def _line(axes: Axes, found: list[Mapping[str, object]], label: str, index: int) -> None:
    numbers = [[float(str(row[key])) for row in found] for key in ("epsilon", "relative_error", "standard_error")]
    series(axes, numbers[0], numbers[1], label, index, error=numbers[2])


def _panels(path: Path, rows: Rows, alt: str, bands: Sequence[tuple[str, Callable[[Axes, str], None]]]) -> None:
    """One column a data set, one row of panels for each of ``bands``; logarithmic errors on one scale."""
    found = data_sets(rows)
    with figure(path, alt=alt, down=len(bands), across=len(found), sharex=True, sharey=True) as panels:
        for (title, lines), line in zip(bands, panels, strict=True):
            for data, axes in zip(found, line, strict=True):
                lines(axes, data)
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter("{x:g}")
                if line is panels[0]:
                    axes.set_title(data)
                if line is panels[-1]:
                    axes.set_xlabel("epsilon")
            line[0].set_ylabel(f"relative error, {title}" if title else "relative error")
        legend(panels)
