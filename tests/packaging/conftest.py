"""The package as a user has it: a wheel and a sdist, built once, each in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def sh(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, outside any project and any environment of this process."""
    clean = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean | (env or {}), capture_output=True, text=True
    )


@dataclass(frozen=True)
class Installed:
    """An environment with the package, and a folder beside it whose own packages are called as our floors are."""

    python: Path
    beside: Path
    home: Path

    def run(self, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """``python ARGUMENTS``, started from that folder."""
        return sh(self.python, *arguments, cwd=self.beside, env={"CAUSALVEIL_HOME": str(self.home), **more})

    @cached_property
    def package(self) -> Path:
        """Where the package lies."""
        found = self.run("-c", "import causalveil; print(causalveil.__path__[0])")
        return Path(found.stdout.strip())


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist by name."""
    folder = tmp_path_factory.mktemp("dist")
    done = sh("uv", "build", "--quiet", "--out-dir", folder, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def install(what: Path, folder: Path, *, alone: bool = True) -> Installed:
    """An empty environment with one distribution of ours, its dependencies as the lock pins them.

    Where it need not stand alone, or the installer's cache does not have them, they are borrowed from this environment,
    which the lock made and in which they are compiled.
    """
    beside = folder / "beside"
    for floor in ("flows", "tasks", "schemas"):
        (beside / floor).mkdir(parents=True)
        (beside / floor / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    python = folder / "venv" / "bin" / "python"
    made = sh("uv", "venv", "--quiet", "--python", sys.executable, folder / "venv", cwd=folder)
    assert made.returncode == 0, made.stderr
    into = ("uv", "pip", "install", "--quiet", "--python", python)
    if not alone or sh(*into, "--offline", "--constraint", ROOT / "requirements.lock", what, cwd=folder).returncode:
        done = sh(*into, "--no-deps", what, cwd=folder)
        assert done.returncode == 0, done.stderr
        site = sh(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=folder).stdout.strip()
        (Path(site) / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"])
    return Installed(python, beside, folder / "home")


@pytest.fixture(scope="session")
def wheel(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, installed."""
    return install(built["wheel"], tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def release(wheel: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of a study that ran from the wheel, on the direct engine."""
    folder = tmp_path_factory.mktemp("study")
    made = wheel.run("-m", "causalveil", "simulate", folder / "data", "--units", "300", "--partitions", "2")
    assert made.returncode == 0, made.stderr
    words = ("run", folder / "data" / "study.yaml", "--engine", "direct", "--run-id", "a", "--out", folder / "out")
    ran = wheel.run("-m", "causalveil", *words)
    assert ran.returncode == 0, ran.stderr
    return folder / "out" / "release.json"
