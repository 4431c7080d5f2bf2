"""Files that were made to hang, crash or mislead whoever reads them: each is refused in a line of its own, at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.documents import MAX_BYTES, parse_json, read_text, read_yaml
from causalveil.schemas.errors import BundleError, CausalveilError, StudyError
from causalveil.schemas.release import load_release
from causalveil.tasks.sites.bundle import open_bundle, read_bundle

HOSTILE = {
    "a hundred thousand brackets": "[" * 100_000,
    "a hundred thousand keys inside each other": "{a: " * 100_000,
    "nested by indentation": "\n".join(" " * depth + "a:" for depth in range(900)),
    "an integer of 5,000 digits": "a: " + "9" * 5_000,
    "a decimal of 5,000 digits": "a: 0." + "9" * 5_000,
    "a tag that builds an object": "a: !!python/object/apply:os.system [echo]",
    "a timestamp tag": "a: !!timestamp nonsense",
    "a binary tag": "a: !!binary =",
    "a set": "a: !!set {b, c}",
    "a tag of one's own": "a: !secret b",
    "a NUL": "a: b\0c",
    "aliases": "a: &x [1]\nb: *x",
    "a key that is a list": "[1]: b",
    "a key twice": "a: 1\na: 2",
    "a list": "- 1",
    "nothing": "",
    "an escape sequence": "a: \x1b[2J",
    "too much": "a: " + "b" * MAX_BYTES,
}


def one_line(message: str) -> bool:
    return message.isprintable() and 0 < len(message) < 600


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.timeout(120)
def test_hostile_yaml_is_refused_in_a_line(case: str, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(HOSTILE[case].encode())
    with pytest.raises(StudyError) as refused:
        read_yaml(path)
    assert one_line(str(refused.value)), str(refused.value)[:200]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("read", [read_yaml, read_text, load_release, read_bundle])
def test_what_is_no_file_does_not_keep_anybody_waiting(read: Callable[[Path], object], tmp_path: Path) -> None:
    """A pipe nobody writes to, a device without end, a folder."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises((StudyError, BundleError)) as refused:
            read(path)
        assert one_line(str(refused.value))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5_000, "\0", ""])
def test_hostile_json_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_json(text)
    path = tmp_path / "release.json"
    path.write_text(text)
    with pytest.raises(StudyError) as refused:
        load_release(path)
    assert one_line(str(refused.value))
    with pytest.raises(BundleError):
        open_bundle(text, "bundle.json")


def test_a_name_with_a_line_end_or_undecodable_bytes_stays_one_line(tmp_path: Path) -> None:
    for name in (b"a\nforged: line.yaml", b"b\x1b[31m.yaml", b"c\xff.yaml"):
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        with pytest.raises(StudyError) as refused:
            read_yaml(path)
        message = str(refused.value)
        assert one_line(message)
        message.encode()


def test_a_message_is_one_line_whatever_it_quotes() -> None:
    assert str(CausalveilError("a\nb\r\tc\x00d\udcffe ü")) == r"a\nb\r\tc\x00d\udcffe ü"


def test_a_message_shows_the_ends_of_a_word_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("kind: effect\n" + "k" * 5000 + ": 1\n")
    with pytest.raises(StudyError) as refused:
        load_study_file(path)
    assert one_line(str(refused.value)), len(str(refused.value))
    assert str(CausalveilError("a " + "b" * 300)) == "a " + "b" * 300
    assert str(CausalveilError("a " + "b" * 301)) == "a " + "b" * 150 + "…" + "b" * 100
