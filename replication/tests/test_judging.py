"""The judging of an estimator: what counts as worse, on whom it is run, and that a broken-off run goes on."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.tasks.estimate.adjust import posterior, recipe, screen
from replication.benchmarks import accuracy, settings
from replication.benchmarks import judged_populations as judged
from replication.benchmarks import judging as bench
from replication.benchmarks import judging_table as table

LEVELS = (0.2, 0.1, 0.05)


def kept(half: float, run: int = 0, **more: Any) -> dict[str, Any]:
    """An answer of 0.1 whose interval at 95% is 0.1 +- ``half``; the truth is 0."""
    intervals = [[0.1 - half * share, 0.1 + half * share] for share in (0.65, 0.84, 1.0)]
    known = {"case": "one-1000-1", "run": run, "part": "written", "cell": "one-1000-1", "kind": "lines", "units": 1_000}
    numbers = {"epsilon": "1", "columns": 3, "truth": 0.0, "estimate": 0.1, "seconds": 0.1, "people": run}
    return known | numbers | {"intervals": intervals, "planned": math.nan} | more


def group(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> table.Group:
    """The one cell of some runs."""
    (found,) = table.cells(table.paired(new, old, old))
    return found


def test_score_is_that_of_bracher_and_others() -> None:
    """Their formula with its weights alpha/2 and 1/2, spelled out; a miss costs its distance."""
    intervals = [(0.0, 2.0), (-1.0, 3.0), (-2.0, 4.0)]
    for truth in (1.5, 5.0):
        levels = zip(LEVELS, intervals, strict=True)
        each = [a / 2 * (high - low + 2 / a * max(0, low - truth, truth - high)) for a, (low, high) in levels]
        assert table.score(truth, 1.0, intervals) == pytest.approx((abs(1 - truth) / 2 + sum(each)) / 3.5)


def test_wider_narrower_and_refusing() -> None:
    """Wider by much is worse, the same is not, not holding the truth is, refusing most is."""
    old = [kept(0.3, run) for run in range(8)]
    assert not group(old, old).worse
    assert group([kept(0.6, run) for run in range(8)], old).worse
    assert group([kept(0.05, run) for run in range(8)], old).worse
    assert not group([kept(0.2, run) for run in range(8)], old).worse
    refused = [kept(0.3, run, estimate=math.nan if run < 5 else 0.1) for run in range(8)]
    assert group(refused, old).worse
    assert not group(old, refused).worse


def test_small_cells_of_tables_are_one() -> None:
    """Two tables of a kind below 10,000 and three above are one cell; people must be the same."""
    named = [(f"table-{k}", "lines, n eps below" if k < 2 else "lines, n eps 10,000") for k in range(5)]
    lines = [kept(0.3, part="tables", case=case, cell=cell) for case, cell in named]
    assert [(one.name, len(one.cases)) for one in table.cells(table.paired(lines, lines, lines))] == [
        ("tables: lines", 5)
    ]
    with pytest.raises(ValueError, match="same people"):
        table.paired(lines, [line | {"people": 99} for line in lines], lines)


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Answers are appended once, both estimators see the same people, and tables have a row of each cell."""
    random, count = np.random.default_rng(3), 300
    one = judged.PUBLISHED["randhie"]
    columns = {name: random.integers(0, 2, count) for name in (one.treatment, *one.covariates)}
    pl.DataFrame(columns | {one.outcome: random.normal(10, 2, count)}).write_csv(tmp_path / one.file)
    arguments = ("today,least-squares", str(tmp_path), "published", "1", str(tmp_path))
    assert not bench.run(*arguments, "0")
    for _ in range(2):
        assert bench.run(*arguments)
    found = {name: bench.lines(bench.kept_in(str(tmp_path), name)) for name in ("today", "least-squares")}
    assert [len(some) for some in found.values()] == [2, 2]
    three = (found["today"], found["today"], found["least-squares"])
    assert table.verdict(*three).startswith("Worse in 0 of 2 cells")
    bench.show(str(tmp_path), str(tmp_path), new="today")
    assert "\nrandhie-1,1," in (tmp_path / "judging-cells.csv").read_text()
    kept = {path.name for path in (Path(__file__).parents[2] / "docs" / "figures").glob("judging-*.csv")}
    assert {path.name for path in tmp_path.glob("judging-*.csv")} | {"judging-mended.csv"} == kept


def test_least_squares_holds_the_effect_of_lines() -> None:
    """Of 60 seeded tables 95% intervals miss 8 or more, by chance, 1 time in 100; both ways are looked at."""
    for name, units in (("varying", 1_000), ("few", 1_000)):
        (case,) = (one for one in bench.cases("written", Path()) if one.name == f"{name}-{units}-1")
        asked = [bench.asked(case, run) for run in range(60)]
        answers = [bench.least_squares(one) for one in asked]
        ends = [(one.truth, *answer.intervals[-1]) for one, answer in zip(asked, answers, strict=True)]
        # Pooled slopes, where few are treated, are not of the average effect: it varies.
        assert sum(not low <= truth <= high for truth, low, high in ends) < (8 if name == "varying" else 16)


def test_a_constant_column_leaves_people_as_they_are() -> None:
    """Outcomes and treatments are the same beside it."""
    plain = judged.population("panel")
    for more in bench.CONSTANT:
        both = [one.draw(50, 2).select("t", "y") for one in (plain, bench.with_constant(plain, more))]
        assert both[0].equals(both[1])


@pytest.mark.long
def test_every_case_is_answered_by_least_squares() -> None:
    """Every population can be drawn and its answer kept as text; 12 populations at 4 settings."""
    every = list(bench.cases("written", Path()))
    assert len(every) == len(judged.WRITTEN) * len(bench.SETTINGS)
    for case in every:
        found = bench.line(case, 0, bench.asked(case, 0), "least-squares")
        assert math.isfinite(json.loads(json.dumps(asdict(found)))["estimate"])


def test_the_page_of_accuracy_has_its_worst_cell_first() -> None:
    """Misses first; of as many, the larger error over least squares. A cell counts people whom both answered."""
    wide = [kept(0.3, run, case="panel-1000-1", scale=1.0) for run in range(4)]
    narrow = [kept(0.05, run, case="trial-1000-1", scale=1.0) for run in range(4)]
    unpaired = [kept(0.05, 9, case="few-1000-1", scale=1.0)]
    found = accuracy.cells([*wide, *narrow, *unpaired], [*wide, *narrow])
    assert [(one.title, one.runs, one.held) for one in found] == [
        (judged.WRITTEN["trial"].title, 4, 0.0),
        (judged.WRITTEN["panel"].title, 4, 1.0),
    ]
    assert accuracy.page(found).index(found[0].title) < accuracy.page(found).index(found[1].title)


def test_every_number_of_the_adjusting_estimator_is_derived_or_varied() -> None:
    varied = {f"{one.module}.{one.name}" for one in settings.SETTINGS}
    assert varied.isdisjoint(settings.DERIVED)
    assert varied | set(settings.DERIVED) == settings.every_number()


def test_a_setting_is_set_wherever_it_is_imported_and_set_back() -> None:
    one = next(one for one in settings.SETTINGS if one.name == "MOST_CANDIDATES")
    with settings.set_to(one, 75):
        assert (recipe.MOST_CANDIDATES, screen.MOST_CANDIDATES) == (75, 75)
    assert recipe.MOST_CANDIDATES == screen.MOST_CANDIDATES == 150
    with settings.set_to(next(one for one in settings.SETTINGS if one.title == "MOSTLY_SMALL[0]"), 5.0):
        assert posterior.MOSTLY_SMALL.tolist() == [5.0, 1, 1, 1, 1, 1]
    assert posterior.MOSTLY_SMALL.tolist() == [10.0, 1, 1, 1, 1, 1]
