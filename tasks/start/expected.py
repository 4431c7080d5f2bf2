"""Tell what a plan should expect of public rows, and rank covariates by names and types."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.start.doubts import as_read
from causalveil.tasks.start.recognise import MOST_LEVELS, Found, Looks
from causalveil.tasks.start.roles import Cast, Wishes
from causalveil.tasks.start.words import spoken

# So many rows say how much covariates explain, and a column of the design takes at least so many rows.
MOST_ROWS, ROWS_EACH = 20_000, 5
# What explains both who is treated and what becomes of people in most studies of people, by name: age, sex, what they
# had before, how ill, how rich, how schooled, where. Others follow.
OFTEN = re.compile(
    r"\b(age|aged|sex|gender|male|female|baseline|before|prior|previous|pre|history|severity|score|comorbid\w*|"
    r"income|wage|earnings?|education|educ|school\w*|race|ethnic\w*|black|hispanic|white|smok\w*|bmi|weight|"
    r"region|year|married|marital|employ\w*|insur\w*)\b",
    re.IGNORECASE,
)


def ranked(columns: Iterable[Found], outcome: Found) -> tuple[Found, ...]:
    """Return covariates in the order in which a small budget would take them.

    By names and types alone.

    What the outcome was before comes first, by a name that holds the outcome's, then what is often a confounder by its
    name; among these what takes fewer columns: yes or no, numbers, categories by their number of levels. No value
    counts.
    """
    stem = re.sub(r"[\W_\d]+", "", outcome.name).casefold()

    def key(one: Found) -> tuple[int, int]:
        plain = re.sub(r"[\W_\d]+", "", one.name).casefold()
        before = len(stem) > 1 and stem in plain
        often = OFTEN.search(spoken(one.name)) is not None
        return (0 if before else 1 if often else 2), _columns(one)

    return tuple(sorted(columns, key=key))


def _columns(one: Found) -> int:
    """Return how many columns a covariate takes about."""
    levels = len(one.levels) if one.of_kinds else len(one.values) if one.looks is Looks.category else 0
    return max(levels - 1, 1) + bool(one.nulls)


def expectation(frame: pl.DataFrame, parts: Cast, wishes: Wishes) -> Mapping[str, float]:
    """Return what a plan should expect, as public or synthetic rows have it.

    Empty of times, and where some units alone are asked about.

    The treated share of two arms; the outcome's deviation within arms, or the mean of one of two values; and what
    covariates explain of it by least squares, adjusted for their number.
    """
    if parts.event is not None or parts.where:
        return {}
    arm, y = as_read(frame, parts.treatment).cast(pl.String), _outcome(frame, parts, wishes)
    there = np.isfinite(y) & arm.is_not_null().to_numpy()
    if there.sum() < 2 * ROWS_EACH:
        return {}
    names = list(map(str, parts.arms or parts.codes))
    in_arm = [(arm == name).fill_null(value=False).to_numpy() & there for name in names]
    found: dict[str, float] = {}
    if not parts.arms:
        found["treated"] = min(max(float(in_arm[1].sum() / there.sum()), 0.01), 0.99)
    if parts.outcome_codes is not None:
        found["mean"] = float(y[there].mean())
    else:
        found["deviation"] = float(np.sqrt(np.mean([y[one].var() for one in in_arm if one.sum() > 1])))
    explained = _explained(frame, parts.covariates, in_arm, y)
    if explained is not None:
        found["explained"] = explained
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def _outcome(frame: pl.DataFrame, parts: Cast, wishes: Wishes) -> FloatArray:
    """Return the outcome in its units, NaN where it is missing; of two values 1 for the counted one."""
    values = as_read(frame, parts.outcome)
    if parts.outcome_codes is not None:
        counted = values.cast(pl.String) == str(parts.outcome_codes[1])
        return counted.cast(pl.Float64).fill_null(np.nan).to_numpy()
    found = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    lower, upper = wishes.ranges.get(parts.outcome.name, (parts.outcome.lower, parts.outcome.upper))
    cut: FloatArray = np.clip(found, lower, upper)
    return cut


def _explained(
    frame: pl.DataFrame, covariates: Sequence[Found], in_arm: Sequence[np.ndarray], y: FloatArray
) -> float | None:
    """Return what lines of covariates explain of the outcome within arms; None of too few rows."""
    kept = np.flatnonzero(np.any(in_arm, axis=0))
    if len(kept) > MOST_ROWS:
        # Rows in equal steps: tables are often sorted.
        kept = kept[:: math.ceil(len(kept) / MOST_ROWS)]
    arms = np.column_stack([one[kept] for one in in_arm]).astype(np.float64)
    rows = frame[kept.tolist()]
    design = np.column_stack([arms, *(_columns_of(as_read(rows, one)) for one in covariates)])
    many = np.linalg.matrix_rank(design)
    left = len(kept) - many
    if left < ROWS_EACH * many:
        return None

    def residual(x: FloatArray) -> float:
        own = y[kept]
        return float(((own - x @ np.linalg.lstsq(x, own, rcond=None)[0]) ** 2).sum())

    without = residual(arms) / (len(kept) - arms.shape[1])
    return min(max(1 - residual(design) / left / without, 0.0), 0.99) if without > 0 else None


def _columns_of(values: pl.Series) -> FloatArray:
    """Return a covariate's columns: a number with its mean where it is missing, or an indicator of each level."""
    if values.dtype.is_numeric():
        numbers = values.cast(pl.Float64).fill_nan(None)
        numbers = numbers.clip(numbers.quantile(0.001), numbers.quantile(0.999))
        mean = numbers.mean()
        scaled = numbers.fill_null(mean if isinstance(mean, float) else 0.0).to_numpy()
        spread = float(scaled.std()) or 1.0
        missing = values.is_null().cast(pl.Float64).to_numpy()
        return np.column_stack([(scaled - scaled.mean()) / spread, missing])
    words = values.cast(pl.String)
    kinds = words.value_counts(sort=True)[words.name].drop_nulls()[:MOST_LEVELS].to_list()
    if not kinds:
        return np.zeros((len(values), 1))
    return np.column_stack([(words == kind).fill_null(value=False).cast(pl.Float64).to_numpy() for kind in kinds])
