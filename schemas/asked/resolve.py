"""A study file and the owner's contract -> one study in full, which is all that stages see.

Kinds, codes, levels, nulls, the unit and the blocks come from the contract. From the study come names, narrower
ranges and fewer levels, which are public and apply to every row; so no row can make a study fail.
"""

from __future__ import annotations

from typing import Any

from causalveil.schemas.asked.columns import AskedCovariate
from causalveil.schemas.asked.columns_in_full import (
    Problems,
    arms_in_full,
    ask_what_nulls_count_as,
    conditions_in_full,
    covariate_in_full,
    declared_column,
    number_in_full,
    outcome_in_full,
    times_in_full,
    unrecorded,
)
from causalveil.schemas.asked.shorthands import AutoEstimator
from causalveil.schemas.asked.study_file import (
    DirectionStudyFile,
    EffectStudyFile,
    ProtocolStudyFile,
    StudyFile,
    SurvivalProtocolFile,
    SurvivalStudyFile,
)
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import CodesColumn
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.estimators.survival import equal_classes
from causalveil.schemas.execution import Execution
from causalveil.schemas.mistakes import validate
from causalveil.schemas.privacy import Level
from causalveil.schemas.studies import STUDIES
from causalveil.schemas.study import (
    Missing,
    Study,
)

# Stands for the unit where no contract is at hand, as when a study is planned or pooled.
UNKNOWN_UNIT = "(the contract's unit)"


def resolve(
    asked: StudyFile, contract: Contract | None, where: str = "study", execution: Execution | None = None
) -> Study:
    """Complete a study by the contract of its data.

    Args:
        asked: the study file.
        contract: of the data; None where it is not at hand, and the study must then declare every column itself.
        where: the study's path, for messages.
        execution: how stages run here, the operator's word.

    Raises:
        ContractError: the contract does not let these columns play these roles.
        StudyError: the study contradicts the contract, leaves out what no contract says, or cannot be proved.
    """
    if isinstance(asked.estimator, AutoEstimator):
        raise StudyError(f"{where}: 'auto' chooses by the number of units of one site; name an estimator")
    document, problems = completed(asked, contract, execution)
    if problems:
        raise StudyError(f"{where}: " + "; ".join(problems))
    if private := not_public_enough(asked, contract):
        raise ContractError(f"{where}: {private[0]}")
    return validate(STUDIES[asked.kind][asked.estimator.name], document, where)


def completed(
    asked: StudyFile, contract: Contract | None, execution: Execution | None = None
) -> tuple[dict[str, Any], Problems]:
    """Return the document of a study in full, and all contradictions of study and contract.

    Each contradiction begins with the place in the study file, in quotes.
    """
    problems: Problems = []
    document: dict[str, Any] = {
        "kind": asked.kind,
        "name": asked.name,
        "data": {
            "path": asked.data.path,
            "unit": UNKNOWN_UNIT if contract is None else contract.unit,
            "blocks": None if contract is None or contract.blocks is None else contract.blocks.key,
            "select": asked.data.select,
        },
        "estimator": asked.estimator,
        "privacy": asked.privacy,
        "purpose": asked.purpose,
        "execution": execution or Execution(),
    }
    if contract is not None and asked.data.select is not None and contract.blocks is None:
        problems.append("'data.select': the contract declares no blocks; remove it")
    if contract is None and asked.data.select is not None:
        # Which blocks there are is the contract's to say; without one nothing is read.
        document["data"]["select"] = None
    if isinstance(asked, EffectStudyFile):
        document |= _effect(asked, contract, problems)
    elif isinstance(asked, SurvivalStudyFile):
        document |= _survival(asked, contract, problems)
    elif isinstance(asked, SurvivalProtocolFile):
        document |= _survival_protocol(asked, contract, problems)
    elif isinstance(asked, ProtocolStudyFile):
        document |= _protocol(asked, contract, problems)
    elif isinstance(asked, DirectionStudyFile):
        pair = {"x": asked.pair.x, "y": asked.pair.y}
        document["pair"] = {
            axis: {"name": one.name, **number_in_full(one.name, f"pair.{axis}", one, contract, problems, keep=())}
            for axis, one in pair.items()
        }
    return document, problems


def _effect(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Treatment, outcome and covariates in full."""
    document: dict[str, Any] = {
        "missing": asked.missing or Missing.refuse,
        **unrecorded(asked),
        **_two_arms(asked, contract, problems),
    }
    document["outcome"] = outcome_in_full(asked.outcome, "outcome", asked, contract, problems)
    document["covariates"] = {
        name: covariate_in_full(name, one, contract, problems) for name, one in asked.covariates.items()
    }
    _nulls_refused(asked, contract, problems)
    return document


def _nulls_refused(asked: EffectStudyFile | SurvivalStudyFile, contract: Contract | None, problems: Problems) -> None:
    """Refuse a study that refuses nulls where the contract says that a covariate may hold some."""
    if asked.missing is not Missing.refuse or contract is None:
        return
    for name in asked.covariates:
        declared = contract.offered.get(name)
        if declared is not None and declared.nulls is Missing.indicator:
            problems.append(
                f"'missing': the contract says that '{name}' may hold nulls; remove 'missing' or write 'indicator'"
            )


def _two_arms(
    asked: EffectStudyFile | SurvivalStudyFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Treatment in full, and what is asked of it."""
    document: dict[str, Any] = {key: getattr(asked, key) for key in ("treatment", "estimand", "confidence")}
    column = declared_column(asked.treatment, "treatment", contract, problems)
    if isinstance(column, CodesColumn):
        document["treatment_codes"] = column.codes
    elif column is not None:
        problems.append(
            f"'treatment': column '{asked.treatment}' is no pair of codes in the contract; a treatment is declared as "
            "{codes: {control: 0, treated: 1}}"
        )
    ask_what_nulls_count_as(column, "treatment", asked.treatment, asked, problems)
    return document


def _survival(asked: SurvivalStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Treatment, times and events in full."""
    document = {key: getattr(asked, key) for key in ("measure", "intervals", "expect")}
    document["missing"] = asked.missing or Missing.refuse
    document["covariates"] = {
        name: covariate_in_full(name, one, contract, problems) for name, one in asked.covariates.items()
    }
    _nulls_refused(asked, contract, problems)
    document["censoring"] = _censoring(asked, contract, problems)
    document["where"] = conditions_in_full(asked.where, contract, problems, asked.covariates)
    document |= {"missing_treatment": unrecorded(asked)["missing_treatment"], **_two_arms(asked, contract, problems)}
    if found := times_in_full(asked.outcome, "outcome", contract, problems):
        document["outcome"] = found
    return document


def _survival_protocol(asked: SurvivalProtocolFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Arms, subgroups, who is eligible, times and events in full."""
    document: dict[str, Any] = {
        key: getattr(asked, key) for key in ("treatment", "estimand", "confidence", "measure", "intervals", "expect")
    }
    document["missing_treatment"] = unrecorded(asked)["missing_treatment"]
    document |= _groups_and_arms(asked, contract, problems) | _adjusts_for(asked, contract, problems)
    document["censoring"] = _censoring(asked, contract, problems)
    found = [times_in_full(one, f"outcomes.{place}", contract, problems) for place, one in enumerate(asked.outcomes, 1)]
    document["outcomes"] = [
        {**one, "role": asked_one.role} for one, asked_one in zip(found, asked.outcomes, strict=True) if one is not None
    ]
    return document


def _censoring(
    asked: SurvivalStudyFile | SurvivalProtocolFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Return the columns on which losses may depend beside the arm, as covariates have them, and classes of numbers."""
    by: dict[str, Any] = {}
    classes: dict[str, tuple[float, ...]] = {}
    for name, divided in _losses_by(asked, contract).items():
        before = len(problems)
        by[name] = covariate_in_full(
            name, asked.covariates.get(name, AskedCovariate()), contract, problems, "censoring.by"
        )
        if isinstance(divided, int) and len(problems) == before and {"lower", "upper"} <= by[name].keys():
            classes[name] = equal_classes(by[name]["lower"], by[name]["upper"], divided)
        elif divided is not None:
            classes[name] = divided if isinstance(divided, tuple) else (0.0,)
    return {"by": by, "classes": classes, "floor": asked.censoring.floor, "beyond": asked.censoring.beyond}


def _losses_by(
    asked: SurvivalStudyFile | SurvivalProtocolFile, contract: Contract | None
) -> dict[str, int | tuple[float, ...] | None]:
    """Return the columns of ``censoring.by`` beside the treatment, with their classes."""
    declared = asked.covariates if contract is None else contract.offered
    found = asked.censoring.columns({*declared, asked.treatment})
    return {name: divided for name, divided in found.items() if name != asked.treatment}


def _groups_and_arms(
    asked: ProtocolStudyFile | SurvivalProtocolFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Return two codes or arms, subgroups, and who is eligible, in full."""
    document: dict[str, Any] = {}
    column = declared_column(asked.treatment, "treatment", contract, problems)
    ask_what_nulls_count_as(column, "treatment", asked.treatment, asked, problems)
    if asked.arms is not None:
        document["arms"] = arms_in_full(asked.arms, asked.treatment, column, problems)
    elif isinstance(column, CodesColumn):
        document["treatment_codes"] = column.codes
    elif column is not None:
        problems.append(
            f"'treatment': column '{asked.treatment}' is no pair of codes in the contract; with several levels say "
            "which one the others are compared with: 'arms: {reference: LEVEL}'"
        )
    if asked.subgroups is not None:
        levels = AskedCovariate(levels=asked.subgroups.levels)
        group = covariate_in_full(asked.subgroups.name, levels, contract, problems, "subgroups")
        document["subgroups"] = {"name": asked.subgroups.name, "column": group}
    covariates = asked.covariates if isinstance(asked, ProtocolStudyFile) or asked.covariates else None
    document["where"] = conditions_in_full(asked.where, contract, problems, covariates)
    return document


def _protocol(asked: ProtocolStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Treatment, arms, outcomes, subgroups and covariates in full."""
    document: dict[str, Any] = {
        key: getattr(asked, key) for key in ("treatment", "estimand", "confidence", "gates", "measure")
    } | unrecorded(asked)
    document |= _groups_and_arms(asked, contract, problems)
    document["outcomes"] = [
        {
            "role": one.role,
            "importance": one.importance,
            **outcome_in_full(one, f"outcomes.{place}", asked, contract, problems),
        }
        for place, one in enumerate(asked.outcomes, 1)
    ]
    return document | _adjusts_for(asked, contract, problems)


def _adjusts_for(
    asked: ProtocolStudyFile | SurvivalProtocolFile, contract: Contract | None, problems: Problems
) -> dict[str, Any]:
    """Return the covariates of a protocol in full, and whether all of them have indicators."""
    if asked.subgroups is not None and asked.subgroups.name in asked.covariates:
        problems.append(
            f"'subgroups': '{asked.subgroups.name}' is a covariate too; take it out there: each answer is within "
            "one of its levels"
        )
    covariates = {name: covariate_in_full(name, one, contract, problems) for name, one in asked.covariates.items()}
    return {"missing": asked.missing or Missing.refuse, "covariates": covariates}


def not_public_enough(asked: StudyFile, contract: Contract | None) -> Problems:
    """Return the columns that label level needs public and the owner did not declare public.

    At label level everything but outcomes is printed as it is.
    """
    if contract is None or asked.privacy.level is not Level.label:
        return []
    if isinstance(asked, ProtocolStudyFile):
        groups = [] if asked.subgroups is None else [asked.subgroups.name]
        columns = (asked.treatment, *groups, *asked.covariates, *dict.fromkeys(one.column for one in asked.where))
    elif isinstance(asked, EffectStudyFile):
        columns = (asked.treatment, *asked.covariates)
    else:
        return []
    return [
        f"level 'label' protects the outcome alone, and column '{name}' is not among the contract's "
        "'public' columns; its owner may list it there, or the study use level 'sample'"
        for name in columns
        if name not in contract.public
    ]
