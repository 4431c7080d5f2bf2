"""What `plan` says of an adjustment before a row is read: its own releases and steps on people who nobody is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from causalveil.flows.planning.sentences import say_effect, say_interval
from causalveil.schemas.estimators.adjustment import AdjustmentStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.adjustment.releases import stages
from causalveil.tasks.adjustment.releases.recipe import recipe
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import enough, people
from causalveil.tasks.privacy.rehearsal import RehearsalBudget

# People who stand for all units, and draws of noise.
PEOPLE, DRAWS = 4_096, 3
NO_CURVES = (
    "at this size and budget no curve of a covariate could be seen: the estimate is adjusted for lines alone, and its "
    "interval allows for few curves."
)


def rehearsed(study: AdjustmentStudy, sizes: Sizes, stand_in: StandIn, seed: int) -> EffectFindings:
    """Return what the study would say of the stand-in population with one draw of noise."""
    rows = people(study, stand_in, min(enough(stand_in, PEOPLE), sizes.units), study.estimator.trial)
    plan, pieces = recipe(study, sizes), Pieces(lambda _: rows, 1, len(rows))
    drawn = stages.Drawn(plan, pieces, RehearsalBudget(seed), times=sizes.units / len(rows))
    scales = drawn.scales()
    asked = stages.with_lines(plan, scales, drawn.lines(stages.begun(plan, scales)))
    asked = stages.with_screen(asked, drawn.screen(asked))
    asked = stages.with_refit(asked, drawn.refit(asked))
    return stages.findings(study, asked, drawn.scores(asked))


def expected(study: AdjustmentStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Expected half-width and its parts; sentences for people, numbers for scripts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    found = [rehearsed(study, sizes, stand_in, seed) for seed in range(DRAWS)]
    widths = [(one.interval.upper - one.interval.lower) / 2 for one in found]
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": float(np.median(widths)),
        "noise_standard_error": math.sqrt(float(np.median([one.variance.noise for one in found]))),
        "sampling_standard_error": math.sqrt(float(np.median([one.variance.sampling for one in found]))),
        "whole_range": sum(one.interval.whole_range for one in found) * 2 > DRAWS,
    }
    sentences = [
        say_interval(study, numbers),
        f"Median of {DRAWS} draws of noise, from ± {min(widths):.3g} to ± {max(widths):.3g}. Assumed is a correlation "
        f"of {stand_in.correlation:g}, and that covariates explain {stand_in.explained:.0%} of the outcome.",
    ]
    screened = "screen" in recipe(study, sizes).costs
    warnings = [] if screened or study.estimator.trial else [NO_CURVES]
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}
