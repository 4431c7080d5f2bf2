"""Every way a run can end badly, each with the exit code that scripts may rely on.

A message is one line, says what was wrong and what to do, and quotes only public facts (a key of the study
file, a column name, an amount of budget): never a data value, never a row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

_SYSTEM_ERROR = re.compile(r"\(os error (\d{1,3})\)")
_LONG_WORD = re.compile(r"\S{301,}")


class CausalveilError(Exception):
    """Anything causalveil refuses or cannot do. Exit code 1 unless a subclass says otherwise.

    Examples:
        >>> import causalveil
        >>> try:
        ...     causalveil.run("none.yaml")
        ... except causalveil.StudyError as error:
        ...     print(error.exit_code, error)
        2 none.yaml: no such file
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "") -> None:
        """``message`` may quote a path or a key as it was written in a file or command.

        What a terminal would act on is escaped, and of a word that is longer than any path or key should be its two
        ends are shown.
        """
        super().__init__(_LONG_WORD.sub(lambda word: f"{word[0][:150]}…{word[0][-100:]}", printable(shown(message))))


# Folders of this process that are copies of URLs: they are gone when somebody follows an error.
_URLS: dict[str, str] = {}


def shown_as(folder: Path, url: str) -> None:
    """Name a URL in place of its copy, a folder, in errors and in texts by ``shown``."""
    _URLS[str(folder.resolve())] = _URLS[str(folder)] = url


def shown(text: str) -> str:
    """Return a text with the URLs of copies in place of their folders."""
    for folder, url in _URLS.items():
        text = text.replace(folder, url)
    return text


def kind_of(error: BaseException) -> str:
    """Return what the system says of an error, or its type.

    As "No space left on device". Its own text is left out: it may quote rows.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    # Polars has no type for errors of the system, and names their number.
    number = _SYSTEM_ERROR.search(str(error))
    return os.strerror(int(number[1])) if number else type(error).__name__


def printable(text: str) -> str:
    """Return one line that a terminal shows as it is.

    Line ends, control characters and undecodable bytes are escaped.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
        for letter in text
    )


@contextmanager
def in_own_words(told: Callable[[Any], CausalveilError], *kinds: type[BaseException]) -> Iterator[None]:
    """Raise what ``told`` makes of an error in the block, and nothing of that error itself.

    Texts of libraries may quote rows, passwords and addresses, and a workflow engine stores causes and contexts too.

    Args:
        told: makes the error to raise.
        kinds: of errors to replace; without any, all but this program's own.
    """
    replaced = kinds or (Exception,)
    try:
        yield
    except replaced as error:
        problem = told(error) if kinds or not isinstance(error, CausalveilError) else error
        try:
            raise problem
        finally:
            # Python sets the context when it raises, also of an error that a context manager raises at its end.
            problem.__cause__ = problem.__context__ = None


class StudyError(CausalveilError):
    """The study file, the contract or an argument is wrong, or run ids clash."""

    exit_code = 2


class ReleaseContradicted(StudyError):
    """A release contradicts itself."""


class ContractError(StudyError):
    """The data owner's contract is missing, wrong, or forbids what the study asks."""


class TooFewBlocks(StudyError):
    """A series has fewer blocks than pooling needs so far.

    Nothing is wrong, and the next release may be enough.
    """


class SiteError(StudyError):
    """The operator's settings, site.toml or a variable, are wrong."""


class RunConflict(StudyError):
    """A run id is already taken by another study, data layout or key, or was voided."""


class DataError(CausalveilError):
    """The data do not meet the schema that the study declares."""

    exit_code = 3


class BudgetRefused(CausalveilError):
    """The owner's budget does not allow the charge. Nothing was drawn and nothing was charged."""

    exit_code = 4


class LedgerError(CausalveilError):
    """The ledger is unreachable, foreign, read-only, or does not verify."""

    exit_code = 5


class ChargesDiffer(CausalveilError):
    """The declared, drawn and committed charges of a run are not the same.

    Nothing is published, and its reservation stands.
    """


class EngineLost(CausalveilError):
    """Prefect's server stopped answering while a run was under way.

    What was drawn is in the ledger.
    """


class BundleError(CausalveilError):
    """A site's bundle is missing, tampered with, replayed, foreign, expired or stale.

    Nothing was pooled.
    """

    exit_code = 6


class ConvergenceError(CausalveilError):
    """An optimiser did not reach its declared tolerance; the run ends before any draw."""


class GateFailed(CausalveilError):
    """A gate that the protocol declared has failed.

    The release is written and its charge stands.
    """

    exit_code = 8


class ReleaseHeld(CausalveilError):
    """The data's owner has not approved the release of a run yet.

    The run is finished and its charges stand.
    """

    exit_code = 7

    def __init__(self, run_id: str) -> None:
        """Name the run; the message is the same wherever it waits."""
        super().__init__(
            f"run {run_id} is finished and its release is held until the data's owner reviews it: causalveil ledger "
            f"approve {run_id}; once approved, fetch it by: causalveil ledger release {run_id} --out DIR"
        )
        self.run_id = run_id
