"""Questions of `causalveil init` in a terminal.

Where there is no terminal to ask in, one sentence names what is missing.

Each answer is checked when it is given and asked again if it is wrong. Answers are kept in a file beside the folder
that they are for, so that the same command goes on after an interruption. The file holds names and values that study
and contract would hold, no address of a source, and goes when the folder is written.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from causalveil.flows.cli.show import listed
from causalveil.schemas.errors import StudyError

if TYPE_CHECKING:
    from causalveil.flows.run.survey import Survey
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.start.recognise import Profile
    from causalveil.tasks.start.roles import Wishes


EACH_ROW = "each row"
YES, NO = ("yes", "y"), ("no", "n", "")


def data_class(text: str) -> DataClass:
    """Return the class that a person named.

    Raises:
        StudyError: it is none.
    """
    from causalveil.schemas.contract import DataClass

    if text.strip().lower() not in list(DataClass):
        raise StudyError("--data-class is public, synthetic or sensitive")
    return DataClass(text.strip().lower())


def refuse_unstated(survey: Survey, stated: Mapping[str, str | None]) -> None:
    """Refuse options without a value where no person can be asked.

    Raises:
        StudyError: names every option that is missing, with the columns that there are.
    """
    missing = [f"--{key.replace('_', '-')}" for key, value in stated.items() if value is None]
    if missing:
        columns = ", ".join(f"'{name}'" for name in list(survey.columns)[:30])
        alone = " (or --each-row, if none names people)" if "--unit" in missing else ""
        raise StudyError(f"say {' and '.join(missing)}{alone}; the columns are {columns}")


class Answers:
    """Answers that were given, in a file beside the folder that they are for."""

    def __init__(self, folder: Path, columns: Mapping[str, Profile]) -> None:
        """Read the answers that were given before about a table with these columns, for this folder."""
        self._path = folder.resolve().parent / f".{folder.resolve().name}.answers.json"
        # Answers about a table of other columns are not read.
        self._columns = hashlib.sha256(json.dumps(list(columns)).encode()).hexdigest()
        self._given: dict[str, str] = self._stored()
        if self._given:
            typer.echo(f"Going on with the answers in {self._path}; remove it to begin anew.", err=True)

    def _stored(self) -> dict[str, str]:
        from causalveil.schemas.documents import read_regular

        try:
            document = json.loads(read_regular(self._path))
            given = document["answers"] if document["columns"] == self._columns else {}
            return {key: value for key, value in given.items() if isinstance(value, str)}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def ask(self, key: str, question: str, check: Callable[[str], object], default: str | None = "") -> str:
        """Return the answer to a question, given before or now, that passes its check.

        Args:
            key: of the question.
            question: the sentence that is shown.
            check: raises where an answer is wrong.
            default: what an empty answer means; None: there is no empty answer.
        """
        from causalveil.tasks.machine.files import write_whole

        before = self._given.get(key)
        if before is not None and _holds(check, before):
            typer.echo(f"{question} {before}", err=True)
            return before
        # A handler of polars has the system go on reading after Ctrl-C, which then waits for the next line.
        signal.siginterrupt(signal.SIGINT, True)
        while True:
            shown = bool(default)
            answer = str(typer.prompt(question, default=default, show_default=shown, err=True)).strip()
            if _holds(check, answer):
                break
        self._given[key] = answer
        document = json.dumps({"columns": self._columns, "answers": self._given}, ensure_ascii=False)
        write_whole(self._path, document, private=True)
        return answer

    def options(self, wishes: Wishes) -> str:
        """Return the options that give the same answers."""
        options: list[str] = []
        for key, answer in self._given.items():
            part, _, column = key.partition(" ")
            if key == "unit" and answer == EACH_ROW:
                options.append("--each-row")
            elif key == "trial":
                options += ["--trial"] if answer.casefold() in YES else []
            elif key == "ratios":
                options += ["--measure", "ratio,odds_ratio"] if answer.casefold() in YES else []
            elif key == "covariates" and answer.casefold() == "none":
                options += ["--covariates", ""]
            elif key == "key" and wishes.key is not None:
                options += ["--key", f"{answer}={wishes.key.step}"]
            elif answer and key != "treated":
                value = f"{column}={answer}" if part in ("range", "levels", "written") else answer
                options += [f"--{part.replace('_', '-')}", value]
        if wishes.event is not None:
            options += ["--event", wishes.event]
        if wishes.treated is not None:
            options += ["--treated", wishes.treated]
        return shlex.join(options)

    def forget(self) -> None:
        """Remove the file, whose answers are in the drafts."""
        self._path.unlink(missing_ok=True)


def _holds(check: Callable[[str], object], answer: str) -> bool:
    try:
        check(answer)
    except StudyError as problem:
        typer.echo(f"  {problem}", err=True)
        return False
    return True


def complete(survey: Survey, wishes: Wishes, classed: bool, answers: Answers) -> tuple[Survey, Wishes]:
    """Ask for what no option states, question after question.

    Args:
        survey: the table.
        wishes: what options state; a part that none names is empty.
        classed: whether an option states how the data are classed.
        answers: answers from before, and the file that takes new ones.

    Returns:
        The table, with numbers of rows if each row is a unit, and the completed wishes.
    """
    if not classed:
        question = "How does the owner class the data: public, synthetic or sensitive?"
        wishes = replace(wishes, data_class=data_class(answers.ask("data_class", question, data_class, None)))
    if not wishes.unit:
        survey, wishes = _unit(survey, wishes, answers)
    wishes = _outcome(survey, _treatment(survey, wishes, answers), answers)
    if wishes.event is None:
        wishes = _times(survey, wishes, answers)
    wishes = _blocks(survey, wishes, answers)
    wishes = _adjusted(survey, wishes, answers)
    return survey, _declared(survey, wishes, answers)


def _unit(survey: Survey, wishes: Wishes, answers: Answers) -> tuple[Survey, Wishes]:
    from causalveil.flows.run.survey import ROW, numbered
    from causalveil.tasks.start.roles import unit_candidates, unit_of

    candidates = unit_candidates(survey.columns)
    _shown(candidates)
    if not candidates:
        typer.echo(f"  no column has another value in each row; answer '{EACH_ROW}' if each row is a person", err=True)
    question = f"Which column identifies the protected person ('{EACH_ROW}': none does, each row is one)?"
    default = candidates[0] if candidates else None

    def check(answer: str) -> object:
        return numbered(survey) if answer == EACH_ROW else unit_of(survey.columns, answer)

    answer = answers.ask("unit", question, check, default)
    if answer == EACH_ROW:
        return numbered(survey), replace(wishes, unit=ROW)
    return survey, replace(wishes, unit=answer)


def _treatment(survey: Survey, wishes: Wishes, answers: Answers) -> Wishes:
    """Ask who was treated, which value says so where words do not, and how it came about."""
    from causalveil.tasks.start.roles import treatment_of

    def with_treatment(answer: str) -> Wishes:
        completed = replace(wishes, treatment=answer)
        treatment = treatment_of(survey.columns, completed, named=False)
        return replace(completed, arms=True) if treatment.distinct > 2 else completed

    if wishes.treatment:
        wishes = with_treatment(wishes.treatment) if wishes.arms else wishes
    else:
        _shown(_candidates(survey, "treatment", (wishes.unit,)))
        question = "Which column says who was treated, or names the arms?"
        wishes = with_treatment(answers.ask("treatment", question, with_treatment, None))
    wishes = _coded(survey, wishes, wishes.treatment, "Which values does '{}' hold, the control first, A,B?", answers)
    values = treatment_of(survey.columns, wishes, named=False).levels
    if wishes.arms and wishes.reference is None:
        _shown(map(str, values))

        def reference(answer: str) -> object:
            return treatment_of(survey.columns, replace(wishes, reference=answer))

        answer = answers.ask("reference", "Which arm are the others compared with?", reference, None)
        wishes = replace(wishes, reference=answer)
    elif not wishes.arms and not _treated_is_plain(survey, wishes):
        _shown(map(str, survey.columns[treatment_of(survey.columns, wishes, named=False).name].values))

        def treated(answer: str) -> object:
            return treatment_of(survey.columns, replace(wishes, treated=answer))

        wishes = replace(wishes, treated=answers.ask("treated", "Which value means treated?", treated, None))
    if not wishes.trial:
        answer = answers.ask("trial", "Was treatment randomised: yes or no?", _yes_or_no, "no")
        wishes = replace(wishes, trial=answer.casefold() in YES)
    return wishes


def _coded(survey: Survey, wishes: Wishes, name: str, question: str, answers: Answers) -> Wishes:
    """Ask for the values of a sensitive treatment or event, unless they are yes, no or 1, 0.

    The second of two values means treated.
    """
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.start.roles import column_of

    column = column_of(survey.columns, name, "levels")
    usual = set(column.values) in ({0, 1}, {"yes", "no"})
    if wishes.data_class is not DataClass.sensitive or usual or column.name in wishes.levels:
        return wishes
    _shown(map(str, column.values or column.levels), "values, shown to you alone")
    levels = _two_or_more(answers.ask(f"levels {column.name}", question.format(column.name), _two_or_more, None))
    treated = wishes.treated
    if len(levels) == 2 and treated is None and name == wishes.treatment:
        treated = levels[1]
    return replace(wishes, levels={**wishes.levels, column.name: levels}, treated=treated)


def _treated_is_plain(survey: Survey, wishes: Wishes) -> bool:
    """Return whether the values of the treatment say which of them means treated."""
    from causalveil.tasks.start.roles import treatment_of

    try:
        treatment_of(survey.columns, wishes)
    except StudyError:
        return False
    return True


def _outcome(survey: Survey, wishes: Wishes, answers: Answers) -> Wishes:
    from causalveil.tasks.start.roles import outcome_of

    if wishes.outcome:
        return wishes
    _shown(_candidates(survey, "outcome", (wishes.unit, wishes.treatment)))

    def check(answer: str) -> object:
        return outcome_of(survey.columns, replace(wishes, outcome=answer))

    return replace(wishes, outcome=answers.ask("outcome", "Which column is the outcome?", check, None))


def _times(survey: Survey, wishes: Wishes, answers: Answers) -> Wishes:
    """Ask whether the outcome is a time to an event, and until when times are compared."""
    from causalveil.tasks.start.times import times_among

    event = times_among(survey.columns.values()).get(wishes.outcome)
    if event is None:
        return wishes
    typer.echo(f"  '{wishes.outcome}' looks like a time to an event, which '{event}' names", err=True)
    question = "Compare times until when? Empty: it is a plain number"
    answer = answers.ask("horizon", question, lambda text: text and _positive(text))
    if not answer:
        return wishes
    wishes = replace(wishes, event=event, horizon=_positive(answer))
    return _coded(survey, wishes, event, "Which codes may '{}' hold, A,B,C?", answers)


def _blocks(survey: Survey, wishes: Wishes, answers: Answers) -> Wishes:
    """Ask which column cuts rows into blocks, where files are named by periods."""
    from causalveil.tasks.start.times import key_of, periods_of, refuse_no_dates

    names = survey.file_names
    periods = periods_of(names)
    if wishes.key is not None or periods is None:
        return wishes
    step = periods[0]

    def check(answer: str) -> None:
        if answer:
            refuse_no_dates(key_of(f"{answer}={step}", survey.columns, names), survey.columns)

    question = f"Is each {step} a block, charged by itself? By which column of dates? Empty: all rows are one"
    answer = answers.ask("key", question, check)
    return replace(wishes, key=key_of(f"{answer}={step}", survey.columns, names)) if answer else wishes


def _adjusted(survey: Survey, wishes: Wishes, answers: Answers) -> Wishes:
    """Ask what to adjust for, of whom the study is, and how effects are measured."""
    from causalveil.flows.run.columns_in_doubt import parts_of
    from causalveil.tasks.start.roles import cast

    def check(completed: Wishes) -> object:
        return cast(survey.columns, completed)

    # Times of subgroups and of several arms are compared without adjustment.
    unadjusted = wishes.event is not None and (wishes.arms or wishes.subgroups is not None)
    if wishes.covariates is None and not wishes.without and not unadjusted:
        try:
            covariates = parts_of(survey, wishes).covariates
            _shown([column.name for column in covariates], "covariates that are not in doubt")
        except StudyError as problem:
            typer.echo(f"  {problem}", err=True)
        question = "Covariates, A,B,C (empty: these; none: no column)"
        answer = answers.ask("covariates", question, lambda text: check(_chosen(wishes, text)))
        wishes = _chosen(wishes, answer)
    if not wishes.where:
        conditions = _conditions(answers, lambda text: check(replace(wishes, where=(text,))))
        wishes = replace(wishes, where=conditions)
    if wishes.subgroups is None and (wishes.event is None or not cast(survey.columns, wishes).covariates):
        question = "Subgroups by the levels of which column? Empty: none"
        answer = answers.ask("subgroups", question, lambda text: not text or check(replace(wishes, subgroups=text)))
        wishes = replace(wishes, subgroups=answer or None)
    if (
        wishes.event is None
        and wishes.trial
        and not wishes.measures
        and cast(survey.columns, wishes).outcome.distinct == 2
    ):
        answer = answers.ask("ratios", "Risk and odds ratios as well: yes or no?", _yes_or_no, "no")
        wishes = replace(wishes, measures=("ratio", "odds_ratio") if answer.casefold() in YES else ())
    return wishes


def _conditions(answers: Answers, check: Callable[[str], object]) -> tuple[str, ...]:
    conditions: list[str] = []
    question = "Who is eligible, as in age >= 25? Empty: all units"
    while answer := answers.ask(f"where {len(conditions) + 1}", question, lambda text: not text or check(text)):
        conditions.append(answer)
        question = "And? Empty: no more"
    return tuple(conditions)


def _chosen(wishes: Wishes, answer: str) -> Wishes:
    if answer.strip().casefold() == "none":
        return replace(wishes, covariates=())
    names = listed(answer)
    return replace(wishes, covariates=names) if names else wishes


def _declared(survey: Survey, wishes: Wishes, answers: Answers) -> Wishes:
    """Ask for ranges, levels and spellings of sensitive data, and which are never missing.

    An empty answer leaves one open.
    """
    from causalveil.flows.run.columns_in_doubt import parts_of
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.start.recognise import Looks
    from causalveil.tasks.start.roles import column_of, resolved
    from causalveil.tasks.start.stated import example_of, not_plain

    if wishes.data_class is not DataClass.sensitive:
        return wishes
    parts, wishes = parts_of(survey, wishes), resolved(survey.columns, wishes)
    ranges, levels, written = dict(wishes.ranges), dict(wishes.levels), dict(wishes.written)
    restricted = [survey.columns[name] for name in sorted(parts.named - {column.name for column in parts.covariates})]
    # Times have their horizon for a range.
    for column in (*([parts.outcome] if parts.event is None else []), *parts.covariates, *restricted):
        name, is_number = column.name, column.looks is Looks.number
        if is_number and name not in ranges and (column is parts.outcome or not column.of_kinds):
            question = f"Range of '{name}' from public knowledge, LOW:HIGH (empty: later)"
            answer = answers.ask(f"range {name}", question, lambda text: text and _ends(text))
            if answer:
                ranges[name] = _ends(answer)
        elif (not is_number or column.of_kinds) and name not in {*levels, *ranges}:
            usual = {frozenset({0, 1}): "0,1", frozenset({"no", "yes"}): "no,yes"}.get(frozenset(column.values), "")
            question = f"Levels of '{name}' that are public knowledge, A,B,C or NAME:A,NAME:B (empty: later)"
            answer = answers.ask(f"levels {name}", question, lambda text: text and _two_or_more(text), usual)
            if answer:
                levels[name] = _two_or_more(answer)
        if is_number and name not in {*written, *levels}:
            example = example_of(not_plain(survey.frame, column))
            if example is not None:
                question = f"How is '{name}' written? An invented example"
                written[name] = (answers.ask(f"written {name}", question, str, example),)
    wishes = replace(wishes, ranges=ranges, levels=levels, written=written)
    if not wishes.never_missing and parts.covariates:
        question = "Which covariates are never missing for any person, A,B? Empty: any may be missing"

        def never(text: str) -> object:
            return resolved(survey.columns, replace(wishes, never_missing=listed(text)))

        wishes = replace(wishes, never_missing=listed(answers.ask("never_missing", question, never)))
    ids = survey.ids(parts.unit)
    if wishes.last_by is None and ids.n_unique() < len(ids):
        question = f"Some units of '{parts.unit.name}' have several rows. By which column is the last, which counts?"

        def order(text: str) -> object:
            return column_of(survey.columns, text, "last_by")

        wishes = replace(wishes, last_by=answers.ask("last_by", question, order, None))
    return wishes


def _ends(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        lower, upper = float(low), float(high)
    except ValueError:
        raise StudyError("a range is two numbers, as in 0:110") from None
    if not lower < upper:
        raise StudyError("the first number of a range is below the second, as in 0:110")
    return lower, upper


def _two_or_more(text: str) -> tuple[str, ...]:
    if len(set(listed(text))) < 2:
        raise StudyError("levels are two words or more, as in north,south")
    return listed(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise StudyError("a horizon is a number above 0, as in 365")
    return value


def _yes_or_no(text: str) -> None:
    if text.casefold() not in (*YES, *NO):
        raise StudyError("answer yes or no")


def _shown(names: Iterable[str], what: str = "columns") -> None:
    shown = list(names)
    if shown:
        typer.echo(f"  {what}: {', '.join(shown[:20])}{', ...' if len(shown) > 20 else ''}", err=True)


def _candidates(survey: Survey, key: str, taken: tuple[str, ...]) -> list[str]:
    """Return the columns that may play a part."""
    from causalveil.tasks.start.recognise import Looks

    kinds = {"treatment": (Looks.binary,), "outcome": (Looks.number, Looks.binary)}[key]
    return [column.name for column in survey.columns.values() if column.looks in kinds and column.name not in taken]
