"""Files of every kind that the product reads, damaged at random: each is refused in one typed line, or is still sound.

A case goes through the same entry that a user has. It may end as if nothing was wrong (a changed name is no damage) or
with one of our own errors: one printable line that quotes no value of the data and withholds none of its own reasons.
None takes long, none kills the process, and whatever was charged belongs to a run that finished.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sqlalchemy as sa

from tests.children import CONTEXT, process
from tests.crash import FINISH
from tests.sites_help import NAMES, Call, Party, at_home
from tests.studies import people, write_study
from tests.warehouse import files, visits, write_source

CANARY = "Xq7canary"
SEED = 20261122
SHORT, FULL = 8, 1000
# Of one case, on a machine that does much else; a case takes a tenth of a second.
PATIENCE = 120
MEMORY = 8 << 30
HOSTILE = [
    *(
        "[",
        "{",
        "}",
        ":",
        "- ",
        "\0",
        "\x1b[2J",
        "\t",
        "\n",
        "#",
        "&a ",
        "*a",
        "!!python/name:os.system",
        "|",
        ">",
        "%",
    ),
    *("null", "[]", "{}", "true", "-1", "0", "1e309", "-1e-320", "nan", ".inf", "9" * 400, '""', "''", "'", '"'),
    *("\ufeff", "\u202e", "\ud800", "é", "../..", "/dev/zero", "a" * 5000, "<<: *a", "1_0", "0x1F", "2026-99-99"),
]


def changed(content: bytes, chance: random.Random) -> bytes:
    """The bytes with one piece of damage or, in a third of cases, with two."""
    for _ in range(chance.choice((1, 1, 2))):
        content = chance.choice((_flip, _digit, _cut, _double, _insert, _replace, _truncate, _swap, _zero))(
            content, chance
        )
    return content


def _place(content: bytes, chance: random.Random) -> int:
    """Anywhere, and half of the time near the end: there a Parquet file has its footer."""
    if content and chance.random() < 0.5:
        return max(0, len(content) - 1 - int(chance.expovariate(1 / 300)))
    return chance.randrange(len(content) + 1)


def _flip(content: bytes, chance: random.Random) -> bytes:
    flipped = bytearray(content)
    for _ in range(chance.choice((1, 1, 20))):
        if flipped:
            flipped[_place(content, chance) % len(flipped)] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def _digit(content: bytes, chance: random.Random) -> bytes:
    """Another figure or letter in the place of one, so that most files still parse."""
    places = [index for index, byte in enumerate(content) if byte < 128 and chr(byte).isalnum()]
    edited = bytearray(content)
    for index in chance.sample(places, min(len(places), chance.choice((1, 1, 5)))):
        edited[index] = ord(chance.choice("0123456789" if chr(content[index]).isdigit() else "abcdefghijklmnop"))
    return bytes(edited)


def _cut(content: bytes, chance: random.Random) -> bytes:
    start = _place(content, chance)
    return content[:start] + content[start + chance.randint(1, 40) :]


def _double(content: bytes, chance: random.Random) -> bytes:
    start = _place(content, chance)
    return content[:start] + content[start : start + chance.randint(1, 200)] * 2 + content[start:]


def _insert(content: bytes, chance: random.Random) -> bytes:
    start = _place(content, chance)
    return content[:start] + chance.choice(HOSTILE).encode(errors="surrogatepass") + content[start:]


def _replace(content: bytes, chance: random.Random) -> bytes:
    """A value of a line ``key: value``, or of a field, becomes something else."""
    ends = [index for index, byte in enumerate(content) if byte in b":,"]
    if not ends:
        return _insert(content, chance)
    start = chance.choice(ends) + 1
    stop = min(
        (at for at in (content.find(end, start) for end in (b"\n", b",", b"}")) if at >= 0), default=len(content)
    )
    return content[:start] + b" " + chance.choice(HOSTILE).encode(errors="surrogatepass") + content[stop:]


def _truncate(content: bytes, chance: random.Random) -> bytes:
    return content[: _place(content, chance)]


def _swap(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    one, other = (chance.randrange(len(lines)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _zero(content: bytes, chance: random.Random) -> bytes:
    start = _place(content, chance)
    return content[:start] + b"\0" * chance.randint(1, 64) + content[start + 64 :]


def _named_people() -> pl.DataFrame:
    return people(200).with_columns(pl.format("Xq7canary-{}", "person").alias("person"))


def _study_folder(base: Path) -> None:
    caps = {level: {"epsilon": 10**6, "delta": "1e-1"} for level in ("sample", "label", "training_units")}
    contract = {"caps": caps, "estimators": ["ipw", "matching", "regression"]}
    write_study(base, frame=_named_people(), contract=contract)


def _extract_folder(base: Path, kind: str) -> None:
    frame = visits().with_columns(pl.format("Xq7canary-{}", "person").alias("person"))[:200]
    source = files(base / "files", frame, kind) | {"path": "files"}
    write_source(base / "source.yaml", source, columns={"person": "text"})


def _sites_folder(base: Path) -> None:
    parties = {name: Party(name, base / name, seed) for seed, name in enumerate(NAMES)}
    call = Call(base / "call", parties)
    call.folder.mkdir(parents=True)
    call.write()
    for party in parties.values():
        party.run("answer")
    shutil.copy(next(parties["north"].folder.glob("data-*/study.yaml")), call.folder / "study.yaml")
    for name, party in parties.items():
        call.put(name, party.bundle("answer", call.signed()))


def _extracted_folder(base: Path) -> None:
    _extract_folder(base, "csv")
    _extract(base, 0)
    caps = {"sample": {"epsilon": 10**6, "delta": "1e-1"}}
    contract = {"blocks": {"key": "month", "units_span": False}, "caps": caps}
    write_study(base / "data", partitions=0, contract=contract)


def _release_folder(base: Path) -> None:
    party = Party("north", base, 0)
    shutil.copy(party.run("answer"), base / "release.json")


def _site_folder(base: Path) -> None:
    base.mkdir(mode=0o700)
    (base / "site.toml").write_text('[execution]\nengine = "direct"\nrunner = "threads"\nworkers = 2\n')


def _run(folder: Path, number: int) -> None:
    from causalveil.flows.api import run_study

    run_study(folder / "study.yaml", out=folder / "out", run_id=f"case-{number}", engine="direct")


def _extract(folder: Path, _number: int) -> None:
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.run.admit import extract_source

    extract_source(folder / "source.yaml", DirectEngine())


def _pool(folder: Path, _number: int) -> None:
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.run.pooling import pool_sites

    with at_home(folder / "call" / "home"):
        pool_sites(folder / "call" / "sites.yaml", folder / "out", DirectEngine())


def _release(folder: Path, _number: int) -> None:
    from causalveil.flows.api import load_release

    load_release(folder / "release.json")


def _site_settings(folder: Path, _number: int) -> None:
    from causalveil.tasks.machine.site import site_settings

    with at_home(folder):
        site_settings()


# For each kind: what makes a sound folder, the file in it that is damaged, and who reads it.
KINDS: dict[str, tuple[Callable[[Path], None], str, Callable[[Path, int], None]]] = {
    "study": (_study_folder, "study.yaml", _run),
    "contract": (_study_folder, "dataset.yaml", _run),
    "parquet": (_study_folder, "part-1.parquet", _run),
    "manifest": (_extracted_folder, "*/_manifest.json", lambda folder, number: _run(folder / "data", number)),
    "release": (_release_folder, "release.json", _release),
    "site": (_site_folder, "site.toml", _site_settings),
    "source": (lambda base: _extract_folder(base, "csv"), "source.yaml", _extract),
    "csv": (lambda base: _extract_folder(base, "csv"), "files/*.csv", _extract),
    "parquet source": (lambda base: _extract_folder(base, "parquet"), "files/*.parquet", _extract),
    "sites": (_sites_folder, "call/sites.yaml", _pool),
    "bundle": (_sites_folder, "call/bundles/coast.json", _pool),
}


def work(kind: str, base: str, home: str, count: int, first: int, told: Connection) -> None:
    """Damage and read, case after case; tell each case's number as it begins, and how it ended."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["CAUSALVEIL_HOME"] = home
    from causalveil.schemas.errors import CausalveilError

    _, pattern, read = KINDS[kind]
    sound = next(Path(base).glob(pattern))
    content = sound.read_bytes()
    for number in range(first, count):
        told.send((number, "begins", ""))
        folder = Path(home).parent / f"case-{number}"
        shutil.copytree(base, folder)
        # The first is as it was, to see that damage is what the others are refused for.
        if number:
            (folder / sound.relative_to(base)).write_bytes(changed(content, random.Random(f"{SEED} {kind} {number}")))
        try:
            read(folder, number)
            told.send((number, "sound", ""))
        except CausalveilError as problem:
            told.send((number, "refused", str(problem)))
        except BaseException as problem:
            told.send((number, "raised", f"{type(problem).__name__}: {problem}"[:300]))
        shutil.rmtree(folder, ignore_errors=True)
    told.send((count, "done", ""))


def drill(kind: str, count: int, tmp_path: Path) -> tuple[Counter[str], list[str]]:
    """How cases ended, and what is wrong with them: a process that dies or hangs is one of the ways."""
    base, home = tmp_path / "sound", tmp_path / "work" / "home"
    home.mkdir(parents=True, mode=0o700)
    KINDS[kind][0](base)
    ended: Counter[str] = Counter()
    wrong: list[str] = []
    first = 0
    while first < count:
        receive, send = CONTEXT.Pipe(duplex=False)
        child = process(work, kind, str(base), str(home), count, first, send)
        child.start()
        send.close()
        number, how, text = first, "begins", ""
        while how != "done":
            try:
                if not receive.poll(PATIENCE):
                    how = "hung"
                    break
                number, how, text = receive.recv()
            except EOFError:
                how = "died"
                break
            if how not in ("begins", "done"):
                ended[how] += 1
                wrong += [f"the sound one is {how}: {text}"] if number == 0 and how != "sound" else []
                wrong += [f"{number}: {problem}" for problem in _complaints(how, text)]
        child.kill()
        child.join()
        first = number + 1 if how in ("hung", "died") else count
        if how in ("hung", "died"):
            ended[how] += 1
            wrong.append(f"{number}: {how} ({child.exitcode})")
    return ended, wrong


def _complaints(how: str, text: str) -> list[str]:
    if how == "raised":
        return [text]
    found = []
    if "its message is withheld" in text:
        found.append(f"its reason is withheld: {text}")
    if CANARY in text:
        found.append("a value of the data is quoted")
    if how == "refused" and not (text.isprintable() and 0 < len(text) < 4000):
        found.append(f"not one short line: {text[:80]!r} ({len(text)} characters)")
    return found


def charged_for_nothing(home: Path) -> set[str]:
    """Runs that drew a value and have no release."""
    database = home / "ledger.db"
    if not database.exists():
        return set()
    with sa.create_engine(f"sqlite:///{database}", poolclass=sa.NullPool).connect() as connection:
        rows = connection.execute(sa.text("SELECT run_id, name FROM entries WHERE kind = 'release'")).all()
    return {run for run, _ in rows} - {run for run, name in rows if name == FINISH}


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [SHORT, pytest.param(FULL, marks=pytest.mark.long)])
def test_damaged_files(kind: str, count: int, tmp_path: Path, record_property: Any) -> None:
    ended, wrong = drill(kind, count, tmp_path)
    record_property("summary", f"{count} damaged files, {kind}: {json.dumps(dict(ended))}")
    assert not wrong, "\n".join(wrong[:20])
    assert ended.total() == count
    assert ended["refused"] > count / 4, "damage that nobody notices shows nothing"
    assert not charged_for_nothing(tmp_path / "work" / "home")
