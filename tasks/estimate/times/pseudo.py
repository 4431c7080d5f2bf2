"""Adjust effects on times by pseudo-outcomes, which are made of released cells alone.

With f a measure of an arm's curve, h the arm's cells and n its people, a person in a cell has the pseudo-outcome

    z[arm, cell] = f(h) + n df/dh[cell],

a known number of each cell: the infinitesimal jackknife (``survival::pseudo`` in R uses it for exact data). Given
covariates its mean is f of such people, for any released curve of events, if the released curve of censoring is right;
``lost_error`` is the variance of its error. Where censoring may depend on strata each stratum of an arm has its own
table. The outcomes are then adjusted for covariates like any others:

    1  cells of all people, on a share of the budget                                           (``releases.py``)
    2  of each subgroup, arm and question: a public table of outcomes by cell                        (this file)
    3  the five releases of a table by regression, of these outcomes                              (``adjust/``)

The interval is that of the adjustment, with an allowance for errors of the released curves of censoring. Proofs:
``docs/proofs/survival.md``, sections 8 and 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from causalveil.schemas.answers import Answer, Limits
from causalveil.schemas.confounding import AS_THEY_ARE
from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.estimate.adjust.five_releases import FiveReleases
from causalveil.tasks.estimate.adjust.interval import confounding, covers_unseen, curve_names
from causalveil.tasks.estimate.adjust.questions import Asked, JointScales
from causalveil.tasks.estimate.adjust.recipe import TWO_ARMS, TableRecipe, joint_recipe
from causalveil.tasks.estimate.adjust.released import CELLS, EDGES, ReleasedScales
from causalveil.tasks.estimate.answers import Part, calibrate, clusters_statement, covered, table
from causalveil.tasks.estimate.clusters import ClusteredVariances
from causalveil.tasks.estimate.findings import balance_of, not_covered, parts_of, simultaneous
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.answers import (
    RowAdjusted,
    grid_details,
    group_curves,
    of_one_outcome,
    of_the_end,
    units_by_arm,
)
from causalveil.tasks.estimate.times.curves import SLOT, Grid
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.releases import (
    CELL,
    JointCells,
    QuestionCells,
    Stratum,
    cells_share,
    pool_strata,
    pooled_words,
)
from causalveil.tasks.machine.arrays import BoolArray, FloatArray
from causalveil.tasks.machine.distribute import one_thread

# The least range of outcomes, as a divisor where all are equal.
LEAST_RANGE = 1e-9


@dataclass(frozen=True)
class TimesOutcomes:
    """Outcomes of each question, made of released cells, and their errors.

    Attributes:
        grid: of all cells.
        parts: by subgroup and question, its cells until it ends.
        strata: of censoring, by subgroup and question.
        table: by subgroup, question, released stratum, arm and cell, scaled to [-1, 1] by subgroup and question.
        half: half the range before scaling, shape (groups, questions).
        weights: shares of people by cell, of the same shape as ``table``; they add up to 1 by subgroup and question.
        resolved: whether both arms are seen and followed until the question ends, shape (groups, questions, arms); of
            the reference whether any other arm is.
        followed: the least share not censored until then, over arms and strata, shape (groups, questions).
        lost_error: the largest variance of the logarithm of the released curve of censoring, in the shape of
            ``resolved``.
        own_error: the variance of the question's value in an arm, in the same shape.
    """

    grid: Grid
    parts: tuple[tuple[QuestionCells, ...], ...]
    strata: tuple[tuple[tuple[Stratum, ...], ...], ...]
    table: FloatArray
    half: FloatArray
    weights: FloatArray
    resolved: BoolArray
    followed: FloatArray
    lost_error: FloatArray
    own_error: FloatArray

    @property
    def by_cell(self) -> FloatArray:
        """Outcomes by the numbers of ``Grid.cell``, shape (all cells, questions).

        The last rows are of ineligible people, who are in no subgroup and no sum.
        """
        outcomes = np.moveaxis(self.table, 1, -1).reshape(self.grid.numbers, -1)
        return np.concatenate([outcomes, np.zeros((self.grid.arms * self.grid.cells, outcomes.shape[1]))])

    def units_of(self, study: SurvivalStudy) -> FloatArray:
        """Return the unit of each outcome by subgroup, in half spans, shape (questions, groups).

        It is 0 where no arm is resolved.
        """
        spans = np.array([question.span / 2 for question in study.questions])
        return np.asarray((self.half * self.resolved.any(axis=-1) / spans).T)


def times_outcomes(study: SurvivalStudy, cells: JointCells) -> TimesOutcomes:
    """Make the tables of all questions' outcomes from released cells; no row is read."""
    grid, questions, groups = cells.grid, study.questions, len(study.groups)
    table = np.zeros((groups, len(questions), grid.strata_of_group, grid.arms, grid.cells))
    weights, half, followed = np.zeros_like(table), np.ones(table.shape[:2]), np.ones(table.shape[:2])
    shape = (groups, len(questions), grid.arms)
    resolved, lost, own = np.ones(shape, dtype=np.bool_), np.zeros(shape), np.zeros(shape)
    parts, strata = list[tuple[QuestionCells, ...]](), list[tuple[tuple[Stratum, ...], ...]]()
    for group in range(groups):
        ends = [_ended(study, cells, group, place) for place in range(len(questions))]
        parts.append(tuple(part for part, _ in ends))
        strata.append(tuple(pooled for _, pooled in ends))
        for place, (question, (part, pooled)) in enumerate(zip(questions, ends, strict=True)):
            at = group, place
            for arm in range(1, grid.arms):
                whole = cells.two_arms(cells.members(group), arm, part)
                pairs = [whole]
                if len(pooled) > 1:
                    pairs = [cells.two_arms(stratum.places, arm, part) for stratum in pooled]
                floor, last = study.censoring.floor, part.grid.intervals
                resolved[(*at, arm)] = all([both.followed_to(floor) == last for both in pairs])
                # The reference is in the comparison of every arm; its numbers are read in the first.
                for side, own_arm in ((1, arm), *([(0, 0)] if arm == 1 else [])):
                    own[(*at, own_arm)] = whole.variances(question.measure)[side]
                    people = np.array([float(both.tidy[side].sum()) for both in pairs])
                    for stratum, both, share in zip(pooled, pairs, people / people.sum(), strict=True):
                        places = [spot - group * grid.strata_of_group for spot in stratum.places]
                        table[(*at, places, own_arm)] = values_by_cell(both, question.measure, side, part)
                        summed = cells.counts[list(stratum.places), own_arm].sum(axis=0)
                        weights[(*at, places[0], own_arm)] = curves.tidied(summed, grid)
                        lost[(*at, own_arm)] += share**2 * lost_error(both, side)
                        left = float(curves.still_followed(both.tidy[side], part.grid)[-1])
                        followed[at] = min(followed[at], left if both.seen == last else 0.0)
            resolved[(*at, 0)] = resolved[(*at, slice(1, None))].any()
            table[at], half[at] = _scaled(table[at], resolved[at])
            weights[at] /= weights[at].sum()
    return TimesOutcomes(grid, tuple(parts), tuple(strata), table, half, weights, resolved, followed, lost, own)


def _ended(
    study: SurvivalStudy, cells: JointCells, group: int, place: int
) -> tuple[QuestionCells, tuple[Stratum, ...]]:
    """Return the cells of a question until it ends, and the strata of censoring of a subgroup until then."""
    question = study.questions[place]
    strata = pool_strata(study, cells, group, cells.last_of(study, question))
    last = cells.last_of(study, question, [stratum.places for stratum in strata])
    return QuestionCells.of(question, study, cells.grid, last), strata


def values_by_cell(both: TwoArms, measure: Measure, side: int, part: QuestionCells) -> FloatArray:
    """Return an arm's outcomes by cell of the whole grid: f(h) + n df/dh of the question's cell."""
    function, tidy = both.function(measure), both.tidy[side]
    values = float(function(tidy)) + float(tidy.sum()) * curves.gradient(function, tidy)
    return np.asarray(values[part.sums.argmax(axis=0)])


def _scaled(raw: FloatArray, resolved: BoolArray) -> tuple[FloatArray, float]:
    """Return outcomes of all arms in [-1, 1] and half their range.

    The range is that of resolved arms: outcomes of an arm without units at risk at the horizon have no bound.
    """
    chosen = raw[:, resolved] if resolved.any() else raw
    low, high = float(chosen.min()), float(chosen.max())
    half = max((high - low) / 2, LEAST_RANGE)
    return np.clip((raw - low) / half - 1.0, -1.0, 1.0), half


def lost_error(both: TwoArms, arm: int) -> float:
    """Return the largest variance of the logarithm of an arm's curve of censoring."""
    tidy = both.tidy[arm]

    def log_followed(cells: FloatArray) -> FloatArray:
        return np.asarray(np.log(np.maximum(curves.still_followed(cells, both.grid), curves.LEAST)))

    slopes = curves.gradient(log_followed, tidy)
    sampling = tidy @ slopes**2
    noise = np.einsum("cj,cd,dj->j", slopes, both.cells.part(arm), slopes)
    return float(np.maximum(sampling + noise, 0.0).max())


def times_recipe(study: SurvivalStudy, sizes: Sizes | None) -> TableRecipe:
    """Return every draw of the adjustment, on the budget without the cells' share.

    Raises:
        StudyError: the budget cannot be divided exactly, or there are more subgroups than it can serve.
    """
    return joint_recipe(study.bounded, sizes, {SLOT.name: cells_share(study)})


def known_scales(outcomes: TimesOutcomes, scales: JointScales) -> JointScales:
    """Return the first joint release, with each outcome's histogram by the cells.

    Cells have little noise; the release's own would hide a rare event whose outcomes lie in several cells.
    """
    questions = []
    for group, (rows, units) in enumerate(zip(scales.questions, scales.units, strict=True)):
        by_cell = zip(outcomes.table[group], outcomes.weights[group], strict=True)
        shares = [_histogram(*cells) for cells in by_cell]
        pairs = zip(shares, rows, strict=True)
        questions.append(tuple(tuple(_known(histogram, units, side) for side in row) for histogram, row in pairs))
    return replace(scales, questions=tuple(questions))


def _histogram(table: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the shares of people by classes of their outcomes."""
    places = np.clip(np.searchsorted(EDGES, table.ravel()) - 1, 0, CELLS - 1)
    return np.asarray(np.bincount(places, weights.ravel(), minlength=CELLS), np.float64)


def _known(shares: FloatArray, units: int, scales: ReleasedScales) -> ReleasedScales:
    """Return a question's first release with a given histogram of its outcome."""
    return replace(scales, outcome=shares, cells_sd=np.append(scales.cells_sd[:-1], 1 / units))


def times_outcomes_stage(study: SurvivalStudy, sizes: Sizes, released: FloatArray) -> TimesOutcomes:
    """Make the tables of all questions' outcomes from the released numbers; no row is read."""
    with one_thread():
        return times_outcomes(study, JointCells.read(released, study, sizes))


def people_of(enclave: Enclave, outcomes: TimesOutcomes) -> Pieces:
    """Return all units with their outcomes by public tables, one piece by segment."""
    units, by_cell, grid = sum(map(len, enclave.hashes())), outcomes.by_cell, outcomes.grid

    def rows(index: int) -> CellRows:
        x, t, time, kind, g = (enclave.load(name, index) for name in ("x", *CELL))
        return CellRows(x, t, by_cell[grid.cell(t, time, kind, g)], g // np.uint8(grid.combinations))

    return Pieces(rows, enclave.segments, units)


def times_parts(
    study: SurvivalStudy,
    outcomes: TimesOutcomes,
    asked: Asked,
    scales: JointScales,
    units: int,
    clustered: ClusteredVariances | None = None,
) -> list[Part]:
    """Return every answer of the table with its errors, in units of its question.

    ``units``: of the data; ``clustered``: of a study with clusters, the possible values of each sampling variance.
    """
    groups, arms = study.groups, study.arm_names
    units_error = scales.count_sd * math.sqrt(len(arms)) / np.array(scales.units)
    if not study.where and study.subgroups is None:
        units_error[:] = 0.0

    def in_question_units(part: Part, row: Sequence[FiveReleases] | None) -> Part:
        if row is None:
            return part
        group, arm = groups.index(part.group), arms.index(part.arm)
        if not outcomes.resolved[group, part.outcome, arm]:
            return Part(
                part.outcome, part.group, part.arm, False, 0.0, 0.0, 0.0, 0.0, 0.0, None, hidden=Code.too_few_followed
            )
        half = float(outcomes.half[group, part.outcome])
        factor = half / (study.questions[part.outcome].span / 2)
        error = None if part.error is None else part.error * factor
        lost = sum(
            float(outcomes.lost_error[group, part.outcome, place])
            * (float((moved**2).mean()) + float(outcomes.own_error[group, part.outcome, place]))
            for place, moved in _means_moved(row, arm, half).items()
        )
        # A mean over a noisy number of people has the same relative error.
        lost += (units_error[group] * part.value * factor) ** 2
        return replace(
            part,
            value=part.value * factor,
            sampling=part.sampling * factor**2,
            noise=part.noise * factor**2 + lost,
            spread=part.spread * factor,
            confounding=None if part.confounding is None else part.confounding.times(factor),
            error=error,
            clustered=None if part.clustered is None else part.clustered.times(factor**2),
        )

    return parts_of(study.bounded, asked, scales, units, in_question_units, clustered)


def _means_moved(row: Sequence[FiveReleases], arm: int, half: float) -> dict[int, FloatArray]:
    """Return the change of the means of the reference and of an arm by adjusting, by posterior draw."""
    if len(row) == 1:
        moved = moved_means(row[0], half)
        return {0: moved[:, 0], 1: moved[:, 1]}
    # With more than two arms, the treated of a side are its own arm.
    return {side: moved_means(row[side], half)[:, TWO_ARMS - 1] for side in (0, arm)}


def moved_means(question: FiveReleases, half: float) -> FloatArray:
    """Return the change of controls' and treated means by adjusting, by draw, shape (K, 2)."""
    fit, arms = question.second, question.found_scales.arms
    by_arm = np.einsum("ktj,kj->kt", fit.draws.slopes, fit.draws.apart) * (arms.spread * half)
    lean_treated, lean_controls = fit.lean
    return np.asarray(np.stack([lean_controls * by_arm[:, 1], -lean_treated * by_arm[:, 0]], axis=1))


def times_findings(
    study: SurvivalStudy,
    sizes: Sizes,
    released: FloatArray,
    outcomes: TimesOutcomes,
    asked: Asked,
    scales: JointScales,
    clustered: ClusteredVariances | None = None,
) -> Findings:
    """Return every adjusted answer, and unadjusted curves of the arms; no row is read."""
    bounded = study.bounded
    with one_thread():
        cells = JointCells.read(released, study, sizes)
        parts = times_parts(study, outcomes, asked, scales, sizes.units, clustered)
        balance = balance_of(bounded, asked)
        figures = group_curves(study, cells)
        answers, calibration = calibrate(bounded, parts, table(bounded, parts))
        rows = tuple(_row(study, cells, outcomes, asked, *each) for each in zip(parts, answers, strict=True))
    texts = [pooled_words(study, group_strata[0]) for group_strata in outcomes.strata]
    floor, strata = study.censoring.floor, [group_strata[0] for group_strata in outcomes.strata]
    enough = min(cells.followed_to(floor, stratum.places) for group_strata in strata for stratum in group_strata)
    details: dict[str, float | int | str | bool] = {
        **grid_details(cells, enough),
        **simultaneous(len(answers)),
        **units_by_arm(study, cells),
        **_strata_told(study, strata, texts),
    }
    lost = _lost(study, dict.fromkeys(name for _, columns in texts for name in columns))
    open_to = not_covered(bounded, asked, calibration.mean is not None)
    if study.clusters is not None:
        open_to = (*open_to, limit(Code.clusters_in_curves, column=study.clusters.column))
    findings = Findings(
        answers=rows,
        confidence=study.confidence,
        covers=covered(study, rows),
        details=details,
        not_covered=(*open_to, *lost, *of_the_end(study, cells.grid)),
        balance=balance,
        calibration=calibration,
        curves=figures,
        clusters=clusters_statement(study, parts, [question.label for question in study.questions]),
    )
    if not study.asks_one:
        return findings
    return of_one_outcome(study, findings, _first_row(study, cells, outcomes, asked, rows[0]))


def _row(
    study: SurvivalStudy,
    cells: JointCells,
    outcomes: TimesOutcomes,
    asked: Asked,
    part: Part,
    answer: Answer,
) -> Answer:
    """Return an answer by the name of its question, with its end, and both arms' values in a subgroup."""
    question = study.questions[part.outcome]
    answer = answer.model_copy(update={"outcome": question.label, "measure": question.measure})
    if part.group not in study.groups:
        return answer
    group, arm = study.groups.index(part.group), study.arm_names.index(part.arm)
    contrast = cells.contrast(question, group, arm, outcomes.parts[group][part.outcome])
    span, questions = contrast.both.span(question.measure), asked[group]
    moved = 0.0
    if questions is not None:
        half = float(outcomes.half[group, part.outcome])
        moved = float(_means_moved(questions[part.outcome], arm, half)[0].mean())
    control = contrast.both.contrast(question.measure, study.confidence, 0.0).control + moved
    control = min(max(control, 0.0), span)
    updates = {"values": (control, min(max(control + (answer.estimate or 0.0), 0.0), span))}
    if contrast.restricted_to is None:
        return answer.model_copy(update=updates)
    within = {
        key: Limits(lower=max(ends.lower, -span), upper=min(ends.upper, span))
        for key in ("interval", "simultaneous")
        if (ends := getattr(answer, key)) is not None
    }
    return answer.model_copy(update={**updates, **within, "restricted_to": contrast.restricted_to})


def _strata_told(
    study: SurvivalStudy, strata: Sequence[Sequence[Stratum]], texts: Sequence[tuple[list[str], list[str]]]
) -> dict[str, int | str]:
    """Return details on strata of censoring of the first question, by subgroup if there are several."""
    details: dict[str, int | str] = {}
    if not study.censoring.by:
        return details
    for label, group_strata, (texts_of_group, _) in zip(study.groups, strata, texts, strict=True):
        suffix = "" if study.subgroups is None else f"[{label}]"
        details[f"strata{suffix}"] = len(group_strata)
        if texts_of_group:
            details[f"pooled_strata{suffix}"] = "; ".join(texts_of_group)
    return details


def _lost(study: SurvivalStudy, pooled: Iterable[str]) -> tuple[Limit, ...]:
    """Return the assumption on losses: within which levels they may not depend on the event's time."""
    groups = [] if study.subgroups is None else [f"a level of '{study.subgroups.name}'"]
    by = [_levels_of(study, name) for name in study.censoring.by]
    named = (*groups, *(f"the levels of {by[0]}", *by[1:])) if by else tuple(groups)
    if not named:
        return (limit(Code.censoring),)
    columns = tuple(f"'{name}'" for name in pooled)
    return (
        limit(Code.censoring_within, columns=named),
        *((limit(Code.censoring_pooled, columns=columns),) if columns else ()),
    )


def _levels_of(study: SurvivalStudy, name: str) -> str:
    """Return a column of ``censoring.by``, with the lower bounds of its classes if it is a number."""
    classes = ", ".join(f"{start:g}" for start in study.censoring.classes.get(name, ()))
    return f"'{name}' (classes from {classes})" if classes else f"'{name}'"


def _first_row(
    study: SurvivalStudy,
    cells: JointCells,
    outcomes: TimesOutcomes,
    asked: Asked,
    answer: Answer,
) -> RowAdjusted:
    """Return the first question's adjustment, of two arms over all units."""
    question = study.questions[0]
    crude = cells.contrast(question, 0, 1, outcomes.parts[0][0]).both.contrast(question.measure, study.confidence, 0.0)
    details: dict[str, float | int | str | bool] = {
        "confounding_adjusted_for": 0.0,
        "still_followed": float(outcomes.followed[0, 0]),
        "unadjusted": crude.estimate,
        "unadjusted_lower": crude.lower,
        "unadjusted_upper": crude.upper,
    }
    if asked[0] is None:
        return RowAdjusted(AS_THEY_ARE, {**details, "features": 0, "curves": "none"}, ())
    fit = asked[0][0][0]
    law = fit.law
    beyond = fit.public, law.adjusted_share, fit.left_out, law.explained
    statement = answer.confounding or confounding(study.bounded, *beyond)
    details |= {
        "confounding_adjusted_for": law.adjusted_share,
        "features": fit.second.features.count,
        "curves": ", ".join(curve_names(fit.public, fit.second.features)) or "none",
    }
    covers = limit(Code.noise_of_models), limit(Code.censoring_curves), *covers_unseen(fit.public)
    return RowAdjusted(statement, details, covers)
