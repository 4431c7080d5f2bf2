"""Each comparison of a protocol as rows of its own: a subgroup, and in it an arm and the reference.

Subgroups and arms are public at label level, so cutting the rows apart by them reads nothing private. A comparison's
rows keep the order of their hashes. Only pieces that hold a row are written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.schemas.study import Estimand
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.machine.arrays import BoolArray

T = TypeVar("T")
NAMES = ("x", "t", "u", "h")


@dataclass(frozen=True)
class PartEnclave(Enclave):
    """Some rows of another enclave, under a name of their own; can be pickled if the other can."""

    whole: Enclave
    name: str
    segments: int

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Leave an array of these rows alone."""
        self.whole.save(f"{name}-{self.name}", array)

    def load(self, name: str, segment: int | None = None) -> NDArray[Any]:
        """As of the whole, for these rows."""
        place = f"{name}-{self.name}"
        return self.whole.load(place if segment is None else f"{place}-{segment}")

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """As of the whole, for these rows."""
        return self.whole.once((self.name, key), compute)


@dataclass(frozen=True)
class Comparison:
    """A subgroup's arm against the reference: public facts.

    Attributes:
        group, arm: their names.
        name: of its rows in the enclave.
        arms: units of the arm and of the reference.
        everybody: units of the subgroup, whatever their arm.
        segments: pieces that its rows are in.
        others: pieces that all rows of the subgroup are in, where these are more; else None.
    """

    group: str
    arm: str
    name: str
    arms: tuple[int, int]
    everybody: int
    segments: int
    others: int | None

    def rows(self, enclave: Enclave) -> PartEnclave:
        """The rows that are compared; t is 1 in the arm and 0 in the reference."""
        return PartEnclave(enclave, self.name, self.segments)

    def subgroup(self, enclave: Enclave) -> PartEnclave | None:
        """All rows of the subgroup, where these are more."""
        return None if self.others is None else PartEnclave(enclave, _subgroup(self.group), self.others)

    def weight(self, estimand: Estimand) -> int:
        """Units whom the effect is averaged over."""
        return {Estimand.ATE: self.everybody, Estimand.ATT: self.arms[0], Estimand.ATC: self.arms[1]}[estimand]


def _subgroup(group: str) -> str:
    # A level is anybody's text, so files are named by its bytes.
    return "all-" + group.encode().hex()


def compare_stage(study: ProtocolStudy, enclave: Enclave) -> tuple[Comparison, ...]:
    """Write the rows of each comparison, and say how many there are; subgroup by subgroup, arm by arm."""
    found, several = list[Comparison](), len(study.arm_names) > 2
    for group, label in enumerate(study.groups):
        others, everybody = _write(enclave, _subgroup(label), group, None, several)
        for arm, name in enumerate(study.arm_names[1:], 1):
            place = f"{_subgroup(label)}-{arm}"
            segments, _ = _write(enclave, place, group, arm, True)
            part = PartEnclave(enclave, place, segments)
            treated = sum(int(np.count_nonzero(part.load("t", segment))) for segment in range(segments))
            total = sum(len(part.load("t", segment)) for segment in range(segments))
            arms = (treated, total - treated)
            found.append(Comparison(label, name, place, arms, everybody, segments, others if several else None))
    return tuple(found)


def _write(enclave: Enclave, place: str, group: int, arm: int | None, keep: bool) -> tuple[int, int]:
    """Write a subgroup's rows, of one arm and the reference or of all; how many pieces and rows there are."""
    pieces = rows = 0
    for segment in range(enclave.segments):
        g, t = enclave.load("g", segment), enclave.load("t", segment)
        chosen: BoolArray = (g == group) if arm is None else (g == group) & ((t == arm) | (t == 0))
        count = int(np.count_nonzero(chosen))
        if not count:
            continue
        if keep:
            for name in NAMES:
                values = enclave.load(name, segment)[chosen]
                if name == "t":
                    values = (values != 0).astype(np.uint8) if arm is None else (values == arm).astype(np.uint8)
                enclave.save(f"{name}-{place}-{pieces}", values)
        pieces, rows = pieces + 1, rows + count
    return pieces, rows
