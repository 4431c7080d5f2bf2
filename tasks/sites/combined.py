"""One question over several sites or blocks: each one's answer, and the pooled row.

Every question is pooled as ``tasks/sites/pool.py`` pools an effect, over the sites or blocks that answered it: where
noise hides a subgroup at a site, a measure ends before its horizon there, or a gate withholds it, that site has no part
in it. Which sites these are depends on released values of who is there, not on any estimate. Simultaneous intervals
are pooled from the sites' own, at the same confidence. Post-processing of released values; costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from causalveil.schemas.confounding import ConfoundingStatement, over_parts
from causalveil.schemas.protocols.answers import Answer, Limits, State
from causalveil.schemas.release import EffectRelease, Interval
from causalveil.schemas.sites.pooled import PooledEstimate
from causalveil.schemas.sites.round import Model
from causalveil.tasks.sites.pool import Pooled, estimate_of, pool

FEWEST = 2


@dataclass(frozen=True)
class SourceAnswer:
    """The answer of one site or block to a question, and the release that it stands in."""

    source: str
    release: EffectRelease
    row: Answer

    @property
    def state(self) -> State:
        """The state as a part of a pooled answer: unresolved where the measure ends earlier."""
        return self.row.state if self.row.restricted_to is None else State.unresolved

    @property
    def speaks(self) -> bool:
        """True if there is an answer."""
        return self.state in (State.answered, State.marked) and self.row.estimate is not None


@dataclass(frozen=True)
class CombinedCell:
    """One question: the answers to it, and what they come to if two sites or blocks gave one.

    Attributes:
        width: how far the effect may reach to either side.
        said: by site or block.
        pooled: of those that answered; None: fewer than two.
        together: the same from simultaneous intervals; None also where the table has one row.
        weights: of those that answered, by both models.
    """

    width: float
    said: tuple[SourceAnswer, ...]
    pooled: Pooled | None
    together: Pooled | None
    weights: dict[str, tuple[float, float]]

    @property
    def row(self) -> Answer:
        """The first answer, whose question is that of all."""
        return self.said[0].row

    @property
    def told(self) -> tuple[SourceAnswer, ...]:
        """The answers that have a part in the pooled one."""
        return tuple(one for one in self.said if one.source in self.weights)

    @property
    def spread(self) -> float:
        """Standard deviation of the outcome within arms, over the sites."""
        return math.sqrt(math.fsum(self.weights[one.source][0] * (one.row.spread or 0.0) ** 2 for one in self.told))

    def weight(self, source: str, model: Model) -> float:
        """Return the weight of a site or block under a model, 0 of one without an answer."""
        return self.weights.get(source, (0.0, 0.0))[0 if model is Model.fixed else 1]

    def of(self, model: Model) -> PooledEstimate | None:
        """Return the estimate under a model."""
        return None if self.pooled is None else by_model(self.pooled, model)

    def simultaneous(self, model: Model) -> Limits | None:
        """Return the interval under a model that holds with those of all other rows."""
        return None if self.together is None else limits_of(by_model(self.together, model).interval)

    def confounding(self, model: Model) -> ConfoundingStatement | None:
        """Return what was done about confounding, over the parts as a model weighs them."""
        return over_sources([(one.row.confounding, self.weight(one.source, model)) for one in self.told])


def by_model(pooled: Pooled, model: Model) -> PooledEstimate:
    """Return the estimate of a model."""
    return pooled.fixed if model is Model.fixed else pooled.random


def cell_of(said: Sequence[SourceAnswer], confidence: float, width: float) -> CombinedCell:
    """Pool one question of a table.

    Args:
        said: the answers of sites or blocks to it, each once.
        confidence: of each interval by itself.
        width: how far the effect may reach to either side.

    Raises:
        BundleError: an answer reports no variance at all.
    """
    found = [(one, estimate_of(one.source, one.release, one.row)) for one in said]
    told = [(one, estimate) for one, estimate in found if estimate is not None]
    if len(told) < FEWEST:
        return CombinedCell(width, tuple(said), None, None, {})
    bounds = (-width, width)
    pooled = pool([estimate for _, estimate in told], confidence, bounds)
    weights = {
        one.source: (float(fixed), float(random))
        for (one, _), fixed, random in zip(told, pooled.weights_fixed, pooled.weights_random, strict=True)
    }
    together = None
    if (rows := len(told[0][0].release.answers)) > 1:
        each = together_at(confidence, rows)
        all_ = [estimate_of(one.source, one.release, one.row, each) for one, _ in told]
        together = pool([one for one in all_ if one is not None], each, bounds)
    return CombinedCell(width, tuple(said), pooled, together, weights)


def together_at(confidence: float, rows: int) -> float:
    """Return the confidence of each interval with which all of a table hold together."""
    return 1 - (1 - confidence) / rows


def over_sources(stated: Sequence[tuple[ConfoundingStatement | None, float]]) -> ConfoundingStatement | None:
    """Return what sites or blocks did about confounding together, each by its weight.

    Return None if one has none.
    """
    known = [(one, weight) for one, weight in stated if one is not None]
    return over_parts(known) if known and len(known) == len(stated) else None


def question_fields(row: Answer) -> dict[str, Any]:
    """Return the fields that say which question a row answers."""
    return {name: getattr(row, name) for name in ("outcome", "role", "group", "arm", "reference", "measure")}


def number_fields(shown: PooledEstimate | None) -> dict[str, Any]:
    """Return the fields of a row that the declared estimate says; None: it has no numbers."""
    if shown is None:
        return dict.fromkeys(("estimate", "interval", "sampling_error", "noise_error", "bias"))
    return {
        "estimate": shown.estimate,
        "interval": limits_of(shown.interval),
        "sampling_error": math.sqrt(shown.variance.sampling),
        "noise_error": math.sqrt(shown.variance.noise),
        "bias": shown.interval.bias,
    }


def part_fields(cell: CombinedCell, one: SourceAnswer, *, withheld: bool = False) -> dict[str, Any]:
    """Return the fields of a site's or a block's part in a row.

    ``withheld``: a gate withholds the whole row.
    """
    row, shown = one.row, one.speaks and not withheld
    numbers = ("estimate", "interval", "sampling_error", "noise_error")
    return {
        "state": one.state,
        **{name: getattr(row, name) if shown else None for name in numbers},
        "weight_fixed": cell.weight(one.source, Model.fixed),
        "weight_random": cell.weight(one.source, Model.random),
        "confounding": row.confounding,
    }


def limits_of(interval: Interval) -> Limits:
    """Return an interval's ends alone."""
    return Limits(lower=interval.lower, upper=interval.upper)
