"""What reading a table by its log costs: Delta and Iceberg beside the same rows as plain Parquet, and a whole extract.

    uv run python tests/benchmarks/bench_open_tables.py --units 1000000 10000000

Each reading is a process of its own, in turn with the others: processor seconds (least and median), peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench_study import measure

ROWS_PER_FILE = 1_000_000
COLUMNS = {"person": "integer"} | {f"x{number}": "number" for number in range(19)}
READ = """
import json, sys
from pathlib import Path
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.sequence.warehouse import fill
from causalveil.schemas.warehouse import load_source
from causalveil.tasks.warehouse.extract import EVERYTHING
from causalveil.tasks.warehouse.read_sql import batches, snapshot_of
path = Path(sys.argv[1])
if sys.argv[2] == "extract":
    rows = fill(path, DirectEngine()).manifest.rows
else:
    source, place = load_source(path), path.parent
    rows = sum(one.num_rows for one in batches(source, place, None, EVERYTHING, None, snapshot_of(source, place)))
print(rows)
"""


def declared(folder: Path) -> dict[str, dict[str, str]]:
    """The sources, and the catalog in the environment of every process that reads them."""
    os.environ["PYICEBERG_CATALOG__BENCH__URI"] = f"sqlite:///{folder}/catalog.db"
    os.environ["PYICEBERG_CATALOG__BENCH__WAREHOUSE"] = f"file://{folder}/iceberg"
    return {
        "parquet": {"kind": "parquet", "path": "parquet"},
        "delta": {"kind": "delta", "path": "delta"},
        "iceberg": {"kind": "iceberg", "catalog": "bench", "table": "clinic.people"},
    }


def write(folder: Path, units: int) -> None:
    """The same rows three times."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import write_deltalake
    from pyiceberg.catalog import load_catalog

    declared(folder)
    names = {"uri": os.environ["PYICEBERG_CATALOG__BENCH__URI"], "warehouse": f"file://{folder}/iceberg"}
    catalog = load_catalog("bench", **names)
    catalog.create_namespace("clinic")
    (folder / "parquet").mkdir()
    random, table = np.random.default_rng(0), None
    for start in range(0, units, ROWS_PER_FILE):
        count = min(ROWS_PER_FILE, units - start)
        columns = {"person": np.arange(start, start + count)}
        rows = pa.table(columns | {f"x{number}": random.normal(size=count).round(3) for number in range(19)})
        pq.write_table(rows, folder / "parquet" / f"{start:09}.parquet", row_group_size=100_000)
        write_deltalake(folder / "delta", rows, mode="append")
        table = table or catalog.create_table("clinic.people", schema=rows.schema)
        table.append(rows)


def main() -> None:
    """Print one line a size, a kind of source and a measure."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--units", type=int, nargs="+", default=[1_000_000])
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--what", nargs="+", default=["read", "extract"])
    options.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.write:
        write(asked.write, asked.units[0])
        return
    for units in asked.units:
        with tempfile.TemporaryDirectory(prefix="causalveil-bench-") as name:
            folder = Path(name)
            # In a process of its own: a child's peak is at least what its parent held when it was started.
            again = [sys.executable, __file__, "--write", name, "--units", str(units)]
            subprocess.run(again, check=True)
            sources = declared(folder)
            for what in asked.what:
                found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in sources}
                for run in range(asked.runs):
                    for kind, source in sources.items():
                        path = folder / f"{kind}-{what}-{run}.yaml"
                        document = {"name": "bench", "dataset": "bench", "source": source, "columns": COLUMNS}
                        path.write_text(json.dumps(document | {"to": f"taken-{kind}-{run}"}))
                        one = measure([sys.executable, "-c", READ, str(path), what], dict(os.environ))
                        found[kind].append((one["cpu_seconds"], one["megabytes"]))
                for kind, pairs in found.items():
                    seconds = [one for one, _ in pairs]
                    ratio = min(seconds) / min(one for one, _ in found["parquet"])
                    print(
                        f"{what} {kind:8} {units:>10,}  {min(seconds):6.2f} s (least) "
                        f"{statistics.median(seconds):6.2f} s (median) {max(one for _, one in pairs):6.0f} MB "
                        f"{ratio:5.2f} of Parquet"
                    )


if __name__ == "__main__":
    main()
