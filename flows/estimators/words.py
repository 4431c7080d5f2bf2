"""Remarks of `plan` that estimators share; their sentences stand in ``schemas/remarks.py``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from causalveil.flows.estimators.rehearsal import hidden_in, summary
from causalveil.flows.estimators.table import Rehearsed
from causalveil.schemas.clusters import Clusters, SurveyWeights
from causalveil.schemas.hints import option
from causalveil.schemas.limits import Fact, capital
from causalveil.schemas.plan import StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.study import Study
from causalveil.tasks.estimate.clusters import assumed_icc, design_effect
from causalveil.tasks.report.numbers import confidence_level, number

# Of ipw and matching; docs/estimators.md has by how much.
OF_A_PAPER = {
    Level.sample: remark(PlanCode.of_a_paper, better="regression", narrower="much narrower"),
    Level.label: remark(PlanCode.of_a_paper, better="balancing", narrower="narrower"),
}


def stated_terms(study: Study) -> list[Remark]:
    """Return a warning of what declared terms leave, where no other curve is looked for."""
    terms = getattr(study, "terms", ())
    if not terms or getattr(study.estimator, "curves", "none") != "none" or getattr(study.estimator, "trial", False):
        return []
    return [remark(PlanCode.stated_terms, terms=tuple(term.text for term in terms))]


@dataclass(frozen=True)
class Words:
    """Sentences and numbers that an estimator adds to a plan.

    Attributes:
        sentences: for people.
        numbers: by name, for scripts.
        name: which of several answers the half-width and an effect are of, "systolic".
        left: the part of an effect that the estimate is about.
    """

    sentences: Sequence[Remark] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    left: float = 1.0


def say_interval(confidence: float, numbers: Mapping[str, Any]) -> Remark:
    """Return the expected interval and what it is made of: ``numbers`` in outcome units."""
    sampling, noise = (number(numbers[f"{part}_standard_error"], 3) for part in ("sampling", "noise"))
    # Where most draws hide it the sampling variance comes out as nothing, which it is not.
    hides = numbers["sampling_standard_error"] == 0 < numbers["noise_standard_error"]
    made_of = f"{noise} from noise, which hides that of sampling"
    return remark(
        PlanCode.interval,
        confidence=confidence_level(confidence),
        half_width=float(numbers["half_width"]),
        made_of=made_of if hides else f"{sampling} from sampling, {noise} from noise",
        treated=float(numbers["treated"]),
    )


def say_clusters(clusters: Clusters, units: int, stand_in: StandIn, numbers: dict[str, Any]) -> list[Remark]:
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
    assumed = "" if stand_in.icc is not None else f" Not told, so assumed: state it with `{option('icc')}`."
    return [
        remark(
            PlanCode.clusters,
            column=clusters.column,
            icc=float(icc),
            effect=float(effect),
            units=units,
            people=units / effect,
            others=others,
            half_width=float(numbers["half_width_one_by_one"]),
            assumed=assumed,
        )
    ]


def say_curves(draws: Sequence[Rehearsed], numbers: dict[str, Any]) -> list[Remark]:
    """Return by how much curves that noise hides could move the estimate.

    It is put beside the other numbers too.
    """
    stated = [getattr(draw.found, "confounding", None) for draw in draws]
    sizes = [statement.unseen for statement in stated if statement is not None and statement.unseen is not None]
    if not sizes:
        return []
    numbers["unseen_curves"] = median(sizes)
    return [remark(PlanCode.unseen_curves, unseen=numbers["unseen_curves"])]


def say_weights(weights: SurveyWeights) -> Remark:
    """Return what survey weights do to the expected interval."""
    assumed = "" if weights.mean is not None else " (the contract's 'mean' says it, where it is public)"
    return remark(
        PlanCode.weights, column=weights.column, share=weights.share, assumed=assumed, times=1 / weights.share
    )


def say_draws(
    found: Sequence[Rehearsed],
    numbers: Mapping[str, Any],
    stand_in: StandIn,
    own: bool,
    adjusts: bool,
    name: str = "",
) -> list[Remark]:
    """Return what the half-width is the median of, and its range.

    Args:
        found: by draw.
        numbers: what they say together.
        stand_in: the population that the reader assumes.
        own: whether covariates and treatments are those of the run's own people.
        adjusts: whether the width depends on what covariates explain.
        name: which of several answers the half-width is of, "systolic".
    """
    low, high = map(float, numbers["half_width_range"])
    of, ends = of_answer(name), {"low": low, "high": high}
    if own:
        return [
            remark(PlanCode.public_columns),
            remark(PlanCode.no_outcome_read),
            remark(PlanCode.public_width, of=of, **ends),
            remark(PlanCode.explained, explained=stand_in.explained),
        ]
    facts = {"correlation": stand_in.correlation, "explained": stand_in.explained}
    assumed = [remark(PlanCode.assumed, **facts)] if adjusts else []
    if len({draw.kind for draw in found}) > 1:
        return [remark(PlanCode.effect_width, **ends), *assumed]
    if len(found) == 1:
        return [remark(PlanCode.one_draw, of=of), *assumed]
    if 0 < (hidden := hidden_in(found)) < len(found):
        mean = remark(PlanCode.mean_of_draws, of=of, draws=len(found), **ends)
        return [mean, remark(PlanCode.hidden_draws, hidden=hidden), *assumed]
    return [remark(PlanCode.median_of_draws, of=of, draws=len(found), **ends), *assumed]


def of_answer(name: str) -> str:
    """Return which of several answers a half-width is of, in words.

    It is empty of a single one.
    """
    return f" of {name}" if name else ""


def say_imbalance(found: Sequence[Rehearsed]) -> list[Remark]:
    """Return what bias the interval allows for by imbalance, where it does."""
    bias = float(summary(found)["bias"])
    if bias == 0:
        return []
    # The run's own people are given several kinds of outcomes.
    if len({draw.kind for draw in found}) > 1:
        return [remark(PlanCode.bias, bias=bias)]
    return [remark(PlanCode.linear_bias, bias=bias), remark(PlanCode.more_imbalance)]


def say_effect(
    effect: float, numbers: dict[str, Any], sentences: list[Remark], warnings: list[Remark], words: Words = Words()
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
    wrong, needed = "", ""
    if "sign_wrong" in numbers:
        wrong = f" (wrong sign with probability {numbers['sign_wrong']:.2g})"
    facts: dict[str, Fact] = {
        "effect": effect,
        "on": f" on {words.name}" if words.name else "",
        "half_width": float(numbers["half_width"]),
        "wrong": wrong,
    }
    if not numbers["hidden_by_noise"]:
        sentences.append(remark(PlanCode.effect_seen, **facts))
        return
    if "units_needed" in numbers:
        enough = numbers["units_needed"]
        needed = f"; about {enough:,} units would be needed" if enough else "; no number of units would do"
    warnings.append(remark(PlanCode.effect_hidden, **facts, needed=needed))


def say_row(
    name: str,
    alone: float,
    together: float,
    group: tuple[float, float] | None,
    adjustment: str = "",
    others: str = "",
) -> Remark:
    """Return the half-widths of one question of a protocol, by itself and with all others.

    ``adjustment``: what is adjusted for, in words. ``others``: what asking for it costs the others.
    """
    inside = ""
    if group is not None:
        inside = f" In a subgroup of average size: ± {number(group[0], 3)}, together ± {number(group[1], 3)}."
    half_width = f"± {number(alone, 3)}"
    # One answer has no others to hold with.
    if together > alone:
        half_width += f" by itself, ± {number(together, 3)} to hold together with all other answers"
    done = f" {capital(adjustment)}." if adjustment else ""
    return remark(PlanCode.row, name=name, half_width=half_width, group=inside, adjustment=done, others=others)
