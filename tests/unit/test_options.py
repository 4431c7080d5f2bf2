"""Messages name options of the command line, or arguments in Python, whichever their reader can give."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.main import get_command

import causalveil as cv
from causalveil.flows.cli.main import app
from causalveil.schemas.hints import COMMAND_ALONE, HIGH, LOW, Blank, at_command_line, option
from tests.studies import people

ROOT = Path(__file__).parents[2]
FILES = [path for floor in ("flows", "tasks", "schemas") for path in sorted((ROOT / floor).rglob("*.py"))]
# They call other programs, by these programs' options.
OTHER_PROGRAMS = {"flows/engine/server.py", "flows/engine/deployment.py"}
PUBLIC = (cv.draft, cv.run, cv.plan, cv.pool, cv.sensitivity)
ARGUMENTS = {name for function in PUBLIC for name in inspect.signature(function).parameters}
ODD = ("age", "it's", 'a"b', "--not", "größe", "two words", "a=b")


def named() -> set[str]:
    """Return the names that code hands to ``option``, itself or by ``column_of``, as they are written there."""
    found = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option":
                found |= {one.value for one in node.args if isinstance(one, ast.Constant)}
                found |= {one.arg for one in node.keywords if one.arg is not None}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "column_of":
                found |= {one.value for one in node.args if isinstance(one, ast.Constant)}
    return found


def test_each_name_is_an_argument_or_of_one_command() -> None:
    assert named() - ARGUMENTS - COMMAND_ALONE.keys() == {"each_row"}
    assert not COMMAND_ALONE.keys() & ARGUMENTS
    assert COMMAND_ALONE.keys() <= named()


def options_of(command: Any) -> set[str]:
    """Return the options of a command and of those below it."""
    own = {word for one in command.params for word in one.opts if one.param_type_name == "option"}
    return own.union(*map(options_of, getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("name", sorted(named()))
def test_each_name_is_an_option_of_the_command_line(name: str) -> None:
    command: Any = get_command(app)
    for word in COMMAND_ALONE.get(name, "").split():
        command = command.commands[word]
    with at_command_line():
        assert option(name) in options_of(command)


def test_no_sentence_names_an_option_itself() -> None:
    """Whole commands, which a reader types into a shell, may be named."""
    found = []
    for path in FILES:
        file = path.relative_to(ROOT).as_posix()
        if file.startswith("flows/cli/") or file in {*OTHER_PROGRAMS, "schemas/hints.py"}:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        apart |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
                found += [f"{file}: {word}" for word in bare_options(node.value)]
            elif isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
                found += [f"{file}: {word}" for word in bare_options("".join(parts))]
    assert found == []


def bare_options(sentence: str) -> list[str]:
    """Return options that a sentence names without their command."""
    return re.findall(r"(?<![\w-])--[a-z][\w-]*", re.sub(r"causalveil [^;.]*", "", sentence))


@pytest.mark.parametrize("column", ODD)
@pytest.mark.parametrize(
    ("argument", "value", "given"),
    [
        ("ranges", (0, 110.5), "{}=0:110.5"),
        ("ranges", (LOW, HIGH), "{}=LOW:HIGH"),
        ("levels", ["north", "it's"], "{}=north,it's"),
        ("missing", ["-9"], "{}=-9"),
    ],
)
def test_a_hint_on_a_column_is_valid_wherever_it_is_read(column: str, argument: str, value: Any, given: str) -> None:
    text = option(**{argument: {column: value}})
    assert eval(f"dict({text})", {"LOW": LOW, "HIGH": HIGH}) == {argument: {column: value}}
    with at_command_line():
        words = shlex.split(option(**{argument: {column: value}}))
    assert words == [option_at_command_line(argument), given.format(column)]


def option_at_command_line(name: str) -> str:
    """Return an option without a value."""
    with at_command_line():
        return option(name)


@pytest.mark.parametrize("word", ODD)
def test_a_hint_of_words_is_valid_wherever_it_is_read(word: str) -> None:
    text = option(counted=word, where=[word, "age >= 25"], horizon=Blank("N"), trial=True)
    asked = {"counted": word, "where": [word, "age >= 25"], "horizon": 3, "trial": True}
    assert eval(f"dict({text})", {"N": 3}) == asked
    with at_command_line():
        words = shlex.split(option(counted=word, where=[word, "age >= 25"], horizon=Blank("N"), trial=True))
    assert words == ["--counted", word, "--where", word, "--where", "age >= 25", "--horizon", "N", "--trial"]


def test_what_python_has_no_argument_for_is_a_command() -> None:
    assert option(unit="school", means=True) == "`causalveil init --unit 'school' --means`"
    assert option("each_row") == "unit=None"


def test_a_hint_of_a_draft_can_be_given_to_it() -> None:
    """The note on codes of kinds names levels; with these in its place the note is gone."""
    frame = people(400, 1).with_columns(school=pl.int_range(400) % 7)
    asked: dict[str, Any] = {"treatment": "treated", "outcome": "score", "unit": "person"}
    (note,) = (one for one in cv.draft(frame, **asked).notes if "levels={" in one)
    way = re.search(r"levels=\{.*?\}", note)
    assert way is not None
    given = cv.draft(frame, **asked, **eval(f"dict({way[0]})"))
    assert given.contract["columns"]["school"]["levels"] == list(range(7))
    assert not [one for one in given.notes if "levels={" in one]


@pytest.mark.parametrize(("caller", "way"), [(at_command_line, "--outcome: "), (nullcontext, "outcome: ")])
def test_a_command_and_python_are_told_the_same_in_their_own_words(caller: Any, way: str) -> None:
    with caller(), pytest.raises(cv.StudyError, match=f"^{way}there is no column 'scores'"):
        cv.draft(people(50, 1), treatment="treated", outcome="scores")
