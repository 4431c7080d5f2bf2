"""Covariate adjustment from noisy moments.

Five releases on all units, read by one posterior that knows their noise.

    1  arms' sums, histograms of covariates and outcome                                   scales
    2  cross moments of lines with outcome and treatment, and their Gram matrices by arm        lines
       slopes, balancing weights, candidates of curves                                     learn, public
    3  cross moments of candidates with what lines leave of outcome and treatment             screen
       which are kept                                                                  choose, public
    4  as 2, of lines and kept curves                                                    refit
       slopes, weights, and where scores are cut                                         learn again, public
    5  sums of scores and of their squares                                               scores
       estimate and interval                                                           interval, public

Where public facts say that no curve could be seen there are no releases 3 and 4. Proofs: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from causalveil.flows.estimators.estimator import ENTRY, EVERYBODY, Estimator
from causalveil.flows.estimators.five_releases import FiveStages, Steps
from causalveil.flows.estimators.rehearsal import Rehearsal, Rehearsed, summed
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.adjustment import five_releases
from causalveil.tasks.adjustment.five_releases import Drawn, FiveReleases
from causalveil.tasks.adjustment.recipe import candidates_of
from causalveil.tasks.adjustment.released import ReleasedScales
from causalveil.tasks.enclave.split import Folds
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import PEOPLE
from causalveil.tasks.regression import stages

NO_CURVES = (
    "at this size and budget non-linear terms cannot be detected. The estimate is adjusted for linear terms alone, and "
    "its interval allows for little non-linear confounding."
)

NOT_LOOKED_FOR = (
    "no non-linear terms are looked for, as `curves: none` asks. The estimate is adjusted for linear terms alone, and "
    "its interval allows for little non-linear confounding."
)

plan = recalled(stages.recipe)
Step = StageRun[RegressionStudy]


def _drawn(step: Step) -> Drawn:
    pieces = Folds.open(step.enclave).fold(0)
    return Drawn(plan(step.study, step.sizes), pieces, step.budget, step.study.execution.workers, step.times)


FIVE = FiveStages[RegressionStudy, ReleasedScales, FiveReleases].of(
    Steps(
        plan,
        _drawn,
        lambda step: _drawn(step).scales(),
        lambda step, scales: five_releases.begun(plan(step.study, step.sizes), scales),
        lambda _, asked, lines: five_releases.with_lines(asked, lines),
        five_releases.with_screen,
        five_releases.with_refit,
    ),
    rows=(EVERYBODY,),
)
SCALES, LINES, AGAIN, SCORES = FIVE.scales, FIVE.lines, FIVE.again, FIVE.scores
INTERVAL = Stage[RegressionStudy, EffectFindings](
    "interval", lambda step: stages.findings(step.study, step[AGAIN], step[SCORES]), reads=(AGAIN, SCORES)
)


def warned(
    study: RegressionStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[str]:
    """Return the warnings of a plan: they need no rehearsal."""
    del stand_in, few
    recipe = plan(study, sizes)
    # Where no covariate has a non-linear term nothing is lost.
    if "screen" in recipe.costs or study.estimator.trial or not candidates_of(recipe.public):
        return []
    return [NOT_LOOKED_FOR if study.estimator.curves == "none" else NO_CURVES]


REGRESSION = Estimator(
    RegressionStudy,
    (*ENTRY, EVERYBODY, *FIVE.all, INTERVAL),
    rehearsal=lambda study: Rehearsal(PEOPLE, summed, study.estimator.trial),
    warned=warned,
)
