"""Benchmarks measure runs that draw: an answer that is returned ends them."""

import os
import re
from pathlib import Path

import pytest

from replication.benchmarks import speed

BENCHMARKS = Path(speed.__file__).parent


def test_a_run_that_returns_what_was_drawn_before_ends_the_benchmark(tmp_path):
    environment = {**os.environ, "CAUSALVEIL_HOME": str(tmp_path / "home")}
    speed.simulated(tmp_path / "rows", 400, 2, environment)
    study, direct = tmp_path / "rows" / "difference.yaml", ("--engine", "direct")
    assert speed.measured_run(study, tmp_path / "first", environment, *direct).seconds > 0
    assert speed.measured_run(study, tmp_path / "anew", environment, *direct, "--again").seconds > 0
    with pytest.raises(SystemExit, match="no run was measured"):
        speed.measured_run(study, tmp_path / "second", environment, *direct)


def test_no_benchmark_runs_studies_but_by_the_function_that_looks_whether_they_drew():
    found = {
        file.name: len(re.findall(r'run_study|\*CLI, "run"', file.read_text())) for file in BENCHMARKS.glob("*.py")
    }
    assert {name for name, count in found.items() if count} == {"speed.py"}
    assert found["speed.py"] == 1
