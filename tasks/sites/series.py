"""A series: the released blocks of one dataset together, at no charge.

No unit is in two blocks, on the owner's word, so that sampling errors of blocks are independent as those of sites are,
and pooling is that of ``tasks/sites/pool.py``. Post-processing of releases: it reads nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.confounding import ConfoundingStatement
from causalveil.schemas.errors import StudyError, TooFewBlocks
from causalveil.schemas.limits import united
from causalveil.schemas.plan import natural_order
from causalveil.schemas.protocols.answers import Answer
from causalveil.schemas.release import EffectRelease, Interval, Release, Variance
from causalveil.schemas.sites.series import Drift, Newest, Series, SeriesBlock, SeriesPrivacy, SeriesRow, SeriesRun
from causalveil.tasks.sites.asked import Asked, widths_of
from causalveil.tasks.sites.pool import SiteEstimate, estimate_of, pool
from causalveil.tasks.sites.pooled_release import over_sites

FEWEST = 2


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


def series_of(study: Asked, releases: Sequence[EffectRelease], filled: Sequence[str] = ()) -> Series:
    """Pool the releases of a study, block by block.

    Args:
        study: what was asked each time.
        releases: of finished runs of this study on one dataset, in the order in which they were made.
        filled: the blocks of the dataset that hold rows.

    Raises:
        StudyError: units span blocks, there are no blocks, or fewer than two that are disjoint.
    """
    kept, left_out, seen = list[EffectRelease](), list[str](), set[str]()
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
        for row in release.answers:
            questions.setdefault(_Place(row.outcome, row.group, row.arm), []).append(_of_answer(release, row))
    widths = widths_of(study)
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
        not_covered=united(limit for one in kept for limit in one.not_covered),
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


def _of_answer(release: EffectRelease, row: Answer) -> _Found | str:
    """Return a block's answer to a question.

    If the block ends before the horizon, noise hides it or a gate withholds it, return the block's name.
    """
    told = estimate_of(release.run_id, release, row)
    if told is None:
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
