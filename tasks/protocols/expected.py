"""What a planner can say of a protocol before a row is read: expected intervals of every outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from causalveil.schemas.estimators.protocols import DifferenceProtocol, RegressionProtocol
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.protocols.answers import ProtocolAnswer
from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.tasks.label_protocols.expected import label_rows
from causalveil.tasks.protocols import difference
from causalveil.tasks.protocols.cells import counted_units
from causalveil.tasks.protocols.joint import JointRecipe
from causalveil.tasks.protocols.parts import Part, over_groups, table
from causalveil.tasks.protocols.stages import joint_recipe
from causalveil.tasks.regression.interval import ThreeReleases, effect_of, in_words
from causalveil.tasks.regression.lines.adjust import unadjusted
from causalveil.tasks.regression.lines.kept import adjusted_by
from causalveil.tasks.regression.stand_in import expected_moments, expected_scales


@dataclass(frozen=True)
class ExpectedAnswer:
    """Of one outcome: half-widths over everybody and in a subgroup, one by one and all together, in its units.

    ``noise_factor``: its noise over that of asking for it alone. ``without``: by what the others' noise would be
    multiplied if it were left out.
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


def expected_answers(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn) -> tuple[ExpectedAnswer, ...]:
    """What to expect of every outcome if subgroups are equal, and so are arms if there are more than two.

    Raises:
        StudyError: more cells than the budget can serve.
    """
    if isinstance(study, DifferenceProtocol):
        rows = _difference_rows(study, sizes, stand_in)
    elif study.LEVEL is Level.label:
        rows = label_rows(study, sizes, stand_in)
    else:
        rows = _regression_rows(cast(RegressionProtocol, study), sizes, stand_in)
    found = []
    for index, weight in enumerate(study.weights):
        own = [row for row in rows if row.outcome == study.outcomes[index].name]
        widths = [
            ((row.interval.upper - row.interval.lower) / 2, (row.simultaneous.upper - row.simultaneous.lower) / 2)
            for row in own
            if row.interval is not None and row.simultaneous is not None
        ]
        found.append(
            ExpectedAnswer(
                outcome=study.outcomes[index].name,
                everybody=widths[0][0],
                everybody_together=widths[0][1],
                group=widths[-1][0],
                group_together=widths[-1][1],
                noise_error=own[0].noise_error or 0.0,
                sampling_error=own[0].sampling_error or 0.0,
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
        block[q + index] = (_deviation(stand_in, outcome.width) * 2 / outcome.width) ** 2 * shares
    block[-1] = shares
    block *= counted_units(study, sizes, stand_in) / groups * difference.weights(study)
    return difference.findings(study, sizes, np.tile(block.ravel(), groups)).answers


def _deviation(stand_in: StandIn, width: float) -> float:
    return min(width / 4 if stand_in.deviation is None else stand_in.deviation, width / 2)


def _regression_rows(study: RegressionProtocol, sizes: Sizes, stand_in: StandIn) -> tuple[ProtocolAnswer, ...]:
    joint = joint_recipe(study, sizes)
    parts: list[Part] = []
    for index, outcome in enumerate(study.outcomes):
        part = expected_part(study, joint, index, sizes, stand_in)
        groups = [replace(part, group=label) for label in study.groups]
        for arm in study.arm_names[1:]:
            named = [replace(one, arm=arm) for one in groups]
            if study.subgroups is not None:
                units = counted_units(study, sizes, stand_in)
                size = units / joint.groups
                noise = joint.scales_mechanism().known_scale * math.sqrt(joint.arms)
                parts.append(over_groups(named, [size] * joint.groups, noise, units, outcome.width))
            parts += named
    return table(study, parts)


def expected_part(study: RegressionProtocol, joint: JointRecipe, index: int, sizes: Sizes, stand_in: StandIn) -> Part:
    """One outcome in one of equal subgroups of the stand-in population, if no noise happened to be drawn."""
    question = cast(RegressionStudy, study.questions[index])
    cell = joint.cell(index, counted_units(study, sizes, stand_in) / joint.groups)
    units, half = cell.units or 1, question.outcome.width / 2
    population = stand_in if joint.arms == 2 else replace_treated(stand_in, 1 / joint.arms)
    scales = expected_scales(question, cell, units, population)
    noise = cell.effect_noise().deviation
    features, alone = None, joint.sides > 1
    if joint.one.moments is None:
        choice = unadjusted(study.estimator, scales, study.estimand, units, noise, alone)
    else:
        features = cell.features(scales)
        moments = expected_moments(question, cell, units, scales, features)
        choice, _ = adjusted_by(question, cell, scales, features, moments, alone=alone)
    # Scores have one deviation, which is 1/k of where they are cut; of one side its share of that.
    scores = np.array([0.0, units / choice.cut**2])
    effect = effect_of(half, units, noise, scales, choice, scores, side=alone)
    sides = 2 if alone else 1
    return Part(
        outcome=index,
        group=study.groups[0],
        arm=study.arm_names[1],
        answered=True,
        value=0.0,
        sampling=sides * effect.sampling,
        noise=sides**2 * effect.models + sides * (noise * effect.unit / units) ** 2,
        bias=sides * effect.bias,
        spread=half * scales.spread,
        adjustment=in_words(joint.one, ThreeReleases(scales, features, choice, None, scores)),
    )


def replace_treated(stand_in: StandIn, treated: float) -> StandIn:
    """The same population with another share of treated units."""
    return stand_in.model_copy(update={"treated": treated})
