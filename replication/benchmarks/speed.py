"""Processor seconds and memory of whole commands, beside bare scripts and other packages: `docs/figures/speed.md`.

    uv run --package causalveil-replication --group peers python -m replication.benchmarks.speed

Everything runs in turn, each in a process of its own, BLAS and polars on one thread. A first turn is not counted, as it
compiles modules and brings files into memory. Every run asks anew, and one that returned a stored value in place of
drawing ends the benchmark. It takes a quarter of an hour, and writes the page, its table and its figure. ``--turns 1
--large 0`` is a quick look; ``--only init plan`` measures some parts and prints them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml

from causalveil.tasks.data.simulate import penalty
from causalveil.tasks.report.figures import figure, write_table
from causalveil_replication.figures import markdown_table, picture, write_page

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
PARTITION = 1_000_000
COVARIATES = 20
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
CLI = (sys.executable, "-m", "causalveil")
BARE = str(Path(__file__).with_name("peers.py"))
PEERS = {
    "statsmodels": "statsmodels, OLS, HC1",
    "pyfixest": "pyfixest, HC1",
    "doubleml": "DoubleML, IRM of linear and logistic models, five folds",
    "doubleml_trees": "the same with LightGBM",
}
# What is asked of a machine that looks at every value of every file once, and no more.
SCAN = (
    "import sys, polars; print(polars.scan_parquet(sys.argv[1] + '/**/*.parquet').select(polars.all().max()).collect())"
)
LABEL = {"epsilon": 1.0, "delta": 0, "level": "label"}
ASKED: dict[str, dict[str, Any]] = {
    "regression": {"estimator": {"name": "regression"}},
    "ipw": {"estimator": {"name": "ipw"}},
    "difference": {"estimator": {"name": "difference_in_means", "trial": True}},
    "balancing": {"estimator": {"name": "balancing"}, "privacy": LABEL},
    "matching": {"estimator": {"name": "matching"}, "privacy": LABEL},
}
CONTRACT = {
    "estimators": ["regression", "ipw", "difference_in_means", "balancing", "matching"],
    "caps": {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label")},
}
# Rows and columns of the CSV file, and entries of the ledger.
CSV, ENTRIES = (200_000, 40), 140_002


class Used(NamedTuple):
    """What a process took: processor seconds and peak megabytes, of its largest process."""

    seconds: float
    megabytes: float


class Line(NamedTuple):
    """What one thing took in each turn."""

    part: str
    name: str
    turns: list[Used]


def measure(command: list[str], environment: Mapping[str, str]) -> tuple[Used, str]:
    """Return what a process took, and what it printed."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0), said.seek(0)
        if child.returncode:
            raise SystemExit(f"{command} failed: {said.read()[-2000:]}")
        return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), printed.read()


def measured_run(study: Path, out: Path, environment: Mapping[str, str], *options: str) -> Used:
    """Return what a run took that drew; values that were returned and not drawn end the benchmark."""
    used, printed = measure([*CLI, "run", str(study), "--json", "--out", str(out), *options], environment)
    # 0: all its charges are new; a number: so many were drawn before; none: the release was, and no stage ran.
    if json.loads(printed)["returned"] != 0:
        raise SystemExit(f"{study}: what was drawn before was returned, so no run was measured; ask with --again")
    return used


def environment_of(place: Path) -> dict[str, str]:
    """Return an environment as users have it: threads, a home of its own, and no Hypothesis, which pandera imports."""
    (place / "absent").mkdir()
    (place / "absent" / "hypothesis.py").write_text("raise ImportError\n")
    found = {**os.environ, **dict.fromkeys(THREADS, "1"), "CAUSALVEIL_HOME": f"{place}/home"}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found | {"PYTHONPATH": f"{place / 'absent'}"}


def simulated(folder: Path, units: int, covariates: int, environment: Mapping[str, str]) -> None:
    """Write synthetic rows, and a study of each estimator that is asked."""
    size = ["--units", str(units), "--covariates", str(covariates), "--partitions", str(max(1, units // PARTITION))]
    measure([*CLI, "simulate", str(folder), *size], environment)
    contract, study = (yaml.safe_load((folder / f"{name}.yaml").read_text()) for name in ("dataset", "study"))
    (folder / "dataset.yaml").write_text(yaml.safe_dump(contract | CONTRACT, sort_keys=False))
    for name, asked in ASKED.items():
        tuned = {"penalty": penalty(units, covariates)} if name in ("ipw", "matching") else {}
        document = study | {"name": name} | asked | {"estimator": asked["estimator"] | tuned}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def runs(
    place: Path, environment: Mapping[str, str], units: int, turns: int, peers: bool, engine: str
) -> Iterator[Line]:
    """Measure admission and runs of one size, each beside a bare script; other packages where asked."""
    folder, part = place / f"rows-{units}", f"{units:,} people x {COVARIATES}"
    simulated(folder, units, COVARIATES, environment)
    names = ("regression", "ipw", "difference") if peers else ("regression", "ipw")
    found: dict[str, list[Used]] = {}
    for turn in range(turns + 1):
        now = {
            "polars looks at every value": measure([sys.executable, "-c", SCAN, str(folder)], environment)[0],
            "`admit`, once for all studies": measure([*CLI, "admit", str(folder)], environment)[0],
        }
        for name in names:
            study, options = folder / f"{name}.yaml", ("--again", "--engine", engine)
            now[f"**`{name}`**"] = measured_run(study, place / f"{units}-{name}-{turn}", environment, *options)
            if name in ("regression", "ipw"):
                bare = [sys.executable, BARE, name, str(study)]
                now[f"bare script of `{name}`"] = measure(bare, environment)[0]
        for name, told in PEERS.items() if peers and turn else ():
            # Trees take minutes: once.
            if name != "doubleml_trees" or turn == 1:
                peer = [sys.executable, BARE, name, str(folder / "regression.yaml")]
                now[told] = measure(peer, environment)[0]
        for name, used in now.items() if turn else ():
            found.setdefault(name, []).append(used)
    yield from (Line(part, name, every) for name, every in found.items())


def plans(place: Path, environment: Mapping[str, str], turns: int) -> Iterator[Line]:
    """Measure plans of the default estimator, which follow from public facts alone."""
    asked: tuple[tuple[int, tuple[str, ...]], ...] = ((20, ()), (60, ()), (20, ("--curve",)))
    for count, options in asked:
        folder = place / f"plan-{count}"
        if not folder.exists():
            simulated(folder, 1_000, count, environment)
        command = [*CLI, "plan", str(folder / "regression.yaml"), "--units", "20000", *options]
        command += [str(place / "curve.html")] if options else []
        name = f"`plan {' '.join(options)}`".replace(" `", "`") + f", {count} covariates"
        yield Line("before a run", name, [measure(command, environment)[0] for _ in range(turns + 1)][1:])


def drafts(place: Path, environment: Mapping[str, str], turns: int) -> Iterator[Line]:
    """Measure `init` of a CSV file in which some values are missing, beside polars, which reads all of it."""
    file, (rows, columns) = place / "people.csv", CSV
    draw = np.random.default_rng(0)
    frame = pl.DataFrame({"id": np.arange(rows), "treated": draw.integers(0, 2, rows)})
    numbers, codes = (columns - 4) // 2, (columns - 4) // 4
    frame = frame.with_columns(
        *(pl.Series(f"x{one}", draw.normal(50, 10, rows).round(3)) for one in range(numbers)),
        *(pl.Series(f"k{one}", draw.integers(0, 100, rows)) for one in range(codes)),
        *(pl.Series(f"c{one}", draw.choice(["north", "south", "east"], rows)) for one in range(codes)),
        pl.Series("flag", draw.choice(["yes", "no"], rows)),
    ).with_columns(outcome=(pl.col("x0") + 2 * pl.col("treated")).round(2))
    lacking = [
        pl.when(pl.Series(draw.random(rows) > 0.03)).then(name).alias(name) for name in ("x1", "x2", "x3", "outcome")
    ]
    frame.with_columns(lacking).write_csv(file)
    parts = ("--data-class", "synthetic", "--unit", "id", "--treatment", "treated", "--outcome", "outcome")
    every = [
        measure([*CLI, "init", str(file), "--out", str(place / f"draft-{turn}"), *parts], environment)[0]
        for turn in range(turns + 1)
    ]
    yield Line("before a run", f"`init` of a CSV file, {rows:,} x {columns}", every[1:])
    read = [sys.executable, "-c", "import sys, polars; polars.read_csv(sys.argv[1])", str(file)]
    yield Line("before a run", "polars reads that file", [measure(read, environment)[0] for _ in range(turns)])


def ledgers(place: Path, environment: Mapping[str, str], turns: int) -> Iterator[Line]:
    """Measure what reads a whole ledger, on a machine that has never seen it but for the last command."""
    from replication.benchmarks.ledger import fill

    os.environ["CAUSALVEIL_HOME"] = environment["CAUSALVEIL_HOME"]
    url = f"sqlite:///{place}/ledger.db"
    fill(url, ENTRIES)
    for words in ("ledger verify", "ledger show trial --json", "ledger forecast trial", "desk --out"):
        every = []
        for turn in range(turns):
            home = place / f"{words.replace(' ', '-')}-{turn}"
            own = {**environment, "CAUSALVEIL_LEDGER_URL": url, "CAUSALVEIL_HOME": str(home)}
            out = [str(place / f"desk-{turn}")] if words.startswith("desk") else []
            every.append(measure([*CLI, *words.split(), *out], own)[0])
        name = " ".join(word for word in words.split() if word not in ("trial", "--out"))
        yield Line(f"a ledger of {ENTRIES // 7:,} runs", f"`{name}`", every)


def lines(asked: argparse.Namespace, place: Path) -> Iterator[Line]:
    """Measure the parts that are asked for, in order."""
    environment = environment_of(place)
    if "runs" in asked.only and asked.small:
        yield from runs(place, environment, asked.small, asked.turns, peers=True, engine=asked.engine)
    if "runs" in asked.only and asked.large:
        yield from runs(place, environment, asked.large, min(asked.turns, 3), peers=False, engine=asked.engine)
    if "init" in asked.only:
        yield from drafts(place, environment, asked.turns)
    if "plan" in asked.only:
        yield from plans(place, environment, asked.turns)
    if "ledger" in asked.only:
        yield from ledgers(place, environment, min(asked.turns, 3))


def row(line: Line, base: Mapping[str, float]) -> dict[str, object]:
    """Return a line of the table; ratios are to the median of `regression` of the same size."""
    seconds = [one.seconds for one in line.turns]
    middle, most = statistics.median(seconds), max(one.megabytes for one in line.turns)
    share = f"{middle / base[line.part]:.2f}" if line.part in base else "-"
    return {
        "of": line.part,
        "what": line.name,
        "median s": f"{middle:.2f}",
        "least s": f"{min(seconds):.2f}",
        "turns": len(seconds),
        "MB": f"{most:.0f}",
        "of `regression`": share,
    }


def draw_bars(path: Path, rows: list[dict[str, object]]) -> None:
    """Write a figure of medians of the smaller size, on an axis of powers of ten."""
    part = rows[0]["of"]
    bars = [(str(one["what"]).replace("*", "").replace("`", ""), float(str(one["median s"]))) for one in rows]
    bars = [bar for bar, one in zip(bars, rows, strict=True) if one["of"] == part][::-1]
    with figure(path, alt=ALT) as axes:
        drawing: Any = axes[0][0].figure
        drawing.set_size_inches(6.4, 3.2)
        own = [name.split(",")[0] in (*ASKED, "admit") for name, _ in bars]
        axes[0][0].barh(
            [name for name, _ in bars],
            [seconds for _, seconds in bars],
            color=["#0072B2" if one else "#999999" for one in own],
        )
        axes[0][0].set_xscale("log")
        axes[0][0].minorticks_off()
        axes[0][0].set_xlabel(f"processor seconds, {part}")


ALT = "Bars of processor seconds of each command and of what stands beside it, on an axis of powers of ten"
PAGE = """
Processor seconds and peak memory of whole processes on made-up rows in Parquet (`causalveil simulate`): `regression`
at epsilon 1 and delta 1e-6, direct engine. Bare scripts do the same in polars and numpy, without privacy
(`replication/benchmarks/peers.py`). Everything ran in turn on {when}, BLAS and polars on one thread; the machine's load
was {load}. Ratios of one run are what to read: a busy machine makes seconds of the processor up to half as many again.
Every run drew its noise and was charged.
"""
NOTES = """
- `regression` takes more than least squares because it looks for curves beside lines, in five noisy releases.
- Memory does not grow with people: a pass holds 16 MB of columns at a time.
- Commands import for about a second; a study of 445 people takes 2 s in all.

What Prefect adds, on a quiet machine, medians of three, seconds by the clock from command to result on
`data/fertility/` (254,654 people): `--engine direct` 4.5; a server that runs already 6.3; a temporary server 14.9, and
20.7 the first time. To measure all but that again, in a quarter of an hour:

    uv run --package causalveil-replication --group peers python -m replication.benchmarks.speed
"""


def main() -> None:
    """Measure, print, and write the page where all parts were measured."""
    parts = ("runs", "init", "plan", "ledger")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=1_000_000, help="people beside other packages; 0: none")
    parser.add_argument("--large", type=int, default=10_000_000, help="people without them; 0: none")
    parser.add_argument("--turns", type=int, default=5, help="three at most of what takes long")
    parser.add_argument("--engine", default="direct", choices=("direct", "prefect"), help="of runs")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--out", type=Path, default=FIGURES)
    asked = parser.parse_args()
    found, loads = list[Line](), list[float]()
    with tempfile.TemporaryDirectory() as place:
        for line in lines(asked, Path(place)):
            loads.append(os.getloadavg()[0])
            found.append(line)
            print(*row(line, {}).values(), f"load {loads[-1]:.1f}", sep=" | ", flush=True)
    base = {
        one.part: statistics.median(used.seconds for used in one.turns)
        for one in found
        if one.name == "**`regression`**"
    }
    rows = [row(one, base) for one in found]
    if set(asked.only) < set(parts):
        return
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(loads), max(loads)))
    load = f"{' to '.join(ends)} on {os.cpu_count()} cores"
    write_table(asked.out / "speed.csv", rows)
    draw_bars(asked.out / "speed.svg", rows)
    told = PAGE.format(when=f"{datetime.date.today():%-d %B %Y}", load=load)
    caption = "Commands in blue, what stands beside them in grey; medians."
    write_page(
        asked.out / "speed.md", ("# Speed", told, markdown_table(rows), picture("speed.svg", ALT, caption), NOTES)
    )


if __name__ == "__main__":
    main()
