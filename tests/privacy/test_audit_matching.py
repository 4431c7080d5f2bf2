"""The matching estimator audited from outside: all that it draws on two neighbouring tables, thousands of times.

One unit differs in x, t and y (at label level in y alone) and is as extreme as declared bounds allow. The order of
traversal is the same for both tables, as in the coupling of the secret hash, and the auditor knows it. The score of
a run is the log-likelihood ratio of its whole transcript: coefficients, noisy scores, randomised treatments, sums;
means of the sums are computed anew from each run's own records. Epsilon is bounded from below by
``audit.epsilon_lower_bound``, wrong with probability below 1e-6 a case (seven cases).

Each case runs on production noise and, fifteen times as often and the same every time, on seeded noise: there half of
the noise must be caught (a fifth of the coefficients', which is mostly across the difference), early or late
(``audit.caught``). Most cases give nearly all of epsilon to one step and the other steps' draws to the auditor; the
last draws all but the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.tasks.enclave.enclave import MemoryEnclave, Rows
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.matching import scores as match_scores
from causalveil.tasks.matching import weights as match_perturb
from causalveil.tasks.matching import weights as match_weights
from causalveil.tasks.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from tests.audit import caught, epsilon_lower_bound
from tests.matching_help import Transcript, two_covariates

CONFIDENCE = 1 - 1e-6
RUNS, SECURE_RUNS, MUTANT_RUNS = 1_500, 100, 3_000
UNITS, SPECIAL = 10, 0
STEEP = np.array([20.0, 0.0, 0.0])


class InBlocks(SeededNoise):
    """The same sampler, asked for the noise of many runs at once: a thousand numbers take as long as ten."""

    BLOCK = 500

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.left: dict[Any, list[FloatArray]] = {}

    def lattice_laplace(self, values, scale, granularity):
        left = self.left.setdefault((values.size, scale, granularity), [])
        if not left:
            zeros = np.zeros(self.BLOCK * values.size)
            left += [*super().lattice_laplace(zeros, scale, granularity).reshape(self.BLOCK, values.size)]
        return np.rint(values / granularity) * granularity + left.pop()


class LessNoise(InBlocks):
    """The mutant: a share of the noise everywhere."""

    def __init__(self, seed: int, share: float) -> None:
        super().__init__(seed)
        self.share = share

    def laplace(self, value, scale):
        return super().laplace(value, scale * self.share)

    def l2_laplace(self, value, scale):
        return super().l2_laplace(value, scale * self.share)

    def lattice_laplace(self, values, scale, granularity):
        return super().lattice_laplace(values, scale * self.share, granularity)

    def randomised_response(self, bits, keep):
        return super().randomised_response(bits, 1 - (1 - keep) * self.share)


@dataclass(frozen=True)
class Case:
    """A study, and what of its transcript is given to the auditor rather than drawn."""

    study: MatchingStudy
    fixed: dict[str, Any] = field(default_factory=dict)
    memory: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def steps(self) -> dict[str, Any]:
        """Mechanisms by release name; some take a millisecond to make."""
        return {
            "propensity": match_scores.model(self.study, sizes_of(self.study, UNITS)).mechanism(),
            "scores": match_scores.mechanism(self.study),
            "treatment": match_scores.treatment_mechanism(self.study),
            "effect": match_perturb.mechanism(self.study),
        }

    def scale(self, name: str) -> float:
        return self.steps[name].noise_scale

    def sums(self, scores: FloatArray, arms: ByteArray, rows: Rows) -> FloatArray:
        """Exact sums after these records; most cases meet the same ones again and again."""
        key = (scores.tobytes(), arms.tobytes(), rows.u.tobytes())
        if key not in self.memory:
            reuse, units = match_weights.weigh(self.study, scores, arms)
            self.memory[key] = match_perturb.sums(self.study, reuse, units, arms, rows.u)
        return self.memory[key]


def table(special: tuple[float, int, float]) -> Rows:
    """Treated units here, controls there, and the special unit's (x_1, t, u), which is where the treated are."""
    t = np.arange(UNITS) % 2
    x, u = np.where(t == 1, 0.7, -0.7), np.full(UNITS, -1.0)
    x[SPECIAL], t[SPECIAL], u[SPECIAL] = special
    return Rows(np.column_stack([x, np.full((UNITS, 2), 0.5)]), t.astype(np.uint8), u)


def neighbours(study: MatchingStudy, name: str) -> tuple[Rows, Rows]:
    """The special unit as one extreme, and as the other: its score end to end where scores are audited."""
    if study.privacy.level == "label":
        return table((0.7, 0, -1.0)), table((0.7, 0, 1.0))
    return table((0.7, 0, -1.0)), table((0.7 if name == "weights" else -0.7, 1, 1.0))


def run(case: Case, rows: Rows, fitted: FloatArray, noise: NoiseSource) -> dict[str, Any]:
    """One run's transcript: the steps of the flow, each with its own mechanism."""
    study, budget, steps = case.study, Transcript(noise, case.fixed), case.steps
    label = study.privacy.level == "label"
    w = fitted if label else steps["propensity"].release(fitted, match_scores.MODEL_SLOT, budget)
    scores = match_scores.release(study, match_scores.exact_scores(rows, w), budget)
    arms = match_scores.release_treatment(study, rows.t, budget)
    steps["effect"].release(case.sums(scores, arms, rows), match_perturb.SLOT, budget)
    return {"scores": scores, "treatment": arms, **budget.drawn}


def log_likelihood(case: Case, rows: Rows, fitted: FloatArray, seen: dict[str, Any]) -> float:
    """Log density of a transcript under a table, up to what both tables share."""
    total, private = 0.0, case.study.privacy.level == "sample"
    w = seen.get("propensity", fitted)
    if private and "propensity" not in case.fixed:
        total -= float(np.linalg.norm(w - fitted)) / case.scale("propensity")
    if private and "scores" not in case.fixed:
        total -= np.abs(seen["scores"] - match_scores.exact_scores(rows, w)).sum() / case.scale("scores")
    if private and "treatment" not in case.fixed:
        keep, kept = case.scale("treatment"), np.count_nonzero(seen["treatment"] == rows.t)
        total += kept * np.log(keep) + (UNITS - kept) * np.log(1 - keep)
    exact = case.sums(seen["scores"], seen["treatment"], rows)
    return total - np.abs(seen["effect"] - exact).sum() / case.scale("effect")


def sampler(name: str, noise: NoiseSource) -> Callable[[int], tuple[FloatArray, FloatArray]]:
    """So many more runs -> the scores of as many on either table."""
    case = CASES[name]
    pair = neighbours(case.study, name)
    sizes = sizes_of(case.study, UNITS)
    fits = [match_scores.fitted(case.study, sizes, MemoryEnclave.of(rows)) for rows in pair]

    def sample(runs: int) -> tuple[FloatArray, FloatArray]:
        samples = []
        for rows, fitted in zip(pair, fits, strict=True):
            seen = [run(case, rows, fitted, noise) for _ in range(runs)]
            ratios = [[log_likelihood(case, r, f, one) for r, f in zip(pair, fits, strict=True)] for one in seen]
            samples.append(np.subtract(*np.array(ratios).T))
        return samples[0], samples[1]

    return sample


def audit(name: str, runs: int, noise: NoiseSource) -> float:
    """A lower bound on epsilon."""
    return epsilon_lower_bound(*sampler(name, noise)(runs), 0.0, CONFIDENCE)


def catch(name: str, noise: NoiseSource) -> float | None:
    """A lower bound above the declared epsilon as soon as there is one."""
    return caught(sampler(name, noise), MUTANT_RUNS, float(CASES[name].study.privacy.epsilon), 0.0, CONFIDENCE)


BASE: dict[str, Any] = {"epsilon": "2", "ratio": 1, "cap": 2, "penalty": 10}
# Two treated units find the special one nearest, and nobody serves more often than twice.
SEEN = {
    "propensity": STEEP,
    "scores": np.array([0, 7, 0, 7, 7, 7, 0, 7, 0, 7]) / 8.0,
    "treatment": np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1], dtype=np.uint8),
}


def case(only: str | None = None, **changes: Any) -> Case:
    """A study that gives nearly all of epsilon to one step; the other steps' records are then given away."""
    names = ("weights", "scores", "treatment", "outcome")
    parts = {name: ("0.25" if only is None else "0.97" if name == only else "0.01") for name in names}
    drawn = {"weights": "propensity"}.get(only or "", only)
    fixed = {} if only is None else {name: record for name, record in SEEN.items() if name != drawn}
    study = two_covariates(**BASE | changes | {"budget_shares": parts})
    return Case(study, fixed | ({"propensity": STEEP} if only is None else {}))


CASES = {
    "label": Case(two_covariates(level="label", **BASE)),
    "label, paper": Case(two_covariates(level="label", variant="paper", **BASE)),
    "weights": case("weights"),
    "scores": case("scores"),
    "treatment": case("treatment"),
    "outcome": case("outcome"),
    "all but weights": case(),
}


SHARES = {"weights": 0.2, "all but weights": 0.25}


@pytest.mark.parametrize("name", CASES)
def test_transcripts_stay_below_the_declared_epsilon_and_less_noise_is_caught(name: str) -> None:
    declared = float(CASES[name].study.privacy.epsilon)
    secure = audit(name, SECURE_RUNS, SecureNoise())
    honest, mutant = audit(name, RUNS, InBlocks(7)), catch(name, LessNoise(7, SHARES.get(name, 0.5)))
    print(f"{name}: declared {declared}, audited {secure:.2f} {honest:.2f}, with less noise {mutant}")
    assert secure <= declared
    assert honest <= declared
    assert mutant is not None


@pytest.mark.parametrize("name", ["label", "outcome"])
def test_a_sensitivity_that_forgets_reuse_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B/n instead of max_i (1 + K_i/N) B/n: as if a unit's outcome counted once."""
    honest = match_perturb.sums

    def forgetful(study: Any, reuse: Any, units: Any, arms: Any, outcome: Any) -> FloatArray:
        found = honest(study, reuse, units, arms, outcome)
        return found * np.array([float(reuse.weights.largest_weight) * reuse.queries, 1.0])

    monkeypatch.setattr(match_perturb, "sums", forgetful)
    monkeypatch.setitem(CASES, name, Case(CASES[name].study, CASES[name].fixed))
    found = catch(name, SeededNoise(7))
    print(f"declared {CASES[name].study.privacy.epsilon}, audited {found}")
    assert found is not None


def test_arms_from_true_treatments_would_show() -> None:
    """Randomise the treatment, then match between the true arms: their sizes are published and differ for certain."""
    study = CASES["outcome"].study
    pair = neighbours(study, "outcome")
    counts = {match_weights.weigh(study, SEEN["scores"], rows.t)[0].treated for rows in pair}
    assert len(counts) == 2, "no epsilon bounds that"
