"""Data folders in Azure's object storage, on its emulator on loopback: an extract, a run, a release, and the lock."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyarrow import fs

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import extract_source
from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.machine import object_storage
from causalveil.tasks.machine.stored_writes import LOCK, alone_at
from tests.needs import AZURITE, NO_AZURITE
from tests.warehouse import visits, write_source

# The emulator's own account and key, which its manual prints.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fs.AzureFileSystem]:
    if AZURITE is None:
        pytest.skip(NO_AZURITE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(tmp_path / "azure")]
    server = subprocess.Popen([AZURITE, *options, "--silent", "--skipApiVersionCheck", "--disableTelemetry"])
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{port}")
    try:
        for _ in range(1200):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        store, _ = object_storage.file_system(f"abfs://clinic@{ACCOUNT}.dfs.core.windows.net/a")
        store.create_dir("clinic")
        yield store
    finally:
        for copy in object_storage._COPIES.values():
            copy.forget()
        object_storage._COPIES.clear()
        server.terminate()
        server.wait()


def test_an_extract_a_run_and_a_release_in_azure(
    container: fs.AzureFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"abfs://clinic@{ACCOUNT}.dfs.core.windows.net/taken"
    visits().write_parquet(tmp_path / "in.parquet")
    source = write_source(tmp_path / "source.yaml", {"kind": "parquet", "path": "in.parquet"}, to=url)
    columns = {"treated": {"codes": {"control": False, "treated": True}}, "score": {"lower": 0, "upper": 10}}
    columns |= {"group": {"levels": ["a", "b", "c"], "others": "other"}, "age": {"lower": 0, "upper": 100}}
    contract = {"dataset": "small", "data_class": "synthetic", "unit": "person", "columns": columns, "public": []}
    contract |= {"blocks": {"key": "month", "units_span": False}, "caps": {"sample": {"epsilon": 9, "delta": 1e-4}}}
    with container.open_output_stream("clinic/taken/dataset.yaml") as stream:
        stream.write(yaml.safe_dump(contract).encode())
    extracted = extract_source(source, DirectEngine())
    assert (extracted.manifest.rows, extracted.admission is not None) == (1000, True)
    names = {one.base_name for one in container.get_file_info(fs.FileSelector("clinic/taken"))}
    assert {"_manifest.json", "_admission.json", "dataset.yaml"} <= names
    assert LOCK not in names
    asked = {"kind": "effect", "name": "a", "treatment": "treated", "outcome": "score", "covariates": ["age"]}
    asked |= {"data": {"path": url}, "estimator": {"name": "auto"}, "privacy": {"epsilon": 1, "delta": 1e-6}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(asked))
    answers = f"abfs://clinic@{ACCOUNT}.dfs.core.windows.net/answers"
    run = run_study(tmp_path / "study.yaml", out=answers, engine="direct")
    assert run.release.units == 1000
    stored = container.open_input_stream("clinic/answers/release.json").read()
    assert stored == run.path.read_bytes()
    # Whoever else writes there is seen.
    with container.open_output_stream(f"clinic/taken/{LOCK}") as stream:
        stream.write(b'{"host": "other-machine"}')
    with pytest.raises(CausalveilError, match="on other-machine writes there"), alone_at(url):
        pass
