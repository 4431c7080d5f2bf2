"""Pages that are written from the code are current: settings of a machine, keys of files, commands."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from causalveil.schemas.plan import Execution, Runner, SiteSettings
from causalveil.tasks.machine.site import ACTOR_VARIABLE, VARIABLES, site_settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorials" / "operator.md").read_text()


def test_the_page_shows_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path))
    (tmp_path / "site.toml").write_text(example)
    settings = site_settings()
    assert settings.execution == Execution(engine="prefect", runner=Runner.threads, workers=2)
    assert (settings.scratch, settings.concurrency) == (Path("/srv/causalveil/scratch"), 1)
    # The cluster's lines stand behind a hash, since threads have no address.
    cluster = example.replace("# address", "address").replace("# tls", "tls").replace('"threads"', '"dask"')
    (tmp_path / "site.toml").write_text(cluster)
    assert site_settings().execution.address == "tls://scheduler:8786"
    shown = tomllib.loads(cluster)
    assert set(shown) == set(SiteSettings.model_fields)
    assert set(shown["execution"]) == set(Execution.model_fields)
    for variable in (*VARIABLES, ACTOR_VARIABLE):
        assert variable in example or variable.removeprefix("CAUSALVEIL_TLS") in example, variable


def test_the_pages_of_the_reference_are_current() -> None:
    written = runpy.run_path(str(ROOT / "deploy/site/reference.py"))
    stale = [name for name, text in written["pages"]().items() if (written["FOLDER"] / name).read_text() != text]
    assert stale == [], f"write them anew: {written['COMMAND']}"
