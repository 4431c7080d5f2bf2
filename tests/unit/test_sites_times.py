"""Effects on times over sites of different hazards and shares of treated: no site confounds another's arms."""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.schemas.estimators.survival import Measure
from causalveil.schemas.release import Interval, Variance
from causalveil.tasks.estimate.interval import NOISY
from causalveil.tasks.estimate.times.curves import Grid, measured
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.releases import grid_of, mechanism
from causalveil.tasks.estimate.times.strata import Strata, TimesShown
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.sites.pool import SiteEstimate, pool
from tests.survival_help import HORIZON, exact_cells, make_survival, read_cells


def cells(grid: Grid, people: int, treated: float, risk: float) -> FloatArray:
    """Expected cells of a site where treatment does nothing: events at a constant rate, nobody lost."""
    left = (1 - risk) ** (np.arange(grid.intervals + 1) / grid.intervals)
    own = np.concatenate([-np.diff(left), np.zeros(grid.intervals), left[-1:]])
    return np.outer([1 - treated, treated], own) * people


def estimate(site: str, both: TwoArms, measure: Measure) -> SiteEstimate:
    found = both.contrast(measure, 0.95, 0.0)
    interval = Interval(
        lower=found.lower,
        upper=found.upper,
        confidence=0.95,
        covers=NOISY,
        whole_range=found.whole_range,
    )
    return SiteEstimate(site, found.estimate, Variance(sampling=found.sampling, noise=found.noise), interval)


def test_summed_cells_are_confounded_by_site_and_pooled_effects_are_not() -> None:
    """The case of docs/proofs/survival.md, section 11: no effect at either site, .36 in their sum."""
    grid = Grid(20, 1, HORIZON)
    sites = [cells(grid, 2_000, 0.8, 0.8), cells(grid, 2_000, 0.2, 0.2)]
    together = TwoArms(exact_cells(sites[0] + sites[1], grid)).contrast(Measure.risk, 0.95, 0.0)
    assert (together.treated, together.control) == pytest.approx((0.68, 0.32))
    assert together.lower > 0.3
    for measure, span in ((Measure.risk, 1.0), (Measure.rmst, HORIZON)):
        said = [estimate(str(place), TwoArms(exact_cells(one, grid)), measure) for place, one in enumerate(sites)]
        found = pool(said, 0.95, (-span, span))
        assert found.fixed.estimate == pytest.approx(0, abs=1e-9)
        assert found.heterogeneity.tau2 == 0


def drawn(n: int, treated: float, hazard: float, ratio: float, seed: int) -> TwoArms:
    """Noisy cells of a site whose events come at a constant rate, and whose losses do too."""
    random = np.random.default_rng(seed)
    study = make_survival(competing=False)
    grid, draw = grid_of(study, n), mechanism(study)
    arm = (random.random(n) < treated).astype(np.uint8)
    death = random.exponential(1 / (hazard * np.where(arm == 1, ratio, 1.0)) * HORIZON)
    lost = random.exponential(HORIZON / 0.4, n)
    counts = np.bincount(
        grid.cell(arm, np.minimum(death, lost), (death <= lost).astype(np.uint8)), minlength=grid.numbers
    )
    exact = measured(counts, grid, plain=False)
    return TwoArms(read_cells(exact + random.normal(0, draw.known_scale, exact.shape), study, n))


def test_stratified_arms_are_not_confounded_by_site() -> None:
    """No effect at either of two sites as above: curves are one, and so is the ratio of hazards."""
    grid = Grid(20, 1, HORIZON)
    both = [TwoArms(exact_cells(cells(grid, 2_000, *of), grid)) for of in ((0.8, 0.8), (0.2, 0.2))]
    strata = Strata(tuple(both), (2_000, 2_000))
    assert strata.contrast(Measure.risk, 0.95, 0.0).estimate == pytest.approx(0, abs=1e-9)
    mean = strata.curves(TimesShown(HORIZON, None, "randomised", ("death",)), 0.95, ("0", "1"))
    assert mean.arms[0].survival == pytest.approx(mean.arms[1].survival)
    assert mean.arms[0].survival[-1] == pytest.approx(0.5)
    test = strata.log_rank(0.95)
    assert test is not None
    assert test.statistic == pytest.approx(0, abs=1e-6)
    assert test.ratio == pytest.approx(1, rel=1e-6)


def test_a_site_that_is_not_seen_may_have_any_effect() -> None:
    """A fifth of the people is at a site without anybody at the horizon: .2 to either side are allowed for."""
    grid = Grid(20, 1, HORIZON)
    seen, gone = cells(grid, 4_000, 0.5, 0.5), cells(grid, 1_000, 0.5, 0.5)
    lost = np.zeros_like(gone)
    lost[:, grid.intervals] = gone.sum(axis=1)  # all of them censored in the first interval
    strata = Strata(tuple(TwoArms(exact_cells(one, grid)) for one in (seen, lost)), (4_000, 1_000))
    alone = Strata(strata.both[:1], (4_000,)).contrast(Measure.risk, 0.95, 0.0)
    found = strata.contrast(Measure.risk, 0.95, 0.0)
    assert not strata.all_seen
    assert not found.whole_range
    assert found.bias == pytest.approx(0.2)
    assert 0.2 < found.upper < 0.2 + alone.upper
    none = Strata(strata.both[1:], (1_000,)).contrast(Measure.rmst, 0.95, 0.0)
    assert (none.lower, none.upper, none.whole_range) == (-HORIZON, HORIZON, True)


@pytest.mark.long
def test_stratified_intervals_hold() -> None:
    """400 rounds of three sites with other hazards, shares of treated and sizes, at epsilon 1; seeds from 0.

    At a coverage of .95 fewer than 366 are held in 1 of 500 such tests; other bounds leave four deviations.
    """
    sites = ((3_000, 0.5, 0.5), (1_000, 0.3, 1.2), (2_000, 0.7, 0.2))
    units = tuple(n for n, _, _ in sites)
    truth = float(np.average([np.exp(-h) - np.exp(-0.7 * h) for _, _, h in sites], weights=units))
    held, errors, statistics = 0, [], []
    with one_thread():
        for seed in range(400):
            strata = three(sites, 0.7, seed)
            found = strata.contrast(Measure.risk, 0.95, 0.0)
            held += found.lower <= truth <= found.upper
            errors.append((found.estimate - truth) / np.sqrt(found.sampling + found.noise))
            test = three(sites, 1.0, 5_000 + seed).log_rank(0.95)
            assert test is not None
            statistics.append(test.statistic)
    assert held >= 366
    for found_errors in (errors, statistics):
        assert abs(np.mean(found_errors)) < 0.2
        assert 0.86 < np.std(found_errors) < 1.15


def three(sites: tuple[tuple[int, float, float], ...], ratio: float, seed: int) -> Strata:
    both = tuple(drawn(n, t, h, ratio, 1_000 * seed + place) for place, (n, t, h) in enumerate(sites))
    return Strata(both, tuple(n for n, _, _ in sites))
