"""Make the planning population of a study of times from public facts.

Events and losses come at constant rates, by the risk and the share lost that ``expect`` states. The number of people
that noise would hide follows from the same facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.columns import CategoricalCovariate, Missing
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.questions import Expected
from causalveil.tasks.data.covariates import blocks, scale
from causalveil.tasks.data.enclave import ICC, MemoryEnclave, ranks
from causalveil.tasks.data.normalise import on_scale, rescale
from causalveil.tasks.estimate.clusters import assumed_icc
from causalveil.tasks.estimate.people import chances, people
from causalveil.tasks.estimate.times.releases import JointCells, grid_of
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray


def counted_kinds(study: SurvivalStudy) -> list[int]:
    """Return the places of the kinds of events that a question counts, from 1."""
    named = {name for outcome in study.outcomes for name in outcome.of}
    return [place for place, kind in enumerate(study.kinds, 1) if kind[0] in named]


def people_of_times(study: SurvivalStudy, stand_in: StandIn, count: int, sample: int | None) -> MemoryEnclave:
    """Return people of a study.

    Subgroups have equal sizes, and so have arms beside the reference. Each kind of event that a question counts has the
    expected risk, as if there were no other. Where the study adjusts, people with a higher outcome by covariates and
    chance have a later first kind of event. Where people may enter late, half of them do, evenly until the last
    horizon.

    Args:
        study: the study, with the risk and the share lost that are expected until the last horizon.
        stand_in: with the share of people outside the reference arm.
        count: number of people.
        sample: the seed of a random sample; None: quasi-random people.
    """
    arms, kinds = len(study.arm_names), counted_kinds(study)
    after, first = len(blocks(study.bounded.questions[0])) + 3 if study.covariates else 0, study.outcomes[0]
    numbers = chances(count, 3 + len(kinds) + (first.entry is not None), sample, after)
    late, losses = numbers[:, [1, *range(4, 3 + len(kinds))]], numbers[:, 2]
    rank, group = numbers[:, 0], numbers[:, 3] * len(study.groups)
    t = np.where(rank < stand_in.treated, 1 + (rank / stand_in.treated * (arms - 1)), 0).astype(np.uint8)
    arrays, x = dict[str, FloatArray | ByteArray](), np.empty((count, 0))
    if study.covariates:
        # A stated mean and deviation do not describe times.
        normal = stand_in.model_copy(update={"deviation": None, "mean": None})
        rows = people(study.bounded.questions[0], normal, count, study.estimator.trial, sample=sample)
        t = np.where(rows.t != 0, 1 + np.arange(count) % (arms - 1), 0).astype(np.uint8)
        late[np.argsort(rows.u, kind="stable"), 0] = (np.arange(count) + 0.5) / count
        arrays["x"] = x = rows.x
    length = study.horizons[-1] - first.landmark
    time, place = _first(late, losses, study.expect, length)
    if first.entry is not None:
        # At constant rates, times from entry have the law of times from the start.
        arrays["e"] = first.landmark + length * np.maximum(2 * numbers[:, -1] - 1, 0.0)
        time = time + arrays["e"]
    k = np.array([0, *kinds], dtype=np.uint8)[place]
    whole = group.astype(np.int64)
    g = (whole * study.censoring.groups + strata_of_people(study, x, group - whole)).astype(np.uint8)
    enclave = MemoryEnclave([{**arrays, "t": t, "u": time, "k": k, "g": g, "h": ranks(count)}])
    enclave.save(ICC, np.array([assumed_icc(study.clusters, stand_in)]))
    return enclave


def strata_of_people(study: SurvivalStudy, x: FloatArray, chance: FloatArray) -> IntArray:
    """Return each person's combination of levels, by which censoring may differ.

    It is numbered as by ``releases.strata_of_rows`` within a subgroup. Levels of a covariate are the person's own, so
    that strata depend on treatment as it does; levels of other columns are random.

    Args:
        study: the study.
        x: covariates, shape (n, d).
        chance: numbers between 0 and 1, shape (n,).
    """
    censoring, strata = study.censoring, np.zeros(len(chance), dtype=np.int64)
    if not censoring.by:
        return strata
    rows = study.bounded.questions[0]
    factor, columns = scale(rows), {block.name: block.start for block in blocks(rows)}
    for name, column in censoring.by.items():
        levels, first = censoring.levels(name), columns.get(name)
        if first is None:
            usual = levels - (column.nulls is Missing.indicator)
            chance = chance * (len(column.expected) if isinstance(column, CategoricalCovariate) else usual)
            level = chance.astype(np.int64)
            chance = chance - level
        elif isinstance(column, CategoricalCovariate):
            level = x[:, first : first + levels].argmax(axis=1)
        elif name in censoring.classes:
            begins = np.empty(len(censoring.classes[name]))
            rescale(on_scale(np.array(censoring.classes[name]), column), column.on_scale, factor, out=begins)
            level = np.searchsorted(begins, x[:, first], side="right")
        else:
            level = (x[:, first] > 0).astype(np.int64)
        strata = strata * levels + level
    return strata


def _first(events: FloatArray, losses: FloatArray, expect: Expected, horizon: float) -> tuple[FloatArray, ByteArray]:
    """Return each person's time and first event's place from 1, 0 if lost before; both shape (n,).

    Args:
        events: rank of the time of each event among all people, in (0, 1), shape (n, events).
        losses: rank of the time of loss, shape (n,).
        expect: the risk and the share lost until the horizon.
        horizon: the horizon.
    """
    at = np.log1p(-events) / math.log1p(-expect.risk) * horizon
    lost = np.log1p(-losses) / math.log1p(-expect.lost) * horizon if expect.lost > 0 else np.full(len(at), np.inf)
    first = at.min(axis=1)
    return np.minimum(first, lost), np.where(first <= lost, at.argmin(axis=1) + 1, 0).astype(np.uint8)


@dataclass(frozen=True)
class FewestFollowed:
    """Numbers of people of an arm who must be followed to the horizon to be seen despite noise.

    ``all_units``: of all units; ``subgroup``: of one subgroup.
    """

    all_units: float
    subgroup: float


def fewest_followed(study: SurvivalStudy, units: int) -> FewestFollowed:
    """Return how many people of an arm must be followed to the horizon so that they are seen.

    The law of the noise on the study's cells is public: no row is read. ``units``: n.
    """
    sizes = Sizes(units=units, train=units, estimation=units)
    rows = JointCells.read(np.zeros(grid_of(study, units).numbers), study, sizes).contrasts(study)
    all_units = max(row.both.fewest_followed for row in rows if row.group is None)
    subgroup = max((row.both.fewest_followed for row in rows if row.group is not None), default=all_units)
    return FewestFollowed(all_units, subgroup)


def noise_at_risk(study: SurvivalStudy, sizes: Sizes) -> float:
    """Return the deviation of the noise on people of an arm at risk in the last interval."""
    cells = JointCells.read(np.zeros(grid_of(study, sizes.units).numbers), study, sizes)
    return float(cells.two_arms(cells.members(None), 1).at_risk_error[:, -1].max())
