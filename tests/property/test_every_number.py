"""Every number that a study may hold, from 5e-324 to 1e308, on every estimator.

A study is refused in a line, before anything is drawn, or it runs: every number of the release is one, and no exact
value moves between neighbours by more than its charge declares, with everything that was released before held fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import BaseModel

from causalveil.flows.run.declare import declare
from causalveil.flows.run.estimators import rehearse
from causalveil.schemas.columns import ordinary
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.privacy import Charge
from causalveil.schemas.studies import STUDIES, parse_study
from causalveil.tasks.data.enclave import MemoryEnclave, ranks
from causalveil.tasks.data.normalise import columns, encode, scaled_outcome
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.papers.direction.stages import scaled
from causalveil.tasks.estimate.times.releases import followed
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.privacy.mechanisms import ProposeTestRelease, StableRelease
from causalveil.tasks.privacy.noise import NoiseSource, SeededNoise
from tests.studies import merge, models_in

PEOPLE = 60
SAME: dict[str, Any] = {"name": "wild", "data": {"unit": "person"}, "privacy": {"epsilon": 2, "delta": Decimal("1e-6")}}
EFFECT: dict[str, Any] = {
    **SAME,
    "kind": "effect",
    "treatment": "treated",
    "outcome": {"name": "score", "lower": 0.0, "upper": 10.0},
    "covariates": {"age": {"lower": 20.0, "upper": 60.0}, "dose": {"lower": 1.0, "upper": 9.0, "scale": "log"}},
    "confidence": 0.95,
}
TIMES: dict[str, Any] = {
    **SAME,
    "kind": "effect",
    "treatment": "treated",
    "outcome": {
        **{
            "time": "score",
            "event": "status",
            "of": ["death"],
            "codes": {"alive": 0, "death": 1},
            "censoring": "alive",
        },
        **{"horizon": 8.0, "upper": 10.0, "origin": "entry", "step": 0.1},
    },
    "intervals": 12,
    "confidence": 0.95,
}
DIRECTION: dict[str, Any] = {
    **SAME,
    "kind": "direction",
    "pair": {"x": {"name": "age", "lower": 20.0, "upper": 60.0}, "y": {"name": "score", "lower": 0.0, "upper": 10.0}},
}
KNOWN = {"known": 0.5, "clip": [0.1, 0.9]}
FOUR = {"weights": Decimal("0.2"), "scores": Decimal("0.2"), "treatment": Decimal("0.3"), "outcome": Decimal("0.3")}
MATCHING = {
    "name": "matching",
    "ratio": 2,
    "cap": 2,
    "error_coefficient": 0.01,
    "caliper": 0.5,
    "penalty": 0.1,
    "variance_share": 0.15,
    "confounding_prior": {"outcome_r2": 0.5, "distance": 1.0},
}
PURE = {"privacy": {"delta": 0}}
BASES: dict[str, dict[str, Any]] = {
    name: merge(
        {"direction": DIRECTION, "survival": TIMES}.get(estimator["name"], EFFECT), {"estimator": estimator, **changes}
    )
    for name, estimator, changes in (
        (
            "ipw",
            {
                "name": "ipw",
                "clip": [0.1, 0.9],
                "train_fraction": 0.5,
                "penalty": 0.1,
                "confounding_prior": {"outcome_r2": 0.5, "distance": 1.0},
            },
            {},
        ),
        ("ipw label", {"name": "ipw"}, {"privacy": {"level": "label", "delta": 0}}),
        (
            "aipw",
            {
                "name": "aipw",
                "guarantee": "asymptotic",
                "effect_share": Decimal("0.9"),
                "folds": 2,
                "outcome_model": {"model": "kernel_ridge"},
                "propensity": KNOWN,
            },
            {},
        ),
        (
            "regression",
            {
                "name": "regression",
                "confounding_prior": {"outcome_r2": 0.5, "distance": 1.0},
                "parts": dict.fromkeys(("scales", "lines", "screen", "refit", "scores"), Decimal("0.2")),
            },
            {},
        ),
        ("difference", {"name": "difference_in_means", "confounding_prior": {"outcome_r2": 0.5, "distance": 1.0}}, {}),
        (
            "survival",
            {"name": "survival", "share": 0.25, "confounding_prior": {"outcome_r2": 0.5, "distance": 1.0}},
            {},
        ),
        ("survival without delta", {"name": "survival", "trial": True}, PURE),
        ("survival by rule", {"name": "survival", "trial": True}, {"intervals": ...}),
        ("balancing", {"name": "balancing", "allowance": 0.5}, {"privacy": {"level": "label", "delta": 0}}),
        ("matching", {**MATCHING, "budget_shares": FOUR}, PURE),
        ("matching label", MATCHING, merge(PURE, {"privacy": {"level": "label"}})),
        (
            "direction",
            {
                "name": "direction",
                "scores": ["hsic", "spearman"],
                "penalty": 0.01,
                "bandwidth": 0.2,
                "residual_bandwidth": 0.3,
                "train_fraction": 0.5,
            },
            {},
        ),
        ("direction iqr", {"name": "direction", "scores": ["iqr"], "protect": ["test"], "bin": 0.5}, {}),
    )
}
# What these add noise to has a bound near the tables that pass their test alone (``tests/privacy/test_propose.py``).
PROPOSED = {ProposeTestRelease.NAME, StableRelease.NAME}

SIZES = st.builds(
    lambda sign, exponent, digits: sign * float(f"{digits}e{exponent}"),
    st.sampled_from([1, 1, 1, -1]),
    st.one_of(st.integers(-324, 308), st.integers(-8, 4)),
    st.floats(1, 9.99),
)
# Ends of what is accepted, and numbers next to nothing and to everything.
EDGES = [0.0, 5e-324, -5e-324, 1e308, -1e308, 1e-6, 1e-5, 0.01, 0.02, 0.9, 1 - 1e-6, 1 - 2**-53, 1.0, 10.0, 100.0]
FLOATS = st.one_of(SIZES, st.sampled_from([*EDGES, 1e-100, 1e100, -1e100, 1e-30, 1e6, 20.0 + 1e-7, 59.9999999]))
WHOLE = st.one_of(st.integers(-(2**70), 2**70), st.integers(-1, 12), st.just(10**6))


def numbers(document: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where numbers stand in a document."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from numbers(value, (*place, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from numbers(value, (*place, index))
    elif isinstance(document, int | float | Decimal) and not isinstance(document, bool):
        yield place


def at(document: Any, place: tuple[str | int, ...]) -> Any:
    """What stands at a place."""
    return at(document[place[0]], place[1:]) if place else document


def replaced(document: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """A copy with another value at a place."""
    if not place:
        return value
    copy: Any = dict(document) if isinstance(document, Mapping) else list(document)
    copy[place[0]] = replaced(document[place[0]], place[1:], value)
    return copy


def numeric(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of the fields of a model that take numbers."""
    for name, field in model.model_fields.items():
        inner = models_in(field.annotation)
        for one in inner:
            yield from numeric(one, f"{prefix}{name}.")
        if not inner and any(
            word in str(field.annotation) + str(field.metadata) for word in ("float", "int]", "Decimal")
        ):
            yield f"{prefix}{name}"
        if not inner and field.annotation is int:
            yield f"{prefix}{name}"


def table() -> pl.DataFrame:
    """Sixty people, some of whom have values far outside every range."""
    random = np.random.default_rng(3)
    age, score = random.uniform(20, 60, PEOPLE), random.uniform(0, 10, PEOPLE)
    age[:4], score[2:6] = [1e308, -1e308, 5e-324, 0.0], [1e308, -1e308, -5e-324, 0.0]
    dose, treated = random.uniform(1, 9, PEOPLE), random.integers(0, 2, PEOPLE)
    return pl.DataFrame({"age": age, "dose": dose, "score": score, "treated": treated})


PERSON = {"age": 60.0, "dose": 9.0, "score": 10.0, "treated": 1}
OTHER = {"age": -1e300, "dose": 1.0, "score": -1e300, "treated": 0}


def enclave(study: Any, last: dict[str, Any]) -> MemoryEnclave:
    """The people as stages see them, the last of whom is `last`; at label level in her outcome alone."""
    if study.privacy.level == "label":
        last = PERSON | {"score": last["score"]}
    frame = pl.concat([table()[:-1], pl.DataFrame([last], schema=table().schema)])
    hashes = ranks(PEOPLE)
    if study.kind == "direction":
        pairs = np.column_stack([scaled(one, frame[one.name]) for one in (study.pair.x, study.pair.y)])
        return MemoryEnclave([{"xy": pairs, "h": hashes}])
    if isinstance(study, SurvivalStudy):
        time, kind = followed(study.outcome, study.kinds, frame["score"], frame["treated"])
        arm = frame["treated"].cast(pl.UInt8).to_numpy()
        return MemoryEnclave([{"t": arm, "u": time, "k": kind, "g": np.zeros(PEOPLE, np.uint8), "h": hashes}])
    order = np.arange(PEOPLE)
    x = encode(study, columns(study, frame), order)
    t, u = frame["treated"].cast(pl.UInt8).to_numpy(), scaled_outcome(study, frame)
    return MemoryEnclave([{"x": x, "t": t, "u": u, "g": np.zeros(PEOPLE, np.uint8), "h": hashes}])


class Recorder:
    """A noise source that keeps exact values, and gives back what was released in their place where it knows that."""

    name = "seeded"

    def __init__(self, released: list[NDArray[Any]] | None) -> None:
        self.exact: list[NDArray[Any]] = []
        self.released: list[NDArray[Any]] = []
        self._given, self._noise = released, SeededNoise(1)

    def _draw(self, value: NDArray[Any], draw: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        self.exact.append(np.array(value, copy=True))
        found = draw()
        if self._given is not None and len(self.released) < len(self._given):
            found = self._given[len(self.released)]
        self.released.append(found)
        return found

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        return self._draw(value, lambda: self._noise.laplace(value, scale))

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        return self._draw(value, lambda: self._noise.gaussian(value, scale))

    def l2_laplace(self, value: FloatArray, scale: float) -> FloatArray:
        return self._draw(value, lambda: self._noise.l2_laplace(value, scale))

    def lattice_laplace(self, values: FloatArray, scale: float, granularity: float) -> FloatArray:
        return self._draw(values, lambda: self._noise.lattice_laplace(values, scale, granularity))

    def randomised_response(self, bits: ByteArray, keep: float) -> ByteArray:
        return self._draw(bits, lambda: self._noise.randomised_response(bits, keep))


class RecordingBudget:
    """Grants every charge and keeps what was drawn for it, before noise and after."""

    def __init__(self, like: RecordingBudget | None = None) -> None:
        """``like``: a budget whose released values are given out again."""
        self.drawn: list[tuple[Charge, Recorder]] = []
        self._like = like

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], Any]) -> Any:
        position = len(self.drawn)
        known = None if self._like is None or position >= len(self._like.drawn) else self._like.drawn[position]
        recorder = Recorder(None if known is None else known[1].released)
        self.drawn.append((charge, recorder))
        return draw(recorder)  # type: ignore[arg-type]  # its name says nothing to a draw

    spend_records = spend


def moved(one: RecordingBudget, other: RecordingBudget) -> Iterator[tuple[Charge, float]]:
    """For each draw of both, how far its exact value lies from the neighbour's, in the norm of its noise."""
    for (charge, mine), (same, theirs) in zip(one.drawn, other.drawn, strict=True):
        assert charge == same
        # A test for stability adds noise to a distance first; what is proposed depends on its answer.
        for value, neighbours in zip(mine.exact, theirs.exact, strict=False):
            difference = np.abs(value.astype(float) - neighbours.astype(float))
            l1 = "laplace" in charge.mechanism and not charge.mechanism.startswith("l2")
            yield charge, float(difference.sum() if l1 else math.sqrt((difference**2).sum()))


def finite(found: Any) -> bool:
    """Whether every number in a document is one."""
    places = (at(found, place) for place in numbers(found))
    return all(math.isfinite(value) for value in places)


def check(name: str, place: tuple[str | int, ...], value: Any) -> bool:
    """Ask; True if the study ran."""
    document = replaced(BASES[name], place, Decimal(repr(value)) if isinstance(value, float) else value)
    refusal = None
    try:
        study = parse_study(document)
        plan = declare(study, sizes_of(study, PEOPLE))
    except StudyError as problem:
        refusal = str(problem)
    if refusal is not None:
        assert "\n" not in refusal
        return False
    assert all(ordinary(charge.sensitivity) and ordinary(charge.noise_scale) for charge in plan.charges)
    budget = RecordingBudget()
    try:
        found = rehearse(study, enclave(study, PERSON), budget)
    except CausalveilError:
        # A run that cannot be ended ends before its first draw: nothing is charged.
        assert budget.drawn == []
        return False
    assert [charge for charge, _ in budget.drawn] == list(plan.charges)
    assert finite(_plain(found.fields(study)))
    if study.guarantee == "finite_sample":
        neighbour = RecordingBudget(budget)
        rehearse(study, enclave(study, OTHER), neighbour)
        for charge, distance in moved(budget, neighbour):
            if charge.mechanism in PROPOSED:
                continue
            assert charge.sensitivity is not None
            assert distance <= charge.sensitivity * (1 + 1e-9), charge.name
    return True


def _plain(found: Any) -> Any:
    """Models, tuples and mappings as plain documents."""
    if isinstance(found, BaseModel):
        return found.model_dump()
    if isinstance(found, Mapping):
        return {key: _plain(value) for key, value in found.items()}
    return [_plain(value) for value in found] if isinstance(found, list | tuple) else found


@pytest.mark.parametrize("name", BASES)
def test_the_base_itself_runs(name: str) -> None:
    place = ("privacy", "epsilon")
    assert check(name, place, at(BASES[name], place))


@pytest.mark.parametrize("name", BASES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_number(name: str, data: st.DataObject) -> None:
    places = list(numbers(BASES[name]))
    place = data.draw(st.sampled_from(places), label="place")
    whole = isinstance(at(BASES[name], place), int) and place[0] != "privacy"
    check(name, place, data.draw(WHOLE if whole else FLOATS, label="value"))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("aipw", ("estimator", "propensity", "known"), 1e-300),
        ("matching", ("privacy", "epsilon"), 1e-30),
        ("aipw", ("estimator", "effect_share"), 1e-15),
        ("ipw", ("estimator", "clip", 0), 5e-309),
    ],
)
def test_what_once_broke_a_run_is_refused(name: str, place: tuple[str | int, ...], value: float) -> None:
    """An overflow after the first draw; parts of a budget that are no amounts; weights that were infinite."""
    assert not check(name, place, value)


def test_a_bias_that_rounding_swallows_has_an_interval() -> None:
    """It ended a run after its draws."""
    assert check("difference", ("estimator", "confounding_prior", "outcome_r2"), 5e-324)


def test_the_comparison_can_fail() -> None:
    """The neighbour of a trial moves its five sums by most of what is declared."""
    study = parse_study(BASES["difference"])
    one = RecordingBudget()
    rehearse(study, enclave(study, PERSON), one)
    other = RecordingBudget(one)
    rehearse(study, enclave(study, OTHER), other)
    shares = [distance / charge.sensitivity for charge, distance in moved(one, other) if charge.sensitivity]
    assert max(shares) > 0.7


def test_every_numeric_setting_is_varied() -> None:
    """Held to the models: a new number of an estimator must stand in a base."""
    varied = {
        (base["estimator"]["name"], ".".join(str(key) for key in place[1:] if isinstance(key, str)))
        for base in BASES.values()
        for place in numbers(base)
        if place[0] == "estimator"
    }
    for kind in STUDIES.values():
        for name, model in [(key, one.model_fields["estimator"].annotation) for key, one in kind.items()]:
            assert model is not None
            missing = {field for field in numeric(model) if (name, field) not in varied}
            assert missing == set(), name
            assert varied, "the walk finds something"
