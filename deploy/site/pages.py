"""Pages of the site that are not written by hand, or lie elsewhere in the tree; called by MkDocs.

The Python face comes from docstrings. README and the other texts of the tree are taken in with their links bent to
where the pages are. Pages on commands and files are written into docs/reference/ by ``deploy/site/reference.py``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# Texts of the tree, and the pages that they become.
TEXTS = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "deploy/README.md": "how-to/deploy.md",
    "data/README.md": "reference/data.md",
    "GLOSSARY.md": "reference/glossary.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "how-to/contribute.md",
    **{
        path.relative_to(ROOT).as_posix(): f"reference/data-{path.parent.name}.md"
        for path in sorted((ROOT / "data").glob("*/PROVENANCE.md"))
    },
}
SOURCES = {page: source for source, page in TEXTS.items()}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
# Sections of the navigation in order, by folder; pages directly in docs/ explain.
SECTIONS = {"tutorials": "Tutorials", "how-to": "How to", "reference": "Reference", "figures": "Evidence"}
PROOFS = "Proofs"
# Errors whose names do not say so.
ERRORS = {"BudgetRefused", "ReleaseHeld", "RunConflict"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie elsewhere or are generated."""
    generated = {
        "reference/python.md": _python(),
        **{page: (ROOT / source).read_text() for source, page in TEXTS.items()},
        "site.css": Path(__file__).with_name("site.css").read_text(),
    }
    for page, content in generated.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_config(config: Any) -> Any:
    """Write the navigation: every page stands in its section, by its title."""
    written = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    written.remove("README.md")
    pages = [*written, *TEXTS.values(), "reference/python.md"]
    in_folder = {folder: sorted(page for page in pages if page.startswith(f"{folder}/")) for folder in SECTIONS}
    explained = [page for page in pages if "/" not in page and page != "index.md"]
    proofs = sorted(page for page in pages if page.startswith("proofs/"))
    config.nav = [
        {"Home": "index.md"},
        *({SECTIONS[name]: in_folder[name]} for name in ("tutorials", "how-to", "reference") if in_folder[name]),
        {"Explanation": sorted(explained)},
        {PROOFS: proofs},
        {SECTIONS["figures"]: in_folder["figures"]},
    ]
    return config


def _python() -> str:
    from causalveil import __all__ as names

    # Functions first, then what they take and return, then errors.
    order = sorted(names, key=lambda name: (name[0].isupper(), "Error" in name or name in ERRORS, name))
    body = "\n\n".join(f"::: causalveil.{name}" for name in order)
    return f"# Python\n\n`import causalveil as cv`: everything that it offers.\n\n{body}\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Bend links to files of the tree: to the pages that they became, or to nothing where they are none."""
    here = PurePosixPath(page.file.src_uri)
    folder = PurePosixPath(SOURCES.get(str(here), f"docs/{here}")).parent

    def target(link: str) -> str | None:
        path, _, anchor = link.partition("#")
        if "://" in link or not path:
            return link
        place = os.path.normpath(folder / path)
        found = TEXTS.get(place) or (place.removeprefix("docs/") if place.startswith("docs/") else None)
        return None if found is None else os.path.relpath(found, here.parent) + (f"#{anchor}" if anchor else "")

    def link(match: re.Match[str]) -> str:
        found = target(match[2])
        return match[1] if found is None else f"[{match[1]}]({found})"

    def picture(match: re.Match[str]) -> str:
        found = target(match[2])
        # On a telephone a figure of several panels is small: it leads to itself at its own size.
        return "" if found is None else f"[![{match[1]}]({found})]({found})"

    return PICTURE.sub(picture, LINK.sub(link, markdown))
