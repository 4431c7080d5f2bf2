"""What no code of ours can take away: processor seconds of imports, digests, decoding, scratch and products alone.

    uv run python tests/benchmarks/bench_floor.py --units 1000000 10000000

Each line is a process of its own, in turn with the bare scripts of `bench_study.py`, least of some runs: the libraries
that a run or an admission cannot do without; the same and one digest of every byte; and one decoding of every value in
pieces; and, of a run, one writing of the encoded rows. `gram` is the product of squares and products of 20 covariates
with themselves that a regression releases, by BLAS alone, beside nothing but numpy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench_study import HERE, SCAN, measure, simulated

OF_BOTH = """
import numpy, polars, pyarrow.parquet, sqlalchemy.dialects.sqlite, pydantic.main, yaml, typer, rich.table
"""
ADMIT = OF_BOTH + "import blake3, cryptography.hazmat.primitives.ciphers\n"
RUN = ADMIT + "import scipy.special, mpmath, opendp.domains\n"
FILES = "import sys, pathlib; files = sorted(pathlib.Path(sys.argv[1]).rglob('*.parquet'))\n"
DIGEST = """
buffer = memoryview(bytearray(1 << 20))
for file in files:
    found = blake3.blake3()
    with file.open('rb', buffering=0) as stream:
        while read := stream.readinto(buffer):
            found.update(buffer[:read])
"""
DECODE = """
for file in files:
    with pyarrow.parquet.ParquetFile(file, buffer_size=1 << 16, pre_buffer=False) as stream:
        for batch in stream.iter_batches(95_000):
            polars.DataFrame(batch)
"""
WRITE = """
rows = numpy.ones((95_000, len(batch.schema) - 2))
units = sum(pyarrow.parquet.read_metadata(file).num_rows for file in files)
for number in range(0, units, len(rows)):
    with open(pathlib.Path(sys.argv[2]) / str(number), 'xb', buffering=0) as scratch:
        scratch.write(rows)
"""
GRAM = """
import sys, numpy
rows = numpy.random.default_rng(0).uniform(-1, 1, (8192, 231))
for _ in range(0, int(sys.argv[1]), len(rows)):
    rows.T @ rows
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--repeat", type=int, default=4)
    arguments = parser.parse_args()
    results = [floor(units, arguments.repeat) for units in arguments.units]
    print(json.dumps({"benchmark": "floors", "load": os.getloadavg(), "results": results}, indent=2))


def floor(units: int, repeat: int) -> dict[str, float]:
    """Least processor seconds of each script, and of both bare ones."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CAUSALVEIL_HOME": f"{folder}/home"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        data = str(simulated(Path(folder) / "study", units, 20, "ipw", environment).parent)
        scripts = {
            "scan": SCAN,
            "admission: imports": ADMIT,
            "admission: and digests": ADMIT + FILES + DIGEST,
            "admission: and decoding": ADMIT + FILES + DIGEST + DECODE,
            "run: imports": RUN,
            "run: and digests": RUN + FILES + DIGEST,
            "run: and decoding": RUN + FILES + DIGEST + DECODE,
            "run: and scratch": RUN + FILES + DIGEST + DECODE + WRITE,
        }
        least: dict[str, float] = {}

        def note(name: str, command: list[str]) -> None:
            seconds = measure([sys.executable, *command], environment)["cpu_seconds"]
            least[name] = min(seconds, least.get(name, seconds))

        for _ in range(repeat + 1):
            note("bare script", [str(HERE / "bare_ipw.py"), data])
            note("regression: gram", ["-c", GRAM, str(units)])
            for name, script in scripts.items():
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    note(name, ["-c", script, data, scratch])
        return {"units": units, **{name: round(seconds, 2) for name, seconds in least.items()}}


if __name__ == "__main__":
    main()
