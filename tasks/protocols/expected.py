"""Planning of a protocol before a row is read: expected intervals of every outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.protocols import DifferenceProtocol, RegressionProtocol
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.protocols.answers import Limits, ProtocolAnswer
from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.schemas.study import Outcome
from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference.people import counted_units, enough, people
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.protocols import difference
from causalveil.tasks.protocols.drawn import Asked, JointDraws, JointScales
from causalveil.tasks.protocols.findings import parts_of
from causalveil.tasks.protocols.parts import table
from causalveil.tasks.protocols.questions import begun, with_lines, with_refit, with_scores, with_screen
from causalveil.tasks.protocols.recipe import joint_recipe

# People who stand for all units of a subgroup, and how many questions are rehearsed where one would be twelve times: a
# search for an epsilon then takes ten seconds.
PEOPLE, QUESTIONS = 4_096, 9 / 12


@dataclass(frozen=True)
class ExpectedAnswer:
    """Expected half-widths of one outcome, in its units.

    They are over everybody and in a subgroup, one by one and all together. ``noise_factor``: its noise over that of
    asking for it alone. ``without``: by what the others' noise would be multiplied if it were left out.
    """

    outcome: str
    everybody: float
    everybody_together: float
    group: float
    group_together: float
    noise_error: float
    sampling_error: float
    noise_factor: float
    without: float
    adjustment: str


def expected_answers(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, many: int) -> tuple[ExpectedAnswer, ...]:
    """Return the expected answer of every outcome at level sample, if subgroups are equal.

    Arms are equal too if there are more than two.

    Args:
        study: the protocol.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        many: draws of noise of one question; of several there are fewer, and one at least.

    Raises:
        StudyError: more cells than the budget can serve.
    """
    if isinstance(study, DifferenceProtocol):
        return answers_of(study, _difference_rows(study, sizes, stand_in))
    return answers_of(study, _regression_rows(cast(RegressionProtocol, study), sizes, stand_in, many))


def answers_of(
    study: ProtocolStudy, rows: Sequence[ProtocolAnswer], narrower: float = 1.0
) -> tuple[ExpectedAnswer, ...]:
    """Return what a table says of every outcome.

    ``narrower``: by what widths and errors are divided, where the table is of fewer units.

    Raises:
        DataError: an arm is too small to be compared.
    """
    found = []
    for index, weight in enumerate(study.weights):
        own = [row for row in rows if row.outcome == study.outcomes[index].name]
        widths = [
            (width(row.interval) / 2 / narrower, width(row.simultaneous) / 2 / narrower)
            for row in own
            if row.interval is not None and row.simultaneous is not None
        ]
        if not widths:
            raise DataError("an arm would be too small to be compared")
        found.append(
            ExpectedAnswer(
                outcome=study.outcomes[index].name,
                everybody=widths[0][0],
                everybody_together=widths[0][1],
                group=widths[-1][0],
                group_together=widths[-1][1],
                noise_error=(own[0].noise_error or 0.0) / narrower,
                sampling_error=(own[0].sampling_error or 0.0) / narrower,
                noise_factor=1 / weight,
                without=1 - weight if study.privacy.delta == 0 else math.sqrt(1 - weight**2),
                adjustment=own[0].adjustment,
            )
        )
    return tuple(found)


def _difference_rows(study: DifferenceProtocol, sizes: Sizes, stand_in: StandIn) -> tuple[ProtocolAnswer, ...]:
    arms, groups, q = len(study.arm_names), len(study.groups), len(study.outcomes)
    shares = np.full(arms, 1 / arms) if arms > 2 else np.array([1 - stand_in.treated, stand_in.treated])
    block = np.zeros((2 * q + 1, arms))
    for index, outcome in enumerate(study.outcomes):
        block[q + index] = (_deviation(stand_in, outcome) * 2 / outcome.width) ** 2 * shares
    block[-1] = shares
    block *= counted_units(study, sizes, stand_in) / groups * difference.weights(study)
    return difference.findings(study, sizes, np.tile(block.ravel(), groups)).answers


def _deviation(stand_in: StandIn, outcome: Outcome) -> float:
    half = outcome.width / 2
    # 0 and 1 that are as frequent are half their range from their mean.
    usual = half if outcome.two_valued else half / 2
    return usual if stand_in.deviation is None else min(stand_in.deviation, half)


def _regression_rows(
    study: RegressionProtocol, sizes: Sizes, stand_in: StandIn, many: int
) -> tuple[ProtocolAnswer, ...]:
    """Return the table of a draw of noise, of several the one whose first interval has the median width."""
    joint, (rows, units) = joint_recipe(study, sizes), subgroup(study, sizes, stand_in, study.estimator.trial)
    pieces, times = Pieces(lambda _: rows, 1, len(rows)), units / len(rows)
    tables = []
    for seed in range(max(1, int(many * QUESTIONS / (len(study.outcomes) * joint.sides)))):
        scales, asked = _rehearsed(study, JointDraws(joint, pieces, RehearsalBudget(seed), times=times))
        tables.append(table(study, parts_of(study, asked, scales, sizes.units)))
    return sorted(tables, key=lambda one: width(one[0].interval))[len(tables) // 2]


def width(interval: Limits | None) -> float:
    """Return the width of an interval; 0 where there is none."""
    return 0.0 if interval is None else interval.upper - interval.lower


def _rehearsed(study: RegressionProtocol, drawn: JointDraws) -> tuple[JointScales, Asked]:
    """Return the releases of a subgroup that stands for all, which are equal, and what is learnt from them."""
    scales, count = drawn.scales(), len(study.groups)
    first = replace(scales, counts=scales.counts[:1], units=scales.units[:1], questions=scales.questions[:1])

    def alike(found: Asked) -> Asked:
        return [found[0]] * count

    asked = begun(drawn.recipe, first)
    asked = with_lines(study.first, asked, drawn.lines(alike(asked))[:1])
    screen = drawn.screen(alike(asked))
    asked = with_screen(asked, None if screen is None else screen[:1])
    refit = drawn.refit(alike(asked))
    asked = with_refit(asked, None if refit is None else refit[:1])
    asked = with_scores(asked, drawn.scores(alike(asked))[:1])
    return replace(first, counts=np.repeat(first.counts, count, axis=0), units=first.units * count), alike(asked)


def subgroup(
    study: ProtocolStudy,
    sizes: Sizes,
    stand_in: StandIn,
    randomised: bool,
    most: int = PEOPLE,
    sample: int | None = None,
) -> tuple[CellRows, float]:
    """Return the stand-in people of a subgroup, and how many units they stand for.

    More than two arms are equal.

    Args:
        study: the protocol.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        randomised: whether covariates have nothing to do with treatment.
        most: how many people, unless an arm is rare.
        sample: which, by chance as real ones are; None: a quasi-random one.
    """
    arms, units = len(study.arm_names), counted_units(study, sizes, stand_in) / len(study.groups)
    assumed = stand_in if arms == 2 else stand_in.model_copy(update={"treated": 1 - 1 / arms})
    count = max(min(enough(assumed, most), round(units)), 2)
    own = [people(one, assumed, count, randomised, sample=sample) for one in study.questions]
    t = own[0].t.copy()
    t[t != 0] = 1 + np.arange(int((t != 0).sum())) % (arms - 1)
    return CellRows(own[0].x, t, np.column_stack([one.u for one in own]), np.zeros(count, dtype=np.uint8)), units
