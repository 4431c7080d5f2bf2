"""Figure 2 of Yuan et al. 2026 with its competitors: every estimator on the same orders of the same units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.competitors import aim, models, ours, privsyn, split, strata
from causalveil_replication.competitors.competitor import Competitor, Instance
from causalveil_replication.yuan2026.errors import RelativeError

if TYPE_CHECKING:
    from causalveil_replication.yuan2026.runs import Prepared

COMPETITORS: tuple[Competitor, ...] = (
    *ours.COMPETITORS,
    *split.COMPETITORS,
    *strata.COMPETITORS,
    *models.COMPETITORS,
    *privsyn.COMPETITORS,
    *aim.COMPETITORS,
)
RATIO = 5


def instances(prepared: Prepared) -> list[Instance]:
    """The data set in the order of every run."""
    return [Instance(prepared.data, enclave.rows(0), prepared.penalty) for enclave in prepared.rows]


def compare(
    prepared: Prepared, competitor: Competitor, epsilons: tuple[str, ...], draws: int
) -> Iterator[dict[str, object]]:
    """One row for every epsilon.

    Args:
        prepared: the data set.
        competitor: who estimates.
        epsilons: of the whole budget.
        draws: of noise in every order of the units; the standard error is that of the mean over orders.
    """
    truth = prepared.truth[RATIO]
    with one_thread():
        fitted = [competitor.fit(instance) for instance in instances(prepared)]
        exact = [abs(one.exact - truth) / abs(truth) for one in fitted if one.exact is not None]
        for epsilon in epsilons:
            answers = [
                [one.release(epsilon, RehearsalBudget(1000 * draw + order)) for draw in range(draws)]
                for order, one in enumerate(fitted)
            ]
            error, of_effect = _error(answers, truth), _error(answers, prepared.data.effect)
            yield {
                "data": prepared.data.name,
                "level": competitor.level,
                "competitor": competitor.name,
                "title": competitor.title,
                "ours": int(competitor.ours),
                "neighbours": competitor.neighbours,
                "guarantee": competitor.guarantee,
                "delta": competitor.delta,
                "epsilon": float(epsilon),
                "relative_error": None if error is None else round(error.mean, 6),
                "standard_error": None if error is None else round(error.standard_error, 6),
                "runs": draws * len(fitted),
                "no_answer": sum(answer is None for some in answers for answer in some),
                "without_noise": round(float(np.mean(exact)), 6) if exact else None,
                "error_of_effect": None if of_effect is None else round(of_effect.mean, 6),
                "standard_error_of_effect": None if of_effect is None else round(of_effect.standard_error, 6),
            }


def _error(answers: list[list[float | None]], truth: float | None) -> RelativeError | None:
    """Mean over orders of the mean over draws, answers that were given; None where none was, or there is no truth."""
    heard = [[one for one in some if one is not None] for some in answers]
    if truth is None or not any(heard):
        return None
    return RelativeError.mean_of(
        [float(np.mean(np.abs(np.array(some) - truth))) / abs(truth) for some in heard if some]
    )
