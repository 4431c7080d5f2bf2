"""The table of stages in docs/run.md: what each reads and draws, as the stage objects say.

uv run python -m tests.stage_map    # writes the table anew
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.studies import parse_study
from tests.balancing_help import make_balancing
from tests.difference_help import make_difference
from tests.direction_help import make_direction
from tests.ipw_help import make_study
from tests.matching_help import matching_changes
from tests.protocol_help import make_protocol
from tests.regression_help import make_regression
from tests.studies import RESOLVED, made, merge
from tests.survival_help import make_survival, make_times

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "run.md"
BEGIN, END = "<!-- stages: python -m tests.stage_map -->\n", "<!-- end of stages -->\n"
ADJUSTED: dict[str, Any] = {"trial": False, "measure": ["risk"], "covariates": {"age": {"lower": 20, "upper": 60}}}


def studies() -> dict[str, Any]:
    """One study for each order of stages that there is."""
    return {
        "`regression`": make_regression(2),
        "`aipw`": made("aipw", 2, guarantee="asymptotic"),
        "`ipw`": make_study(),
        "`matching`": parse_study(merge(RESOLVED, matching_changes(level="sample"))),
        "level `label`, by `balancing`, `ipw`, `matching` or `difference_in_means`": make_balancing(),
        "`difference_in_means`": make_difference(),
        "`survival`": make_survival(),
        "`survival` with covariates": make_survival(**ADJUSTED),
        "`direction`": make_direction(scores=["spearman"], protect=["train", "test"]),
    }


def tables() -> list[tuple[Any, Any]]:
    """Studies of one question, each with one of several by the same estimator."""
    return [
        (make_regression(2), make_protocol()),
        (make_difference(), make_protocol(name="difference_in_means")),
        (make_balancing(), make_protocol(name="balancing")),
        (make_survival(), make_times()),
        (make_survival(**ADJUSTED), make_times(**ADJUSTED)),
    ]


def table(study: Any) -> str:
    """The rows of one study's stages."""
    estimator, lines = estimator_of(study), ["| stage | reads | draws |", "|---|---|---|"]
    stages = estimator.stages_of(study)
    for stage in stages:
        reads = ", ".join(one.name for one in stage.reads if one in stages)
        draws = ", ".join(f"{charge.name} ({charge.scope})" for charge in stage.declare(study, None))
        lines.append(f"| {stage.name} | {reads} | {draws or 'nothing'} |")
    return "\n".join(lines) + "\n"


def generated() -> str:
    """What stands between the marks."""
    return "".join(f"\n{name}:\n\n{table(study)}" for name, study in studies().items())


def written() -> str:
    """What stands there now."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    text = PAGE.read_text()
    PAGE.write_text(text.replace(BEGIN + written() + END, BEGIN + generated() + END))
