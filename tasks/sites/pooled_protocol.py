"""A protocol over several sites.

Its tables pooled cell by cell, and with them negative controls and balance.

Every question is pooled as an effect is (``tasks/sites/pool.py``), over the sites that answered it: where noise hides
a subgroup at a site, or a gate withholds it, that site has no part in it. Which sites these are depends on released
values of who is there, not on any estimate. Simultaneous intervals are pooled from the sites' own, at the same
confidence. Post-processing of released values; costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import ndtri, stdtrit

from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol
from causalveil.schemas.limits import united
from causalveil.schemas.protocols.answers import (
    Answer,
    BalanceRow,
    Calibration,
    GateResult,
    GateVerdict,
    Limits,
    State,
)
from causalveil.schemas.protocols.study import ALL_UNITS, FailedGate, OutcomeRole, ProtocolStudy
from causalveil.schemas.release import EffectRelease, Interval
from causalveil.schemas.sites.pooled import (
    CellState,
    PooledAnswer,
    PooledEstimate,
    PooledProtocolRelease,
    SiteGate,
    SitePart,
    SiteRecord,
)
from causalveil.schemas.sites.round import AgreedTerms, Model
from causalveil.tasks.protocols.calibration import Measured, learn, scale_of
from causalveil.tasks.protocols.gates import balance_gate, critical_of
from causalveil.tasks.sites.accept import Accepted
from causalveil.tasks.sites.asked import widths_of
from causalveil.tasks.sites.pool import Pooled, estimate_of, pool
from causalveil.tasks.sites.pooled_release import of_sites, over_sites, record_of

FEWEST = 2


@dataclass(frozen=True)
class _Cell:
    """One question: what the sites said of it, and what they say together if two of them answered.

    Attributes:
        width: how far the effect may reach to either side.
        said: by site.
        pooled: of the sites that answered; None: fewer than two.
        together: the same from simultaneous intervals.
        weights: of the sites under the declared model, 0 of those without an answer.
        spread: standard deviation of the outcome within arms, over the sites.
    """

    width: float
    said: tuple[tuple[str, Answer], ...]
    pooled: Pooled | None
    together: Pooled | None
    weights: dict[str, tuple[float, float]]
    spread: float

    @property
    def row(self) -> Answer:
        """Answer of the first site, which says what all sites' answers are about."""
        return self.said[0][1]

    def weight(self, site: str, model: Model) -> float:
        """Return the weight of a site under a model."""
        return self.weights.get(site, (0.0, 0.0))[0 if model is Model.fixed else 1]

    def shown(self, model: Model) -> Measured | None:
        """Return the estimate under a model, as calibration takes it."""
        if self.pooled is None:
            return None
        one = _of(self.pooled, model)
        return Measured(one.estimate, one.standard_error, scale_of(self.spread, self.width))


def pooled_protocol(
    terms: AgreedTerms, study: ProtocolStudy | SurvivalProtocol, accepted: Sequence[Accepted]
) -> PooledProtocolRelease:
    """Pool accepted bundles of a protocol, of bounded outcomes or of times.

    Args:
        terms: of the round.
        study: that travelled.
        accepted: one per site, from ``tasks.sites.accept.accept``, which has seen that all tables have the same rows.

    Raises:
        BundleError: a bundle reports no variance at all.
    """
    releases = {item.site: item.release for item in accepted}
    tables = [[(site, row) for row in release.answers] for site, release in releases.items()]
    widths = widths_of(study)
    cells = [_cell(study, releases, row, widths[row[0][1].outcome]) for row in zip(*tables, strict=True)]
    calibration, calibrated = _calibrated(study, cells, terms.model, releases)
    balance = () if isinstance(study, SurvivalProtocol) else _balance(study, cells, releases, terms.model)
    gates = () if isinstance(study, SurvivalProtocol) else _gates(study, balance)
    return PooledProtocolRelease(
        **of_sites(terms, study, accepted),
        confidence=study.confidence,
        answers=tuple(
            _answer(study, cell, limits, gates, terms.model) for cell, limits in zip(cells, calibrated, strict=True)
        ),
        balance=balance,
        gates=gates,
        site_gates=tuple(
            SiteGate(site=site, **gate.model_dump()) for site, release in releases.items() for gate in release.gates
        ),
        calibration=calibration,
        not_covered=united(one for release in releases.values() for one in release.not_covered),
        sites=tuple(SiteRecord(**record_of(item, releases[item.site].not_covered)) for item in accepted),
    )


def _of(pooled: Pooled, model: Model) -> PooledEstimate:
    return pooled.fixed if model is Model.fixed else pooled.random


def _cell(
    study: ProtocolStudy | SurvivalProtocol,
    releases: Mapping[str, EffectRelease],
    said: tuple[tuple[str, Answer], ...],
    width: float,
) -> _Cell:
    """One question of the table; ``width``: how far its effect may reach to either side."""
    rows = len(releases[said[0][0]].answers)
    bounds, each = (-width, width), 1 - (1 - study.confidence) / rows
    single = [estimate_of(site, releases[site], row) for site, row in said]
    all_ = [estimate_of(site, releases[site], row, each) for site, row in said]
    told = [(one, two) for one, two in zip(single, all_, strict=True) if one is not None and two is not None]
    if len(told) < FEWEST:
        return _Cell(width, said, None, None, {}, 0.0)
    pooled = pool([one for one, _ in told], study.confidence, bounds)
    weights = {
        one.site: (float(fixed), float(random))
        for (one, _), fixed, random in zip(told, pooled.weights_fixed, pooled.weights_random, strict=True)
    }
    spread = math.fsum(weights[site][0] * (row.spread or 0.0) ** 2 for site, row in said if site in weights)
    return _Cell(width, said, pooled, pool([two for _, two in told], each, bounds), weights, math.sqrt(spread))


def _calibrated(
    study: ProtocolStudy | SurvivalProtocol,
    cells: Sequence[_Cell],
    model: Model,
    releases: Mapping[str, EffectRelease],
) -> tuple[Calibration, tuple[Limits | None, ...]]:
    """Calibrate every other answer's interval by the pooled negative controls.

    Those of times to an event in arms as they are calibrate nothing.
    """
    if isinstance(study, SurvivalProtocol) and not study.covariates:
        return _declared(next(iter(releases.values())).calibration), (None,) * len(cells)
    controls = [cell for cell in cells if cell.row.role is OutcomeRole.negative_control]
    shown = [found for cell in controls if cell.row.group == ALL_UNITS and (found := cell.shown(model)) is not None]
    asked = study.questions if isinstance(study, SurvivalProtocol) else study.outcomes
    declared = sum(one.role is OutcomeRole.negative_control for one in asked)
    calibration, systematic = learn(declared, shown)
    limits = list[Limits | None]()
    for cell in cells:
        one = None if cell in controls else cell.shown(model)
        if systematic is None or one is None:
            limits.append(None)
            continue
        limits.append(systematic.limits(one, _quantile(study.confidence, cell, model), cell.width))
    return calibration, tuple(limits)


def _declared(found: Calibration | None) -> Calibration:
    return found or Calibration(controls=0, statement="No negative control was declared.")


def _quantile(confidence: float, cell: _Cell, model: Model) -> float:
    """Return the quantile of the declared model's interval.

    Normal for fixed effects, Student's for random ones (Hartung and Knapp).
    """
    upper = (1 + confidence) / 2
    return float(ndtri(upper) if model is Model.fixed else stdtrit(len(cell.weights) - 1, upper))


def _balance(
    study: ProtocolStudy, cells: Sequence[_Cell], releases: dict[str, EffectRelease], model: Model
) -> tuple[BalanceRow, ...]:
    """Each covariate's difference as the first primary outcome's answer weighs the sites."""
    first = study.outcomes[study.first].name
    weighed = {(cell.row.group, cell.row.arm): cell for cell in cells if cell.row.outcome == first}
    only = study.groups == (ALL_UNITS,)
    found: dict[tuple[str, str, str], list[tuple[float, BalanceRow]]] = {}
    for site, release in releases.items():
        for row in release.balance:
            # The reference is weighed as the first arm's comparison with it is.
            arm = row.arm if (row.group, row.arm) in weighed else study.arm_names[1]
            cell = weighed[(ALL_UNITS if only else row.group, arm)]
            weight = cell.weight(site, model)
            if weight > 0:
                found.setdefault((row.group, row.arm, row.covariate), []).append((weight, row))
    rows = []
    for (group, arm, covariate), parts in found.items():
        total = math.fsum(weight for weight, _ in parts)
        rows.append(
            BalanceRow(
                group=group,
                arm=arm,
                covariate=covariate,
                before=math.fsum(weight * row.before for weight, row in parts) / total,
                after=math.fsum(weight * row.after for weight, row in parts) / total,
                noise_error=math.sqrt(math.fsum((weight * row.noise_error) ** 2 for weight, row in parts)) / total,
            )
        )
    return tuple(rows)


def _gates(study: ProtocolStudy, balance: Sequence[BalanceRow]) -> tuple[GateResult, ...]:
    """The declared gate on balance, judged on the pooled differences.

    The spread of weights is judged by each site itself.
    """
    if study.gates is None or study.gates.balance is None or not balance:
        return ()
    places: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in balance:
        places.setdefault((row.group, row.arm), []).append((row.after, row.noise_error))
    critical, bound = critical_of(len(balance)), study.gates.balance
    return tuple(balance_gate(group, arm, bound, numbers, critical) for (group, arm), numbers in places.items())


def _answer(
    study: ProtocolStudy | SurvivalProtocol,
    cell: _Cell,
    calibrated: Limits | None,
    gates: Sequence[GateResult],
    model: Model,
) -> PooledAnswer:
    row, told = cell.row, cell.pooled is not None
    groups = study.groups if row.group == ALL_UNITS else (row.group,)
    arms = (row.arm, row.reference)
    failed = any(gate.verdict is GateVerdict.failed and gate.group in groups and gate.arm in arms for gate in gates)
    marked = any(part.state is State.marked for site, part in cell.said if site in cell.weights)
    # Without declared gates none fails.
    declared = study.gates if isinstance(study, ProtocolStudy) else None
    withheld = failed and declared is not None and declared.failed is FailedGate.withhold
    if not told:
        state = CellState.unresolved
    elif withheld:
        state = CellState.withheld
    else:
        state = CellState.marked if failed or marked else CellState.answered
    shown = cell.pooled if state in (CellState.answered, CellState.marked) else None
    return PooledAnswer(
        outcome=row.outcome,
        role=row.role,
        group=row.group,
        arm=row.arm,
        reference=row.reference,
        state=state,
        fixed=None if shown is None else shown.fixed,
        random=None if shown is None else shown.random,
        simultaneous=None if shown is None or cell.together is None else limits_of(_of(cell.together, model).interval),
        calibrated=None if shown is None else calibrated,
        heterogeneity=None if shown is None else shown.heterogeneity,
        sites=tuple(
            SitePart(
                site=site,
                state=part.state if part.restricted_to is None else State.unresolved,
                estimate=part.estimate if _speaks(part) and not withheld else None,
                interval=part.interval if _speaks(part) and not withheld else None,
                weight_fixed=cell.weight(site, Model.fixed),
                weight_random=cell.weight(site, Model.random),
                confounding=part.confounding,
            )
            for site, part in cell.said
        ),
        confounding=None
        if shown is None
        else over_sites(
            [(part.confounding, cell.weight(site, model)) for site, part in cell.said if site in cell.weights]
        ),
    )


def _speaks(part: Answer) -> bool:
    return part.restricted_to is None and part.state in (State.answered, State.marked)


def limits_of(interval: Interval) -> Limits:
    """Return an interval's ends alone."""
    return Limits(lower=interval.lower, upper=interval.upper)
