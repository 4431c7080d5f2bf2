"""The page and the figures of `causalveil replicate matching`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.figures import figure, legend, markdown_table, picture, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[dict[str, object]]
ERROR = "matching-error.svg"
MAIN = (
    ("label level", {"level": "label", "mechanism": "one draw"}),
    ("label level, the paper's two draws", {"level": "label", "mechanism": "two draws"}),
    ("sample level", {"level": "sample", "mechanism": "one draw"}),
    ("sample level, attenuation corrected", {"level": "sample", "mechanism": "attenuation corrected"}),
)
PRIVATE = {"mechanism": "one draw"}
ERROR_ALT = (
    "Four panels, one a data set: relative error of private matching against epsilon from 0.5 to 4, on a logarithmic "
    "scale. Errors fall with epsilon; label level lies below sample level on LaLonde, ACIC and Synth."
)


def chosen(rows: Rows, **wanted: object) -> list[dict[str, object]]:
    """The rows that have every value in ``wanted``, by ascending epsilon."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return sorted(found, key=lambda row: float(str(row["epsilon"])))


def data_sets(rows: Rows) -> list[str]:
    """The data sets of the table, in its order."""
    return list(dict.fromkeys(str(row["data"]) for row in rows))


def draw(out: Path, rows: Rows) -> None:
    """Write every figure into ``out``."""
    main = {**PRIVATE, "cap": "adaptive", "neighbours": 5}

    def errors(axes: Axes, data: str) -> None:
        for index, (label, wanted) in enumerate(MAIN):
            _line(axes, chosen(rows, **{**main, **wanted, "data": data}), label, index)

    _panels(out / ERROR, rows, ERROR_ALT, [("", errors)])

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

    levels = ("label", "sample")
    _panels(out / "matching-caps.svg", rows, CAPS_ALT, [(f"{level} level", caps(level)) for level in levels])
    _panels(
        out / "matching-neighbours.svg", rows, RATIO_ALT, [(f"{level} level", neighbours(level)) for level in levels]
    )


CAPS_ALT = (
    "Relative error against epsilon for the adaptive cap and for caps of 1, 10 and 50 times N uses, one column a data "
    "set, label level above, sample level below. No fixed cap is good everywhere; 50 is the worst at sample level."
)
RATIO_ALT = (
    "Relative error against epsilon for 1, 3, 5 and 7 neighbours, one column a data set, label level above, sample "
    "level below."
)


def parts(rows: Rows, missing: Iterable[str], seeds: int) -> list[str]:
    """The Markdown page, part by part."""
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
    used = [
        {
            "data": data,
            "cap": cap,
            **{
                f"epsilon {row['epsilon']:g}": f"{row['uses_of_a_treated_unit_at_most']} / "
                f"{row['uses_of_a_control_at_most']}"
                for row in chosen(rows, **{**PRIVATE, "level": "label", "data": data, "cap": cap, "neighbours": 5})
            },
        }
        for data in found
        for cap in _values(rows, "cap")
    ]
    return [
        "# Private matching on the data sets of Yuan et al. (2026)",
        "Written by `causalveil replicate matching`. Relative error |private - non-private| / |non-private| of the "
        f"average effect, mean over {seeds} runs ± its standard error; every run has its own secret order of traversal "
        "and its own noise (seeded, for no release). The non-private estimate is nearest-neighbour matching with the "
        "same N on the same propensity model, without caps or noise. `delta` is 0 throughout.",
        "All numbers: [matching-errors.csv](matching-errors.csv). Declared outcome ranges: IHDP -2 to 12, LaLonde 0 to "
        "61,000 dollars, ACIC -13 to 28, Synth 2 to 10.",
        *missing,
        "## N = 5, adaptive caps",
        picture(ERROR, ERROR_ALT, "Relative error by epsilon, N = 5, adaptive caps; bands are one standard error."),
        markdown_table(table),
        "One draw is this project's default: noise on the estimate itself, scaled to the largest weight that the "
        "matching gave, with 15 % of its epsilon spent on the interval. Two draws are the paper's, one for each arm's "
        "sum, scaled to the caps; it has no interval. Sample level perturbs scores so much (a twentieth of epsilon for "
        "each of them) that matching on them is close to matching at random, and randomised treatments shrink the "
        "estimate towards zero; the corrected rows divide by what is left of it.",
        "Without privacy:",
        markdown_table(anchors),
        "## Caps",
        picture("matching-caps.svg", CAPS_ALT, "Adaptive against fixed caps (times N uses), N = 5."),
        "Uses of a treated unit / of a control that were allowed at label level, N = 5 (a cap that would leave "
        "somebody without neighbours is raised to the least that cannot, so a cap of 1 is often more):",
        markdown_table(used),
        "## Number of neighbours",
        picture("matching-neighbours.svg", RATIO_ALT, "N = 1, 3, 5 and 7, adaptive caps."),
    ]


def _values(rows: Rows, key: str) -> list[object]:
    return list(dict.fromkeys(row[key] for row in rows))


def _first(rows: Rows, **wanted: object) -> Any:
    return chosen(rows, **wanted)[0]["non_private"]


def _line(axes: Axes, found: list[dict[str, object]], label: str, index: int) -> None:
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
