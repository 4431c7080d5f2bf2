"""Releases and their pages: made once, shown by several tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from causalveil.schemas.hints import at_command_line
from causalveil.tasks.report.page import report_html
from tests.report_help import Documents, load, releases


@pytest.fixture
def as_command() -> Iterator[None]:
    """Have messages name options as they do for a command, whose functions a test calls."""
    with at_command_line():
        yield


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Documents:
    """Releases of every shape, as JSON."""
    return releases(tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="session")
def pages(documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of each of them."""
    folder = tmp_path_factory.mktemp("pages")
    result = {name: folder / f"{name}.html" for name in documents}
    for name, path in result.items():
        path.write_text(report_html(load(documents[name])), encoding="utf-8")
    return result
