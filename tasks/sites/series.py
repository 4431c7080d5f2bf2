"""A series: the released blocks of one dataset together, at no charge.

No unit is in two blocks, on the owner's word, so that sampling errors of blocks are independent as those of sites are,
and pooling is that of ``tasks/sites/pool.py``. Post-processing of releases: it reads nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from causalveil.schemas.answers import State
from causalveil.schemas.errors import StudyError, TooFewBlocks
from causalveil.schemas.limits import united
from causalveil.schemas.plan import natural_order
from causalveil.schemas.release import EffectRelease, Release
from causalveil.schemas.sites.pooled import Drift, Newest, Series, SeriesAnswer, SeriesBlock, SeriesPrivacy, SeriesRun
from causalveil.schemas.sites.round import Model
from causalveil.tasks.sites.pool import (
    FEWEST,
    Asked,
    CombinedCell,
    SourceAnswer,
    cell_of,
    number_fields,
    part_fields,
    question_fields,
    widths_of,
)


def series_of(study: Asked, releases: Sequence[EffectRelease], filled: Sequence[str] = ()) -> Series:
    """Pool the releases of a study, block by block.

    Args:
        study: the study of all releases.
        releases: of finished runs of this study on one dataset, in the order in which they were made.
        filled: the blocks of the dataset that hold rows.

    Raises:
        StudyError: units span blocks, there are no blocks, or fewer than two that are disjoint.
    """
    disjoint, left_out, seen = list[EffectRelease](), list[str](), set[str]()
    for release in releases:
        blocks = release.privacy.blocks
        if blocks.key is None or blocks.units_span_blocks:
            raise StudyError(
                "a series needs blocks that no unit spans: the contract of "
                f"'{release.dataset}' declares " + ("none" if blocks.key is None else "that units may span them")
            )
        if seen & set(blocks.charged):
            left_out.append(release.run_id)
            continue
        seen |= set(blocks.charged)
        disjoint.append(release)
    unreleased = tuple(natural_order(set(filled) - seen))
    if len(disjoint) < FEWEST:
        waiting = f"; without a release are {', '.join(unreleased)}" if unreleased else ""
        raise TooFewBlocks(
            f"a series needs releases of {FEWEST} blocks at least that share none; the ledger holds {len(disjoint)} of "
            f"study '{study.name}' in this wording: run the study on further blocks, then ask again{waiting}"
        )
    # Drift and the newest block need the order of time: a ledger lists blocks as text, month=10 before month=9.
    time = {block: place for place, block in enumerate(natural_order(seen))}
    disjoint.sort(key=lambda release: [time[block] for block in _blocks(release)])
    questions: dict[tuple[str, str, str], list[SourceAnswer]] = {}
    for release in disjoint:
        for row in release.answers:
            answer = SourceAnswer(release.run_id, release, row)
            questions.setdefault((row.outcome, row.group, row.arm), []).append(answer)
    widths = widths_of(study)
    rows = tuple(
        _answer(cell_of(answers, study.confidence, widths[outcome]))
        for (outcome, _, _), answers in questions.items()
        if len(answers) >= FEWEST
    )
    if all(row.fixed is None for row in rows):
        silent = "; ".join(dict.fromkeys(f"none in {', '.join(row.silent)}" for row in rows))
        raise StudyError(f"no question of the series was answered in two blocks, so nothing can be pooled: {silent}")
    return Series(
        dataset=disjoint[0].dataset,
        study=study.name,
        study_digest=study.digest,
        estimator=study.estimator.name,
        specification=disjoint[-1].specification,
        estimand=study.estimand,
        confidence=study.confidence,
        answers=rows,
        covers=united(limit for row in rows if row.fixed for limit in row.fixed.interval.covers),
        runs=tuple(_run(release) for release in disjoint),
        privacy=_privacy(disjoint),
        not_covered=united(limit for release in disjoint for limit in release.not_covered),
        units_of_measure=disjoint[-1].units_of_measure,
        left_out=tuple(left_out),
        unreleased=unreleased,
        statement=f"{len(disjoint)} releases of disjoint blocks were pooled at no charge. The owner declares that no "
        "unit has rows in two of them.",
    )


def _blocks(release: Release) -> tuple[str, ...]:
    """Return the blocks that a release charged, the oldest first."""
    return tuple(natural_order(release.privacy.blocks.charged))


def _run(release: Release) -> SeriesRun:
    return SeriesRun(
        run_id=release.run_id,
        blocks=_blocks(release),
        units=release.units,
        epsilon=release.privacy.epsilon,
        delta=release.privacy.delta,
        approval=release.approval,
        budget=release.budget,
        ledger=release.ledger,
    )


def _privacy(releases: Sequence[Release]) -> SeriesPrivacy:
    """Return the guarantee: blocks share no unit, on the owner's word, so the largest of any block holds for all."""
    stated = [release.privacy for release in releases]
    return SeriesPrivacy(
        unit=stated[0].unit,
        level=stated[0].level,
        neighbours=stated[0].neighbours,
        epsilon=max(privacy.epsilon for privacy in stated),
        delta=max(privacy.delta for privacy in stated),
        unprotected=tuple(dict.fromkeys(text for privacy in stated for text in privacy.unprotected)),
    )


def _answer(cell: CombinedCell) -> SeriesAnswer:
    """One question over time."""
    drift, newest = (None, None) if cell.pooled is None else _over_time(cell.weighed)
    return SeriesAnswer(
        **question_fields(cell.row),
        **number_fields(cell.of(Model.fixed)),
        state=State.unresolved if cell.pooled is None else State.answered,
        simultaneous=cell.simultaneous(Model.fixed),
        confounding=cell.confounding(Model.fixed),
        fixed=cell.of(Model.fixed),
        random=cell.of(Model.random),
        heterogeneity=None if cell.pooled is None else cell.pooled.heterogeneity,
        blocks=tuple(
            SeriesBlock(blocks=_blocks(answer.release), run_id=answer.source, **part_fields(cell, answer))
            for answer in cell.answers
        ),
        drift=drift,
        newest=newest,
    )


def _over_time(answers: Sequence[SourceAnswer]) -> tuple[Drift, Newest]:
    """Return the slope over the blocks' order, and the newest block against all others."""
    values = np.array([answer.row.estimate or 0.0 for answer in answers])
    variances = (answer.release.variance_of(answer.row) for answer in answers)
    errors = np.array([math.sqrt(variance.sampling + variance.noise) for variance in variances if variance is not None])
    weights, order = 1 / errors**2, np.arange(len(answers), dtype=np.float64)
    order -= weights @ order / weights.sum()
    spread = float(weights @ order**2)
    slope = float(weights @ (order * values)) / spread
    older = weights[:-1]
    difference = float(values[-1] - older @ values[:-1] / older.sum())
    error = math.sqrt(float(errors[-1]) ** 2 + 1 / float(older.sum()))
    return (
        Drift(per_block=slope, standard_error=1 / math.sqrt(spread), p_value=_p(slope * math.sqrt(spread))),
        Newest(
            blocks=_blocks(answers[-1].release),
            difference=difference,
            standard_error=error,
            p_value=_p(difference / error),
        ),
    )


def _p(deviations: float) -> float:
    """Return the two-sided p-value of a normal error, in standard deviations."""
    return math.erfc(abs(deviations) / math.sqrt(2))
