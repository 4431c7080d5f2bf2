"""Work that may leave the process: cut into parts, gathered in order, and never a draw among it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from pydantic import ValidationError

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import Execution
from causalveil.tasks.machine.distribute import (
    distribute,
    distributing_by,
    gathered,
    on_worker,
    while_more_come,
    worker_part,
    worker_parts,
)
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.ledger_help import budget, charge, contract, never, reservation

ROOT = Path(__file__).parents[2]


class Elsewhere:
    """Sends each part through a pickle, as a cluster would."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __call__(self, function: Callable[[int], Any], count: int) -> list[Any]:
        sent = [cloudpickle.dumps((function, part)) for part in worker_parts(count, self.workers)]
        return gathered([pickle.loads(pickle.dumps(worker_part(*pickle.loads(text)))) for text in sent])


@pytest.mark.parametrize("count", [0, 1, 2, 7, 16])
@pytest.mark.parametrize("workers", [1, 2, 3, 20])
def test_parts_are_whole_consecutive_and_even(count: int, workers: int) -> None:
    parts = worker_parts(count, workers)
    assert [index for part in parts for index in part] == list(range(count))
    assert len(parts) == min(count, workers)
    assert not parts or max(map(len, parts)) - min(map(len, parts)) <= 1


def test_results_come_in_order_wherever_they_are_computed() -> None:
    here = distribute(lambda index: (index, on_worker()), 7, 2)
    with distributing_by(Elsewhere(3)):
        there = distribute(lambda index: (index, on_worker()), 7, 2)
    assert here == [(index, False) for index in range(7)]
    assert there == [(index, True) for index in range(7)]
    assert distribute(lambda _: on_worker(), 1, 2) == [False], "the distributor is in place for its block alone"


@pytest.mark.parametrize("kind", ["spend", "spend_records"])
def test_nothing_can_be_drawn_on_a_worker(kind: str, tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.grant(contract(), "opening")
    request = reservation()
    ledger.reserve(request, contract())
    purse = budget(ledger, request, tmp_path)
    with distributing_by(Elsewhere(1)), pytest.raises(CausalveilError, match="must run in the flow's process"):
        distribute(lambda _: getattr(purse, kind)(charge(), never), 1, 1)
    assert ledger.account("trial").blocks[0].spent.epsilon == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"runner": "dask", "engine": "direct"},
        {"runner": "threads", "address": "tcp://10.0.0.1:8786"},
        {"runner": "spark"},
        {"runner": "dask", "address": "tcp://user:password@10.0.0.1:8786"},
    ],
)
def test_executions_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Execution.model_validate(wrong)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_items_are_worked_on_while_more_are_read_and_few_are_held(workers: int) -> None:
    read, done, held = [], [], []

    def items():
        for item in range(12):
            read.append(item)
            held.append(len(read) - len(done))
            yield item

    while_more_come(done.append, items(), workers)
    assert sorted(done) == list(range(12))
    assert max(held) <= workers


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("where", ["reader", "work"])
def test_an_error_of_the_reader_or_of_the_work_ends_it(where: str, workers: int) -> None:
    done = []

    def items():
        yield from range(5)
        if where == "reader":
            raise CausalveilError("a file that was changed")
        yield from range(5, 50)

    def work(item: int) -> None:
        if where == "work" and item == 5:
            raise CausalveilError("a file that was changed")
        done.append(item)

    with pytest.raises(CausalveilError, match="was changed"):
        while_more_come(work, items(), workers)
    assert set(range(5)) - set(done) <= set(range(5 - workers, 5))
    assert len(done) <= 5 + workers


LATER = """
import json, numpy
from threadpoolctl import threadpool_info
from causalveil.tasks.machine.distribute import one_thread

def threads():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}

with one_thread():
    first = threads()
import sklearn.linear_model
free = threads()
with one_thread():
    held = threads()
print(json.dumps([first, free, held, threads()]))
"""


def test_one_thread_holds_libraries_that_were_loaded_after_its_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], cwd=ROOT, capture_output=True, text=True, check=True)
    first, free, held, after = json.loads(done.stdout)
    assert set(first) < set(free), "scikit-learn brings libraries with threads of their own"
    assert set(held) == set(free)
    assert [*first.values(), *held.values()] == [1] * (len(first) + len(held))
    assert after == free
