"""Reports: what they say, and how a browser shows them: wide, narrow, on paper, read aloud."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import browser
import pytest
from sites_help import NAMES, Call, Party
from studies import merge, write_study

from flows.cli import main
from flows.launch import run_study
from schemas.pooled import PooledRelease, load_published
from schemas.release import Release, load_release_text
from tasks.report import TEMPLATES, amount, beside, figure, report_html
from tasks.report_figures import Axis, Line, axis_of, waterfalls

LONG = "a_column_with_a_name_that_goes_on_and_on_as_names_in_warehouses_do_" + "x" * 40
Documents = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Documents:
    """Releases of every shape, as JSON: one that was run, and what else releases can say."""
    folder = tmp_path_factory.mktemp("reports")
    monkey = pytest.MonkeyPatch()
    monkey.setenv("CAUSALVEIL_HOME", str(folder / "home"))
    try:
        path = write_study(folder / "study", study={"estimator": {"penalty": 0.01}})
        ran = json.loads(run_study(path, out=folder / "out", run_id="shown", engine="direct").path.read_text())
    finally:
        monkey.undo()
    parties = {name: Party(name, folder / name, seed) for seed, name in enumerate(NAMES)}
    call = Call(folder / "coordinator", parties)
    call.write()
    (call.folder / "study.yaml").write_text(write_study(folder / "travels").read_text())
    for name, party in parties.items():
        party.run("asked")
        call.put(name, party.bundle("asked"))
    pooled = json.loads(call.pool().path.read_text())

    clear = {"estimate": -2.1, "interval": {"lower": -3.0, "upper": -1.2, "whole_range": False}}
    charge = ran["privacy"]["charges"][0]
    return {
        "effect": merge(ran, clear),
        "raises": merge(ran, {"estimate": 2.0, "interval": {"lower": 0.5, "upper": 3.5, "whole_range": False}}),
        "open": merge(ran, {"estimate": 0.1, "interval": {"lower": -1.0, "upper": 1.2, "whole_range": False}}),
        "drowned": merge(ran, {"estimate": 10.0, "interval": {"lower": -10.0, "upper": 10.0, "whole_range": True}}),
        "label": merge(ran, {"privacy": {"level": "label", "unprotected": ["every covariate is public"]}}),
        "simulated": merge(ran, {"not_for_release": True, "noise": {"source": "seeded"}}),
        "hostile": merge(
            ran,
            {
                "study": "<script>alert(1)</script>",
                "dataset": "'\"><img src=x onerror=alert(2)>",
                "specification": {
                    "treatment": LONG,
                    "outcome": {"name": "<b>bold</b>" + LONG},
                    "covariates": {LONG: {"lower": -1e300, "upper": 1e300}, "g": {"levels": [LONG, "</style>"]}},
                },
                "details": {f"propensity_coefficient[{LONG}{index}]": index / 7 for index in range(80)},
            },
        ),
        "unheard-of method": merge(
            ran,
            {
                "estimator": "tarot",
                "specification": {"estimator": {"name": "tarot", "clip": ...}},
                "privacy": {
                    "charges": [{**charge, "name": f"c{i}", "scope": "all", "epsilon": 0.25} for i in range(4)]
                },
            },
        ),
        "matching": merge(ran, {**clear, "estimator": "matching", **estimator(name="matching", ratio=5, clip=...)}),
        "folds": merge(
            ran,
            {
                **clear,
                "estimator": "aipw",
                **estimator(name="aipw", clip=..., propensity={"clip": [0.2, 0.8], "known": None}),
                "privacy": {
                    "charges": [
                        charge | {"name": "model 1", "scope": "all but fold 1 of 2", "epsilon": 0.4},
                        charge | {"name": "model 2", "scope": "all but fold 2 of 2", "epsilon": 0.4},
                        charge | {"name": "effect", "scope": "all", "epsilon": 0.6},
                    ]
                },
            },
        ),
        "trial": merge(ran, {"estimator": "aipw", **estimator(name="aipw", clip=..., propensity={"known": 0.5})}),
        "means": merge(
            ran, {"estimator": "difference_in_means", **estimator(name="difference_in_means", clip=...), **clear}
        ),
        "direction": direction(ran, "x_to_y", 0.83),
        "undecided": direction(ran, None, 0.0),
        "direction long": merge(direction(ran, "y_to_x", -0.5), long_pair()),
        "pooled": merge(pooled, {"model": "random"}),
        "pooled fixed": merge(pooled, {"model": "fixed", **{k: pooled["fixed"][k] for k in ("estimate", "interval")}}),
        "pooled long": merge(
            pooled, {"sites": [{**site, "site": f"{site['site']}-{'y' * 70}"} for site in pooled["sites"]]}
        ),
    }


def estimator(**settings: Any) -> dict[str, Any]:
    return {"specification": {"estimator": settings}}


def direction(ran: dict[str, Any], favours: str | None, weight: float) -> dict[str, Any]:
    """A release of a direction study, with everything that all releases have from one that was run."""
    pair = {"x": {"name": "altitude", "lower": 0, "upper": 3000}, "y": {"name": "heat", "lower": -20, "upper": 40}}
    changes: dict[str, Any] = dict.fromkeys(("estimand", "estimate", "interval", "variance"), ...)
    specification = dict.fromkeys(("treatment", "outcome", "covariates"), ...)
    score = {
        **{"score": "hsic", "answered": favours is not None, "x_to_y": None, "y_to_x": None},
        **{"margin": None if favours is None else 0.031, "favours": favours, "order_kept": None},
        **{"theorem": "Theorem 2, of the difference", "charges": ["hsic"]},
    }
    settings = {"name": "direction", "penalty": 0.01, "bandwidth": 0.2, "clip": ...}
    return merge(
        ran,
        {
            **changes,
            **{"kind": "direction", "estimator": "direction", "pair": pair, "scores": [score, score]},
            **{"verdict": {"favours": favours, "weight": weight, "rule": "the scores' signs, weighted"}},
            **{"unbounded_halves": [], "details": {"bandwidth": 0.2}},
            "specification": {**specification, "pair": pair, "estimator": settings},
        },
    )


def long_pair() -> dict[str, Any]:
    pair = {"x": {"name": LONG}, "y": {"name": LONG.upper()}}
    score = {"score": "hsic", "answered": True, "x_to_y": 0.2, "y_to_x": 0.1, "margin": -0.1, "favours": "y_to_x"}
    score |= {"order_kept": 0.9, "theorem": "Theorem 2", "charges": []}
    return {"pair": pair, "specification": {"pair": pair}, "scores": [score]}


def load(document: dict[str, Any]) -> Release | PooledRelease:
    if document["kind"] == "pooled":
        return PooledRelease.model_validate(document)
    return load_release_text(json.dumps(document))


@pytest.fixture(scope="module")
def pages(documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    result = {}
    for name, document in documents.items():
        result[name] = folder / f"{name}.html"
        result[name].write_text(report_html(load(document)), encoding="utf-8")
    return result


class Reader(HTMLParser):
    """Text of a page, and whatever could reach outside it."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.outside, self.tags = "", [], []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [
            value for name, value in attrs if name in ("src", "href", "srcset", "action", "data") and value != "data:,"
        ]
        self.outside += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text())
    reader.text = " ".join(reader.text.split())
    return reader


def test_every_page_is_self_contained(pages: dict[str, Path]) -> None:
    for name, path in pages.items():
        page = read(path)
        assert page.outside == [], name
        assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags), name
        assert page.tags.count("link") == 1, name
        assert "url(" not in path.read_text(), name
        assert "@import" not in path.read_text(), name


SAYS = {
    "effect": [
        *("treated lowers score by 2.10, on the assumptions below", "−3.00 to −1.20", "on average over everybody"),
        *("ATE: the mean of score over every unit", "A unit is one person", "No other confounder", "age, group"),
        *("probability from 0.1 to 0.9", "(1, 10⁻⁶)-differential privacy", "The whole row of any one person"),
        *("What is true of people in general", "20 to 60", "a, b, c", "by a factor of 2.7", "at this sample size"),
        *("It does not cover confounding", "ledger", "polars", "inverse probability weighting (hajek)"),
    ],
    "raises": ["treated raises score by 2.00"],
    "open": ["its sign is open", "holds zero"],
    "drowned": ["Nothing can be said.", "the whole range that was declared"],
    "label": [
        "The score of any one person, against somebody who knows everything else",
        "Every covariate is public.",
        "one person’s outcome",
    ],
    "simulated": ["Not for release. A simulation with seeded noise"],
    "hostile": ["<script>alert(1)</script>", "<b>bold</b>", "more stand in release.json"],
    "matching": ["Computed by matching", "5 units of the other arm", "Every kind of unit can be found in both arms"],
    "folds": [
        *("augmented inverse probability weighting", "from 0.2 to 0.8", "a unit of fold 1 of 2, as any other, spends"),
        *("ε 1 of 1", "all but fold 2 of 2"),
    ],
    "trial": ["Treatment was randomised, with a chance of 0.5"],
    "means": ["Treatment was randomised.", "difference of the two arms’ noisy means"],
    "direction": [
        *("Does altitude cause heat, or heat cause altitude?", "favour altitude → heat", "0.83", "Additive noise"),
        *("0 to 3,000", "Theorem 2", "Nothing else causes both", "0.031"),
    ],
    "direction long": ["favour " + LONG.upper() + " → " + LONG, "0.1"],
    "undecided": ["no score answered, or they cancel", "no answer"],
    "unheard-of method": ["Computed by tarot", "What every unit spends: ε 1 of 1", "c0", "c3"],
    "pooled": [
        *("random-effects estimate, as the coordinator declared", "τ²", "I²", "Without one of them", "north", "coast"),
        *("declared by the coordinator, not checked", "Pooling itself costs nothing", "like a random draw"),
    ],
    "pooled fixed": ["fixed-effects estimate", "It is about these very sites"],
    "pooled long": ["y" * 70],
}


@pytest.mark.parametrize("name", SAYS)
def test_what_the_page_says(pages: dict[str, Path], name: str) -> None:
    text = read(pages[name]).text
    for words in SAYS[name]:
        assert words in text, words


def test_every_number_of_the_figure_is_in_its_text_alternative(pages: dict[str, Path], documents: Documents) -> None:
    for name in ("effect", "pooled"):
        described = " ".join(re.findall(r"<desc[^>]*>(.*?)</desc>", pages[name].read_text(), flags=re.DOTALL))
        document = documents[name]
        for part in (document, *document.get("sites", [])):
            for value in (part["estimate"], part["interval"]["lower"], part["interval"]["upper"]):
                assert beside(value, part["interval"]) in described


def test_command(documents: Documents, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["report", *words])
        return int(ended.value.code or 0)

    release = tmp_path / "release.json"
    for name in ("effect", "pooled"):
        release.write_text(json.dumps(documents[name]))
        assert load_published(release).kind == documents[name]["kind"]
        assert run(str(release)) == 0
        assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert run(str(release), "--out", str(tmp_path / "deep" / "page.html"), "--json") == 0
    assert str(tmp_path / "deep" / "page.html") in capfd.readouterr().out
    release.write_text("{}")
    assert run(str(release)) == 2
    assert run(str(tmp_path / "nowhere.json")) == 2


def test_numbers_and_amounts() -> None:
    assert [figure(v) for v in (0.0, -1.98243, 12345.6, 0.000012345, 1e300, None)] == [
        *("0", "−1.982", "12,346", "1.23·10⁻⁵", "10³⁰⁰", "–")
    ]
    assert [amount(v) for v in (1.0, 0.5, 1e-6, 2.5e-7)] == ["1", "0.5", "10⁻⁶", "2.5·10⁻⁷"]
    interval = {"lower": -9214.3, "upper": 9000.1}
    assert beside(-107.4, interval) == "−107"
    assert beside(-0.00001, {"lower": -1.0, "upper": 1.0}) == "0.00"


@pytest.mark.parametrize(
    ("low", "high"), [(-3.1, 0.2), (0, 1), (-1e-9, 1e-9), (9.99, 10.01), (-2e6, 5e6), (-1e300, 1e300)]
)
def test_ticks_are_few_round_and_on_the_axis(low: float, high: float) -> None:
    axis = Axis(low, high)
    assert 2 <= len(axis.ticks) <= 5
    for tick in axis.ticks:
        assert low - 1e-9 * (high - low) <= tick <= high + 1e-9 * (high - low)
        assert 0 <= axis.at(tick) <= 100


def test_one_wide_interval_does_not_hide_the_others() -> None:
    lines = [Line(str(i), "", 1.0, 0.8, 1.2, 0.3) for i in range(3)] + [Line("wide", "", 1.0, -30, 30, 0.01)]
    axis = axis_of(lines)
    assert axis.beyond(-30)
    assert axis.beyond(30)
    assert axis.at(1.2) - axis.at(0.8) > 20
    assert axis_of([Line("none", "", 0.0, 0.0, 0.0)]).at(0) == 50


def test_waterfall_adds_up_within_each_part(documents: Documents) -> None:
    release = load(documents["effect"])
    assert isinstance(release, Release)
    falls = waterfalls(release.privacy.charges, release.privacy.epsilon, amount)
    assert [fall.title for fall in falls] == ["a unit of the training half", "a unit of the estimation half"]
    assert [[(bar.start, bar.end) for bar in fall.bars] for fall in falls] == [[(0, 100)], [(0, 100)]]
    four = load(documents["unheard-of method"])
    assert isinstance(four, Release)
    (fall,) = waterfalls(four.privacy.charges, four.privacy.epsilon, amount)
    assert [(bar.start, bar.end) for bar in fall.bars] == [(0, 25), (25, 50), (50, 75), (75, 100)]
    folds = load(documents["folds"])
    assert isinstance(folds, Release)
    (fall,) = waterfalls(folds.privacy.charges, folds.privacy.epsilon, amount)
    assert [(bar.label, bar.start, bar.end) for bar in fall.bars] == [("model 2", 0, 40), ("effect", 40, 100)]


def test_templates_ship_with_the_package() -> None:
    """They lie inside the package `tasks`, whose every file the wheel takes (see pyproject.toml)."""
    assert TEMPLATES.parent.name == "tasks"
    names = {path.name for path in TEMPLATES.iterdir()}
    assert {"base.html.j2", "effect.html.j2", "pooled.html.j2", "any.html.j2", "style.css"} <= names


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if browser.missing():
        pytest.skip(browser.missing())
    with browser.chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def shown(chromium: Any, pages: dict[str, Path]) -> Callable[[str, int], Any]:
    def show(name: str, pixels: int) -> Any:
        browser.width(chromium, pixels)
        chromium.get_log("performance")
        chromium.get(pages[name].as_uri())
        return chromium

    return show


# What sticks out of the window, by its class or tag; text in SVG by its own box.
OUTSIDE = """
return [...document.querySelectorAll('body *')].filter(e => {
  const b = e.getBoundingClientRect();
  return b.width > 0 && (b.right > window.innerWidth + 1 || b.left < -1);
}).map(e => (e.className.baseVal ?? e.className) || e.tagName);
"""
OVERLAPS = """
const found = [];
for (const figure of document.querySelectorAll('svg.figure')) {
  const texts = [...figure.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) {
    const [a, b] = [texts[i][1], texts[j][1]];
    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) found.push([texts[i][0], texts[j][0]]);
  }
}
return found;
"""
NAMED = """
const text = id => (document.getElementById(id) || {}).textContent || '';
return [...document.querySelectorAll('svg[role=img]')].map(s =>
  s.getAttribute('aria-labelledby').split(' ').map(text).join(' '));
"""
SMALLEST = """
const sizes = [...document.querySelectorAll('p, li, td, text')].map(e => parseFloat(getComputedStyle(e).fontSize));
return Math.min(...sizes);
"""
CONTRASTS = """
function parts(c) { return c.match(/[0-9.]+/g).slice(0, 3).map(Number); }
function light(c) {
  const [r, g, b] = parts(c).map(v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b;
}
const paper = light(getComputedStyle(document.body).backgroundColor);
return [...document.querySelectorAll('h1, h2, p, li, td, th, figcaption, caption, text')].map(e => {
  const style = getComputedStyle(e);
  let back = paper;
  for (let up = e; up; up = up.parentElement) {
    const c = getComputedStyle(up).backgroundColor;
    if (c !== 'rgba(0, 0, 0, 0)') { back = light(c); break; }
  }
  const ink = light(e.tagName === 'text' ? style.fill : style.color);
  return (Math.max(ink, back) + .05) / (Math.min(ink, back) + .05);
}).reduce((a, b) => Math.min(a, b));
"""


def requested(driver: Any) -> list[str]:
    """Every address that the browser asked for since the log was last read."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize("name", SAYS)
def test_in_a_browser(shown: Callable[[str, int], Any], name: str) -> None:
    """No console message, nothing asked of the network, nothing sticks out, no labels on each other."""
    for pixels in (1200, 400):
        driver = shown(name, pixels)
        assert driver.get_log("browser") == []
        assert not [url for url in requested(driver) if re.match("https?:|wss?:|ftp:", url)]
        assert driver.execute_script("return document.documentElement.scrollWidth") <= pixels
        assert driver.execute_script(OUTSIDE) == []
        assert driver.execute_script(OVERLAPS) == []
        alternatives = driver.execute_script(NAMED)
        assert alternatives
        assert all(len(text.strip()) > 20 for text in alternatives)
        assert driver.execute_script(SMALLEST) >= 12


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["effect", "simulated", "pooled"])
def test_contrast(shown: Callable[[str, int], Any], name: str, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1 at least, in both schemes."""
    driver = shown(name, 1200)
    features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    try:
        assert driver.execute_script(CONTRASTS) >= 4.5
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("name", ["effect", "pooled", "hostile"])
def test_on_paper(shown: Callable[[str, int], Any], name: str) -> None:
    """A4, a few pages, and nothing wider than the paper."""
    driver = shown(name, 1200)
    document = browser.printed(driver)
    assert document.startswith(b"%PDF")
    boxes = re.findall(rb"/MediaBox\s*\[\s*0\s+0\s+([0-9.]+)\s+([0-9.]+)", document)
    assert 1 <= len(boxes) <= 8
    for across, down in boxes:
        assert (round(float(across)), round(float(down))) == (595, 842)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        browser.width(driver, 665)  # the width of A4 between the margins, at 96 pixels an inch
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 665
        assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
