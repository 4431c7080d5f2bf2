"""How wide an interval will be, turned round: the least epsilon for a width, and curves. Reads no private column.

Widths are those that `plan` says at other values of epsilon and of the number of units, rehearsals and public columns
with them: formulas alone know neither noise in models nor what weights leave of confounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from causalveil.flows.sequence.estimators import estimator_of
from causalveil.schemas.amounts import amount_text
from causalveil.schemas.documents import validate
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.inference.public_people import PublicPeople

T = TypeVar("T", int, float, Decimal)

# Amounts of three digits from 0.001 to 100: all that the search can answer.
DECADES = (-3, 2)
STEPS = 900
COARSE = 300
CURVE_EPSILONS = tuple(Decimal(text) for text in ("0.1", "0.2", "0.5", "1", "2", "4", "8"))
CURVE_GROWTH = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
CURVE_FILE = "half-width.svg"


def half_width(study: Study, sizes: Sizes, stand_in: StandIn, people: PublicPeople | None = None) -> float:
    """The half-width that `plan` expects, in outcome units.

    ``people``: the run's own, where their covariates and treatments are public.

    Raises:
        StudyError: the estimator has no interval, or the study is impossible.
    """
    estimator = estimator_of(study)
    # A study that cannot be declared has no width either.
    estimator.declare(study, sizes)
    width = estimator.foresee(study, sizes, stand_in, None, people).get("half_width")
    if width is None:
        raise StudyError(f"estimator '{study.estimator.name}' has no interval whose width could be foreseen")
    return float(width)


def with_epsilon(study: Study, epsilon: Decimal) -> Study:
    """The same study with another epsilon.

    Raises:
        StudyError: the study does not allow that epsilon.
    """
    privacy = {**study.privacy.model_dump(), "epsilon": epsilon}
    return validate(type(study), {**study.model_dump(), "privacy": privacy}, "study")


def least_epsilon(
    study: Study, sizes: Sizes, stand_in: StandIn, width: float, people: PublicPeople | None = None
) -> tuple[Decimal, float]:
    """The least epsilon of three digits at which the expected half-width is at most ``width``, and that half-width.

    Three amounts of every decade are tried in order, then bisection finds the amount whose next smaller one is not
    enough: a width may rise where an estimator's automatic settings begin to spend on a model. All but epsilon stays.
    If no amount is enough, the largest that the study allows, 100 at most, with its half-width above ``width``.

    Raises:
        StudyError: ``width`` is not above 0, or see ``half_width``.
    """
    if not width > 0:
        raise StudyError("a target half-width must be above 0")
    half_width(study, sizes, stand_in, people)

    @cache
    def expected(index: int) -> float:
        try:
            return half_width(with_epsilon(study, _amount(index)), sizes, stand_in, people)
        except CausalveilError:
            return math.inf

    low, high = -1, STEPS * (DECADES[1] - DECADES[0])
    if math.isinf(expected(high)):
        high = _largest_allowed(study, high)
    high = next((index for index in range(0, high, COARSE) if expected(index) <= width), high)
    if expected(high) <= width:
        low = max(low, high - COARSE)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if expected(middle) <= width else (middle, high)
    return _amount(high), expected(high)


def target(
    study: Study, sizes: Sizes, stand_in: StandIn, width: float, people: PublicPeople | None = None
) -> dict[str, Any]:
    """The answer to `--target-half-width`: numbers for scripts, one sentence for people.

    Raises:
        StudyError: see ``least_epsilon``.
    """
    epsilon, expected = least_epsilon(study, sizes, stand_in, width, people)
    reached, text = expected <= width, amount_text(epsilon)
    if not reached:
        sentence = f"No epsilon gives a half-width of {width:g}: {text} still leaves {expected:.4g}. Bring more units."
    else:
        less = " or less" if epsilon == _amount(0) else ""
        sentence = f"A half-width of {width:g} takes epsilon {text}{less}: expected {expected:.4g}."
    return {
        "half_width": width,
        "epsilon": float(epsilon) if reached else None,
        "expected": expected if math.isfinite(expected) else None,
        "sentence": sentence,
    }


def curves(study: Study, units: int, stand_in: StandIn, people: PublicPeople | None = None) -> list[dict[str, float]]:
    """Expected half-widths against epsilon at three sizes, and against units at three budgets, around the study's own.

    Impossible ones are left out. The three are the smallest, the study's own and the largest.

    Returns:
        Rows of ``epsilon``, ``units``, ``half_width``.
    """
    own, rows = study.privacy.epsilon, []
    epsilons, sizes = {*CURVE_EPSILONS, own}, {max(2, round(units * factor)) for factor in CURVE_GROWTH}
    drawn = {*product(epsilons, _three(sizes, units)), *product(_three(epsilons, own), sizes)}
    for epsilon, n in sorted(drawn):
        try:
            width = half_width(with_epsilon(study, epsilon), sizes_of(study, n), stand_in, people)
        except CausalveilError:
            continue
        rows.append({"epsilon": float(epsilon), "units": n, "half_width": width})
    return rows


def draw(study: Study, sizes: Sizes, stand_in: StandIn, place: Path, people: PublicPeople | None = None) -> Path:
    """Write the curves as a figure, and the same numbers as CSV beside it; return the figure's path.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        place: an .svg file, or a folder to put one into.
        people: the run's own, where their covariates and treatments are public.

    Raises:
        StudyError: no interval, or a file cannot be written.
    """
    from causalveil.tasks.report.plots import figure, series, write_table

    half_width(study, sizes, stand_in, people)
    units, path = sizes.units, place if place.suffix == ".svg" else place / CURVE_FILE
    rows = curves(study, units, stand_in, people)
    write_table(path.with_suffix(".csv"), rows)
    level = "" if not hasattr(study, "confidence") else f"{study.confidence:.0%} "
    alt = f"Expected half-width of the {level}interval of {study.name} against epsilon and against the number of units."
    own = float(study.privacy.epsilon)
    with figure(path, alt=alt, across=2, sharey=True) as axes:
        left, right = axes[0]
        for index, n in enumerate(_three({row["units"] for row in rows}, units)):
            some = [row for row in rows if row["units"] == n]
            label = f"{n:,.0f} units"
            series(left, [r["epsilon"] for r in some], [r["half_width"] for r in some], label, index)
        for index, epsilon in enumerate(_three({row["epsilon"] for row in rows}, own)):
            some = [row for row in rows if row["epsilon"] == epsilon]
            label = f"epsilon {epsilon:g}"
            series(right, [r["units"] for r in some], [r["half_width"] for r in some], label, index)
        for panel, label in ((left, "epsilon"), (right, "units")):
            panel.set(xscale="log", yscale="log", xlabel=label)
            panel.legend()
        left.set_ylabel(f"half-width of the {level}interval")
    return path


def _amount(index: int) -> Decimal:
    """Amounts of three digits in order: 0.00100, 0.00101, ..., 0.00999, 0.0100, ... 100."""
    decade, step = divmod(index, STEPS)
    return Decimal(100 + step).scaleb(DECADES[0] + decade - 2)


def _largest_allowed(study: Study, high: int) -> int:
    """The largest amount that the study takes (variants of papers end at epsilon 1); -1 if it takes none."""
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        try:
            with_epsilon(study, _amount(middle))
        except StudyError:
            high = middle
        else:
            low = middle
    return low


def _three(values: set[T], own: T) -> Sequence[T]:
    """The smallest, the study's own and the largest."""
    return sorted({min(values), own, max(values)} & values)
