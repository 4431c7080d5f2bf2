"""Adjusted questions of times asked together: charges, a rerun, tables, and one question against its study."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.estimators.survival import MEAN_TIME
from causalveil.schemas.release import EffectRelease, release_schema
from causalveil.schemas.studies import parse_study
from causalveil.tasks.privacy.gaussian import mu_of
from causalveil.tasks.report.page import report_html
from causalveil.tasks.report.panel import panel_text
from tests.studies import resolved
from tests.survival_help import (
    cared_for_at_sites,
    kept_whole,
    write_adjusted_times,
)

DOSES = {"drug": {"levels": ["none", "low", "high"]}}


def with_doses(n: int) -> pl.DataFrame:
    drug = np.random.default_rng(5).choice(["none", "low", "high"], n)
    return cared_for_at_sites(n).with_columns(drug=pl.Series(drug))


@pytest.mark.parametrize(
    ("changes", "answers", "first"),
    [
        ({"measure": ["risk", "rmst"]}, 20, 10),
        ({"treatment": "drug", "arms": {"reference": "none"}, "subgroups": ...}, 6, 8),
        ({"subgroups": ..., "where": [{"column": "age", "op": ">=", "value": 30}]}, 3, 8),
    ],
)
def test_plan_ledger_release_agree(changes: dict[str, Any], answers: int, first: int, tmp_path: Path) -> None:
    """Six draws for all, whose mu^2 add up to the budget; a run that lost its file has the same bytes again."""
    path = write_adjusted_times(tmp_path / "study", frame=with_doses(4_000), contract={"columns": DOSES}, study=changes)
    _, plan = plan_study(path)
    found = run_study(path, out=tmp_path / "out", run_id="many", engine="direct")
    release = found.release
    assert isinstance(release, EffectRelease)
    assert release.privacy.charges == plan.charges
    sizes = {one.name: round(float(one.sensitivity) ** 2, 2) for one in plan.charges}
    assert (sizes["cells"], sizes["scales"]) == (2.0, first)
    whole = float(mu_of(parse_study(resolved(path).model_dump(mode="json")).privacy.cost)) ** 2
    assert sum(float(one.mu or 0) ** 2 for one in plan.charges) == pytest.approx(whole, rel=1e-6)
    assert len(release.answers) == answers
    assert {one.covariate for one in release.balance} >= {"age"}
    assert all(one.confounding is not None for one in release.answers if one.state == "answered")
    kept_whole(found, path, release_schema())
    adjusted_page_is_true(release, arms="arms" in changes, sites="subgroups" not in changes)


def adjusted_page_is_true(release: EffectRelease, *, arms: bool, sites: bool) -> None:
    """Sentences of a trial, of two arms or of everybody do not stand where something else was done."""
    page = " ".join(unescape(re.sub("<[^>]+>", "", report_html(release))).split())
    assert release.details["simultaneous"] == f"Bonferroni over {len(release.answers)} answers"
    for sentence in (
        "No unmeasured confounding. Among people who agree in age, group,",
        "The arms as they are, not adjusted. Share without",
        f"The arms as they are, not adjusted. Cumulative incidence {'in arm' if arms else 'among'} ",
        f"({len(release.answers)} answers, Bonferroni)",
        "its pseudo-outcome",
        "a regression adjustment, from 5 more releases",
        "the same for every unit, and no unit’s time depends",
        f"can be found in {'every arm' if arms else 'both arms'}",
        f"Within an arm{' and the levels of site' if sites else ''}, people who were lost",
        f"{'each arm minus the reference' if arms else 'treated minus controls'}.",
        f"{'this arm minus all others' if arms else 'treated minus controls'}, in standard deviations",
    ):
        assert sentence in page
    # There are no tests of adjusted answers, so no table of them.
    for sentence in ("confounding_prior assumes", "joint normal law", "Log-rank", "It means the same"):
        assert sentence not in page
    assert (" instead of none" in page) == arms
    means = any(one.outcome.startswith(MEAN_TIME) for one in release.answers)
    assert ("minus controls, in days" in page) == means
    assert bool(re.search(r"mean time [^\n]*  \S+ days  ", panel_text(release))) == means


def test_where_too_few_are_followed_the_answer_is_the_whole_range(tmp_path: Path) -> None:
    path = write_adjusted_times(
        tmp_path / "study", frame=cared_for_at_sites(3_000), study={"censoring": {"floor": 0.9}}
    )
    release = run_study(path, out=tmp_path / "out", simulate=2, engine="direct").release
    assert isinstance(release, EffectRelease)
    for one in release.answers:
        assert (one.state, one.confounding) == ("unresolved", None)
        assert one.interval is not None
        assert (one.interval.lower, one.interval.upper) == (-1, 1)
