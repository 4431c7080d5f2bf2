"""Every kind of study gives the numbers and the charges of before: ``tests/golden.txt``.

A change that means to move a number writes the file anew, by ``uv run python -m tests.golden``, and says why.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

from tests.golden import SEEDS, lines_of, plain_processor, read, same, text_of
from tests.golden_studies import cases

CASES, KNOWN = cases(), read()
on_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="numbers are those of an x86-64")


@pytest.fixture(scope="session")
def process() -> Iterator[Executor]:
    with plain_processor() as found:
        yield found


def compare(process: Executor, name: str, folder: Path, seeds: tuple[int, ...]) -> None:
    """Compare a study's lines of some seeds with those of the file."""
    found = process.submit(lines_of, name, folder / "study", seeds).result()
    wanted = {line: KNOWN[line] for line in KNOWN if line[0] == name and line[1] in ("", *map(str, seeds))}
    apart = [
        f"{sign} {text_of(line, lines[line])}"
        for line in {**wanted, **found}
        if line not in wanted or line not in found or not same(wanted[line], found[line])
        for sign, lines in (("-", wanted), ("+", found))
        if line in lines
    ]
    assert not apart, "\n".join(["other numbers than in tests/golden.txt:", *apart])


@on_x86
@pytest.mark.parametrize("name", CASES)
def test_a_study_has_the_numbers_of_before(name: str, process: Executor, tmp_path: Path) -> None:
    compare(process, name, tmp_path, SEEDS[:1])


@on_x86
@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_study_has_them_for_all_seeds(name: str, process: Executor, tmp_path: Path) -> None:
    compare(process, name, tmp_path, SEEDS)


def test_the_file_has_these_studies_and_no_others() -> None:
    assert list(dict.fromkeys(line[0] for line in KNOWN)) == list(CASES)


def test_last_bits_may_differ_and_no_more() -> None:
    one = {"state": "unresolved", "estimate": "-6.2", "noise": "1e-12"}
    assert same(one, {**one, "estimate": "-6.200000000000001", "noise": "0.0"})
    for key, value in {"estimate": "-6.2000001", "noise": "1e-7", "state": "answered"}.items():
        assert not same(one, {**one, key: value})
    assert not same(one, {"estimate": "-6.2", "noise": "1e-12"})
