"""A draft of dataset.yaml, study.yaml and source.yaml.

Each with comments that say what was assumed and what to ask.

Nothing is read off sensitive data (``tasks/start/stated.py``). Their ranges and levels are public knowledge or are paid
for, so a draft asks for them; for public and synthetic data it takes them from the data and says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from causalveil.schemas.contract import DataClass
from causalveil.schemas.hints import HIGH, LOW, option
from causalveil.schemas.warehouse import Kind, TextReading
from causalveil.tasks.start.doubts import Doubts, GivenBy
from causalveil.tasks.start.options import stored
from causalveil.tasks.start.recognise import MOST_LEVELS, Looks, Profile
from causalveil.tasks.start.roles import USABLE, Cast, Value, Wishes
from causalveil.tasks.start.times import asked_times, declared_event, declared_time
from causalveil.tasks.start.words import AFTER, comment, entry, flow, scalar, spoken

PER_UNIT = "rows"
FROM_DATA = "drafted from the data"


@dataclass(frozen=True)
class Draft:
    """Texts of the three files, and notes and questions for a person.

    Attributes:
        contract, study, source: the texts.
        read: assumptions about the data, each with its column.
        taken: the covariates.
        unused: unused columns, each with the reason.
        doubtful: columns of which a person has to say whether they are covariates, and why.
        questions: facts that only the owner can state before the study runs.
        with_others: columns whose values beyond the declared levels are read as one more level.
        reads: columns that the source is read for.
    """

    contract: str
    study: str
    source: str
    read: tuple[tuple[str, str], ...]
    taken: tuple[str, ...]
    unused: Mapping[str, str]
    doubtful: Mapping[str, str]
    questions: tuple[str, ...]
    with_others: tuple[str, ...]
    reads: tuple[str, ...]

    @property
    def assumed(self) -> tuple[str, ...]:
        """Assumptions about the data, a sentence each."""
        return tuple(f"'{name}': {note}" for name, note in self.read)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns that are not used, a sentence each."""
        return tuple(f"'{name}': {reason}" for name, reason in self.unused.items())

    @property
    def decide(self) -> tuple[str, ...]:
        """Columns of which a person has to say whether they are covariates, a sentence each."""
        return tuple(f"'{name}': {reason}" for name, reason in self.doubtful.items())


@dataclass(frozen=True)
class Repeats:
    """Units with several rows: whether all are copies; a column of order, or the means count."""

    copies_only: bool
    order: str


def draft(
    columns: dict[str, Profile],
    parts: Cast,
    wishes: Wishes,
    source: dict[str, Any],
    repeats: Repeats | None,
    left_out: dict[str, str],
    doubtful: Doubts,
    step: float = 1.0,
    expect: Mapping[str, float] | None = None,
) -> Draft:
    """Write the three files.

    Args:
        columns: all columns by name.
        parts: the columns by their roles.
        wishes: statements about the data, as :func:`~causalveil.tasks.start.roles.resolved`.
        source: what source.yaml says under ``source``.
        repeats: of units with several rows; None: each has one.
        left_out: columns that could not be read, and why.
        doubtful: columns that no study should adjust for unless ``--covariates`` names them; not in ``parts``.
        step: the smallest difference of times to an event.
        expect: what a plan should expect of public rows.
    """
    declared = {column.name: _declaration(column, parts, wishes, step) for column in parts.usable}
    if repeats is not None and not repeats.order:
        without_mean = {
            name: "a category has no mean over the rows of a unit"
            for name, declaration in declared.items()
            if (asks_for_levels(columns[name]) if declaration is None else "levels" in declaration[0])
        }
        declared = {name: value for name, value in declared.items() if name not in without_mean}
        parts = replace(
            parts, covariates=tuple(column for column in parts.covariates if column.name not in without_mean)
        )
        left_out = left_out | without_mean
    if doubtful.clusters is not None:
        declared.pop(doubtful.clusters.column, None)
    undeclared = [name for name, value in declared.items() if value is None]
    open_levels = [name for name in undeclared if name != parts.outcome.name and asks_for_levels(columns[name])]
    open_ranges = [name for name in undeclared if name not in open_levels]
    taken = [column for column in parts.covariates if column.name not in open_levels]
    roles = (parts.unit, *parts.recorded)
    unused = {
        column.name: _why_unused(column)
        for column in columns.values()
        if column.looks not in USABLE and column not in roles
    }
    unused |= doubtful.left_out | {name: f"{option('without')} says so" for name in wishes.without}
    counted = _counted(parts, wishes)
    with_nulls = {column.name for column in parts.covariates if column.nulls} | set(counted)
    questions = [
        f"the range of '{name}', from public knowledge: {option(ranges={name: (LOW, HIGH)})}, or write it into "
        "dataset.yaml"
        for name in open_ranges
    ] + [
        f"the levels of '{name}': {option(levels={name: ['A', 'B', 'C']})}, or write them into dataset.yaml"
        for name in open_levels
    ]
    return Draft(
        contract=_contract(parts, wishes, declared, open_ranges, open_levels, with_nulls, repeats, doubtful.clusters),
        study=_study(parts, wishes, taken, counted, doubtful, expect or {}),
        source=_source(columns, parts, wishes, source, doubtful.clusters),
        read=(
            *((column.name, note) for column in columns.values() if column.looks in _READ for note in column.notes),
            *_which_counts(parts),
        ),
        taken=tuple(column.name for column in taken),
        unused=unused | left_out,
        doubtful=doubtful.decide | doubtful.asked,
        questions=tuple(questions),
        with_others=tuple(name for name, value in declared.items() if value is not None and "others" in value[0]),
        reads=tuple(column.name for column in _taken(columns, parts, doubtful.clusters)),
    )


_READ = (Looks.binary, Looks.category, Looks.number, Looks.date, Looks.moment)


def _which_counts(parts: Cast) -> tuple[tuple[str, str], ...]:
    """Name the value of an outcome whose share is estimated, and the option for the other."""
    if parts.outcome_codes is None or parts.outcome_codes[1] in (True, 1, "yes"):
        return ()
    no, yes = parts.outcome_codes
    return ((parts.outcome.name, f"the answer is of the share with '{yes}'; {option(counted=no)} counts the other"),)


def _why_unused(column: Profile) -> str:
    if column.looks is Looks.date and re.search(AFTER, spoken(column.name)):
        return "a date that may come after treatment, as its name says"
    if column.looks is Looks.date:
        return "a date, and studies take numbers; `since` in source.yaml makes it a number of days"
    if column.looks is Looks.infinite:
        return f"it holds infinite values; {option(missing={column.name: ['inf', '-inf']})} reads them as missing"
    if column.looks is Looks.duration:
        return "durations; a number of days or hours could be adjusted for"
    if column.looks is Looks.moment:
        return "numbers that count time since 1970, or ids; a number of days before treatment could be adjusted for"
    if column.looks is Looks.mixed:
        return "numbers and words; say in source.yaml which words mean no value, or map them"
    if column.looks is Looks.unsaid:
        return (
            f"text, and no option says what it holds: give {option(ranges={column.name: (LOW, HIGH)})} for numbers, "
            f"{option(levels={column.name: ['A', 'B']})} for words"
        )
    if column.looks is Looks.text:
        return f"free text, or more than {MOST_LEVELS} different values"
    return f"it holds {column.looks}"


def _counted(parts: Cast, wishes: Wishes) -> tuple[str, ...]:
    """Return treatment and outcome of sensitive data, whose rows without a value are kept.

    Were they left out, the number of units, which is printed before any grant, would reveal them.
    """
    if wishes.data_class is not DataClass.sensitive:
        return ()
    return tuple(column.name for column in parts.recorded if column.name not in wishes.recorded)


def _declaration(
    column: Profile, parts: Cast, wishes: Wishes, step: float
) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Return a column's declaration in the contract, and notes; None if only the owner knows it."""
    in_the_question = column.name in (parts.treatment.name, parts.outcome.name) or column == parts.event
    nulls_allowed = column.name in _counted(parts, wishes) if in_the_question else bool(column.nulls)
    nulls = {"nulls": "indicator"} if nulls_allowed else {}
    if column.name == parts.treatment.name:
        if parts.arms:
            return {"levels": _with_names(column, tuple(map(str, parts.arms)), parts.arms, wishes)} | nulls, (
                "the arms",
            )
        return {"codes": _coded(parts.codes, "control", "treated")} | nulls, ("who was treated",)
    if parts.event is not None and column.name == parts.outcome.name:
        upper = wishes.ranges[column.name][1] if column.name in wishes.ranges else wishes.horizon
        return declared_time(upper, trial=wishes.trial, step=step) | nulls, ("longer times are at risk to the end",)
    if parts.event is not None and column.name == parts.event.name:
        levels, names = wishes.levels.get(column.name), wishes.stated.names_of(column.name)
        codes = declared_event(column, wishes.censored, levels, names, secret=wishes.data_class is DataClass.sensitive)
        return codes | nulls, ("what ended the times",)
    if column.name == parts.outcome.name and parts.outcome_codes is not None:
        return {"codes": _coded(parts.outcome_codes)} | nulls, (f"{flow(parts.outcome_codes[1])} counts as 1",)
    if column.name in wishes.level_names:
        return _said_levels(column, wishes, nulls)
    if column.looks is Looks.binary and set(column.values) in ({0, 1}, {"yes", "no"}):
        pair = (0, 1) if set(column.values) == {0, 1} else ("no", "yes")
        return {"codes": _coded(pair)} | nulls, ()
    if column.name in wishes.levels:
        # Codes of places or categories are numbers without a linear effect.
        return _said_levels(column, wishes, nulls)
    if column.name in wishes.ranges:
        lower, upper = wishes.ranges[column.name]
        return {"lower": _tidy(lower), "upper": _tidy(upper)} | nulls, ()
    if column.name != parts.outcome.name and asks_for_levels(column):
        return _levels(column, wishes, nulls)
    if wishes.data_class is DataClass.sensitive:
        return None
    lower, upper = outward(column.lower, column.upper)
    return {"lower": lower, "upper": upper} | nulls, (f"range {FROM_DATA}",)


def asks_for_levels(column: Profile) -> bool:
    """Check whether a covariate holds words or category codes, whose list is the owner's."""
    holds_words = column.looks in (Looks.binary, Looks.category) and isinstance(column.values[0], str)
    return (holds_words and set(column.values) != {"yes", "no"}) or column.of_kinds


def _levels(column: Profile, wishes: Wishes, nulls: dict[str, str]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    if wishes.data_class is DataClass.sensitive:
        return None
    if not column.of_kinds:
        return {"levels": list(column.values)} | nulls, (f"levels {FROM_DATA}",)
    if not column.levels:
        # More categories than are listed: no covariate, and declared as numbers.
        lower, upper = outward(column.lower, column.upper)
        return {"lower": lower, "upper": upper} | nulls, (f"range {FROM_DATA}",)
    quantity = f"{{lower: {column.lower:g}, upper: {column.upper:g}}}"
    question = f"category codes, judging by its name; is it a quantity? Then write {quantity}"
    return {"levels": list(column.levels)} | nulls, (f"levels {FROM_DATA}", question)


def _said_levels(column: Profile, wishes: Wishes, nulls: dict[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return levels that an option declared, with their names."""
    stated = wishes.levels[column.name]
    levels = [stored(column, level) for level in stated]
    listed = {"levels": _with_names(column, stated, levels, wishes)}
    if wishes.data_class is DataClass.sensitive:
        # A draft must not reveal other values of the rows.
        return listed | {"others": "other"} | nulls, ("take `others` out if no other value is possible",)
    values_held = set(column.levels or column.values)
    complete = bool(values_held) and values_held <= set(levels)
    return listed | ({} if complete else {"others": "other"}) | nulls, ()


def _with_names(
    column: Profile, stated: Sequence[str], levels: Sequence[Value], wishes: Wishes
) -> dict[str, Value] | list[Value]:
    """Return levels as a contract has them: a mapping of names where each has one, else a list."""
    names = wishes.stated.names_of(column.name)
    if any(word not in names for word in stated):
        return list(levels)
    return {names[word]: level for word, level in zip(stated, levels, strict=True)}


def _coded(pair: tuple[Value, Value], *names: str) -> dict[str, Value]:
    """Return a contract's codes, truth values as 0 and 1, by names or by no and yes."""
    codes = (int(code) if isinstance(code, bool) else code for code in pair)
    return dict(zip(names or ("no", "yes"), codes, strict=True))


def outward(lower: float, upper: float) -> tuple[int | float, int | float]:
    """Return a range that contains [lower, upper], rounded outward to two digits of its width."""
    width = max(upper - lower, abs(upper) * 1e-6, 1e-6)
    step = 10.0 ** (math.floor(math.log10(width)) - 1)
    low, high = math.floor(lower / step) * step, math.ceil(upper / step) * step
    return _tidy(low), _tidy(high if high > low else low + step)


def _tidy(value: float) -> int | float:
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _contract(
    parts: Cast,
    wishes: Wishes,
    declared: dict[str, tuple[dict[str, Any], tuple[str, ...]] | None],
    open_ranges: list[str],
    open_levels: list[str],
    with_nulls: set[str],
    repeats: Repeats | None,
    clusters: GivenBy | None,
) -> str:
    secret = wishes.data_class is DataClass.sensitive
    lines = [
        *comment("What the owner of the data declares and allows. Drafted by `causalveil init`: read it line by line."),
        f"dataset: {scalar(wishes.name)}",
        f"data_class: {wishes.data_class}  # public | synthetic | sensitive",
        f"unit: {scalar(parts.unit.name)}  # who is protected",
        *_blocks(wishes),
        *comment("Numbers are clipped to their range, always; with `nulls: indicator` a value may be missing."),
        *(
            comment("In sensitive data any column may have missing values, unless the owner says that it never has.")
            if secret
            else []
        ),
        *comment("With `levels: {never: 1, former: 2}` for `levels: [1, 2]` reports show names in place of codes."),
        *comment("With `unit_of_measure: days` panel, report and figures say in what a number is measured."),
        "columns:",
    ]
    for name, declaration in declared.items():
        if declaration is not None:
            lines += entry(name, *declaration)
    drafted = [
        name
        for name, declaration in declared.items()
        if declaration is not None and any(FROM_DATA in note for note in declaration[1])
    ]
    if drafted:
        lines += comment("Ranges and levels that were read off the data; take out those that you declare yourself.")
        lines.append(f"bounds_from_data: {flow(drafted)}")
    if open_levels:
        lines += comment(
            "Categories of sensitive data: write down the levels that are public knowledge, as in "
            f"{scalar(open_levels[0])}: {{levels: [a, b, c], others: other}}: {', '.join(map(scalar, open_levels))}"
        )
    if open_ranges:
        lines += comment(
            "Numbers whose range is not stated yet. A range is public knowledge, never the smallest and largest value "
            "of the data: what is possible, or what matters; values beyond it are clipped. Move each up, as in "
            f"{scalar(open_ranges[0])}: {{lower: 0, upper: 100}}, or let `causalveil ranges` find it for some budget."
        )
        lines.append("open_ranges:")
        for name in open_ranges:
            lines += entry(name, {"nulls": "indicator"} if name in with_nulls else {})
    if repeats is not None and not repeats.order:
        means = {name: "any" if name == parts.treatment.name else "mean" for name in declared}
        lines += comment(
            "A unit may have several rows: of numbers and outcomes their mean counts, as it is the unit's."
        )
        lines.append(f"{PER_UNIT}: {{aggregates: {flow(means)}}}")
    elif repeats is not None:
        sentence = "The same row may stand there twice" if repeats.copies_only else "A unit may have several rows"
        lines += comment(
            f"{sentence}: the last counts, by the order of a column. Aggregates: mean, sum, min, max, any."
        )
        if not repeats.copies_only:
            wide = flow({"wide": {parts.outcome.name: ["FIRST", "SECOND"]}})
            lines += comment(f"A change over time needs a column of each period: {wide}, and 'design' of the study.")
        lines.append(f"{PER_UNIT}: {{keep: last, order: {scalar(repeats.order)}}}")
    if clusters is not None:
        spread = math.ceil(100 * clusters.spread) / 100
        lines += comment("Clusters of units: how many there are, and how much their sizes vary (0: all of one size).")
        lines.append(f"clusters: {flow({clusters.column: {'number': clusters.number, 'spread': spread}})}")
    lines += ["public: []  # columns that are public: no noise need protect them"]
    if secret:
        lines += comment(
            "Columns for which it is public whether a person has a value. Only then may `required` in source.yaml "
            "leave out rows without one, since the number of units is public."
        )
        lines.append(f"recorded_is_public: {flow(wishes.recorded)}")
    cap = "{epsilon: 2, delta: 1.0e-5}" if secret else "{epsilon: 10, delta: 1.0e-4}"
    lines += [*comment("How much may be asked in all, over the life of the data."), "caps:", f"  sample: {cap}"]
    if secret:
        lines += comment(
            "Sensitive data are granted by their owner's signature: `causalveil owner key` prints a line for here."
        )
    return "\n".join(lines) + "\n"


def _blocks(wishes: Wishes) -> list[str]:
    if wishes.key is None:
        return []
    return [
        *comment(
            f"Each {wishes.key.step} is a block. One account holds for all while a unit may have rows in two; with "
            "`units_span: false`, the owner's word that none has, each has a budget of its own, and series pool them."
        ),
        f"blocks: {{key: {wishes.key.name}, units_span: true}}",
    ]


def _newest(wishes: Wishes) -> list[str]:
    if wishes.key is None:
        return []
    first = scalar(wishes.key.first)
    return [f"data: {{select: {{newest: 1}}}}  # or {{blocks: [{first}]}}, or {{from: {first}, to: ...}}"]


def _study(
    parts: Cast,
    wishes: Wishes,
    covariates: Iterable[Profile],
    counted: tuple[str, ...],
    doubtful: Doubts,
    expect: Mapping[str, float],
) -> str:
    names = [column.name for column in covariates]
    name = f"{wishes.name}-{slug(parts.outcome.name)}"[:80]
    lines = [
        *comment("What the analyst asks. Drafted by `causalveil init`."),
        "kind: effect",
        f"name: {scalar(name)}",
        *_newest(wishes),
        *_asked(parts, wishes, adjusts=bool(names)),
        *_covariates(names, doubtful, parts),
        *_terms(covariates),
        *_within(parts),
        *_unrecorded(parts, counted),
        *_clusters(parts, doubtful.clusters, wishes),
        "estimand: ATE",
        *_estimator(parts, wishes, names),
        f"privacy: {{epsilon: {wishes.epsilon}, delta: {wishes.delta}, level: sample}}",
        "confidence: 0.95",
        *_expect(expect),
    ]
    return "\n".join(lines) + "\n"


def _expect(expect: Mapping[str, float]) -> list[str]:
    """Write the facts of the rows that a plan should expect."""
    if not expect:
        return []
    sentence = "What the rows say, for `causalveil plan` alone: it changes no answer."
    return [*comment(sentence), f"expect: {flow(dict(expect))}"]


def _clusters(parts: Cast, clusters: GivenBy | None, wishes: Wishes) -> list[str]:
    """Write the line of clusters that were treated whole; for sensitive data ask for them."""
    if clusters is None:
        asks = f"Was treatment given to each {parts.unit.name} by itself, or to all of a school, clinic or household? "
        asks += "docs/how-to/clusters.md says how intervals allow for correlation within them."
        return comment(asks) if wishes.data_class is DataClass.sensitive and not wishes.each_alone else []
    settings: dict[str, Any] = {"column": clusters.column, "treated": clusters.of_arms[parts.codes[1]]}
    if clusters.constant:
        settings["constant"] = list(clusters.constant)
    sentence = f"Treatment was given by {clusters.column} ({clusters.number} of them), not by {parts.unit.name}."
    return [*comment(sentence), f"clusters: {flow(settings)}"]


def _covariates(names: list[str], doubtful: Doubts, parts: Cast) -> list[str]:
    """Write the lines of the covariates; none if times of the arms are compared unadjusted."""
    if parts.event is not None and not names:
        return []
    if not names:
        return [*comment("Treatment was randomised, and the arms are compared as they are."), "covariates: []"]
    return [
        *comment(
            "What was known before treatment and bears on both treatment and outcome. Take out whatever treatment may "
            "have changed: adjusting for it hides part of the effect."
        ),
        f"covariates: {flow(names)}",
        *(
            line
            for name, reason in doubtful.decide.items()
            for line in comment(f"Decide yourself: {scalar(name)}: {reason}.")
        ),
    ]


# Effects of age are seldom linear.
_AGE = re.compile(r"(^|_)age($|_)", re.IGNORECASE)


def _terms(covariates: Iterable[Profile]) -> list[str]:
    """Offer the square of an age, as a comment."""
    ages = [column.name for column in covariates if column.looks is Looks.number and _AGE.search(column.name)]
    if not ages or not ages[0].isidentifier():
        return []
    age = ages[0]
    return [f'# terms: ["{age}^2"]  # or ns({age}, 4), {age} > 65, sex:{age}: non-linear terms to adjust for']


def _asked(parts: Cast, wishes: Wishes, adjusts: bool) -> list[str]:
    """Write treatment and outcome, as a study names them."""
    treatment, outcome = scalar(parts.treatment.name), scalar(parts.outcome.name)
    lines = [f"treatment: {treatment}  # {flow(parts.codes[1])} means treated"]
    if parts.arms:
        reference = f"arms: {{reference: {flow(parts.arms[0])}}}  # each other arm is compared with it"
        lines = [f"treatment: {treatment}", reference]
    if parts.event is not None:
        several = bool(parts.arms) or parts.subgroups is not None
        return lines + asked_times(parts.outcome.name, parts.event.name, wishes.horizon, adjusts, several)
    return [*lines, f"outcome: {{name: {outcome}}}"]


def _within(parts: Cast) -> list[str]:
    """Write who is eligible, the subgroups, and the measures of effects."""
    lines = []
    if parts.where:
        lines += [
            *comment("Who is eligible: all of these must hold; a unit without a value in one of the columns is not."),
            "where:",
        ]
        lines += [f"  - {flow(dict(condition))}" for condition in parts.where]
    if parts.subgroups is not None:
        lines.append(f"subgroups: {scalar(parts.subgroups.name)}  # an answer for each of its levels")
    return [*lines, *([f"measure: {flow(parts.measures)}"] if parts.measures else [])]


def _estimator(parts: Cast, wishes: Wishes, names: list[str]) -> list[str]:
    trial = {"trial": True} if wishes.trial else {}
    if parts.measures or (parts.event is None and parts.arms and not names):
        return [f"estimator: {flow({'name': 'difference_in_means', 'trial': True})}"]
    if parts.event is not None:
        lines = [] if wishes.trial else comment("Randomised: {name: survival, trial: true}.")
        return [*lines, f"estimator: {flow({'name': 'survival'} | trial)}"]
    if parts.arms:
        return [f"estimator: {flow({'name': 'regression'} | trial)}"]
    sentence = "Chosen from public facts; `causalveil plan` says which and why."
    lot = "" if trial else " Randomised: {name: auto, trial: true}."
    return [*comment(sentence + lot), f"estimator: {flow({'name': 'auto'} | trial)}"]


def _unrecorded(parts: Cast, counted: tuple[str, ...]) -> list[str]:
    """Write the lines on units without a treatment or an outcome."""
    lines = []
    if parts.treatment.name in counted:
        lines += comment("Units without a treatment count as untreated: the effect is of being recorded as treated.")
        lines.append("missing_treatment: control")
    if parts.event is not None:
        return [*lines, *comment("Units without a time or event count as censored at the start.")] if counted else lines
    if parts.outcome.name in counted:
        lines += comment(
            "A unit without an outcome counts with the middle of its declared range (or `lower`, `upper`), and their "
            "number is not released. Two studies, by `lower` and by `upper`, show how much depends on it."
        )
        lines.append("missing_outcome: middle")
    return lines


def _taken(columns: dict[str, Profile], parts: Cast, clusters: GivenBy | None) -> list[Profile]:
    named = None if clusters is None else clusters.column
    return [
        column for column in columns.values() if column.looks in _READ or column == parts.unit or column.name == named
    ]


def _source(
    columns: dict[str, Profile], parts: Cast, wishes: Wishes, source: dict[str, Any], clusters: GivenBy | None
) -> str:
    counted = _counted(parts, wishes)
    required = [column.name for column in (parts.unit, *parts.recorded) if column.nulls and column.name not in counted]
    lines = [
        *comment("How the data are read. Drafted by `causalveil init`; `causalveil extract` reads them again."),
        f"name: {scalar(wishes.name)}",
        f"dataset: {scalar(wishes.name)}",
        f"source: {flow(source)}",
        *([] if wishes.key is None else [f"key: {flow(wishes.key.model_dump(mode='json'))}"]),
        "columns:",
    ]
    for column in _taken(columns, parts, clusters):
        reading = column.reading
        if column == parts.unit and isinstance(reading, TextReading) and reading.kind is not Kind.integer:
            # Ids are names: nothing in them is read as a number or made one with another.
            reading = TextReading(kind=Kind.text, column=reading.column)
        value: Any = (
            str(reading)
            if isinstance(reading, Kind)
            else reading.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        )
        lines += entry(column.name, value, column.notes)
    if required:
        lines += comment("Rows without a value in one of these are left out.")
        lines.append(f"required: {flow(required)}")
    return "\n".join(lines) + "\n"


def slug(name: str) -> str:
    """Return a name in characters that file names and ledgers allow."""
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower())
    return "-".join(part for part in letters.split("-") if part)[:60] or "data"
