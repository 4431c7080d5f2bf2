"""The golden file: numbers and charges of every study of ``golden_studies.py``, with simulated noise of seeds 1 to 5.

    uv run python -m tests.golden     # writes the lines that have moved anew, and leaves all others as they are

A line has the study, the seed, what is answered, and its numbers by name; charges are those of every seed. Texts are
equal to the letter, and numbers within a billionth of the largest of their line.

Instructions that a processor adds to those of any x86-64 round differently, and a draw along eigenvectors turns a
rounding into another draw, whose law is the same. So studies run in a process of their own that may not use them.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.questions import ALL_UNITS
from tests.golden_studies import cases

FILE = Path(__file__).with_name("golden.txt")
SEEDS = (1, 2, 3, 4, 5)
TOLERANCE = 1e-9
MODELS = ("fixed", "random")
# Study, seed, what is answered; then numbers by name, as texts.
Lines = dict[tuple[str, str, str], dict[str, str]]
# Of OpenBLAS, numpy and the C library: what every x86-64 processor can do and no more.
PLAIN = {
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
}


@contextmanager
def plain_processor() -> Iterator[ProcessPoolExecutor]:
    """Give a process in which :func:`lines_of` runs; libraries read the variables as they are loaded there."""
    before = dict(os.environ)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        os.environ.update(PLAIN)
        try:
            process.submit(os.getpid).result()
        finally:
            os.environ.clear()
            os.environ.update(before)
        yield process


def lines_of(name: str, folder: Path, seeds: tuple[int, ...] = SEEDS) -> Lines:
    """Run a study with each seed and return its lines; a refusal has one line, with the name of its error."""
    os.environ["CAUSALVEIL_HOME"] = str(folder.with_name("home"))
    found: Lines = {}
    case = cases()[name]
    for seed in seeds:
        try:
            document = case(folder, seed).model_dump(mode="json")
        except CausalveilError as refusal:
            return {(name, "", "refused"): {"by": type(refusal).__name__}}
        found |= {(name, str(seed), what): as_texts(numbers) for what, numbers in answers_of(document)}
        charges = {(name, "", what): as_texts(numbers) for what, numbers in charges_of(document)}
        assert seed == seeds[0] or charges.items() <= found.items(), f"{name}: charges depend on the seed"
        found |= charges
    return found


def answers_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read what a release of any kind answers: what it is about, and its numbers by name."""
    kind, two_arms = document["kind"], not document["specification"].get("arms")
    for one in (row for key in ("answers", "gates", "curves") for row in document.get(key) or () if two_arms):
        if isinstance(one, dict):
            one.pop("arm", None)
    if kind == "effect":
        for one in document["answers"]:
            yield place_of(one), row_of(one)
    if kind in ("effect", "pooled"):
        for one in document["answers"]:
            yield from ranges_of(one)
        for one in document["curves"]:
            yield from curves_of(one["curves"], f"{place_of(one)}: ".removeprefix(": "))
    if kind == "direction":
        yield "verdict", {"favours": document["verdict"]["favours"], "weight": document["verdict"]["weight"]}
        for one in document["scores"]:
            yield one["score"], {key: one[key] for key in ("favours", "x_to_y", "y_to_x", "margin", "order_kept")}
    if kind == "pooled":
        yield from pooled_of(document)
    if kind == "series":
        for one in document["answers"]:
            yield from pooled_row(place_of(one), one)
            yield f"{place_of(one)}: drift", one["drift"]
            yield f"{place_of(one)}: newest", {**one["newest"], "blocks": " ".join(one["newest"]["blocks"])}
    for one in document.get("gates", ()):
        yield f"{place_of(one)}: gate of {one['gate']}", {key: one[key] for key in ("verdict", "value", "noise_error")}
    if (calibration := document.get("calibration")) and calibration["mean"] is not None:
        yield "calibration", {key: calibration[key] for key in ("mean", "deviation", "mean_error")}
    for key in ("before", "after"):
        if balance := document.get("balance"):
            yield f"balance {key}", {"size": sum(abs(one[key]) for one in balance)}


def place_of(one: dict[str, Any]) -> str:
    """Say which question a row answers: its outcome, and its group and arm where there are several."""
    return ", ".join(one[key] for key in ("outcome", "group", "arm") if one.get(key) not in (None, ALL_UNITS))


def effect_of(one: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of an effect that stands by itself."""
    interval, variance = one["interval"], one["variance"]
    state = {"state": "unresolved"} if interval["whole_range"] else {}
    ends = {key: interval[key] for key in ("lower", "upper")}
    errors = {key: math.sqrt(variance[key]) for key in ("sampling", "noise")}
    return {**state, "estimate": one["estimate"], **ends, **errors, "bias": interval["bias"]}


def row_of(one: dict[str, Any]) -> dict[str, Any]:
    """Return the same numbers of a row of a table."""
    state = {} if one["state"] == "answered" else {"state": one["state"]}
    ends = one["interval"] or {"lower": None, "upper": None}
    errors = {"sampling": one["sampling_error"], "noise": one["noise_error"]}
    return {**state, "estimate": one["estimate"], **ends, **errors, "bias": one["bias"]}


def ranges_of(one: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a row's other intervals: all together, calibrated, and of ratios."""
    for key in ("simultaneous", "calibrated"):
        if one.get(key):
            yield f"{place_of(one)}: {key}", one[key]
    for ratio in one.get("measures", ()):
        yield f"{place_of(one)}: {ratio['measure']}", {key: ratio[key] for key in ("estimate", "lower", "upper")}
    if test := one.get("log_rank"):
        yield f"{place_of(one)}: log-rank", test_of(test)


def test_of(test: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a log-rank test."""
    return {"statistic": test["statistic"], "p": test["p_value"]} | (test["hazard_ratio"] or {})


def curves_of(curves: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return sums over a curve's times, which any of its points moves."""
    for arm in curves["arms"]:
        sums = {key: sum(arm[key]) for key in ("survival", "lower", "upper", "at_risk", "at_risk_error")}
        incidence = {event: sum(points) for event, points in arm["incidence"].items()}
        yield f"{where}curve of {arm['arm']}", {"points": len(arm["survival"]), **sums, **incidence}
    if test := curves["log_rank"]:
        yield f"{where}log-rank", test_of(test)


def pooled_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the answers over sites, and what each site weighs in them."""
    for one in document["answers"]:
        place = place_of(one)
        yield from pooled_row(place, one)
        weights = {f"{site['site']}_{model}": site[f"weight_{model}"] for site in one["sites"] for model in MODELS}
        yield f"{place}: weights", weights


def pooled_row(place: str, one: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return one question over sites or blocks by each model, and how they differ."""
    for model in (*MODELS, "stratified"):
        if found := one.get(model):
            yield f"{place}: {model}", effect_of(found)
    if apart := one["heterogeneity"]:
        yield f"{place}: heterogeneity", {key: apart[key] for key in ("q", "p_value", "tau2")}


def charges_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the total and each draw's charge."""
    privacy = document["privacy"]
    yield "total", {key: privacy[key] for key in ("epsilon", "delta", "epsilon_pld") if key in privacy}
    for one in privacy.get("charges", ()):
        keys = ("mechanism", "sensitivity", "noise_scale", "epsilon", "delta", "mu", "rho")
        yield f"charge {one['name']}", {key: one[key] for key in keys}


def as_texts(numbers: dict[str, Any]) -> dict[str, str]:
    """Write numbers to twelve digits, and leave out what there is none of."""
    return {
        key.replace(" ", "_"): f"{value:.12g}" if isinstance(value, float) else str(value).replace(" ", "_")
        for key, value in numbers.items()
        if value is not None
    }


def read() -> Lines:
    """Read the golden file."""
    found: Lines = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        name, seed, what, numbers = line.split(" | ")
        found[name, seed, what] = dict(word.split("=", 1) for word in numbers.split())
    return found


def text_of(line: tuple[str, str, str], numbers: dict[str, str]) -> str:
    """Return a line of the golden file."""
    return " | ".join([*line, " ".join(f"{key}={value}" for key, value in numbers.items())])


def same(one: dict[str, str], other: dict[str, str]) -> bool:
    """Return whether two lines' numbers are equal but for last bits, and their texts to the letter."""
    if list(one) != list(other):
        return False
    pairs = [(number(one[key]), number(other[key])) for key in one]
    largest = max((abs(value) for pair in pairs for value in pair if isinstance(value, float)), default=0.0)
    return all(
        abs(a - b) <= TOLERANCE * largest if isinstance(a, float) and isinstance(b, float) else a == b for a, b in pairs
    )


def number(text: str) -> float | str:
    """Return the number that a text says, or the text."""
    try:
        return float(text)
    except ValueError:
        return text


def main() -> None:
    """Write the golden file anew, and say which lines moved."""
    known = read() if FILE.exists() else {}
    found: Lines = {}
    with tempfile.TemporaryDirectory() as folder, plain_processor() as process:
        for place, name in enumerate(cases()):
            print(name, flush=True)
            found |= process.submit(lines_of, name, Path(folder) / str(place)).result()
    kept = {
        line: known[line] if line in known and same(known[line], numbers) else numbers
        for line, numbers in found.items()
    }
    FILE.write_text("".join(f"{text_of(line, numbers)}\n" for line, numbers in kept.items()), encoding="utf-8")
    print(f"{sum(known.get(line) != numbers for line, numbers in kept.items())} of {len(kept)} lines are new or moved")


if __name__ == "__main__":
    main()
