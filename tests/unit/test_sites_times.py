"""Effects on times over sites of different hazards and shares of treated: no site confounds another's arms."""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.schemas.estimators.survival import Measure
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.release import Interval, Variance
from causalveil.tasks.inference.assemble import NOISY
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.sites.pool import SiteEstimate, pool
from causalveil.tasks.survival.curves import Grid
from causalveil.tasks.survival.effects import TwoArms
from causalveil.tasks.survival.strategy import exact_cells
from tests.survival_help import HORIZON


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
        coverage=Coverage.normal_approximation,
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
