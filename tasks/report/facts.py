"""State facts of a study, its flow of units and its settings, for guidelines and details.

The flow of units, after CONSORT, has public and released numbers alone. Sentences by name answer a guideline's items
from study, contract and release; each is true of the release at hand, or empty. Those on times to an event replace
those on measured outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from causalveil.schemas.columns import labels_of, levels_text
from causalveil.schemas.contract import Contract
from causalveil.schemas.limits import Code, Limit, capital
from causalveil.schemas.remarks import counted
from causalveil.schemas.specification import outcomes_of, unrecorded
from causalveil.schemas.where import where_words
from causalveil.tasks.report.numbers import (
    ALL_UNITS,
    amount,
    arm_means,
    beside,
    each_unit,
    figure,
    percent,
    place_label,
    span,
)
from causalveil.tasks.report.numbers import counted as counted_words
from causalveil.tasks.report.table import lost_within

# The units of a subgroup are released as noisy numbers, by this name.
GROUP = "units["
ALL = f"{GROUP}{ALL_UNITS}]"
COUNTED = "and the details count them exactly"
UNCOUNTED = "and this page does not count them"


@dataclass(frozen=True)
class FlowBox:
    """A step of the flow.

    Attributes:
        title: what units do here.
        count: a public number; None: not given, and ``note`` says why.
        note: in words.
        released: numbers in the release: (name, text of the number).
        noisy: whether they have noise; at level label they are exact.
    """

    title: str
    count: int | None
    note: str
    released: tuple[tuple[str, str], ...] = ()
    noisy: bool = True


@dataclass(frozen=True)
class UnitFlow:
    """The steps of a flow in order; ``halves`` stand beside each other."""

    steps: tuple[FlowBox, ...]
    halves: tuple[FlowBox, ...]
    last: FlowBox

    @property
    def text(self) -> str:
        """The flow in a sentence for each step."""
        boxes = (*self.steps, *self.halves, self.last)
        return " ".join(
            f"{box.title}: {'' if box.count is None else f'{box.count:,}; '}{box.note}"
            f"{''.join(f'; {name}{number}' for name, number in box.released)}."
            for box in boxes
        )


def unit_flow(release: Mapping[str, Any], rows: str) -> UnitFlow:
    """Return the flow of a release of effects.

    Args:
        release: the document. The number of units is public under replace-one, and so are the sizes of the halves,
            which follow from it and the study; other counts were released with noise.
        rows: how several rows of a unit became one, as the contract says; may be empty.
    """
    specification, details, units = release["specification"], release.get("details") or {}, release["units"]
    unit, blocks = specification["data"]["unit"], release["privacy"]["blocks"]
    charged = f", in {', '.join(blocks['charged'])} of {blocks['key']}" if blocks["key"] else ""
    steps: tuple[FlowBox, ...] = (
        _before(release),
        FlowBox("In the dataset", units, f"each one {unit}{charged}{f'. {rows}' if rows else ''}"),
    )
    noisy = release["privacy"]["level"] != "label"
    parts = _parts(details, specification, noisy)
    if among := where_words(specification):
        no_count = "other rows add nothing, and the exact number is private" if noisy else "other rows add nothing"
        steps = (*steps, FlowBox("Eligible", None, f"where {among}; {no_count}"))
        return UnitFlow(steps, (), FlowBox("Analysed", None, _arms_note(release), parts, noisy))
    notes = ["the run left out no unit of the dataset", *map(counted, unrecorded(specification)), _arms_note(release)]
    note = "; ".join(text for text in notes if text)
    return UnitFlow(steps, _halves(release, units), FlowBox("Analysed", units, note, parts, noisy))


def _before(release: Mapping[str, Any]) -> FlowBox:
    """Return the rows of the source and those left out, where these numbers are public."""
    data = release.get("data")
    if data is None:
        note = "rows may have been left out or made one per unit; of sensitive data this is not counted here"
        return FlowBox("Before admission", None, note)
    lost = [f"{rows:,} rows left out, without a value of {name}" for name, rows in data["left_out"].items() if rows]
    admitted = data["rows"] - sum(data["left_out"].values())
    made = [f"{admitted:,} rows became {release['units']:,}, one per unit"] if admitted != release["units"] else []
    return FlowBox("Rows of the source", data["rows"], "; ".join([*lost, *made]) or "none was left out")


def _halves(release: Mapping[str, Any], units: int) -> tuple[FlowBox, ...]:
    fraction = release["specification"]["estimator"].get("train_fraction")
    if fraction is None or not any(charge["scope"] == "train" for charge in release["privacy"]["charges"]):
        return ()
    train = round(fraction * units)
    if "pair" in release["specification"]:
        return (
            FlowBox("Training half", train, "predicts each variable from the other; drawn by a secret key"),
            FlowBox("Test half", units - train, "gives the scores"),
        )
    return (
        FlowBox("Training half", train, "fits the propensity model; drawn by a secret key"),
        FlowBox("Estimation half", units - train, "gives the effect"),
    )


def _arms_note(release: Mapping[str, Any]) -> str:
    if release["privacy"]["level"] == "label":
        by_group = bool(_groups(release.get("details") or {}))
        counted = "treated_arm" in (release.get("details") or {})
        exact = "so these numbers are exact" if by_group else COUNTED if counted else UNCOUNTED
        return f"treatments are public at this level, {exact}"
    return "" if "pair" in release["specification"] else "exact numbers in the arms are private"


def _parts(details: Mapping[str, Any], specification: Mapping[str, Any], noisy: bool) -> tuple[tuple[str, str], ...]:
    """Return the released numbers of arms and subgroups, rounded where they have noise."""
    # Without conditions the number of all units is that of the dataset, which is public.
    groups_told = [(name, value) for name, value in _groups(details) if name != ALL or specification.get("where")]
    groups = tuple(
        (
            place_label(specification, name[len(GROUP) : -1].split("][")),
            f" ≈ {figure(float(f'{value:.3g}'))}" if noisy else f": {value:,.0f}",
        )
        for name, value in groups_told
    )
    share = details.get("treated_share")
    return groups if share is None else (("treated", f" ≈ {percent(float(f'{share:.2g}'))}"), *groups)


def _groups(details: Mapping[str, Any]) -> list[tuple[str, float]]:
    return [(name, value) for name, value in details.items() if name.startswith(GROUP)]


# Models by name, as details and checklists write them.
MODELS = {
    "kernel_ridge": "kernel ridge regression",
    "neural_network": "a neural network",
    "slopes": "slopes of each arm",
    "logistic": "logistic regression",
}
# Settings that are no part of a method's description, or that other sentences state.
UNTOLD = ("name", "variant", "trial", "guarantee", "effect_share")
# Settings of a private propensity model, which public covariates do not need.
PRIVATE = ("budget_shares", "train_fraction", "correct_attenuation")


def settings_words(estimator: Mapping[str, Any], public: bool = False) -> str:
    """Return the settings of an estimator but those left to a rule, separated by semicolons.

    Args:
        estimator: its settings, as a document.
        public: whether covariates and treatments are public.
    """
    untold = (*UNTOLD, *PRIVATE) if public else UNTOLD
    phrases = [
        PHRASES[key](value) if key in PHRASES else f"{key.replace('_', ' ')} {_value(value)}"
        for key, value in sorted(estimator.items())
        if key not in untold and value is not None
    ]
    return "; ".join(phrase for phrase in phrases if phrase)


def _prior(prior: Mapping[str, Any]) -> str:
    distance = prior["distance"]
    return (
        f"confounding prior: covariates explain {percent(prior['outcome_r2'])} of the outcome's variance, and their "
        f"index differs by {figure(distance)} standard deviation{'' if distance == 1 else 's'} between the arms"
    )


def _propensity(settings: Mapping[str, Any]) -> str:
    if settings.get("known") is not None:
        return f"known chance of treatment, {figure(settings['known'])}"
    return f"propensity model: {_model(settings['model'])}; {_clip(settings['clip'])}"


def _clip(ends: list[float]) -> str:
    return f"propensity scores clipped to {figure(ends[0])} and {figure(ends[1])}"


def _model(name: str) -> str:
    return MODELS.get(name, name.replace("_", " "))


def _shares(value: Any) -> str:
    """Return shares of the budget; empty where public sizes divide it."""
    if not isinstance(value, Mapping):
        return ""
    return f"shares of the budget: {_value(value)}"


def _value(value: Any) -> str:
    """Return a setting without a phrase of its own."""
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')} {_value(part)}" for key, part in value.items())
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int | float):
        return figure(value)
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value).replace("_", " ")


PHRASES: dict[str, Callable[[Any], str]] = {
    "allowance": lambda factor: f"allowance for imbalance, factor {figure(factor)}" if factor else "",
    "budget_shares": _shares,
    "caliper": lambda width: f"caliper {figure(width)}",
    "cap": lambda cap: f"reuse of a unit capped {'adaptively' if cap == 'adaptive' else f'at {cap} times the ratio'}",
    "clip": _clip,
    "confounding_prior": _prior,
    "correct_attenuation": lambda corrected: f"attenuation {'' if corrected else 'not '}corrected",
    "curves": lambda looked: f"non-linear terms {'selected from the data' if looked == 'auto' else 'not looked for'}",
    "error_coefficient": lambda weight: f"error coefficient {figure(weight)}",
    "folds": lambda folds: f"{folds} folds of cross-fitting",
    "outcome_model": lambda settings: f"outcome model: {_model(settings['model'])}",
    "parts": _shares,
    "penalty": lambda penalty: f"ridge penalty {figure(penalty)}",
    "propensity": _propensity,
    "ratio": lambda ratio: f"{ratio} match{'es' if ratio > 1 else ''} for each unit",
    "train_fraction": lambda share: f"propensity model fitted on {percent(share)} of the units",
    "variance_share": lambda share: f"{percent(share)} of the outcome's budget for the variance",
    "weighting": lambda kind: f"{'Hájek' if kind == 'hajek' else 'Horvitz-Thompson'} weights",
}


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
    """Return every sentence that an item can name; empty where the documents lack its facts.

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
            [arms, *(f"{name}: {bounds_text(bounds)}" for name, bounds in (spec.get("covariates") or {}).items())]
        )
        + ".",
        "bounds": _bounds_text(release),
        "clipped": "Numbers enter as they are, clipped to their declared bounds; levels enter as indicators.",
    }


def _covariates(release: Mapping[str, Any]) -> str:
    """Return the declared covariates, and whether they were adjusted for."""
    spec = release["specification"]
    names = ", ".join(spec.get("covariates") or spec.get("unused") or ())
    if not names:
        return "No covariates were declared."
    used = spec.get("covariates") and not compared_as_they_are(release)
    return f"Adjusted for: {names}." if used else f"Declared and not adjusted for: {names}."


def compared_as_they_are(release: Mapping[str, Any]) -> bool:
    """Return whether no answer is adjusted for a covariate."""
    stated = [row["confounding"] for row in release["answers"]]
    statements = [row for row in stated if row is not None]
    return bool(statements) and all(row["state"] == "unadjusted" for row in statements)


def _ofoutcomes_of(spec: Mapping[str, Any], estimand: str) -> dict[str, str]:
    """Return the sentences on measured outcomes; those on times to an event are ``times_facts``."""
    outcomes, whom = outcomes_of(spec), over_whom(spec, estimand)
    if any("horizon" in outcome for outcome in outcomes):
        return {}
    binary = all(outcome.get("codes") for outcome in outcomes)
    measure = "a difference of shares" if binary else "a difference of means, on the outcome's own scale"
    names = [outcome["name"] for outcome in outcomes]
    listed = " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])
    described = [
        f"{outcome['name']} ({outcome['role'].replace('_', ' ')}), {bounds_text(outcome)}" for outcome in outcomes
    ]
    return {
        "question": f"How {spec['treatment']} changes {listed}, on average over {whom}.",
        "outcomes": f"{'; '.join(described)}.",
        "contrast": f"{estimand}: {measure}, over {whom}. {_relative(spec)}",
    }


def _relative(spec: Mapping[str, Any]) -> str:
    """Name the relative measures that are released beside the difference."""
    named = [
        name
        for name, key in (("the risk ratio", "ratio"), ("the odds ratio", "odds_ratio"))
        if key in (spec.get("measure") or ())
    ]
    return f"Beside it {' and '.join(named)}, by Fieller's interval." if named else "No relative measure is released."


def over_whom(spec: Mapping[str, Any], estimand: str) -> str:
    """Return the units that the answer is an average over, in words."""
    among = where_words(spec)
    return f"{each_unit(estimand)} of the dataset{f' where {among}' if among else ''}{further_words(spec)}"


def further_words(spec: Mapping[str, Any]) -> str:
    """Return landmark, cohorts and survey weights of a study in words; empty without them."""
    outcomes = outcomes_of(spec)
    landmark = next((outcome["landmark"] for outcome in outcomes if outcome.get("landmark")), None)
    unit = f" {outcomes[0]['unit_of_measure']}" if landmark and outcomes[0].get("unit_of_measure") else ""
    cohorts = ", ".join(dict.fromkeys(str(outcome["arm"]) for outcome in outcomes if outcome.get("arm") is not None))
    return (
        (f", without an event until {landmark:g}{unit}" if landmark else "")
        + (f", each answer about its own cohort ({cohorts})" if cohorts else "")
        + (f", weighted by {spec['weights']['column']}" if spec.get("weights") else "")
    )


def _bounds_text(release: Mapping[str, Any]) -> str:
    """Return the origin of bounds, as far as the release states it."""
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


def takes_parallel_trends(not_covered: Iterable[Limit]) -> bool:
    """Return whether answers are changes over time, which need parallel trends."""
    return any(limit.code is Code.parallel_trends for limit in not_covered)


def _design(release: Mapping[str, Any], arms: Mapping[str, Any]) -> dict[str, str]:
    spec = release["specification"]
    changes = takes_parallel_trends(Limit.model_validate(limit) for limit in release.get("not_covered") or ())
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
    if changes:
        exchangeable = f"Parallel trends{'' if unadjusted else f' given {names}'}; no anticipation"
    given = "if nothing confounds" if unadjusted else f"given {names}"
    by = "arms are compared as they are" if unadjusted else "arms are compared after adjustment for baseline covariates"
    return {
        "design": f"Observational: {spec['treatment']} is as it was recorded, and {by}; "
        f"{'changes between periods' if changes else 'one time point'}.",
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
    allowance = "Intervals allow for the bias that stands beside each answer in the table." if biases else ""
    if biases and len(release["answers"]) == 1:
        allowance = f"The interval allows for a bias of {figure(biases[0])} to either side."
    balance = bool(release.get("balance"))
    noise = "exact, for they are public" if release["privacy"]["level"] == "label" else "as released with noise"
    how = f"{capital(name)}, {percent(float(confidence))} intervals."
    how += f" Settings: {settings}." if settings else ""
    how += f" {adjusted}" if adjusted else ""
    return {
        "analysis": f"{how} The section on the answer says it in words.",
        "adjusted_for": adjusted,
        "sensitivity": allowance or "No sensitivity analysis was declared.",
        "bias": allowance or "Beyond the covariates nothing is adjusted for and nothing is allowed for.",
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
    return "; ".join(limit["sentence"] for limit in limits)


def _asked(row: Mapping[str, Any], specification: Mapping[str, Any]) -> str:
    """Return outcome and subgroup of an answer, and of several arms which are compared."""
    sides = f", {row['arm']} against {row['reference']}" if specification.get("arms") else ""
    return f"{row['outcome']}, {row['group']}{sides}"


def _answers(release: Mapping[str, Any]) -> dict[str, str]:
    """Return the first answer, and what the intervals cover and do not."""
    answers, calibration = release["answers"], release["calibration"]
    first = next((row for row in answers if row["interval"] is not None), None)
    further = [
        *([counted_words(calibration["controls"], "negative control")] if calibration else []),
        *(["intervals that hold together"] if any(row["simultaneous"] for row in answers) else []),
        *([counted_words(len(release["gates"]), "gate")] if release["gates"] else []),
    ]
    additional = f"Declared before a row was read: {', '.join(further)}." if further else ""
    alone = "One question was asked; no other analysis is in this release."
    limits = "No interval covers" if len(answers) > 1 else "The interval does not cover"
    sentences = {
        "limits": _plain(f"{limits} {_said(release['not_covered'])}.") if release["not_covered"] else "",
        "additional": additional or (alone if len(answers) == 1 else ""),
    }
    if first is None:
        return {**sentences, "found": "Every answer is withheld.", "precision": "", "reading": ""}
    interval, covers = first["interval"], "The interval covers" if len(answers) == 1 else "All intervals cover"
    count = "It is the only answer." if len(answers) == 1 else f"The table has {len(answers)} answers."
    sides = "includes zero" if interval["lower"] <= 0 <= interval["upper"] else "does not include zero"
    answer = (
        f"{release['estimand']} on {_asked(first, release['specification'])}: {beside(first['estimate'], interval)}"
    )
    return {
        **sentences,
        "found": f"{answer}, {percent(release['confidence'])} interval {span(interval)}. {count}",
        "precision": _plain(f"{covers} {_said(release['covers'])}."),
        "reading": "The privacy noise is too large for an answer."
        if first["state"] == "unresolved"
        else f"The interval {sides}.",
    }


def _adjustment(release: Mapping[str, Any]) -> str:
    """Return the distinct sentences on adjustment of all answers that have one."""
    sentences = [row["confounding"]["sentence"] for row in release["answers"] if row["confounding"]]
    return "; ".join(dict.fromkeys(sentences))


def _plain(sentence: str) -> str:
    """Return a sentence without marks of code."""
    return sentence.replace("`confounding_prior`", "the confounding prior").replace("`", "")


def bounds_text(column: Mapping[str, Any]) -> str:
    """Return the declared values of a column: codes, levels, or a range."""
    codes, levels = column.get("codes"), column.get("levels")
    if codes:
        return f"{codes['no']} or {codes['yes']}"
    if levels is not None:
        return "one of " + levels_text(column)
    scale = f", by its {column['scale']}" if column.get("scale") else ""
    return f"{figure(column['lower'])} to {figure(column['upper'])}{scale}"


def codes_text(spec: Mapping[str, Any]) -> str:
    """Return the codes of the arms."""
    arms, codes = spec.get("arms"), spec.get("treatment_codes")
    if arms:
        return f"{levels_text(arms)}; the reference is {labels_of(arms)[str(arms['reference'])]}"
    return f"treated is {codes['treated']}, control is {codes['control']}" if codes else "treated is 1, control is 0"


def missing_text(spec: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> str:
    """Return how missing values were treated; their number is private unless the data are not."""
    lost = [
        f"{rows:,} rows were left out, without a value of {name}."
        for name, rows in (data or {}).get("left_out", {}).items()
    ]
    return " ".join([*lost, _missing_in_rows(spec)])


def _missing_in_rows(spec: Mapping[str, Any]) -> str:
    covariates = spec.get("covariates") or {}
    everywhere = spec.get("missing") == "indicator"
    welcome = [name for name, covariate in covariates.items() if everywhere or covariate.get("nulls") == "indicator"]
    sentences = [capital(value.sentence) for value in unrecorded(spec)]
    if welcome:
        sentences.insert(0, f"{', '.join(welcome)} may be missing and enter by an indicator beside a fixed value.")
    if not sentences:
        return "Rows with a missing value in a column of the study are not admitted."
    roles = {"missing_treatment": "treatment", "missing_outcome": "outcome"}
    never = [word for key, word in roles.items() if spec.get(key, "refuse") == "refuse"]
    refused = f" Rows without {' or '.join(never)} are not admitted." if never else ""
    return f"{' '.join(sentences)}{refused} How many are missing is private."


def rows_text(contract: Contract) -> str:
    """Return how the contract reduces several rows of a unit to one."""
    rows = contract.rows
    if rows is None:
        return f"Each {contract.unit} has one row; data in which one has two are not admitted."
    most = f"the {rows.keep.value} {rows.at_most} rows" if rows.at_most else "all rows"
    order = f" by {rows.order}" if rows.order else ""
    made = ", ".join(f"{name}: {aggregate.value}" for name, aggregate in rows.aggregates.items())
    wide = f", with columns of their own for {', '.join(rows.periods)}" if rows.wide else ""
    return f"Of each {contract.unit} {most}{order} became one{f' ({made})' if made else ''}{wide}."


def descriptions_text(spec: Mapping[str, Any], contract: Contract) -> str:
    """Return the owner's descriptions of the study's columns."""
    columns = [
        outcome[key] for outcome in outcomes_of(spec) for key in ("name", "time", "entry", "event") if outcome.get(key)
    ]
    named = [spec["treatment"], *columns, *(spec.get("covariates") or {})]
    descriptions = []
    for name in dict.fromkeys(named):
        column = contract.offered.get(name)
        if column is not None and (column.description or column.unit_of_measure):
            unit = f" ({column.unit_of_measure})" if column.unit_of_measure else ""
            descriptions.append(f"{name}{unit}{f': {column.description}' if column.description else ''}")
    return f"The owner says: {'; '.join(descriptions)}." if descriptions else ""


CURVES = METHODS["survival"]


def asks_for_times(specification: Mapping[str, Any]) -> bool:
    """Return whether a study in full asks for times to an event."""
    return any("horizon" in outcome for outcome in outcomes_of(specification))


def times_facts(release: Mapping[str, Any], facts: Mapping[str, str], estimand: Mapping[str, str]) -> dict[str, str]:
    """Return the sentences of a release on times, of one question or of a protocol.

    Args:
        release: its document.
        facts: sentences of any release (:func:`facts_of`).
        estimand: sentences by attribute (``estimand_of``).
    """
    spec, kind = release["specification"], release["estimand"]
    outcomes = outcomes_of(spec)
    first, whom = outcomes[0], over_whom(spec, kind)
    unit = f" {first['unit_of_measure']}" if first.get("unit_of_measure") else ""
    events = " or ".join(dict.fromkeys(event for outcome in outcomes for event in outcome["of"]))
    start = f"Times begin at '{first['origin']}' and are compared until "
    start += f"{' and '.join(f'{at:g}' for at in sorted({outcome['horizon'] for outcome in outcomes}))}{unit}."
    if first.get("entry"):
        since = f" Curves begin at {first['landmark']:g}{unit}, of those at risk then." if first["landmark"] else ""
        start += f" Who entered late, by {first['entry']}, is at risk from then on.{since}"
    missed = "losses to follow-up and late entry" if first.get("entry") else "losses to follow-up"
    losses = f"Within {_within(release)}, {missed} are taken to say nothing of the event."
    measure = estimand["Summary measure"]
    return {
        "question": f"How {spec['treatment']} changes the time to {events}, on average over {whom}.",
        "outcomes": estimand["Outcome"],
        "contrast": f"{kind}, over {whom}: {measure[:1].lower()}{measure[1:]} {_relative_of_times(release)}",
        "clipped": "Times count by the interval in which they end."
        + (f" Of covariates: {facts['clipped'][:1].lower()}{facts['clipped'][1:]}" if spec.get("covariates") else ""),
        "start": start,
        "losses": losses,
        "follow_up": f"{start} {estimand['Intercurrent events']} {losses}",
        "at_risk": "Numbers at risk over time, with noise, stand below the curves.",
        "design": facts["design"].replace("; one time point.", f"; units are followed from '{first['origin']}'."),
        "analysis": facts["analysis"].replace(CURVES, f"{CURVES}, and regression of pseudo-outcomes on covariates", 1)
        if spec.get("covariates")
        else facts["analysis"],
        "assumptions": f"{_confounding(spec)}; independent censoring within {_within(release)}; {INDEPENDENCE}.",
        "means": "Curves of each arm, with noise, stand in the report; adjusted ones are not released."
        if spec.get("covariates")
        else "Curves of each arm, with noise, stand in the report.",
    }


def _within(release: Mapping[str, Any]) -> str:
    """Return the strata within which losses are assumed independent of the event."""
    by = lost_within(release["specification"]).get("by")
    pooled = (release.get("details") or {}).get("pooled_strata")
    levels = "a level" if not pooled else "a level (pooled where noise hides it)"
    return "an arm" if not by else f"an arm and {levels} of {' and '.join(by)}"


def _confounding(spec: Mapping[str, Any]) -> str:
    if not spec.get("covariates"):
        return "No confounding beyond the size that the confounding prior assumes"
    where = "every arm" if spec.get("arms") else "both arms"
    return f"No unmeasured confounding given {', '.join(spec['covariates'])}; {OVERLAP.format(where)}"


def _relative_of_times(release: Mapping[str, Any]) -> str:
    """Say whether log-rank tests and hazard ratios stand beside the differences."""
    if any(row.get("log_rank") for row in release["answers"]):
        adjusted = ", not adjusted," if release["specification"].get("covariates") else ""
        return f"Log-rank tests and hazard ratios{adjusted} stand beside it."
    return "No relative measure is released."
