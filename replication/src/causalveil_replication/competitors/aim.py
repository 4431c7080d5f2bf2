"""AIM (McKenna, Mullins, Sheldon and Miklau 2022) by its definition, then matching on what it made.

Measure every column; then again and again pick, by the exponential mechanism, the table that the model so far gets
most wrong, measure it, and fit the model anew; where a round taught little, spend more on the next. The workload is all
pairs, rounds at first 16 a column and a model at most 80 MB, as the authors' code has it; a fit goes on where the one
before ended, until steps gain little, ``ROUNDS`` at most, where theirs has 1,000. Neighbours are the authors': a unit
comes or goes, and n is public. Zero-concentrated privacy, nine tenths of rho for measuring.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import numpy as np

from causalveil.schemas.privacy import GaussianCost, Norm, PrivacyCost, Scope
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.concentrated import rho_of_cap
from causalveil.tasks.privacy.gaussian import epsilon_of, rounded_up
from causalveil.tasks.privacy.mechanisms import Budget, Gaussian, Sensitivity, Slot
from causalveil_replication.competitors.coded import CodeArray, Coded, coded, estimate
from causalveil_replication.competitors.competitor import ADD_REMOVE, DELTA, PROVED, Competitor, Fitted, Instance, cost
from causalveil_replication.competitors.graphical import Clique, GraphicalModel, Measurement, cells, eliminated
from causalveil_replication.competitors.mechanisms import ExponentialChoice

# The authors' bound on a model, 80 MB.
CELLS = 10_000_000
ROUNDS, MEASURING, SEED = 300, 0.9, 0
TURNS_A_COLUMN = 16
# A wrong cell of a table is wrong by so many deviations of the noise on average.
MEAN = math.sqrt(2 / math.pi)
ONE_UNIT = Sensitivity(value=1.0, norm=Norm.l2, formula="1: a unit comes or goes; n is public")


def margins(table: Coded) -> dict[Clique, FloatArray]:
    """All tables of one and of two columns."""
    sizes, codes = table.sizes, table.codes
    found: dict[Clique, FloatArray] = {}
    for clique in [*((a,) for a in range(len(sizes))), *itertools.combinations(range(len(sizes)), 2)]:
        shape = tuple(sizes[column] for column in clique)
        places = np.ravel_multi_index(codes[:, clique].T, shape)
        found[clique] = np.bincount(places, minlength=math.prod(shape)).reshape(shape).astype(np.float64)
    return found


def synthesise(table: Coded, exact: dict[Clique, FloatArray], request: PrivacyCost, budget: Budget) -> CodeArray:
    """Codes of as many units, shape (n, columns)."""
    sizes, units = table.sizes, len(table.codes)
    rho = float(rho_of_cap(request.epsilon, request.delta)) * (1 - 1e-6)
    turns = TURNS_A_COLUMN * len(sizes)
    sigma, choosing = math.sqrt(turns / (2 * MEASURING * rho)), math.sqrt(8 * (1 - MEASURING) * rho / turns)
    model, spent = GraphicalModel(sizes, float(units)), 0.0

    def measure(clique: Clique, sigma: float) -> None:
        model.measure(Measurement(clique, _released(exact[clique], sigma, request, clique, budget), sigma))

    for column in range(len(sizes)):
        measure((column,), sigma)
        spent += 1 / (2 * sigma**2)
    model.fit(ROUNDS)
    while spent < rho * (1 - 1e-9):
        left = rho - spent
        if 2 * (1 / (2 * sigma**2) + choosing**2 / 8) > left:
            sigma, choosing = math.sqrt(1 / (2 * MEASURING * left)), math.sqrt(8 * (1 - MEASURING) * left)
        spent += 1 / (2 * sigma**2) + choosing**2 / 8
        small = allowed(model, list(exact), CELLS * spent / rho)
        modelled = model.margins()
        scores = np.array([_weight(one) * _wrong(exact[one], modelled[one], sigma) for one in small])
        mechanism = ExponentialChoice(cost=PrivacyCost(epsilon=Decimal(f"{choosing:.9g}"), delta=Decimal(0)))
        chosen = small[mechanism.choose(scores, _slot("choice", len(model.measurements)), budget)]
        before = modelled[chosen]
        measure(chosen, sigma)
        model.fit(ROUNDS)
        if np.abs(model.margin(chosen) - before).sum() <= MEAN * sigma * before.size:
            sigma, choosing = sigma / 2, choosing * 2
    return model.sample(units, np.random.default_rng(SEED))


def allowed(model: GraphicalModel, cliques: list[Clique], most: float) -> list[Clique]:
    """Tables with which the model has at most so many cells; those of one column always are among them."""
    measured = list(dict.fromkeys(one.clique for one in model.measurements))
    parts = _parts(len(model.sizes), measured)
    numbers = {part: cells(eliminated(part, _inside(part, measured)), model.sizes) for part in parts}
    whole = sum(numbers.values())
    home = {column: part for part in parts for column in part}

    def with_it(clique: Clique) -> int:
        if clique in measured:
            return whole
        joined = {home[column] for column in clique}
        # The tree with one of its columns in every clique holds the pair too: the search is spared where that is small.
        loose = min(model.sizes[column] for column in clique) * whole
        if loose <= most:
            return loose
        columns = tuple(sorted(column for part in joined for column in part))
        larger = cells(eliminated(columns, [*_inside(columns, measured), clique]), model.sizes)
        return whole - sum(numbers[part] for part in joined) + larger

    return [one for one in cliques if len(one) == 1 or with_it(one) <= most]


def private_matching(instance: Instance) -> Fitted:
    """Matching without privacy on AIM's units; without noise: on the units' own codes."""
    table = coded(instance)
    exact = margins(table)

    def release(epsilon: str, budget: Budget) -> float | None:
        return estimate(instance, table, synthesise(table, exact, cost(epsilon, DELTA), budget))

    return Fitted(estimate(instance, table, table.codes), release)


COMPETITORS = (Competitor("aim", "AIM, then matching", "sample", ADD_REMOVE, PROVED, DELTA, private_matching),)


def _slot(name: str, number: int) -> Slot:
    return Slot(name=f"{name}-{number}", scope=Scope.all)


def _released(values: FloatArray, sigma: float, request: PrivacyCost, clique: Clique, budget: Budget) -> FloatArray:
    mu = rounded_up(Decimal(1 / sigma) * (1 - Decimal("1e-12")), 12)
    part = GaussianCost(epsilon=epsilon_of(mu, request.delta), delta=request.delta, mu=mu)
    slot = _slot("table-" + "-".join(map(str, clique)), 0)
    return np.asarray(Gaussian(ONE_UNIT, part).release(values.ravel(), slot, budget)).reshape(values.shape)


def _weight(clique: Clique) -> float:
    """Return a table's weight: columns shared with a workload's pairs, over those of a pair."""
    return 1.0 if len(clique) == 2 else 0.5


def _wrong(exact: FloatArray, modelled: FloatArray, sigma: float) -> float:
    return float(np.abs(exact - modelled).sum()) - MEAN * sigma * exact.size


def _parts(columns: int, measured: list[Clique]) -> list[Clique]:
    """Columns that are linked by measured tables, together: whether a table is allowed is seen in its own part."""
    home: dict[int, Clique] = {column: (column,) for column in range(columns)}
    for clique in measured:
        part = tuple(sorted({column for one in clique for column in home[one]}))
        home.update(dict.fromkeys(part, part))
    return list(dict.fromkeys(home.values()))


def _inside(part: Clique, measured: list[Clique]) -> list[Clique]:
    return [one for one in measured if one[0] in part]
