"""Files made of a ledger alone.

They are the burn-down of accounts, the owner's desk, tables, and entries for a registry.

Tables and entries have declared and recorded facts only. No released value is in any of these files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from causalveil.schemas.errors import StudyError
from causalveil.schemas.hints import option
from causalveil.schemas.oversight import Desk, DeskDataset, DeskRun
from causalveil.schemas.privacy import Level, amount_text
from causalveil.tasks.data.data_folder import dataset_around
from causalveil.tasks.machine.arrays import csv_text
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.privacy.ledger.outlook import burndowns, desk_and_burndowns, desk_of
from causalveil.tasks.report.burndown import burndown_html, burndown_svg, dataset_html, desk_html

WRITERS = {".html": burndown_html, ".svg": burndown_svg}


def draw_burndown(ledger: Ledger, dataset: str, place: Path) -> list[Path]:
    """Write the chart and return its files.

    ``place`` is an .html or .svg file, or a folder for both (DATASET-budget.html and .svg).

    Raises:
        StudyError: unknown dataset, another kind of file, or a file cannot be written.
        LedgerError: the ledger cannot be used.
    """
    if place.suffix and place.suffix not in WRITERS and not place.is_dir():
        raise StudyError(f"{place}: a chart is an .html or .svg file; name one, or a folder for both")
    ledger.refuse_unknown(dataset)
    found = burndowns(ledger, dataset)
    account = ledger.account(dataset)
    paths = [place] if place.suffix in WRITERS else [place / f"{dataset}-budget{suffix}" for suffix in WRITERS]
    return [write_whole(path, WRITERS[path.suffix](account, found)) for path in paths]


def write_desk(ledger: Ledger, folder: Path) -> list[Path]:
    """Write ``index.html`` and a page for each dataset, ``datasets/DATASET.html``.

    Raises:
        StudyError: a file cannot be written.
        LedgerError: the ledger does not verify or cannot be used.
    """
    desk, drawn = desk_and_burndowns(ledger)
    pages = {"index.html": desk_html(desk)}
    for desk_dataset in desk.datasets:
        pages[f"datasets/{desk_dataset.dataset}.html"] = dataset_html(
            desk_dataset, drawn[desk_dataset.dataset], desk.at
        )
    return [write_whole(folder / name, text) for name, text in pages.items()]


class ExportFormat(StrEnum):
    """The formats of `ledger export`."""

    csv = "csv"
    parquet = "parquet"
    registry = "registry"


RUN_COLUMNS = (
    *("dataset", "run_id", "study", "purpose", "estimator", "guarantee", "level", "blocks", "units", "state"),
    *("epsilon", "delta", "spent_epsilon", "spent_delta", "actor", "host", "reserved_at", "ended_at"),
)
CHARGE_COLUMNS = (
    *("dataset", "run_id", "name", "stage", "mechanism", "units_touched", "norm", "sensitivity", "noise_scale"),
    *("epsilon", "delta"),
)
REFUSAL_COLUMNS = ("dataset", "run_id", "study", "purpose", "epsilon", "delta", "actor", "host", "at", "why")
PERSON = "TO BE WRITTEN BY A PERSON"
UNITS = {
    Level.sample: "the whole record of one unit",
    Level.label: "the outcome of one unit; its treatment and covariates are public by declaration",
    Level.training_units: "the whole record of one unit of the training half; the other half has no bound",
}


def export(ledger: Ledger, folder: Path, form: ExportFormat, dataset: str | None = None) -> list[Path]:
    """Write what the ledger says of one dataset, or of all.

    Args:
        ledger: its whole chain is verified first.
        folder: ``runs``, ``charges`` and ``refusals`` as .csv or .parquet; or for each study with a finished run
            ``DATASET.STUDY.yaml``, an entry of OpenDP's registry of deployments, and ``DATASET.STUDY.md``, the points
            by which NIST SP 800-226 evaluates a guarantee.
        form: which of these.
        dataset: its name; None: all.

    Raises:
        StudyError: an unknown dataset, a file cannot be written, or a table would lie among the rows of a dataset.
        LedgerError: the ledger does not verify or cannot be used.
    """
    if form is ExportFormat.parquet and (around := dataset_around(folder)) is not None:
        raise StudyError(
            f"{folder}: lies in the data folder {around}, where Parquet files count as rows of the dataset; choose "
            f"{option('out')} outside of that folder, or {option(format='csv')}"
        )
    desk = desk_of(ledger)
    if dataset is not None:
        ledger.refuse_unknown(dataset)
        chosen = tuple(desk_dataset for desk_dataset in desk.datasets if desk_dataset.dataset == dataset)
        desk = desk.model_copy(update={"datasets": chosen})
    if form is ExportFormat.registry:
        return [write_whole(folder / name, text) for name, text in _registry(ledger, desk)]
    return [_table(folder / f"{name}.{form}", rows, form) for name, rows in tables(desk).items()]


def tables(desk: Desk) -> dict[str, pl.DataFrame]:
    """Return runs, drawn charges and refusals as tables; amounts are exact text, moments in UTC."""
    runs, charges, refusals = [], [], []
    for desk_dataset in desk.datasets:
        runs += [_run_row(desk_dataset.dataset, run) for run in desk_dataset.runs]
        charges += [
            _charge_row(desk_dataset.dataset, run, charge) for run in desk_dataset.runs for charge in run.charges
        ]
        refusals += [
            {
                "dataset": desk_dataset.dataset,
                **refusal.model_dump(include={"run_id", "study", "purpose", "why"}),
                "epsilon": None if refusal.cost is None else amount_text(refusal.cost.epsilon),
                "delta": None if refusal.cost is None else amount_text(refusal.cost.delta),
                "actor": refusal.by.actor,
                "host": refusal.by.host,
                "at": refusal.by.at.isoformat(),
            }
            for refusal in desk_dataset.refusals
        ]
    return {
        "runs": _frame(runs, RUN_COLUMNS),
        "charges": _frame(charges, CHARGE_COLUMNS),
        "refusals": _frame(refusals, REFUSAL_COLUMNS),
    }


def _run_row(dataset: str, run: DeskRun) -> dict[str, Any]:
    return {
        "dataset": dataset,
        **run.model_dump(include={"run_id", "study", "purpose", "estimator", "units", "state"}),
        "guarantee": str(run.guarantee),
        "level": str(run.level),
        "blocks": " ".join(run.blocks),
        "epsilon": amount_text(run.cost.epsilon),
        "delta": amount_text(run.cost.delta),
        "spent_epsilon": amount_text(run.spent.epsilon),
        "spent_delta": amount_text(run.spent.delta),
        "actor": run.reserved.actor,
        "host": run.reserved.host,
        "reserved_at": run.reserved.at.isoformat(),
        "ended_at": None if run.ended is None else run.ended.at.isoformat(),
    }


def _charge_row(dataset: str, run: DeskRun, charge: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "run_id": run.run_id,
        "name": charge.name,
        "stage": charge.stage,
        "mechanism": str(charge.mechanism),
        "units_touched": str(charge.scope),
        "norm": None if charge.norm is None else str(charge.norm),
        "sensitivity": charge.sensitivity,
        "noise_scale": charge.noise_scale,
        "epsilon": amount_text(charge.epsilon),
        "delta": amount_text(charge.delta),
    }


def _frame(rows: list[dict[str, Any]], columns: Iterable[str]) -> pl.DataFrame:
    kinds: dict[str, Any] = {"units": pl.Int64, "sensitivity": pl.Float64, "noise_scale": pl.Float64}
    return pl.DataFrame(rows, schema={name: kinds.get(name, pl.String) for name in columns}, orient="row")


def _table(path: Path, frame: pl.DataFrame, form: ExportFormat) -> Path:
    content = BytesIO()
    if form is ExportFormat.parquet:
        frame.write_parquet(content)
    else:
        content.write(csv_text(frame).encode())
    return write_whole(path, content.getvalue())


def _registry(ledger: Ledger, desk: Desk) -> Iterator[tuple[str, str]]:
    for desk_dataset in desk.datasets:
        finished = [run for run in desk_dataset.runs if run.state == "finished"]
        for study in sorted({run.study for run in finished}):
            runs = [run for run in finished if run.study == study]
            stored = json.loads(ledger.stored_document(runs[-1].run_id) or "{}")
            entry = registry_entry(desk_dataset, runs, stored)
            yield (
                f"{desk_dataset.dataset}.{study}.yaml",
                yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100),
            )
            yield f"{desk_dataset.dataset}.{study}.md", evaluation(desk_dataset, runs, stored)


def _unit(stored: Mapping[str, Any]) -> str:
    data = stored.get("specification", {}).get("data") or {}
    return str(data.get("unit") or "unit")


def _variant(run: DeskRun) -> str:
    return "Approximate DP" if run.cost.delta > 0 else "Pure DP"


def _mechanisms(runs: list[DeskRun]) -> str:
    return ", ".join(sorted({str(charge.mechanism).replace("_", " ") for run in runs for charge in run.charges}))


def _account(desk_dataset: DeskDataset, run: DeskRun) -> str:
    cap = desk_dataset.account.caps.get(run.level)
    if cap is None:
        return "No cap is in force for this level any more."
    return (
        f"All studies of this dataset together are held to ({amount_text(cap.epsilon)}, {amount_text(cap.delta)}) at "
        f"this level by an append-only ledger, with {desk_dataset.account.accounting} composition."
    )


def registry_entry(desk_dataset: DeskDataset, runs: list[DeskRun], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study as an entry of OpenDP's registry of deployments.

    It has the registry's tiers 1 to 3 as far as the ledger knows.

    Args:
        desk_dataset: its dataset.
        runs: its finished runs in order, at least one.
        stored: the last one's release; only the name of its unit is used.
    """
    last, unit = runs[-1], _unit(stored)
    return {
        "url_slug": f"{desk_dataset.dataset}-{last.study}-{last.reserved.at:%Y}".lower().replace("_", "-"),
        "deployment": {
            "basic": {
                "name": f"{last.study} ({desk_dataset.dataset})",
                "data_curators": [{"data_curator_name": PERSON, "data_curator_type": PERSON}],
                "description": f"A differentially private treatment effect by {last.estimator.replace('_', ' ')}"
                f"{'' if last.purpose is None else ': ' + last.purpose}",
                "intended_use": last.purpose or PERSON,
                "data_product_type": "Summary statistics",
                "data_product_region": PERSON,
                "data_product_sector": PERSON,
                "publication_date": f"{(last.ended or last.reserved).at:%Y-%m-%d}",
            },
            "dp_variant": {
                "variant_name": _variant(last),
                "data_domain": f"Tables of {last.units:,} rows, one for each {unit}, within ranges declared beforehand",
                "unprotected_quantities": "number of units, ranges and levels of the columns, studies and their "
                "budgets" + ("; treatment and covariates" if last.level is Level.label else ""),
            },
            "privacy_loss": {
                "privacy_unit": f"{unit}-level",
                "privacy_unit_details": f"Adjacent datasets differ by {UNITS[last.level]} ({unit}), replaced by any "
                "other.",
                "privacy_parameters": {"epsilon": float(last.cost.epsilon), "delta": float(last.cost.delta)},
                "privacy_parameters_details": f"Of each run; {len(runs)} finished. {_account(desk_dataset, last)}",
            },
            "deployment_model": {
                "model_name": "Central",
                "release_type": "One release" if len(runs) == 1 else "Many releases",
                "data_source_type": "Static" if len(runs) == 1 else "Dynamic",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Bounds and all settings were declared; no run "
                "chose one on the data.",
                "mechanisms": _mechanisms(runs),
                "justification": PERSON,
            },
            "administrative": {"status": "Draft", "registry_authors": [PERSON], "tier": 3},
        },
    }


def evaluation(desk_dataset: DeskDataset, runs: list[DeskRun], stored: Mapping[str, Any]) -> str:
    """Return a study by the points of NIST SP 800-226, as a page of Markdown.

    The arguments are those of ``registry_entry``.
    """
    last, unit = runs[-1], _unit(stored)
    delta = amount_text(last.cost.delta)
    points = {
        "Definition": f"{_variant(last)}; neighbours differ by {UNITS[last.level]}, replaced (bounded).",
        "Unit of privacy": f"one {unit}, one row each",
        "Privacy parameters": f"epsilon {amount_text(last.cost.epsilon)}, delta {delta}, each run; runs: {len(runs)}",
        "Composition": _account(desk_dataset, last),
        "Mechanisms": _mechanisms(runs),
        "Exactness": "integer-valued noise on a lattice, from the operating system's generator",
        "Trust model": "central: the curator holds the records; analysts see releases alone",
        "Side channels": "time, memory and errors of a run: see docs/privacy.md of causalveil",
        "Not protected": "number of units, declared ranges and levels, studies and budgets",
        "Utility": "each release has an interval that covers sampling and noise; see the release",
        "Bias": PERSON,
        "Data collection and access": PERSON,
    }
    rows = "\n".join(f"| {point} | {words.replace('|', '&#124;')} |" for point, words in points.items())
    return f"# {last.study}, on {desk_dataset.dataset}\n\n| NIST SP 800-226 | here |\n|---|---|\n{rows}\n"
