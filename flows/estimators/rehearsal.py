"""Rehearsals of an estimator's own stages on people made of public facts.

They are made a few times, with seeded noise. One loop serves all estimators; each says how its people are made.

A study of more units than are held in memory is rehearsed on fewer, in one of four ways: each person's part of a sum
counts several times (``summed``); or epsilon is raised, so that noise over sampling error stays as it is (``in_step``)
or noise itself does (``as_noisy``); or nothing is changed and errors are divided by what the theory says
(``as_it_is``). Nothing private is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache, partial
from itertools import product
from statistics import fmean, median
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.estimators.stage import Run, Stage, carry_out
from causalveil.flows.estimators.table import Rehearsed, Smaller, of_table
from causalveil.schemas.errors import ConvergenceError, DataError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.data.enclave import ICC, MemoryEnclave
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.clusters import assumed_icc
from causalveil.tasks.estimate.people import PublicPeople, enough, people, stand_in_outcomes
from causalveil.tasks.estimate.weights.features import features_of, learn_features
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.gaussian import unit_sigma

S = TypeVar("S", bound=Study)
Stages = Sequence[Stage[Any, Any]]
Results = Mapping[Stage[Any, Any], Any]

# Draws of noise of which a plan says the median, at most and at least, and the standard error of their mean, over it,
# at which they end. Of 64 plans of six estimators that ended so 61 said what twelve draws say within 1.6%, the
# farthest within 13%. Judged on ten published tables three end early, within .2%.
DRAWS, LEAST, STEADY = 12, 4, 0.015
# Draws of what is set beside it, other facts and points of a curve; two that differ by less than AGREE of them end it.
# On 126 points of six curves of `regression` and `ipw` their logarithms were off by .03 to .13 (root mean square,
# against 12 draws), as those of three always are, and 46 were made instead of 61. AGREE: chosen there of .05, .1, .15.
FEW, AGREE = 3, 0.1
# Draws of one sample of people, where its weights are slow.
OF_ONE = 4
# Columns up to which a draw takes less than a tenth of a second. Its time grows with their square and more.
QUICK_COLUMNS = 40
# Of all draws, how many a study of several questions has for each: a search for an epsilon then takes ten seconds.
QUESTIONS = 9 / 12
# Units of a rehearsal of an estimator that is quick, or slow; and how many numbers public columns may have in all.
QUICK, SLOW, NUMBERS, PUBLIC = 30_000, 2_500, 3_000_000, 300_000
# People up to whom a sample is drawn anew: with 20,000 it would take most of a search for an epsilon.
LASTING = 5_000
# The largest epsilon that there is; noise is far below sampling error there.
LARGEST_EPSILON = 1e6
# Effects, in deviations of the outcome within arms: where arms are mixed, or compared, an effect looks like spread.
EFFECTS = (0.0, 1.0)
# How much more those outcomes count that follow what treatment follows: covariates that nobody thought to confound
# would not have been declared.
FOLLOW = 2.0
# Rows times features squared of people whose balancing weights are rehearsed, and rows that are mapped at a time.
WORK, CHUNK = 5 * 10**8, 8_192


def summed(study: S, more: float) -> Smaller[S]:
    """Return the study itself; each person counts ``more`` times."""
    return Smaller(study, times=more, all_units=True)


def in_step(study: S, more: float, bias_stays: bool = False, all_units: bool = False) -> Smaller[S]:
    """Raise epsilon by the root of ``more``: noise over sampling error stays."""
    root = math.sqrt(more)
    return Smaller(louder(study, root), root, root, 1.0 if bias_stays else root, all_units=all_units)


def as_noisy(study: S, more: float) -> Smaller[S]:
    """Raise epsilon by ``more``, so that noise is as in the study."""
    return Smaller(louder(study, more), sampling=math.sqrt(more))


def as_it_is(study: S, more: float) -> Smaller[S]:
    """Return the study itself.

    Noise falls as the number of units grows, sampling error as its root.
    """
    return Smaller(study, noise=more, sampling=math.sqrt(more))


def louder(study: S, more: float) -> S:
    """Return the study with an epsilon at which noise on the same sums is ``more`` times less."""
    if more <= 1:
        return study
    privacy, epsilon = study.privacy, float(study.privacy.epsilon) * more
    if privacy.delta > 0:
        delta = float(privacy.delta)
        epsilon = gaussian_epsilon(unit_sigma(float(privacy.epsilon), delta) / more, delta)
    raised = privacy.model_copy(update={"epsilon": Decimal(f"{min(epsilon, LARGEST_EPSILON):.8g}")})
    return study.model_copy(update={"privacy": raised})


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """Return the epsilon of Gaussian noise of this deviation on sensitivity 1.

    In plain floats, for nothing is charged.
    """

    def excess(epsilon: float) -> float:
        below = math.exp(epsilon + float(log_ndtr(-1 / (2 * sigma) - epsilon * sigma)))
        return float(ndtr(1 / (2 * sigma) - epsilon * sigma)) - below - delta

    # By Renyi's divergence: mu^2/2 + mu sqrt(2 log(1/delta)) is enough.
    return float(brentq(excess, 0.0, 1 / (2 * sigma**2) + math.sqrt(2 * math.log(1 / delta)) / sigma))


@dataclass(frozen=True)
class Made:
    """The people of a rehearsal: how they are made.

    Attributes:
        stand_in: the population that the reader assumes.
        count: how many.
        randomised: whether covariates have nothing to do with treatment.
        sample: which, by chance as real ones are; None: quasi-random ones.
        effect: of treatment, in deviations of the outcome within arms.
    """

    stand_in: StandIn
    count: int
    randomised: bool
    sample: int | None
    effect: float = 0.0


def people_of_effect(study: EffectStudy, made: Made) -> MemoryEnclave:
    """Return people of a study of one outcome, by seed and assumptions."""
    sample, effect = made.sample, made.effect
    enclave = MemoryEnclave.of(people(study, made.stand_in, made.count, made.randomised, sample=sample, effect=effect))
    enclave.save(ICC, np.array([assumed_icc(study.clusters, made.stand_in)]))
    return enclave


@dataclass(frozen=True)
class Rehearsal:
    """The way in which an estimator is rehearsed.

    Attributes:
        most: units in memory, unless one arm is rare.
        smaller: the study for fewer units, where it has more.
        randomised: whether covariates have nothing to do with treatment.
        by_chance: whether people are samples, whose arms differ by chance, also where they stand for more units; else
            these are quasi-random.
        first: what draws, where all before it is public and slow: that is done once for the same people.
        again: done before ``first`` each time.
        effects: of treatment, in deviations of the outcome; a kind of outcomes each.
        anew: up to how many people each draw has a sample of its own; of more, whose weights are slow and who differ
            little, one sample serves OF_ONE draws.
        own: how many of the run's own people are looked at, where their covariates and treatments are public.
        told: the stand-in population as the study has it.
        point: draws of a point of a curve.
        make: the people.
        units: for how many units the people stand.
        alike: results of the stages before the last one, where the people of one subgroup stand for those of all.
        columns: of covariates.
        questions: how many are answered in a draw.
    """

    most: int
    smaller: Callable[[Any, float], Smaller[Any]]
    randomised: bool
    by_chance: bool = False
    first: Stage[Any, Any] | None = None
    again: Callable[[Run[Any]], None] = lambda _: None
    effects: tuple[float, ...] = EFFECTS[:1]
    anew: int = LASTING
    own: int = 0
    told: Callable[[StandIn], StandIn] = lambda stand_in: stand_in
    point: int = FEW
    make: Callable[[Any, Made], MemoryEnclave] = people_of_effect
    units: Callable[[Any, Sizes, StandIn], float] = lambda _, sizes, __: sizes.units
    alike: Callable[[Any, Results], Results] = lambda _, results: results
    columns: int = 0
    questions: float = QUESTIONS

    def affordable(self, many: int) -> int:
        """Return how many draws are made where so many are wanted.

        They are fewer of many columns or questions.
        """
        quick = (QUICK_COLUMNS / max(self.columns, 1)) ** 2
        return max(1, round(many * min(1.0, quick, QUESTIONS / self.questions)))

    def draws(
        self,
        stages: Stages,
        study: Any,
        sizes: Sizes,
        stand_in: StandIn,
        own: PublicPeople | None,
        many: int,
        seeds: Sequence[int] = (),
    ) -> list[Rehearsed]:
        """Return so many draws of each kind of outcomes.

        There are fewer of studies with many columns or questions. ``DRAWS`` of one kind end once their mean is known,
        and fewer once two agree.

        Args:
            stages: of the study, in order.
            study: the study.
            sizes: its sizes.
            stand_in: the population that the reader assumes.
            own: the run's own people, where their covariates and treatments are public.
            many: how many, where there is one kind.
            seeds: of the draws; empty: from 0 on.

        Raises:
            StudyError: the study cannot be declared at this size.
            DataError: no sample of these people can be analysed.
        """
        for stage in stages:
            stage.declare(study, sizes)
        stand_in, units = self.told(stand_in), self.units(study, sizes, stand_in)
        crowds: Iterator[tuple[int, float, int, MemoryEnclave | _Crowd]]
        ends = own is None and not seeds and len(self.effects) == 1
        if own is not None and self.own:
            public = own.enclave(self.own)
            count, crowds = public.units, self._own(study, stand_in, public, self.affordable(many))
        else:
            count = max(min(round(units), enough(stand_in, self.most)), 2)
            seeds = seeds or range(self.affordable(many))
            crowds = self._assumed(study, stand_in, count, round(units), seeds)
        smaller = self.smaller(study, units / count)
        of = sizes if smaller.all_units else sizes_of(smaller.study, count)
        estimate, draws = _Estimate(tuple(stages), self.first, self.again, self.alike), list[Rehearsed]()
        problem = DataError("there are no people to rehearse on")

        def drawn(seed: int, enclave: MemoryEnclave) -> Rehearsed:
            # Learners have one seed, so that what is fitted to the same people is fitted once.
            run = Run(smaller.study, of, enclave, RehearsalBudget(seed), None, times=smaller.times)
            # Linear algebra of so few people only waits for its own threads where the other core is busy.
            with one_thread():
                return of_table(smaller, estimate(run), study.first)

        asked = f"{study.model_dump_json()} {sizes!r} {stand_in!r}"
        for kind, weight, seed, crowd in crowds:
            make = partial(drawn, seed)
            try:
                draw = make(crowd) if isinstance(crowd, MemoryEnclave) else _drawn(_Drawn(asked, crowd, seed, make))
                draws.append(replace(draw, kind=kind, weight=weight, seed=seed))
            except (DataError, ConvergenceError) as own_problem:
                # A sample may lack what another has: one arm, where it is rare.
                problem = own_problem if isinstance(own_problem, DataError) else DataError(str(own_problem))
            if ends and (_known(draws, self.of_one(count)) if many == DRAWS else _agree(draws)):
                break
        if not draws:
            raise problem
        return draws

    def of_one(self, count: int) -> int:
        """Return how many draws there are of one sample of so many people."""
        return 1 if count <= self.anew else OF_ONE

    def _assumed(
        self, study: Study, stand_in: StandIn, count: int, units: int, seeds: Sequence[int]
    ) -> Iterator[tuple[int, float, int, MemoryEnclave | _Crowd]]:
        sampled, each = self.by_chance or count == units, self.of_one(count)
        for (kind, effect), seed in product(enumerate(self.effects), seeds):
            sample = seed - seed % each if sampled else None
            made = Made(stand_in, count, self.randomised, sample, effect)
            yield kind, 1.0, seed, _Crowd.of(self.make, study, made)

    def _own(
        self, study: EffectStudy, stand_in: StandIn, public: MemoryEnclave, many: int
    ) -> Iterator[tuple[int, float, int, MemoryEnclave | _Crowd]]:
        """Give the run's own people outcomes that follow what treatment follows, or do not."""
        index = public.once(("index", study.name), lambda: _index(study, public))
        treated, kinds = public.load("t", 0), list(product((False,) if self.randomised else (True, False), EFFECTS))
        each = max(many // 2, 1)
        for seed in range(each * len(kinds)):
            kind = seed // each
            followed, effect = kinds[kind]
            outcomes = stand_in_outcomes(study, stand_in, index, treated, seed, followed, effect)
            yield kind, FOLLOW if followed else 1.0, seed, public.with_outcomes(outcomes)


@dataclass
class _Estimate:
    """The stages in order; those before ``first`` are run once for all draws of the same people."""

    stages: tuple[Stage[Any, Any], ...]
    first: Stage[Any, Any] | None
    again: Callable[[Run[Any]], None]
    alike: Callable[[Any, Results], Results]
    people: FloatArray | None = None
    known: Results = field(default_factory=dict)

    def __call__(self, run: Run[Any]) -> Any:
        if self.first is not None:
            x = run.enclave.load("x", 0)
            if self.people is not x:
                before = self.stages[: self.stages.index(self.first)]
                self.people, self.known = x, carry_out(before, run, DirectEngine())
            self.again(run)
        read = self.alike(run.study, carry_out(self.stages[:-1], run, DirectEngine(), self.known))
        return carry_out(self.stages, run, DirectEngine(), read)[self.stages[-1]]


@dataclass(frozen=True)
class _Crowd:
    """People whom a plan makes of public facts, which do not depend on the budget."""

    facts: str
    made: Made
    make: Callable[[Any, Made], MemoryEnclave]
    study: Study = field(compare=False)

    @classmethod
    def of(cls, make: Callable[[Any, Made], MemoryEnclave], study: Study, made: Made) -> _Crowd:
        return cls(study.model_dump_json(exclude={"privacy", "estimator", "execution"}), made, make, study)


@lru_cache(maxsize=4)
def _held(crowd: _Crowd) -> MemoryEnclave:
    """Return the people in memory: points of a curve often have the same."""
    return crowd.make(crowd.study, crowd.made)


@dataclass(frozen=True)
class _Drawn:
    """A draw that a plan may ask for again: what it expects, and what other facts or another delta are held against."""

    asked: str
    crowd: _Crowd
    seed: int
    make: Callable[[MemoryEnclave], Rehearsed] = field(compare=False)


@lru_cache(maxsize=4 * DRAWS)
def _drawn(draw: _Drawn) -> Rehearsed:
    """Return a draw, made once."""
    return draw.make(_held(draw.crowd))


def _known(draws: Sequence[Rehearsed], of_one: int) -> bool:
    """Return whether draws, of at least two samples, tell their mean as well as is needed."""
    widths = np.array([draw.half_width for draw in draws])
    enough_of_them = len(widths) >= (LEAST if of_one == 1 else max(LEAST, 2 * of_one))
    return enough_of_them and bool(widths.std(ddof=1) <= STEADY * math.sqrt(len(widths)) * widths.mean())


def _agree(draws: Sequence[Rehearsed]) -> bool:
    """Return whether two draws say nearly the same."""
    widths = [draw.half_width for draw in draws]
    return len(widths) > 1 and max(widths) - min(widths) < AGREE * fmean(widths)


def _index(study: EffectStudy, public: MemoryEnclave) -> FloatArray:
    features, _ = learn_features(study, public, public.units)
    x = public.load("x", 0)
    return np.concatenate([features(x[first : first + CHUNK])[1] for first in range(0, len(x), CHUNK)])


def rows_balanced(study: EffectStudy) -> int:
    """Return how many people balancing weights are rehearsed for.

    Rows times features squared stay below WORK.
    """
    return min(max(WORK // features_of(study) ** 2, SLOW), QUICK)


def rows_weighed(study: EffectStudy) -> int:
    """Return how many people weights are made for one by one.

    Their columns have NUMBERS numbers at most.
    """
    return min(PUBLIC, NUMBERS // dimension(study))


def summary(draws: Sequence[Rehearsed]) -> dict[str, Any]:
    """Return the numbers that a plan says of some draws.

    They are medians over draws, and their range; of several kinds of outcomes means over all, and the range of kinds.
    Where noise hides the answer in some draws only, widths have two peaks and a median lies in one of them: then means.
    """
    kinds = [[draw for draw in draws if draw.kind == kind] for kind in sorted({draw.kind for draw in draws})]
    weights = [own[0].weight for own in kinds]
    centre = median if len(kinds) == 1 and hidden_in(draws) in (0, len(draws)) else fmean

    def middle(value: Callable[[Rehearsed], float]) -> float:
        return float(np.average([centre(map(value, own)) for own in kinds], weights=weights))

    widths = [fmean(draw.half_width for draw in own) for own in kinds]
    if len(kinds) == 1:
        widths = [draw.half_width for draw in draws]
    return {
        "half_width": middle(lambda draw: draw.half_width),
        "half_width_range": [min(widths), max(widths)],
        "noise_standard_error": middle(lambda draw: draw.noise),
        "sampling_standard_error": middle(lambda draw: draw.sampling),
        "bias": middle(lambda draw: draw.bias),
        "whole_range": mostly_whole(draws),
    }


def hidden_in(draws: Sequence[Rehearsed]) -> int:
    """Return in how many draws the interval is all of the declared range."""
    return sum(draw.whole_range for draw in draws)


def mostly_whole(draws: Sequence[Rehearsed]) -> bool:
    """Return whether most intervals are all of the declared range."""
    return hidden_in(draws) * 2 > len(draws)
