"""Runs of private matching by setting: Figures 2, 3, 5, 7, 8 and 10 of Yuan et al. 2026."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from causalveil.tasks.machine.distribute import in_steps

if TYPE_CHECKING:
    from causalveil.schemas.estimators.matching import MatchingStudy
    from causalveil.tasks.data.enclave import MemoryEnclave
    from causalveil_replication.yuan2026.data import PublishedData

EPSILONS = ("0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4")
LEVELS = ("label", "sample")
RATIOS = (1, 3, 5, 7)
CAPS: tuple[str | int, ...] = ("adaptive", 1, 10, 50)
RATIO = 5
# By the name that the tables have for it: what study.yaml says.
MECHANISMS: dict[str, dict[str, Any]] = {
    "one draw": {"correct_attenuation": False},
    "two draws": {"variant": "paper"},
    "attenuation corrected": {"correct_attenuation": True},
}


@dataclass(frozen=True)
class Setting:
    """One way to run the estimator; ``name`` of the estimator's variant as the tables say it."""

    level: str
    ratio: int = RATIO
    cap: str | int = "adaptive"
    name: str = "one draw"

    @property
    def estimator(self) -> dict[str, Any]:
        """The keys of study.yaml that differ from the defaults."""
        return {"name": "matching", "ratio": self.ratio, "cap": self.cap} | MECHANISMS[self.name]


SETTINGS = (
    *(Setting(level, ratio, cap) for level in LEVELS for ratio in RATIOS for cap in CAPS),
    *(Setting(level, name="two draws") for level in LEVELS),
    Setting("sample", name="attenuation corrected"),
)


@dataclass(frozen=True)
class Prepared:
    """A data set ready to be run many times: its rows in each run's order, the truth by N."""

    data: PublishedData
    penalty: float
    rows: tuple[MemoryEnclave, ...]
    truth: dict[int, float]

    def study(self, setting: Setting, epsilon: str) -> MatchingStudy:
        """The study that a run of ``setting`` is."""
        from causalveil.schemas.estimators.matching import MatchingStudy

        privacy = {"epsilon": epsilon, "delta": 0, "level": setting.level}
        return MatchingStudy.model_validate(self.data.document({**setting.estimator, "penalty": self.penalty}, privacy))


def prepare(data: PublishedData, seeds: int) -> Prepared:
    """Rows in the order of each run, and the estimate without privacy."""
    from causalveil.schemas.estimators.matching import MatchingStudy
    from causalveil.tasks.data.enclave import MemoryEnclave
    from causalveil.tasks.estimate.papers.matching import scores as match_scores
    from causalveil_replication.yuan2026 import errors as matching_errors
    from causalveil_replication.yuan2026.data import rows_of

    penalty = matching_errors.penalty(data.frame.height, len(data.covariates))
    document = data.document({"name": "matching", "penalty": penalty}, {"epsilon": 1, "level": "label"})
    study = MatchingStudy.model_validate(document)
    orders = tuple(rows_of(study, data.frame, seed.to_bytes(16, "little")) for seed in range(seeds))
    fitted = match_scores.fitted(study, data.frame.height, MemoryEnclave.of(orders[0]))
    width = study.outcome.width
    truth = {ratio: matching_errors.non_private_estimate(orders[0], fitted, ratio, width) for ratio in RATIOS}
    return Prepared(data, penalty, tuple(map(MemoryEnclave.of, orders)), truth)


def measure(prepared: Prepared) -> Iterator[dict[str, object]]:
    """One row of the table for every setting and epsilon."""
    from causalveil.flows.run.estimators import rehearse_effect
    from causalveil.tasks.privacy.budget import RehearsalBudget
    from causalveil_replication.yuan2026.errors import RelativeError

    for setting in in_steps(SETTINGS, len(SETTINGS)):
        for epsilon in EPSILONS:
            study = prepared.study(setting, epsilon)
            found = [rehearse_effect(study, rows, RehearsalBudget(seed)) for seed, rows in enumerate(prepared.rows)]
            truth = prepared.truth[setting.ratio]
            error = RelativeError.of([one.estimate for one in found], truth)
            caps = [[int(one.details[name]) for one in found] for name in ("cap_treated", "cap_controls")]
            yield {
                "data": prepared.data.name,
                "level": setting.level,
                "mechanism": setting.name,
                "neighbours": setting.ratio,
                "cap": setting.cap,
                "epsilon": float(epsilon),
                "non_private": round(truth, 6),
                "relative_error": round(error.mean, 6),
                "standard_error": round(error.standard_error, 6),
                "runs": error.runs,
                "uses_of_a_treated_unit_at_most": max(caps[0]),
                "uses_of_a_control_at_most": max(caps[1]),
            }
