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

from causalveil.schemas.errors import StudyError

if TYPE_CHECKING:
    from causalveil.flows.run.start import Survey
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.start.recognise import Found
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


def said(seen: Survey, known: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the answers where no person can be asked.

    Raises:
        StudyError: names every option that is missing, with the columns that there are.
    """
    missing = [f"--{key.replace('_', '-')}" for key, value in known.items() if value is None]
    if missing:
        columns = ", ".join(f"'{name}'" for name in list(seen.found)[:30])
        alone = " (or --each-row, if none names people)" if "--unit" in missing else ""
        raise StudyError(f"say {' and '.join(missing)}{alone}; the columns are {columns}")
    return dict(known)


class Answers:
    """Answers that were given, in a file beside the folder that they are for."""

    def __init__(self, folder: Path, found: Mapping[str, Found]) -> None:
        """Read what was answered before about a table with these columns, for this folder."""
        self._path = folder.resolve().parent / f".{folder.resolve().name}.answers.json"
        # Answers to questions about another table are none.
        self._columns = hashlib.sha256(json.dumps(list(found)).encode()).hexdigest()
        self._given: dict[str, str] = self._kept()
        if self._given:
            typer.echo(f"Going on with the answers in {self._path}; remove it to begin anew.", err=True)

    def _kept(self) -> dict[str, str]:
        from causalveil.schemas.documents import read_regular

        try:
            document = json.loads(read_regular(self._path))
            given = document["answers"] if document["columns"] == self._columns else {}
            return {key: value for key, value in given.items() if isinstance(value, str)}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def ask(self, key: str, question: str, check: Callable[[str], object], default: str | None = "") -> str:
        """Return the answer to a question.

        It is the one that was given before, or one that passes its check.

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
        found: list[str] = []
        for key, answer in self._given.items():
            part, _, column = key.partition(" ")
            if key == "unit" and answer == EACH_ROW:
                found.append("--each-row")
            elif key == "trial":
                found += ["--trial"] if answer.casefold() in YES else []
            elif key == "ratios":
                found += ["--measure", "ratio,odds_ratio"] if answer.casefold() in YES else []
            elif key == "covariates" and answer.casefold() == "none":
                found += ["--covariates", ""]
            elif key == "key" and wishes.key is not None:
                found += ["--key", f"{answer}={wishes.key.step}"]
            elif answer and key != "treated":
                said = f"{column}={answer}" if part in ("range", "levels", "written") else answer
                found += [f"--{part.replace('_', '-')}", said]
        known = {"--event": wishes.event, "--treated": wishes.treated}
        found += [word for option, value in known.items() if value is not None for word in (option, value)]
        return " ".join(shlex.quote(one) for one in found)

    def forget(self) -> None:
        """Remove the file: the folder holds what it held."""
        self._path.unlink(missing_ok=True)


def _holds(check: Callable[[str], object], answer: str) -> bool:
    try:
        check(answer)
    except StudyError as wrong:
        typer.echo(f"  {wrong}", err=True)
        return False
    return True


def asked(seen: Survey, wishes: Wishes, classed: bool, kept: Answers) -> tuple[Survey, Wishes]:
    """Ask for what no option said, one question after the other.

    Args:
        seen: the table.
        wishes: what options said; a part that none named is empty.
        classed: whether an option said how the data are classed.
        kept: answers from before, and the file that takes new ones.

    Returns:
        The table, with numbers of rows if each row is a unit, and all that was said.
    """
    if not classed:
        question = "How does the owner class the data: public, synthetic or sensitive?"
        wishes = replace(wishes, data_class=data_class(kept.ask("data_class", question, data_class, None)))
    if not wishes.unit:
        seen, wishes = _unit(seen, wishes, kept)
    wishes = _outcome(seen, _treatment(seen, wishes, kept), kept)
    if wishes.event is None:
        wishes = _times(seen, wishes, kept)
    wishes = _blocks(seen, wishes, kept)
    wishes = _adjusted(seen, wishes, kept)
    return seen, _declared(seen, wishes, kept)


def _unit(seen: Survey, wishes: Wishes, kept: Answers) -> tuple[Survey, Wishes]:
    from causalveil.flows.run.start import ROW, numbered
    from causalveil.tasks.start.roles import unit_candidates, unit_of

    candidates = unit_candidates(seen.found)
    _shown(candidates)
    if not candidates:
        typer.echo(f"  no column has another value in each row; answer '{EACH_ROW}' if each row is a person", err=True)
    question = f"Which column identifies the protected person ('{EACH_ROW}': none does, each row is one)?"
    default = candidates[0] if candidates else None

    def check(answer: str) -> object:
        return numbered(seen) if answer == EACH_ROW else unit_of(seen.found, answer)

    answer = kept.ask("unit", question, check, default)
    if answer == EACH_ROW:
        return numbered(seen), replace(wishes, unit=ROW)
    return seen, replace(wishes, unit=answer)


def _treatment(seen: Survey, wishes: Wishes, kept: Answers) -> Wishes:
    """Ask who was treated, which value says so where words do not, and how it came about."""
    from causalveil.tasks.start.roles import treatment_of

    def fits(answer: str) -> Wishes:
        asks = replace(wishes, treatment=answer)
        found = treatment_of(seen.found, asks, named=False)
        return replace(asks, arms=True) if found.distinct > 2 else asks

    if wishes.treatment:
        wishes = fits(wishes.treatment) if wishes.arms else wishes
    else:
        _shown(_candidates(seen, "treatment", (wishes.unit,)))
        question = "Which column says who was treated, or names the arms?"
        wishes = fits(kept.ask("treatment", question, fits, None))
    wishes = _coded(seen, wishes, wishes.treatment, "Which values does '{}' hold, the control first, A,B?", kept)
    values = treatment_of(seen.found, wishes, named=False).levels
    if wishes.arms and wishes.reference is None:
        _shown(map(str, values))

        def reference(answer: str) -> object:
            return treatment_of(seen.found, replace(wishes, reference=answer))

        answer = kept.ask("reference", "Which arm are the others compared with?", reference, None)
        wishes = replace(wishes, reference=answer)
    elif not wishes.arms and not _tells(seen, wishes):
        _shown(map(str, seen.found[treatment_of(seen.found, wishes, named=False).name].values))

        def treated(answer: str) -> object:
            return treatment_of(seen.found, replace(wishes, treated=answer))

        wishes = replace(wishes, treated=kept.ask("treated", "Which value means treated?", treated, None))
    if not wishes.trial:
        drawn = kept.ask("trial", "Was treatment randomised: yes or no?", _yes_or_no, "no")
        wishes = replace(wishes, trial=drawn.casefold() in YES)
    return wishes


def _coded(seen: Survey, wishes: Wishes, column: str, question: str, kept: Answers) -> Wishes:
    """Ask for the values of a treatment or an event of sensitive data, unless they are yes and no or 1 and 0.

    The second of two values means treated.
    """
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.start.roles import column_of

    one = column_of(seen.found, column, "levels")
    usual = set(one.values) in ({0, 1}, {"yes", "no"})
    if wishes.data_class is not DataClass.sensitive or usual or one.name in wishes.levels:
        return wishes
    _shown(map(str, one.values or one.levels), "values, shown to you alone")
    answer = kept.ask(f"levels {one.name}", question.format(one.name), _two_or_more, None)
    said = _two_or_more(answer)
    treated = said[1] if len(said) == 2 and wishes.treated is None and column == wishes.treatment else wishes.treated
    return replace(wishes, levels={**wishes.levels, one.name: said}, treated=treated)


def _tells(seen: Survey, wishes: Wishes) -> bool:
    from causalveil.tasks.start.roles import treatment_of

    try:
        treatment_of(seen.found, wishes)
    except StudyError:
        return False
    return True


def _outcome(seen: Survey, wishes: Wishes, kept: Answers) -> Wishes:
    from causalveil.tasks.start.roles import outcome_of

    if wishes.outcome:
        return wishes
    _shown(_candidates(seen, "outcome", (wishes.unit, wishes.treatment)))

    def check(answer: str) -> object:
        return outcome_of(seen.found, replace(wishes, outcome=answer))

    return replace(wishes, outcome=kept.ask("outcome", "Which column is the outcome?", check, None))


def _times(seen: Survey, wishes: Wishes, kept: Answers) -> Wishes:
    """Ask whether the outcome is a time that another column ends, and until when times are compared."""
    from causalveil.tasks.start.times import times_among

    event = times_among(seen.found.values()).get(wishes.outcome)
    if event is None:
        return wishes
    typer.echo(f"  '{wishes.outcome}' looks like a time to an event, which '{event}' names", err=True)
    question = "Compare times until when? Empty: it is a plain number"
    answer = kept.ask("horizon", question, lambda text: text and _positive(text))
    if not answer:
        return wishes
    wishes = replace(wishes, event=event, horizon=_positive(answer))
    return _coded(seen, wishes, event, "Which codes may '{}' hold, A,B,C?", kept)


def _blocks(seen: Survey, wishes: Wishes, kept: Answers) -> Wishes:
    """Ask which column cuts rows into blocks, where files are named by periods."""
    from causalveil.flows.run.start import file_names
    from causalveil.tasks.start.times import key_of, periods_of, refuse_no_dates

    names = file_names(seen)
    named = periods_of(names)
    if wishes.key is not None or named is None:
        return wishes

    def check(answer: str) -> None:
        if answer:
            refuse_no_dates(key_of(f"{answer}={named[0]}", seen.found, names), seen.found)

    question = f"Is each {named[0]} a block, charged by itself? By which column of dates? Empty: all rows are one"
    answer = kept.ask("key", question, check)
    return replace(wishes, key=key_of(f"{answer}={named[0]}", seen.found, names)) if answer else wishes


def _adjusted(seen: Survey, wishes: Wishes, kept: Answers) -> Wishes:
    """Ask what to adjust for, of whom the study is, and how effects are measured."""
    from causalveil.flows.run.start import parts_of
    from causalveil.tasks.start.roles import cast

    def holds(asks: Wishes) -> object:
        return cast(seen.found, asks)

    # Times of subgroups and of several arms are compared as the arms are.
    as_they_are = wishes.event is not None and (wishes.arms or wishes.subgroups is not None)
    if wishes.covariates is None and not wishes.without and not as_they_are:
        try:
            _shown([one.name for one in parts_of(seen, wishes).covariates], "covariates that are not in doubt")
        except StudyError as none_left:
            typer.echo(f"  {none_left}", err=True)
        question = "Covariates, A,B,C (empty: these; none: no column)"
        answer = kept.ask("covariates", question, lambda text: holds(_chosen(wishes, text)))
        wishes = _chosen(wishes, answer)
    if not wishes.where:
        conditions = _conditions(kept, lambda text: holds(replace(wishes, where=(text,))))
        wishes = replace(wishes, where=conditions)
    if wishes.subgroups is None and (wishes.event is None or not cast(seen.found, wishes).covariates):
        question = "Subgroups by the levels of which column? Empty: none"
        answer = kept.ask("subgroups", question, lambda text: not text or holds(replace(wishes, subgroups=text)))
        wishes = replace(wishes, subgroups=answer or None)
    if wishes.event is None and wishes.trial and not wishes.measures and cast(seen.found, wishes).outcome.distinct == 2:
        answer = kept.ask("ratios", "Risk and odds ratios as well: yes or no?", _yes_or_no, "no")
        wishes = replace(wishes, measures=("ratio", "odds_ratio") if answer.casefold() in YES else ())
    return wishes


def _conditions(kept: Answers, check: Callable[[str], object]) -> tuple[str, ...]:
    found: list[str] = []
    question = "Who is eligible, as in age >= 25? Empty: all units"
    while answer := kept.ask(f"where {len(found) + 1}", question, lambda text: not text or check(text)):
        found.append(answer)
        question = "And? Empty: no more"
    return tuple(found)


def _chosen(wishes: Wishes, answer: str) -> Wishes:
    if answer.strip().casefold() == "none":
        return replace(wishes, covariates=())
    names = _listed(answer)
    return replace(wishes, covariates=names) if names else wishes


def _declared(seen: Survey, wishes: Wishes, kept: Answers) -> Wishes:
    """Ask for what no option said of sensitive data: ranges and levels, how numbers are written, what none lacks.

    An empty answer leaves one open.
    """
    from causalveil.flows.run.start import parts_of
    from causalveil.schemas.contract import DataClass
    from causalveil.tasks.machine.arrays import values_of
    from causalveil.tasks.start.recognise import Looks
    from causalveil.tasks.start.roles import column_of, resolved
    from causalveil.tasks.start.stated import example_of, not_plain

    if wishes.data_class is not DataClass.sensitive:
        return wishes
    parts, wishes = parts_of(seen, wishes), resolved(seen.found, wishes)
    ranges, levels, written = dict(wishes.ranges), dict(wishes.levels), dict(wishes.written)
    others = [seen.found[name] for name in sorted(parts.named - {one.name for one in parts.covariates})]
    # Times have their horizon for a range.
    for one in (*([parts.outcome] if parts.event is None else []), *parts.covariates, *others):
        if one.looks is Looks.number and one.name not in ranges and (one is parts.outcome or not one.of_kinds):
            question = f"Range of '{one.name}' from public knowledge, LOW:HIGH (empty: later)"
            answer = kept.ask(f"range {one.name}", question, lambda text: text and _ends(text))
            if answer:
                ranges[one.name] = _ends(answer)
        elif one.looks is not Looks.number or one.of_kinds:
            usual = {frozenset({0, 1}): "0,1", frozenset({"no", "yes"}): "no,yes"}.get(frozenset(one.values), "")
            if one.name not in {*levels, *ranges}:
                question = f"Levels of '{one.name}' that are public knowledge, A,B,C or NAME:A,NAME:B (empty: later)"
                answer = kept.ask(f"levels {one.name}", question, lambda text: text and _two_or_more(text), usual)
                if answer:
                    levels[one.name] = _two_or_more(answer)
        if one.looks is Looks.number and one.name not in {*written, *levels}:
            example = example_of(not_plain(seen.sample.frame, one))
            if example is not None:
                question = f"How is '{one.name}' written? An invented example"
                written[one.name] = (kept.ask(f"written {one.name}", question, str, example),)
    wishes = replace(wishes, ranges=ranges, levels=levels, written=written)
    if not wishes.never_missing and parts.covariates:
        question = "Which covariates are never missing for any person, A,B? Empty: any may be missing"

        def never(text: str) -> object:
            return resolved(seen.found, replace(wishes, never_missing=_listed(text)))

        wishes = replace(wishes, never_missing=_listed(kept.ask("never_missing", question, never)))
    ids = values_of(seen.sample.frame, parts.unit.source_name).drop_nulls()
    if wishes.last_by is None and ids.n_unique() < len(ids):
        question = f"Some units of '{parts.unit.name}' have several rows. By which column is the last, which counts?"

        def order(text: str) -> object:
            return column_of(seen.found, text, "last_by")

        wishes = replace(wishes, last_by=kept.ask("last_by", question, order, None))
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
    if len(set(_listed(text))) < 2:
        raise StudyError("levels are two words or more, as in north,south")
    return _listed(text)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


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
    listed = list(names)
    if listed:
        typer.echo(f"  {what}: {', '.join(listed[:20])}{', ...' if len(listed) > 20 else ''}", err=True)


def _candidates(seen: Survey, key: str, taken: tuple[str, ...]) -> list[str]:
    """Return the columns that may play a part."""
    from causalveil.tasks.start.recognise import Looks

    kinds = {"treatment": (Looks.binary,), "outcome": (Looks.number, Looks.binary)}[key]
    return [one.name for one in seen.found.values() if one.looks in kinds and one.name not in taken]
