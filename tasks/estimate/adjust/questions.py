"""Read the five releases of a table as those of each of its questions, and adjust each.

A question is an outcome in a subgroup, and of more than two arms the mean of one arm over all units there (a *side*): a
comparison of that arm with all others together, whose sums are theirs added up. Means are over the units of the
subgroup. Questions of a subgroup share rows' features: lines, candidates of curves and the curves that are kept. All
else is their own, in ``FiveReleases`` that know how much noise each has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from causalveil.schemas.study import Estimand
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.estimate.adjust.features import FeatureMap
from causalveil.tasks.estimate.adjust.five_releases import FiveReleases, least_error
from causalveil.tasks.estimate.adjust.interval import centres_of, contributions
from causalveil.tasks.estimate.adjust.recipe import (
    CLUSTERS,
    LINES,
    REFIT,
    SCALES,
    SCORES,
    SCREEN,
    TWO_ARMS,
    TableRecipe,
    made,
    noise_on,
)
from causalveil.tasks.estimate.adjust.released import (
    ReleasedMoments,
    ReleasedProducts,
    ReleasedScales,
    ReleasedScores,
    ReleasedScreen,
)
from causalveil.tasks.estimate.adjust.releases import (
    ClusterScores,
    JointMomentSums,
    JointScaleSums,
    JointScoreSums,
    JointScreenSums,
    JointSums,
    Named,
    Residuals,
    ScoresOfClasses,
    by_block,
    cut,
    numbers_of,
)
from causalveil.tasks.estimate.adjust.screen import kept_of, screened
from causalveil.tasks.estimate.adjust.sums import ARM_CROSS, ARM_GRAM, SQUARE_L1
from causalveil.tasks.estimate.clusters import ClusteredVariances, ReleasedTotals
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.estimate.models.lattice_sums import symmetric
from causalveil.tasks.estimate.people import FLOOR_DEVIATIONS
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.mechanisms import Budget, Slot


@dataclass(frozen=True)
class Said:
    """Noisy sums with their weights taken off, and the noise before that."""

    sums: Named
    noise: Noise


def scales_of(
    joint: TableRecipe, said: Said, counts: tuple[FloatArray, float, int], outcome: int, side: int
) -> ReleasedScales:
    """Return release 1 of a question.

    ``counts``: units by arm, the deviation of their noise, and units of all.
    """
    by_arm, count_sd, units = counts
    sums, arm, weight = said.sums["sums"][:, outcome], side_arm(joint, side), joint.outcome_weights(SCALES)[outcome]
    noise, others, p = said.noise.deviation / units, joint.arms - 1, float(by_arm[arm]) / units
    # The share has the noise of the arm's count and of the number of units.
    of_share = count_sd if joint.known_units else count_sd * math.sqrt((1 - p) ** 2 + others * p**2)
    scale_sums, ends = joint.scale_sums, np.cumsum(joint.scale_sums.widths)[:-1]
    weights = scale_sums.weights[np.concatenate([[0], ends])]
    arms = [sums[arm], sums.sum() - sums[arm], by_arm[arm], said.sums["squares"][outcome]]
    return ReleasedScales(
        arms=np.array(arms) / units,
        arms_sd=np.array([noise / weight, noise / weight * math.sqrt(others), of_share / units, noise / weight]),
        outcome=said.sums["outcomes"][outcome] / units,
        columns=tuple(np.split(said.sums["columns"] / units, ends)[:-1]),
        cells_sd=noise / weights / np.array([*[1.0] * len(joint.encoding.encoded), weight]),
    )


def moments_of(
    joint: TableRecipe, said: Said, block: JointMomentSums, question: FiveReleases, outcome: int, side: int
) -> ReleasedMoments:
    """Return release 2 or 4 of a question."""
    if joint.arms > TWO_ARMS:
        return _of_an_arm(joint, said, block, question, outcome, side)
    sums, units, k = said.sums, question.public.units, block.features.count + 1
    sd = said.noise.deviation / units
    outcome_sd = sd / joint.weights[outcome]
    arm_sd = sd if joint.by_arm else math.inf
    none = {"arm_cross": np.zeros((len(joint.weights), k)), "arm_gram": np.zeros(k * (k + 1) // 2)}
    sums = none | sums
    return ReleasedMoments(
        cross=sums["cross"][outcome] / units,
        cross_sd=outcome_sd,
        apart=sums["apart"] / units,
        apart_sd=sd,
        square=float(sums["squares"][outcome]) / units,
        square_sd=outcome_sd,
        gram=symmetric(sums["gram"] / units, k),
        gram_sd=sd / math.sqrt(2),
        arm_cross=sums["arm_cross"][outcome] / units,
        arm_cross_sd=arm_sd / joint.weights[outcome] / ARM_CROSS,
        arm_gram=symmetric(sums["arm_gram"] / units, k),
        arm_gram_sd=arm_sd / math.sqrt(2) / ARM_GRAM,
    )


def _of_an_arm(
    joint: TableRecipe, noisy: Said, block: JointMomentSums, question: FiveReleases, outcome: int, side: int
) -> ReleasedMoments:
    """Return the moments of one arm of several against all others.

    Residuals of each arm were cut at that arm's limit.
    """
    units, k, p = question.public.units, block.features.count + 1, question.found_scales.arms.share
    sums, sd = {name: values / units for name, values in noisy.sums.items()}, noisy.noise.deviation / units
    limits = block.residuals.limits[:, outcome] / block.residuals.limits[side, outcome]
    cross, grams = sums["cross"][:, outcome] * limits[:, None], sums["grams"]
    tau = np.where(np.arange(joint.arms) == side, 1 - p, -p) / max(p, 1 - p)
    outcome_sd, of_arms = sd / joint.weights[outcome], math.sqrt(joint.arms)
    both, square = float(np.linalg.norm(limits)), limits**2
    return ReleasedMoments(
        cross=cross.sum(axis=0),
        cross_sd=outcome_sd * both,
        apart=tau @ sums["own"],
        apart_sd=sd * float(np.linalg.norm(tau)),
        square=float(square @ sums["squares"][:, outcome]),
        square_sd=outcome_sd * float(np.linalg.norm(square)),
        gram=symmetric(grams.sum(axis=0), k),
        gram_sd=sd * of_arms / math.sqrt(2),
        arm_cross=2 * cross[side] - cross.sum(axis=0),
        arm_cross_sd=outcome_sd * both,
        arm_gram=symmetric(2 * grams[side] - grams.sum(axis=0), k),
        arm_gram_sd=sd * of_arms / math.sqrt(2),
    )


def screen_of(
    joint: TableRecipe, said: Said, block: JointScreenSums, question: FiveReleases, outcome: int, side: int
) -> ReleasedScreen:
    """Return release 3 of a question."""
    del block
    units = question.public.units
    sd = said.noise.deviation / units
    outcome_sums, arm = said.sums["outcome"][outcome] / units, said.sums["treatment"][side] / units
    return ReleasedScreen(outcome_sums, arm, sd / joint.side_weight, sd / joint.weights[outcome])


def scores_of(
    joint: TableRecipe, said: Said, block: JointScoreSums, question: FiveReleases, outcome: int, side: int
) -> ReleasedScores:
    """Return release 5 of a question."""
    del block
    units, noise, weight = question.public.units, said.noise, float(joint.outcome_weights(SCORES)[outcome])
    if joint.products:
        return _with_products(joint, said, units, outcome)
    mean, square = (float(said.sums[name][outcome, side]) / units for name in ("mean", "square"))
    sd, scale = noise.deviation / weight / units, noise.scale / weight / units
    return ReleasedScores(mean, square, sd, scale, noise.mixing, sd / SQUARE_L1 if joint.pure else None)


def _with_products(joint: TableRecipe, noisy: Said, units: int, outcome: int) -> ReleasedProducts:
    """Return release 5 of a question with the products of its scores with those of each outcome."""
    w, noise = joint.outcome_weights(SCORES), noisy.noise
    products = symmetric(noisy.sums["products"] / units, len(w))[outcome]
    errors = noise.deviation / units / (w[outcome] * w) * np.where(np.arange(len(w)) == outcome, math.sqrt(2), 1.0)
    return ReleasedProducts(
        float(noisy.sums["mean"][outcome, 0]) / units,
        float(products[outcome]),
        noise.deviation / w[outcome] / units,
        noise.scale / w[outcome] / units,
        noise.mixing,
        float(errors[outcome]),
        tuple(products.tolist()),
        tuple(errors.tolist()),
    )


def side_arm(joint: TableRecipe, side: int) -> int:
    """Return the arm that a side compares with the reference, or with all others.

    It is compared with all others if there are more than two arms.
    """
    return 1 if joint.sides == 1 else side


R = TypeVar("R")
B = TypeVar("B", bound=JointSums)
# Of a subgroup's questions, by outcome and side.
Questions = Sequence[Sequence[FiveReleases]]
# By subgroup; None where nothing is asked, since noise hides one of its arms.
Asked = Sequence[Questions | None]
Answered = tuple[tuple[tuple[R, ...], ...] | None, ...]
FEWEST_UNITS = 2
# Exact sums of release 2 in the enclave.
SUMS_OF_LINES = "sums-of-lines"


@dataclass(frozen=True)
class JointScales:
    """Release 1.

    Attributes:
        counts: noisy numbers of units, shape (groups, arms); of one subgroup of all units they add up to n. Of outcomes
            with rows of their own each class has those of the units that have them, in place of a subgroup.
        count_sd: deviation of the noise on each, by subgroup.
        units: of each subgroup, a whole number by which its sums are divided.
        questions: by subgroup, outcome and side.
        effective: effective sample size of survey weights, by subgroup.
    """

    counts: FloatArray
    count_sd: FloatArray
    units: tuple[int, ...]
    questions: tuple[tuple[tuple[ReleasedScales, ...], ...], ...]
    effective: tuple[float | None, ...] = ()


def _counts(joint: TableRecipe, noisy: Said) -> tuple[FloatArray, float]:
    """Return noisy numbers of units of a block by arm, and the deviation of their noise."""
    counts, sd = noisy.sums["counts"], noisy.noise.deviation / joint.count_weight
    if joint.known_units is not None and joint.counts == 1:
        return np.concatenate([joint.known_units - counts, counts]), sd
    if joint.known_units is not None:
        # The arms add up to the public number of units: each count takes an equal part of the difference.
        counts = counts + (joint.known_units - counts.sum()) / joint.arms
        sd *= math.sqrt((joint.arms - 1) / joint.arms)
    return counts, sd


def _effective(noisy: Said, units: int, most: float) -> float | None:
    """Return (sum a)^2/sum a^2 of survey weights a in [0, 1], whose sum is ``units``.

    It lies between that sum and the number of all units.
    """
    if "weights" not in noisy.sums:
        return None
    return units**2 / min(max(float(noisy.sums["weights"][0]), units**2 / max(most, units)), units)


@dataclass(frozen=True)
class JointDraws:
    """The five releases of a table.

    Attributes:
        recipe: costs and sizes.
        pieces: all units.
        budget: of the stage that draws.
        workers: threads; no sum depends on it.
        times: of a rehearsal, how many units each simulated person stands for; else 1.
        enclave: where exact sums of release 2 stay for release 4; None: it sums rows again.
    """

    recipe: TableRecipe
    pieces: Pieces
    budget: Budget
    workers: int = 1
    times: float = 1.0
    enclave: Enclave | None = None

    def scales(self) -> JointScales:
        """Draw release 1."""
        recipes, sides = self.recipe.of_blocks, range(self.recipe.sides)
        released = [
            sums for sums in made(self._draw(SCALES, [JointScaleSums(joint) for joint in recipes])) if sums is not None
        ]
        counted = [_counts(joint, sums) for joint, sums in zip(recipes, released, strict=True)]
        units = tuple(
            joint.known_units or max(round(float(by_arm.sum())), FEWEST_UNITS)
            for joint, (by_arm, _) in zip(recipes, counted, strict=True)
        )
        questions = tuple(
            tuple(
                tuple(scales_of(joint, sums, (by_arm, sd, count), k, s) for s in sides)
                for k in range(len(joint.weights))
            )
            for joint, sums, (by_arm, sd), count in zip(recipes, released, counted, units, strict=True)
        )
        effective = tuple(
            _effective(sums, count, self.pieces.units * self.times) for sums, count in zip(released, units, strict=True)
        )
        counts, errors = np.stack([by_arm for by_arm, _ in counted]), np.array([sd for _, sd in counted])
        return JointScales(counts, errors, units, questions, effective)

    def lines(self, asked: Asked) -> Answered[ReleasedMoments]:
        """Draw release 2."""
        return made(
            self._release(
                LINES, asked, lambda joint, group: _moments(joint, group, group[0][0].lines_asked), moments_of
            )
        )

    def screen(self, asked: Asked) -> Answered[ReleasedScreen] | None:
        """Draw release 3; None where public facts say that no curve could be seen."""

        def block(joint: TableRecipe, group: Questions) -> JointScreenSums:
            screens = [[question.screen_asked for question in row] for row in group]
            return JointScreenSums(joint, screens, _residuals(group))

        return self._release(SCREEN, asked, block, screen_of)

    def refit(self, asked: Asked) -> Answered[ReleasedMoments] | None:
        """Draw release 4; None where public facts say that no curve could be seen.

        Where no curve is kept it has the features of release 2, and so its exact sums.
        """
        return self._release(
            REFIT, asked, lambda joint, group: _moments(joint, group, group[0][0].refit_asked), moments_of
        )

    def scores(self, asked: Asked) -> Answered[ReleasedScores]:
        """Draw release 5."""

        def block(joint: TableRecipe, group: Questions) -> JointScoreSums:
            return JointScoreSums(
                joint, [[question.scores_asked for question in row] for row in group], _residuals(group)
            )

        if not (self.recipe.products and self.recipe.classes):
            return made(self._release(SCORES, asked, block, scores_of))
        joint, recipes = self.recipe, self.recipe.of_blocks
        blocks = [None if group is None else block(recipe, group) for recipe, group in zip(recipes, asked, strict=True)]
        # All classes are released together, over all rows; a row adds 0 to outcomes that it does not have.
        whole = replace(joint, classes=())
        (released,) = made(replace(self, recipe=whole)._draw(SCORES, [ScoresOfClasses(joint, blocks)]))
        return tuple(
            None
            if group is None
            else tuple(
                (_with_products(joint, made(released), row[0].public.units, place),)
                for place, row in zip(chosen, group, strict=True)
            )
            for chosen, group in zip(joint.classes, asked, strict=True)
        )

    def clusters(
        self,
        asked: Asked,
        scores: Answered[ReleasedScores],
        estimand: Estimand,
        codes: Callable[[int], Any] | float,
        units_of: FloatArray | None = None,
    ) -> ReleasedTotals:
        """Draw release 6.

        Args:
            asked: the questions, all but their scores set.
            scores: release 5, whose means are the centres.
            estimand: of the study.
            codes: of the clusters of each piece's rows; in rehearsals the intraclass correlation that is assumed.
            units_of: the unit of each outcome in each subgroup, where units differ.
        """
        joint, totals, mechanism = self.recipe, made(self.recipe.totals), made(self.recipe.mechanism(CLUSTERS))
        exact, icc = np.zeros(totals.shape), codes if isinstance(codes, float) else None
        if not isinstance(codes, float):
            blocks = [
                None
                if group is None
                else JointScoreSums(
                    joint, [[question.scores_asked for question in row] for row in group], _residuals(group)
                )
                for group in asked
            ]
            centres = np.zeros((len(joint.weights), len(asked), joint.arms))
            for g, (group, released) in enumerate(zip(asked, scores, strict=True)):
                for k, row in enumerate(group or ()):
                    pairs = zip(row, made(released)[k], strict=True)
                    centres[k, g] = np.concatenate([centres_of(*pair, joint.sides) for pair in pairs])
            contribution = contributions(estimand, asked, scores, joint.arms, units_of)
            exact = totals.exact(contribution, self.pieces, codes, ClusterScores(blocks, centres).of, self.workers)
        noisy = mechanism.release((exact * totals.factors).ravel(), CLUSTERS, self.budget)
        return totals.released(noisy, noise_on(mechanism, exact.size).deviation, icc)

    def _release(
        self,
        slot: Slot,
        asked: Asked,
        block: Callable[[TableRecipe, Questions], B],
        read: Callable[[TableRecipe, Said, B, FiveReleases, int, int], R],
    ) -> Answered[R] | None:
        """Draw a block of each subgroup, and read it for each of its questions."""
        recipes = self.recipe.of_blocks
        blocks = [None if group is None else block(joint, group) for joint, group in zip(recipes, asked, strict=True)]
        released = self._draw(slot, blocks)
        if released is None:
            return None

        def answers(
            joint: TableRecipe, group: Questions | None, made: B | None, sums: Said | None
        ) -> tuple[tuple[R, ...], ...] | None:
            if group is None or made is None or sums is None:
                return None
            return tuple(
                tuple(read(joint, sums, made, question, k, s) for s, question in enumerate(row))
                for k, row in enumerate(group)
            )

        return tuple(answers(*inputs) for inputs in zip(recipes, asked, blocks, released, strict=True))

    def _draw(self, slot: Slot, blocks: Sequence[JointSums | None]) -> list[Said | None] | None:
        joint, mechanism = self.recipe, self.recipe.mechanism(slot)
        if mechanism is None:
            return None
        factors = [recipe.factor for recipe in joint.of_blocks]
        weights = [
            {} if block is None else {name: weight * factor for name, weight in block.weights.items()}
            for block, factor in zip(blocks, factors, strict=True)
        ]
        numbers = [0 if block is None else numbers_of(block) for block in blocks]
        sums = self._exact(slot, blocks, numbers)
        exact = sums * np.concatenate([joined(block_weights) for block_weights in weights]) * self.times
        # Without sums a single 0 is released with noise: a declared charge is always drawn.
        released = mechanism.release(exact if len(exact) else np.zeros(1), slot, self.budget)
        noise, parts = noise_on(mechanism, len(exact)), cut(released[: len(exact)], numbers)
        unweighted = [_split(values, block_weights) for values, block_weights in zip(parts, weights, strict=True)]
        return [
            None if block is None else Said(named, replace(noise, scale=noise.scale / factor))
            for block, named, factor in zip(blocks, unweighted, factors, strict=True)
        ]

    def _exact(self, slot: Slot, blocks: Sequence[JointSums | None], numbers: Sequence[int]) -> FloatArray:
        """Return exact sums of all blocks, one after the other.

        Release 4 without curves has those of release 2.
        """
        moments = [block for block in blocks if isinstance(block, JointMomentSums)]
        if self.enclave is not None and slot == REFIT and not any(block.features.curves for block in moments):
            return self.enclave.load(SUMS_OF_LINES)
        sums = np.concatenate(self._sums([_flat(block) for block in blocks], numbers))
        if self.enclave is not None and slot == LINES:
            self.enclave.save(SUMS_OF_LINES, sums)
        return sums

    def _sums(self, of: Sequence[Callable[[CellRows], FloatArray]], numbers: Sequence[int]) -> list[FloatArray]:
        """Return the exact sums of each subgroup, or of each class over rows with its outcomes."""
        classes = self.recipe.classes
        if not classes:
            return by_block(self.pieces, of, numbers, self.workers)

        def together(rows: CellRows) -> FloatArray:
            of_classes = [rows.with_outcomes(chosen) for chosen in classes]
            parts = zip(of, of_classes, numbers, strict=True)
            return np.concatenate([sums(part) if len(part) else np.zeros(count) for sums, part, count in parts])

        (sums,) = by_block(self.pieces, [together], [sum(numbers)], self.workers)
        return cut(sums, numbers)


def _moments(joint: TableRecipe, group: Questions, features: FeatureMap) -> JointMomentSums:
    return JointMomentSums(joint, features, _residuals(group), group[0][0].found_scales.arms.share)


def _residuals(group: Questions) -> Residuals:
    return Residuals.of([[question.found_scales.arms for question in row] for row in group])


def _flat(block: JointSums | None) -> Callable[[CellRows], FloatArray]:
    return lambda rows: np.zeros(0) if block is None else joined(block.of(rows))


def joined(named: Named) -> FloatArray:
    """Return the numbers of a block one after the other."""
    return np.concatenate([np.zeros(0), *(np.ravel(values) for values in named.values())])


def _split(values: FloatArray, weights: Named) -> Named:
    """Return a block's numbers by name, their weights taken off."""
    edges = np.cumsum([weight.size for weight in weights.values()])[:-1]
    parts = np.split(values, edges) if weights else []
    return {
        name: part.reshape(weight.shape) / weight for (name, weight), part in zip(weights.items(), parts, strict=True)
    }


T = TypeVar("T")


def of_table(
    classes: Sequence[Sequence[int]], first: int, asked: Asked, scales: JointScales
) -> tuple[Asked, JointScales]:
    """Return questions by subgroup, and counts, where outcomes have rows of their own.

    All are of one subgroup; of a class that noise hides the outcomes are None. Counts are those of the class of an
    outcome.

    Args:
        classes: outcomes by class.
        first: the outcome.
        asked: questions by class.
        scales: release 1, by class.
    """
    if not classes:
        return asked, scales
    rows: list[Any] = [None] * sum(map(len, classes))
    for chosen, group in zip(classes, asked, strict=True):
        for local, place in enumerate(chosen):
            rows[place] = None if group is None else group[local]
    at = next(place for place, chosen in enumerate(classes) if first in chosen)
    only = slice(at, at + 1)
    kept = replace(scales, counts=scales.counts[only], count_sd=scales.count_sd[only], units=scales.units[only])
    kept = replace(kept, effective=scales.effective[only])
    return (tuple(rows) if any(row is not None for row in rows) else None,), kept


def begun(joint: TableRecipe, scales: JointScales) -> Asked:
    """Return the questions of each subgroup, with the lines that release 1 determines."""
    groups = list[Questions | None]()
    effective = scales.effective or [None] * len(scales.units)
    released = scales.counts, scales.count_sd, scales.units, scales.questions, effective
    for recipe, counts, count_sd, units, questions, many in zip(joint.of_blocks, *released, strict=True):
        if not (counts >= FLOOR_DEVIATIONS * count_sd).all():
            groups.append(None)
            continue
        group = tuple(
            tuple(FiveReleases(recipe.public(outcome, units, many), side) for side in sides)
            for outcome, sides in enumerate(questions)
        )
        for row in group:
            for question in row:
                question.lines_asked = group[0][0].lines_asked
        groups.append(group)
    return tuple(groups)


def with_lines(joint: TableRecipe, asked: Asked, lines: Answered[ReleasedMoments]) -> Asked:
    """Return the questions with release 2 and the candidates of release 3.

    Candidates are those of the first primary outcome, or of a class's first.

    Here and in the functions below all is computed at once: the releases up to here seed its random draws.
    """

    def decide(group: Questions, first: int) -> None:
        primary = group[first]
        curves, known = primary[0].candidates[0].curves, primary[0].candidates[1]
        # The residual of treatment is released once, by the weights of the primary outcome.
        sides = [screened(question.public, question.found_scales, question.first, curves) for question in primary]
        for row in group:
            for question, side in zip(row, sides, strict=True):
                question.candidates = (
                    replace(side, arms=question.found_scales.arms, slopes=question.first.slopes),
                    known,
                )

    questions = _with(asked, "lines", lines)
    with one_thread():
        for recipe, group in zip(joint.of_blocks, questions, strict=True):
            if group is not None:
                decide(group, recipe.first)
    return questions


def with_screen(asked: Asked, screen: Answered[ReleasedScreen] | None) -> Asked:
    """Return the questions with the curves that release 3 keeps.

    What harms one question of a subgroup is kept for all of them.
    """

    def decide(group: Questions) -> None:
        questions = [question for row in group for question in row]
        for question, kept in zip(questions, kept_of([question.screening for question in questions]), strict=True):
            question.kept = kept

    return _decided(_with(asked, "screen", screen), decide)


def with_refit(asked: Asked, refit: Answered[ReleasedMoments] | None) -> Asked:
    """Return the questions with release 4 and the scores that release 5 sums."""

    def decide(group: Questions) -> None:
        for row in group:
            # Sides are compared with each other: all have the same features, and all are adjusted, or none.
            place = least_error(row)
            for question in row:
                question.adjustment = question.adjustments[place]
            if not all(question.second.adjusts for question in row):
                for question in row:
                    question.second = (
                        question.second if not question.second.adjusts else question.unadjusted(question.second)
                    )
            for question in row:
                _ = question.scores_asked

    return _decided(_with(asked, "refit", refit), decide)


def clustered_variances(
    joint: TableRecipe,
    estimand: Estimand,
    asked: Asked,
    scores: Answered[ReleasedScores],
    totals: ReleasedTotals,
    units_of: FloatArray | None = None,
) -> ClusteredVariances:
    """Return the sampling variance of each answer by release 6."""
    return made(joint.totals).read(contributions(estimand, asked, scores, joint.arms, units_of), totals)


def with_scores(asked: Asked, scores: Answered[ReleasedScores], clustered: ClusteredVariances | None = None) -> Asked:
    """Return the questions with all their releases.

    ``clustered``: sampling variances by release 6, of a study with clusters.
    """
    questions = _with(asked, "scores", scores)
    if clustered is None:
        return questions
    # The reference's own mean has the design effect of the first arm's comparison with it.
    by_group = tuple(
        None
        if group is None
        else tuple(tuple(clustered[k][g][max(side - 1, 0)] for side in range(len(row))) for k, row in enumerate(group))
        for g, group in enumerate(asked)
    )
    return _with(questions, "clustered", by_group)


def _with(asked: Asked, name: str, released: Answered[T] | None) -> Asked:
    """Return copies with a release that has come; None: public facts say that there is none."""

    def updated(question: FiveReleases, release: T | None) -> FiveReleases:
        changed = copy(question)
        setattr(changed, name, release)
        return changed

    return tuple(
        None
        if group is None
        else tuple(
            tuple(updated(question, None if answers is None else answers[k][s]) for s, question in enumerate(row))
            for k, row in enumerate(group)
        )
        for group, answers in zip(asked, released or [None] * len(asked), strict=True)
    )


def _decided(asked: Asked, decide: Callable[[Questions], None]) -> Asked:
    # Small matrices: threads of BLAS would wait for each other, and its sums would depend on how many there are.
    with one_thread():
        for group in asked:
            if group is not None:
                decide(group)
    return asked
