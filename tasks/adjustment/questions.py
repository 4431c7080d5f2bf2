"""Every question of a protocol as a plain adjustment.

What is asked of each joint release, and what all say together.

A question is an outcome in a subgroup, and of more than two arms the mean of one arm over all units there (a *side*).
Questions of a subgroup share rows' features: lines, candidates of curves and the curves that are kept. All else is
their own, in ``FiveReleases`` that know how much noise each sees.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TypeVar

from causalveil.tasks.adjustment.drawn import Answered, Asked, JointScales, Questions
from causalveil.tasks.adjustment.five_releases import FiveReleases
from causalveil.tasks.adjustment.recipe import TableRecipe
from causalveil.tasks.adjustment.released import ReleasedMoments, ReleasedScores, ReleasedScreen, ReleasedTotals
from causalveil.tasks.adjustment.screen import kept_of, screened
from causalveil.tasks.inference.people import FLOOR_DEVIATIONS
from causalveil.tasks.machine.distribute import one_thread

T = TypeVar("T")


def begun(joint: TableRecipe, scales: JointScales) -> Asked:
    """Return what release 1 decides."""
    found = list[Questions | None]()
    for counts, units, questions in zip(scales.counts, scales.units, scales.questions, strict=True):
        if not (counts >= FLOOR_DEVIATIONS * scales.count_sd).all():
            found.append(None)
            continue
        group = tuple(
            tuple(FiveReleases(joint.public(outcome, units), one) for one in sides)
            for outcome, sides in enumerate(questions)
        )
        for row in group:
            for one in row:
                one.lines_asked = group[0][0].lines_asked
        found.append(group)
    return tuple(found)


def with_lines(first: int, asked: Asked, lines: Answered[ReleasedMoments]) -> Asked:
    """Return what releases 1 and 2 decide.

    ``first``: the outcome whose candidates are those of all.

    Here and below all is decided at once: its random numbers are those of the releases that there are.
    """

    def decide(group: Questions) -> None:
        own = group[first]
        curves, correlation = own[0].candidates[0].curves, own[0].candidates[1]
        # What lines leave of treatment is released once, by the weights of that outcome.
        sides = [screened(one.public, one.found_scales, one.first, curves) for one in own]
        for row in group:
            for one, side in zip(row, sides, strict=True):
                one.candidates = (
                    replace(side, arms=one.found_scales.arms, slopes=one.first.slopes),
                    correlation,
                )

    return _decided(_with(asked, "lines", lines), decide)


def with_screen(asked: Asked, screen: Answered[ReleasedScreen] | None) -> Asked:
    """Return the questions with the curves that release 3 keeps.

    What harms one question of a subgroup is kept for all of them.
    """

    def decide(group: Questions) -> None:
        every = [one for row in group for one in row]
        for one, kept in zip(every, kept_of([one.screening for one in every]), strict=True):
            one.kept = kept

    return _decided(_with(asked, "screen", screen), decide)


def with_refit(asked: Asked, refit: Answered[ReleasedMoments] | None) -> Asked:
    """Return what release 5 sums."""

    def decide(group: Questions) -> None:
        for row in group:
            for one in row:
                _ = one.scores_asked

    return _decided(_with(asked, "refit", refit), decide)


def with_scores(
    asked: Asked, scores: Answered[ReleasedScores], totals: Answered[ReleasedTotals] | None = None
) -> Asked:
    """Return what all releases say.

    ``totals``: release 6, of a study with clusters.
    """
    found = _with(asked, "scores", scores)
    return found if totals is None else _with(found, "totals", totals)


def _with(asked: Asked, name: str, released: Answered[T] | None) -> Asked:
    """Return copies with a release that has come; None: public facts say that there is none."""

    def one(question: FiveReleases, given: T | None) -> FiveReleases:
        found = copy(question)
        setattr(found, name, given)
        return found

    return tuple(
        None
        if group is None
        else tuple(
            tuple(one(question, None if said is None else said[k][s]) for s, question in enumerate(row))
            for k, row in enumerate(group)
        )
        for group, said in zip(asked, released or [None] * len(asked), strict=True)
    )


def _decided(asked: Asked, decide: Callable[[Questions], None]) -> Asked:
    # Small matrices: threads of BLAS would wait for each other, and its sums would depend on how many there are.
    with one_thread():
        for group in asked:
            if group is not None:
                decide(group)
    return asked
