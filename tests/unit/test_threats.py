"""Every field of study.yaml stands in the threat table of docs/privacy.md, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from causalveil.schemas.asked.study_file import STUDY_FILES
from tests.studies import models_in

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of everything that a model lets somebody write."""
    for name, field in model.model_fields.items():
        inner = models_in(field.annotation)
        if not inner:
            yield f"{prefix}{name}"
        for one in inner:
            yield from fields(one, f"{prefix}{name}.")


def test_every_field_has_its_worst_value() -> None:
    section = PAGE.read_text().partition("## What a study file can do\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    known = {name for model in STUDY_FILES.values() for name in fields(model)}
    assert len(named) == len(set(named)), "each field once"
    assert set(named) - {"covariates"} == known
    assert not known & {"data.unit", "data.blocks", "execution"}
    assert not any(word in name for name in known for word in ("address", "host", "url", "runner", "module"))
