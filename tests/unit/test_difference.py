"""The difference in means against the textbook, and its noise against repeated releases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from causalveil.flows.sequence.rehearse import rehearse_effect
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.trial import difference
from tests.aipw_help import confounded, in_memory, make_difference


@pytest.mark.parametrize("level", ["sample", "label"])
def test_without_noise_it_is_the_textbooks(level: str) -> None:
    study, (rows, _) = make_difference(level=level), confounded(20_000, seed=1)
    found = difference.findings(study, sizes_of(study, 20_000), difference.sums(in_memory([rows])))
    arms = [5 * rows.u[rows.t == arm] for arm in (1, 0)]
    assert found.estimate == pytest.approx(arms[0].mean() - arms[1].mean(), abs=1e-4)
    assert found.variance.sampling == pytest.approx(sum(arm.var() / len(arm) for arm in arms), rel=1e-3)
    assert found.details["mean_treated"] == pytest.approx(5 + arms[0].mean(), abs=1e-4)


@pytest.mark.parametrize("level", ["sample", "label"])
def test_the_declared_noise_error_is_that_of_repeated_releases(level: str) -> None:
    """2000 seeded releases; the Monte-Carlo error of a standard deviation is 1.6 %; alarm at 5 %."""
    study, (rows, _) = make_difference(level=level), confounded(5_000, seed=2)
    sizes, exact = sizes_of(study, 5_000), difference.sums(in_memory([rows]))
    entries, scale = difference.private_entries(study), difference.mechanism(study, sizes).noise_scale
    random, estimates = np.random.default_rng(3), []
    for _ in range(2000):
        noisy = exact.copy()
        noisy[entries] += random.normal(0, scale, len(entries))
        estimates.append(difference.findings(study, sizes, noisy).estimate)
    declared = difference.findings(study, sizes, exact).details["noise_standard_error"]
    assert np.std(estimates) == pytest.approx(declared, rel=0.05)


def test_an_empty_arm_gives_the_whole_range() -> None:
    study, (rows, _) = make_difference(), confounded(300, seed=4)
    found = rehearse_effect(study, Rows(rows.x, np.zeros(300, np.uint8), rows.u), RehearsalBudget(0))
    assert found.interval.whole_range
    assert found.details["denominator_clamped"]
    assert math.isfinite(found.estimate)


def test_only_the_count_is_public_at_label_level() -> None:
    study = make_difference(level="label")
    one, other = (row([u]) for u in (1.0, -1.0))
    before, after = (difference.sums(in_memory([r])) for r in (one, other))
    changed = set(np.flatnonzero(before != after).tolist())
    assert changed <= set(difference.private_entries(study))
    assert difference.COUNT not in difference.private_entries(study)


def row(u: list[float]) -> Rows:
    return Rows(np.full((1, 2), 0.5), np.ones(1, np.uint8), np.array(u))
