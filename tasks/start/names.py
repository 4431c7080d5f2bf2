"""Read names of columns: words in camel case, and columns that were measured again at another time."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A name with the number of a time at its end: read1, score_2, bp-12.
_NUMBERED = re.compile(r"(?i)(.*[a-z]{3,})[\W_]?(\d{1,4})")
# As many columns with a number at their end make a last letter such as the k of "readk", "read1", "read2" a time, too.
_FEWEST_NUMBERED = 2


def spoken(name: str) -> str:
    """Return a name with its words apart, as patterns for names expect them: "policePrecinct" has two."""
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name)


def stems(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the stem and the time of each name that stands there for several times, as "read" and "1" of "read1".

    Args:
        names: of all columns.
    """
    numbered: dict[str, dict[str, str]] = {}
    every = tuple(names)
    for name in every:
        found = _NUMBERED.fullmatch(name)
        if found is not None:
            numbered.setdefault(found[1].casefold(), {})[name] = found[2]
    for name in every:
        stem = name[:-1].casefold()
        if name[-1:].isalpha() and len(numbered.get(stem, {})) >= _FEWEST_NUMBERED:
            numbered[stem][name] = name[-1].casefold()
    return {name: (stem, time) for stem, times in numbered.items() if len(times) > 1 for name, time in times.items()}


def other_times(names: Iterable[str], treatment: str, outcome: str) -> dict[str, str]:
    """Return the columns that may have been measured after treatment by the times in their names, with reasons.

    What repeats treatment or outcome at a later time tells which times are later; a column of such a time, which is
    there for the time of treatment or outcome as well, was measured then. Times that are no numbers have no order, so
    they count as later.

    Args:
        names: of all columns.
        treatment, outcome: the two that a study is about.
    """
    known = stems(names)
    told: dict[str, str] = {}
    times: dict[str, set[str]] = {}
    for part in (treatment, outcome):
        stem, time = known.get(part, ("", ""))
        again = [one for one, (of, at) in known.items() if stem and of == stem and one != part and _later(at, time)]
        told |= {one: f"by name, '{part}' at another time: may come after treatment" for one in again}
        times.setdefault(time, set()).update(known[one][1] for one in again)
    for name, (stem, time) in known.items():
        own = {at for of, at in known.values() if of == stem}
        if name in (treatment, outcome) or name in told:
            continue
        if any(at in own and time in later for at, later in times.items()):
            told[name] = "by name, of another time than treatment: may come after it"
    return told


def _later(time: str, than: str) -> bool:
    return not (time.isdigit() and than.isdigit()) or int(time) > int(than)
