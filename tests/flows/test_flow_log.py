"""The flow's log and tags add up to the ledger: for every estimator and level, fresh and resumed.

The log is read by a parser that knows the words of its lines and nothing of the code. Each run dies once, right after
the middle one of its draws is committed, and goes on. In-process for all; on a real server for some, and with
``-m long`` for all.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.privacy import Charge, amount_text
from causalveil.tasks.privacy.budget import FlowBudget
from causalveil.tasks.privacy.ledger.accounts import RunRecord, Use
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.privacy.ledger.outlook import ledger_trail
from tests.golden_studies import ONE_EACH, made
from tests.ledger_help import audit_lines, logged
from tests.studies import write_study
from tests.warehouse import files, visits, write_source

MADE = made()
# The default, one of several stages that draw, one of many answers; the others are bound to Prefect by the same lines.
ON_A_SERVER = (
    "regression, curves",
    "effect by ipw, sample, delta 1e-6",
    "protocol by regression, sample, delta 1e-6",
)

AMOUNT = r"(?:rho|epsilon) [0-9.e-]+(?: and delta [0-9.e-]+)?"
RESERVED = re.compile(
    rf"run one of study \S+ has reserved epsilon (\S+), delta (\S+) of \S+ before a row was read; its charges "
    rf"add up to ({AMOUNT}), the largest sum that one unit meets"
)
LAST = re.compile(rf"(\d+) of (\d+) charges of the flow's budget are committed: ({AMOUNT}) of ({AMOUNT})")
STAGE = re.compile(rf"stage ([^:]+): (.+); {LAST.pattern}")
CHARGE = re.compile(rf"(\S+): ({AMOUNT}) \(([^()]+)\)")
# By name: amount, and the units that it is charged to.
Amounts = dict[str, tuple[str, str]]


class Told(NamedTuple):
    """What the lines of one try say: charges by what is said of them, counts, and sums."""

    spent: Amounts
    kept: Amounts
    counts: list[tuple[int, int]]
    sums: list[tuple[str, str]]
    last: tuple[int, int] | None
    titles: list[str]
    reserved: tuple[str, ...]


def added(charges: Amounts, unit: str) -> str:
    """Add up as an auditor would: of halves the larger sum counts, beside what reads everybody."""
    parts: dict[str, dict[str, list[Decimal]]] = {"rho": {"all": []}, "delta": {"all": []}}
    for amount, scope in charges.values():
        for kind, number in re.findall(r"(\w+) ([0-9.e-]+)", amount):
            parts.setdefault(kind, {"all": []}).setdefault(scope, []).append(Decimal(number))
    sums = {
        kind: sum(of.pop("all"), Decimal(0))
        + max((sum(found, Decimal(0)) for found in of.values()), default=Decimal(0))
        for kind, of in parts.items()
    }
    tests = f" and delta {amount_text(sums['delta'])}" if sums["delta"] else ""
    return f"{unit} {amount_text(sums.get(unit, Decimal(0)))}{tests}"


def told(lines: list[str]) -> Told:
    """Add the lines up."""
    said: dict[str, list[tuple[str, tuple[str, str]]]] = {"declared and spent ": [], "already committed": []}
    counts, sums, titles = [], [], []
    for line in lines:
        found = STAGE.fullmatch(line)
        if found is None:
            continue
        titles.append(found[1])
        counts.append((int(found[3]), int(found[4])))
        sums.append((found[5], found[6]))
        for clause in found[2].split("; "):
            (kind,) = [kind for kind in said if clause.startswith(kind)]
            said[kind] += [(one[0], (one[1], one[2])) for one in CHARGE.findall(clause)]
    for charges in said.values():
        assert len(dict(charges)) == len(charges), "a charge is told of twice"
    last = LAST.fullmatch(lines[-1]) if lines else None
    spent, kept = (dict(charges) for charges in said.values())
    if last is not None:
        sums.append((last[3], last[4]))
    begun = RESERVED.fullmatch(lines[0])
    assert begun is not None, "the first line says what was reserved"
    ended = None if last is None else (int(last[1]), int(last[2]))
    return Told(spent, kept, counts, sums, ended, titles, begun.groups())


def recorded(run_id: str) -> RunRecord:
    run = open_ledger().record(run_id)
    assert run is not None
    return run


def as_text(run: RunRecord, amounts: Charge | Use, tested: Decimal) -> str:
    """Return an amount of a run: epsilon where it has no delta, else rho and the delta of tests."""
    unit = "epsilon" if run.reservation.cost.delta == 0 else "rho"
    tests = f" and delta {amount_text(tested)}" if tested else ""
    return f"{unit} {amount_text(getattr(amounts, unit))}{tests}"


def in_ledger(run_id: str) -> Amounts:
    """The committed charges of a run."""
    run = recorded(run_id)
    return {
        one.name: (as_text(run, one, one.delta if one.mu is None else Decimal(0)), str(one.scope))
        for one, _ in run.charges
    }


def sum_in_ledger(run_id: str) -> str:
    """What a finished run uses of its account, in the unit in which its charges add up."""
    run = recorded(run_id)
    return as_text(run, run.used, run.used.tested)


def declared(run_id: str) -> int:
    return len(recorded(run_id).reservation.charges)


def dies_after(patch: pytest.MonkeyPatch, draws: int) -> None:
    """Lose the machine right after a draw is committed, before its value is used."""
    left = [draws]

    def dying(spend: Callable[..., Any]) -> Callable[..., Any]:
        def spends(self: FlowBudget, *arguments: Any) -> Any:
            found = spend(self, *arguments)
            left[0] -= 1
            if left[0] == 0:
                raise CausalveilError("power cut")
            return found

        return spends

    for name in ("spend", "spend_records"):
        patch.setattr(FlowBudget, name, dying(getattr(FlowBudget, name)))


@contextmanager
def lines_of() -> Iterator[list[str]]:
    """The flow's lines, as a handler of this process gets them."""
    lines: list[str] = []
    with logged("causalveil.flow", lines.append):
        yield lines


def twice(path: Path, out: Path, engine: Any, monkeypatch: pytest.MonkeyPatch) -> Amounts:
    """A try that dies, and one that goes on; return what the first had committed."""
    with monkeypatch.context() as patch:
        dies_after(patch, 1)
        with pytest.raises(CausalveilError, match="power cut"):
            run_study(path, out=out, run_id="one", engine=engine)
    half = (declared("one") + 1) // 2
    if half > 1:
        with monkeypatch.context() as patch:
            dies_after(patch, half)
            with pytest.raises(CausalveilError, match="power cut"):
                run_study(path, out=out, run_id="one", engine=engine)
    before = in_ledger("one")
    assert len(before) == half
    run_study(path, out=out, run_id="one", engine=engine)
    return before


def assert_adds_up(tries: list[list[str]], before: Amounts) -> None:
    """Hold the lines of all tries to the ledger; the last of them finished."""
    everything, number = in_ledger("one"), declared("one")
    assert len(everything) == number
    *earlier, last = [told(lines) for lines in tries]
    assert last.kept == before
    assert {**last.kept, **last.spent} == everything
    assert not last.kept.keys() & last.spent.keys()
    assert last.last == (number, number), "the last line"
    assert last.counts == sorted(last.counts)
    assert last.counts[-1] == (number, number)
    assert {of for _, of in last.counts} == {number}
    assert len(set(last.titles)) == len(last.titles)
    for one in earlier:
        assert {**one.kept, **one.spent}.items() <= before.items()
        assert one.last is None
    for one in (*earlier, last):
        charges, unit = {**one.kept, **one.spent}, one.reserved[2].split()[0]
        assert (one.reserved[2], {of for _, of in one.sums}) == (sum_in_ledger("one"), {sum_in_ledger("one")})
        assert one.sums[-1][0] == added(charges, unit), "the sum so far"
    # The log alone: what its last try's charges add up to is what the ledger charges the account.
    assert added({**last.kept, **last.spent}, last.reserved[2].split()[0]) == sum_in_ledger("one")
    cost = recorded("one").reservation.cost
    assert last.reserved[:2] == (amount_text(cost.epsilon), amount_text(cost.delta))
    spent = Counter(name for one in (*earlier, last) for name in one.spent)
    assert max(spent.values(), default=0) <= 1, "spent once in all tries"


@pytest.mark.parametrize("name", ONE_EACH)
def test_lines_add_up_to_the_ledger(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = MADE[name].write(tmp_path / "study")
    with lines_of() as lines, audit_lines() as events:
        before = twice(path, tmp_path / "out", "direct", monkeypatch)
        number = len(lines)
        again = run_study(path, out=tmp_path / "again", run_id="one", engine="direct")
    tries: list[list[str]] = []
    for line in lines[:number]:
        if RESERVED.fullmatch(line):
            tries.append([])
        tries[-1].append(line)
    assert_adds_up(tries, before)
    assert again.returned is None
    given, last = lines[number:]
    assert "run one was finished before" in given
    assert LAST.fullmatch(last), "no stage runs, and nothing is reserved"
    # Lines of the ledger and an auditor's page add up to the same.
    charged = {one["name"]: (one["adds"], one["scope"]) for one in events if one["event"] == "charge"}
    (reserved,) = {one["adds"] for one in events if one["event"] in ("reserve", "resume")}
    assert added(charged, reserved.split()[0]) == reserved == sum_in_ledger("one")
    trail = ledger_trail(open_ledger(), "one")
    assert trail is not None
    audited = {one.charge.name: (one.adds, str(one.charge.scope)) for one in trail.charges}
    assert (audited, trail.spent_adds, trail.cost_adds) == (charged, reserved, reserved)


def flow_runs() -> list[tuple[list[str], list[Any]]]:
    """Lines and task runs of every flow run of the run, oldest first, from the server's API."""
    from prefect import get_client
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterId,
        FlowRunFilterName,
        LogFilter,
        LogFilterFlowRunId,
    )
    from prefect.client.schemas.sorting import LogSort

    async def read() -> list[tuple[list[str], list[Any]]]:
        async with get_client() as client:
            mine = FlowRunFilter(name=FlowRunFilterName(any_=["one"]))
            flows = sorted(await client.read_flow_runs(flow_run_filter=mine), key=lambda flow: flow.created)
            # Two minutes at least: a busy server stores lines when it comes to them.
            for _ in range(240):
                found = []
                for flow in flows:
                    only = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow.id]))
                    logs = await client.read_logs(only, limit=200, sort=LogSort.TIMESTAMP_ASC)
                    # A batch of lines whose answer a busy server owes is sent again, and it then holds them twice.
                    once = dict.fromkeys(
                        (entry.timestamp, entry.task_run_id, entry.message)
                        for entry in logs
                        if entry.name == "causalveil.flow"
                    )
                    ours = [message for _, _, message in once]
                    own = FlowRunFilter(id=FlowRunFilterId(any_=[flow.id]))
                    found.append((ours, await client.read_task_runs(flow_run_filter=own, limit=200)))
                begun = all(lines for lines, _ in found) and all(
                    task.start_time for _, tasks in found for task in tasks
                )
                if found and begun and LAST.fullmatch(found[-1][0][-1]):
                    return found
                await asyncio.sleep(0.5)
            raise AssertionError("the server never had all of the log")

    return asyncio.run(read())


def on_a_server(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = MADE[name].write(tmp_path / "study")
    before = twice(path, tmp_path / "out", "prefect", monkeypatch)
    # Other tests' runs are called otherwise than this, or are older than it: only the last tries count.
    found = flow_runs()[-3 if len(before) > 1 else -2 :]
    assert_adds_up([lines for lines, _ in found], before)
    tasks = found[-1][1]
    tags = [tag for task in tasks for tag in task.tags if tag.startswith("declares ")]
    assert sorted(tags) == sorted(
        f"declares {one}: {amount} ({scope})" for one, (amount, scope) in in_ledger("one").items()
    )
    upstream = {task.id: {read.id for reads in task.task_inputs.values() for read in reads} for task in tasks}
    roots = {task.name for task in tasks if not upstream[task.id]}
    assert roots <= {"admit", "validate", "deliver"}, "every other task reads what an earlier one left"
    assert set().union(*upstream.values()) <= set(upstream)


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("name", ON_A_SERVER)
def test_a_servers_log_adds_up_to_the_ledger(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_server(name, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("name", [name for name in ONE_EACH if name not in ON_A_SERVER])
def test_every_servers_log_adds_up_to_the_ledger(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_server(name, tmp_path, monkeypatch)


def tags_by_name(name: str, wanted: int = 0) -> tuple[set[str], list[tuple[str, set[str]]]]:
    """Tags of the newest flow run of a flow, and its task runs with theirs, once so many named so are stored."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter, FlowRunFilterId
    from prefect.client.schemas.sorting import FlowRunSort

    async def read() -> tuple[set[str], list[tuple[str, set[str]]]]:
        async with get_client() as client:
            only = FlowFilter(name=FlowFilterName(any_=[name]))
            (flow,) = await client.read_flow_runs(flow_filter=only, sort=FlowRunSort.START_TIME_DESC, limit=1)
            own = FlowRunFilter(id=FlowRunFilterId(any_=[flow.id]))
            for _ in range(480):
                tasks = await client.read_task_runs(flow_run_filter=own, limit=200)
                if sum(task.name.startswith(name) for task in tasks) >= wanted:
                    break
                await asyncio.sleep(0.25)
            return set(flow.tags), sorted((task.name, set(task.tags)) for task in tasks)

    return asyncio.run(read())


@pytest.mark.usefixtures("prefect_server")
class TestTags:
    def test_of_a_run_that_the_contract_refuses(self, tmp_path: Path) -> None:
        from causalveil.flows.deployed import study as flow_of_study

        path = write_study(tmp_path / "study", study={"privacy": {"epsilon": "500"}})
        with pytest.raises(CausalveilError):
            flow_of_study(str(path), run_id="too-much")
        assert tags_by_name("study")[0] == {"study:small", "dataset:small", "run:too-much"}

    def test_of_a_run_whose_study_is_none(self, tmp_path: Path) -> None:
        from causalveil.flows.deployed import study as flow_of_study

        path = write_study(tmp_path / "study", study={"outcome": {"name": "no such column"}})
        with pytest.raises(CausalveilError):
            flow_of_study(str(path), run_id="no-study")
        assert {"run:no-study", "study:small"} <= tags_by_name("study")[0]

    def test_of_an_admission_and_its_task(self, tmp_path: Path) -> None:
        from causalveil.flows.deployed import admit

        path = write_study(tmp_path / "study")
        admit(str(path.parent))
        flow, tasks = tags_by_name("admit", 1)
        assert flow == {"dataset:small"}
        assert tasks == [("admit", {"dataset:small"})]

    def test_of_an_extract_whose_tasks_name_their_blocks(self, tmp_path: Path) -> None:
        from causalveil.flows.deployed import extract

        source = write_source(tmp_path / "source.yaml", files(tmp_path / "files", visits(), "parquet"))
        # One of its months has no rows, so it ends in a state with a name, which a busy server may return without data.
        extract(str(source), return_state=True)
        flow, tasks = tags_by_name("extract", 2)
        (dataset,) = flow
        assert dataset.startswith("dataset:")
        names = [name for name, _ in tasks if name.startswith("extract")]
        assert len(names) == len(set(names)) > 1
        assert all(re.fullmatch(r"extract, block \S+", name) for name in names)
        assert all(dataset in tags for _, tags in tasks)
