"""Confounding by what declared ranges cut away, as the histograms of release 1 show it.

Of a normal number that is cut to its range a line sees a part r^2, and leaves (1 - r^2)/r^2 of what it takes off
(``tasks/covariates/narrow_ranges.py``). Nothing tells whether confounding follows the number or what is left of it, so
the law of the error has it on either side of the estimate.
"""

from __future__ import annotations

import numpy as np

from causalveil.tasks.covariates.narrow_ranges import FIT, DeclaredRanges, NarrowRanges, Ranged
from causalveil.tasks.regression.decide import Learnt
from causalveil.tasks.regression.released import Public
from causalveil.tasks.regression.scales import FoundScales

# A number of which more than half have its lowest value has a floor there, as scores and counts do.
FLOOR = 0.5


def cut_away(public: Public, scales: FoundScales, learnt: Learnt) -> tuple[float, NarrowRanges]:
    """Return what lines leave of confounding by numbers at whose ends many lie, in deviations, and these numbers."""
    margins = {place: one for place, one in enumerate(scales.margins) if one is not None}
    if public.trial or not margins:
        return 0.0, FIT
    places, some = tuple(margins), list(margins.values())
    columns = [public.columns[scales.kept[place]] for place in places]
    names, ends = tuple(one.name for one in columns), np.array([one.shares[[0, -1]] for one in some]).T
    from_zero = tuple(one.from_zero or heap > FLOOR for one, heap in zip(columns, ends[0], strict=True))
    means, variances = (np.array([getattr(one, name) for one in some]) for name in ("mean", "variance"))
    numbers = Ranged(DeclaredRanges(places, names, from_zero), means, variances, 1.0, ends=(ends[0], ends[1]))
    apart = learnt.draws.apart.mean(axis=0)[list(places)]
    left = numbers.left(apart * scales.deviation[list(places)], scales.arms.share)
    seen = np.array(learnt.lean) @ learnt.slopes[:, list(places)] * apart
    return float(left @ np.abs(seen)), NarrowRanges.of(numbers)
