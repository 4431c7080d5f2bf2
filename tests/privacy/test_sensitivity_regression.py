"""What the sensitivities of adjustment rest on: of one row alone, whatever stands beside it.

`test_sensitivity_joint.py` has the sensitivities, `test_every_sensitivity.py` searches for pairs that break them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from causalveil.tasks.adjustment.features import (
    BLOCK,
    FeatureMap,
    features_of,
    lines_of,
    score_features,
)
from causalveil.tasks.adjustment.released import Prior, Public
from causalveil.tasks.adjustment.screen import beside
from causalveil.tasks.adjustment.sums import ScaleSums, in_cells
from causalveil.tasks.enclave.enclave import Rows
from replication.benchmarks.adjust_in_memory import feature_values
from tests.regression_help import Design, make_regression

KINDS: dict[str, Any] = {
    "age": {"lower": 0, "upper": 80, "nulls": "indicator"},
    "group": {"levels": ["a", "b", "c"]},
    "half": {"levels": ["a", "b"]},
    "smoker": {"lower": 0, "upper": 1, "codes": {"no": "no", "yes": "yes"}},
    "weight": {"lower": 0, "upper": 1},
}


def design(**changes: Any) -> Design:
    return Design(make_regression(0, covariates=KINDS, **changes))


def row(made: Design, z: list[float], t: int, u: float) -> Rows:
    """A row of x by the columns z: age, missing, three levels, the second of two, a flag, weight."""
    x = np.zeros(10)
    x[list(made.encoding.places)] = z
    # Flags and numbers are -1 to 1 in x.
    x[made.encoding.places[6]] = 2 * z[6] - 1
    return Rows((x * made.encoding.span)[None], np.array([t], np.uint8), np.array([u]))


def test_every_row_is_in_one_cell_of_each_histogram() -> None:
    """Whatever it holds: 4,000 rows, a quarter of them at the corners, seed 1."""
    made, random = design(), np.random.default_rng(1)
    one = ScaleSums(made.encoding, pure=False)
    for _ in range(40):
        z = random.choice([-1.0, 0.0, 1.0, random.uniform(-1, 1)], size=2)
        level = random.integers(3)
        gone = int(random.integers(2))
        levels = [int(level == place) for place in range(3)]
        u = float(random.uniform(-1, 1))
        rows = row(made, [0.0 if gone else z[0], gone, *levels, *random.integers(2, size=2), z[1]], 1, u)
        counts = np.split(np.concatenate([one.of_columns(rows.x), in_cells(rows.u)]), np.cumsum(one.widths)[:-1])
        age, missing, *of_group, _, _, weight, outcome = (float(part.sum()) for part in counts)
        assert (age + missing, sum(of_group), weight, outcome) == (1, 1, 1, 1)


def test_a_row_has_the_same_features_wherever_it_stands() -> None:
    """To the last bit, alone and at 40 places of blocks of other rows; seed 2."""
    made, random = design(), np.random.default_rng(2)
    x = random.uniform(-1, 1, size=(BLOCK + 300, 10)) * made.encoding.span
    values = [features_of(made.features, block)[:, : part.stop - part.start] for part, block in made.encoding.blocks(x)]
    whole = np.concatenate([np.array(part) for part in values], axis=1)
    for place in random.integers(len(x), size=40):
        (_, alone), *_ = made.encoding.blocks(x[place : place + 1])
        assert (features_of(made.features, alone)[:, 0] == whole[:, place]).all()


def test_rows_are_as_their_descriptions_say() -> None:
    """The two readings of a design, this on rows and that of the posterior, differ by the lattice alone; seed 3."""
    made, random = design(), np.random.default_rng(3)
    x = random.uniform(-1, 1, size=(500, 10)) * made.encoding.span
    (_, z), *_ = made.encoding.blocks(x)
    mine = features_of(made.features, z)[:, :500] * made.features.radius
    assert np.abs(mine - feature_values(made.features, z[:, :500].T).T).max() < 2.0**-16 * made.features.radius


def test_releases_of_one_row_are_of_the_same_numbers() -> None:
    """Lines beside curves are those alone, and weights of scores see what moments were of; heavy tails, seed 4.

    Slopes of scores go on along lines, and every row of moments is within its ball.
    """
    made, random = design(), np.random.default_rng(4)
    x = np.clip(random.standard_t(1.5, size=(500, 10)) / 3, -1, 1) * made.encoding.span
    (_, z), *_ = made.encoding.blocks(x)
    alone = FeatureMap(made.lines, (), 7.5)
    public = Public(10_000, made.encoding.columns, "ATE", False, Prior(), 0.2, False)
    both = beside(public, alone, made.curves)
    lines, every = (features_of(one, z)[:, :500] * one.radius for one in (alone, both))
    cut = np.linalg.norm(np.concatenate([np.ones((1, 500)), lines_of(made.lines, z)[:, :500]]), axis=0) > 7.5
    assert 50 < cut.sum() < 450
    assert np.abs(every[: len(lines)] - lines).max() < 2.0**-16 * both.radius
    assert (np.linalg.norm(every, axis=0) <= both.radius).all()
    slopes, weights = (part[:, :500] for part in score_features(both, z))
    assert np.abs(weights - every[1:]).max() < 2.0**-16 * both.radius
    assert (slopes[: len(made.lines)] == lines_of(made.lines, z)[:, :500]).all()
    assert (slopes[len(made.lines) :] == weights[len(made.lines) :]).all()
    assert np.abs(feature_values(both, z[:, :500].T).T - every).max() < 2.0**-16 * both.radius
