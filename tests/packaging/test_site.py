"""The documentation site builds, every link in it holds, and its pages ask no other server for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy/site/mkdocs.yml"
# What a page would load by itself; links that a reader may follow are no matter.
LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]* src=\"(https?:[^\"]+)|<link [^>]*rel=\"stylesheet\"[^>]* href=\"(https?:[^\"]+)"
)


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", out]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    built = build(CONFIG, out)
    assert built.returncode == 0, built.stderr[-4000:]
    return out


def test_every_page_is_there(site: Path) -> None:
    written = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert all(
        (site / page / "index.html").exists() or (site / f"{page}.html").exists()
        for page in written - {"index", "README"}
    )
    commands = (site / "reference/commands/index.html").read_text()
    assert all(f'id="causalveil-{name}"' in commands for name in ("run", "plan", "ledger-grant", "desk", "pool"))
    assert 'id="causalveil.run"' in (site / "reference/python/index.html").read_text()
    assert "effect_share" in (site / "reference/study/index.html").read_text()


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    assert [found for page in pages for found in LOADED.findall(page.read_text())] == []


def test_pictures_and_tables_can_be_read(site: Path) -> None:
    """A picture says what it shows and leads to itself at its own size; the sheet for tables is there."""
    shown = [img for page in site.rglob("*.html") for img in re.findall(r'[^>]*>\s*<img [^>]*\.svg"', page.read_text())]
    assert shown
    for img in shown:
        source, alternative = re.findall(r'src="([^"]*)"', img), re.findall(r'alt="([^"]*)"', img)
        assert f'<a href="{source[0]}">' in img
        assert len(alternative[0]) > 20, source
    assert "site.css" in (site / "index.html").read_text()
    assert (site / "site.css").read_text() == CONFIG.with_name("site.css").read_text()


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/index.md").write_text("# A\n\n[there](#a), [nowhere](nowhere.md)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {CONFIG}\ndocs_dir: texts\nhooks: []\nplugins: []\n")
    assert "nowhere.md" in build(config, tmp_path / "out").stderr
    (tmp_path / "texts/index.md").write_text("# A\n\n[there](#a), [nowhere](#b)\n")
    assert build(config, tmp_path / "out").returncode != 0
    (tmp_path / "texts/index.md").write_text("# A\n\n[there](#a)\n")
    assert build(config, tmp_path / "out").returncode == 0
