"""What a planner can say of a protocol at label level before a row is read, of equal subgroups of a stand-in."""

from __future__ import annotations

from dataclasses import replace

from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.protocols.answers import ProtocolAnswer
from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.tasks.balancing.expected import expected_balance
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.inference.served import counted_units
from causalveil.tasks.label_protocols.answers import number_of_answers, part_of, scaled
from causalveil.tasks.label_protocols.draw import JointDraw
from causalveil.tasks.matching.expected import expected_reuse
from causalveil.tasks.matching.weights import Reuse
from causalveil.tasks.protocols.parts import Part, over_groups, table
from causalveil.tasks.weighting.expected import EXPLAINED
from causalveil.tasks.weighting.imbalance import Balance


def label_rows(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn) -> tuple[ProtocolAnswer, ...]:
    """The table of equal subgroups, and of equal arms if there are more than two, without an effect or drawn noise.

    Raises:
        DataError: an arm would be too small to be compared.
    """
    draw, answers, groups = JointDraw.of(study), number_of_answers(study), len(study.groups)
    arms, parts = len(study.arm_names), list[Part]()
    share = 1 / 2 if arms > 2 else stand_in.treated
    counted = counted_units(study, sizes, stand_in)
    units = max(round(counted / groups * (2 / arms if arms > 2 else 1)), 2)
    found = _weights(study, draw, units, stand_in.model_copy(update={"treated": share}))
    for outcome, declared in enumerate(study.outcomes):
        half = declared.width / 2
        deviation = half / 2 if stand_in.deviation is None else min(stand_in.deviation, half)
        left = 1 - EXPLAINED if isinstance(found, Balance) and found.bias > 0 else 1.0
        one = scaled(study, draw, outcome, found)
        variance = one.squares * left * (deviation / half) ** 2
        second = variance / one.variance if one.measurable else 0.0
        for arm in study.arm_names[1:]:
            part = part_of(study, draw, outcome, (study.groups[0], arm), found, (0.0, second), answers)
            named = [replace(part, group=label) for label in study.groups]
            if study.subgroups is not None:
                parts.append(over_groups(named, [counted / groups] * groups, 0.0, counted, declared.width))
            parts += named
    return table(study, parts)


def _weights(study: ProtocolStudy, draw: JointDraw, units: int, stand_in: StandIn) -> Balance | Reuse:
    question = study.questions[study.first]
    if isinstance(question, BalancingStudy):
        return expected_balance(question, sizes_of(question, units), stand_in, draw.louder(study.first))
    if not isinstance(question, MatchingStudy):
        raise TypeError("a protocol at label level is by balancing or by matching")
    return expected_reuse(question, units, stand_in)
