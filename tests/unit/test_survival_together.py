"""Many questions of one release of cells: what each reads, how far a person moves them, and what holds together."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from causalveil.flows.estimators.survival import SURVIVAL
from causalveil.flows.run.estimators import rehearse
from causalveil.schemas.answers import State
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.limits import Code
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.answers import compare, units_by_arm
from causalveil.tasks.estimate.times.curves import BITS, Grid, measured, strategy
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.releases import JointCells, count_cells, grid_of, mechanism, release_stage
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.limits import codes
from tests.survival_help import People, exact_cells, make_times

GROUPS = {"name": "site", "column": {"levels": ["north", "south", "east"]}}
ARMS = {"levels": ["none", "low", "high"], "reference": "none"}


def crowd(n: int, seed: int, arms: int = 2, groups: int = 1) -> People:
    """Deaths and relapses at constant rates, the fewer deaths the higher the arm; some are lost."""
    random = np.random.default_rng(seed)
    arm, group = random.integers(0, arms, n).astype(np.uint8), random.integers(0, groups, n).astype(np.uint8)
    death, relapse, lost = (random.exponential(mean, n) for mean in (500, 1200, 1500))
    death = death * (1 + 0.4 * arm)
    first = np.minimum(np.minimum(death, relapse), lost)
    # The groups of events of ``make_times``: deaths, then relapses.
    kind = np.where(first == death, 1, np.where(first == relapse, 2, 0)).astype(np.uint8)
    return People(arm, np.ceil(first), kind, group=group)


def exact(study: Any, people: People) -> JointCells:
    """The cells of people without noise."""
    grid = grid_of(study, len(people))
    counts = count_cells(people.enclave(), grid, 1)
    shaped = counts.reshape(grid.groups, grid.arms, grid.cells).astype(np.float64)
    return JointCells(grid, shaped, np.zeros((grid.cells, grid.cells)), None)


def table(study: Any, people: People, seed: int) -> Findings:
    found = rehearse(study, people.enclave(), RehearsalBudget(seed), seed)
    assert isinstance(found, Findings)
    return found


@pytest.mark.parametrize(
    ("groups", "arms", "kinds", "intervals"), [(1, 2, 1, 7), (3, 2, 2, 10), (2, 4, 3, 5), (4, 3, 1, 3)]
)
def test_no_two_people_are_farther_apart_than_declared(groups: int, arms: int, kinds: int, intervals: int) -> None:
    """Brute force over all pairs of cells, in whole numbers: sqrt(2) and 2, whatever is asked of them."""
    grid = Grid(intervals, kinds, 10.0, groups, arms)
    for plain, norm, most in ((False, 2, 2 * 4**BITS), (True, 1, 2 * 2**BITS)):
        people = np.eye(grid.numbers, dtype=np.int64)
        moved = np.array([measured(one, grid, plain) * 2**BITS for one in people]).astype(np.int64)
        # Beside the cells: who is not eligible adds nothing.
        moved = np.concatenate([moved, np.zeros((1, grid.numbers), dtype=np.int64)])
        far = max(int((np.abs(a - b) ** norm).sum()) for a, b in itertools.combinations(moved, 2))
        assert far <= most
        assert far > 0.99 * most


@pytest.mark.parametrize(("groups", "kinds", "intervals"), [(1, 1, 6), (2, 2, 3), (1, 3, 2)])
def test_no_two_people_who_may_enter_late_are_farther_apart_than_declared(
    groups: int, kinds: int, intervals: int
) -> None:
    """Brute force over all pairs of people, each an exit with any entry or none, in whole numbers: 2 and 4.

    That any entry stands beside any exit holds of no people, and bounds all that there are.
    """
    grid = Grid(intervals, kinds, 10.0, groups, 2, entries=True)
    block = np.arange(grid.numbers).reshape(-1, grid.cells)
    people = [np.zeros(grid.numbers, dtype=np.int64)]
    for own in block:
        for leaves, enters in itertools.product(own[: grid.exits], (*own[grid.exits :], None)):
            people.append(np.bincount([leaves] if enters is None else [leaves, enters], minlength=grid.numbers))
    for plain, norm, most in ((False, 2, 4 * 4**BITS), (True, 1, 4 * 2**BITS)):
        moved = np.array([measured(one, grid, plain) * 2**BITS for one in people]).astype(np.int64)
        far = max(int((np.abs(moved - one) ** norm).sum(axis=1).max()) for one in moved)
        assert 0.99 * most < far <= most


@pytest.mark.parametrize("horizons", [(365,), (100, 365), (30, 365, 1826)])
def test_every_horizon_ends_an_interval(horizons: tuple[int, ...]) -> None:
    outcomes = [{"of": ["death"], "horizon": one, "role": "primary"} for one in horizons]
    grid = grid_of(make_times(outcomes=outcomes), 5_000)
    assert set(horizons) <= set(grid.between)
    assert (np.diff(grid.ends, prepend=0.0) > 0).all()
    assert len(grid.between) == grid.intervals
    # An event on a horizon lies before it, and the next moment behind it.
    arm, kind = np.zeros(2, np.uint8), np.ones(2, np.uint8)
    for one in horizons:
        at, after = grid.cell(arm, np.array([float(one), np.nextafter(one, 1e9)]), kind)
        assert grid.ends[at] == one
        assert after != at


def test_a_question_reads_what_a_study_of_its_own_would() -> None:
    """Counts of every question are those of its own people, counted anew: of its group, events and horizon."""
    study = make_times(subgroups=GROUPS, arms=ARMS, intervals=12)
    people = crowd(2_000, 2, arms=3, groups=3)
    cells = exact(study, people)
    names = {1: "death", 2: "relapse"}
    for one in cells.contrasts(study):
        use = np.isin(people.arm, (0, one.arm))
        if one.group is not None:
            use &= people.group == one.group
        arm = (people.arm[use] != 0).astype(np.uint8)
        own = np.array([0, *(1 if names[kind] in one.question.outcome.of else 2 for kind in (1, 2))])
        kind = own[people.kind[use]].astype(np.uint8)
        grid = one.part.grid
        expected = People(arm, people.time[use], kind).counts(grid)
        assert (one.both.cells.counts == expected).all()
        # And its answer is that of these counts.
        alone = TwoArms(exact_cells(expected, grid)).contrast(one.question.measure, 0.95, 0.0)
        assert one.both.contrast(one.question.measure, 0.95, 0.0).estimate == pytest.approx(alone.estimate, abs=1e-12)


def test_a_question_of_late_entries_reads_what_a_study_of_its_own_would() -> None:
    """Two horizons, subgroups and kinds: people at risk of each question are those counted anew."""
    study = make_times(subgroups=GROUPS, intervals=12, entry="since", landmark=50)
    people = crowd(3_000, 4, groups=3)
    entry = np.floor(np.random.default_rng(5).uniform(-300, 600, 3_000)).clip(0)
    never = (entry >= np.minimum(people.time, study.horizons[-1])) | (people.time <= 50)
    group = np.where(never, 3, people.group).astype(np.uint8)
    people = replace(people, group=group, entry=entry)
    cells = exact(study, people)
    for one in cells.contrasts(study):
        grid, use = one.part.grid, group < 3 if one.group is None else group == one.group
        assert (grid.start, grid.horizon) == (50, one.question.outcome.horizon)
        for side, arm in enumerate((0, one.arm)):
            own = use & (people.arm == arm)
            starts = np.append(50.0, grid.ends[:-1])
            # Who enters just when an interval begins counts for half of it, but at the landmark.
            inside = [np.count_nonzero(own & (entry < at + (at == 50)) & (people.time > at)) for at in starts]
            assert curves.at_risk(one.both.cells.counts[side], grid).tolist() == inside
    for place, group_name in enumerate(study.groups):
        for arm, name in enumerate(study.arm_names):
            counted = np.count_nonzero((group == place) & (people.arm == arm))
            assert units_by_arm(study, cells)[f"units[{group_name}][{name}]"] == counted
    covariance = cells.covariance(cells.contrasts(study))
    alone = [sum(one.both.variances(one.question.measure)) for one in cells.contrasts(study)]
    assert np.diag(covariance) == pytest.approx(alone, rel=1e-6)


def test_a_question_that_nobody_reaches_ends_earlier_and_others_where_they_say() -> None:
    """Nobody is followed beyond day 500: of two horizons the later ends near it, if the study restricts it."""
    people, study = crowd(20_000, 3, arms=3), {"arms": ARMS, "treatment_codes": None}
    late = people.time > 500
    followed = People(people.arm, np.minimum(people.time, 500), np.where(late, 0, people.kind), group=people.group)
    plain, earlier = (
        table(make_times(censoring={"beyond": beyond}, **study), followed, 1) for beyond in ("refuse", "restrict")
    )
    for refused, told in zip(plain.answers, earlier.answers, strict=True):
        if "365" in told.outcome:
            assert (told.estimate, told.interval) == (refused.estimate, refused.interval)
            assert told.restricted_to is None
            continue
        assert (refused.state, told.state) == (State.unresolved, State.answered)
        assert told.restricted_to is not None
        assert 450 < told.restricted_to < 515
        assert told.values is not None
        assert told.estimate == pytest.approx(told.values[1] - told.values[0])
        assert told.interval is not None
        if told.outcome.startswith("mean"):
            assert 0 < told.values[0] < told.restricted_to
    assert Code.earlier_horizon in codes(earlier.not_covered)
    assert Code.earlier_horizon not in codes(plain.not_covered)


def noise_of(study: Any, n: int) -> JointCells:
    return JointCells.read(np.zeros(grid_of(study, n).numbers), study, sizes_of(study, n))


@pytest.mark.parametrize("where", [False, True])
def test_the_covariance_of_noise_is_that_of_draws(where: bool) -> None:
    """Of linear functions of cells, 20,000 draws of a fixed seed: each entry within 5 standard errors (false alarm
    below 1e-3 over all entries)."""
    conditions = [{"column": "age", "holds": {"lower": 0, "upper": 1}, "op": ">=", "values": [0.3]}] if where else []
    study = make_times(subgroups=GROUPS, intervals=3, where=conditions, outcomes=[{"horizon": 365, "role": "primary"}])
    cells = noise_of(study, 900)
    assert (cells.known is None) == where
    grid, random, draws = cells.grid, np.random.default_rng(4), 20_000
    back = np.linalg.inv(strategy(grid, plain=False) / 2**BITS)
    raw = random.normal(size=(draws, grid.groups * grid.arms, grid.cells)) * mechanism(study).known_scale @ back.T
    if not where:
        loading = cells.block.sum(axis=1) / (cells.block.sum() * grid.groups * grid.arms)
        raw = raw - raw.sum(axis=(1, 2))[:, None, None] * loading
        assert np.abs(raw.sum(axis=(1, 2))).max() < 1e-6
    shaped = raw.reshape(draws, grid.groups, grid.arms, grid.cells)
    for group, members in ((None, [0, 1, 2]), (1, [1])):
        both = shaped[:, members][:, :, [0, 1]].sum(axis=1).reshape(draws, -1)
        expected = cells.two_arms(cells.members(group), 1).cells.noise
        found = both.T @ both / draws
        error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / draws)
        assert (np.abs(found - expected) < 5 * error + 1e-9).all()


def test_answers_have_the_covariance_that_their_errors_have() -> None:
    """Against the first-order one over 300 populations and draws of noise, seeds fixed: correlations within .3 (five
    standard errors of one near 0), standard errors within a third."""
    study = make_times(subgroups={"name": "site", "column": {"levels": ["north", "south"]}}, epsilon="2", intervals=10)
    rows = np.array([estimates(study, crowd(1_500, seed, groups=2), seed) for seed in range(300)])
    noisy = noise_of(study, 1_500)
    cells = JointCells(noisy.grid, exact_counts(study, noisy.grid), noisy.block, 1_500)
    expected = cells.covariance(cells.contrasts(study))
    errors = np.sqrt(np.diag(expected))
    assert np.allclose(rows.std(axis=0) / errors, 1.0, atol=0.33)
    away = np.corrcoef(rows.T) - expected / np.outer(errors, errors)
    assert np.abs(away).max() < 0.3


def estimates(study: Any, people: People, seed: int) -> list[float]:
    """Every answer's estimate alone, from a draw of noise."""
    sizes = sizes_of(study, len(people))
    released = release_stage(study, sizes, people.enclave(), RehearsalBudget(seed))
    found = []
    for one in JointCells.read(released, study, sizes).contrasts(study):
        function = one.both.function(one.question.measure)
        control, treated = (float(function(row)) for row in one.both.cells.counts)
        found.append(treated - control)
    return found


def exact_counts(study: Any, grid: Grid) -> FloatArray:
    many = crowd(150_000, 1, groups=grid.groups)
    counts = count_cells(many.enclave(), grid, 1)
    shaped: FloatArray = counts.reshape(grid.groups, grid.arms, grid.cells) / 100
    return shaped


def test_intervals_together_are_wider_than_alone_and_never_wider_than_bonferroni() -> None:
    study = make_times(subgroups=GROUPS, arms=ARMS, intervals=10)
    people = crowd(20_000, 6, arms=3, groups=3)
    found = table(study, people, 6)
    cells = exact(study, people)
    asked = cells.contrasts(study)
    _, factor = compare(study, cells, asked)
    assert len(asked) == len(found.answers) == 5 * 2 * 4
    assert 1.96 < factor <= -ndtri(0.025 / len(asked)) + 1e-9
    assert factor < -ndtri(0.025 / len(asked)) - 0.05, "outcomes of the same people go together"
    for one in found.answers:
        assert one.interval is not None
        assert one.simultaneous is not None
        assert one.simultaneous.lower <= one.interval.lower <= one.interval.upper <= one.simultaneous.upper


def test_nobody_in_a_subgroup_is_an_honest_wide_answer() -> None:
    """No one is in the last subgroup, and nobody is treated in the second: whole range, no NaN, others as ever."""
    people = crowd(9_000, 7, groups=2)
    people.arm[people.group == 1] = 0
    found = table(make_times(subgroups=GROUPS, intervals=12), people, 7)
    for one in found.answers:
        hidden = one.group in ("south", "east")
        assert (one.state == "unresolved") == hidden, one
        assert one.interval is not None
        span = 730.0 if "730" in one.outcome else 365.0
        span = span if one.outcome.startswith("mean time") else 1.0
        if hidden:
            assert (one.interval.lower, one.interval.upper) == (-span, span)
            assert one.log_rank is None
    numbers = [end for one in found.answers for end in (one.estimate, one.noise_error, one.sampling_error)]
    assert np.isfinite(np.array(numbers, dtype=float)).all()


def test_where_nobody_is_eligible_everything_is_wide() -> None:
    where = [{"column": "age", "holds": {"lower": 0, "upper": 1}, "op": ">=", "values": [0.3]}]
    people = crowd(3_000, 8, groups=1)
    people.group[:] = 1  # type: ignore[index]
    found = table(make_times(where=where), people, 8)
    assert all(one.state == "unresolved" for one in found.answers)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "two horizons equal": (
        {"outcomes": [{"horizon": 365, "role": "primary"}, {"horizon": 365.0}]},
        "same events until the same horizon",
    ),
    "horizons closer than a step": (
        {"outcomes": [{"horizon": 365, "role": "primary"}, {"horizon": 365.5}]},
        "closer than one step",
    ),
    "beyond the contract": ({"outcomes": [{"horizon": 9999, "role": "primary"}]}, "the contract's times end at 3650"),
    "two pairs of columns": (
        {"outcomes": [{"horizon": 365, "role": "primary"}, {"time": "weeks", "horizon": 30}]},
        "one 'time' and one 'event'",
    ),
    "no primary": ({"outcomes": [{"horizon": 365}]}, "role: primary"),
    "no event": ({"outcomes": [{"horizon": 365, "of": ["alive"], "role": "primary"}]}, "is censoring and no event"),
    "losses by the subgroups": (
        {
            "covariates": {"age": {"lower": 0, "upper": 1}},
            "subgroups": GROUPS,
            "censoring": {"by": {"site": GROUPS["column"]}},
        },
        "two roles",
    ),
    "more strata than fit": (
        {
            "covariates": {"age": {"lower": 0, "upper": 1}},
            "measure": ["risk"],
            "subgroups": {"name": "site", "column": {"levels": [f"s{k}" for k in range(50)]}},
            "censoring": {"by": {"ward": {"levels": [f"w{k}" for k in range(6)]}}},
        },
        "makes 300 groups of an arm over all subgroups; at most 255",
    ),
    "earlier ends of subgroups": (
        {"subgroups": GROUPS, "censoring": {"beyond": "restrict"}},
        "would end each at a time of its own",
    ),
    "the treated of three arms": (
        {
            "covariates": {"age": {"lower": 0, "upper": 1}},
            "arms": {"reference": 0, "levels": [0, 1, 2]},
            "estimand": "ATT",
        },
        "over all units: use 'estimand: ATE'",
    ),
    "many adjusted questions": (
        {
            "covariates": {"age": {"lower": 0, "upper": 1}},
            "outcomes": [{"horizon": 20.0 * k, "role": "primary"} for k in range(1, 27)],
        },
        "make 52 questions of each subgroup; at most 50",
    ),
    "treated alone": ({"estimand": "ATT"}, "use estimand 'ATE'"),
    "subgroups by the arm": ({"subgroups": {"name": "treated", "column": {"levels": ["a", "b"]}}}, "two roles"),
    "too many": (
        {"subgroups": {"name": "site", "column": {"levels": [f"s{k}" for k in range(100)]}}},
        "make 505 questions; at most 500",
    ),
    "label": ({"level": "label"}, "declare level 'sample'"),
    "intervals without a delta": ({"delta": "0", "intervals": 20}, "served without a delta"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_asked_is_refused(case: str) -> None:
    changes, said = BAD[case]
    with pytest.raises(StudyError, match=said):
        make_times(**changes)


def test_more_subgroups_than_the_budget_can_serve_are_refused_before_a_row_is_read() -> None:
    study = make_times(subgroups={"name": "site", "column": {"levels": [f"s{k}" for k in range(60)]}})
    with pytest.raises(CausalveilError, match="it can serve"):
        SURVIVAL.declare(study, sizes_of(study, 1_000))
    assert len(SURVIVAL.declare(study, sizes_of(study, 100_000))) == 1
