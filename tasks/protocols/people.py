"""People of a protocol whom a plan makes of public facts."""

from __future__ import annotations

import numpy as np

from causalveil.schemas.plan import StandIn
from causalveil.schemas.protocols.study import EffectStudy
from causalveil.tasks.enclave.enclave import LIKENESS, MemoryEnclave, ranks
from causalveil.tasks.inference.clusters import assumed_icc
from causalveil.tasks.inference.people import people


def people_of(
    study: EffectStudy, stand_in: StandIn, count: int, randomised: bool, sample: int | None, groups: int
) -> MemoryEnclave:
    """Return people of so many subgroups, which are equal; the others have none.

    Arms beside the reference are equal too.

    Args:
        study: the protocol.
        stand_in: the population that the reader assumes.
        count: how many.
        randomised: whether covariates have nothing to do with treatment.
        sample: which, by chance as real ones are; None: quasi-random ones.
        groups: how many subgroups have people.
    """
    own = [people(one, stand_in, count, randomised, sample=sample) for one in study.questions]
    t = own[0].t.copy()
    t[t != 0] = 1 + np.arange(int((t != 0).sum())) % (len(study.arm_names) - 1)
    # A few people of every subgroup in turn, since neighbours in the order are alike where they are quasi-random.
    g = (np.arange(count) % groups).astype(np.uint8)
    u = np.column_stack([one.u for one in own])
    found = MemoryEnclave([{"x": own[0].x, "t": t, "u": u, "g": g, "h": ranks(count)}])
    found.save(LIKENESS, np.array([assumed_icc(study.clusters, stand_in)]))
    return found
