"""Planning of a study or a protocol of times, before a row is read.

The same variances as of a release, at the expected cells of exponential curves. How many subgroups a protocol's budget
can serve follows from the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from causalveil.schemas.estimators.survival import ExpectedTimes, Measure, SurvivalStudy
from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.adjustment.five_releases import Drawn, in_order
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference.people import check_cells, counted_units, standing_for
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.mechanisms import Mechanism
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.survival.adjusted import adjusted, adjusted_recipe, read_of
from causalveil.tasks.survival.curves import Grid, grid_of
from causalveil.tasks.survival.effects import SEEN_DEVIATIONS, SEEN_PEOPLE, Compared, TwoArms
from causalveil.tasks.survival.findings import answered_until
from causalveil.tasks.survival.joint import JointCells, joint_grid, joint_mechanism
from causalveil.tasks.survival.joint_answers import compare, half_together
from causalveil.tasks.survival.pseudo import pseudo_outcomes
from causalveil.tasks.survival.strategy import NoisyCells, mechanism, read_blocks, read_cells, read_groups


def expected_cells(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn) -> NoisyCells:
    """Return the expected cells, as if no noise happened to be drawn.

    Events and losses come at constant rates.

    Args:
        study: says the risk and the share lost that its reader expects of both arms.
        sizes: its sizes.
        stand_in: says the share of the treated.
    """
    return _everybody(study, grid_of(study, sizes.units), sizes, stand_in)


def _everybody(study: SurvivalStudy, grid: Grid, sizes: Sizes, stand_in: StandIn) -> NoisyCells:
    units = round(sizes.units * stand_in.eligible_share) if study.where else sizes.units
    arms = [units * (1 - stand_in.treated), units * stand_in.treated]
    counts = np.array([share * expected_shares(study.expect, grid) for share in arms])
    noise = read_cells(np.zeros(grid.numbers), grid, units, mechanism(study)).noise
    return NoisyCells(grid, units, counts, noise)


def _groups(study: SurvivalStudy, cells: NoisyCells) -> list[TwoArms]:
    """Divide the cells into groups of equal size, in which censoring is alike."""
    groups = read_groups(np.zeros(cells.grid.numbers), cells.grid, cells.units, mechanism(study))
    many = cells.grid.groups
    return [
        TwoArms(replace(cells, units=cells.units // many, counts=cells.counts / many, noise=one.noise))
        for one in groups
    ]


def expected_shares(expect: ExpectedTimes, grid: Grid) -> FloatArray:
    """Return the share of an arm's people in each cell; none has a competing event."""
    event, lost = (-math.log1p(-share) for share in (expect.risk, expect.lost))
    left = np.exp(-(event + lost) * np.concatenate([[0.0], grid.ends / grid.horizon]))
    gone = -np.diff(left) / (event + lost)
    shares = np.zeros(grid.cells)
    shares[: grid.intervals] = event * gone
    shares[grid.kinds * grid.intervals : -1] = lost * gone
    shares[-1] = left[-1]
    return shares


def expected_contrasts(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn) -> tuple[TwoArms, list[Compared]]:
    """Return both arms as they are expected, and each measure's comparison."""
    both = TwoArms(expected_cells(study, sizes, stand_in))
    until = both.until(answered_until(study, [both]))
    return both, [until.contrast(one, study.confidence, study.estimator.allowed) for one in study.measure]


def expected_adjusted(
    study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, draws: int
) -> tuple[TwoArms, list[list[Compared]]]:
    """Return both arms as expected, and each measure under several draws of noise.

    The study's own releases are made of simulated people, whose outcomes vary as the expected cells have it.
    """
    cells = expected_cells(study, sizes, stand_in)
    groups, both = _groups(study, cells), TwoArms(cells)
    return both, [
        [_rehearsed(study, sizes, stand_in, measure, both, groups, seed) for seed in range(draws)]
        for measure in study.measure
    ]


def _rehearsed(
    study: SurvivalStudy,
    sizes: Sizes,
    stand_in: StandIn,
    measure: Measure,
    both: TwoArms,
    groups: list[TwoArms],
    seed: int,
) -> Compared:
    """One measure with one draw of noise."""
    until = answered_until(study, groups)
    outcomes = pseudo_outcomes(groups, measure, both.cells, until)
    normal = stand_in.model_copy(update={"deviation": None, "mean": None})
    rows = standing_for(study.bounded, normal, outcomes.units, study.estimator.trial, seed)
    rows = replace(rows, u=outcomes.in_order_of(rows.u))
    plan = read_of(adjusted_recipe(study, sizes)[measure], outcomes.units)
    drawn = Drawn(plan, Pieces(lambda _: rows, 1, len(rows)), RehearsalBudget(seed), times=outcomes.units / len(rows))
    asked, scores = in_order(drawn, outcomes.known(drawn.scales()))
    return adjusted(study, measure, both.until(until), outcomes, asked, scores).compared


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
