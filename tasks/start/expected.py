"""Compute facts of public rows for a plan, and rank covariates by names and types."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.start.recognise import MOST_LEVELS, Looks, Profile, as_read, holds_code
from causalveil.tasks.start.roles import Cast, Wishes
from causalveil.tasks.start.words import spoken

# The most rows that regressions read, and the fewest rows for each column of their design.
MOST_ROWS, ROWS_EACH = 20_000, 5
# Names of frequent confounders in studies of people: age, sex, baseline values, illness, income, education, place.
OFTEN = re.compile(
    r"\b(age|aged|sex|gender|male|female|baseline|before|prior|previous|pre|history|severity|score|comorbid\w*|"
    r"income|wage|earnings?|education|educ|school\w*|race|ethnic\w*|black|hispanic|white|smok\w*|bmi|weight|"
    r"region|year|married|marital|employ\w*|insur\w*)\b",
    re.IGNORECASE,
)


def ranked(columns: Iterable[Profile], outcome: Profile) -> tuple[Profile, ...]:
    """Return covariates in the order in which a small budget would take them, without values.

    First baseline values of the outcome, whose names contain the outcome's; then frequent confounders by name; among
    these by the number of columns they take: yes or no, numbers, categories by their number of levels.
    """
    stem = re.sub(r"[\W_\d]+", "", outcome.name).casefold()

    def key(column: Profile) -> tuple[int, int]:
        plain = re.sub(r"[\W_\d]+", "", column.name).casefold()
        before = len(stem) > 1 and stem in plain
        often = OFTEN.search(spoken(column.name)) is not None
        return (0 if before else 1 if often else 2), _columns(column)

    return tuple(sorted(columns, key=key))


def _columns(column: Profile) -> int:
    """Return about how many columns of the design a covariate takes."""
    levels = len(column.levels) if column.of_kinds else len(column.values) if column.looks is Looks.category else 0
    return max(levels - 1, 1) + bool(column.nulls)


def expectation(
    frame: pl.DataFrame, parts: Cast, wishes: Wishes, clusters: Profile | None = None
) -> Mapping[str, float]:
    """Return facts of public or synthetic rows for a plan; none of times or eligible units.

    The treated share of two arms; the outcome's mean, and its deviation within arms unless it has two values; the
    share of its variance that covariates explain by least squares, adjusted for their number; their spread, their
    correlation, the distance of the arms in them, and what they leave of the outcome's correlation within clusters.
    """
    if parts.event is not None or parts.where:
        return {}
    arm, y = as_read(frame, parts.treatment), _outcome(frame, parts, wishes)
    in_arm = [holds_code(arm, name) & np.isfinite(y) for name in parts.arms or parts.codes]
    in_study = np.any(in_arm, axis=0)
    if min(int(rows.sum()) for rows in in_arm) < ROWS_EACH:
        return {}
    facts: dict[str, float] = {}
    if not parts.arms:
        facts["treated"] = min(max(float(in_arm[1].sum() / in_study.sum()), 0.001), 0.999)
    facts["mean"] = float(y[in_study].mean())
    if parts.outcome_codes is None:
        facts["deviation"] = float(np.sqrt(np.mean([y[rows].var() for rows in in_arm])))
    facts |= _of_covariates(frame, parts.covariates, in_arm, y, clusters)
    if wishes.trial:
        facts.pop("distance", None)
    return {name: float(f"{value:.3g}") for name, value in facts.items()}


def _outcome(frame: pl.DataFrame, parts: Cast, wishes: Wishes) -> FloatArray:
    """Return the outcome in its units, NaN where missing; of two values 1 for the counted one."""
    values = as_read(frame, parts.outcome)
    if parts.outcome_codes is not None:
        counted = holds_code(values, parts.outcome_codes[1])
        return np.where(values.is_null().to_numpy(), np.nan, counted.astype(np.float64))
    numbers = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    lower, upper = wishes.ranges.get(parts.outcome.name, (parts.outcome.lower, parts.outcome.upper))
    clipped: FloatArray = np.clip(numbers, lower, upper)
    return clipped


def _of_covariates(
    frame: pl.DataFrame,
    covariates: Sequence[Profile],
    in_arm: Sequence[np.ndarray],
    y: FloatArray,
    clusters: Profile | None,
) -> dict[str, float]:
    """Return facts of covariates, as :func:`facts_of`, and their spread; empty of few rows."""
    rows_in = np.flatnonzero(np.any(in_arm, axis=0))
    if len(rows_in) > MOST_ROWS:
        # Rows in equal steps: tables are often sorted.
        rows_in = rows_in[:: math.ceil(len(rows_in) / MOST_ROWS)]
    if not covariates:
        return {}
    arms, rows = np.column_stack([arm[rows_in] for arm in in_arm]).astype(np.float64), frame[rows_in.tolist()]
    if arms.sum(axis=0).min() < 1:
        return {}
    columns = np.column_stack([_columns_of(as_read(rows, covariate)) for covariate in covariates])
    facts = facts_of(columns, arms, y[rows_in], None if clusters is None else as_read(rows, clusters))
    widths = [(covariate.upper - covariate.lower) / 2 for covariate in covariates if _is_number(covariate)]
    deviations = [_deviation(as_read(rows, covariate)) for covariate in covariates if _is_number(covariate)]
    spreads = [
        deviation / width for deviation, width in zip(deviations, widths, strict=True) if width > 0 and deviation > 0
    ]
    return facts | ({"spread": min(max(float(np.median(spreads)), 0.001), 1.0)} if facts and spreads else {})


def facts_of(x: FloatArray, arms: FloatArray, y: FloatArray, clusters: pl.Series | None = None) -> dict[str, float]:
    """Return R^2 of y on x within arms, the correlation of x, and the distance of two arms in x.

    With clusters also the intraclass correlation of residuals. ``arms``: indicators of the arms, shape (n, arms). Empty
    where there are too few rows.
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
    facts = {"explained": min(max(1 - float(residual @ residual) / left / total, 0.0), 0.99)} if total > 0 else {}
    if clusters is not None and (icc := intraclass_correlation(residual, clusters)) is not None:
        facts["icc"] = icc
    alike = (within / size).T @ (within / size) / len(x)
    off = alike[~np.eye(len(alike), dtype=bool)]
    if len(off):
        facts["correlation"] = min(float(np.sqrt((off**2).mean())), 0.95)
    if arms.shape[1] == 2:
        treated, controls = (arms[:, place] @ x / arms[:, place].sum() for place in (1, 0))
        apart = (treated - controls) / size
        # Chance alone adds its variance for each column.
        chance = x.shape[1] * (1 / arms[:, 0].sum() + 1 / arms[:, 1].sum())
        facts["distance"] = min(math.sqrt(max(float(apart @ np.linalg.pinv(alike) @ apart) - chance, 0.0)), 5.0)
    return facts


def intraclass_correlation(values: FloatArray, clusters: pl.Series) -> float | None:
    """Return the intraclass correlation by analysis of variance, at least 0.

    None of fewer than two clusters, or two values more than clusters. It is (MSB - MSW)/(MSB + (m - 1) MSW) with the
    mean squares between and within clusters, and m their mean size less its variance over the total (Donner and Koval
    1980, Biometrics 36:19). Values without a cluster are left out.

    >>> intraclass_correlation(np.array([1.0, 1.0, 5.0, 5.0]), pl.Series([1, 1, 2, 2]))
    1.0
    """
    rows = pl.DataFrame({"values": values, "clusters": clusters}).drop_nulls()
    groups = rows.group_by("clusters").agg(
        pl.len().alias("size"), pl.col("values").mean(), pl.col("values").var(0).alias("square")
    )
    k, n = len(groups), len(rows)
    if k < 2 or n - k < 2:
        return None
    size, means = groups["size"].to_numpy(), groups["values"].to_numpy()
    between = float(size @ (means - size @ means / n) ** 2) / (k - 1)
    within = float(size @ groups["square"].to_numpy()) / (n - k)
    usual = (n - float(size @ size) / n) / (k - 1)
    total = between + (usual - 1) * within
    return min(max((between - within) / total, 0.0), 1.0) if total > 0 else None


def _is_number(column: Profile) -> bool:
    return column.looks is Looks.number and not column.of_kinds


def _deviation(values: pl.Series) -> float:
    deviation = values.cast(pl.Float64).fill_nan(None).std()
    return deviation if isinstance(deviation, float) else 0.0


def _columns_of(values: pl.Series) -> FloatArray:
    """Return a covariate's columns: a number and where it is missing, or indicators of levels."""
    if values.dtype.is_numeric():
        numbers = values.cast(pl.Float64).fill_nan(None)
        numbers = numbers.clip(numbers.quantile(0.001), numbers.quantile(0.999))
        mean = numbers.mean()
        scaled = numbers.fill_null(mean if isinstance(mean, float) else 0.0).to_numpy()
        spread = float(scaled.std()) or 1.0
        missing = values.is_null().cast(pl.Float64).to_numpy()
        return np.column_stack([(scaled - scaled.mean()) / spread, missing])
    levels = values.cast(pl.String)
    kinds = levels.value_counts(sort=True)[levels.name].drop_nulls()[:MOST_LEVELS].to_list()
    if not kinds:
        return np.zeros((len(values), 1))
    return np.column_stack([(levels == kind).fill_null(value=False).cast(pl.Float64).to_numpy() for kind in kinds])
