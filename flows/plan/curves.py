"""The least epsilon for a width, and curves of expected widths. Reads no private column.

Widths are those that `plan` says at other values of epsilon and of the number of units, rehearsals and public columns
with them. The points of a curve have fewer draws of noise each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, TypeVar

from causalveil.flows.estimators.rehearsal import FEW, summary
from causalveil.flows.estimators.table import Rehearsed
from causalveil.flows.estimators.words import of_answer
from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.mistakes import validate
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.remarks import PlanCode, remark
from causalveil.schemas.study import Study
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.people import PublicPeople
from causalveil.tasks.report.numbers import confidence_level, number

T = TypeVar("T", int, float, Decimal)

# Amounts of three digits from 0.001 to 100: all that the search can answer.
DECADES = (-3, 2)
STEPS = 900
COARSE = 450
LAST = STEPS * (DECADES[1] - DECADES[0])
CURVE_EPSILONS = tuple(Decimal(text) for text in ("0.1", "0.5", "1", "2", "8"))
CURVE_GROWTH = (0.1, 0.3, 1.0, 3.0, 10.0)
CURVE_FILE = "half-width.svg"
# Beyond what was tried a half-width is taken to fall as this power of epsilon: less than where noise alone counts (1),
# more than where sampling does (0). A step is at least and at most so large; the
# least one is squared each time.
SLOPE, STEP, FARTHEST = 0.5, 1.05, 1e5
# Where the deviation of widths is less than this part of them, and a change less than this factor, one draw tells it.
# Chosen and judged on the same 20 studies.
VARY, MUCH = 0.1, 2.0


@dataclass(frozen=True)
class PlanRatios:
    """Half-widths of other studies and populations over that of a plan, by the same noise."""

    study: Study
    sizes: Sizes
    stand_in: StandIn
    people: PublicPeople | None

    @cached_property
    def nearest(self) -> Sequence[Rehearsed]:
        """The plan's draws, those that come nearest to its half-width first.

        None where they are of several kinds of outcomes, or of the run's own people.
        """
        if self.people is not None:
            return ()
        drawn = estimator_of(self.study).draws(self.study, self.sizes, self.stand_in)
        told = summary(drawn)["half_width"]
        return sorted(drawn, key=lambda draw: abs(draw.half_width - told)) if drawn[-1].kind == 0 else ()

    @property
    def steady(self) -> bool:
        """Return whether the plan's draws agree."""
        widths = [draw.half_width for draw in self.nearest]
        return bool(widths) and pstdev(widths) < VARY * fmean(widths)

    def tells(self, ratio: float) -> bool:
        """Return whether one draw tells the ratio."""
        return self.steady and 1 / MUCH < ratio < MUCH

    def ratio(self, study: Study, stand_in: StandIn, settled: Callable[[float], bool]) -> float | None:
        """Return it by one draw, where that settles what is asked, else by few.

        Return None if either has no width.
        """
        estimator, ratio = estimator_of(study), 0.0
        if not self.nearest:
            here = estimator_of(self.study).point(self.study, self.sizes, self.stand_in, self.people)
            there = estimator.point(study, self.sizes, stand_in, self.people)
            return there / here if here and there else None
        for few in (self.nearest[:1], self.nearest[: estimator.affordable(study, FEW)]):
            drawn = estimator.draws(study, self.sizes, stand_in, seeds=[draw.seed for draw in few])
            here = summary(few)["half_width"]
            if not drawn or not here:
                return None
            ratio = summary(drawn)["half_width"] / here
            if settled(ratio):
                break
        return ratio


def half_width(
    study: Study, sizes: Sizes, stand_in: StandIn, people: PublicPeople | None = None, few: bool = False
) -> float:
    """Return the half-width that `plan` expects, in outcome units.

    ``people``: the run's own, where their covariates and treatments are public. ``few``: by few draws, where it is of
    draws.

    Raises:
        StudyError: the estimator has no interval, or the study is impossible.
    """
    estimator = estimator_of(study)
    # A study that cannot be declared has no width either.
    estimator.declare(study, sizes)
    width = (estimator.point if few else estimator.width)(study, sizes, stand_in, people)
    if width is None:
        raise StudyError(f"estimator '{study.estimator.name}' has no interval to plan")
    return float(width)


def with_epsilon(study: Study, epsilon: Decimal) -> Study:
    """Return the study with another epsilon.

    Raises:
        StudyError: the study does not allow that epsilon.
    """
    privacy = {**study.privacy.model_dump(), "epsilon": epsilon}
    return validate(type(study), {**study.model_dump(), "privacy": privacy}, "study")


def least_epsilon(
    study: Study,
    sizes: Sizes,
    stand_in: StandIn,
    width: float,
    people: PublicPeople | None = None,
    here: float | None = None,
) -> tuple[Decimal, float]:
    """Return the least epsilon whose half-width is at most ``width``, with that half-width.

    The half-width is the expected one, and the epsilon has three digits.

    Two amounts of every decade are tried in order by few draws, since a width may rise where an estimator's automatic
    settings begin to spend on a model. From there the search goes by steps as long as one side of the answer is
    unknown, then between both. All but epsilon stays. If no amount is enough, the largest that the study allows, 100 at
    most, with its half-width above ``width``.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        width: wanted, in outcome units.
        people: the run's own, where their covariates and treatments are public.
        here: the half-width at the study's own epsilon, if it is known.

    Raises:
        StudyError: ``width`` is not above 0, or see ``half_width``.
    """
    if not width > 0:
        raise StudyError("a target half-width must be above 0")

    @cache
    def told(index: int, few: bool = False) -> float:
        try:
            return half_width(with_epsilon(study, _amount(index)), sizes, stand_in, people, few)
        except CausalveilError:
            return math.inf

    here = half_width(study, sizes, stand_in, people) if here is None else here
    largest = _largest_allowed(study)
    index, step = _beyond(study.privacy.epsilon, here / width, STEP), STEP
    # Few draws say how widths compare; how wide they are is said by all draws at the study's own epsilon.
    near = width * half_width(study, sizes, stand_in, people, True) / here
    enough_at = next((tried for tried in range(0, largest + 1, COARSE) if told(tried, True) <= near), None)
    if enough_at is not None:
        index = _nearest(enough_at - COARSE, enough_at, lambda tried: told(tried, True), near) if enough_at else 0
    low, high, beside = -1, largest + 1, 0
    while high - low > 1:
        index = min(max(index, low + 1), high - 1)
        found = told(index)
        enough = found <= width
        low, high = (low, index) if enough else (index, high)
        if low < 0 or high > largest:
            index, step = _beyond(_amount(index), found / width, step), step**2
        else:
            # The amount beside one that was interpolated mostly closes the search.
            beside = 0 if beside else -1 if enough else 1
            index = _between(low, high, told, width) if beside == 0 else high - 1 if beside < 0 else low + 1
    high = max(min(high, largest), 0)
    return _amount(high), told(high)


def _nearest(low: int, high: int, expected: Callable[[int], float], width: float) -> int:
    """Return an index whose amount is nearly the least that is enough: two steps towards it from both sides."""
    for _ in range(2):
        if high - low < 2:
            break
        middle = _between(low, high, expected, width)
        low, high = (low, middle) if expected(middle) <= width else (middle, high)
    return _between(low, high, expected, width) if high - low > 1 else high


def _beyond(epsilon: Decimal, excess: float, step: float) -> int:
    """Return the index of an amount on the other side of what is wanted, if widths fall as they are taken to.

    Args:
        epsilon: an amount.
        excess: its half-width over the one that is wanted.
        step: by which the amount is multiplied or divided at least.
    """
    way = abs(math.log(excess)) if 0 < excess < math.inf else 1.0
    factor = min(max(math.exp(way / SLOPE), step), FARTHEST)
    further = float(epsilon) * factor if excess > 1 else float(epsilon) / factor
    return _index(Decimal(min(max(further, float(_amount(0))), float(_amount(LAST)))))


def _between(low: int, high: int, expected: Callable[[int], float], width: float) -> int:
    """Return the index at which a line through the logarithms of both ends meets ``width``, strictly between them."""
    middle = (low + high) // 2
    if low < 0 or not math.isfinite(expected(low)):
        return middle
    above, below = math.log(expected(low) / width), math.log(expected(high) / width)
    if not above > below or not math.isfinite(below):
        return middle
    first, last = float(_amount(low)), float(_amount(high))
    found = _index(Decimal(first * (last / first) ** (above / (above - below))))
    return min(max(found, low + 1), high - 1)


def target(
    study: Study,
    sizes: Sizes,
    stand_in: StandIn,
    width: float,
    people: PublicPeople | None = None,
    here: float | None = None,
    of: str = "",
) -> dict[str, Any]:
    """Return the answer to `--target-half-width`: numbers for scripts, one sentence for people.

    ``here``: the half-width at the study's own epsilon, if it is known. ``of``: which of several answers it is of.

    Raises:
        StudyError: see ``least_epsilon``.
    """
    epsilon, expected = least_epsilon(study, sizes, stand_in, width, people, here)
    reached, text = expected <= width, amount_text(epsilon) + (" or less" if epsilon == _amount(0) else "")
    told = remark(
        PlanCode.target if reached else PlanCode.target_missed,
        wanted=width,
        of=of_answer(of),
        epsilon=text,
        half_width=number(expected, 3),
    )
    return {
        "half_width": width,
        "epsilon": float(epsilon) if reached else None,
        "expected": expected if math.isfinite(expected) else None,
        "remark": told,
    }


def curves(study: Study, units: int, stand_in: StandIn, people: PublicPeople | None = None) -> list[dict[str, float]]:
    """Return the expected half-widths around the study's own epsilon and units.

    They are against epsilon at three sizes, and against units at three budgets.

    Impossible ones are left out. The three are the smallest, the study's own and the largest. Where the study's own
    draws agree, one draw tells what more budget and people would give.

    Returns:
        Rows of ``epsilon``, ``units``, ``half_width``.
    """
    own, estimator = study.privacy.epsilon, estimator_of(study)
    here = PlanRatios(study, sizes_of(study, units), stand_in, people)
    epsilons, sizes = {*CURVE_EPSILONS, own}, {max(2, round(units * factor)) for factor in CURVE_GROWTH}
    points = {*product(epsilons, _three(sizes, units)), *product(_three(epsilons, own), sizes)}

    def at(epsilon: Decimal, n: int) -> float:
        try:
            asked, size = with_epsilon(study, epsilon), sizes_of(study, n)
            if epsilon < own or n < units or not here.steady:
                width = estimator.point(asked, size, stand_in, people)
            else:
                (draw,) = estimator.draws(asked, size, stand_in, seeds=[here.nearest[0].seed])
                # Other draws of less budget and people may have said less.
                less = [known for (lower, fewer), known in found.items() if lower <= epsilon and fewer <= n]
                width = min([draw.half_width, *less])
        except CausalveilError:
            return math.inf
        return math.inf if width is None else width

    found = dict[tuple[Decimal, int], float]()
    # Points of one size have the same people: one after the other, these are made once.
    for epsilon, n in sorted(points, key=lambda point: point[::-1]):
        found[epsilon, n] = at(epsilon, n)
    return [
        {"epsilon": float(epsilon), "units": n, "half_width": width}
        for (epsilon, n), width in sorted(found.items())
        if math.isfinite(width)
    ]


def draw(study: Study, sizes: Sizes, stand_in: StandIn, place: Path, people: PublicPeople | None = None) -> Path:
    """Write the curves as a figure, and the same numbers as CSV beside it.

    Returns the figure's path.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        place: an .svg file, or a folder to put one into.
        people: the run's own, where their covariates and treatments are public.

    Raises:
        StudyError: no interval, or a file cannot be written.
    """
    from causalveil.tasks.report.figures import figure, series, write_table

    units, path = sizes.units, place if place.suffix == ".svg" else place / CURVE_FILE
    rows = curves(study, units, stand_in, people)
    if not any(row["units"] == units for row in rows):
        # Says why there is none.
        half_width(study, sizes, stand_in, people)
    write_table(path.with_suffix(".csv"), rows)
    level = "" if not hasattr(study, "confidence") else f"{confidence_level(study.confidence)} "
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


def _index(amount: Decimal) -> int:
    """Return the index of an amount, rounded to three digits."""
    digits = f"{amount:.2e}".split("e")
    return (int(digits[1]) - DECADES[0]) * STEPS + int(digits[0].replace(".", "")) - 100


def _largest_allowed(study: Study) -> int:
    """Return the largest amount that the study takes (variants of papers end at epsilon 1).

    Returns -1 if it takes none.
    """
    low, high = -1, LAST + 1
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
    """Return the smallest, the study's own and the largest."""
    return sorted({min(values), own, max(values)} & values)
