"""Adjusted effects.

Pseudo-outcomes of the released cells are a bounded outcome, for which five releases adjust.

    1  cells of all people, on a share of the budget                             (strategy.py)
    2  of each measure: a public table of outcomes                               (pseudo.py)
    3  five releases of the adjustment on these outcomes                         (tasks/adjustment)

An interval is that of the adjustment, with what the error of the released curve of censoring may move beside it.
``docs/proofs/survival.md``, section 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from scipy.special import ndtri

from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.schemas.plan import Sizes
from causalveil.tasks.adjustment.features import Encoding
from causalveil.tasks.adjustment.five_releases import FiveReleases, differences
from causalveil.tasks.adjustment.interval import confounding, covers_unseen, not_covered
from causalveil.tasks.adjustment.recipe import AdjustmentRecipe, parts_of, public_of
from causalveil.tasks.adjustment.released import Public, ReleasedScales, ReleasedScores
from causalveil.tasks.enclave.enclave import Enclave, Rows
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.gaussian import divide
from causalveil.tasks.survival.curves import grid_of
from causalveil.tasks.survival.effects import Compared, TwoArms
from causalveil.tasks.survival.findings import Adjusted, SurvivalFindings, answered_until, findings
from causalveil.tasks.survival.pooling import CensoringStrata, pool_strata
from causalveil.tasks.survival.pseudo import PseudoOutcomes, pseudo_outcomes
from causalveil.tasks.survival.stages import columns_of
from causalveil.tasks.survival.strategy import SLOT, mechanism, read_cells, read_groups


def adjusted_recipe(study: SurvivalStudy, sizes: Sizes | None) -> dict[Measure, AdjustmentRecipe]:
    """Return every draw of the adjustments, by measure.

    The cells leave them a budget that all measures share alike.

    Raises:
        StudyError: a budget of so many digits that it cannot be divided exactly.
    """
    total, encoding = study.privacy.cost, Encoding.of(study.bounded)
    left, many = 1 - study.estimator.share, len(study.measure)
    own = float(left) / many
    public = public_of(total, str(study.estimand), study.estimator, encoding, sizes)
    public = replace(public, mu=public.mu * (own if public.pure else math.sqrt(own)), tilted=True)
    parts = vars(parts_of(public))
    shares: dict[str, Decimal] = {SLOT.name: study.estimator.share}
    for measure in study.measure:
        shares |= {f"{name}_{measure}": part * left / many for name, part in parts.items()}
    costs = divide(total, shares)
    return {
        measure: AdjustmentRecipe(
            public,
            encoding,
            sizes is not None,
            {name: cost for name in parts if (cost := costs.get(f"{name}_{measure}")) is not None},
            f"_{measure}",
        )
        for measure in study.measure
    }


def people(study: SurvivalStudy, sizes: Sizes, enclave: Enclave, outcomes: PseudoOutcomes) -> Pieces:
    """Return all units with the outcomes that a public table gives them, a piece a segment."""
    grid = grid_of(study, sizes.units)
    names = columns_of(grid)
    lengths = [len(enclave.load("t", index)) for index in range(enclave.segments)]
    full = [index for index, length in enumerate(lengths) if length]

    def rows(piece: int) -> Rows:
        index = full[piece]
        cell = grid.cell(*(enclave.load(name, index) for name in names))
        x, t = enclave.load("x", index), enclave.load("t", index)
        if grid.everybody:
            return Rows(x, t, outcomes.of(cell))
        # Who is not eligible adds nothing to any sum.
        own = cell < grid.numbers
        return Rows(x[own], t[own], outcomes.of(cell[own]))

    return Pieces(rows, len(full), sum(lengths))


def read_of(recipe: AdjustmentRecipe, units: int) -> AdjustmentRecipe:
    """Return a recipe whose sums are read as those of so many units, which noise showed.

    What it draws is the same.
    """
    public = recipe.public
    if units == public.units:
        return recipe
    parts = tuple(vars(parts_of(public)).values())
    return replace(recipe, public=replace(public, units=units, asked=parts), most=public.units)


@dataclass(frozen=True)
class ScalesOfPeople:
    """Release 1 of an adjustment, and what is public of the people whose sums it has."""

    scales: ReleasedScales
    public: Public

    @property
    def begun(self) -> FiveReleases:
        """Return what it decides."""
        return FiveReleases(self.public, self.scales)


def outcomes_stage(study: SurvivalStudy, sizes: Sizes, released: FloatArray, measure: Measure) -> PseudoOutcomes:
    """Make the table of one measure's outcomes of released cells; reads no row."""
    whole, strata = _read(study, sizes, released)
    return pseudo_outcomes(strata, measure, whole.cells, answered_until(study, strata.both))


def _read(study: SurvivalStudy, sizes: Sizes, released: FloatArray) -> tuple[TwoArms, CensoringStrata]:
    """Everybody's cells, and those of each stratum of censoring."""
    given = released, grid_of(study, sizes.units), sizes.units, mechanism(study)
    whole = TwoArms(read_cells(*given))
    return whole, pool_strata(study, whole, read_groups(*given), answered_until(study, [whole]))


def adjusted_stage(
    study: SurvivalStudy,
    sizes: Sizes,
    released: FloatArray,
    found: Mapping[Measure, tuple[PseudoOutcomes, FiveReleases, ReleasedScores]],
) -> SurvivalFindings:
    """Read adjusted effects off all releases, and curves of the arms as they are off the cells.

    No row is read.
    """
    whole, strata = _read(study, sizes, released)
    until = answered_until(study, strata.both)
    both, enough = whole.until(until), min(one.followed_to(study.censoring.floor) for one in strata.both)
    answers = {measure: adjusted(study, measure, both, *one) for measure, one in found.items()}
    return findings(study, whole, until, enough, answers, strata)


def adjusted(
    study: SurvivalStudy,
    measure: Measure,
    both: TwoArms,
    outcomes: PseudoOutcomes,
    asked: FiveReleases,
    scores: ReleasedScores,
) -> Adjusted:
    """Read an adjusted measure off its releases and the cells.

    Args:
        study: the study.
        measure: which.
        both: everybody's cells, whatever the groups, until the measure ends.
        outcomes: the table of the outcomes that were adjusted.
        asked: releases 1 to 4 of the adjustment.
        scores: release 5.
    """
    last = copy(asked)
    last.scores = scores
    with one_thread():
        found = last.found((study.confidence,))
    crude = both.contrast(measure, study.confidence, 0.0)
    half, span = outcomes.half, both.span(measure)
    moved = moved_means(last, half)
    # Where an arm's curve of censoring is off by a part, so is what adjusting moves its mean by; the curve of events,
    # which is off too, counts as moved by that.
    lost = sum(
        error * (float((moved[:, arm] ** 2).mean()) + own)
        for arm, (error, own) in enumerate(zip(outcomes.lost_error, both.variances(measure), strict=True))
    )
    estimate = found.value * half
    # A mean over people of whom noise alone tells how many there are is off by the same part.
    lost += outcomes.units_error * estimate**2
    low, high = (end * half for end in found.intervals[0])
    reach = float(ndtri((1 + study.confidence) / 2)) ** 2 * lost
    lower = estimate - math.sqrt((estimate - low) ** 2 + reach)
    upper = estimate + math.sqrt((high - estimate) ** 2 + reach)
    sampling = (found.sampling * half) ** 2
    noise = max((found.standard_error * half) ** 2 - sampling, 0.0) + lost
    whole = crude.whole_range or outcomes.followed < study.censoring.floor or upper - lower >= 2 * span
    # Pseudo-outcomes have a variance of their own, so no share of it is told.
    explained = 0.0 if found.explained == 0 else None
    estimate = min(max(estimate, -span), span)
    control = min(max(crude.control + float(moved[:, 0].mean()), 0.0), span)
    compared = Compared(
        treated=min(max(control + estimate, 0.0), span),
        control=control,
        estimate=estimate,
        lower=-span if whole else max(min(lower, span), -span),
        upper=span if whole else min(max(upper, -span), span),
        sampling=sampling,
        noise=noise,
        bias=0.0,
        whole_range=whole,
    )
    return Adjusted(
        compared,
        confounding(study, last.public, found.adjusted_share, found.left_out, explained),
        found.adjusted_share,
        found.kept_curves,
        last.refit_asked.count,
        outcomes.followed,
        covers_unseen(last.public),
        not_covered(last.public),
        differences(last),
    )


def moved_means(asked: FiveReleases, half: float) -> FloatArray:
    """Return how far adjustment moves the means of controls and treated.

    It is by draw of the posterior, shape (K, 2).
    """
    learnt, arms = asked.second, asked.found_scales.arms
    by_arm = np.einsum("ktj,kj->kt", learnt.draws.slopes, learnt.draws.apart) * (arms.spread * half)
    lean_treated, lean_controls = learnt.lean
    return np.asarray(np.stack([lean_controls * by_arm[:, 1], -lean_treated * by_arm[:, 0]], axis=1))
