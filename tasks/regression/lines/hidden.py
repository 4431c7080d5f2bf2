"""Columns of which nothing is seen: they are not adjusted for, or not as they are, and may confound as any other.

Noise hides how a number varies within a range that is declared far too wide; what it does beyond a range that is far
too narrow has been cut away. A column of two values of which hardly anybody has one can confound no more than so few
people do. Post-processing of released values:
``docs/proofs/regression.md``, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.covariates.columns import Columns
from causalveil.tasks.inference.confounding import part_hidden
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.rare import FARTHEST, most_have, rarer_shares
from causalveil.tasks.regression.scales import Scales
from causalveil.tasks.regression.skewed import clipped

# A column varies if its released variance is so many deviations of its noise above 0.
DEVIATIONS = 1.0


@dataclass(frozen=True)
class Hidden:
    """What noise or a narrow range hides of the columns.

    Attributes:
        part: of all confounding that is declared, the largest part that they may have; 0 to 1.
        columns: number of hidden columns but those of which hardly anybody has one of two values.
    """

    part: float = 0.0
    columns: int = 0

    @classmethod
    def of(cls, scales: Scales, moments: JointMoments, columns: Columns) -> Hidden:
        """From moments whose first features are the columns."""
        own, least = np.diagonal(moments.gram)[: len(columns.kept)], DEVIATIONS * math.sqrt(2) * moments.gram_error
        hidden = (own < least) | clipped(scales, columns)
        two = np.isin(np.arange(len(columns.kept)), columns.two_valued)
        few, others = hidden & two, int((hidden & ~two).sum())
        shares, errors = rarer_shares(scales.centre, scales.centre_error, columns)
        part, count = part_hidden(int(hidden.sum()), len(hidden)), int(hidden.sum())
        # Columns of two values by how many people they are of at most, or as any other, whichever is less.
        by_people = part_hidden(others, int((~few).sum())) + FARTHEST * most_have(shares[few], errors[few])
        if by_people < part:
            part, count = by_people, others
        return cls(min(part + FARTHEST * scales.rare_share, 1.0), count)
