"""Sentences by name that answer a guideline's items, from study, contract and release.

Each sentence holds for the release at hand or is empty. Nothing is read but the three documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from causalveil.schemas.columns import labels_of, levels_text
from causalveil.schemas.contract import Contract
from causalveil.schemas.limits import capital
from causalveil.schemas.specification import outcomes_of, unrecorded
from causalveil.schemas.where import where_words
from causalveil.tasks.report.flow import UnitFlow
from causalveil.tasks.report.guidelines.settings import settings_words
from causalveil.tasks.report.numbers import amount, arm_means, beside, counted, figure, percent, span

WHOM = {"ATE": "every unit", "ATT": "every treated unit", "ATC": "every untreated unit"}
LEVELS = {
    "sample": "a unit's whole row is protected",
    "label": "a unit's outcome is protected; covariates and treatment count as public",
    "training_units": "a unit's row is protected in the training half alone",
}
# Estimators as sentences name them.
METHODS = {
    "aipw": "augmented inverse probability weighting",
    "balancing": "balancing weights",
    "difference_in_means": "difference of means",
    "ipw": "inverse probability weighting",
    "matching": "matching on the propensity score",
    "regression": "regression adjustment",
    "survival": "Kaplan-Meier and Aalen-Johansen curves of noisy counts",
}
OVERLAP = "overlap (every kind of unit in {})"
INDEPENDENCE = "no interference between units, one version of each treatment, independent units"


def facts_of(
    release: Mapping[str, Any], arms: Mapping[str, Any], flow: UnitFlow, contract: Contract | None
) -> dict[str, str]:
    """Return every sentence that an item can name; empty where the documents say nothing.

    Args:
        release: the document of a release of one effect or of a protocol.
        arms: how units came into the arms (``randomised``, ``chance``, ``clip``).
        flow: of its units.
        contract: the owner's, where it is at hand.
    """
    return {
        **_question(release),
        **_data(release, contract),
        **_design(release, arms),
        **_analysis(release),
        **_privacy(release),
        **_results(release),
        "flow": flow.text,
        "diagram": "The flow of units above.",
        # Of times to an event alone: ``times_facts``.
        **dict.fromkeys(("start", "losses", "at_risk"), ""),
    }


def _question(release: Mapping[str, Any]) -> dict[str, str]:
    spec, estimand = release["specification"], release["estimand"]
    groups, several = spec.get("subgroups"), spec.get("arms")
    arms = f"{spec['treatment']}: {codes_text(spec)}"
    against = "every other level against the reference" if several else "treated against control"
    return {
        **_ofoutcomes_of(spec, estimand),
        "unit": f"One {spec['data']['unit']} is one participant.",
        "strategies": f"{arms}; {against}.",
        "covariates": _covariates(release),
        "subgroups": f"Subgroups by {groups['name']}." if groups else "",
        "subgroup_methods": f"By {groups['name']}, as contract and study declare it; interaction was not tested."
        if groups
        else "No subgroups were declared.",
        "codes": "; ".join(
            [arms, *(f"{name}: {bounds_text(one)}" for name, one in (spec.get("covariates") or {}).items())]
        )
        + ".",
        "bounds": _bounds_text(release),
        "clipped": "Numbers enter as they are, clipped to their declared bounds; levels enter as indicators.",
    }


def _covariates(release: Mapping[str, Any]) -> str:
    """Return which covariates were declared, and that they were not adjusted for if they were not."""
    spec = release["specification"]
    names = ", ".join(spec.get("covariates") or spec.get("unused") or ())
    if not names:
        return "No covariates were declared."
    used = spec.get("covariates") and not compared_as_they_are(release)
    return f"Adjusted for: {names}." if used else f"Declared and not adjusted for: {names}."


def compared_as_they_are(release: Mapping[str, Any]) -> bool:
    """Return whether no answer is adjusted for a covariate."""
    stated = [one["confounding"] for one in release["answers"]]
    known = [one for one in stated if one is not None]
    return bool(known) and all(one["state"] == "unadjusted" for one in known)


def _ofoutcomes_of(spec: Mapping[str, Any], estimand: str) -> dict[str, str]:
    """Return the sentences on measured outcomes; those on times to an event are ``times_facts``."""
    outcomes, whom = outcomes_of(spec), over_whom(spec, estimand)
    if any("horizon" in one for one in outcomes):
        return {}
    binary = all(one.get("codes") for one in outcomes)
    measure = "a difference of shares" if binary else "a difference of means, on the outcome's own scale"
    names = [one["name"] for one in outcomes]
    asked = " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])
    told = [f"{one['name']} ({one['role'].replace('_', ' ')}), {bounds_text(one)}" for one in outcomes]
    return {
        "question": f"How {spec['treatment']} changes {asked}, on average over {whom}.",
        "outcomes": f"{'; '.join(told)}.",
        "contrast": f"{estimand}: {measure}, over {whom}. {_relative(spec)}",
    }


def _relative(spec: Mapping[str, Any]) -> str:
    """Say which relative measures are released beside the difference."""
    named = [
        name for name, key in (("the risk ratio", "ratio"), ("the odds ratio", "odds_ratio")) if key in _measures(spec)
    ]
    return f"Beside it {' and '.join(named)}, by Fieller's interval." if named else "No relative measure is released."


def over_whom(spec: Mapping[str, Any], estimand: str) -> str:
    """Return the units that the answer is an average over, in words."""
    among = where_words(spec)
    return f"{WHOM[estimand]} of the dataset{f' where {among}' if among else ''}"


def _measures(spec: Mapping[str, Any]) -> list[str]:
    return list(spec.get("measure") or ())


def _bounds_text(release: Mapping[str, Any]) -> str:
    """Return where bounds come from, as far as the release knows."""
    drafted = (release.get("data") or {}).get("bounds_from_data")
    if drafted:
        names = ", ".join(drafted)
        return f"The bounds of {names} were drafted from the data, all others declared. See Ranges and levels."
    return "All bounds were declared in contract and study; the run computed none. See Ranges and levels."


def _data(release: Mapping[str, Any], contract: Contract | None) -> dict[str, str]:
    spec, blocks = release["specification"], release["privacy"]["blocks"]
    parts = f", parts {', '.join(blocks['charged'])} of {blocks['key']}" if blocks["key"] else ""
    kind = f"; its owner declares it {contract.data_class.value}" if contract else ""
    access = "No row left the place of the analysis; the analyst received released numbers alone"
    allowed = contract.caps.items() if contract else ()
    among, public = where_words(spec), release["privacy"]["level"] == "label"
    number = "their number is public at this level" if public else "their number was released with noise"
    used = (
        f"Of {release['units']:,} units the eligible ones were used; {number}."
        if among
        else f"All {release['units']:,} units were used."
    )
    caps = "; ".join(f"ε {amount(cap.epsilon)}, δ {amount(cap.delta)} at level {level.value}" for level, cap in allowed)
    return {
        "data": f"Dataset {release['dataset']}{parts}: {release['units']:,} units{kind}.",
        "rows": rows_text(contract) if contract else "",
        "descriptions": descriptions_text(spec, contract) if contract else "",
        "eligibility": f"Units where {among}, as the study declares; {number}."
        if among
        else "Every unit of the charged parts of the dataset was analysed; the run left out none.",
        "admitted": "All rows were held to the declared types, levels and codes before the analysis; nothing was "
        "imputed by a model.",
        "missing": missing_text(spec, release.get("data")),
        "follow_up": "The run reads one row for each unit; it knows of no follow-up and of no loss to it.",
        "access": f"{access}{f'. The owner allows in all {caps}' if caps else ''}.",
        "size": f"{used} The interval to be expected at this size follows from public facts (causalveil plan).",
        "population": f"The answer is about {over_whom(spec, release['estimand'])}, as a sample of a population "
        "that is large beside it.",
    }


def _design(release: Mapping[str, Any], arms: Mapping[str, Any]) -> dict[str, str]:
    spec = release["specification"]
    names = ", ".join(spec.get("covariates") or {}) or "nothing that was declared"
    clip, allowed = arms["clip"], any(row["bias"] for row in release["answers"])
    overlap = (
        f"scores from {figure(clip[0])} to {figure(clip[1])}"
        if clip
        else f"every kind of unit in {'every arm' if spec.get('arms') else 'both arms'}"
    )
    unadjusted = compared_as_they_are(release)
    exchangeable = "No confounding" if unadjusted else f"No unmeasured confounding given {names}"
    exchangeable += ", beyond what the interval allows for" if allowed else ""
    given = "if nothing confounds" if unadjusted else f"given {names}"
    by = "arms are compared as they are" if unadjusted else "arms are compared after adjustment for baseline covariates"
    return {
        "design": f"Observational: {spec['treatment']} is as it was recorded, and {by}; one time point.",
        "random": "Each unit would be assigned to a strategy at random, and would know to which.",
        "random_assumptions": f"Exchangeable arms by randomisation; {INDEPENDENCE}.",
        "assignment": f"By the recorded value of {spec['treatment']}, one for each unit; as good as random only "
        f"{given}.",
        "one_arm": f"{spec['treatment']} has one value for each unit, so no unit is in two arms.",
        "assumptions": f"{exchangeable}; overlap ({overlap}); {INDEPENDENCE}; clipping is harmless.",
        "matching": f"Up to {spec['estimator']['ratio']} nearest neighbours of the other arm by propensity score; how "
        "often one unit may serve is capped."
        if release["estimator"] == "matching"
        else "Not a matched study.",
    }


def _analysis(release: Mapping[str, Any]) -> dict[str, str]:
    estimator = release["specification"]["estimator"]
    name = METHODS.get(str(estimator["name"]), str(estimator["name"]).replace("_", " "))
    settings = settings_words(estimator, release["privacy"]["level"] == "label")
    done = _adjustment(release)
    adjusted = f"{capital(done)}." if done else ""
    confidence, biases = release["confidence"], [row["bias"] for row in release["answers"] if row["bias"]]
    told = "Intervals allow for the bias that stands beside each answer in the table." if biases else ""
    if biases and len(release["answers"]) == 1:
        told = f"The interval allows for a bias of {figure(biases[0])} to either side."
    balance = bool(release.get("balance"))
    noise = "exact, for they are public" if release["privacy"]["level"] == "label" else "as released with noise"
    how = f"{capital(name)}, {percent(float(confidence))} intervals."
    how += f" Settings: {settings}." if settings else ""
    how += f" {adjusted}" if adjusted else ""
    return {
        "analysis": f"{how} The section on the answer says it in words.",
        "adjusted_for": adjusted,
        "sensitivity": told or "No sensitivity analysis was declared.",
        "bias": told or "Beyond the covariates nothing is adjusted for and nothing is allowed for.",
        "balance": f"Standardised differences between the arms, {noise}: see the figure of balance. A table by arm is "
        "not released."
        if balance
        else "Not released: a table by arm would cost a budget of its own.",
        "checked": ("Balance is in the figure" + ("; gates in their table" if release.get("gates") else ""))
        + ". No other assumption can be checked from the release."
        if balance
        else "None can be checked from the release.",
    }


def _privacy(release: Mapping[str, Any]) -> dict[str, str]:
    privacy, simulated = release["privacy"], release["not_for_release"]
    cost = f"({amount(privacy['epsilon'])}, {amount(privacy['delta'])})-differential privacy"
    proved = release["guarantee"] == "finite_sample"
    guarantee = "" if proved else ", in the limit of many units only"
    of_outcomes = " that depends on outcomes" if privacy["level"] == "label" else ""
    noise = f"Every released number{of_outcomes} has"
    noise = noise if proved else "Exact numbers of the data are printed. The estimate has"
    return {
        "privacy": f"{noise} noise for {cost}{guarantee}; {LEVELS[privacy['level']]}.",
        "unprotected": f"What can be learnt of one {privacy['unit']} is bounded by {cost}{guarantee}.",
        "declared": f"The study has the digest {release['study_digest'][:16]}… and was declared in ledger "
        f"{release['ledger']['identity'][:8]}…, entry {release['ledger']['entry_hash'][:8]}…, before the analysis read "
        "a row.",
        "sharing": "A simulation with seeded noise: not for release."
        if simulated
        else "Study, release.json and this page may be published; rows may not. "
        f"causalveil {release['software']['version']}, Apache License 2.0.",
    }


def _results(release: Mapping[str, Any]) -> dict[str, str]:
    by_arm = arm_means(release)
    means = (
        f"Means: {'; '.join(f'{arm} {text}' for arm, text in by_arm)}. Counts by arm are private."
        if by_arm is not None
        else "Not released by arm; differences are."
    )
    return {"means": means, **_answers(release)}


def _said(limits: Sequence[Mapping[str, Any]]) -> str:
    """Return the sentences of limits, one after the other."""
    return "; ".join(one["sentence"] for one in limits)


def _asked(row: Mapping[str, Any], specification: Mapping[str, Any]) -> str:
    """Return outcome and subgroup of an answer, and of several arms which are compared."""
    sides = f", {row['arm']} against {row['reference']}" if specification.get("arms") else ""
    return f"{row['outcome']}, {row['group']}{sides}"


def _table(release: Mapping[str, Any]) -> str:
    """Return how many answers the release has."""
    answers = len(release["answers"])
    return "It is the only answer." if answers == 1 else f"The table has {answers} answers."


def _answers(release: Mapping[str, Any]) -> dict[str, str]:
    """Return what was found, and what its intervals cover and leave out."""
    answers, calibration = release["answers"], release["calibration"]
    first = next((row for row in answers if row["interval"] is not None), None)
    told = [
        *([counted(calibration["controls"], "negative control")] if calibration else []),
        *(["intervals that hold together"] if any(row["simultaneous"] for row in answers) else []),
        *([counted(len(release["gates"]), "gate")] if release["gates"] else []),
    ]
    additional = f"Declared before a row was read: {', '.join(told)}." if told else ""
    one = "One question was asked; no other analysis is in this release."
    limits = "No interval covers" if len(answers) > 1 else "The interval does not cover"
    said = {
        "limits": _plain(f"{limits} {_said(release['not_covered'])}.") if release["not_covered"] else "",
        "additional": additional or (one if len(answers) == 1 else ""),
    }
    if first is None:
        return {**said, "found": "Every answer is withheld.", "precision": "", "reading": ""}
    interval, covers = first["interval"], "The interval covers" if len(answers) == 1 else "All intervals cover"
    sides = "includes zero" if interval["lower"] <= 0 <= interval["upper"] else "does not include zero"
    found = f"{release['estimand']} on {_asked(first, release['specification'])}: {beside(first['estimate'], interval)}"
    return {
        **said,
        "found": f"{found}, {percent(release['confidence'])} interval {span(interval)}. {_table(release)}",
        "precision": _plain(f"{covers} {_said(release['covers'])}."),
        "reading": "The privacy noise is too large for an answer."
        if first["state"] == "unresolved"
        else f"The interval {sides}.",
    }


def _adjustment(release: Mapping[str, Any]) -> str:
    """Return how far covariates were adjusted for: every wording once, but of answers without a statement."""
    told = [row["confounding"]["sentence"] for row in release["answers"] if row["confounding"]]
    return "; ".join(dict.fromkeys(told))


def _plain(sentence: str) -> str:
    """Return a sentence without the marks of code in it."""
    return sentence.replace("`confounding_prior`", "the confounding prior").replace("`", "")


def bounds_text(column: Mapping[str, Any]) -> str:
    """Return what a column of a study can hold: codes, levels, or a range."""
    codes, levels = column.get("codes"), column.get("levels")
    if codes:
        return f"{codes['no']} or {codes['yes']}"
    if levels is not None:
        return "one of " + levels_text(column)
    scale = f", by its {column['scale']}" if column.get("scale") else ""
    return f"{figure(column['lower'])} to {figure(column['upper'])}{scale}"


def codes_text(spec: Mapping[str, Any]) -> str:
    """Return what the arms are in the data."""
    arms, codes = spec.get("arms"), spec.get("treatment_codes")
    if arms:
        return f"{levels_text(arms)}; the reference is {labels_of(arms)[str(arms['reference'])]}"
    return f"treated is {codes['treated']}, control is {codes['control']}" if codes else "treated is 1, control is 0"


def missing_text(spec: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> str:
    """Return what became of missing values.

    How many there are is private, but for rows of public and synthetic data.
    """
    lost = [
        f"{rows:,} rows were left out, without a value of {name}."
        for name, rows in (data or {}).get("left_out", {}).items()
    ]
    return " ".join([*lost, _missing_in_rows(spec)])


def _missing_in_rows(spec: Mapping[str, Any]) -> str:
    covariates = spec.get("covariates") or {}
    everywhere = spec.get("missing") == "indicator"
    welcome = [name for name, one in covariates.items() if everywhere or one.get("nulls") == "indicator"]
    told = [capital(one.sentence) for one in unrecorded(spec)]
    if welcome:
        told.insert(0, f"{', '.join(welcome)} may be missing and enter by an indicator beside a fixed value.")
    if not told:
        return "Rows with a missing value in a column of the study are not admitted."
    words = {"missing_treatment": "treatment", "missing_outcome": "outcome"}
    never = [word for key, word in words.items() if spec.get(key, "refuse") == "refuse"]
    refused = f" Rows without {' or '.join(never)} are not admitted." if never else ""
    return f"{' '.join(told)}{refused} How many are missing is private."


def rows_text(contract: Contract) -> str:
    """Return how several rows of a unit became one, by the contract."""
    rows = contract.rows
    if rows is None:
        return f"Each {contract.unit} has one row; data in which one has two are not admitted."
    most = f"the {rows.keep.value} {rows.at_most} rows" if rows.at_most else "all rows"
    order = f" by {rows.order}" if rows.order else ""
    made = ", ".join(f"{name}: {aggregate.value}" for name, aggregate in rows.aggregates.items())
    return f"Of each {contract.unit} {most}{order} became one{f' ({made})' if made else ''}."


def descriptions_text(spec: Mapping[str, Any], contract: Contract) -> str:
    """Return what the owner says of the study's columns."""
    columns = [one[key] for one in outcomes_of(spec) for key in ("name", "time", "event") if key in one]
    named = [spec["treatment"], *columns, *(spec.get("covariates") or {})]
    told = []
    for name in dict.fromkeys(named):
        column = contract.offered.get(name)
        if column is not None and (column.description or column.unit_of_measure):
            unit = f" ({column.unit_of_measure})" if column.unit_of_measure else ""
            told.append(f"{name}{unit}{f': {column.description}' if column.description else ''}")
    return f"The owner says: {'; '.join(told)}." if told else ""
