"""Protocols' joint releases of chosen designs, as if release 1 had said them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.adjust.features import ArmScales
from causalveil.tasks.estimate.adjust.questions import joined
from causalveil.tasks.estimate.adjust.recipe import LINES, SCALES, SCORES, SCREEN, TableRecipe, joint_recipe
from causalveil.tasks.estimate.adjust.releases import (
    JointMomentSums,
    JointScaleSums,
    JointScoreSums,
    JointScreenSums,
    JointSums,
    Residuals,
    ScoresOfClasses,
    numbers_of,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Mechanism
from tests.protocol_help import make_protocol
from tests.regression_help import Design

SLOTS = {"scales": SCALES, "moments": LINES, "screen": SCREEN, "scores": SCORES}


@dataclass
class Shape:
    """Blocks of every release for a protocol of this many outcomes, subgroups and arms.

    Outcomes have unequal weights. `steep`: slope of the lines, beside which the constant of a row is little.
    """

    outcomes: int
    groups: int
    arms: int
    covariates: dict[str, Any]
    steep: float = 4.0
    units: int = 100_000
    privacy: tuple[str, str] = ("1", "1e-6")
    left_out: int = 0
    products: bool = False
    weighted: bool = False

    @cached_property
    def study(self) -> EffectStudy:
        epsilon, delta = self.privacy
        covariates = self.covariates
        weights = {"weights": {"column": "pweight", "upper": 5}} if self.weighted else {}
        return make_protocol(
            0,
            self.outcomes,
            self.groups,
            self.arms,
            covariates=covariates,
            epsilon=epsilon,
            delta=delta,
            left_out=self.left_out,
            **weights,
        )

    @cached_property
    def recipe(self) -> TableRecipe:
        found = joint_recipe(self.study, sizes_of(self.study, self.units))
        weights = np.sqrt(np.arange(1, self.outcomes + 1) / np.arange(1, self.outcomes + 1).sum())
        # Each release at the whole budget's cost, so that some thousand runs can tell.
        costs = {slot.name: self.study.privacy.cost for slot in SLOTS.values()}
        return replace(found, weights=tuple(weights.tolist()), costs=costs, products=self.products)

    @cached_property
    def design(self) -> Design:
        return Design(self.study.questions[0], self.steep)  # type: ignore[arg-type]

    def block(self, name: str, recipe: TableRecipe | None = None) -> JointSums:
        joint, one, half = recipe or self.recipe, self.design, ArmScales(0.5, (0.0, 0.0), 0.1, 0.2)
        table = [[None] * joint.sides] * len(joint.weights)
        residuals = Residuals.of([[ArmScales(0.5, (0.0, 0.0), 0.1, 0.2) for _ in row] for row in table])
        if name == "scales":
            return JointScaleSums(joint)
        if name == "moments":
            return JointMomentSums(joint, one.features, residuals, 0.5)
        if name == "screen":
            screen = replace(one.screen, arms=half, reach=0.5)
            return JointScreenSums(joint, [[screen for _ in row] for row in table], residuals)
        scores = replace(one.scores, arms=half)
        return JointScoreSums(joint, [[scores for _ in row] for row in table], residuals)

    @property
    def together(self) -> ScoresOfClasses:
        """Scores with products of outcomes that have rows of their own."""
        blocks = [cast(JointScoreSums, self.block("scores", one)) for one in self.recipe.of_blocks]
        return ScoresOfClasses(self.recipe, blocks)

    def mechanism(self, name: str) -> Mechanism:
        found = self.recipe.mechanism(SLOTS[name])
        assert found is not None
        return found

    def row(self, z: Any, t: int, u: Any, g: int, w: float = 1.0) -> CellRows:
        """A row of the columns `z`, in the order of the encoding: numbers and flags from -1 to 1, others 0 or 1.

        `w`: its survey weight over the largest, where there are weights.
        """
        encoding = self.recipe.encoding
        x = np.zeros(max(encoding.places) + 2)
        x[list(encoding.places)] = z
        outcomes = np.broadcast_to(np.asarray(u, dtype=np.float64), (1, self.outcomes))
        weights = np.array([w]) if self.weighted else None
        return CellRows((x * encoding.span)[None], np.array([t], np.uint8), outcomes, np.array([g], np.uint8), weights)

    def placed(self, name: str, row: CellRows, recipe: TableRecipe | None = None) -> FloatArray:
        """What a row adds to a release: its block's numbers, all others 0; of outcomes that it has, by class."""
        made = recipe or self.recipe
        if made.classes and made.products and name == "scores":
            block: JointSums = self.together
            return joined(block.of(row)) * joined(block.weights) * (int(row.g[0]) < self.groups)
        if made.classes:
            eligible, parts = int(row.g[0]) < self.groups, []
            for one, chosen in zip(made.of_blocks, made.classes, strict=True):
                block, own = self.block(name, one), row.with_outcomes(chosen)
                sums = joined(block.of(own)) if eligible and len(own) else np.zeros(numbers_of(block))
                parts.append(sums * joined(block.weights) * one.factor)
            return np.concatenate(parts)
        block, group = self.block(name, recipe), int(row.g[0])
        weights = joined(block.weights)
        found = np.zeros((self.groups, len(weights)))
        if group < self.groups:
            found[group] = joined(block.of(row)) * weights
        flat: FloatArray = found.ravel()
        return flat
