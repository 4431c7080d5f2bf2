"""Studies and protocols of times over three sites: what travels, what is pooled, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from jsonschema import Draft202012Validator

from causalveil.schemas.answers import Answer
from causalveil.schemas.errors import BundleError, StudyError
from causalveil.schemas.release import EffectRelease, load_release
from causalveil.schemas.sites.pooled import PooledRelease, load_pooled, load_published, pooled_schema
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.page import report_html
from causalveil.tasks.sites.terms import terms_text
from tests.bundle_cases import changed
from tests.report_help import by_model
from tests.sites_help import NAMES, Call, Party, some_terms
from tests.studies import command, merge
from tests.survival_help import MANY, STUDY, cared_for, patients, write_survival, write_times

Parties = dict[str, Party]
AGE = {"age": {"lower": 20, "upper": 60}}
# At an epsilon by which no noise hides an answer of the smallest site.
ADJUSTS: dict[str, Any] = {
    "covariates": AGE,
    "measure": ["risk"],
    "estimator": {"name": "survival", "trial": False},
    "privacy": {"epsilon": "5", "delta": "1e-6"},
}
# What a study that travels says of its times itself; each site has codes of its own, and an order of events.
TRAVELS = {"events": ["relapse", "death"], "origin": "randomised", "unit_of_measure": "days"}
TRAVELLING: dict[str, Any] = merge(STUDY, {"outcome": TRAVELS})
OUTCOMES = [{**one, **TRAVELS, "events": list(TRAVELS["events"])} for one in MANY["outcomes"][:2]]
CODES = {
    "north": {"alive": 0, "relapse": 1, "death": 2},
    "coast": {"death": 1, "alive": 2, "relapse": 3},
    "valley": {"alive": 0, "death": 4, "relapse": 5},
}


def coded(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    own = CODES[name]
    return frame.with_columns(
        status=frame["status"].replace_strict({0: own["alive"], 1: own["relapse"], 2: own["death"]})
    )


def owner_of(name: str) -> dict[str, Any]:
    removed = {one: ... for one in ("alive", "relapse", "death") if one not in CODES[name]}
    event = {**CODES[name], **removed}
    return {"dataset": f"{name}-trial", "columns": {"status": {"event": event, "censored": "alive"}}}


class Clinic(Party):
    """A site of a trial with times, whose codes of events are its own."""

    def run(self, run_id: str, **changes: Any) -> Path:
        place, asked, owner = self.folder / f"data-{run_id}", changes.get("study", {}), owner_of(self.name)
        make = cared_for if "covariates" in asked else patients
        frame = coded(self.name, make(1_500 if self.name == "valley" else 3_000, self.seed))
        if "covariates" in asked:
            owner = {"dataset": f"{self.name}-care", "columns": {**owner["columns"], **AGE}}
        if "outcomes" in asked:
            owner = {"dataset": f"{owner['dataset']}-many", "columns": {**owner["columns"], "site": ...}}
            path = write_times(place, frame=frame, contract=owner, study={"subgroups": ..., **asked})
        else:
            path = write_survival(place, frame=frame, contract=owner, study=merge({"outcome": TRAVELS}, asked))
        return self.ran(path, run_id)


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    folder = tmp_path_factory.mktemp("clinics")
    found: Parties = {name: Clinic(name, folder / name, seed) for seed, name in enumerate(NAMES)}
    for party in found.values():
        party.run("asked")
    return found


def call_of(
    folder: Path, parties: Parties, asked: dict[str, Any] = TRAVELLING, run_id: str = "asked", **terms: Any
) -> Call:
    call = Call(folder, parties)
    call.write(**terms)
    (folder / "study.yaml").write_text(yaml.safe_dump({**asked, "data": {"path": "."}}, sort_keys=False))
    answer(call, run_id)
    return call


def answer(call: Call, run_id: str = "asked") -> None:
    """Let every site answer; where no terms can be signed, other terms."""
    try:
        terms = call.signed()
    except StudyError:
        terms = some_terms()
    for name, party in call.parties.items():
        call.put(name, party.bundle(run_id, terms))


def variance_of(row: Answer) -> float:
    """Return the variance of sampling and noise together."""
    return (row.sampling_error or 0) ** 2 + (row.noise_error or 0) ** 2


def pooled(call: Call) -> PooledRelease:
    release = call.pool().release
    return release


def hidden(document: dict[str, Any]) -> None:
    """A release of a site where noise hides whether any unit was followed to the horizon."""
    for one, span in zip(document["answers"], (1.0, 365.0), strict=True):
        # The variances of such cells are small and mean nothing.
        one |= {"interval": {"lower": -span, "upper": span}, "state": "unresolved"}
        one |= {"sampling_error": 1e-9, "noise_error": 1e-9}


@pytest.mark.parametrize("model", ["fixed", "random"])
def test_every_measure_is_pooled_as_one_effect_is(parties: Parties, tmp_path: Path, model: str) -> None:
    """Codes and orders of events are each site's own; what is pooled is the textbook's inverse-variance mean."""
    call = call_of(tmp_path, parties, model=model)
    release = pooled(call)
    document = json.loads((tmp_path / "out" / "release.json").read_text())
    Draft202012Validator(pooled_schema()).validate(document)
    assert load_published(tmp_path / "out" / "release.json") == release
    runs = [load_release(parties[name].folder / "asked" / "release.json") for name in NAMES]
    for place, measure in enumerate(release.answers):
        own = [one.answers[place] for one in runs if isinstance(one, EffectRelease)]
        values = np.array([one.estimate for one in own])
        weights = 1 / np.array([variance_of(one) for one in own])
        assert measure.fixed is not None
        assert measure.fixed.estimate == pytest.approx(float(np.average(values, weights=weights)))
        assert measure.fixed.standard_error == pytest.approx(float(weights.sum() ** -0.5), rel=0.01)
        assert [part.weight_fixed for part in measure.sites] == pytest.approx(list(weights / weights.sum()))
        assert release.chosen(measure) == getattr(measure, model)
        assert len(measure.leave_one_out) == len(NAMES)
    assert release.units == 7_500
    asked = release.specification["outcomes"][0]
    assert (asked["of"], asked["unit_of_measure"], asked["origin"]) == (["death"], "days", "randomised")
    # One effect and restricted means that it implies, by six standard errors.
    risk = release.answers[0].fixed
    assert risk is not None
    assert abs(risk.estimate - -0.153) < 6 * risk.standard_error


def test_by_cells_arms_are_compared_within_sites(parties: Parties, tmp_path: Path) -> None:
    """Each site counts by its people; both models stand beside it, and pooled curves are means where grids agree."""
    call = call_of(tmp_path, parties, pooled_by="cells")
    release = pooled(call)
    runs = [load_release(parties[name].folder / "asked" / "release.json") for name in NAMES]
    for place, measure in enumerate(release.answers):
        own = [one.answers[place] for one in runs if isinstance(one, EffectRelease)]
        shares = np.array([3_000, 3_000, 1_500]) / 7_500
        assert measure.stratified is not None
        assert measure.stratified.estimate == pytest.approx(float(shares @ [one.estimate for one in own]))
        variances = [variance_of(one) for one in own]
        assert measure.stratified.standard_error == pytest.approx(float(shares**2 @ variances) ** 0.5)
        assert release.chosen(measure) == measure.stratified
        assert measure.fixed is not None
    # Two sites have 50 intervals by their people and budget, and one has fewer.
    assert release.curves == ()
    page = report_html(release)
    assert "stratified by site" in page
    assert "intervals differ" in page
    assert release.answers[0].log_rank is not None
    assert "Within sites. Log-rank tests" in page


# Numbers beyond the floats end the pooling where they arise: nothing is computed with what they leave.
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_by_cells_of_one_grid_there_are_mean_curves(parties: Parties, tmp_path: Path) -> None:
    for party in parties.values():
        party.run("twelve", study={"intervals": 12})
    call = call_of(tmp_path, parties, merge(TRAVELLING, {"intervals": 12}), "twelve", pooled_by="cells")
    release = pooled(call)
    runs = [load_release(parties[name].folder / "twelve" / "release.json") for name in NAMES]
    (pair,) = release.curves
    for arm in range(2):
        own = [one.curves[0].curves.arms[arm] for one in runs if isinstance(one, EffectRelease)]
        mean = np.average([one.survival for one in own], axis=0, weights=[3_000, 3_000, 1_500])
        found = pair.curves.arms[arm]
        # But for what each curve takes to fall where noise lets its counts rise.
        assert found.survival == pytest.approx(mean, abs=0.04)
        narrowest = np.min([np.subtract(one.upper, one.lower) for one in own], axis=0)
        assert (np.subtract(found.upper, found.lower) < narrowest).all()
    test = release.answers[0].log_rank
    assert test is not None
    assert test.hazard_ratio is not None
    # Deaths of the treated come 1.6 times as late: by three times the interval, since its noise is drawn afresh.
    ratio = test.hazard_ratio
    assert abs(np.log(1.6 * ratio.estimate)) < 1.5 * np.log(ratio.upper / ratio.lower)
    page = report_html(release)
    for words in ("Means of the sites’ curves", "Within sites. Log-rank tests", "Cumulative incidence"):
        assert words in page
    # Cells of another answer, or none, are refused by name.
    cells = call.statement("north")["release"]["cells"]
    for size in (1e308, 1e200):
        changed(call, "north", lambda document, size=size: document.update(cells=[size] * len(cells)))
        with pytest.raises(BundleError, match="the sites' numbers are too large or too small"):
            call.pool()
    changed(call, "north", lambda document: document.update(cells=cells[::-1]))
    with pytest.raises(BundleError, match="'north': foreign: its release contradicts its own cells"):
        call.pool()
    changed(call, "north", lambda document: document.update(cells=document["cells"][:-1]))
    with pytest.raises(BundleError, match="'north': foreign"):
        call.pool()
    changed(call, "north", lambda document: document.update(cells=None))
    with pytest.raises(BundleError, match="write 'pooled_by: effects'"):
        call.pool()


def test_cells_of_adjusted_studies_and_of_some_people_are_not_pooled(parties: Parties, tmp_path: Path) -> None:
    adjusted = merge(TRAVELLING, {"covariates": {"age": {"lower": 20, "upper": 60}}, "estimator": {"trial": False}})
    call = call_of(tmp_path, parties, adjusted, pooled_by="cells")
    with pytest.raises(StudyError, match="write 'pooled_by: effects'"):
        call.pool()
    call.terms.pop("pooled_by")
    call.save()
    answer(call)
    # The advice leads on: what is wrong now is that the sites ran another study.
    with pytest.raises(BundleError, match="another study; differing: covariates"):
        call.pool()


def test_a_site_that_ends_earlier_has_no_part(parties: Parties, tmp_path: Path) -> None:
    call = call_of(tmp_path, parties)
    changed(call, "coast", lambda document: [one.update(restricted_to=200.0) for one in document["answers"]])
    assert [part.state for part in pooled(call).answers[0].sites] == ["answered", "unresolved", "answered"]


FOREIGN: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("horizon", lambda one: one["specification"]["outcomes"][0].update(horizon=180.0), "outcomes"),
    ("events that count", lambda one: one["specification"]["outcomes"][0].update(of=["relapse"]), "outcomes"),
    (
        "unit",
        lambda one: one["specification"]["outcomes"][0].update(unit_of_measure="months"),
        "outcomes",
    ),
    ("confidence", lambda one: one["specification"].update(confidence=0.9), "confidence"),
    ("intervals", lambda one: one["specification"].update(intervals=12), "intervals"),
    ("another order", lambda one: one["answers"].reverse(), "questions"),
    ("another day", lambda one: one["curves"][0]["curves"].update(horizon=180.0), "times"),
    ("a cheap level", lambda one: one.update(confidence=0.5), "confidence"),
]


@pytest.mark.parametrize(("change", "named"), [case[1:] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_another_question_is_foreign(
    parties: Parties, tmp_path: Path, change: Callable[[dict[str, Any]], Any], named: str
) -> None:
    call = call_of(tmp_path, parties)
    changed(call, "north", change)
    with pytest.raises(BundleError, match="'north': foreign") as refused:
        call.pool()
    assert named in str(refused.value)
    assert "'coast'" not in str(refused.value)


def test_codes_names_of_censoring_and_longest_times_are_each_sites_own(parties: Parties, tmp_path: Path) -> None:
    call = call_of(tmp_path, parties)

    def own(document: dict[str, Any]) -> None:
        outcome = document["specification"]["outcomes"][0]
        outcome |= {"upper": 400.0, "step": 7.0, "censoring": "lost", "codes": {"lost": 0, "death": 7, "relapse": 8}}
        document["study_digest"] = "0" * 64

    changed(call, "north", own)
    # Only the digest, which was left as it cannot be, is refused.
    with pytest.raises(BundleError) as refused:
        call.pool()
    assert "another study" not in str(refused.value)


def test_a_coordinators_study_says_what_contracts_say(parties: Parties, tmp_path: Path) -> None:
    """What it leaves out is asked for; written in, the very same bundles are pooled."""
    call = call_of(tmp_path, parties, STUDY)
    with pytest.raises(StudyError, match="must declare 'events'") as refused:
        call.pool()
    assert "'origin'" in str(refused.value)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**TRAVELLING, "data": {"path": "."}}))
    answer(call)
    assert pooled(call).answers[0].fixed is not None


def refused_run(path: Path) -> int:
    """The exit code of a run that would leave a bundle."""
    command("bundle", "key")
    terms = path.with_name("round.json")
    terms.write_text(terms_text(some_terms()))
    return command("run", path, "--site", "north", "--round", terms, "--engine", "direct")


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ({"events": ["death"]}, "'outcome.events': the contract's events are 'relapse', 'death'"),
        ({"events": ["relapse", "death", "stroke"]}, "'outcome.events'"),
        ({"origin": "diagnosed"}, "'outcome.origin': the contract's times begin at 'randomised'"),
        ({"unit_of_measure": "months"}, "'outcome.unit_of_measure': the contract has 'days'"),
        ({"events": ...}, "must declare 'events'"),
        ({"origin": ...}, "must declare 'events'"),
        ({"unit_of_measure": ...}, "outcome.unit_of_measure; write these into the study"),
    ],
)
def test_a_study_that_nobody_could_pool_is_not_charged(
    outcome: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_survival(tmp_path, frame=patients(400), study=merge({"outcome": TRAVELS}, {"outcome": outcome}))
    assert refused_run(path) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not open_ledger().account("people").runs


def test_a_direction_is_refused_before_it_is_charged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "study.yaml"
    direction = {"kind": "direction", "name": "way", "pair": {"x": {"name": "a"}, "y": {"name": "b"}}}
    more = {"estimator": {"name": "direction"}, "privacy": {"epsilon": 1}, "data": {"path": "."}}
    path.write_text(yaml.safe_dump(direction | more))
    assert refused_run(path) == 2
    assert "only effects are pooled" in capsys.readouterr().err


def test_pages_of_times_over_sites_are_written_whatever_noise_hides(parties: Parties, tmp_path: Path) -> None:
    """By effects and by cells, of one grid and of several, with a measure or a hazard ratio that noise hides."""
    for party in parties.values():
        party.run("drawn", study={"intervals": 12})
    by_effects = pooled(call_of(tmp_path / "effects", parties))
    twelve = merge(TRAVELLING, {"intervals": 12})
    on_one_grid = pooled(call_of(tmp_path / "grid", parties, twelve, "drawn", pooled_by="cells"))
    document, grid = by_effects.model_dump(mode="json"), on_one_grid.model_dump(mode="json")
    first, *rest = document["answers"]
    nothing = dict.fromkeys(("fixed", "random", "heterogeneity", "simultaneous", "estimate", "interval"))
    nothing |= {"state": "unresolved", "leave_one_out": []}
    unseen = [{**site, "estimate": None, "interval": None, **NO_WEIGHT} for site in first["sites"]]
    hidden = {**document, "answers": [{**first, **nothing, "sites": unseen}, *rest]}
    tested, *others = grid["answers"]
    no_ratio = {**grid, "answers": [merge(tested, {"log_rank": {"hazard_ratio": None}}), *others]}
    documents = (hidden, no_ratio, by_model(document, "fixed"))
    pages = [report_html(load_pooled(one, "pooled")) for one in documents]
    for page, words in zip(pages, ("has no answer", "hidden by noise", "fixed-effects"), strict=True):
        assert words in page


NO_WEIGHT = {"weight_fixed": 0.0, "weight_random": 0.0}


def test_adjusted_studies_and_protocols_are_pooled(parties: Parties, tmp_path: Path) -> None:
    """Each adjusted measure and row is pooled as an effect is, by its own variance, and says what was adjusted for."""
    asked = {"adjusted": merge(TRAVELLING, ADJUSTS), "together": {**MANY, **ADJUSTS, "outcomes": OUTCOMES}}
    for run_id, study in asked.items():
        own = ADJUSTS if run_id == "adjusted" else {**ADJUSTS, "outcomes": OUTCOMES}
        for party in parties.values():
            party.run(run_id, study=own)
        release = call_of(tmp_path / run_id, parties, study, run_id, model="fixed").pool().release
        files = [load_release(parties[name].folder / run_id / "release.json") for name in NAMES]
        assert all(one.confounding is not None for one in release.answers)
        found = [one.fixed for one in release.answers]
        tables = [file.answers for file in files if isinstance(file, EffectRelease)]
        said = [[(row.estimate, variance_of(row)) for row in rows] for rows in zip(*tables, strict=True)]
        for one, parts in zip(found, said, strict=True):
            assert one is not None
            values, variances = np.array(parts, dtype=float).T
            assert one.estimate == pytest.approx(float(np.average(values, weights=1 / variances)))
