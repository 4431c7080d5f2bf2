"""Balance and overlap of the arms, from what the releases leave possible: post-processing, at no cost.

Standardised mean differences and effective sample sizes are those that cobalt reports (Greifer 2024), of weights that
are linear in the features.
"""

from __future__ import annotations

import numpy as np

from causalveil.schemas.confounding import CovariateBalance
from causalveil.tasks.adjustment.five_releases import FiveReleases


def differences(question: FiveReleases) -> tuple[CovariateBalance, ...]:
    """Return how far the arms lie apart in each covariate, and what weights leave of it.

    All are in deviations within arms. What is left is D - sum_t k_t G_t h_t, by the draws that releases leave possible;
    k_t add up to 1 for two arms.
    """
    learnt = question.second
    lines, lean = learnt.features.lines, np.array(learnt.lean) / sum(learnt.lean)
    moved = np.einsum("t,ktde,te->kd", lean, learnt.draws.grams, learnt.weights)
    shares = np.array([question.found_scales.arms.share, 1 - question.found_scales.arms.share])
    size = np.sqrt(np.einsum("t,ktdd->d", shares, learnt.draws.grams) / len(learnt.draws.grams))[: len(lines)]
    left = (learnt.draws.apart - moved)[:, : len(lines)] / size
    numbers = np.stack([learnt.moments.apart[: len(lines)] / size, left.mean(axis=0), left.std(axis=0)], axis=1)
    names = [question.public.columns[line.column].name for line in lines]
    return tuple(
        CovariateBalance(covariate=name, before=before, after=after, noise_error=error)
        for name, (before, after, error) in zip(names, numbers.tolist(), strict=True)
    )


def effective(question: FiveReleases) -> tuple[float, float]:
    """Return the smaller share of an arm's units that weights leave effective, and its doubt.

    The share of an arm is 1/(1 + k^2 h'G h).
    """
    learnt = question.second
    squares = np.einsum("td,ktde,te->kt", learnt.weights, learnt.draws.grams, learnt.weights)
    found = (1 / (1 + np.array(learnt.lean) ** 2 * squares)).min(axis=1)
    return float(found.mean()), float(found.std())
