"""What a run carries from stage to stage: paths, public facts, and the budget. Never a row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from causalveil.schemas.plan import Layout, Sizes
from causalveil.schemas.study import Study
from causalveil.tasks.privacy.budget import FlowBudget

S = TypeVar("S", bound=Study)


@dataclass(frozen=True)
class Run(Generic[S]):
    """One run of one study on one layout of partitions."""

    study: S
    folder: Path
    layout: Layout
    sizes: Sizes
    scratch: Path
    budget: FlowBudget
    seed: int | None

    @property
    def run_id(self) -> str:
        """The run's id, from which stages derive its key."""
        return self.budget.run_id
