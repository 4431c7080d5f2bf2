"""Make the population of a plan from public facts.

It is the units of the run where they are public, else synthetic people by the reader's assumptions: quasi-random
(Kronecker's sequence of square roots of primes) or a seeded sample, of equally correlated normal covariates within the
declared ranges or cut into levels of equal size. Treatment and outcome depend on one index of covariates. No private
column is read. The number of cells that a budget serves follows from the same public facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr, ndtri

from causalveil.schemas.columns import CategoricalCovariate
from causalveil.schemas.errors import StudyError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.cells import of_their_cohorts
from causalveil.tasks.data.covariates import blocks, dimension, scale
from causalveil.tasks.data.enclave import ICC, MemoryEnclave, Rows, ranks
from causalveil.tasks.estimate.clusters import assumed_icc
from causalveil.tasks.machine.arrays import ByteArray, FloatArray

# A covariate's standard deviation over half its declared range.
SPREAD = 0.35
# Deviation, over half the range, up to which ranges cut few normal numbers; the largest one, about that of a uniform
# distribution; and bounds of where a truncated normal ends, in deviations.
FITS, MOST_SPREAD, ENDS = 0.385, 0.57, (0.1, 3.0)
# An outcome that varies more than this, over half its range, is taken to have two values.
TWO_VALUES = 0.7
# A mean nearer to an end of the range than this number of deviations leaves a normal outcome no room.
ROOM = 2.0
# Share of people who have a flag, where levels are of unequal size.
RARE = 0.1
# Standard deviation of exp(z), z standard normal.
LOG_NORMAL = math.sqrt(math.e * (math.e - 1))
# Synthetic people of a plan; the least number in the smaller arm, with at most MOST people.
PEOPLE, SMALLER, MOST = 4_096, 256, 32_768
# An arm carries an answer where the noise on its number of units has a deviation of at most a third of that number: two
# deviations then leave the arm a third of it. Chosen of 8, 5, 3, 2, 1 and none on eight made tables of 400 to 3,000
# units with 2 to 40 % treated; below 3, answers of arms that are about as large as the noise missed up to half of the
# time. ``docs/proofs/questions.md``, section 4, has the tables on which it was judged.
FLOOR_DEVIATIONS = 3.0


def assumed(study: Study, stand_in: StandIn) -> StandIn:
    """Return the stand-in, with mean and deviation of an outcome of two values.

    Where neither is stated both values are equally frequent. Of a deviation alone the upper value is the rarer one.
    """
    if not isinstance(study, EffectStudy) or not (study.asks_one and study.outcome.two_valued):
        return stand_in
    low, width = study.outcome.lower, study.outcome.width
    if stand_in.mean is not None:
        share = min(max((stand_in.mean - low) / width, 0.0), 1.0)
    elif stand_in.deviation is not None:
        share = (1 - math.sqrt(max(1 - (2 * stand_in.deviation / width) ** 2, 0.0))) / 2
    else:
        share = 0.5
    deviation = math.sqrt(share * (1 - share)) * width if stand_in.deviation is None else stand_in.deviation
    return stand_in.model_copy(update={"mean": low + share * width, "deviation": deviation})


def people(
    study: EffectStudy,
    stand_in: StandIn,
    count: int,
    randomised: bool,
    skewed: bool = False,
    sample: int | None = None,
    effect: float = 0.0,
    uneven: bool = False,
) -> Rows:
    """Return the stand-in population, as rows of the unit ball.

    Args:
        study: the study.
        stand_in: the reader's assumptions.
        count: number of people.
        randomised: whether treatment is independent of covariates.
        skewed: whether numeric covariates are log-normal from the lower end of their ranges on, not normal.
        sample: seed of a random sample; None: quasi-random people, whose arms differ by nothing else.
        effect: of treatment, in deviations of the outcome within arms.
        uneven: whether each level has half as many people as the one before it, and a flag RARE of them.
    """
    columns = blocks(study)
    normal = _normal(count, len(columns) + 3, sample)
    common, alone = math.sqrt(stand_in.correlation), math.sqrt(1 - stand_in.correlation)
    z = common * normal[:, [0]] + alone * normal[:, 3:]
    x = np.zeros((count, dimension(study)))
    factor, spread = scale(study), SPREAD if stand_in.spread is None else stand_in.spread
    for place, block in enumerate(columns):
        score = z[:, place]
        if isinstance(block.covariate, CategoricalCovariate) or block.covariate.codes is not None:
            slots = len(block.covariate.expected) if isinstance(block.covariate, CategoricalCovariate) else 2
            level = np.searchsorted(_edges(slots, uneven), _uniform(score))
            if isinstance(block.covariate, CategoricalCovariate):
                x[np.arange(count), block.start + level] = factor
            else:
                x[:, block.start] = np.where(level > 0, factor, -factor)
            # People of one level have the same recorded value.
            many = np.maximum(np.bincount(level, minlength=slots), 1)
            z[:, place] = (np.bincount(level, score, minlength=slots) / many)[level]
        else:
            if skewed:
                number = np.clip(spread * (np.exp(score) / LOG_NORMAL - 1 / spread), -1, 1)
            else:
                number, z[:, place] = _within(score, spread)
            x[:, block.start] = number * factor
    # Without covariates the index is random.
    index = z.mean(axis=1) if columns else normal[:, 0]
    index = index / index.std()
    # Where normal indices of two arms differ by d deviations on average, the log odds rise by d per deviation.
    odds = 0.0 if randomised else stand_in.distance
    chance = 1 / (1 + np.exp(-odds * index - _intercept(odds * index, stand_in.treated)))
    treated = (_uniform(normal[:, 1]) < chance).astype(np.uint8)
    outcome = _outcomes(study, stand_in, index, treated, normal[:, 2], effect)
    x[:, -1] = factor
    return Rows(x, treated, outcome)


def stand_in_outcomes(
    study: EffectStudy,
    stand_in: StandIn,
    index: FloatArray,
    treated: ByteArray,
    sample: int,
    followed: bool,
    effect: float,
) -> FloatArray:
    """Return outcomes of people whose covariates and treatments are known, shape (n,).

    Args:
        study: the study.
        stand_in: the reader's assumptions on the outcome.
        index: of treatment, shape (n,).
        treated: their treatments, shape (n,).
        sample: seed of the part that covariates do not explain.
        followed: whether outcomes depend on this index; else on an independent one.
        effect: of treatment, in deviations of the outcome within arms.
    """
    random = np.random.default_rng(sample)
    spread = float(index.std())
    same = followed and spread > 0
    explains = (index - index.mean()) / spread if same else random.standard_normal(len(index))
    return _outcomes(study, stand_in, explains, treated, random.standard_normal(len(index)), effect)


def _outcomes(
    study: EffectStudy,
    stand_in: StandIn,
    index: FloatArray,
    treated: ByteArray,
    chance: FloatArray,
    effect: float = 0.0,
) -> FloatArray:
    """Make outcomes in [-1, 1] from an index, chance and an effect."""
    half, stand_in = study.outcome.width / 2, assumed(study, stand_in)
    deviation = half / 2 if stand_in.deviation is None else stand_in.deviation
    explained = stand_in.explained
    # Treatment takes part of the index's variance out of the arms.
    by_arm = [index[treated == arm] for arm in (0, 1)]
    # An arm may be empty where few are treated.
    within = sum(float(np.var(values)) * len(values) / len(index) for values in by_arm if len(values))
    # With one unit in each arm the index varies in neither.
    outcome = math.sqrt(explained / within if within > 0 else 0.0) * index + math.sqrt(1 - explained) * chance
    outcome += effect * (treated - np.mean(treated))
    middle = 0.0 if stand_in.mean is None else (stand_in.mean - study.outcome.middle) / half
    return _in_range(outcome, min(max(middle, -1.0), 1.0), deviation / half, study.outcome.two_valued)


def _within(normal: FloatArray, spread: float) -> tuple[FloatArray, FloatArray]:
    """Return numbers in [-1, 1] of a given deviation that rise with standard normal ones, and these.

    Where the range would cut many numbers they are drawn from a normal truncated to it instead.
    """
    if spread <= FITS:
        return np.clip(spread * normal, -1, 1), normal

    def deviation(end: float) -> float:
        density = math.exp(-(end**2) / 2) / math.sqrt(2 * math.pi)
        return math.sqrt(1 - 2 * end * density / (2 * float(ndtr(end)) - 1))

    end = brentq(lambda end: deviation(end) / end - min(spread, MOST_SPREAD), *ENDS)
    within = ndtri(ndtr(-end) + (2 * ndtr(end) - 1) * _uniform(normal))
    return within / end, within / deviation(end)


def _in_range(outcome: FloatArray, mean: float, deviation: float, two_valued: bool) -> FloatArray:
    """Return outcomes in [-1, 1] of a given mean and deviation, which rise with standard normal ones."""
    if two_valued or deviation > TWO_VALUES:
        # A normal outcome of this deviation would not fit into the range; an outcome of two values does.
        two = np.where(outcome > np.quantile(outcome, (1 - mean) / 2), 1.0, -1.0)
        spread = float(two.std())
        return mean + (two - mean) * min(1.0, deviation / spread) if spread > 0 else two
    room = 1 - abs(mean)
    if 0 < room < ROOM * deviation:
        # Nor would a normal one with a mean near an end; a gamma one with its tail to the other side does.
        side, shape = (1.0 if mean < 0 else -1.0), (room / deviation) ** 2
        tail = gammaincinv(shape, np.clip(_uniform(side * outcome), 1e-12, 1 - 1e-12)) * deviation**2 / room
        in_range: FloatArray = side * (tail - 1)
    else:
        in_range = mean + outcome * deviation
    return in_range.clip(-1, 1)


def _edges(slots: int, uneven: bool) -> FloatArray:
    """Return where the uniform distribution is cut into levels, shape (slots - 1,)."""
    if not uneven:
        return np.arange(1, slots) / slots
    if slots == 2:
        return np.array([1 - RARE])
    shares = 0.5 ** np.arange(1, slots + 1)
    edges: FloatArray = np.cumsum(shares)[:-1] / shares.sum()
    return edges


def enough(stand_in: StandIn, count: int) -> int:
    """Return ``count``, or more where one arm is rare, as models overfit few people."""
    return max(count, min(MOST, math.ceil(SMALLER / min(stand_in.treated, 1 - stand_in.treated))))


def chances(count: int, columns: int, sample: int | None, after: int) -> FloatArray:
    """Return further numbers between 0 and 1 of people, shape (count, columns).

    Args:
        count: number of people.
        columns: numbers of each person.
        sample: seed of the people; None: quasi-random ones.
        after: numbers of each that the people were made of.
    """
    if sample is not None:
        return np.random.default_rng([sample, after]).random((count, columns))
    return _uniform(_normal(count, after + columns, None)[:, after:])


def _intercept(log_odds: FloatArray, share: float) -> float:
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(np.mean(1 / (1 + np.exp(-log_odds - middle)))) < share else (low, middle)
    return (low + high) / 2


def _uniform(normal: FloatArray) -> FloatArray:
    uniform: FloatArray = ndtr(normal)
    return uniform


def _normal(count: int, dimensions: int, sample: int | None) -> FloatArray:
    """Return standard normals, shape (count, dimensions): quasi-random, or those of a seed."""
    if sample is not None:
        return np.random.default_rng(sample).standard_normal((count, dimensions))
    steps = np.sqrt(np.array(_primes(dimensions), dtype=np.float64))
    normal: FloatArray = ndtri((np.outer(np.arange(1, count + 1), steps) % 1.0 * (1 - 2e-9)) + 1e-9)
    return normal


def _primes(count: int) -> list[int]:
    sieve = np.ones(max(20, int(count * (math.log(count + 2) + 3))), dtype=bool)
    sieve[:2] = False
    for number in range(2, int(math.sqrt(len(sieve))) + 1):
        if sieve[number]:
            sieve[number * number :: number] = False
    primes: list[int] = np.flatnonzero(sieve)[:count].tolist()
    return primes


@dataclass(frozen=True)
class PublicPeople:
    """Covariates and treatments, without outcomes, of a run's people or of an even part of them.

    Attributes:
        rows: shape (n, d) and (n,), as a run normalises them.
    """

    rows: Rows
    _enclaves: dict[int, MemoryEnclave] = field(default_factory=dict, repr=False, compare=False)

    @property
    def treated(self) -> float:
        """The share of the treated."""
        return float(np.count_nonzero(self.rows.t)) / len(self.rows)

    def enclave(self, most: int) -> MemoryEnclave:
        """Return an enclave of at most ``most`` people, evenly chosen; more where an arm is rare."""
        rare = min(self.treated, 1 - self.treated)
        count = min(len(self.rows), max(most, math.ceil(SMALLER / rare) if rare > 0 else most))
        if count not in self._enclaves:
            self._enclaves[count] = MemoryEnclave.of(thinned(self.rows, count))
        return self._enclaves[count]


def thinned(rows: Rows, most: int) -> Rows:
    """Return at most ``most`` rows, evenly chosen, without their outcomes."""
    count = min(len(rows), most)
    chosen = np.arange(count) * len(rows) // count
    return Rows(rows.x[chosen], rows.t[chosen], np.zeros(count))


def check_cells(units: int, groups: int, arms: int, least: float) -> None:
    """Refuse subgroups whose cells, if of equal size, would have less than ``least`` units.

    Raises:
        StudyError: with the number of subgroups that the budget can serve.
    """
    most = int(units / (least * arms))
    if groups > 1 and most < groups:
        way = "leave 'subgroups' out" if most < 2 else "ask for fewer levels"
        raise StudyError(
            f"{groups} subgroups of {arms} arms are more cells than this budget can serve on {units:,} units: it can "
            f"serve {most} subgroup{'' if most == 1 else 's'}; {way}, or ask for more epsilon"
        )


def counted_units(study: Study, sizes: Sizes, stand_in: StandIn) -> float:
    """Return the number of eligible units by a plan's assumption; all without 'where'."""
    if not getattr(study, "where", ()):
        return float(sizes.units)
    return sizes.units * stand_in.eligible_share


def even_weights(share: float, count: int) -> FloatArray:
    """Return survey weights of a plan's people, uniform around ``share`` of the largest."""
    width = min(share, 1 - share)
    return share + width * (2 * (np.arange(count) * (math.sqrt(5) - 1) / 2 % 1.0) - 1)


def people_of(
    study: EffectStudy, stand_in: StandIn, count: int, randomised: bool, sample: int | None, groups: int
) -> MemoryEnclave:
    """Return people of the first subgroups, in equal numbers, as in arms beside the reference.

    Args:
        study: the protocol.
        stand_in: the reader's assumptions.
        count: number of people.
        randomised: whether treatment is independent of covariates.
        sample: seed of a random sample; None: quasi-random people.
        groups: number of subgroups that have people.
    """
    by_question = [people(question, stand_in, count, randomised, sample=sample) for question in study.questions]
    t, arms = by_question[0].t.copy(), np.arange(1, len(study.arm_names))
    if study.arms is not None and study.of_cohorts:
        arms = np.array([place for place, level in enumerate(study.arms.ordered) if str(level) in study.cohorts])
    t[t != 0] = arms[np.arange(int((t != 0).sum())) % len(arms)]
    # Subgroups take turns, since neighbours in the order are similar where they are quasi-random.
    g = (np.arange(count) % groups).astype(np.uint8)
    u = np.column_stack([question.u for question in by_question])
    t = of_their_cohorts(study, t, u)
    weighted = {} if study.weights is None else {"w": even_weights(study.weights.share, count)}
    enclave = MemoryEnclave([{"x": by_question[0].x, "t": t, "u": u, "g": g, "h": ranks(count), **weighted}])
    enclave.save(ICC, np.array([assumed_icc(study.clusters, stand_in)]))
    return enclave
