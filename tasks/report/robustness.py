"""Say how strong an unmeasured confounder would have to be, of a release's first answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from causalveil.schemas.release import EffectRelease
from causalveil.tasks.estimate.robustness import Robustness, largest_bias, robustness_of
from causalveil.tasks.report.numbers import confidence_level, figure, percent

NO_ANSWER = (
    "Nothing to say: treatment was randomised as the study declares, or noise or a gate hides the answer, or the "
    "answer is of a subgroup, whose number of units is not public."
)
# No such share is no proof that none is so strong.
NO_PROOF = "This is no proof that there is none so strong."
NOTHING = "The interval holds no effect, so no unmeasured confounder is needed to explain one."


@dataclass(frozen=True)
class SensitivityAnalysis:
    """The strength that an unmeasured confounder would need, as numbers and in words.

    Attributes:
        robustness: the numbers; None in a trial, behind noise, or of a withheld answer.
        sentences: the same in words.
        widened: the interval beside a confounder of the strength that was asked for; None where none was.
    """

    robustness: Robustness | None
    sentences: tuple[str, ...]
    widened: tuple[float, float] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """Return the sentences."""
        return "\n".join(self.sentences)


def sensitivity_of(release: EffectRelease, outcome: float | None, treatment: float | None) -> SensitivityAnalysis:
    """Return how strong an unmeasured confounder would have to be.

    Of a given strength it is also said what it could do.

    Args:
        release: the release.
        outcome: part of the outcome's variance left that it explains, in [0, 1]; None: no strength is asked for.
        treatment: part of treatment's variance left that it explains, in [0, 1).
    """
    found, interval = robustness_of(release), release.interval
    if found is None or interval is None:
        return SensitivityAnalysis(None, (NO_ANSWER,))
    said = _sentences(found, release)
    if outcome is None or treatment is None:
        return SensitivityAnalysis(found, said)
    low, high = found.beside(interval, outcome, treatment)
    moved, level = largest_bias(found.upper, outcome, treatment), confidence_level(interval.confidence)
    beside = (
        f"One that explains {percent(outcome)} of what is left of the outcome and {percent(treatment)} of what is left "
        f"of treatment may move the estimate by {figure(moved)}; with it the {level} interval is {figure(low)} to "
        f"{figure(high)}."
    )
    return SensitivityAnalysis(found, (*said, beside), (low, high))


def robustness_sentences(release: EffectRelease) -> tuple[str, ...]:
    """Return how strong an unmeasured confounder would have to be, in sentences.

    There are none in a trial or behind noise.
    """
    found = robustness_of(release)
    return () if found is None else _sentences(found, release)


def _sentences(found: Robustness, release: EffectRelease) -> tuple[str, ...]:
    return (*_of(found, release), *_conservative(release))


def _of(found: Robustness, release: EffectRelease) -> tuple[str, ...]:
    if found.near_end == 0:
        return (NOTHING,)
    return (
        "An unmeasured confounder would have to explain "
        f"{percent(found.value)} of the variance that is left of treatment, and as much of the outcome's, to bring "
        f"the estimate of {figure(release.estimate)} to 0, and {percent(found.near_end)} of both for the interval to "
        "reach 0.",
        f"One that explained all of the outcome would need {percent(found.extreme)} of treatment.",
        NO_PROOF,
    )


def _conservative(release: EffectRelease) -> tuple[str, ...]:
    """Estimators that fit no outcome model have in their variance what covariates explain."""
    if release.estimator in ("regression", "aipw", "survival"):
        return ()
    return (
        f"The shares are on the safe side: {release.estimator.replace('_', ' ')} fits no model of the outcome, so "
        "that its variance holds what covariates explain.",
    )
