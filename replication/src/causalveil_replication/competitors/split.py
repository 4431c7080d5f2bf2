"""Estimators that split the units into disjoint groups, so that a unit touches one group's estimate alone.

Guha and Reiter (2025): weighted estimates of K groups, averaged. Lebeda, Even, Bellet and Josse (2025): models of K
folds, whose averaged predictions serve everybody outside. Subsample-and-aggregate (Nissim, Raskhodnikova and Smith
2007) of matching itself. Sensitivities under replace-one neighbours: ``docs/proofs/competitors.md``, section 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.privacy import Norm
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.models.nearest import NO_CAP, match_capped
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Sensitivity
from causalveil_replication.competitors.competitor import (
    CLIP,
    PROVED,
    REPLACE_ONE,
    SLOT,
    Competitor,
    Fitted,
    Instance,
    cost,
    group_count,
    groups,
    scores,
)
from causalveil_replication.yuan2026.errors import penalty

NEIGHBOURS = 5
RIDGE = 1.0


def hajek(rows: Rows) -> float:
    """Difference of weighted means in one group, in units of u, within [-2, 2]; 0 where an arm is empty."""
    weights = _hajek_weights(rows)
    return 0.0 if weights is None else float(weights @ rows.u)


def matched(rows: Rows) -> float:
    """Matching on the group's own propensity scores without caps, within [-2, 2]; 0 where an arm is empty."""
    ratio = min(NEIGHBOURS, int(rows.t.sum()), int((rows.t == 0).sum()))
    if ratio == 0:
        return 0.0
    found = match_capped(scores(rows, _penalty(rows), (0.0, 1.0)), rows.t, ratio, (NO_CAP, NO_CAP))
    sign = np.where(rows.t != 0, 1.0, -1.0)
    return float(np.clip(np.mean(sign * (1 + found.uses / ratio) * rows.u), -2.0, 2.0))


def averaged(instance: Instance, estimate: Callable[[Rows], float]) -> Fitted:
    """The mean of K groups' estimates: one unit moves one of them, from end to end of [-2, 2] at most: 4/K."""
    count = group_count(len(instance.rows))
    values = [estimate(instance.rows[group]) for group in groups(len(instance.rows), count)]
    return laplace(instance, float(np.mean(values)), 4 / count, f"4/K, K = {count} groups")


def laplace(instance: Instance, value: float, sensitivity: float, formula: str) -> Fitted:
    """A number in units of u with Laplace noise of its sensitivity, read in outcome units."""
    bound = Sensitivity(value=sensitivity * (1 + 1e-9), norm=Norm.l1, formula=formula)
    half = instance.width / 2

    def release(epsilon: str, budget: Budget) -> float:
        return half * float(Laplace(bound, cost(epsilon)).release(np.array([value]), SLOT, budget)[0])

    return Fitted(half * value, release)


def public_weights(instance: Instance, weights: FloatArray) -> Fitted:
    """A weighted sum of outcomes whose weights are public: one outcome moves it by twice the largest at most."""
    most = 2 * float(np.abs(weights).max())
    return laplace(instance, float(weights @ instance.rows.u), most, "twice the largest public weight")


def grouped_weights(instance: Instance) -> FloatArray:
    """Return each outcome's weight in the mean of the groups' weighted estimates, shape (n,)."""
    rows = instance.rows
    parts = groups(len(rows), group_count(len(rows)))
    result = np.zeros(len(rows))
    for part in parts:
        weights = _hajek_weights(rows[part])
        result[part] = 0.0 if weights is None else weights / len(parts)
    return result


@dataclass(frozen=True)
class FoldModels:
    """Predictions for everybody by the models of every fold, shape (K, n): outcomes in [-1, 1], weights in [1, 1/c]."""

    treated: FloatArray
    controls: FloatArray
    weight_treated: FloatArray
    weight_controls: FloatArray

    def elsewhere(self, parts: Sequence[slice]) -> FoldModels:
        """Averages over the other folds' models, shape (n,): of outcomes, and of weights (harmonic of scores)."""

        def mean(values: FloatArray) -> FloatArray:
            total = values.sum(axis=0)
            for fold, part in enumerate(parts):
                total[part] -= values[fold, part]
            return np.asarray(total / (len(parts) - 1))

        return FoldModels(
            *(mean(one) for one in (self.treated, self.controls, self.weight_treated, self.weight_controls))
        )


def fold_models(instance: Instance) -> tuple[FoldModels, list[slice]]:
    """Ridge regressions of each arm and a logistic score in every fold; an empty arm is taken to be in the middle."""
    rows, features = instance.rows, instance.features
    parts = groups(len(rows), group_count(len(rows)))
    found: list[tuple[FloatArray, ...]] = []
    for part in parts:
        some = rows[part]
        one, zero = (_ridge(features[part][some.t == arm], some.u[some.t == arm], features) for arm in (1, 0))
        score = _scores_elsewhere(some, rows)
        found.append((one, zero, 1 / score, 1 / (1 - score)))
    return FoldModels(*(np.stack(values) for values in zip(*found, strict=True))), parts


def g_formula(instance: Instance) -> Fitted:
    """The mean predicted difference. One unit moves one fold's model, so predictions of the others by 4/(K - 1)."""
    models, parts = fold_models(instance)
    mean = models.elsewhere(parts)
    value = float(np.mean(mean.treated - mean.controls))
    count, units = len(parts), len(instance.rows)
    # Shares of units outside one fold: the largest, since folds differ by a unit.
    outside = 1 - min(part.stop - part.start for part in parts) / units
    return laplace(instance, value, 4 * outside / (count - 1) + 4 / units, f"4 share/(K - 1) + 4/n, K = {count} folds")


def doubly_robust(instance: Instance) -> Fitted:
    """Augmented weighting: a fold's model moves a score by 2 (2/c - 1)/(K - 1) at most, a unit's own spans 4/c."""
    models, parts = fold_models(instance)
    mean, t, u = models.elsewhere(parts), instance.rows.t != 0, instance.rows.u
    residual = np.where(t, mean.weight_treated * (u - mean.treated), -mean.weight_controls * (u - mean.controls))
    value = float(np.mean(mean.treated - mean.controls + residual))
    count, units, most = len(parts), len(instance.rows), 1 / CLIP[0]
    outside = 1 - min(part.stop - part.start for part in parts) / units
    bound = 2 * (2 * most - 1) * outside / (count - 1) + 4 * most / units
    return laplace(instance, value, bound, f"2 (2/c - 1) share/(K - 1) + 4/(c n), K = {count} folds, c = {CLIP[0]}")


def label_weighting(instance: Instance) -> Fitted:
    """Weighting by the folds' averaged scores, where outcomes alone are private: their weights are public."""
    models, parts = fold_models(instance)
    mean, t = models.elsewhere(parts), instance.rows.t != 0
    one, zero = np.where(t, mean.weight_treated, 0.0), np.where(t, 0.0, mean.weight_controls)
    return public_weights(instance, one / max(one.sum(), 1.0) - zero / max(zero.sum(), 1.0))


COMPETITORS = (
    Competitor(
        "guha_reiter", "Guha-Reiter, K groups", "sample", REPLACE_ONE, PROVED, "0", lambda p: averaged(p, hajek)
    ),
    Competitor("lebeda_g", "Lebeda et al., G-formula", "sample", REPLACE_ONE, PROVED, "0", g_formula),
    Competitor("lebeda_aipw", "Lebeda et al., AIPW", "sample", REPLACE_ONE, PROVED, "0", doubly_robust),
    Competitor(
        "split_matching",
        "matching, subsample-and-aggregate",
        "sample",
        REPLACE_ONE,
        PROVED,
        "0",
        lambda p: averaged(p, matched),
    ),
    Competitor(
        "guha_reiter_label",
        "Guha-Reiter, public weights",
        "label",
        REPLACE_ONE,
        PROVED,
        "0",
        lambda p: public_weights(p, grouped_weights(p)),
    ),
    Competitor("lebeda_label", "Lebeda et al., public weights", "label", REPLACE_ONE, PROVED, "0", label_weighting),
)


def _hajek_weights(rows: Rows) -> FloatArray | None:
    treated = rows.t != 0
    if treated.all() or not treated.any():
        return None
    score = scores(rows, _penalty(rows))
    one, zero = np.where(treated, 1 / score, 0.0), np.where(treated, 0.0, 1 / (1 - score))
    return np.asarray(one / one.sum() - zero / zero.sum())


def _penalty(rows: Rows) -> float:
    return penalty(len(rows), rows.x.shape[1] - 1)


def _ridge(x: FloatArray, u: FloatArray, everybody: FloatArray) -> FloatArray:
    """Predictions for everybody in [-1, 1] by a ridge regression about the means."""
    if len(u) == 0:
        return np.zeros(len(everybody))
    middle, level = x.mean(axis=0), float(u.mean())
    centred = x - middle
    slopes = np.linalg.solve(centred.T @ centred + RIDGE * np.eye(x.shape[1]), centred.T @ (u - level))
    return np.asarray(np.clip(level + (everybody - middle) @ slopes, -1.0, 1.0))


def _scores_elsewhere(some: Rows, rows: Rows) -> FloatArray:
    """Scores of everybody by a model of ``some``, clipped; a fold of one arm has its share, clipped."""
    from causalveil.tasks.estimate.models.logistic import clipped_scores, fit

    share = float(some.t.mean())
    if share in (0.0, 1.0):
        return np.full(len(rows), min(max(share, CLIP[0]), CLIP[1]))
    return clipped_scores(rows.x, fit(lambda _: some, 1, len(some), _penalty(some)), CLIP)
