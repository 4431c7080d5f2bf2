"""One source file -> one folder of partitions with a manifest: probe, take block after block, write the manifest."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from flows.engine import Engine
from schemas.errors import CausalveilError, StudyError
from schemas.extract import Credential, Manifest, Source, Warehouse, load_source
from schemas.policy import POLICY_FILE, load_policy
from tasks import extract
from tasks.extract_key import intervals


def extract_source(path: Path, stage: Engine) -> Manifest:
    """Fill the folder that the source names with what it lacks; on any engine.

    Raises:
        StudyError: the source file is wrong, names no credential that is there, or fills another dataset's folder.
        DataError: the source's schema drifted, or the folder holds something else.
        CausalveilError: the source cannot be read, or the folder not be written.
    """
    source = load_source(path)
    place, folder = path.parent.resolve(), target_folder(path, source)
    url = warehouse_url(source)
    blocks = intervals(source.key, datetime.now(UTC).date())
    with extract.extracting(folder):
        policy = folder / POLICY_FILE
        extract.check_dataset(source, load_policy(policy).dataset if policy.exists() else None)
        stage(extract.probe_stage, source, place, url)
        taken = tuple(stage(extract.extract_stage, source, place, url, folder, block) for block in blocks)
        return stage(extract.manifest_stage, source, folder, blocks, taken)


def target_folder(path: Path, source: Source) -> Path:
    """``to`` is relative to the source file."""
    return (path.parent / source.to).resolve()


def warehouse_url(source: Source) -> str | None:
    """The warehouse's URL from where the source says it is; None for sources that have none.

    It is handed from function to function and stands in no file, parameter, log line or message.

    Raises:
        StudyError: there is no such variable or block, or it holds no text.
    """
    if not isinstance(source.source, Warehouse):
        return None
    place = source.source.url
    url = os.environ.get(place.environment) if place.environment is not None else _from_block(place)
    if not url:
        named = f"variable {place.environment}" if place.environment else f"Prefect Secret block '{place.block}'"
        raise StudyError(f"source '{source.name}': {named} holds no URL; set it where this process runs")
    return url


def _from_block(place: Credential) -> str | None:
    from prefect.blocks.system import Secret

    failure = None
    try:
        found = Secret.load(str(place.block)).get()  # type: ignore[union-attr]  # the call is synchronous here
    except ValueError:
        return None
    except Exception as problem:
        failure = type(problem).__name__
    if failure:
        raise CausalveilError(
            f"Prefect Secret block '{place.block}' cannot be loaded ({failure}); check PREFECT_API_URL"
        )
    return found if isinstance(found, str) else None
