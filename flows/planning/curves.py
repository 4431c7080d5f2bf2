"""How wide an interval will be, turned round: the least epsilon for a width, and curves. Reads no private column.

Widths are those that `plan` says at other values of epsilon and of the number of units, rehearsals and public columns
with them: formulas alone know neither noise in models nor what weights leave of confounding. An estimator whose
rehearsal takes a second is rehearsed where it counts, at the answer or at the corners of the curves; elsewhere its
formula is scaled to these, and the sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from causalveil.flows.sequence.estimators import estimator_of
from causalveil.schemas.documents import validate
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.inference.public_people import PublicPeople

T = TypeVar("T", int, float, Decimal)

# Amounts of three digits from 0.001 to 100: all that the search can answer.
DECADES = (-3, 2)
STEPS = 900
COARSE = 300
CURVE_EPSILONS = tuple(Decimal(text) for text in ("0.1", "0.2", "0.5", "1", "2", "4", "8"))
CURVE_GROWTH = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
CURVE_FILE = "half-width.svg"
# An estimator that is slow to rehearse is rehearsed so many times at most, beginning at an amount that a formula finds
# to so many steps. Between its own amounts a half-width is taken to fall as this power of epsilon: less than where
# noise alone counts (1), more than where sampling does (0).
ROUNDS, NEAR, SLOPE = 6, 8, 0.5


def half_width(study: Study, sizes: Sizes, stand_in: StandIn, people: PublicPeople | None = None) -> float:
    """The half-width that `plan` expects, in outcome units.

    ``people``: the run's own, where their covariates and treatments are public.

    Raises:
        StudyError: the estimator has no interval, or the study is impossible.
    """
    estimator = estimator_of(study)
    # A study that cannot be declared has no width either.
    estimator.declare(study, sizes)
    width = estimator.width(study, sizes, stand_in, people)
    if width is None:
        raise StudyError(f"estimator '{study.estimator.name}' has no interval whose width could be foreseen")
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
    """The least epsilon of three digits at which the expected half-width is at most ``width``, and that half-width.

    Three amounts of every decade are tried in order, then interpolation finds the amount whose next smaller one is not
    enough: a width may rise where an estimator's automatic settings begin to spend on a model. All but epsilon stays.
    Of an estimator that is slow to rehearse a formula is searched, and amounts around what it finds are rehearsed. If
    no amount is enough, the largest that the study allows, 100 at most, with its half-width above ``width``.

    Raises:
        StudyError: ``width`` is not above 0, or see ``half_width``.
    """
    if not width > 0:
        raise StudyError("a target half-width must be above 0")

    @cache
    def told(index: int) -> float:
        return _or_none(half_width, with_epsilon_at(index), sizes, stand_in, people)

    @cache
    def with_epsilon_at(index: int) -> Study | None:
        try:
            return with_epsilon(study, _amount(index))
        except CausalveilError:
            return None

    here = half_width(study, sizes, stand_in, people) if here is None else here
    if not estimator_of(study).slow:
        return _searched(study, told, width)

    scale = here / _formula(study, sizes, stand_in)

    @cache
    def scaled(index: int) -> float:
        return scale * _or_none(_formula, with_epsilon_at(index), sizes, stand_in)

    return _rehearsed_around(_index(_searched(study, scaled, width, NEAR)[0]), _largest(study, scaled), told, width)


def _rehearsed_around(index: int, largest: int, told: Callable[[int], float], width: float) -> tuple[Decimal, float]:
    """Return the least amount that is enough, from one that a formula found; after ``ROUNDS`` one that is near it."""
    low, high, slope = -1, largest + 1, SLOPE
    for _ in range(ROUNDS):
        found = told(index)
        low, high = (low, index) if found <= width else (index, high)
        if high - low == 1:
            break
        if low >= 0 and high <= largest:
            index = _between(low, high, told, width)
        else:
            # Beyond what is wanted by a twentieth of the way, so that the next rehearsal is on the other side of it.
            way = math.log(found / width) if math.isfinite(found) else 1.0
            further = float(_amount(index)) * math.exp(1.05 * way / slope)
            index = min(max(_index(Decimal(further)), low + 1, 0), min(high - 1, largest))
    if high > largest:
        high = largest
    return _amount(high), told(high)


def _searched(study: Study, expected: Callable[[int], float], width: float, near: int = 1) -> tuple[Decimal, float]:
    """Search amounts by their index; what is found is at most ``near`` of them above the least."""
    low, high = -1, _largest(study, expected)
    high = next((index for index in range(0, high, COARSE) if expected(index) <= width), high)
    if expected(high) <= width:
        low, beside = max(low, high - COARSE), 0
        while high - low > near:
            middle = _between(low, high, expected, width) if beside == 0 else high - 1 if beside < 0 else low + 1
            enough = expected(middle) <= width
            low, high = (low, middle) if enough else (middle, high)
            # The amount beside one that was interpolated mostly closes the search.
            beside = 0 if beside else -1 if enough else 1
    return _amount(high), expected(high)


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


def _largest(study: Study, expected: Callable[[int], float]) -> int:
    """Return the index of the largest amount that is searched."""
    high = STEPS * (DECADES[1] - DECADES[0])
    return _largest_allowed(study, high) if math.isinf(expected(high)) else high


def _formula(study: Study, sizes: Sizes, stand_in: StandIn) -> float:
    """Return the half-width by the estimator's formula.

    Raises:
        StudyError: it has none for such a study.
    """
    found = estimator_of(study).half_width(study, sizes, stand_in)
    if found is None:
        raise StudyError(f"estimator '{study.estimator.name}' has no interval whose width could be foreseen")
    return found


def _or_none(width: Callable[..., float], study: Study | None, *public: Any) -> float:
    """Return a half-width; infinity where the study or its budget is impossible."""
    try:
        return math.inf if study is None else width(study, *public)
    except CausalveilError:
        return math.inf


def target(
    study: Study,
    sizes: Sizes,
    stand_in: StandIn,
    width: float,
    people: PublicPeople | None = None,
    here: float | None = None,
) -> dict[str, Any]:
    """The answer to `--target-half-width`: numbers for scripts, one sentence for people.

    ``here``: the half-width at the study's own epsilon, if it is known.

    Raises:
        StudyError: see ``least_epsilon``.
    """
    epsilon, expected = least_epsilon(study, sizes, stand_in, width, people, here)
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
    widths = _Curves(study, units, stand_in, people)
    return [
        {"epsilon": float(epsilon), "units": n, "half_width": width}
        for epsilon, n in widths.points
        if math.isfinite(width := widths.at(epsilon, n))
    ]


class _Curves:
    """Half-widths at other budgets and sizes, by rehearsals or by a formula that is scaled to some of them."""

    def __init__(self, study: Study, units: int, stand_in: StandIn, people: PublicPeople | None) -> None:
        """Set the grid of epsilons and sizes for a study of ``units``; nothing is computed yet."""
        self._study, self._stand_in, self._people = study, stand_in, people
        own = study.privacy.epsilon
        epsilons, sizes = {*CURVE_EPSILONS, own}, {max(2, round(units * factor)) for factor in CURVE_GROWTH}
        self._corners = _three(epsilons, own), _three(sizes, units)
        self.points = sorted({*product(epsilons, self._corners[1]), *product(self._corners[0], sizes)})
        self.rehearsed = len([*product(*self._corners)]) if estimator_of(study).slow else len(self.points)

    def at(self, epsilon: Decimal, n: int) -> float:
        """Return the half-width; infinity where it is impossible."""
        if not estimator_of(self._study).slow or (epsilon in self._corners[0] and n in self._corners[1]):
            return self._told(epsilon, n)
        width = self._formula(epsilon, n)
        return width * math.exp(self._scale(epsilon, n)) if math.isfinite(width) else width

    def _scale(self, epsilon: Decimal, n: int) -> float:
        """Return the logarithm of what the formula is multiplied by: between corners a line in those of both."""
        epsilons, sizes = self._corners
        known: dict[float, float] = {}
        for size in sizes:
            scales = {math.log(one): math.log(self._told(one, size) / self._formula(one, size)) for one in epsilons}
            if finite := {place: scale for place, scale in scales.items() if math.isfinite(scale)}:
                known[math.log(size)] = _line(math.log(epsilon), finite)
        return _line(math.log(n), known) if known else 0.0

    @cache  # noqa: B019  (it lives as long as one command)
    def _told(self, epsilon: Decimal, n: int) -> float:
        return self._of(half_width, epsilon, n, self._people)

    @cache  # noqa: B019
    def _formula(self, epsilon: Decimal, n: int) -> float:
        return self._of(_formula, epsilon, n)

    def _of(self, width: Callable[..., float], epsilon: Decimal, n: int, *more: Any) -> float:
        try:
            return width(with_epsilon(self._study, epsilon), sizes_of(self._study, n), self._stand_in, *more)
        except CausalveilError:
            return math.inf


def _line(at: float, known: Mapping[float, float]) -> float:
    """Return the value of a line through known places, and beyond their ends that of the nearest."""
    return float(np.interp(at, np.array(list(known)), np.array(list(known.values()))))


def say_rehearsed(study: Study, units: int) -> str:
    """Return in words at how many points of the curves the estimator was rehearsed; nothing where at all of them."""
    found = _Curves(study, units, StandIn(), None)
    if found.rehearsed == len(found.points):
        return ""
    return f" (rehearsed at {found.rehearsed} of {len(found.points)} points; between these a formula, scaled to them)"


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

    units, path = sizes.units, place if place.suffix == ".svg" else place / CURVE_FILE
    rows = curves(study, units, stand_in, people)
    if not any(row["units"] == units for row in rows):
        # Says why there is none.
        half_width(study, sizes, stand_in, people)
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


def _index(amount: Decimal) -> int:
    """Return the index of an amount, rounded to three digits."""
    digits = f"{amount:.2e}".split("e")
    return (int(digits[1]) - DECADES[0]) * STEPS + int(digits[0].replace(".", "")) - 100


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
