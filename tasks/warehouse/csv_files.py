"""Find the dialect of a CSV file, and the lines below its table.

A dialect is encoding, delimiter, quotes and lines above the header. DuckDB's sniffer finds it, charset-normalizer the
encoding where the file is not UTF-8.

Lines below a table are totals, averages and notes. They are no rows, and ``skip_end`` of source.yaml leaves them out.
"""

from __future__ import annotations

import codecs
import csv
import re
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pyarrow as pa

from causalveil.schemas.errors import DataError
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.warehouse import CsvFiles
from causalveil.tasks.machine.files import whole_file

NO_BYTES = "is empty; export the table again"
SAMPLE_BYTES = 1 << 20
MOST_COLUMNS = 2000
# First bytes of other files than CSV, whatever their names, and what to do with them.
_PACKED = "is compressed; unpack it first"
_ARROW = "is an Arrow or Feather file; write it as Parquet"
_PAGE = "is a web page or XML, whatever its name says; open it and save the table as CSV"
_SERIALISED = "is a serialised Python object, which may run code when it is read; write the table as Parquet"
_OTHER = {
    b"PK\x03\x04": "is a workbook or an archive; name a workbook .xlsx, unpack an archive",
    b"\xd0\xcf\x11\xe0": "is an old workbook; name it .xls",
    b"\x1f\x8b": _PACKED,
    b"BZh": _PACKED,
    b"\x28\xb5\x2f\xfd": _PACKED,
    b"\xfd7zXZ": _PACKED,
    b"7z\xbc\xaf": _PACKED,
    b"\x04\x22\x4d\x18": _PACKED,
    b"PAR1": "is a Parquet file; name it .parquet",
    b"ARROW1": _ARROW,
    b"FEA1": _ARROW,
    b"\xff\xff\xff\xff": _ARROW,
    b"ORC": "is an ORC file; write it as Parquet",
    b"Obj\x01": "is an Avro file; write it as Parquet",
    b"\x89HDF": "is an HDF5 file; write its table as Parquet",
    b"SQLite format": "is an SQLite database; export the table as CSV",
    b"%PDF": "is a PDF; export the table as CSV",
    b"<stata_dta>": "is a Stata file; name it .dta",
    b"$FL": "is an SPSS file; name it .sav",
    b"\0" * 12 + b"\xc2\xea\x81\x60": "is a SAS data set; name it .sas7bdat",
    b"HEADER RECORD": "is a SAS transport file; name it .xpt",
    b"RDX": "is an R workspace; export the table as CSV: write.csv in R",
    b"\x80\x03": _SERIALISED,
    b"\x80\x04": _SERIALISED,
    b"\x80\x05": _SERIALISED,
    b"<!DOCTYPE": _PAGE,
    b"<html": _PAGE,
    b"<?xml": _PAGE,
}
# The same by the ends of names, where first bytes do not tell: R compresses.
_NAMED = {
    ".rds": "is an R object; export the table as CSV: write.csv(readRDS(...)) in R",
    ".rda": _OTHER[b"RDX"],
    ".rdata": _OTHER[b"RDX"],
}
# An object that begins with a name, or a list of objects or lists.
_JSON = re.compile(rb'\s*(\{\s*"|\[\s*[\[{])')
# Encodings of spreadsheets and old databases; rarer code pages fit the same bytes and are seldom meant.
_COMMON = ["cp1252", "cp1250", "cp1251", "cp1253", "shift_jis", "gb18030", "big5", "euc_kr"]
# In another encoding few lines with letters beyond ASCII happen to be UTF-8.
OF_UTF_8 = 0.1
_NUMBER_NAME = re.compile(r"[-+]?[\d.,]*\d[\d.,]*")
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def mixed(file: Path) -> str:
    """Say that bytes of a file are of several encodings."""
    return f"{file.name}: its encoding changes on the way; export it as UTF-8, or give {option('encoding')}"


def dialect_of(path: Path, *, encoding: str | None = None, delimiter: str | None = None) -> CsvFiles:
    """Return the dialect of one file.

    Args:
        path: the file.
        encoding: its encoding, if known.
        delimiter: its delimiter, if known.

    Raises:
        DataError: it is empty, no text, has no header line or more than 2,000 columns; says what to do.
    """
    with path.open("rb") as stream:
        start = stream.read(SAMPLE_BYTES)
    if not start.strip():
        raise DataError(f"{path.name}: {NO_BYTES}")
    problem = _no_csv(path, start)
    if problem is not None:
        raise DataError(f"{path.name}: {problem}")
    encoding = encoding or _encoding(path, start)
    text = _text(path, start, encoding)
    header = text.lstrip("\r\n").split("\n", 1)[0]
    if max(map(header.count, delimiter or ",;\t|")) >= MOST_COLUMNS or len(header) >= SAMPLE_BYTES // 2:
        raise DataError(f"{path.name}: has more than {MOST_COLUMNS:,} columns; keep those that the study needs")
    return CsvFiles(kind="csv", path=str(path), encoding=encoding, **_sniffed(path, text, delimiter))


def dialect_by_header(path: Path, *, encoding: str | None = None, delimiter: str | None = None) -> CsvFiles:
    """Return the dialect of one file by options and by its lines down to the header.

    No row has a part in it. The header is the first line of two names or more, and its delimiter gives most names. The
    file is UTF-8 unless its mark or ``encoding`` says otherwise.

    Raises:
        DataError: it is not of that encoding, or no line has two names; says what to do.
    """
    with path.open("rb") as stream:
        start = stream.read(SAMPLE_BYTES)
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")
    for place, line in enumerate(_text(path, start, encoding or marked).removeprefix("\ufeff").splitlines()[:30]):
        counts = {mark: _filled(line, mark) for mark in delimiter or ",;\t|"}
        best = max(counts, key=lambda mark: counts[mark])
        if counts[best] > 1:
            return CsvFiles(kind="csv", path=str(path), encoding=encoding or marked, delimiter=best, skip_lines=place)
    raise DataError(f"{path.name}: has no header line of two names or more; add one, or give {option('delimiter')}")


def _filled(line: str, delimiter: str) -> int:
    """Count the fields of a line that hold something."""
    return sum(bool(name.strip(' "')) for name in line.split(delimiter))


def _no_csv(path: Path, start: bytes) -> str | None:
    """Say of which other kind a file is, and what to do with it; None: it may be CSV."""
    named = _NAMED.get(path.suffix.lower())
    if named is not None and not start[:200].isascii():
        return named
    if _JSON.match(start.removeprefix(codecs.BOM_UTF8)):
        return "holds JSON; write it as Parquet or CSV, one column for each name"
    if re.search(rb"(?im)^@relation\s", start):
        return "is an ARFF file of Weka; write its table as CSV"
    return next((kind for mark, kind in _OTHER.items() if start.startswith(mark)), None)


def _encoding(path: Path, start: bytes) -> str:
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    if b"\x00" in start:
        way = f"export it as CSV in UTF-8, or, of UTF-16, give {option(encoding=Blank('utf-16-le'))}"
        raise DataError(f"{path.name}: holds NUL bytes, so it is no text; {way}")
    decoder, accents = codecs.getincrementaldecoder("utf-8")(), False
    with path.open("rb") as stream:
        try:
            while block := stream.read(SAMPLE_BYTES):
                decoder.decode(block)
                accents = accents or not block.isascii()
            decoder.decode(b"", final=True)
            return "utf-8"
        except UnicodeDecodeError:
            suspect = block
    from charset_normalizer import from_bytes

    # The lines beyond ASCII of the block where UTF-8 fails: the start of a long file may be plain ASCII.
    lines = [line for line in suspect.splitlines() if not line.isascii()]
    if accents or sum(_decodes(line, "utf-8") for line in lines) > len(lines) * OF_UTF_8:
        raise DataError(mixed(path))
    telling = b"\n".join(lines)[:65_536]
    best = from_bytes(telling, cp_isolation=_COMMON).best()
    if best is None:
        raise DataError(f"{path.name}: its encoding cannot be told; export it as UTF-8, or give {option('encoding')}")
    letters = [byte for byte in telling if byte > 127 or chr(byte).isalpha()]
    rare = sum(byte > 127 for byte in letters) < len(letters) / 3
    if rare and (best.encoding != "cp1250" or "cp1252" in best.could_be_from_charset):
        # A few accents and signs among ASCII letters: Western Europe, unless only Central Europe fits.
        return "cp1252" if _decodes(telling, "cp1252") else best.encoding
    return best.encoding


def _decodes(text: bytes, encoding: str) -> bool:
    try:
        text.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _text(path: Path, start: bytes, encoding: str) -> str:
    """Return the first whole lines as text."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        text = decoder.decode(start)
    except LookupError:
        raise DataError(f"{path.name}: there is no encoding of that name; try utf-8, cp1252 or utf-16") from None
    except UnicodeDecodeError:
        raise DataError(
            f"{path.name}: is not encoded as {encoding}; export it as UTF-8, or give {option('encoding')}"
        ) from None
    # Excel for Mac ends lines by a carriage return alone.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    whole, line_end, _ = text.rpartition("\n")
    return whole + line_end if line_end and len(start) == SAMPLE_BYTES else text


def title_rows(filled: list[int]) -> int:
    """Count the lines of titles above a header, which hold few fields beside the others.

    ``filled``: how many fields of each line hold something; spreadsheets fill titles up with empty fields.
    """
    most = max(filled, default=0)
    if not filled or 2 * filled[0] >= most:
        return 0
    return next(index for index, count in enumerate(filled) if 2 * count > most)


def _likely(text: str) -> str | None:
    """Return the delimiter that more than half of the lines have equally often; else None."""
    lines = [line for line in text.splitlines()[:200] if line.strip()]
    for delimiter in ",;\t|":
        alike = Counter(line.count(delimiter) for line in lines if delimiter in line).most_common(1)
        if alike and 2 * alike[0][1] > len(lines):
            return delimiter
    return None


def _sniffed(path: Path, text: str, delimiter: str | None) -> dict[str, str | int]:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="causalveil-sniff-") as folder:
        sample = Path(folder) / "sample.csv"
        with whole_file(sample) as stream:
            stream.write(text.removeprefix("\ufeff").encode())
        stated = "" if delimiter is None else ", delim = $delimiter"
        values = {"file": str(sample)} | ({} if delimiter is None else {"delimiter": delimiter})
        row = None
        with suppress(duckdb.Error), duckdb.connect(":memory:") as connection:
            row = connection.execute(
                f"SELECT Delimiter, Quote, Escape, SkipRows, HasHeader, len(Columns) FROM sniff_csv($file{stated})",
                values,
            ).fetchone()
    if row is None:
        raise DataError(
            f"{path.name}: no delimiter fits its lines; export it again with commas, or give {option('delimiter')}"
        )
    sniffed, quote, escape, skipped, has_header, columns = row
    if columns == 1 and delimiter is None and (likely := _likely(text)) is not None:
        # Titles and notes around a table mislead the sniffer.
        sniffed, skipped = likely, 0
    if not has_header or (columns == 1 and delimiter is None):
        # Lines of different lengths mislead it too; names in the first line tell the delimiter.
        first = text.lstrip("\r\n").splitlines()[0]
        likely = delimiter or max(",;\t|", key=first.count)
        names = [name.strip(" \"'") for name in first.split(likely)]
        if len(set(names)) == len(names) > 1 and not any(_NUMBER_NAME.fullmatch(name) for name in names):
            sniffed, skipped, has_header = likely, 0, True
    titles = title_rows([_filled(line, sniffed) for line in text.splitlines()[skipped : skipped + 30]])
    if titles:
        skipped, has_header = skipped + titles, True
    if not has_header:
        raise DataError(f"{path.name}: has no header line; add a first line with the names of the columns")
    return {
        "delimiter": sniffed,
        "quote": quote if len(quote) == 1 else '"',
        "escape": escape if escape == "\\" else "",
        "skip_lines": skipped,
    }


# Bytes at the end of a file that are searched for a footer; most lines of a footer.
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
    """Return the input for Arrow: the file, without the lines that `skip_end` leaves out."""
    if not files.skip_end:
        return path
    tail, encoding = _tail(path, files.encoding)
    lines = tail.rstrip("\r\n ").split(_end(tail))
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
    lines = tail.rstrip("\r\n ").split(_end(tail))
    # The header, and a first line that may be cut, are no lines to compare with.
    lines = [line.rstrip("\r") for line in lines[1 + files.skip_lines :]][-400:]
    rows: list[list[str]] = []
    with suppress(csv.Error):
        quote = files.quote or "\x00"
        for line in lines:
            fields = next(csv.reader([line], delimiter=files.delimiter, quotechar=quote), [])
            rows.append([cell.strip() for cell in fields])
    return footer_rows(rows) if len(rows) == len(lines) else 0


def footer_rows(rows: list[list[str]]) -> int:
    """Count the last of some lines, as lists of fields, that are no rows."""
    if len(rows) < 4:
        return 0
    count = 0
    while count < min(MOST_LINES, len(rows) - 3) and _no_row(rows[-1 - count], rows[: -1 - count]):
        count += 1
    return count


def _no_row(row: list[str], above: list[list[str]]) -> bool:
    width = median(map(len, above))
    if width < 2:
        return False
    filled = [cell for cell in row if cell]
    if not filled:
        return True
    if len(filled) == 1 and median(sum(map(bool, cells)) for cells in above) > 2:
        place = row.index(filled[0])
        ids = [cells[place] for cells in above[-50:] if len(cells) > place and cells[place]]
        numeric = {bool(_NUMBER.fullmatch(cell)) for cell in ids}
        # An id alone may be a person without any value; a sentence among ids without spaces is a note.
        sentence = " " in filled[0] and not any(" " in cell for cell in ids)
        return sentence or numeric != {bool(_NUMBER.fullmatch(filled[0]))}
    texts = [cell for cell in filled if not _NUMBER.fullmatch(cell)]
    if texts and TOTAL.fullmatch(texts[0]) and not any(texts[0] in cells for cells in above):
        return True
    unnamed = not row[0] and all(cells and cells[0] for cells in above) and not texts
    return unnamed and 2 * len(filled) <= width


def _end(text: str) -> str:
    """Return the line end of a text."""
    return "\n" if "\n" in text else "\r"


def _tail(path: Path, encoding: str) -> tuple[str, str]:
    """Return the end of a file as text, and its encoding without a mark."""
    size = path.stat().st_size
    start = max(0, size - TAIL_BYTES)
    with path.open("rb") as stream:
        mark = stream.read(2)
        stream.seek(start)
        tail = stream.read()
    if encoding.lower().replace("_", "-") == "utf-16":
        encoding = "utf-16-be" if mark == b"\xfe\xff" else "utf-16-le"
    bare = {"utf-8-sig": "utf-8"}.get(encoding.lower(), encoding)
    return tail.decode(bare, "ignore"), bare


def without_footer(files: CsvFiles, paths: list[Path]) -> tuple[CsvFiles, set[int]]:
    """Return the dialect with `skip_end`, and how many lines the files have below their rows."""
    counts = {footer_lines(path, files) for path in paths}
    return files.model_copy(update={"skip_end": max(counts, default=0)}), counts


def sums_of(frame: Any) -> bool:
    """Check whether the last row of a frame of text is the sum of all rows above it.

    Only columns of numbers are compared.
    """
    if frame.height < 10:
        return False
    compared = 0
    for series in frame:
        numbers = series.alias("values").cast(pl.Float64, strict=False)
        last, above = numbers[-1], numbers[:-1]
        if last is None or above.null_count() == len(above):
            continue
        total, largest = float(above.sum() or 0.0), float(above.max() or 0.0)
        if abs(last - total) > max(0.51, 1e-6 * abs(total)) or last <= largest:
            return False
        compared += 1
    return compared > 0
