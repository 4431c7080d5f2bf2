"""The table that sites or blocks are asked for: its rows, and how far each effect may reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.schemas.protocols.answers import Answer, headline_first
from causalveil.schemas.protocols.study import EffectStudy, OutcomeRole

# What can be asked of several sites together, and of one block after the other.
Asked: TypeAlias = EffectStudy | SurvivalStudy


@dataclass(frozen=True)
class Question:
    """The question of a row of answers."""

    outcome: str
    role: OutcomeRole
    group: str
    arm: str
    reference: str

    @classmethod
    def of(cls, row: Answer) -> Question:
        """Return the question that an answer is to."""
        return cls(row.outcome, row.role, row.group, row.arm, row.reference)


def questions_of(study: Asked) -> list[Question]:
    """Return every question of a study, in the order of a release's answers."""
    names, groups = study.arm_names, study.answered_groups
    return headline_first(
        Question(outcome, role, group, arm, names[0])
        for outcome, (role, _) in outcomes_of(study).items()
        for arm in names[1:]
        for group in groups
    )


def outcomes_of(study: Asked) -> dict[str, tuple[OutcomeRole, float]]:
    """Return the role of each outcome, and how far an effect on it may reach to either side."""
    if isinstance(study, SurvivalStudy):
        return {question.label: (question.role, question.span) for question in study.questions}
    return {outcome.name: (outcome.role, outcome.width) for outcome in study.outcomes}


def widths_of(study: Asked) -> dict[str, float]:
    """Return how far an effect on each outcome may reach to either side."""
    return {name: width for name, (_, width) in outcomes_of(study).items()}
