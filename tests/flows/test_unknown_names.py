"""A name that no ledger knows is an error wherever one is taken: no scheduled check stays green by a misprint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.cli.main import main
from causalveil.schemas.errors import LedgerError
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.sites.terms import terms_text
from tests.ledger_help import contract
from tests.sites_help import some_terms

NAMING = [
    ("ledger", "show", "trail"),
    ("ledger", "verify", "trail"),
    ("ledger", "forecast", "trail"),
    ("ledger", "chart", "trail"),
    ("ledger", "export", "trail"),
    ("ledger", "export", "trail", "--format", "registry"),
    ("clean", "--reduced", "trail"),
    ("audit", "trail"),
    ("bundle", "make", "trail", "--site", "north", "--round", "round.json"),
    *(
        ("ledger", command, "trail", *more)
        for command, *more in (
            ("void", "--reason", "no"),
            ("approve", "--key", "owner.key"),
            ("reject", "--reason", "no", "--key", "owner.key"),
            ("release", "--out", "out"),
        )
    ),
]
READING = [("ledger", "verify"), ("ledger", "export"), ("desk",), ("desk", "--json"), ("ledger", "verify", "trial")]


def call(capfd: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    shown = capfd.readouterr()
    return int(str(ended.value.code)), shown.err


@pytest.mark.parametrize("words", NAMING, ids=" ".join)
def test_an_unknown_name_is_an_error(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    open_ledger().grant(contract(), "opening")
    assert call(capfd, "owner", "key", "--key", "owner.key")[0] == call(capfd, "bundle", "key")[0] == 0
    (tmp_path / "round.json").write_text(terms_text(some_terms()))
    code, said = call(capfd, *words)
    assert (code, "trail" in said, said.count("\n")) == (2, True, 1), said
    if words[:2] == ("ledger", "verify"):
        assert "did you mean 'trial'?" in said
        # The advice, followed.
        assert call(capfd, "ledger", "verify", "trial")[0] == 0
    assert not (tmp_path / "export").exists()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_state_folder_without_a_ledger_is_an_error_where_one_is_read(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = call(capfd, *words)
    assert (code, "there is no ledger" in said) == (LedgerError.exit_code, True), said
    assert not (home() / "ledger.db").exists()
    open_ledger().grant(contract(), "opening")
    assert call(capfd, *words)[0] == 0


def test_rows_that_were_reduced_are_cleaned_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    (home() / "reduced" / "gone" / "rows").mkdir(parents=True)
    assert call(capfd, "clean", "--reduced", "gone")[0] == 0
    open_ledger().grant(contract(), "opening")
    assert call(capfd, "clean", "--reduced", "trial")[0] == 0
