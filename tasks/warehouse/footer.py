"""Lines below a table: totals, averages, notes. They are no rows, and ``skip_end`` of source.yaml leaves them out."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from causalveil.schemas.warehouse import CsvFiles

if TYPE_CHECKING:
    import pyarrow as pa

# So many bytes at the end of a file are looked at; so many lines may be a footer.
TAIL_BYTES = 1 << 16
MOST_LINES = 10
# Words that lead a line of totals, in the languages of the spellings that drafts know.
TOTAL = re.compile(
    r"(grand[ -]?|sub[ -]?)?(total(s|e|en)?|sum(s|me|a|ma)?|(ins)?gesamt|somme|suma|totaal|average|avg|mean|moyenne|"
    r"mittel(wert)?|durchschnitt|count|anzahl|gesamtsumme)"
    r"( (g[eé]n[eé]ral|gesamt|rows|of .{1,60}))?( \(.{1,60}\))?[ :=]*",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+(]?[^\w\s]?[\d.,' ]*\d[\d.,' ]*[^\w\s]?\)?")


def csv_input(path: Path, files: CsvFiles) -> pa.NativeFile | Path:
    """Return what Arrow reads a file from: the file, or all of it above the lines that `skip_end` leaves out."""
    import pyarrow as pa

    if not files.skip_end:
        return path
    tail, encoding = _tail(path, files.encoding)
    lines = tail.rstrip("\r\n ").split("\n")
    below = tail[len("\n".join(lines[: -files.skip_end])) :] if len(lines) > files.skip_end else tail
    end = path.stat().st_size - len(below.encode(encoding, "ignore"))
    with pa.memory_map(str(path)) as file:
        return pa.BufferReader(file.read_buffer(end))


def footer_lines(path: Path, files: CsvFiles) -> int:
    """Count the lines at the end of a file that are no rows.

    A total is led by a word for one that no other line has, or by nothing where all others have something, with numbers
    behind it; a note is one text in a line of several columns.
    """
    tail, _ = _tail(path, files.encoding)
    lines = tail.rstrip("\r\n ").split("\n")
    # The header, and a first line that may be cut, are no lines to compare with.
    lines = [line.rstrip("\r") for line in lines[1 + files.skip_lines :]][-400:]
    rows: list[list[str]] = []
    with suppress(csv.Error):
        quote = files.quote or "\x00"
        for line in lines:
            found = next(csv.reader([line], delimiter=files.delimiter, quotechar=quote), [])
            rows.append([cell.strip() for cell in found])
    if len(rows) != len(lines) or len(rows) < 4:
        return 0
    count = 0
    while count < min(MOST_LINES, len(rows) - 3) and _no_row(rows[-1 - count], rows[: -1 - count]):
        count += 1
    return count


def _no_row(row: list[str], others: list[list[str]]) -> bool:
    width = median(len(one) for one in others)
    if width < 2:
        return False
    filled = [cell for cell in row if cell]
    if not filled:
        return True
    if len(filled) == 1 and median(sum(map(bool, one)) for one in others) > 2:
        place = row.index(filled[0])
        ids = [one[place] for one in others[-50:] if len(one) > place and one[place]]
        alike = {bool(_NUMBER.fullmatch(one)) for one in ids}
        # An id alone may be a person of whom nothing is known; a sentence among words of one piece is none.
        sentence = " " in filled[0] and not any(" " in one for one in ids)
        return sentence or alike != {bool(_NUMBER.fullmatch(filled[0]))}
    words = [cell for cell in filled if not _NUMBER.fullmatch(cell)]
    known = {cell for one in others for cell in one}
    if words and TOTAL.fullmatch(words[0]) and words[0] not in known:
        return True
    unnamed = not row[0] and all(one and one[0] for one in others) and not words
    return unnamed and 2 * len(filled) <= width


def _tail(path: Path, encoding: str) -> tuple[str, str]:
    """The end of a file as text, and the encoding that has no mark."""
    size = path.stat().st_size
    start = max(0, size - TAIL_BYTES)
    with path.open("rb") as stream:
        mark = stream.read(2)
        stream.seek(start)
        found = stream.read()
    if encoding.lower().replace("_", "-") == "utf-16":
        encoding = "utf-16-be" if mark == b"\xfe\xff" else "utf-16-le"
    bare = {"utf-8-sig": "utf-8"}.get(encoding.lower(), encoding)
    return found.decode(bare, "ignore"), bare


def without_footer(files: CsvFiles, paths: list[Path]) -> tuple[CsvFiles, set[int]]:
    """Return the dialect with `skip_end`, and how many lines the files have below their rows."""
    counts = {footer_lines(path, files) for path in paths}
    return files.model_copy(update={"skip_end": max(counts, default=0)}), counts


def sums_of(frame: Any) -> bool:
    """Check whether the last row of a frame of text is the sum of all rows above it.

    Only columns of numbers are compared.
    """
    import polars as pl

    if frame.height < 10:
        return False
    told = 0
    for series in frame:
        numbers = series.alias("values").cast(pl.Float64, strict=False)
        last, above = numbers[-1], numbers[:-1]
        if last is None or above.null_count() == len(above):
            continue
        total, largest = float(above.sum() or 0.0), float(above.max() or 0.0)
        if abs(last - total) > max(0.51, 1e-6 * abs(total)) or last <= largest:
            return False
        told += 1
    return told > 0
