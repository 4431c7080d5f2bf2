"""Reservations, contracts and releases for the tests of the ledger and the budget."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from jsonschema import Draft202012Validator

from causalveil.schemas.contract import Contract
from causalveil.schemas.ledger import Reservation, Sum
from causalveil.schemas.plan import Plan
from causalveil.schemas.privacy import Charge
from causalveil.schemas.release import EffectRelease, Release, load_release, release_schema, release_text
from causalveil.tasks.privacy.budget import FlowBudget
from causalveil.tasks.privacy.ledger.accounts import use_of
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger

DATASET = "trial"


class NoNoise:
    """Stands where a noise source is passed on; the tests' draws bring their own values."""

    name = "operating_system"


def contract(epsilon: str = "1", delta: str = "1e-6", dataset: str = DATASET, **more: Any) -> Contract:
    document: dict[str, Any] = {
        "dataset": dataset,
        "data_class": "synthetic",
        "unit": "person",
        "columns": {"score": {"lower": 0, "upper": 10}},
        "public": [],
        "caps": {"sample": {"epsilon": epsilon, "delta": delta}},
        "accounting": "basic",
        "estimators": ["ipw"],
        "guarantees": ["finite_sample"],
    }
    return Contract.model_validate(document | more)


def charge(name: str = "outcome", epsilon: str = "0.1", delta: str = "0", scope: str = "all") -> Charge:
    return Charge(
        name=name,
        stage="perturb",
        mechanism="laplace",
        scope=scope,
        norm="l1",
        sensitivity=0.1 + 0.2,
        formula="2/n",
        noise_scale=1 / 3,
        epsilon=epsilon,
        delta=delta,
    )


def reservation(run_id: str = "run-1", charges: tuple[Charge, ...] | None = None, **more: Any) -> Reservation:
    charges = (charge(),) if charges is None else charges
    owner = more.pop("contract", None) or contract()
    cost = more.pop("cost", None) or {
        "epsilon": sum((c.epsilon for c in charges), Decimal(0)),
        "delta": sum((c.delta for c in charges), Decimal(0)),
    }
    document: dict[str, Any] = {
        "run_id": run_id,
        "dataset": owner.dataset,
        "level": "sample",
        "blocks": ("all",),
        "cost": cost,
        "charges": charges,
        "study": "weeks",
        "study_digest": "a" * 64,
        "layout_digest": "b" * 64,
        "units": 100,
        "key_check": "c" * 32,
        "estimator": "ipw",
        "guarantee": "finite_sample",
        "policy_digest": owner.digest,
    }
    return Reservation.model_validate(document | more)


def budget(ledger: Ledger, request: Reservation, folder: Path) -> FlowBudget:
    return FlowBudget(ledger, request, NoNoise(), folder / "records" / request.run_id)


def value(*numbers: float) -> Callable[[Any], Any]:
    """A draw that returns these numbers."""
    return lambda _noise: np.array(numbers, dtype=np.float64)


def never(_noise: Any) -> Any:
    """A draw that must not happen."""
    raise AssertionError("drawn although a value is stored")


def release_of(ledger: Ledger, request: Reservation, **more: Any) -> EffectRelease:
    """A release that agrees with the ledger as it stands."""
    document: dict[str, Any] = {
        "study": request.study,
        "study_digest": request.study_digest,
        "specification": {},
        "run_id": request.run_id,
        "dataset": request.dataset,
        "units": request.units,
        "estimand": "ATE",
        "estimator": request.estimator,
        "guarantee": "finite_sample",
        "confidence": 0.95,
        "answers": [
            {
                **{"outcome": "y", "role": "primary", "group": "all units", "arm": "1", "reference": "0"},
                **{"state": "answered", "estimate": 0.1, "interval": {"lower": -1.0, "upper": 1.0}},
                **{"noise_error": 0.3, "sampling_error": 0.3, "bias": 0.0},
            }
        ],
        "covers": [{"code": "noise_of_estimate"}],
        "not_covered": [],
        "details": {},
        "privacy": {
            "unit": "id",
            "neighbours": "replace_one",
            "level": request.level,
            "epsilon": request.cost.epsilon,
            "delta": request.cost.delta,
            "epsilon_pld": 0.1,
            "unprotected": [],
            "charges": request.charges,
            "blocks": {"key": None, "charged": request.blocks, "units_span_blocks": False},
        },
        "noise": {"source": "operating_system"},
        "not_for_release": False,
        "software": {"version": "0", "dependencies": {}},
        "ledger": ledger.statement(request.run_id).model_dump(),
    }
    return EffectRelease.model_validate(document | more)


def finished(ledger: Ledger, request: Reservation, owner: Contract, folder: Path) -> EffectRelease:
    """A whole run: reserve, draw everything, finish."""
    ledger.reserve(request, owner)
    purse = budget(ledger, request, folder)
    for one in request.charges:
        purse.spend(one, value(1.5))
    release = release_of(ledger, request)
    purse.finish(release_text(release))
    return release


@contextmanager
def logged(name: str, keep: Callable[[str], None]) -> Iterator[None]:
    """Hand each line of a logger to ``keep`` while the block runs, as a handler of this process gets them."""

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            keep(record.getMessage())

    logger, handler = logging.getLogger(name), Keep(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def audit_lines(into: list[dict[str, Any]] | None = None) -> Iterator[list[dict[str, Any]]]:
    """The audit lines of a block, parsed, appended to a list."""
    lines = [] if into is None else into
    with logged("causalveil.audit", lambda line: lines.append(json.loads(line))):
        yield lines


def assert_agreed(plan: Plan, path: Path) -> Release:
    """What `plan` declared, the ledger holds of the only run on "small", and the release at `path` prints is equal."""
    release = load_release(path)
    assert release.privacy.charges == plan.charges
    assert (release.privacy.epsilon, release.privacy.delta) == (plan.total.epsilon, plan.total.delta)
    assert release.privacy.epsilon_pld <= float(plan.total.epsilon)
    ledger = open_ledger()
    account = ledger.account("small")
    (ran,) = account.runs
    assert ran.spent == ran.cost == Sum(epsilon=plan.total.epsilon, delta=plan.total.delta)
    used = use_of(plan.charges, plan.total)
    (block,) = [block for block in account.blocks if block.level is ran.level]
    if block.rho is None:
        assert (block.spent.epsilon, block.spent.delta) == (plan.total.epsilon, plan.total.delta)
    else:
        assert (block.rho.spent, block.rho.reserved, block.spent.delta) == (used.rho, 0, used.tested)
        assert block.spent.epsilon <= block.granted.epsilon
    assert block.reserved.epsilon == 0
    ledger.verify()
    ledger.verify_release(release_text(release))
    Draft202012Validator(release_schema()).validate(json.loads(path.read_text()))
    return release
