"""Make the people of a study of times whom a plan speaks of, from public facts.

Events and losses come at constant rates: those of the risk and the share lost that ``expect`` states. What noise will
hide of so many people is told from the same facts.
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
    named = {name for one in study.outcomes for name in one.of}
    return [place for place, kind in enumerate(study.kinds, 1) if kind[0] in named]


def people_of_times(study: SurvivalStudy, stand_in: StandIn, count: int, sample: int | None) -> MemoryEnclave:
    """Return people of a study.

    Subgroups are of one size, and so are more than two arms. Each kind of event that a question counts has the risk
    that is expected, as if there were no other. Where the study adjusts, who has a higher outcome by covariates and
    chance has a later first kind of event. Where people may enter late, half of them do, evenly until the last horizon.

    Args:
        study: the study, which says what is expected of all arms until the last horizon.
        stand_in: says the share of those who are in no reference arm.
        count: how many.
        sample: which, by chance as real ones are; None: quasi-random ones.
    """
    arms, kinds = len(study.arm_names), counted_kinds(study)
    after, first = len(blocks(study.bounded.questions[0])) + 3 if study.covariates else 0, study.outcomes[0]
    drawn = chances(count, 3 + len(kinds) + (first.entry is not None), sample, after)
    own = drawn[:, : 3 + len(kinds)]
    late, losses, group = own[:, [1, *range(4, own.shape[1])]], own[:, 2], own[:, 3] * len(study.groups)
    t = np.where(own[:, 0] < stand_in.treated, 1 + (own[:, 0] / stand_in.treated * (arms - 1)), 0).astype(np.uint8)
    made, x = dict[str, FloatArray | ByteArray](), np.empty((count, 0))
    if study.covariates:
        # An outcome's own mean and deviation are no facts of times.
        normal = stand_in.model_copy(update={"deviation": None, "mean": None})
        rows = people(study.bounded.questions[0], normal, count, study.estimator.trial, sample=sample)
        t = np.where(rows.t != 0, 1 + np.arange(count) % (arms - 1), 0).astype(np.uint8)
        late[np.argsort(rows.u, kind="stable"), 0] = (np.arange(count) + 0.5) / count
        made["x"] = x = rows.x
    length = study.horizons[-1] - first.landmark
    time, place = _first(late, losses, study.expect, length)
    if first.entry is not None:
        # Events and losses come at constant rates, so from any time of entry as from the start.
        made["e"] = first.landmark + length * np.maximum(2 * drawn[:, -1] - 1, 0.0)
        time = time + made["e"]
    k = np.array([0, *kinds], dtype=np.uint8)[place]
    whole = group.astype(np.int64)
    g = (whole * study.censoring.groups + strata_of_people(study, x, group - whole)).astype(np.uint8)
    found = MemoryEnclave([{**made, "t": t, "u": time, "k": k, "g": g, "h": ranks(count)}])
    found.save(ICC, np.array([assumed_icc(study.clusters, stand_in)]))
    return found


def strata_of_people(study: SurvivalStudy, x: FloatArray, chance: FloatArray) -> IntArray:
    """Return each person's combination of levels, by which censoring may differ.

    It is counted as ``stages.strata_of_rows`` counts it within a subgroup. Levels of a covariate are her own, so that
    strata follow treatment as it does; others come by chance.

    Args:
        study: the study.
        x: covariates, shape (n, d).
        chance: numbers between 0 and 1, shape (n,).
    """
    censoring, found = study.censoring, np.zeros(len(chance), dtype=np.int64)
    if not censoring.by:
        return found
    rows = study.bounded.questions[0]
    factor, kept = scale(rows), {block.name: block.start for block in blocks(rows)}
    for name, column in censoring.by.items():
        levels, first = censoring.levels(name), kept.get(name)
        if first is None:
            usual = levels - (column.nulls is Missing.indicator)
            chance = chance * (len(column.expected) if isinstance(column, CategoricalCovariate) else usual)
            own = chance.astype(np.int64)
            chance = chance - own
        elif isinstance(column, CategoricalCovariate):
            own = x[:, first : first + levels].argmax(axis=1)
        elif name in censoring.classes:
            begins = np.empty(len(censoring.classes[name]))
            rescale(on_scale(np.array(censoring.classes[name]), column), column.on_scale, factor, out=begins)
            own = np.searchsorted(begins, x[:, first], side="right")
        else:
            own = (x[:, first] > 0).astype(np.int64)
        found = found * levels + own
    return found


def _first(events: FloatArray, losses: FloatArray, expect: Expected, horizon: float) -> tuple[FloatArray, ByteArray]:
    """Return each person's time and the place of her event from 1, 0 where she is lost first; both shape (n,).

    Args:
        events: where she stands among all by the time of each event, in (0, 1), shape (n, events).
        losses: likewise by that of her loss, shape (n,).
        expect: how many have an event, or are lost, until the horizon.
        horizon: the horizon.
    """
    at = np.log1p(-events) / math.log1p(-expect.risk) * horizon
    lost = np.log1p(-losses) / math.log1p(-expect.lost) * horizon if expect.lost > 0 else np.full(len(at), np.inf)
    first = at.min(axis=1)
    return np.minimum(first, lost), np.where(first <= lost, at.argmin(axis=1) + 1, 0).astype(np.uint8)


@dataclass(frozen=True)
class FewestFollowed:
    """Numbers of people of an arm who must be followed to the horizon to be seen.

    ``everybody``: of all units; ``subgroup``: of one subgroup.
    """

    everybody: float
    subgroup: float


def fewest_followed(study: SurvivalStudy, units: int) -> FewestFollowed:
    """Return how many people of an arm must be followed so that noise does not hide them.

    They are followed to the horizon.

    The noise is that of the study's own cells, whose law is public: no row is read.

    Args:
        study: the study.
        units: n.
    """
    sizes = Sizes(units=units, train=units, estimation=units)
    rows = JointCells.read(np.zeros(grid_of(study, units).numbers), study, sizes).asked(study)
    everybody = max(one.both.fewest_followed for one in rows if one.group is None)
    subgroup = max((one.both.fewest_followed for one in rows if one.group is not None), default=everybody)
    return FewestFollowed(everybody, subgroup)


def noise_at_risk(study: SurvivalStudy, sizes: Sizes) -> float:
    """Return the deviation of the noise on people of an arm at risk in the last interval."""
    cells = JointCells.read(np.zeros(grid_of(study, sizes.units).numbers), study, sizes)
    return float(cells.two_arms(cells.members(None), 1).at_risk_error[:, -1].max())
