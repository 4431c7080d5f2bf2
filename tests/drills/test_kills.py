"""Kills aimed at the time in which a value is spent and its release is not written yet, hundreds of them.

The gate's form is ``tests/flows/test_crash.py``: other places of the same list. Here the kills go round all estimators
and, in each, round its places between the first charge and the finish, until there were as many as asked for.
"""

from __future__ import annotations

from collections import Counter
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from tests import crash
from tests.crash import PHASES
from tests.flows.test_crash import STUDIES, check, ledger_url

__all__ = ["ledger_url"]
ON_A_LEDGER = 200
THROUGH_PREFECT = 56


def between(places: list[str], count: int) -> list[str]:
    """``count`` places between the first charge and the finish, in turn; a second time the run has another id."""
    aimed = [place for place in places if crash.phase(place, places) == PHASES[1]]
    return list(islice(cycle(aimed), count))


def kill(name: str, count: int, url: str, home: Path, record: Any, **around: str) -> None:
    histogram = check(name, lambda places: between(places, count), url, home, record, **around)
    assert histogram == Counter({PHASES[1]: count})


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", STUDIES)
def test_killed_between_charge_and_finish(name: str, ledger_url: str, home: Path, record_property: Any) -> None:
    """200 on each ledger over the studies."""
    kill(name, ON_A_LEDGER // len(STUDIES), ledger_url, home, record_property)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", STUDIES)
def test_killed_through_prefect(name: str, home: Path, record_property: Any, prefect_server: str) -> None:
    """56 over the studies."""
    url = f"sqlite:///{home / 'ledger.db'}"
    kill(name, THROUGH_PREFECT // len(STUDIES), url, home, record_property, PREFECT_API_URL=prefect_server)
