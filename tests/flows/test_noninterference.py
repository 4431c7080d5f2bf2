"""Two neighbouring inputs, the same seeded noise: all that leaves the enclave is equal but for declared releases.

Compared after a canonicaliser that is listed here: identifiers, times and durations. What is compared: every row that
the run adds to Prefect's database, every log record, standard output and error, every file name that the run makes,
and the release without its noisy values.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.tasks.privacy.keys import site_secret
from tests.neighbours import neighbour_table
from tests.studies import STUDY, merge, people, write_study
from tests.survival_help import ADJUSTED, cared_for, patients, write_adjusted, write_survival
from tests.survival_help import STUDY as TIMES

SEED = 5
# How often both tables are run before what Prefect stores of one alone counts as a difference.
ATTEMPTS = 4
# The only fields of a release that may depend on the data: declared noisy values and their post-processing.
NOISY = {"answers", "details", "scores", "verdict", "curves", "cells", "benchmarks"}
# Of an answer; all else says what was asked.
NUMBERS = {"state", "estimate", "interval", "simultaneous", "noise_error", "sampling_error", "bias", "spread", "values"}
NUMBERS |= {"restricted_to", "log_rank", "robustness"}
# Columns of Prefect's database that hold times, durations or counters of them.
TIMING = re.compile(r"time|created|updated|occurred|received|duration|heartbeat|resource_id_?$|follows|version_id")
UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
# The random end of the name of a file of noisy records.
RECORDS = re.compile(r"(?<=-)[0-9a-f]{16}(?=\.npy)")
# The random end of a task run's name before it is named.
UNNAMED = re.compile(r"(?<=[a-z]-)[0-9a-f]{3}(?=\\*\")")
# The two random words that Prefect names a pending run with; the second may read like such an end (`spicy-bee`).
PENDING_NAME = re.compile(
    r'(?<=prefect\.resource\.name\\": \\")[a-z]+-(?:[a-z-]+|ID)(?=\\", \\"prefect.run-count\\": \\"0)'
)
DURATION = re.compile(r'total_run_time\\*": [0-9.e-]+')
STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")
# Of what libraries are made, and not of what they are given.
LIBRARIES = (DeprecationWarning, PendingDeprecationWarning, ResourceWarning)
# What the artifact `answer` says of released values, which Prefect shows on purpose.
ANSWER = re.compile(r"(?<=units of small\.).*?(?=Release: `)")
SECONDS = re.compile(r"\b\d+(\.\d+)? ?(s|ms|seconds)\b")


def canonical(value: Any) -> str:
    """Text in which identifiers and times are all alike."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)
    text = RECORDS.sub("ID", UNNAMED.sub("ID", UUID.sub("ID", text)))
    return STAMP.sub("TIME", PENDING_NAME.sub("NAME", DURATION.sub("DURATION", text)))


def database() -> Path:
    from prefect.settings import get_current_settings

    url = get_current_settings().server.database.connection_url
    assert url is not None
    return Path(url.get_secret_value().split("///", 1)[1])


def rows() -> dict[tuple[str, str], str]:
    """Every row of Prefect's database by table and key."""
    found: dict[tuple[str, str], str] = {}
    connection = sqlite3.connect(f"file:{database()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
    for table in tables:
        for row in connection.execute(f'select * from "{table}"'):
            fields = dict(row)
            content = {key: value for key, value in fields.items() if not TIMING.search(key)}
            key = str(fields["id"]) if "id" in fields else json.dumps(content, default=str)
            found[(table, key)] = f"{table}: {ANSWER.sub('ANSWER', canonical(content))}"
    connection.close()
    return found


def settle() -> dict[tuple[str, str], str]:
    """The rows once the server has caught up with the client."""
    import time

    before, quiet = rows(), 0
    for _ in range(120):
        time.sleep(0.5)
        now = rows()
        quiet = quiet + 1 if now.keys() == before.keys() else 0
        before = now
        # The server stores events and logs every half second (conftest).
        if quiet == 5:
            break
    return before


# What is asked of the two inputs, by the names of the estimators.
DIRECTION = {
    "kind": "direction",
    "name": "small",
    "pair": {"x": {"name": "age", "lower": 20, "upper": 60}, "y": {"name": "score", "lower": 0, "upper": 10}},
    "estimator": {"name": "direction", "scores": ["spearman", "kendall", "hsic"], "protect": ["train", "test"]},
    "privacy": {"epsilon": "1.0", "delta": "1e-6"},
}
STUDIES: dict[str, dict[str, Any]] = {
    "ipw": STUDY,
    "matching": merge(STUDY, {"estimator": {"name": "matching"}, "privacy": {"delta": 0}}),
    "direction": DIRECTION,
    "aipw": STUDY | {"estimator": {"name": "aipw", "guarantee": "asymptotic"}},
}
NETWORK = {"model": "neural_network"}
# More that is asked on the direct engine.
MORE: dict[str, dict[str, Any]] = {
    "difference": STUDY | {"estimator": {"name": "difference_in_means"}},
    "regression": merge(STUDY, {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "9"}}),
    "regression unadjusted": STUDY | {"estimator": {"name": "regression"}},
    "networks": merge(STUDIES["aipw"], {"estimator": {"outcome_model": NETWORK, "propensity": dict(NETWORK)}}),
}
# Covariates and treatments are public, so that neighbours differ in one outcome.
LABEL = {"privacy": {"level": "label", "delta": 0}}
PUBLIC = {
    "balancing": merge(STUDY, {"estimator": {"name": "balancing", "penalty": ...}, **LABEL}),
    "ipw": merge(STUDY, LABEL),
    "difference_in_means": merge(STUDY, {"estimator": {"name": "difference_in_means", "penalty": ...}, **LABEL}),
    "matching": merge(STUDY, {"estimator": {"name": "matching"}, **LABEL}),
}
# What a release under public columns says of them exactly.
OF_COLUMNS = {"effective_treated", "effective_control", "largest_weight", "sensitivity_of_estimate"}
OF_COLUMNS |= {
    "features",
    "cells",
    "alone_in_cell",
    "largest_difference_before",
    "largest_difference_after",
    "cap_treated",
    "cap_controls",
    "treated_arm",
    "control_arm",
    "matched",
    "unmatched",
    "largest_reuse",
    "noise_standard_error",
}
DIRECT = tuple({**STUDIES, **MORE})


@pytest.fixture
def neighbours() -> tuple[pl.DataFrame, pl.DataFrame]:
    """One person's whole row is replaced: id, covariates, treatment and outcome, by the most different one."""
    one = people(600)
    person = {"person": 987654321, "treated": not one["treated"][17], "score": 10.0, "age": 60.0, "group": "c"}
    return one, neighbour_table(one, 17, person)


def observe(
    frame: pl.DataFrame,
    tmp_path: Path,
    home: Path,
    engine: str,
    capfd: Any,
    caplog: Any,
    estimator: str = "ipw",
    document: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run once on `frame`, always in the same places; return all that can be seen from outside."""
    folder = tmp_path / f"study-{estimator}"
    asked = document or STUDIES[estimator]
    allowed = {"estimators": [asked["estimator"]["name"]], "guarantees": ["finite_sample", "asymptotic"]}
    write = write_study if estimator != "survival" else write_adjusted if "covariates" in asked else write_survival
    path = write(folder, frame=frame, contract=allowed)
    path.write_text(yaml.safe_dump(asked, sort_keys=False))
    out = tmp_path / "out"
    # What the first admission and the first key of a home leave there is there for both.
    site_secret()
    for folder in ("admissions", "records"):
        (home / folder).mkdir(mode=0o700, exist_ok=True)
    (home / "admissions" / "small.json").touch()
    caplog.clear()
    files: list[str] = []

    def watch(stage: str) -> None:
        files.extend(sorted(f"{stage}: {p.relative_to(home)}" for p in home.rglob("*")))

    # pytest keeps warnings, which a run writes to standard error, to itself.
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        release = run_study(
            path, out=out, run_id=f"observed-{estimator}", simulate=SEED, engine=engine, watch=watch
        ).release
    files.extend(sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")))
    shown = capfd.readouterr()
    (out / "release.json").unlink()
    # What regression adjusted and what its weights leave is read off noisy numbers; of others a study says it.
    adjusts = asked["estimator"]["name"] in ("regression", "survival")
    hidden = NOISY | ({"balance"} if adjusts else set())
    of_answers = NUMBERS | ({"confounding"} if adjusts else set())
    noisy = {name: getattr(release, name) for name in hidden if hasattr(release, name)}
    asked_for = [one.model_dump(mode="json", exclude=of_answers) for one in getattr(release, "answers", ())]
    return {
        "release": release.model_dump(mode="json", exclude=hidden | {"ledger"}) | {"answers": asked_for},
        "noisy": noisy,
        "scores": [(one.score, one.theorem, one.charges) for one in getattr(release, "scores", ())],
        "files": [canonical(name) for name in files],
        "logs": Counter(
            SECONDS.sub("SECONDS", canonical(record.getMessage()))
            for record in caplog.records
            if record.name.split(".")[0] in {"causalveil", "prefect"}
        ),
        "warned": sorted(canonical(str(w.message)) for w in warned if not issubclass(w.category, LIBRARIES)),
        "shown": [canonical(shown.out), SECONDS.sub("SECONDS", canonical(shown.err))],
    }


def see_both(frames: tuple[pl.DataFrame, pl.DataFrame], name: str, *where: Any) -> list[dict[str, Any]]:
    """What is seen of a run on each of two tables, on the direct engine."""
    tmp_path, home, capfd, caplog = where
    document = {**STUDIES, **MORE}[name]
    return [observe(frame, tmp_path, home, "direct", capfd, caplog, name.split()[0], document) for frame in frames]


@pytest.mark.parametrize("name", DIRECT)
def test_direct_engine_shows_nothing_of_the_data(
    name: str, neighbours: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path, home: Path, capfd: Any, caplog: Any
) -> None:
    seen = see_both(neighbours, name, tmp_path, home, capfd, caplog)
    noisy = [run.pop("noisy") for run in seen]
    assert noisy[0] != noisy[1], "the data did differ"
    assert noisy[0].get("details", {}).keys() == noisy[1].get("details", {}).keys()
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("filled", "document"), [(False, TIMES), (True, TIMES), (False, merge(TIMES, ADJUSTED))])
def test_times_to_an_event_are_not_seen(
    filled: bool, document: dict[str, Any], tmp_path: Path, home: Path, capfd: Any, caplog: Any
) -> None:
    """One person's whole row is replaced; or the only control by a treated person."""
    one = cared_for(600) if "covariates" in document else patients(600)
    if filled:
        one = one.with_columns(treated=pl.Series([place != 17 for place in range(600)]))
    person = {
        "person": 987654321,
        "treated": not one["treated"][17],
        "days": 9999.0,
        "status": 1,
        "age": 20.0,
        "group": "c",
    }
    person = {name: person[name] for name in one.columns}
    frames = one, neighbour_table(one, 17, person)
    seen = [observe(frame, tmp_path, home, "direct", capfd, caplog, "survival", document) for frame in frames]
    noisy = [run.pop("noisy") for run in seen]
    assert noisy[0] != noisy[1], "the data did differ"
    assert noisy[0]["details"].keys() == noisy[1]["details"].keys()
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", PUBLIC)
def test_one_outcome_under_public_columns_is_not_seen(
    name: str, tmp_path: Path, home: Path, capfd: Any, caplog: Any
) -> None:
    """The outcome of one person goes from one end of its range to the other; weights and what is said of them stay."""
    frame = people(600)
    ends = [
        neighbour_table(frame, 17, dict(zip(frame.columns, frame.row(17), strict=True)) | {"score": end})
        for end in (0.0, 10.0)
    ]
    seen = [observe(one, tmp_path, home, "direct", capfd, caplog, name, PUBLIC[name]) for one in ends]
    noisy = [run.pop("noisy") for run in seen]
    assert noisy[0]["answers"] != noisy[1]["answers"], "the data did differ"
    details = [one["details"] for one in noisy]
    assert details[0].keys() == details[1].keys()
    public = OF_COLUMNS & details[0].keys()
    assert len(public) >= 4
    assert [details[0][key] for key in public] == [details[1][key] for key in public]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", DIRECT)
def test_an_arm_that_one_person_fills_is_not_seen(
    name: str, tmp_path: Path, home: Path, capfd: Any, caplog: Any
) -> None:
    """The last person of the control arm is replaced by a treated one: neither run ends otherwise than the other."""
    frame = people(600)
    one = frame.with_columns(treated=frame["person"] != frame["person"][17])
    person = dict(zip(one.columns, one.row(17), strict=True)) | {"person": 987654321, "treated": True}
    seen = see_both((one, neighbour_table(one, 17, person)), name, tmp_path, home, capfd, caplog)
    assert seen[0].pop("noisy").keys() == seen[1].pop("noisy").keys()
    assert seen[0] == seen[1]


@pytest.mark.parametrize("names", [("aipw", "direction"), pytest.param(tuple(STUDIES), marks=pytest.mark.long)])
def test_prefect_stores_nothing_of_the_data(
    names: tuple[str, ...],
    neighbours: tuple[pl.DataFrame, pl.DataFrame],
    tmp_path: Path,
    home: Path,
    prefect_server: str,
    capfd: Any,
    caplog: Any,
) -> None:
    """Estimators one after the other; whatever one of them stores is in the one set that is compared.

    What binds stages to Prefect is the same for all: the gate runs one with folds and one of another kind of study, and
    every stage of every estimator on the direct engine above.
    """

    def observe_all(frame: pl.DataFrame, engine: str = "prefect") -> dict[str, dict[str, Any]]:
        return {name: observe(frame, tmp_path, home, engine, capfd, caplog, name) for name in names}

    seen: list[dict[str, dict[str, Any]]] = []
    stored: list[set[str]] = [set(), set()]
    # First runs make folders, and the first one under Prefect registers the flow and the artifacts, which are the same
    # for every estimator; only the runs after them leave the same.
    observe_all(neighbours[0], "direct")
    observe(neighbours[0], tmp_path, home, "prefect", capfd, caplog, names[-1])
    before = settle()
    # The server now and then loses an event, and what one run lost another shows. What the data did is in no run of
    # the other table, however often it is made.
    for _ in range(ATTEMPTS):
        for which in (0, 1):
            seen.append(observe_all(neighbours[which]))
            after = settle()
            stored[which] |= {row for _, row in after.items() - before.items()}
            before = after
        if stored[0] == stored[1]:
            break
    for name in names:
        noisy = [run[name].pop("noisy") for run in seen]
        assert noisy[0] != noisy[1], f"{name}: the data did differ"
        assert all(run == noisy[number % 2] for number, run in enumerate(noisy)), f"{name}: noise is seeded"
        assert seen[0][name]["release"] == seen[1][name]["release"], name
        assert seen[0][name]["files"] == seen[1][name]["files"], name
    assert len(stored[0]) > 16 * len(names), "Prefect did store the runs"
    assert not stored[0] ^ stored[1], "\n".join(sorted(stored[0] ^ stored[1]))


def test_the_observer_would_see_a_leak(
    neighbours: tuple[pl.DataFrame, pl.DataFrame],
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    caplog: Any,
) -> None:
    """Test of the test: a stage that logs one data-dependent number is caught."""
    from causalveil.tasks.estimate.papers.ipw import weights

    honest = weights.weigh_stage

    def leaky(study: Any, sizes: Any, scratch: Path, coefficients: Any) -> None:
        logging.getLogger("causalveil.stages").info("first coefficient %s", coefficients[0])
        honest(study, sizes, scratch, coefficients)

    leaky.__name__ = "weigh_stage"
    monkeypatch.setattr(weights, "weigh_stage", leaky)
    seen = [observe(frame, tmp_path, home, "direct", capfd, caplog) for frame in neighbours]
    assert seen[0]["logs"] != seen[1]["logs"]
