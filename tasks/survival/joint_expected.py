"""Planning of a protocol of times before a row is read.

How many subgroups its budget can serve follows from the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.inference.people import check_cells, counted_units
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.mechanisms import Mechanism
from causalveil.tasks.survival.effects import SEEN_DEVIATIONS, SEEN_PEOPLE, Compared
from causalveil.tasks.survival.expected import expected_shares
from causalveil.tasks.survival.joint import JointCells, joint_grid, joint_mechanism
from causalveil.tasks.survival.joint_answers import compare, half_together
from causalveil.tasks.survival.strategy import read_blocks


@dataclass(frozen=True)
class ExpectedTimesAnswer:
    """Expected half-widths of one question, and what they are made of.

    Attributes:
        outcome: the question.
        everybody, everybody_together: over everybody, by itself and with all others.
        group, group_together: in a subgroup of average size; as over everybody where there are none.
        sampling_error, noise_error: over everybody.
        whole_range: noise would hide the people of such a subgroup.
    """

    outcome: str
    everybody: float
    everybody_together: float
    group: float
    group_together: float
    sampling_error: float
    noise_error: float
    whole_range: bool


def served(study: SurvivalProtocol, sizes: Sizes | None) -> Mechanism:
    """Return the mechanism of a study's cells, if the budget can serve as many subgroups.

    Raises:
        StudyError: of average size, one has fewer people in an arm than are seen through the noise from the first day.
    """
    made = joint_mechanism(study)
    if sizes is not None:
        grid = joint_grid(study, sizes.units)
        _, noise = read_blocks(np.zeros(grid.numbers), grid, made)
        least = max(SEEN_DEVIATIONS * math.sqrt(float(noise.sum())), SEEN_PEOPLE)
        check_cells(sizes.units, len(study.groups), len(study.arm_names), least)
    return made


def expected_rows(study: SurvivalProtocol, sizes: Sizes, stand_in: StandIn) -> tuple[ExpectedTimesAnswer, ...]:
    """Return the expected half-widths of every question.

    Subgroups are of one size, and events come at constant rates.

    Args:
        study: says the risk and the share lost that its reader expects of all arms until the last horizon.
        sizes: its sizes.
        stand_in: says the share of the treated of two arms, and who is eligible.
    """
    grid = joint_grid(study, sizes.units)
    released = JointCells.read(np.zeros(grid.numbers), study, sizes)
    shares = np.full(grid.arms, 1 / grid.arms)
    if grid.arms == 2:
        shares = np.array([1 - stand_in.treated, stand_in.treated])
    people = counted_units(study, sizes, stand_in) / grid.groups
    counts = np.tile(people * shares[:, None] * expected_shares(study.expect, grid), (grid.groups, 1, 1))
    cells = JointCells(grid, counts, released.block, released.known)
    with one_thread():
        asked = cells.asked(study)
        compared, factor = compare(study, cells, asked)
    found = []
    for question in study.questions:
        own = [one for ask, one in zip(asked, compared, strict=True) if ask.question == question]
        first, last = own[0], own[-1]
        found.append(
            ExpectedTimesAnswer(
                outcome=question.label,
                everybody=(first.upper - first.lower) / 2,
                everybody_together=_together(first, factor),
                group=(last.upper - last.lower) / 2,
                group_together=_together(last, factor),
                sampling_error=math.sqrt(first.sampling),
                noise_error=math.sqrt(first.noise),
                whole_range=last.whole_range,
            )
        )
    return tuple(found)


def _together(found: Compared, factor: float) -> float:
    half = (found.upper - found.lower) / 2
    return half if found.whole_range else max(half_together(found, factor), half)
