"""The flow of units through a study, after CONSORT.

Public numbers and released ones, never another count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from causalveil.schemas.remarks import counted
from causalveil.schemas.specification import unrecorded
from causalveil.schemas.where import where_words
from causalveil.tasks.report.numbers import ALL_UNITS, figure, percent, place_label

# The units of a subgroup are released as noisy numbers, by this name.
GROUP = "units["
ALL = f"{GROUP}{ALL_UNITS}]"
COUNTED = "and the details count them exactly"
UNCOUNTED = "and this page does not count them"


@dataclass(frozen=True)
class FlowBox:
    """A step of the flow.

    Attributes:
        title: what units do here.
        count: a public number; None: not given, and ``note`` says why.
        note: in words.
        released: of numbers in the release, each with its name: (name, what follows it).
        noisy: true if they were released with noise; at level label they are exact.
    """

    title: str
    count: int | None
    note: str
    released: tuple[tuple[str, str], ...] = ()
    noisy: bool = True


@dataclass(frozen=True)
class UnitFlow:
    """The steps one below the other; ``halves`` stand beside each other."""

    steps: tuple[FlowBox, ...]
    halves: tuple[FlowBox, ...]
    last: FlowBox

    @property
    def text(self) -> str:
        """The flow in a sentence for each step."""
        boxes = (*self.steps, *self.halves, self.last)
        return " ".join(
            f"{box.title}: {'' if box.count is None else f'{box.count:,}; '}{box.note}"
            f"{''.join(f'; {name}{number}' for name, number in box.released)}."
            for box in boxes
        )


def unit_flow(release: Mapping[str, Any], rows: str) -> UnitFlow:
    """Return the flow of a release of effects.

    Args:
        release: the document. The number of units is public under replace-one, and so are the sizes of the halves,
            which follow from it and the study; what else is counted in it was released with noise.
        rows: how several rows of a unit became one, as the contract says; may be empty.
    """
    specification, details, units = release["specification"], release.get("details") or {}, release["units"]
    unit, blocks = specification["data"]["unit"], release["privacy"]["blocks"]
    charged = f", in {', '.join(blocks['charged'])} of {blocks['key']}" if blocks["key"] else ""
    steps: tuple[FlowBox, ...] = (
        _before(release),
        FlowBox("In the dataset", units, f"each one {unit}{charged}{f'. {rows}' if rows else ''}"),
    )
    noisy = release["privacy"]["level"] != "label"
    parts = _parts(details, specification, noisy)
    if among := where_words(specification):
        kept = "other rows add nothing, and the exact number is private" if noisy else "other rows add nothing"
        steps = (*steps, FlowBox("Eligible", None, f"where {among}; {kept}"))
        return UnitFlow(steps, (), FlowBox("Analysed", None, _arms_note(release), parts, noisy))
    notes = ["the run left out no unit of the dataset", *map(counted, unrecorded(specification)), _arms_note(release)]
    note = "; ".join(one for one in notes if one)
    return UnitFlow(steps, _halves(release, units), FlowBox("Analysed", units, note, parts, noisy))


def _before(release: Mapping[str, Any]) -> FlowBox:
    """Rows of the source, where these may be told: all of them, and those that its owner left out."""
    data = release.get("data")
    if data is None:
        note = "rows may have been left out or made one per unit; of sensitive data this is not counted here"
        return FlowBox("Before admission", None, note)
    lost = [f"{rows:,} rows left out, without a value of {name}" for name, rows in data["left_out"].items() if rows]
    kept = data["rows"] - sum(data["left_out"].values())
    made = [f"{kept:,} rows became {release['units']:,}, one per unit"] if kept != release["units"] else []
    return FlowBox("Rows of the source", data["rows"], "; ".join([*lost, *made]) or "none was left out")


def _halves(release: Mapping[str, Any], units: int) -> tuple[FlowBox, ...]:
    fraction = release["specification"]["estimator"].get("train_fraction")
    if fraction is None or not any(charge["scope"] == "train" for charge in release["privacy"]["charges"]):
        return ()
    train = round(fraction * units)
    if "pair" in release["specification"]:
        return (
            FlowBox("Training half", train, "predicts each variable from the other; drawn by a secret key"),
            FlowBox("Test half", units - train, "gives the scores"),
        )
    return (
        FlowBox("Training half", train, "fits the propensity model; drawn by a secret key"),
        FlowBox("Estimation half", units - train, "gives the effect"),
    )


def _arms_note(release: Mapping[str, Any]) -> str:
    if release["privacy"]["level"] == "label":
        told = bool(_groups(release.get("details") or {}))
        counted = "treated_arm" in (release.get("details") or {})
        exact = "so these numbers are exact" if told else COUNTED if counted else UNCOUNTED
        return f"treatments are public at this level, {exact}"
    return "" if "pair" in release["specification"] else "exact numbers in the arms are private"


def _parts(details: Mapping[str, Any], specification: Mapping[str, Any], noisy: bool) -> tuple[tuple[str, str], ...]:
    """Return what was released of arms and subgroups, rounded where noise is in it."""
    # All units without conditions are as many as the dataset has, which is public.
    told = [(name, value) for name, value in _groups(details) if name != ALL or specification.get("where")]
    groups = tuple(
        (_place(name, specification), f" ≈ {figure(float(f'{value:.3g}'))}" if noisy else f": {value:,.0f}")
        for name, value in told
    )
    share = details.get("treated_share")
    return groups if share is None else (("treated", f" ≈ {percent(float(f'{share:.2g}'))}"), *groups)


def _place(name: str, specification: Mapping[str, Any]) -> str:
    """Return the subgroup and the arm that a number of units is of."""
    return place_label(specification, name[len(GROUP) : -1].split("]["))


def _groups(details: Mapping[str, Any]) -> list[tuple[str, float]]:
    return [(name, value) for name, value in details.items() if name.startswith(GROUP)]
