"""Reports as a browser shows them: wide, narrow, in the dark, on paper, read aloud."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import browser
from tests.report_help import STATEMENTS

NAMES = (
    *("effect", "raises", "open", "drowned", "label", "simulated", "hostile", "matching", "aipw", "confounding"),
    *(
        "means",
        "direction",
        "direction long",
        "undecided",
        "unheard-of method",
        "pooled",
        "pooled fixed",
        "pooled long",
    ),
    *(
        "balancing",
        "balance",
        "attenuated",
        "as they are",
        "protocol",
        "survival",
        "survival, hidden",
        "survival, adjusted",
        "withheld",
        "pooled protocol",
        "protocol of times",
        "protocol, long",
    ),
    *(f"adjusted {place}" for place in range(len(STATEMENTS))),
)


def test_every_page_is_looked_at(pages: dict[str, Path]) -> None:
    assert set(NAMES) == set(pages)


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
        chromium.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true; })")
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
    // Two numbers in a line need a gap, or they read as one.
    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > -4
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) found.push([texts[i][0], texts[j][0]]);
  }
}
return found;
"""
COVERED = """
const found = [];
for (const figure of document.querySelectorAll('svg.figure')) {
  const marks = [...figure.querySelectorAll('.marker, .hollow')].map(m => m.getBoundingClientRect());
  for (const text of figure.querySelectorAll('text')) {
    const a = text.getBoundingClientRect();
    if (marks.some(b => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)) found.push(text.textContent);
  }
}
return found;
"""
# Labels of the upright axis of curves that lie where curves are drawn, and figures of curves without a key above them.
ON_CURVES = """
const found = [];
for (const figure of document.querySelectorAll('svg.figure:has(> svg[viewBox])')) {
  const lines = [...figure.querySelectorAll('line.grid')].map(line => line.getBoundingClientRect());
  const [left, top, bottom] = [
    Math.min(...lines.map(b => b.left)), Math.min(...lines.map(b => b.top)), Math.max(...lines.map(b => b.bottom))];
  for (const text of figure.querySelectorAll('text')) {
    const a = text.getBoundingClientRect();
    if (a.right > left && a.bottom > top && a.top < bottom) found.push(text.textContent);
  }
}
return found;
"""
UNNAMED = """
return [...document.querySelectorAll('svg.figure:has(> svg[viewBox])')].filter(figure => {
  const kinds = new Set([...figure.querySelectorAll('path')].map(
    p => (p.getAttribute('fill-opacity') || '') + p.classList.contains('control')));
  const key = figure.parentElement.querySelectorAll('.key .swatch');
  return key.length < Math.max(kinds.size, 1);
}).map(figure => figure.textContent);
"""
# Rows of a stacked table that do not begin where the others do.
INDENTED = """
return [...document.querySelectorAll('.stacks td')].filter(e => getComputedStyle(e).paddingLeft !== '0px')
  .map(e => e.textContent);
"""
# Numbers of tables and of the items of checklists that are broken over two lines.
BROKEN = """
return [...document.querySelectorAll('td, .items tbody th')].filter(e => {
  if (e.tagName === 'TD' && !/^[−0-9.,·⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+$/.test(e.textContent.trim())) return false;
  const range = document.createRange();
  range.selectNodeContents(e);
  return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
}).map(e => e.textContent);
"""
# What is wider than the column of text that it stands in.
PAST = """
const edge = document.querySelector('main').getBoundingClientRect().right;
// Half of a tick's label may stand in the margin, which is 16 pixels wide at least.
return [...document.querySelectorAll('main *')]
  .filter(e => e.getBoundingClientRect().right > edge + (e.closest('svg.figure') ? 14 : 1.5))
  .map(e => (e.className.baseVal ?? e.className) || e.tagName);
"""
# What leads to something and could be left behind at the end of a page of paper; what could be cut in two there.
LEFT_BEHIND = """
const leads = [...document.querySelectorAll('h2, h3, h4, caption, figcaption, .key, summary, h2 + p, h3 + p')].concat(
  [...document.querySelectorAll('p')].filter(p => p.nextElementSibling?.matches('ul, ol, table, figure, .flow')));
const cut = [...document.querySelectorAll('figure, tbody tr, p, li, .flow, .box, .notice')];
return leads.filter(e => getComputedStyle(e).breakAfter !== 'avoid')
  .concat(cut.filter(e => getComputedStyle(e).breakInside !== 'avoid'))
  .map(e => e.tagName + ': ' + e.textContent.slice(0, 60));
"""
# Tables by whether they may break over two sheets, where that is not as their number of rows has it.
KEPT_WHOLE = """
return [...document.querySelectorAll('table')]
  .filter(t => (getComputedStyle(t).breakInside === 'avoid') !== (t.tBodies[0].rows.length < 7))
  .map(t => t.textContent.slice(0, 40));
"""
# Boxes whose right border stands on the edge of the paper, which cuts it.
ON_THE_EDGE = """
return [...document.querySelectorAll('.box')].filter(e => e.getBoundingClientRect().right > window.innerWidth - 1)
  .map(e => e.textContent);
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


# The least contrast of lines and marks that carry meaning, as far as they are opaque.
GRAPHICS = """
function parts(c) { return c.match(/[0-9.]+/g).slice(0, 3).map(Number); }
function light(rgb) {
  const [r, g, b] = rgb.map(v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b;
}
const paper = parts(getComputedStyle(document.body).backgroundColor);
return [...document.querySelectorAll('.outer, .interval, .marker, .curve:not(.faint)')].map(e => {
  const style = getComputedStyle(e), ink = parts(e.matches('.marker') ? style.fill : style.stroke);
  const fine = parseFloat(style.strokeWidth) < 2 && style.shapeRendering.toLowerCase() !== 'crispedges';
  const crisp = e.matches('.marker') || !fine;
  const share = style.opacity * (crisp ? 1 : .5), seen = ink.map((v, i) => share * v + (1 - share) * paper[i]);
  const [a, b] = [light(seen), light(paper)];
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
}).reduce((a, b) => Math.min(a, b));
"""


def requested(driver: Any) -> list[str]:
    """Every address that the browser asked for since the log was last read."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize("name", NAMES)
def test_in_a_browser(shown: Callable[[str, int], Any], name: str) -> None:
    """No console message, nothing asked of the network, nothing sticks out, no labels on each other."""
    for pixels in (1200, 400):
        driver = shown(name, pixels)
        assert driver.get_log("browser") == []
        assert not [url for url in requested(driver) if re.match("https?:|wss?:|ftp:", url)]
        assert driver.execute_script("return document.documentElement.scrollWidth") <= pixels
        assert driver.execute_script(OUTSIDE) == []
        assert driver.execute_script(OVERLAPS) == []
        assert driver.execute_script(COVERED) == [], "a point lies on a label"
        assert driver.execute_script(ON_CURVES) == [], "a curve crosses a label"
        assert driver.execute_script(UNNAMED) == [], "marks that no key names"
        assert driver.execute_script(BROKEN) == []
        assert pixels > 400 or driver.execute_script(INDENTED) == []
        alternatives = driver.execute_script(NAMED)
        assert alternatives
        assert all(len(text.strip()) > 20 for text in alternatives)
        assert driver.execute_script(SMALLEST) >= 12


@pytest.mark.parametrize("name", ["balance", "protocol", "protocol of times", "protocol, long", "pooled protocol"])
def test_no_table_is_wider_than_the_text(shown: Callable[[str, int], Any], name: str) -> None:
    """Tables of answers have up to eight columns of numbers; from 705 pixels on they do not stack."""
    for pixels in (560, 641, 705, 768, 1200):
        assert shown(name, pixels).execute_script(PAST) == [], pixels


CONTRASTED = ["effect", "simulated", "pooled", "survival, adjusted", "direction", "protocol", "protocol of times"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", CONTRASTED)
def test_contrast(shown: Callable[[str, int], Any], name: str, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1 at least, in both schemes."""
    driver = shown(name, 1200)
    features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    try:
        assert driver.execute_script(CONTRASTS) >= 4.5
        assert driver.execute_script(GRAPHICS) >= 3, "WCAG 2.2, 1.4.11, of what is no text"
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


PRINTED = [
    "effect",
    "pooled",
    "hostile",
    "balance",
    "survival, adjusted",
    "protocol of times",
    "direction",
    "pooled protocol",
]


@pytest.mark.parametrize("name", PRINTED)
def test_on_paper(shown: Callable[[str, int], Any], name: str) -> None:
    """A4, a few pages, and nothing wider than the paper."""
    driver = shown(name, 1200)
    document = browser.printed(driver)
    assert document.startswith(b"%PDF")
    boxes = re.findall(rb"/MediaBox\s*\[\s*0\s+0\s+([0-9.]+)\s+([0-9.]+)", document)
    assert 1 <= len(boxes) <= 20
    for across, down in boxes:
        assert (round(float(across)), round(float(down))) == (595, 842)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        browser.width(driver, 665)  # the width of A4 between the margins, at 96 pixels an inch
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 665
        assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert driver.execute_script(BROKEN) == []
        assert driver.execute_script(LEFT_BEHIND) == []
        assert driver.execute_script(KEPT_WHOLE) == [], "short tables stay whole, long ones break between rows"
        assert driver.execute_script(ON_THE_EDGE) == []
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
