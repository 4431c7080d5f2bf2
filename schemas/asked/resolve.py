"""A study file and the owner's contract -> one study in full, which is all that stages see.

Kinds, codes, levels, nulls, the unit and the blocks come from the contract. From the study come names, narrower
ranges and fewer levels, which are public and apply to every row; so no row can make a study fail.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from causalveil.schemas.asked.auto import AutoEstimator
from causalveil.schemas.asked.columns import AskedCovariate, AskedTimes
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
from causalveil.schemas.asked.formula import terms_of
from causalveil.schemas.asked.study_file import DirectionStudyFile, EffectStudyFile, StudyFile
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import CodesColumn
from causalveil.schemas.documents import Breach
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.estimators.survival import equal_classes
from causalveil.schemas.execution import Execution
from causalveil.schemas.mistakes import nearest, validate
from causalveil.schemas.privacy import Level
from causalveil.schemas.protocols.study import EffectStudy
from causalveil.schemas.studies import STUDIES
from causalveil.schemas.study import Codes, Covariate, Missing, Study
from causalveil.schemas.terms import TAKES_TERMS, DeclaredTerm, wrong_term

# Stands for the unit where no contract is at hand, as when a study is planned or pooled.
UNKNOWN_UNIT = "(the contract's unit)"
_COVARIATE: TypeAdapter[Covariate] = TypeAdapter(Covariate)


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
    model = answering(asked, where)
    document, problems = completed(asked, contract, execution)
    if problems:
        raise StudyError(f"{where}: " + "; ".join(map(str, problems)))
    if private := not_public_enough(asked, contract):
        raise ContractError(f"{where}: {private[0]}")
    return validate(model, document, where)


def answering(asked: StudyFile, where: str = "study") -> type[Study]:
    """Return the study by which a file's estimator answers what it asks.

    Raises:
        StudyError: the estimator answers one question of all units alone; says which answer several.
    """
    many, name = asked.of_many, asked.estimator.name
    found = STUDIES[asked.kind][name]
    if many and issubclass(found, EffectStudy) and not found.TABLES:
        raise StudyError(f"{where}: '{many[0]}': {_instead(many[0], name)}")
    return found


def _instead(key: str, name: str) -> str:
    """Say which estimators answer what another does not."""
    if key == "measure":
        return (
            f"estimator '{name}' does not release arm means with their errors; in a randomised trial use "
            "{name: difference_in_means, trial: true} at level 'sample', else leave 'measure' out"
        )
    said = (
        f"estimator '{name}' answers one question of all units; use 'regression' or 'difference_in_means' at level "
        "'sample', 'balancing' or 'matching' at level 'label'"
    )
    owner = "a table of the eligible alone: a 'query' with WHERE in source.yaml"
    return f"{said}. Or let the data's owner extract {owner}" if key == "where" else said


def completed(
    asked: StudyFile, contract: Contract | None, execution: Execution | None = None
) -> tuple[dict[str, Any], Problems]:
    """Return the document of a study in full, and all contradictions of study and contract.

    Each contradiction has its place in the study file.
    """
    problems = Problems()
    document: dict[str, Any] = {
        "kind": asked.kind,
        "name": asked.name,
        "data": {
            "path": asked.data.path,
            "unit": UNKNOWN_UNIT if contract is None else contract.unit,
            "blocks": None if contract is None or contract.blocks is None else contract.blocks.key,
            "select": asked.data.select,
        },
        "estimator": asked.settings if isinstance(asked, EffectStudyFile) else asked.estimator,
        "privacy": asked.privacy,
        "purpose": asked.purpose,
        "execution": execution or Execution(),
    }
    if contract is not None and asked.data.select is not None and contract.blocks is None:
        problems.add("data.select", "the contract declares no blocks; remove it")
    if contract is None and asked.data.select is not None:
        # Which blocks there are is the contract's to say; without one nothing is read.
        document["data"]["select"] = None
    if isinstance(asked, EffectStudyFile):
        document |= _effect(asked, contract, problems)
    elif isinstance(asked, DirectionStudyFile):
        pair = {"x": asked.pair.x, "y": asked.pair.y}
        document["pair"] = {
            axis: {"name": one.name, **number_in_full(one.name, f"pair.{axis}", one, contract, problems, keep=())}
            for axis, one in pair.items()
        }
    return document, problems


def _effect(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Treatment, arms, outcomes, subgroups, who is eligible and covariates in full, as the answering study has them."""
    document: dict[str, Any] = {
        key: getattr(asked, key) for key in ("treatment", "estimand", "confidence", "gates", "intervals", "expect")
    }
    document |= {"measure": asked.measures, "missing": asked.missing or Missing.refuse, **unrecorded(asked)}
    document |= _groups_and_arms(asked, contract, problems)
    document["outcomes"] = _outcomes(asked, contract, problems)
    document["covariates"] = {
        name: covariate_in_full(name, one, contract, problems) for name, one in asked.covariates.items()
    }
    _nulls_refused(asked, contract, problems)
    document["terms"] = _terms(asked, document["covariates"], problems)
    document["censoring"] = _censoring(asked, contract, problems)
    document["clusters"] = _clusters(asked, contract, problems)
    if isinstance(asked.estimator, AutoEstimator) or problems:
        return document
    fields = answering(asked).model_fields
    if asked.terms and "terms" not in fields:
        problems.add("terms", f"estimator '{asked.estimator.name}' takes no terms; {TAKES_TERMS}")
    if asked.clusters is not None and "clusters" not in fields:
        problems.add("clusters", f"estimator '{asked.estimator.name}' counts people one by one; leave 'clusters' out")
    return {key: value for key, value in document.items() if key in fields}


def _clusters(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any] | None:
    """Return the clusters in full: the study's column, and what the contract says of it."""
    if asked.clusters is None:
        return None
    declared = None if contract is None else contract.clusters.get(asked.clusters.column)
    if declared is None:
        named = f"the contract declares no clusters by column '{asked.clusters.column}'"
        known = f"; it declares {', '.join(map(repr, contract.clusters))}" if contract and contract.clusters else ""
        way = f"; its owner may write 'clusters: {{{asked.clusters.column}: {{number: N}}}}'"
        problems.add("clusters", f"{named}{known or way}")
        return None
    return {**declared.model_dump(), **asked.clusters.model_dump()}


def _outcomes(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> list[dict[str, Any]]:
    """Return the outcomes in full, with their roles; without those of which a problem was found."""
    found = []
    for number, one in enumerate(asked.questions, 1):
        place = "outcome" if asked.outcomes is None else f"outcomes.{number}"
        if isinstance(one, AskedTimes):
            times = times_in_full(one, place, contract, problems)
            found += [] if times is None else [{**times, "role": one.role}]
        else:
            own = {"role": one.role, "importance": one.importance}
            found.append({**own, **outcome_in_full(one, place, asked, contract, problems)})
    return found


def _terms(asked: EffectStudyFile, covariates: dict[str, Any], problems: Problems) -> tuple[DeclaredTerm, ...]:
    """Return the terms of a formula as facts; each problem says at which character it is."""
    if not asked.terms:
        return ()
    placed, wrong = terms_of(asked.terms)
    problems += [Breach("terms", text) for text in wrong]
    known = {name: _COVARIATE.validate_python(one) for name, one in covariates.items() if not problems}
    others = {asked.treatment: "the treatment"}
    for question in asked.questions:
        if isinstance(question, AskedTimes):
            others |= {question.time: "the time", question.event: "the event"}
        else:
            others[question.name] = "the outcome"
    for one in placed:
        for place, factor in enumerate(one.term.factors):
            if factor.column in others:
                role = others[factor.column]
                text = f"{one.at(place)}: '{factor.column}' is {role}; a term is of covariates: remove it"
                problems.append(Breach("terms", text))
            elif factor.column not in asked.covariates:
                near = nearest(factor.column, asked.covariates)
                text = f"{one.at(place)}: '{factor.column}' is no covariate; add it to 'covariates', or remove the "
                problems.append(Breach("terms", f"{text}term{near}", (factor.column,)))
        found = wrong_term(one.term, known) if known and not problems else None
        if found is not None:
            problems.append(Breach("terms", f"{one.at(found[0])}: {found[1]}"))
    return tuple(one.term for one in placed)


def _nulls_refused(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> None:
    """Refuse a study that refuses nulls where the contract says that a covariate may hold some."""
    if asked.missing is not Missing.refuse or contract is None:
        return
    for name in asked.covariates:
        declared = contract.offered.get(name)
        if declared is not None and declared.nulls is Missing.indicator:
            problems.add(
                "missing", f"the contract says that '{name}' may hold nulls; remove 'missing' or write 'indicator'"
            )


def _censoring(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Return the columns on which losses may depend beside the arm, as covariates have them, and classes of numbers."""
    by: dict[str, Any] = {}
    classes: dict[str, tuple[float, ...]] = {}
    declared = asked.covariates if contract is None else contract.offered
    for name, divided in asked.censoring.columns({*declared, asked.treatment}).items():
        if name == asked.treatment:
            continue
        before = len(problems)
        by[name] = covariate_in_full(
            name, asked.covariates.get(name, AskedCovariate()), contract, problems, "censoring.by"
        )
        if isinstance(divided, int) and len(problems) == before and {"lower", "upper"} <= by[name].keys():
            classes[name] = equal_classes(by[name]["lower"], by[name]["upper"], divided)
        elif divided is not None:
            classes[name] = divided if isinstance(divided, tuple) else (0.0,)
    return {"by": by, "classes": classes, "floor": asked.censoring.floor, "beyond": asked.censoring.beyond}


def _groups_and_arms(asked: EffectStudyFile, contract: Contract | None, problems: Problems) -> dict[str, Any]:
    """Return two codes or arms, subgroups, and who is eligible, in full."""
    document: dict[str, Any] = {}
    column = declared_column(asked.treatment, "treatment", contract, problems)
    ask_what_nulls_count_as(column, "treatment", asked.treatment, asked, problems)
    if asked.arms is not None:
        document["arms"] = arms_in_full(asked.arms, asked.treatment, column, problems)
    elif isinstance(column, CodesColumn):
        document["treatment_codes"] = dict(zip(Codes.model_fields, column.codes.written, strict=True))
    elif column is not None:
        problems.add(
            "treatment",
            f"column '{asked.treatment}' is no pair of codes in the contract; a treatment is declared as "
            "{codes: {control: 0, treated: 1}}. With several levels say which one the others are compared with: "
            "'arms: {reference: LEVEL}'",
        )
    if asked.subgroups is not None:
        levels = AskedCovariate(levels=asked.subgroups.levels)
        group = covariate_in_full(asked.subgroups.name, levels, contract, problems, "subgroups")
        document["subgroups"] = {"name": asked.subgroups.name, "column": group}
        if asked.subgroups.name in asked.covariates:
            problems.add(
                "subgroups",
                f"'{asked.subgroups.name}' is a covariate too; take it out there: each answer is within "
                "one of its levels",
            )
    document["where"] = conditions_in_full(asked.where, contract, problems, asked.covariates)
    return document


def not_public_enough(asked: StudyFile, contract: Contract | None) -> Problems:
    """Return the columns that label level needs public and the owner did not declare public.

    At label level everything but outcomes is printed as it is.
    """
    if contract is None or asked.privacy.level is not Level.label:
        return Problems()
    if not isinstance(asked, EffectStudyFile):
        return Problems()
    groups = [] if asked.subgroups is None else [asked.subgroups.name]
    columns = (asked.treatment, *groups, *asked.covariates, *dict.fromkeys(one.column for one in asked.where))
    return Problems(
        Breach(
            "",
            f"level 'label' protects the outcome alone, and column '{name}' is not among the contract's 'public' "
            "columns; its owner may list it there, or the study use level 'sample'",
            (name,),
        )
        for name in columns
        if name not in contract.public
    )
