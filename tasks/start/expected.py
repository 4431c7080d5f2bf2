"""Tell what a plan should expect of public rows, and rank covariates by names and types."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.start.doubts import as_read, holds_code
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

    The treated share of two arms; the outcome's mean, and its deviation within arms but of one of two values; what
    covariates explain of it by least squares, adjusted for their number; how much they vary, how they are correlated,
    and how far they set the arms apart.
    """
    if parts.event is not None or parts.where:
        return {}
    arm, y = as_read(frame, parts.treatment), _outcome(frame, parts, wishes)
    in_arm = [holds_code(arm, name) & np.isfinite(y) for name in parts.arms or parts.codes]
    there = np.any(in_arm, axis=0)
    if min(int(one.sum()) for one in in_arm) < ROWS_EACH:
        return {}
    found: dict[str, float] = {}
    if not parts.arms:
        found["treated"] = min(max(float(in_arm[1].sum() / there.sum()), 0.001), 0.999)
    found["mean"] = float(y[there].mean())
    if parts.outcome_codes is None:
        found["deviation"] = float(np.sqrt(np.mean([y[one].var() for one in in_arm])))
    found |= _of_covariates(frame, parts.covariates, in_arm, y)
    if wishes.trial:
        found.pop("distance", None)
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def _outcome(frame: pl.DataFrame, parts: Cast, wishes: Wishes) -> FloatArray:
    """Return the outcome in its units, NaN where it is missing; of two values 1 for the counted one."""
    values = as_read(frame, parts.outcome)
    if parts.outcome_codes is not None:
        counted = holds_code(values, parts.outcome_codes[1])
        return np.where(values.is_null().to_numpy(), np.nan, counted.astype(np.float64))
    found = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    lower, upper = wishes.ranges.get(parts.outcome.name, (parts.outcome.lower, parts.outcome.upper))
    cut: FloatArray = np.clip(found, lower, upper)
    return cut


def _of_covariates(
    frame: pl.DataFrame, covariates: Sequence[Found], in_arm: Sequence[np.ndarray], y: FloatArray
) -> dict[str, float]:
    """Return what lines of covariates explain within arms, and their own facts; empty of too few rows."""
    kept = np.flatnonzero(np.any(in_arm, axis=0))
    if len(kept) > MOST_ROWS:
        # Rows in equal steps: tables are often sorted.
        kept = kept[:: math.ceil(len(kept) / MOST_ROWS)]
    if not covariates:
        return {}
    arms, rows = np.column_stack([one[kept] for one in in_arm]).astype(np.float64), frame[kept.tolist()]
    if arms.sum(axis=0).min() < 1:
        return {}
    found = facts_of(np.column_stack([_columns_of(as_read(rows, one)) for one in covariates]), arms, y[kept])
    widths = [(one.upper - one.lower) / 2 for one in covariates if _is_number(one)]
    deviations = [_deviation(as_read(rows, one)) for one in covariates if _is_number(one)]
    spreads = [one / width for one, width in zip(deviations, widths, strict=True) if width > 0 and one > 0]
    return found | ({"spread": min(max(float(np.median(spreads)), 0.001), 1.0)} if found and spreads else {})


def facts_of(x: FloatArray, arms: FloatArray, y: FloatArray) -> dict[str, float]:
    """Return what lines of columns x explain of y within arms, and facts of these columns.

    They are how alike the columns are, and how far they set two arms apart. ``arms``: who is in each, shape
    (n, arms). Empty where there are too few rows.
    """
    within = x - arms @ (arms.T @ x / arms.sum(axis=0)[:, None])
    size = within.std(axis=0)
    x, within, size = x[:, size > 0], within[:, size > 0], size[size > 0]
    left = len(x) - x.shape[1] - arms.shape[1]
    if not x.shape[1] or left < ROWS_EACH * x.shape[1]:
        return {}
    own = y - arms @ (arms.T @ y / arms.sum(axis=0))
    residual = own - within @ np.linalg.lstsq(within, own, rcond=None)[0]
    total = float(own @ own) / (len(x) - arms.shape[1])
    found = {"explained": min(max(1 - float(residual @ residual) / left / total, 0.0), 0.99)} if total > 0 else {}
    alike = (within / size).T @ (within / size) / len(x)
    off = alike[~np.eye(len(alike), dtype=bool)]
    if len(off):
        found["correlation"] = min(float(np.sqrt((off**2).mean())), 0.95)
    if arms.shape[1] == 2:
        one, other = (arms[:, place] @ x / arms[:, place].sum() for place in (1, 0))
        apart = (one - other) / size
        # Chance alone adds its variance for each column.
        chance = x.shape[1] * (1 / arms[:, 0].sum() + 1 / arms[:, 1].sum())
        found["distance"] = min(math.sqrt(max(float(apart @ np.linalg.pinv(alike) @ apart) - chance, 0.0)), 5.0)
    return found


def _is_number(one: Found) -> bool:
    return one.looks is Looks.number and not one.of_kinds


def _deviation(values: pl.Series) -> float:
    found = values.cast(pl.Float64).fill_nan(None).std()
    return found if isinstance(found, float) else 0.0


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
