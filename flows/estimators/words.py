"""Sentences of `plan` that estimators share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from causalveil.flows.estimators.rehearsal import hidden_in, summary
from causalveil.flows.estimators.table import Rehearsed
from causalveil.schemas.plan import StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Clusters, Study
from causalveil.tasks.inference.clusters import assumed_icc, design_effect
from causalveil.tasks.report.numbers import confidence_level, number


class Importance(IntEnum):
    """Kinds of a plan's sentences, in the one order in which it says them.

    First what spoils the answer, then the answer that is expected, what it costs, what the reader could change, and
    last how the numbers came about. A sentence of no kind informs; a warning of none tells of a wrong answer.
    """

    refused = 0  # the run would not start
    wrong = 1  # the answer may be off by more than its interval says
    hidden = 2  # noise hides the answer, or the effect that the reader hopes to see
    unprotected = 3  # the guarantee leaves people out
    expected = 4  # the answer's interval
    cost = 5  # what the run takes of the budget
    declare = 6  # facts to state and settings to change, each with what it would do
    informs = 7


class Sentence(str):
    """A sentence with its kind."""

    kind: Importance

    def __new__(cls, kind: Importance, text: str) -> Sentence:
        """Return the sentence; it is a text like any other."""
        found = super().__new__(cls, text)
        found.kind = kind
        return found


def in_order(sentences: Iterable[str], default: Importance) -> list[str]:
    """Return sentences by importance, those of a kind as they were added.

    ``default`` is the kind of plain texts.
    """
    by_kind = sorted(sentences, key=lambda one: one.kind if isinstance(one, Sentence) else default)
    return [str(one) for one in by_kind]


# The warning of arms that are compared as they are.
_AS_THEY_ARE = (
    "no covariate is adjusted for; the interval allows for the confounding that `confounding_prior` assumes. If "
    "treatment was randomised, declare trial: true. Otherwise "
)
UNADJUSTED = f"{_AS_THEY_ARE}estimator 'auto' adjusts as far as size and budget allow."
UNADJUSTED_TIMES = f"{_AS_THEY_ARE}declare covariates, which are then adjusted for."
OTHERWISE = "For another risk or loss write `expect` into the study."
# Of ipw and matching; docs/estimators.md has by how much.
_OF_A_PAPER = "this is the method of a paper, for comparison with it: intervals by estimator "
OF_A_PAPER = {
    Level.sample: Sentence(Importance.declare, f"{_OF_A_PAPER}'regression' are much narrower."),
    Level.label: Sentence(Importance.declare, f"{_OF_A_PAPER}'balancing' are narrower."),
}
WHOLE_RANGE = Sentence(
    Importance.hidden, "the noise exceeds the outcome's declared range: expect the whole range as interval."
)


def stated_terms(study: Study) -> list[str]:
    """Return a warning of what declared terms leave, where no other curve is looked for."""
    terms = getattr(study, "terms", ())
    if not terms or getattr(study.estimator, "curves", "none") != "none" or getattr(study.estimator, "trial", False):
        return []
    named = ", ".join(one.text for one in terms)
    return [
        f"of non-linear confounding the declared terms alone are adjusted for: {named}. What else is not linear is not "
        "covered by the interval."
    ]


@dataclass(frozen=True)
class Words:
    """Sentences and numbers that an estimator adds to a plan.

    Attributes:
        sentences: for people.
        numbers: by name, for scripts.
        name: which of several answers the half-width and an effect are of, "systolic".
        left: the part of an effect that the estimate is about.
    """

    sentences: Sequence[str] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    left: float = 1.0


def say_interval(confidence: float, numbers: Mapping[str, Any]) -> str:
    """Return the expected interval and what it is made of: ``numbers`` in outcome units."""
    sampling, noise = (number(numbers[f"{part}_standard_error"], 3) for part in ("sampling", "noise"))
    # Where most draws hide it the sampling variance comes out as nothing, which it is not.
    hides = numbers["sampling_standard_error"] == 0 < numbers["noise_standard_error"]
    made_of = f"{noise} from noise, which hides that of sampling"
    made_of = made_of if hides else f"{sampling} from sampling, {noise} from noise"
    return Sentence(
        Importance.expected,
        f"Expected {confidence_level(confidence)} interval: estimate ± {number(numbers['half_width'], 3)} "
        f"(standard error {made_of}), for a treated share of {numbers['treated']:g}.",
    )


def say_clusters(clusters: Clusters, units: int, stand_in: StandIn, numbers: dict[str, Any]) -> list[str]:
    """Return what clusters do to the expected interval, and put its numbers beside the others."""
    icc = assumed_icc(clusters, stand_in)
    effect, noise = design_effect(clusters, units, icc), numbers["noise_standard_error"] ** 2
    sampling = numbers["sampling_standard_error"] ** 2
    alone = math.sqrt((sampling / effect + noise) / (sampling + noise)) if sampling > 0 else 1.0
    numbers |= {"icc": icc, "design_effect": effect, "effective_people": units / effect}
    numbers["half_width_one_by_one"] = numbers["half_width"] * alone
    others = " and ".join(
        f"{units / design_effect(clusters, units, other):,.0f} at {other:g}" for other in (0.0, 0.2) if other != icc
    )
    assumed = "" if stand_in.icc is not None else " Not told, so assumed: state it with `--icc`."
    text = (
        f"Likeness of units of one {clusters.column}: at a correlation of {icc:g} the design effect is {effect:.3g}, "
        f"so {units:,} units tell as much as {units / effect:,.0f} ({others}). Counted one by one they would promise "
        f"± {number(numbers['half_width_one_by_one'], 3)}, which does not hold.{assumed}"
    )
    return [Sentence(Importance.expected, text)]


def say_draws(
    found: Sequence[Rehearsed],
    numbers: Mapping[str, Any],
    stand_in: StandIn,
    own: bool,
    adjusts: bool,
    name: str = "",
) -> list[str]:
    """Return what the half-width is the median of, and its range.

    Args:
        found: by draw.
        numbers: what they say together.
        stand_in: the population that the reader assumes.
        own: whether covariates and treatments are those of the run's own people.
        adjusts: whether the width depends on what covariates explain.
        name: which of several answers the half-width is of, "systolic".
    """
    low, high = numbers["half_width_range"]
    between = f"± {number(low, 3)} to ± {number(high, 3)}"
    of = f" of {name}" if name else ""
    if own:
        return [
            "Covariates and treatments are public, so weights and imbalance are those of the data folder.",
            "No outcome was read.",
            Sentence(
                Importance.expected,
                f"The half-width{of} is between {number(low, 3)} and {number(high, 3)}. It depends on the size of the "
                "effect, and on whether the covariates that predict treatment predict the outcome too.",
            ),
            f"This assumes that covariates explain {stand_in.explained:.0%} of the outcome's variance.",
        ]
    assumed = (
        f" This assumes correlations of {stand_in.correlation:g} between covariates, which explain "
        f"{stand_in.explained:.0%} of the outcome's variance."
        if adjusts
        else ""
    )
    if len({one.kind for one in found}) > 1:
        return [
            Sentence(
                Importance.expected,
                f"Depending on the size of the effect, expect ± {number(low, 3)} to ± {number(high, 3)}: from none to "
                "one standard deviation of the outcome within arms.",
            ),
            *([assumed.strip()] if assumed else []),
        ]
    if len(found) == 1:
        return [f"The half-width{of} is that of one draw of noise.{assumed}"]
    if 0 < (hidden := hidden_in(found)) < len(found):
        return [
            f"The half-width{of} is the mean of {len(found)} draws of noise, from {between}.",
            f"In {hidden} of them noise hides the answer, and the interval is the whole declared range.",
            *([assumed.strip()] if assumed else []),
        ]
    return [f"The half-width{of} is the median of {len(found)} draws of noise, from {between}.{assumed}"]


def say_imbalance(found: Sequence[Rehearsed]) -> list[str]:
    """Return what bias the interval allows for by imbalance, where it does."""
    bias = float(summary(found)["bias"])
    if bias == 0:
        return []
    # The run's own people are given several kinds of outcomes.
    if len({one.kind for one in found}) > 1:
        text = f"The interval allows for a bias of {number(bias, 3)} from the imbalance that the weights leave."
        return [Sentence(Importance.expected, text)]
    return [
        Sentence(
            Importance.expected,
            f"If treatment depends linearly on the covariates, the interval allows for a bias of {number(bias, 3)} "
            "from imbalance.",
        ),
        Sentence(
            Importance.expected,
            "If it depends on them non-linearly, more imbalance is left and allowed for. The interval may then be "
            "several times wider, and the release says partly adjusted.",
        ),
    ]


def say_effect(
    effect: float, numbers: dict[str, Any], sentences: list[str], warnings: list[str], words: Words = Words()
) -> None:
    """Say whether an effect of this size is larger than the half-width that is expected.

    Args:
        effect: in outcome units.
        numbers: of the plan, to add to; ``sign_wrong`` and ``units_needed`` are said where they are known.
        sentences: to add to.
        warnings: to add to, where the interval is too wide for it.
        words: of the estimator.
    """
    numbers |= {"effect": effect, "hidden_by_noise": numbers["half_width"] >= abs(effect) * words.left}
    on = f" on {words.name}" if words.name else ""
    half, wrong, enough = f"the expected half-width, {number(numbers['half_width'], 3)}", "", ""
    if "sign_wrong" in numbers:
        wrong = f" (wrong sign with probability {numbers['sign_wrong']:.2g})"
    if not numbers["hidden_by_noise"]:
        sentences.append(
            Sentence(Importance.expected, f"An effect of {effect:,.12g}{on} is larger than {half}{wrong}.")
        )
        return
    if "units_needed" in numbers:
        needed = numbers["units_needed"]
        enough = f"; about {needed:,} units would be needed" if needed else "; no number of units would do"
    warnings.append(
        Sentence(Importance.hidden, f"{half}, is larger than an effect of {effect:,.12g}{on}{wrong}{enough}.")
    )


def say_row(name: str, alone: float, together: float, group: tuple[float, float] | None) -> str:
    """Return the half-widths of one question of a protocol, by itself and with all others."""
    inside = ""
    if group is not None:
        inside = f" In a subgroup of average size: ± {number(group[0], 3)}, together ± {number(group[1], 3)}."
    if together <= alone:
        # One answer has no others to hold with.
        return Sentence(Importance.expected, f"{name}: ± {number(alone, 3)}.{inside}")
    both = f"± {number(alone, 3)} by itself, ± {number(together, 3)} to hold together with all other answers"
    return Sentence(Importance.expected, f"{name}: {both}.{inside}")
