"""Adjusted questions of times to an event, whose outcomes are made of released cells.

    1  cells of all people, on a share of the budget                                     (tasks/survival/joint.py)
    2  of each subgroup, arm and question: a public table of outcomes by cell                              (here)
    3  the five joint releases of a protocol by regression, of these outcomes               (recipe.py, drawn.py)

An interval is that of the adjustment, with what errors of the released curves of censoring may move beside it.
``docs/proofs/survival.md``, section 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from causalveil.schemas.confounding import AS_THEY_ARE
from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.protocols.answers import Answer, Limits
from causalveil.tasks.adjustment.drawn import Asked, JointScales
from causalveil.tasks.adjustment.five_releases import FiveReleases
from causalveil.tasks.adjustment.interval import confounding, covers_unseen, curve_names
from causalveil.tasks.adjustment.recipe import TWO_ARMS, TableRecipe, joint_recipe
from causalveil.tasks.adjustment.released import CELLS, EDGES, ReleasedScales
from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference.assemble import Findings
from causalveil.tasks.inference.covered import covered
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.protocols.calibration import calibrate
from causalveil.tasks.protocols.findings import not_covered, parts_of, together
from causalveil.tasks.protocols.gates import balance_of
from causalveil.tasks.protocols.parts import Part, table
from causalveil.tasks.survival.joint import JointCells, cells_share
from causalveil.tasks.survival.joint_answers import (
    RowAdjusted,
    group_curves,
    of_one_outcome,
    of_the_end,
    of_the_grid,
    people_told,
)
from causalveil.tasks.survival.pooling import Stratum, pooled_words
from causalveil.tasks.survival.pseudo import TimesOutcomes, times_outcomes
from causalveil.tasks.survival.stages import CELL
from causalveil.tasks.survival.strategy import SLOT


def times_recipe(study: SurvivalStudy, sizes: Sizes | None) -> TableRecipe:
    """Return every draw of the adjustment.

    The cells leave it all but their share of the budget.

    Raises:
        StudyError: a budget that cannot be divided exactly, or more subgroups than it can serve.
    """
    return joint_recipe(study.bounded, sizes, {SLOT.name: cells_share(study)})


def known_scales(outcomes: TimesOutcomes, scales: JointScales) -> JointScales:
    """Return the first joint release, with each outcome's histogram by the cells.

    The cells tell it with little noise; its own would hide a rare event whose outcomes lie in several cells.
    """
    questions = []
    for group, (own, units) in enumerate(zip(scales.questions, scales.units, strict=True)):
        by_cell = zip(outcomes.table[group], outcomes.weights[group], strict=True)
        shares = [_histogram(*each) for each in by_cell]
        questions.append(
            tuple(tuple(_known(one, units, side) for side in row) for one, row in zip(shares, own, strict=True))
        )
    return replace(scales, questions=tuple(questions))


def _histogram(table: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the shares of people by classes of their outcomes."""
    places = np.clip(np.searchsorted(EDGES, table.ravel()) - 1, 0, CELLS - 1)
    return np.asarray(np.bincount(places, weights.ravel(), minlength=CELLS), np.float64)


def _known(shares: FloatArray, units: int, scales: ReleasedScales) -> ReleasedScales:
    """Return a question's first release with this histogram of its outcome."""
    return replace(scales, outcome=shares, cells_sd=np.append(scales.cells_sd[:-1], 1 / units))


def times_outcomes_stage(study: SurvivalStudy, sizes: Sizes, released: FloatArray) -> TimesOutcomes:
    """Make the tables of all questions' outcomes of the released numbers; reads no row."""
    with one_thread():
        return times_outcomes(study, JointCells.read(released, study, sizes))


def people_of(enclave: Enclave, outcomes: TimesOutcomes) -> Pieces:
    """Return all units with the outcomes that public tables give them, a piece a segment."""
    units, by_cell, grid = sum(map(len, enclave.hashes())), outcomes.by_cell, outcomes.grid

    def rows(index: int) -> CellRows:
        x, t, time, kind, g = (enclave.load(name, index) for name in ("x", *CELL))
        return CellRows(x, t, by_cell[grid.cell(t, time, kind, g)], g // np.uint8(grid.combinations))

    return Pieces(rows, enclave.segments, units)


def times_parts(
    study: SurvivalStudy, outcomes: TimesOutcomes, asked: Asked, scales: JointScales, units: int
) -> list[Part]:
    """Return every answer of the table with its errors, in units of its question.

    ``units``: of the data.
    """
    groups, arms = study.groups, study.arm_names
    units_error = scales.count_sd * math.sqrt(len(arms)) / np.array(scales.units)
    if not study.where and study.subgroups is None:
        units_error[:] = 0.0

    def in_its_units(part: Part, row: Sequence[FiveReleases] | None) -> Part:
        if row is None:
            return part
        group, arm = groups.index(part.group), arms.index(part.arm)
        if not outcomes.told[group, part.outcome, arm]:
            return Part(
                part.outcome, part.group, part.arm, False, 0.0, 0.0, 0.0, 0.0, 0.0, None, hidden=Code.too_few_followed
            )
        half = float(outcomes.half[group, part.outcome])
        factor = half / (study.questions[part.outcome].span / 2)
        error = None if part.error is None else part.error * factor
        lost = sum(
            float(outcomes.lost_error[group, part.outcome, one])
            * (float((moved**2).mean()) + float(outcomes.own_error[group, part.outcome, one]))
            for one, moved in _means_moved(row, arm, half).items()
        )
        # A mean over people of whom noise alone tells how many there are is off by the same part.
        lost += (units_error[group] * part.value * factor) ** 2
        return replace(
            part,
            value=part.value * factor,
            sampling=part.sampling * factor**2,
            noise=part.noise * factor**2 + lost,
            spread=part.spread * factor,
            error=error,
        )

    return parts_of(study.bounded, asked, scales, units, in_its_units)


def _means_moved(row: Sequence[FiveReleases], arm: int, half: float) -> dict[int, FloatArray]:
    """Return by how much adjusting moves the mean of the reference, and of an arm, by draw of the posterior."""
    if len(row) == 1:
        found = moved_means(row[0], half)
        return {0: found[:, 0], 1: found[:, 1]}
    # Of more than two arms a side has its own arm for the treated.
    return {one: moved_means(row[one], half)[:, TWO_ARMS - 1] for one in (0, arm)}


def moved_means(asked: FiveReleases, half: float) -> FloatArray:
    """Return how far adjustment moves the means of controls and treated.

    It is by draw of the posterior, shape (K, 2).
    """
    learnt, arms = asked.second, asked.found_scales.arms
    by_arm = np.einsum("ktj,kj->kt", learnt.draws.slopes, learnt.draws.apart) * (arms.spread * half)
    lean_treated, lean_controls = learnt.lean
    return np.asarray(np.stack([lean_controls * by_arm[:, 1], -lean_treated * by_arm[:, 0]], axis=1))


def times_findings(
    study: SurvivalStudy,
    sizes: Sizes,
    released: FloatArray,
    outcomes: TimesOutcomes,
    asked: Asked,
    scales: JointScales,
) -> Findings:
    """Read every adjusted answer, and curves of the arms as they are, off all releases.

    No row is read.
    """
    bounded = study.bounded
    with one_thread():
        cells = JointCells.read(released, study, sizes)
        parts, balance = times_parts(study, outcomes, asked, scales, sizes.units), balance_of(bounded, asked)
        drawn = group_curves(study, cells)
        answers, calibration = calibrate(bounded, parts, table(bounded, parts))
        rows = tuple(_row(study, cells, outcomes, asked, *each) for each in zip(parts, answers, strict=True))
    texts = [pooled_words(study, own[0]) for own in outcomes.strata]
    floor, strata = study.censoring.floor, [own[0] for own in outcomes.strata]
    enough = min(cells.followed_to(floor, one.places) for own in strata for one in own)
    details: dict[str, float | int | str | bool] = {
        **of_the_grid(cells, enough),
        **together(len(answers)),
        **people_told(study, cells),
        **_strata_told(study, strata, texts),
    }
    lost = _lost(study, dict.fromkeys(name for _, columns in texts for name in columns))
    open_to = not_covered(bounded, asked, calibration.mean is not None)
    found = Findings(
        answers=rows,
        confidence=study.confidence,
        covers=covered(study, rows),
        details=details,
        not_covered=(*open_to, *lost, *of_the_end(study, cells.grid)),
        balance=balance,
        calibration=calibration,
        curves=drawn,
    )
    if not study.asks_one:
        return found
    return of_one_outcome(study, found, _first_row(study, cells, outcomes, asked, rows[0]))


def _row(
    study: SurvivalStudy,
    cells: JointCells,
    outcomes: TimesOutcomes,
    asked: Asked,
    part: Part,
    answer: Answer,
) -> Answer:
    """Return an answer by the name of its question, with both arms' values and when it ends.

    Values over several subgroups are not told.
    """
    question = study.questions[part.outcome]
    answer = answer.model_copy(update={"outcome": question.label, "measure": question.measure})
    if part.group not in study.groups:
        return answer
    group, arm = study.groups.index(part.group), study.arm_names.index(part.arm)
    one = cells.contrast(question, group, arm, outcomes.parts[group][part.outcome])
    span, own = one.both.span(question.measure), asked[group]
    moved = 0.0
    if own is not None:
        half = float(outcomes.half[group, part.outcome])
        moved = float(_means_moved(own[part.outcome], arm, half)[0].mean())
    control = one.both.contrast(question.measure, study.confidence, 0.0).control + moved
    control = min(max(control, 0.0), span)
    known = {"values": (control, min(max(control + (answer.estimate or 0.0), 0.0), span))}
    if one.restricted_to is None:
        return answer.model_copy(update=known)
    within = {
        key: Limits(lower=max(ends.lower, -span), upper=min(ends.upper, span))
        for key in ("interval", "simultaneous")
        if (ends := getattr(answer, key)) is not None
    }
    return answer.model_copy(update={**known, **within, "restricted_to": one.restricted_to})


def _strata_told(
    study: SurvivalStudy, strata: Sequence[Sequence[Stratum]], texts: Sequence[tuple[list[str], list[str]]]
) -> dict[str, int | str]:
    """Return the details on strata of censoring of the first question, by subgroup where there are several."""
    found: dict[str, int | str] = {}
    if not study.censoring.by:
        return found
    for label, own, (said, _) in zip(study.groups, strata, texts, strict=True):
        of = "" if study.subgroups is None else f"[{label}]"
        found[f"strata{of}"] = len(own)
        if said:
            found[f"pooled_strata{of}"] = "; ".join(said)
    return found


def _lost(study: SurvivalStudy, pooled: Iterable[str]) -> tuple[Limit, ...]:
    """Return within what losses may not depend on when the event would come."""
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
    """Return a column of ``censoring.by``, with where its classes begin if it is a number."""
    classes = ", ".join(f"{one:g}" for one in study.censoring.classes.get(name, ()))
    return f"'{name}' (classes from {classes})" if classes else f"'{name}'"


def _first_row(
    study: SurvivalStudy,
    cells: JointCells,
    outcomes: TimesOutcomes,
    asked: Asked,
    answer: Answer,
) -> RowAdjusted:
    """Return what is said of the first question's adjustment, of two arms over all units."""
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
    one = asked[0][0][0]
    law = one.law
    done = answer.confounding or confounding(study.bounded, one.public, law.adjusted_share, one.left_out, law.explained)
    details |= {
        "confounding_adjusted_for": law.adjusted_share,
        "features": one.refit_asked.count,
        "curves": ", ".join(curve_names(one.public, one.second.features)) or "none",
    }
    covers = limit(Code.noise_of_models), limit(Code.censoring_curves), *covers_unseen(one.public)
    return RowAdjusted(done, details, covers)
