"""Register estimators, choose one for ``estimator: auto``, and rehearse their stages.

A new estimator is one entry here, one module in ``schemas/estimators/``, one in ``flows/estimators/`` and one module or
folder in ``tasks/estimate/papers/``.

Level and design leave one estimator or a few for ``auto``; of these the one of the least expected half-width is taken,
for a stand-in population at the study's own size and budget. No row is read.

A rehearsal is a study's own estimate on rows in memory, which coverage studies and replications run thousands of times,
without file, ledger or release: the stages and their order are those of a run of record.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.estimators.estimator import Estimator
from causalveil.flows.estimators.stage import Run
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import AutoEstimator, EffectStudyFile, StudyFile, options
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import CausalveilError, ContractError, StudyError
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.plan import Execution, Sizes, StandIn
from causalveil.schemas.privacy import Level, amount_text
from causalveil.schemas.questions import EffectMeasure
from causalveil.schemas.remarks import Remark
from causalveil.schemas.specification import ranges_of_parts, unrecorded
from causalveil.schemas.studies import STUDIES
from causalveil.schemas.study import NOTHING_TO_ADJUST_FOR, Study
from causalveil.schemas.table import EffectStudy, TableStudy
from causalveil.schemas.terms import TAKES_TERMS
from causalveil.tasks.data.enclave import MemoryEnclave, Rows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.people import assumed
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.report.numbers import number

S = TypeVar("S", bound=Study)


# By class of study: the module in ``flows/estimators/``, and the estimator's name there. It is imported when a study
# asks for it: all of them take .2 s of processor time, which every command would spend.
ESTIMATORS: dict[type[Study], tuple[str, str]] = {
    IpwStudy: ("ipw", "IPW"),
    MatchingStudy: ("matching", "MATCHING"),
    AipwStudy: ("aipw", "AIPW"),
    DifferenceStudy: ("difference", "DIFFERENCE_IN_MEANS"),
    RegressionStudy: ("regression", "REGRESSION"),
    BalancingStudy: ("balancing", "BALANCING"),
    DirectionStudy: ("direction", "DIRECTION"),
    SurvivalStudy: ("survival", "SURVIVAL"),
}


def pairs_near_units(study: Study) -> bool:
    """Return whether a study matches, or measures its variance by pairs of near units."""
    at_label = isinstance(study, IpwStudy) and study.privacy.level is Level.label
    return at_label or isinstance(study, MatchingStudy | BalancingStudy)


def estimator_of(study: S) -> Estimator[S]:
    """Return the estimator that a study asks for.

    Raises:
        StudyError: its library is not installed; no row was read and nothing is reserved.
    """
    if pairs_near_units(study) and find_spec("numba") is None:
        raise StudyError("this estimator needs numba, which is not installed; install causalveil[matching]")
    module, name = ESTIMATORS[type(study)]
    return cast(Estimator[S], getattr(import_module(f"causalveil.flows.estimators.{module}"), name))


def expected_of(study: Study, stated: StandIn = StandIn()) -> StandIn:
    """Return the population that a reader states, completed by what the study expects."""
    if not isinstance(study, TableStudy):
        return stated
    expected = study.expect.model_dump(include=set(StandIn.model_fields), exclude_none=True)
    if len(study.arm_names) > 2:
        expected.pop("treated", None)
    by_reader = {name: getattr(stated, name) for name in stated.model_fields_set}
    two_valued = not isinstance(study, SurvivalStudy) and any(outcome.two_valued for outcome in study.outcomes)
    if "mean" in by_reader and two_valued:
        expected.pop("deviation", None)
    return StandIn(**{**expected, **by_reader})


def warnings_of(study: Study, sizes: Sizes) -> tuple[Remark, ...]:
    """Return the warnings that `plan` gives and the release repeats.

    They rest on public facts alone, and on the planner's own stand-in population beside what the study expects.

    How units without a treatment or an outcome count comes first. The planner adds nothing where it has no numbers
    for such a study.
    """
    remarks = (*unrecorded(study.specification()), *ranges_of_parts(study.specification()))
    try:
        return (*remarks, *estimator_of(study).warnings(study, sizes, assumed(study, expected_of(study))))
    except CausalveilError:
        return remarks


WHY = {
    "ipw": "the only estimator of an effect at level training_units",
    "balancing": "covariates and treatments are public, so weights of them cost nothing",
    "regression": "covariates are private. It adjusts as far as size and budget allow, and reports how far",
    "trial": "treatment was randomised, and adjusting for covariates narrows the interval",
    "difference_in_means": "treatment was randomised, and adjusting would widen the interval at this size",
}


def candidates(
    asked: StudyFile, contract: Contract | None, where: str = "study", execution: Execution | None = None
) -> list[Study]:
    """Return the studies that a file may become: one, unless it leaves the estimator open.

    Raises:
        ContractError: the contract allows none of them, or not these columns in these roles.
        StudyError: the study contradicts the contract.
    """
    if not (isinstance(asked, EffectStudyFile) and isinstance(asked.estimator, AutoEstimator)):
        return [resolve(asked, contract, where, execution)]
    files = [
        asked.model_copy(update={"estimator": settings, "privacy": privacy})
        for settings, privacy in options(asked.estimator, asked.privacy)
    ]
    answering = [file for file in files if _answers(file)]
    if not answering:
        if not asked.covariates:
            raise StudyError(f"{where}: {NOTHING_TO_ADJUST_FOR}")
        if asked.terms:
            raise StudyError(f"{where}: 'terms': 'auto' takes no estimator with terms here; {TAKES_TERMS}")
        raise StudyError(
            f"{where}: 'auto' has no estimator for this; several questions and 'where' need level 'sample' "
            "or 'label', a 'measure' beside the difference {name: auto, trial: true} at level 'sample'"
        )
    allowed = [file for file in answering if contract is None or file.estimator.name in contract.estimators]
    if not allowed:
        names = ", ".join(f"'{file.estimator.name}'" for file in answering)
        raise ContractError(f"{where}: 'auto' would take {names} here, and the contract allows none of them")
    return [resolve(file, contract, where, execution) for file in allowed]


def _answers(asked: EffectStudyFile) -> bool:
    """Return whether a file's estimator answers what it asks.

    It must have covariates if it adjusts, take terms if there are any, and release arm means for ratios.
    """
    study = STUDIES[asked.kind][asked.estimator.name]
    if not issubclass(study, EffectStudy) or (study.ADJUSTS and not asked.covariates):
        return False
    if asked.of_many and asked.privacy.level not in study.TABLES:
        return False
    if asked.terms and "terms" not in study.model_fields:
        return False
    if asked.clusters is not None and not getattr(getattr(study, "SINGLE", study), "TAKES_CLUSTERS", False):
        return False
    if asked.weights is not None and not study.TAKES_WEIGHTS:
        return False
    return asked.measures == (EffectMeasure.difference,) or study.ARM_MEANS


def chosen(studies: list[Study], asked: StudyFile, units: int | None) -> Study:
    """Return the study of the least expected half-width.

    It says why it was chosen, where there was a choice to be made.

    Args:
        studies: as of :func:`candidates`.
        asked: the study file.
        units: n; None where it is unknown.

    Raises:
        StudyError: n is unknown, or too small for every candidate.
    """
    if not isinstance(asked.estimator, AutoEstimator):
        return studies[0]
    if units is None and len(studies) > 1:
        raise StudyError(
            f"'auto' chooses by the number of units: give {option(units=Blank('N'))}, put the partitions in place, or "
            "admit them (causalveil admit)"
        )
    widths = [expected_width(study, units, likely(study)) if len(studies) > 1 else None for study in studies]
    known = ((width, place) for place, width in enumerate(widths) if width is not None)
    study = studies[min(known, default=(0.0, 0))[1]]
    # A study without a number of units has formulas, and this reason.
    return study.model_copy(update={"choice": reason(study, studies, widths, units)})


def reason(study: Study, studies: list[Study], widths: list[float | None], units: int | None) -> str:
    """Return a sentence on why ``auto`` chose this estimator."""
    name, privacy = study.estimator.name, study.privacy
    facts = f"level {privacy.level}, epsilon {amount_text(privacy.epsilon)}"
    facts += f", delta {amount_text(privacy.delta)}" if privacy.level is not Level.label else ""
    facts += f", {units:,} units" if units is not None else ""
    rivals = [
        f"{spaced(rival.estimator.name)} {number(width, 3)}"
        for rival, width in zip(studies, widths, strict=True)
        if rival is not study and width is not None
    ]
    own = widths[studies.index(study)]
    comparison = ""
    if own is not None and rivals:
        varies = "" if likely(study) == expected_of(study) else " of an outcome that varies by an eighth of its range"
        comparison = f". Expected half-widths{varies}: {spaced(name)} {number(own, 3)}, {', '.join(rivals)}"
    why = WHY["trial" if name == "regression" and getattr(study.estimator, "trial", False) else name]
    return f"auto chose {spaced(name)} ({facts}): {why}{comparison}"


def spaced(name: str) -> str:
    """Return the name of an estimator as sentences write it."""
    return name.replace("_", " ")


def likely(study: Study) -> StandIn:
    """Return the population by which ``auto`` chooses.

    A plan assumes that outcomes vary by a quarter of their range, so as not to promise too much. Most vary less, and
    the less they vary the more adjustment narrows: clipped scores have less noise than outcomes. Over 40 made trials
    of 445 to 15,000 people (``tests/statistical/test_random_tables.py``) the choice by an eighth costs 6% of width on
    average and 52% at most, by a quarter 42% and a factor of 4.7.
    """
    expected = expected_of(study)
    if not isinstance(study, EffectStudy) or study.outcome.two_valued or expected.deviation is not None:
        return expected
    return expected.model_copy(update={"deviation": study.outcome.width / 8})


def expected_width(study: Study, units: int | None, stand_in: StandIn = StandIn()) -> float | None:
    """Return the expected half-width for a stand-in population.

    Few draws with fixed seeds give it, so that the choice is reproducible. None where the estimator cannot run at this
    size.
    """
    if units is None or not isinstance(study, EffectStudy):
        return None
    try:
        width = estimator_of(study).point(study, sizes_of(study, units), stand_in)
    except CausalveilError:
        return None
    return None if width is None else float(width)


def rehearse(study: Study, enclave: MemoryEnclave, budget: Budget, seed: int = 0) -> Any:
    """Run the study's estimator on rows in memory and return its findings.

    Args:
        study: the study.
        enclave: its rows. The same enclave may serve again: exact fits are made once.
        budget: where noise is drawn; ``RehearsalBudget`` for all but tests of budgets.
        seed: of learners that are stochastic.
    """
    run = Run(study, sizes_of(study, enclave.units), enclave, budget, source=None, rehearsal_seed=seed)
    return estimator_of(study).estimate(run, DirectEngine())


def rehearse_effect(study: EffectStudy, rows: Rows | MemoryEnclave, budget: Budget, seed: int = 0) -> Findings:
    """Run the estimator of an effect on rows in memory and return its findings.

    Rows stand in the order of their hashes, from which halves and folds are cut.
    """
    enclave = MemoryEnclave.of(rows) if isinstance(rows, Rows) else rows
    findings: Findings = rehearse(study, enclave, budget, seed)
    return findings
