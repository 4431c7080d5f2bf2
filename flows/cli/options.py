"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="one JSON document on standard output, all else on standard error")]


class EngineChoice(StrEnum):
    """Name what runs the stages."""

    prefect = "prefect"
    direct = "direct"


class Sweep(StrEnum):
    """Name what `plan` may vary."""

    penalty = "penalty"
