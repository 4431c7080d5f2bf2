"""The planner turned round: the least epsilon for a width, and curves of width against epsilon and units."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from causalveil.flows.estimators import rehearsal
from causalveil.flows.estimators.rehearsal import DRAWS, FEW, LEAST
from causalveil.flows.plan import curves
from causalveil.flows.plan.curves import half_width, least_epsilon, with_epsilon
from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.errors import StudyError
from causalveil.schemas.plan import StandIn
from causalveil.schemas.studies import STUDIES, parse_study
from causalveil.schemas.study import Study
from causalveil.tasks.data.split import sizes_of
from tests.studies import RESOLVED, command, merge, write_study
from tests.survival_help import make_survival

# Every estimator of an effect with a half-width at any number of units: models of `aipw` take at most 20,000.
ESTIMATORS = sorted({*STUDIES["effect"]} - {"aipw"})
# Of how many units the planner is asked.
UNITS = {"matching": 2_000}


def study_of(name: str, **privacy: Any) -> Study:
    if name == "survival":
        return make_survival(**privacy)
    level = "label" if name == "balancing" else "sample"
    changes = {
        "estimator": {"name": name},
        "privacy": {"epsilon": "1.0", "delta": "1e-6", "level": level, **privacy},
    }
    plain = {key: value for key, value in RESOLVED.items() if key != "estimator"}
    return parse_study(merge(plain, changes))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_answer_is_enough_and_the_next_smaller_amount_is_not(name: str) -> None:
    study, stand_in = study_of(name), StandIn()
    sizes = sizes_of(study, UNITS.get(name, 50_000))
    wanted = 1.3 * half_width(with_epsilon(study, Decimal("1.37")), sizes, stand_in)
    epsilon, expected = least_epsilon(study, sizes, stand_in, wanted)
    said = estimator_of(study).expected(with_epsilon(study, epsilon), sizes, stand_in, None)
    assert expected == said["half_width"] <= wanted
    assert len(epsilon.normalize().as_tuple().digits) <= 3
    digits = epsilon.as_tuple()
    smaller = epsilon - Decimal((0, (1,), digits.exponent))
    assert half_width(with_epsilon(study, smaller), sizes, stand_in) > wanted


@pytest.mark.parametrize("name", ESTIMATORS)
def test_more_epsilon_or_more_units_never_widen(name: str) -> None:
    """Curves fall along both axes.

    Those of regression are medians of a few seeded draws: 3% of room.
    """
    rows = curves.curves(study_of(name), UNITS.get(name, 20_000), StandIn())
    width = {(row["epsilon"], row["units"]): row["half_width"] for row in rows}
    assert len(width) > 20
    for fixed, moving in ((0, 1), (1, 0)):
        for value in {key[fixed] for key in width}:
            line = sorted((key[moving], width[key]) for key in width if key[fixed] == value)
            for (_, before), (_, after) in itertools.pairwise(line):
                assert after <= before * (1.03 if name == "regression" else 1.001)


@pytest.mark.parametrize("treated", [0.5, 0.1])
@pytest.mark.parametrize("name", ["ipw", "matching"])
def test_more_epsilon_or_more_units_never_widen_at_level_label(name: str, treated: float) -> None:
    """From 100 to 10,000 people, so that by which people a rehearsal is of makes no difference."""
    epsilons, sizes, width = ("0.1", "1", "16"), (100, 1_000, 10_000), {}
    study = study_of(name, level="label", delta="0")
    for i, epsilon in enumerate(epsilons):
        asked = with_epsilon(study, Decimal(epsilon))
        for j, units in enumerate(sizes):
            width[i, j] = half_width(asked, sizes_of(asked, units), StandIn(treated=treated), few=True)
    for (i, j), wide in width.items():
        for more in ((i + 1, j), (i, j + 1)):
            assert width.get(more, 0.0) <= wide * (1 + 1e-3), (epsilons[i], sizes[j], more)
    assert width[len(epsilons) - 1, len(sizes) - 1] < width[0, 0] / 5


def test_the_least_epsilon_is_found_where_a_width_rises_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """1/epsilon below 1, then a step up by 3 that a wider epsilon pays back: plain bisection would land behind it."""
    study = study_of("ipw")

    def stepped(asked: Study, *_: Any) -> float:
        epsilon = float(asked.privacy.epsilon)
        return 1 / epsilon + (3.0 if epsilon >= 1 else 0.0) - (2.9 if epsilon >= 20 else 0.0)

    monkeypatch.setattr(curves, "half_width", stepped)
    epsilon, _ = least_epsilon(study, sizes_of(study, 5_000), StandIn(), 2.0)
    assert epsilon == Decimal("0.5")


def test_a_width_beyond_sampling_error_is_not_promised() -> None:
    study = study_of("ipw")
    sizes = sizes_of(study, 5_000)
    floor = half_width(with_epsilon(study, Decimal(100)), sizes, StandIn())
    answer = curves.target(study, sizes, StandIn(), floor * 0.9)
    assert answer["epsilon"] is None
    assert answer["expected"] == floor
    assert "more units" in answer["remark"].sentence


def test_a_wide_target_takes_the_smallest_amount() -> None:
    study = study_of("ipw")
    epsilon, _ = least_epsilon(study, sizes_of(study, 10**9), StandIn(), 10.0)
    assert epsilon == Decimal("0.001")


def test_a_variant_that_ends_at_epsilon_1_is_searched_below_it() -> None:
    paper = {"weighting": "horvitz_thompson", "variant": "paper"}
    study = parse_study(merge(RESOLVED, {"estimator": paper, "privacy": {"epsilon": "0.5", "delta": "1e-6"}}))
    sizes = sizes_of(study, 10**6)
    epsilon, expected = least_epsilon(study, sizes, StandIn(), 1e-9)
    assert epsilon == Decimal("0.999")
    assert expected > 1e-9


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan")])
def test_a_target_is_above_zero(width: float) -> None:
    study = study_of("ipw")
    with pytest.raises(StudyError, match="above 0"):
        least_epsilon(study, sizes_of(study, 5_000), StandIn(), width)


def test_amounts_are_in_order_and_have_three_digits() -> None:
    amounts = [curves._amount(index) for index in range(4501)]
    assert amounts == sorted(amounts)
    assert len(set(amounts)) == 4501
    assert (amounts[0], amounts[-1]) == (Decimal("0.001"), Decimal(100))


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    return command("plan", *words), capfd.readouterr().out


def test_the_command_answers_and_draws_without_reading_rows(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import polars as pl

    # What private scores leave of confounding would be allowed for at any budget.
    path = write_study(tmp_path / "data", study={"estimator": {"confounding_prior": {"outcome_r2": 0}}})

    def never(*_: Any, **__: Any) -> None:
        raise RuntimeError("a row was read")

    for reader in ("read_parquet", "scan_parquet"):
        monkeypatch.setattr(pl, reader, never)
    code, out = run(
        capfd, str(path), "--units", "50000", "--target-half-width", "0.3", "--curve", str(tmp_path / "out"), "--json"
    )
    assert code == 0
    told = json.loads(out)["expected"]
    assert 0.01 < told["target"]["epsilon"] < 10
    assert told["target"]["expected"] <= 0.3
    figure = Path(told["curve"])
    assert ElementTree.parse(figure).getroot().tag.endswith("svg")
    with figure.with_suffix(".csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {"epsilon", "units", "half_width"} == set(rows[0])
    assert {float(row["units"]) for row in rows} >= {5_000, 50_000, 500_000}
    code, out = run(capfd, str(path), "--units", "50000", "--target-half-width", "0.3")
    assert f"takes epsilon {told['target']['epsilon']:g}" in " ".join(out.split())


def test_a_width_needs_units(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "data")
    for part in path.parent.glob("*.parquet"):
        part.unlink()
    code, _ = run(capfd, str(path), "--target-half-width", "0.3")
    assert code == 2


def test_points_of_a_curve_have_few_draws_and_a_target_few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draw of `regression` takes a twentieth of a second: a curve has 50 of them at most, a target as many."""
    asked: list[Decimal] = []
    before = rehearsal.RehearsalBudget

    def counted(seed: int) -> Any:
        asked.append(now[0])
        return before(seed)

    now, with_epsilon_before = [Decimal(1)], curves.with_epsilon

    def noted(study: Study, epsilon: Decimal) -> Study:
        now[0] = epsilon
        return with_epsilon_before(study, epsilon)

    monkeypatch.setattr(rehearsal, "RehearsalBudget", counted)
    monkeypatch.setattr(curves, "with_epsilon", noted)
    study, sizes = study_of("regression"), sizes_of(study_of("regression"), 20_000)
    # What other tests have drawn is found again.
    rehearsal._drawn.cache_clear()
    rows = curves.curves(study, 20_000, StandIn())
    assert len(rows) > 20
    of_curve = len(asked)
    assert of_curve <= 50 < len(rows) * FEW
    beyond = [(row["epsilon"], row["units"], row["half_width"]) for row in rows if row["epsilon"] >= 1]
    assert all(
        width <= narrower
        for epsilon, units, width in beyond
        for less, fewer, narrower in beyond
        if less <= epsilon and 20_000 <= fewer <= units
    )
    (between,) = (row for row in rows if (row["epsilon"], row["units"]) == (2.0, 20_000))
    told = half_width(with_epsilon(study, Decimal(2)), sizes, StandIn())
    # Its first draws are those of the point.
    assert len(asked) - of_curve <= DRAWS - FEW
    assert between["half_width"] == pytest.approx(told, rel=0.05)
    asked.clear()
    wanted = 1.3 * told
    _, expected = least_epsilon(study, sizes, StandIn(), wanted, None, half_width(study, sizes, StandIn()))
    # Two amounts of a decade by few draws, and then plans.
    times = Counter(asked).values()
    assert sum(one < LEAST for one in times) <= 10
    assert sum(one >= LEAST for one in times) <= 12
    assert 0.98 * wanted < expected <= wanted
