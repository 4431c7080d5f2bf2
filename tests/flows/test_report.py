"""Reports: what they say of each kind of release, and what their figures show."""

from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from causalveil.schemas.release import Release
from causalveil.schemas.sites.pooled import load_published
from causalveil.tasks.report.figures import Axis, Line, axis_of, waterfalls
from causalveil.tasks.report.numbers import amount, beside, broken, confidence_level, figure, near, percent
from causalveil.tasks.report.page import TEMPLATES, head_html, report_html
from tests.report_help import LONG, WHOLE, Documents, load, told
from tests.studies import command, merge


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


# Sentences that depend on facts of a run are those of ``test_true_sentences.py``.
SAYS = {
    "effect": [
        *("treated lowers score by 2.10, if the assumptions below hold", "−3.00 to −1.20", "On average over all units"),
        *(
            "ATE: every person of small",
            "Difference of means, treated minus controls",
            "No unmeasured confounding",
            "age, group",
        ),
        *("probability from 0.1 to 0.9", "(1, 10⁻⁶)-differential privacy"),
        *("What is true of people in general", "20 to 60", "a, b, c", "by a factor of 2.7"),
        *("Not covered: confounding", "ledger", "polars", "inverse probability weighting (Hájek)"),
    ],
    "survival": [
        *(
            "How does treated change the risk of death until 365 days and the mean time without event until 365 days,",
            "Time to death until 365 days (origin: randomised).",
            "lowers the risk of death until 365 days by 0.200 (20.0 percentage points)",
        ),
        *(
            "People at risk, with noise",
            "Cumulative incidence among the treated, stacked from the bottom: death",
            "relapse",
        ),
        *("Log-rank tests", "Hazard ratio", "Independent censoring", "alive", "curves of Kaplan-Meier"),
    ],
    "protocol of times": [
        *("lowers the risk of death until 365 days by", "questions were asked together", "by their joint normal law"),
        *("to relapse or death until 365 days; to relapse until 730 days (origin: randomised)", "competes with it"),
        *(
            "compared until 365 and 730",
            "death, relapse; censored: alive",
            "Log-rank tests",
            "Curves until 730 days",
            "treated solid, controls dashed",
        ),
        *("Cumulative incidence among the treated, stacked from the bottom: death", "north", "Independent censoring"),
    ],
    "survival, hidden": [
        *(
            "Nothing can be said of the risk of death until 365 days:",
            "People of both arms are seen at risk until",
            "Faint: too few",
            "hidden by noise",
            "Not adjusted: treatment was",
        ),
    ],
    "survival, adjusted": [
        *(
            "Too few are followed to the horizon. Risk of death until 365 days: until 299.3 days alone.",
            "which ends at 299.3 days,",
            "Adjusted for",
            "Without adjustment the difference",
        ),
        *("every person of older where age >= 30", "ended at 299.3 days", "The arms as they are, not adjusted."),
        *("the choice of an earlier horizon", "Who is lost may depend on the arm and on these levels"),
    ],
    "withheld": ["score has no answer: a gate failed.", "4 questions were asked together. Each has its own row below."],
    "raises": ["treated raises score by 2.00"],
    "open": ["includes zero"],
    "drowned": [
        "the whole declared range",
        "Estimate: hidden by noise (−10.0 to 10.0)",
    ],
    "label": [
        "The score of any one person, even against an attacker who knows everything else",
        "Every covariate is public.",
        "one person’s outcome",
    ],
    "hostile": ["<script>alert(1)</script>", "<b>bold</b>", "more stand in release.json"],
    "matching": ["Computed by matching", "5 units of the other arm", "Every kind of unit can be found in both arms"],
    "aipw": [
        "augmented inverse probability weighting",
        "Treatment was randomised, with a chance of 0.5",
    ],
    "balance": [
        "leaving out 25% of its units",
        *("age: 1.234 before, 0.012 after, noise 0.046", "The 24 furthest apart are shown; 5 more"),
    ],
    "attenuated": ["noise on treatments leaves about 34% of the effect"],
    "means": ["Treatment was randomised.", "difference of the two arms’ noisy means"],
    "as they are": ["Little confounding."],
    "direction": [
        *("Does altitude cause heat, or heat cause altitude?", "favour altitude → heat", "0.83", "Additive noise"),
        *("0 to 3,000", "Theorem 2", "takes no account of sampling", "Nothing else causes both", "0.031"),
    ],
    "direction long": ["favour " + LONG.upper() + " → " + LONG, "0.1"],
    "undecided": ["no score answered, or they cancel", "no answer"],
    "unheard-of method": ["Computed by tarot", "What every unit spends: ε 1 of 1", "c0", "c3"],
    "pooled": [
        *("random-effects estimate, as the coordinator declared", "τ²", "I²", "Without one of them", "north", "coast"),
        *("declared by the coordinator, not checked", "Pooling itself costs nothing", "like a random draw"),
    ],
    "pooled fixed": ["fixed-effects estimate", "It is the mean effect at these sites"],
    "pooled long": ["y" * 70],
    "pooled protocol": [
        *("random-effects estimates, as the coordinator declared", "Negative controls, pooled", "Gates at the sites"),
        *("The sites’ own estimates", "by ward", "as the first primary outcome weighs the sites", "days_in_hospital"),
    ],
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
        for part in document["answers"] if "answers" in document else (document, *document["sites"]):
            for value in (part["estimate"], part["interval"]["lower"], part["interval"]["upper"]):
                assert beside(value, part["interval"]) in described


def drawn_text(page: str) -> list[str]:
    """Return what figures of a page write."""
    return re.findall(r"<text[^>]*>(.*?)</text>", page)


def test_no_label_of_a_figure_is_cut(pages: dict[str, Path]) -> None:
    for name, path in pages.items():
        assert [text for text in drawn_text(path.read_text()) if "…" in text] == [], name
    assert broken("number_of_previous_admissions", 20) == ("number_of_previous_", "admissions")
    assert "".join(broken(LONG)) == LONG
    assert max(map(len, broken(LONG))) <= 42


def test_bars_of_what_was_spent_add_up_as_they_are_labelled(documents: Documents) -> None:
    page = report_html(load(documents["survival, adjusted"]))
    assert "scales_risk" not in re.sub(r"<code>.*?</code>", "", page)
    (fall,) = re.findall(r'<desc id="fall-1-text">(.*?)</desc>', page)
    shares = [float(share) for share in re.findall(r": ([0-9.]+)%", fall)]
    assert len(shares) == 6
    assert abs(sum(shares) - 100) < 0.5


def test_nothing_is_said_of_times_at_which_too_few_are_at_risk(documents: Documents) -> None:
    document = documents["survival, hidden"]
    page = report_html(load(document))
    for side, arm in zip((1, 2), document["curves"][0]["curves"]["arms"], strict=True):
        (said,) = re.findall(rf'<desc id="incidence-1-{side}-text">(.*?)</desc>', page)
        for rising in arm["incidence"].values():
            assert percent(rising[20]) in said
            assert percent(rising[-1]) not in said
    assert "area unseen" in page


def test_a_curve_that_ends_elsewhere_than_the_estimate_says_so(documents: Documents) -> None:
    """Curves are drawn monotone; of 300 people a figure showed the arms the other way round than the answer."""
    document = documents["survival"]
    drawn = [arm["incidence"]["death"][-1] for arm in document["curves"][0]["curves"]["arms"]]
    said = "the curves end elsewhere than the estimates"
    for moved in (0.0, 0.2):
        risk = {"values": [drawn[0] + moved, drawn[1]]}
        page = " ".join(re.sub(r"<[^>]+>", "", report_html(load(told(document, risk)))).split())
        assert (said in page) == bool(moved)
        ends = f"controls at a risk of {percent(drawn[0])} (estimate {percent(drawn[0] + moved)})."
        assert (ends in page) == bool(moved)


def test_confidence_is_told_with_all_of_its_digits(documents: Documents) -> None:
    """Of four intervals that hold together each has .9875, which is no 99 percent."""
    assert [confidence_level(one) for one in (0.95, 0.9875, 0.999)] == ["95%", "98.75%", "99.9%"]
    for name in ("survival", "effect"):
        document = documents[name]
        page = report_html(load({**document, "confidence": 0.9875}))
        assert "98.75%" in page
        assert "99% interval" not in page


def test_figures_of_restricted_times_are_told_of_the_day_on_which_measures_end(documents: Documents) -> None:
    """People may be seen for longer than enough of them are followed."""
    document = documents["survival, adjusted"]
    (drawn,) = document["curves"]
    times = drawn["curves"]["times"]
    page = report_html(load(told(document, {"restricted_to": times[20]})))
    (said,) = re.findall(r'<desc id="survival-1-text">(.*?)</desc>', page)
    for arm in drawn["curves"]["arms"]:
        assert f"{percent(arm['survival'][20])} at {figure(times[20])} days" in said
    assert "age</code> (classes from 40)" in page
    assert "'age' (classes from 40)" in "; ".join(one["sentence"] for one in document["not_covered"])


def test_a_hidden_estimate_has_no_marker_and_no_number(documents: Documents) -> None:
    document = documents["protocol"]
    ends = {"state": "unresolved", "interval": {"lower": -10.0, "upper": 10.0}}
    hidden = {**document, "answers": [{**row, **ends} for row in document["answers"]]}
    page = report_html(load(hidden))
    forest = page.split('aria-labelledby="forest-1-title')[1].split("</svg>\n</figure>")[0]
    assert 'class="marker"' not in forest
    assert 'class="interval"' in forest
    assert page.count(">hidden by noise<") == len(document["answers"])


def test_command(documents: Documents, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    release = tmp_path / "release.json"
    for name in ("effect", "pooled"):
        release.write_text(json.dumps(documents[name]))
        assert load_published(release).kind == documents[name]["kind"]
        assert command("report", release) == 0
        assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    (tmp_path / "report.html").unlink()
    assert command("report", tmp_path) == 0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert command("report", release, "--out", str(tmp_path / "deep" / "page.html"), "--json") == 0
    assert str(tmp_path / "deep" / "page.html") in capfd.readouterr().out
    release.write_text("{}")
    assert command("report", release) == 2
    assert command("report", str(tmp_path / "nowhere.json")) == 2


def test_numbers_and_amounts() -> None:
    assert [figure(v) for v in (0.0, -1.98243, 12345.6, 0.000012345, 1e300, None)] == [
        *("0", "−1.982", "12,346", "1.23·10⁻⁵", "10³⁰⁰", "–")
    ]
    assert [amount(v) for v in (1.0, 0.5, 1e-6, 2.5e-7)] == ["1", "0.5", "10⁻⁶", "2.5·10⁻⁷"]
    interval = {"lower": -9214.3, "upper": 9000.1}
    assert beside(-107.4, interval) == "−107"
    assert beside(-0.00001, {"lower": -1.0, "upper": 1.0}) == "0.00"
    assert near(0.0000478, 0.007116) == "0.0000"
    assert near(0.4819, 0.071) == "0.482"


@pytest.mark.parametrize(
    ("low", "high"),
    [(-3.1, 0.2), (0, 1), (-1e-9, 1e-9), (9.99, 10.01), (-2e6, 5e6), (-1e300, 1e300), (-0.0502, 0.0502)],
)
def test_ticks_are_few_round_and_on_the_axis(low: float, high: float) -> None:
    axis = Axis(low, high)
    assert 2 <= len(axis.ticks) <= 5
    for tick in axis.ticks:
        assert low - 1e-9 * (high - low) <= tick <= high + 1e-9 * (high - low)
        assert 0 <= axis.at(tick) <= 100
    for pixels in (368, 220):
        ticks = axis.ticks_on(pixels)
        assert ticks
        assert len({figure(tick) for tick in ticks}) == len(ticks), "two ticks have one label"
        for one, other in itertools.pairwise(ticks):
            # Seven pixels a digit at least, in every font of the style sheet.
            half = 7 * (len(figure(one)) + len(figure(other))) / 2
            assert (axis.at(other) - axis.at(one)) / 100 * pixels > half, "their labels touch"


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


def test_a_part_that_spends_less_is_told_so(documents: Documents) -> None:
    """The words above its bars agree with where they end: it read "1 of 1" above bars that add up to less."""
    effect = documents["effect"]
    charge = effect["privacy"]["charges"][0] | {"mechanism": "gaussian", "noise_scale": 1000.0}
    several = [
        charge | {"name": name, "scope": scope, "epsilon": "0.5", "mu": mu}
        for name, scope, mu in (("one", "train", "0.4"), ("two", "estimation", "0.2"), ("both", "all", "0.2"))
    ]
    release = load(merge(effect, {"privacy": {"charges": several}}))
    assert isinstance(release, Release)
    falls = waterfalls(release.privacy.charges, release.privacy.epsilon, amount)
    assert [fall.bars[-1].end for fall in falls] == [100, 40]
    assert [fall.total for fall in falls] == ["ε 1 of 1", "40% of ε 1"]


def test_a_love_plot_shows_where_a_difference_stops_being_small(documents: Documents) -> None:
    """As cobalt's does; where its axis does not reach so far, neither line nor word says so."""
    for size, ends in ((0.3, 1), (0.03, 0)):
        row = WHOLE | {"covariate": "age", "before": size, "after": 0.0, "noise_error": 0.001}
        page = report_html(load(merge(documents["effect"], {"balance": [row]})))
        assert page.count('<line class="limit"') == ends
        assert ("Dashed: 0.1 to either side" in page) == bool(ends)


def test_templates_ship_with_the_package() -> None:
    """They lie in the package's folder `tasks`, whose every file the wheel takes (see pyproject.toml)."""
    assert TEMPLATES.parent.parent.name == "tasks"
    names = {path.name for path in TEMPLATES.iterdir()}
    assert {"base.html.j2", "effect.html.j2", "pooled.html.j2", "style.css"} <= names


def test_heads_for_notebooks_are_fragments_of_the_pages(documents: Documents) -> None:
    """Question and answer word for word as on the page; nothing that a notebook would run or fetch."""
    for name, document in documents.items():
        release = load(document)
        reader, fragment, page = Reader(), head_html(release), report_html(release)
        reader.feed(fragment)
        assert reader.outside == [], name
        assert not {"script", "html", "body", "link", "main", "h1"} & set(reader.tags), name
        assert reader.tags[0] == "div", name
        assert release._repr_html_() == fragment, name
        assert re.findall(r"<h3>(.*?)</h3>", fragment)[0] == re.findall(r"<h1>(.*?)</h1>", page)[0], name
        answer = r'<p class="answer">.*?</p>'
        assert re.findall(answer, fragment, re.DOTALL) == re.findall(answer, page, re.DOTALL), name
