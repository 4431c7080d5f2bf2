"""The table of a protocol's release as files that other tools read.

They are answers.csv and answers.parquet.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalveil.schemas.protocols.study import EffectMeasure
from causalveil.schemas.release import ProtocolRelease
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.machine.frames import csv_text

if TYPE_CHECKING:
    import polars as pl

TEXTS = ("outcome", "role", "group", "arm", "reference", "state", "adjustment")
INTERVALS = ("interval", "simultaneous", "calibrated")
NUMBERS = ("noise_error", "sampling_error", "bias", "spread")


def rows_of(release: ProtocolRelease) -> list[dict[str, Any]]:
    """Return a flat row per answer.

    An interval is two columns, ``interval_lower`` and ``interval_upper``.
    """
    rows, asked = [], any(answer.measures for answer in release.answers)
    for answer in release.model_dump(mode="json")["answers"]:
        row: dict[str, Any] = {key: answer[key] for key in TEXTS} | {"estimate": answer["estimate"]}
        for name in INTERVALS:
            for end in ("lower", "upper"):
                row[f"{name}_{end}"] = None if answer[name] is None else answer[name][end]
        row |= {key: answer[key] for key in NUMBERS}
        for one in (EffectMeasure.ratio, EffectMeasure.odds_ratio) if asked else ():
            found: dict[str, Any] = next((given for given in answer["measures"] if given["measure"] == one), {})
            row |= {str(one): found.get("estimate")} | {f"{one}_{end}": found.get(end) for end in ("lower", "upper")}
        rows.append(row)
    return rows


def frame_of(release: ProtocolRelease) -> pl.DataFrame:
    """Return a release's answers as a frame: texts, then numbers in outcome units."""
    import polars as pl

    rows = rows_of(release)
    return pl.DataFrame(rows, schema={key: pl.String if key in TEXTS else pl.Float64 for key in rows[0]})


def write_tables(folder: Path, release: ProtocolRelease) -> None:
    """Write answers.csv and answers.parquet into the release's folder.

    They hold nothing that the release does not.

    Raises:
        StudyError: they cannot be written.
    """
    frame, parquet = frame_of(release), BytesIO()
    frame.write_parquet(parquet)
    write_whole(folder / "answers.csv", csv_text(frame))
    write_whole(folder / "answers.parquet", parquet.getvalue())
