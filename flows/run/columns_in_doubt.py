"""Columns that a draft adjusts for only where an option names them, and grouped treatment."""

from __future__ import annotations

import itertools
from dataclasses import replace

import polars as pl

from causalveil.flows.run.survey import Survey
from causalveil.schemas.clusters import FEWEST_CLUSTERS, FEWEST_OF_AN_ARM, MOST_SIZES, PER_CONSTANT, too_unlike
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import StudyError
from causalveil.schemas.hints import option
from causalveil.tasks.machine.arrays import values_of
from causalveil.tasks.start.doubts import Doubts, GivenBy, constant_within, doubts, given_by, unlike_by_lot
from causalveil.tasks.start.expected import ranked
from causalveil.tasks.start.options import told_far, told_missing
from causalveil.tasks.start.recognise import Profile, as_read
from causalveil.tasks.start.roles import Cast, Wishes, cast
from causalveil.tasks.start.times import ends_by_stem, other_time, times_in_doubt


def parts_of(survey: Survey, wishes: Wishes) -> Cast:
    """Return the parts that a draft would give, without the columns in doubt.

    Raises:
        StudyError: a wish cannot be met.
    """
    parts = cast(survey.columns, wishes)
    return first_covariates(without_doubtful(parts, doubts_of(survey, parts, wishes), wishes), wishes)


def first_covariates(parts: Cast, wishes: Wishes) -> Cast:
    """Return the parts with ``wishes.most`` covariates at most, the first by names and types."""
    if wishes.most is None or wishes.covariates is not None:
        return parts
    first = {column.name for column in ranked(parts.covariates, parts.outcome)[: wishes.most]}
    return replace(parts, covariates=tuple(column for column in parts.covariates if column.name in first))


def without_doubtful(parts: Cast, doubtful: Doubts, wishes: Wishes) -> Cast:
    """Return the parts without columns in doubt; columns that are left out are not declared.

    Raises:
        StudyError: no covariate is left.
    """
    covariates = _undoubted(parts, doubtful)
    if not covariates and parts.event is None and not wishes.trial:
        reasons = "; ".join(f"'{name}': {why}" for name, why in (doubtful.left_out | doubtful.decide).items())
        way = f"name those that count by {option('covariates')}"
        raise StudyError(f"no column is left to adjust for ({reasons}); {way}")
    barred = set(doubtful.left_out) | ({column.name for column in parts.usable} & set(wishes.without))
    barred -= parts.named
    usable = tuple(column for column in parts.usable if column.name not in barred)
    return replace(parts, covariates=covariates, usable=usable)


def _undoubted(parts: Cast, doubtful: Doubts) -> tuple[Profile, ...]:
    """Return the covariates that are not in doubt."""
    return tuple(column for column in parts.covariates if column.name not in doubtful.left_out | doubtful.decide)


def doubts_of(survey: Survey, parts: Cast, wishes: Wishes) -> Doubts:
    """Return the columns in doubt, and numbers that may stand for missing values.

    Reasons quote no value of sensitive data.
    """
    doubtful = _doubts_of_columns(survey, parts, wishes)
    if wishes.data_class is DataClass.sensitive:
        return doubtful
    groups = treated_groups(survey, parts)
    if groups is not None:
        covariates = [column for column in _undoubted(parts, doubtful) if column.name != groups.column]
        constant = constant_within(survey.frame, survey.columns[groups.column], covariates)
        room = groups.number // PER_CONSTANT
        totals = itertools.accumulate(constant.values())
        fitting = {
            name: degrees for (name, degrees), total in zip(constant.items(), totals, strict=True) if total <= room
        }
        if wishes.covariates is None:
            spare = dict.fromkeys(constant.keys() - fitting.keys(), _spare(groups))
            doubtful = replace(doubtful, decide=doubtful.decide | spare)
            constant = fitting
        groups = replace(groups, constant=constant)
    no_clusters = None if groups is None else _why_no_clusters(groups, survey, parts, wishes)
    by_group = grouped_treatment(groups, parts, no_clusters)
    doubtful = replace(doubtful, clusters=None if no_clusters else groups)
    if wishes.covariates is None:
        left_out = {name: why for name, why in doubtful.left_out.items() if name not in by_group}
        doubtful = replace(doubtful, left_out=left_out, decide=doubtful.decide | by_group)
    else:
        doubtful = replace(doubtful, asked=doubtful.asked | by_group)
    used = (parts.outcome, *_undoubted(parts, doubtful))
    codes = {
        column.name: why
        for column in used
        if column.name not in wishes.levels and (why := told_missing(column, survey.values(column))) is not None
    }
    return replace(doubtful, asked=doubtful.asked | codes)


def treated_groups(survey: Survey, parts: Cast) -> GivenBy | None:
    """Return the groups by which treatment was given; None: it was given row by row."""
    if parts.arms:
        return None
    taken = {column.name for column in (parts.unit, *parts.recorded)}
    free = (column for column in survey.columns.values() if column.name not in taken)
    unit, treatment = (survey.columns[column.name] for column in (parts.unit, parts.treatment))
    return given_by(survey.frame, free, unit, treatment)


def _why_no_clusters(groups: GivenBy, survey: Survey, parts: Cast, wishes: Wishes) -> str | None:
    """Return why a draft declares no clusters where groups were treated whole; None: it does."""
    ids = survey.ids(parts.unit)
    if wishes.each_alone:
        return f"{option('each_alone')} says so"
    if groups.number < FEWEST_CLUSTERS or groups.fewer < FEWEST_OF_AN_ARM:
        return f"they need {FEWEST_CLUSTERS} groups, and {FEWEST_OF_AN_ARM} of each arm"
    if groups.spread > MOST_SIZES:
        return too_unlike(groups.spread)
    if sum(groups.constant.values()) * PER_CONSTANT > groups.number:
        return f"{', '.join(map(repr, groups.constant))}: {_spare(groups)}"
    if wishes.covariates is not None and groups.column in {column.name for column in parts.covariates}:
        return f"{option('covariates')} names it, and no covariate is a cluster"
    if wishes.means or wishes.last_by or wishes.key is not None or ids.n_unique() < len(ids):
        return "they need one row of each unit, and no blocks"
    drafted = parts.event is None and not parts.where and parts.subgroups is None and not parts.measures
    if not drafted or float(wishes.delta) <= 0 or parts.codes[1] not in groups.of_arms:
        return "write them yourself where the study takes them (docs/how-to/clusters.md)"
    return None


def _spare(groups: GivenBy) -> str:
    """Say why no more covariates are adjusted for that are constant within groups."""
    return f"the same for all of one '{groups.column}', and each such degree of freedom takes {PER_CONSTANT} groups"


def grouped_treatment(groups: GivenBy | None, parts: Cast, no_clusters: str | None) -> dict[str, str]:
    """Return the column by whose groups treatment was given, with the consequence; else nothing.

    ``no_clusters``: why no clusters are drafted; None where they are.
    """
    if groups is None:
        return {}
    name, number = groups.column, groups.number
    consequence = (
        f"intervals that count each unit by itself would be far too narrow, so `clusters: {name}` is drafted; "
        f"{option(each_alone=True)} takes it out"
    )
    if no_clusters is not None:
        consequence = (
            "intervals count each unit by itself and are far too narrow where units of a group are correlated (in a "
            f"simulation of 30 schools 6 of 15 held); no `clusters` are drafted: {no_clusters}"
        )
    elif groups.without:
        consequence += (
            f"; {groups.without:,} units have no '{name}', each counts as one, and the interval is wider for it"
        )
    return {
        name: f"treatment was given by it ({number} groups, {groups.fewer} in the smaller arm), not by "
        f"'{parts.unit.name}': {consequence}; {option(unit=name, means=True)} compares whole groups, with the noise of "
        f"a study of {number} units, as `causalveil plan` says"
    }


def _doubts_of_columns(survey: Survey, parts: Cast, wishes: Wishes) -> Doubts:
    """Return the columns that a study adjusts for only where an option names them."""
    if parts.event is not None:
        return _doubts_of_times(survey, parts, parts.event, wishes)
    timed = times_in_doubt(
        column for column in survey.columns.values() if column.name not in (parts.unit.name, parts.treatment.name)
    )
    outcome = {name: why for name, why in timed.items() if name == parts.outcome.name}
    if wishes.covariates is not None:
        return Doubts({}, {}, outcome)
    doubtful = doubts(
        survey.frame,
        parts.covariates,
        parts.unit,
        parts.treatment,
        parts.outcome,
        wishes.data_class,
        wishes.levels,
        wishes.ranges,
    )
    # A time that every unit has comes after treatment, and so does what ended it.
    later = {
        column.name: timed[column.name]
        for column in parts.covariates
        if column.name in timed and column.name not in doubtful.left_out
    }
    asked = {name: why for name, why in doubtful.asked.items() if name not in later}
    return Doubts(doubtful.left_out, doubtful.decide | later, asked | outcome)


def _doubts_of_times(survey: Survey, parts: Cast, event: Profile, wishes: Wishes) -> Doubts:
    """Return the columns in doubt by the time and by its event, and other times and events."""
    if wishes.covariates is not None:
        return Doubts({}, {}, {})
    candidates = {column.name: column for column in parts.covariates if column.name != event.name}
    by_time, by_event = (
        doubts(
            survey.frame,
            tuple(candidates.values()),
            parts.unit,
            parts.treatment,
            outcome,
            wishes.data_class,
            wishes.levels,
            wishes.ranges,
        )
        for outcome in (parts.outcome, event)
    )
    left_out = by_time.left_out | by_event.left_out
    frame = None if wishes.data_class is DataClass.sensitive else survey.frame
    ended = ends_by_stem(survey.columns.values())
    later = {name: _ended(time) for name, time in ended.items() if name in candidates}
    later |= {name: why for name, column in candidates.items() if (why := other_time(column, parts.outcome, frame))}
    # "rec.s" ends "rec" as "srv.s" ends "srv".
    ending = event.name.removeprefix(parts.outcome.name)
    later |= {f"{time}{ending}": _ended(time) for time in later if f"{time}{ending}" in candidates}
    decide = {name: why for name, why in (by_time.decide | by_event.decide | later).items() if name not in left_out}
    return Doubts(left_out, decide, {name: why for name, why in by_time.asked.items() if name not in decide})


def _ended(time: str) -> str:
    return f"by its name what ended '{time}': it may come after treatment"


def near_ranges(survey: Survey, parts: Cast, wishes: Wishes) -> tuple[Cast, dict[str, str]]:
    """Return the parts with ranges without far values, and by column which values are far."""
    reasons, ends = dict[str, str](), dict[str, tuple[float, float]]()
    for column in (*([parts.outcome] if parts.event is None else []), *parts.covariates):
        if column.name not in {*wishes.ranges, *wishes.levels}:
            far = told_far(column, survey.values(column))
            if far is not None:
                reasons[column.name], ends[column.name] = far

    def near(column: Profile) -> Profile:
        lower, upper = ends.get(column.name, (column.lower, column.upper))
        return replace(column, lower=lower, upper=upper)

    covariates, usable = (tuple(map(near, columns)) for columns in (parts.covariates, parts.usable))
    return replace(parts, outcome=near(parts.outcome), covariates=covariates, usable=usable), reasons


def doubts_by_arms(survey: Survey, parts: Cast, wishes: Wishes, doubtful: Doubts) -> dict[str, str]:
    """Return doubts about treatment: it varies within units, or a trial's arms are too unlike.

    Arms of clusters that were drawn whole differ by more than those of units that were drawn separately.
    """
    reasons = {}
    if (varies := varying_treatment(survey.frame, parts, wishes)) is not None:
        reasons[parts.treatment.name] = varies
    if wishes.trial and not parts.arms and doubtful.clusters is None:
        reasons |= unlike_by_lot(survey.frame, _undoubted(parts, doubtful), parts.treatment, parts.codes[1])
    return reasons


def varying_treatment(frame: pl.DataFrame, parts: Cast, wishes: Wishes) -> str | None:
    """Say that treatment varies within units; None: it does not, or means of rows count."""
    if wishes.means:
        return None
    columns = {"unit": values_of(frame, parts.unit.source_name), "arm": as_read(frame, parts.treatment)}
    arms = pl.DataFrame(columns).drop_nulls().group_by("unit").agg(pl.col("arm").n_unique())["arm"]
    several = int((arms > 1).sum())
    if not several:
        return None
    return (
        f"'{parts.treatment.name}' varies within '{parts.unit.name}', in {several:,} of {len(arms):,} units: only "
        f"the arm in the row that is kept is compared. {option(where=['COLUMN == VALUE'])} restricts the study to one "
        "time; this design does not handle treatment that begins at different times"
    )
