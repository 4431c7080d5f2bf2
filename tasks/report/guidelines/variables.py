"""Columns in words: what a study and its owner's contract declare of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalveil.schemas.contract import Contract
from causalveil.schemas.study import unrecorded_words
from causalveil.tasks.report.numbers import figure


def bounds_text(column: Mapping[str, Any]) -> str:
    """Return what a column of a study can hold: codes, levels, or a range."""
    codes, levels = column.get("codes"), column.get("levels")
    if codes:
        return f"{codes['control']} or {codes['treated']}"
    if levels is not None:
        return "one of " + ", ".join(map(str, levels))
    scale = f", by its {column['scale']}" if column.get("scale") else ""
    return f"{figure(column['lower'])} to {figure(column['upper'])}{scale}"


def codes_text(spec: Mapping[str, Any]) -> str:
    """Return what the arms are in the data."""
    arms, codes = spec.get("arms"), spec.get("treatment_codes")
    if arms:
        return f"{', '.join(map(str, arms['levels']))}; the reference is {arms['reference']}"
    return f"treated is {codes['treated']}, control is {codes['control']}" if codes else "treated is 1, control is 0"


def missing_text(spec: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> str:
    """Return what became of missing values.

    How many there are is private, but for rows of public and synthetic data.
    """
    lost = [
        f"{rows:,} rows were left out, without a value of {name}."
        for name, rows in (data or {}).get("left_out", {}).items()
    ]
    return " ".join([*lost, _missing_in_rows(spec)])


def _missing_in_rows(spec: Mapping[str, Any]) -> str:
    covariates = spec.get("covariates") or {}
    everywhere = spec.get("missing") == "indicator"
    welcome = [name for name, one in covariates.items() if everywhere or one.get("nulls") == "indicator"]
    told = [f"{one[:1].upper()}{one[1:]}." for one in unrecorded_words(spec)]
    if welcome:
        told.insert(0, f"{', '.join(welcome)} may be missing and enter by an indicator beside a fixed value.")
    if not told:
        return "Rows with a missing value in a column of the study are not admitted."
    never = [
        word for word, key in (("treatment", "missing_treatment"), ("outcome", "missing_outcome")) if key not in spec
    ]
    refused = f" Rows without {' or '.join(never)} are not admitted." if never else ""
    return f"{' '.join(told)}{refused} How many are missing is private."


def rows_text(contract: Contract) -> str:
    """Return how several rows of a unit became one, by the contract."""
    rows = contract.rows
    if rows is None:
        return f"Each {contract.unit} has one row; data in which one has two are not admitted."
    most = f"the {rows.keep.value} {rows.at_most} rows" if rows.at_most else "all rows"
    order = f" by {rows.order}" if rows.order else ""
    made = ", ".join(f"{name}: {aggregate.value}" for name, aggregate in rows.aggregates.items())
    return f"Of each {contract.unit} {most}{order} became one{f' ({made})' if made else ''}."


def descriptions_text(spec: Mapping[str, Any], contract: Contract) -> str:
    """Return what the owner says of the study's columns."""
    outcomes = spec["outcomes"] if "outcomes" in spec else [spec["outcome"]]
    named = [spec["treatment"], *(one["name"] for one in outcomes), *(spec.get("covariates") or {})]
    told = []
    for name in dict.fromkeys(named):
        column = contract.offered.get(name)
        if column is not None and (column.description or column.unit_of_measure):
            unit = f" ({column.unit_of_measure})" if column.unit_of_measure else ""
            told.append(f"{name}{unit}{f': {column.description}' if column.description else ''}")
    return f"The owner says: {'; '.join(told)}." if told else ""
