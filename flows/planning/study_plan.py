"""A study's plan with all that can be said before a row is read.

What ``causalveil.plan`` returns.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from causalveil.flows.planning.expected import expected as expected_of
from causalveil.flows.planning.expected import people_of
from causalveil.flows.planning.outlook import budget_of
from causalveil.flows.sequence.declare import plan_study
from causalveil.schemas.documents import Shown
from causalveil.schemas.errors import StudyError
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.plan import Plan, StandIn
from causalveil.schemas.privacy import amount_text

# What may be assumed of a population, as the command's options have it.
ALLOWED = {
    "treated": (0.01, 0.99),
    "deviation": (0.0, math.inf),
    "explained": (0.0, 0.99),
    "correlation": (0.0, 0.95),
    "spread": (0.001, 1.0),
    "distance": (0.0, 5.0),
    "eligible": (0.01, 1.0),
}


class StudyPlan(Shown, Plan):
    """A plan, and what its study can be expected to find.

    ``str`` of it reads as the command's output.

    ``expected`` has numbers by name, in outcome units (``half_width`` for an estimator with an interval); it is empty
    where the number of units is unknown. ``sentences`` and ``warnings`` say the same in words. ``budget``:
    what it would take of the dataset's budget; None where no contract lies beside the data.
    """

    specification: dict[str, Any]
    question: str
    estimator: str
    expected: dict[str, Any]
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    budget: BudgetOutlook | None = None

    def brief(self) -> str:
        """Return study, question and cost in one line."""
        return f"{self.study}: {self.question} by {self.estimator}, epsilon {amount_text(self.total.epsilon)}"

    def __str__(self) -> str:
        """Return the command's plan as plain text."""
        size = "n units" if self.sizes is None else f"{self.sizes.units:,} units"
        lines = [f"{self.study}: {self.question} by {self.estimator} on {size}"]
        for charge in self.charges:
            cost = f"epsilon {amount_text(charge.epsilon)}, delta {amount_text(charge.delta)}"
            lines.append(f"  {charge.name}: {charge.mechanism}, {charge.scope} units, {cost}")
        lines.append(f"Total: epsilon {amount_text(self.total.epsilon)}, delta {amount_text(self.total.delta)}")
        lines += [f"- {sentence}" for sentence in self.sentences]
        lines += [f"Warning: {sentence}" for sentence in self.warnings]
        return "\n".join(lines)


def plan(
    path: str | Path,
    *,
    units: int | None = None,
    effect: float | None = None,
    treated: float | None = None,
    deviation: float | None = None,
    mean: float | None = None,
    explained: float | None = None,
    correlation: float | None = None,
    spread: float | None = None,
    distance: float | None = None,
    eligible: float | None = None,
) -> StudyPlan:
    """Plan a study: every charge, and how wide its interval would be. Reads no private column.

    Args:
        path: the study file.
        units: number of units; default: what Parquet footers say, else formulas in n.
        effect: an effect in outcome units that the reader hopes to see: will the noise drown it?
        treated: share of treated units, from 0.01 to 0.99; default: 0.5, and the plan says how much that matters.
        deviation: assumed standard deviation of the outcome in its units; default: a quarter of the declared width,
            of an outcome of 0 or 1 what its mean leaves, at most half.
        mean: assumed mean of the outcome; default: the middle of its range.
        explained: assumed share of the outcome that covariates explain, from 0 to 0.99; default: 0.3.
        correlation: assumed correlation between covariates, from 0 to 0.95; default: 0.3.
        spread: assumed standard deviation of a covariate over half its range, from 0.001 to 1.
        distance: by how many standard deviations the arms' means of what drives treatment differ, from 0 to 5; default:
            1.
        eligible: share of units that meet ``where``, from 0.01 to 1; default: 0.5, and the plan says so.

    Raises:
        StudyError: the study or an argument is wrong.
        DataError: partitions are there but cannot be read.

    Examples:
        >>> import causalveil
        >>> planned = causalveil.plan("data/lalonde/study-difference.yaml", treated=0.4, deviation=6_000)
        >>> planned.total.epsilon, planned.total.delta
        (Decimal('1.0'), Decimal('0.000010'))
        >>> 2_000 < planned.expected["half_width"] < 3_500
        True
    """
    if units is not None and units < 2:
        raise StudyError(f"units must be at least 2, not {units}")
    told = StandIn.told(
        treated=treated,
        deviation=deviation,
        mean=mean,
        explained=explained,
        correlation=correlation,
        spread=spread,
        distance=distance,
        eligible=eligible,
    )
    for name in told.model_fields_set:
        low, high = ALLOWED.get(name, (-math.inf, math.inf))
        if not low <= (value := getattr(told, name)) <= high:
            raise StudyError(f"{name}, which is assumed, must lie in [{low:g}, {high:g}], not {value:g}")
    study, declared = plan_study(path, units)
    people = people_of(Path(path), study, declared)
    found = expected_of(study, declared, told, effect, people)
    budget = budget_of(Path(path), study, declared)
    budget.add_to(found)
    return StudyPlan(
        **dict(declared),
        specification=study.specification(),
        question=study.question,
        estimator=study.estimator.name,
        expected={key: value for key, value in found.items() if key not in ("sentences", "warnings")},
        sentences=tuple(found["sentences"]),
        warnings=tuple(found["warnings"]),
        budget=budget.outlook,
    )
