"""A series: the released blocks of one dataset together, at no charge.

No unit is in two blocks, on the owner's word, so that sampling errors of blocks are independent as those of sites are,
and pooling is that of ``tasks/sites/pool.py``. Post-processing of releases: it reads nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from causalveil.schemas.confounding import ConfoundingStatement
from causalveil.schemas.errors import StudyError, TooFewBlocks
from causalveil.schemas.estimators.survival import Measure
from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol, SurvivalStudy, label_of
from causalveil.schemas.limits import Limit, united
from causalveil.schemas.plan import natural_order
from causalveil.schemas.protocols.answers import ProtocolAnswer
from causalveil.schemas.protocols.study import ALL_UNITS, ProtocolStudy
from causalveil.schemas.release import (
    AnsweredEffect,
    EffectRelease,
    Interval,
    MeasuredEffect,
    ProtocolRelease,
    Release,
    SurvivalRelease,
    Variance,
)
from causalveil.schemas.sites.series import Drift, Newest, Series, SeriesBlock, SeriesPrivacy, SeriesRow, SeriesRun
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.sites.pool import SiteEstimate, estimate_of, pool
from causalveil.tasks.sites.pooled_release import over_sites

FEWEST = 2
# What can be asked of one block after the other.
InSeries: TypeAlias = EffectStudy | ProtocolStudy | SurvivalStudy | SurvivalProtocol


@dataclass(frozen=True)
class _Place:
    """A question: outcome, subgroup, arm."""

    outcome: str
    group: str
    arm: str


@dataclass(frozen=True)
class _Found:
    """One release's answer to a question."""

    release: Release
    estimate: float
    interval: Interval
    variance: Variance
    confounding: ConfoundingStatement | None


def series_of(study: InSeries, releases: Sequence[Release], filled: Sequence[str] = ()) -> Series:
    """Pool the releases of a study, block by block.

    Args:
        study: what was asked each time.
        releases: of finished runs of this study on one dataset, in the order in which they were made.
        filled: the blocks of the dataset that hold rows.

    Raises:
        StudyError: units span blocks, there are no blocks, or fewer than two that are disjoint.
    """
    kept, left_out, seen = list[Release](), list[str](), set[str]()
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
        kept.append(release)
    unreleased = tuple(natural_order(set(filled) - seen))
    if len(kept) < FEWEST:
        waiting = f"; without a release are {', '.join(unreleased)}" if unreleased else ""
        raise TooFewBlocks(
            f"a series needs releases of {FEWEST} blocks at least that share none; the ledger holds {len(kept)} of "
            f"study '{study.name}' in this wording: run the study on further blocks, then ask again{waiting}"
        )
    # Drift and the newest block need the order of time: a ledger lists blocks as text, month=10 before month=9.
    time = {block: place for place, block in enumerate(natural_order(seen))}
    kept.sort(key=lambda release: [time[block] for block in _blocks(release)])
    questions: dict[_Place, list[_Found | str]] = {}
    for release in kept:
        for place, found in _answers(study, release):
            questions.setdefault(place, []).append(found)
    widths = _widths(study)
    rows = tuple(
        _row(place, found, study.confidence, widths[place.outcome])
        for place, found in questions.items()
        if sum(isinstance(one, _Found) for one in found) >= FEWEST
    )
    if not rows:
        raise StudyError("no question of the series was answered in two blocks; nothing can be pooled")
    return Series(
        dataset=kept[0].dataset,
        study=study.name,
        study_digest=study.digest,
        estimator=study.estimator.name,
        specification=kept[-1].specification,
        confidence=study.confidence,
        rows=rows,
        runs=tuple(_run(release) for release in kept),
        privacy=_privacy(kept),
        not_covered=united(limit for one in kept for limit in _not_covered(one)),
        units_of_measure=kept[-1].units_of_measure,
        left_out=tuple(left_out),
        unreleased=unreleased,
        statement=f"{len(kept)} releases of disjoint blocks were pooled at no charge. The owner declares that no unit "
        "has rows in two of them.",
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


def _privacy(kept: Sequence[Release]) -> SeriesPrivacy:
    """Return the guarantee: blocks share no unit, on the owner's word, so the largest of any block holds for all."""
    stated = [release.privacy for release in kept]
    return SeriesPrivacy(
        unit=stated[0].unit,
        level=stated[0].level,
        neighbours=stated[0].neighbours,
        epsilon=max(one.epsilon for one in stated),
        delta=max(one.delta for one in stated),
        unprotected=tuple(dict.fromkeys(text for one in stated for text in one.unprotected)),
    )


def _not_covered(release: Release) -> tuple[Limit, ...]:
    """Return what a release's intervals leave out."""
    return release.not_covered if isinstance(release, ProtocolRelease | AnsweredEffect) else ()


def _widths(study: InSeries) -> dict[str, float]:
    """Return how far an effect may reach, by question."""
    if isinstance(study, SurvivalStudy | SurvivalProtocol):
        return {question.label: question.span for question in study.table.questions}
    questions = study.questions if isinstance(study, ProtocolStudy) else (study,)
    return {question.outcome.name: question.outcome.width for question in questions}


def _answers(study: InSeries, release: Release) -> list[tuple[_Place, _Found | str]]:
    """Return a release's answer to each question, or the name of its blocks without one."""
    if isinstance(release, EffectRelease) and isinstance(study, EffectStudy):
        place = _Place(study.outcome.name, ALL_UNITS, str(study.treatment_codes.pair[1]))
        return [(place, _Found(release, release.estimate, release.interval, release.variance, release.confounding))]
    if isinstance(release, SurvivalRelease) and isinstance(study, SurvivalStudy):
        return [(_place_of(study, one.measure), _of_measure(release, one)) for one in release.measures]
    if not isinstance(release, ProtocolRelease):
        return []
    return [(_Place(row.outcome, row.group, row.arm), _of_answer(release, row)) for row in release.answers]


def _place_of(study: SurvivalStudy, measure: Measure) -> _Place:
    return _Place(label_of(measure, study.outcome), ALL_UNITS, str(study.treatment_codes.pair[1]))


def _of_measure(release: SurvivalRelease, one: MeasuredEffect) -> _Found | str:
    """Return one measure of a block.

    If the block ends before the horizon, or noise hides it, return the block's name.
    """
    if release.restricted_to is not None or one.interval.whole_range:
        return _label(release)
    return _Found(release, one.estimate, one.interval, one.variance, release.confounding)


def _of_answer(release: ProtocolRelease, row: ProtocolAnswer) -> _Found | str:
    told = estimate_of(release.run_id, row, row.interval, release.confidence)
    if told is None or row.restricted_to is not None:
        return _label(release)
    return _Found(release, told.estimate, told.interval, told.variance, row.confounding)


def _label(release: Release) -> str:
    return " to ".join(dict.fromkeys((_blocks(release)[0], _blocks(release)[-1])))


def _row(place: _Place, found: Sequence[_Found | str], confidence: float, width: float) -> SeriesRow:
    """One question over time."""
    told = [one for one in found if isinstance(one, _Found)]
    sites = [SiteEstimate(f"block-{index}", one.estimate, one.variance, one.interval) for index, one in enumerate(told)]
    pooled = pool(sites, confidence, (-width, width))
    errors = np.array([math.sqrt(one.variance.sampling + one.variance.noise) for one in told])
    values = np.array([one.estimate for one in told])
    weights, order = 1 / errors**2, np.arange(len(told), dtype=np.float64)
    order -= weights @ order / weights.sum()
    spread = float(weights @ order**2)
    slope = float(weights @ (order * values)) / spread
    others = weights[:-1]
    difference = float(values[-1] - others @ values[:-1] / others.sum())
    error = math.sqrt(float(errors[-1]) ** 2 + 1 / float(others.sum()))
    return SeriesRow(
        outcome=place.outcome,
        group=place.group,
        arm=place.arm,
        blocks=tuple(
            SeriesBlock(
                blocks=_blocks(one.release),
                run_id=one.release.run_id,
                estimate=one.estimate,
                interval=one.interval,
                standard_error=float(own),
            )
            for one, own in zip(told, errors, strict=True)
        ),
        missing=tuple(one for one in found if isinstance(one, str)),
        fixed=pooled.fixed,
        random=pooled.random,
        heterogeneity=pooled.heterogeneity,
        drift=Drift(per_block=slope, standard_error=1 / math.sqrt(spread), p_value=_p(slope * math.sqrt(spread))),
        newest=Newest(
            blocks=_blocks(told[-1].release),
            difference=difference,
            standard_error=error,
            p_value=_p(difference / error),
        ),
        confounding=over_sites(
            [(one.confounding, float(weight)) for one, weight in zip(told, pooled.weights_fixed, strict=True)]
        ),
    )


def _p(deviations: float) -> float:
    """Return the two-sided p-value of a normal error of so many standard deviations."""
    return math.erfc(abs(deviations) / math.sqrt(2))
