"""Tags, log lines, artifacts and assets that Prefect shows of a run.

Released and declared values alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

from causalveil.schemas.answers import Answer
from causalveil.schemas.ledger import Reservation
from causalveil.schemas.privacy import Charge, amount_text, cost_text
from causalveil.schemas.release import DirectionRelease, EffectRelease, Release
from causalveil.tasks.privacy.accountant import sum_text
from causalveil.tasks.report.numbers import confidence_level, within
from causalveil.tasks.report.panel import span_of
from causalveil.tasks.report.table import units_in

# Answers that a page of Prefect lists.
ROWS = 20


def tags_of(run: Reservation) -> list[str]:
    """Return the tags by which a flow run and its task runs are found."""
    return tags_by(study=run.study, dataset=run.dataset, run=run.run_id)


def tags_by(**names: str | None) -> list[str]:
    """Return tags of known names by kind: ``study``, ``dataset``, ``run``, ``round``."""
    return [f"{kind}:{name}" for kind, name in names.items() if name is not None]


def declared_tags(charges: Iterable[Charge], run: Reservation) -> list[str]:
    """Return the charges that a stage declares, as tags of its task run.

    It spends all of them or none.
    """
    return [f"declares {_named(charge, run)}" for charge in charges]


def reserved_line(run: Reservation) -> str:
    """Say how much a run reserved, and to which sum the amounts of its later lines add up."""
    return (
        f"run {run.run_id} of study {run.study} has reserved {cost_text(run.cost)} of {run.dataset} before a row was "
        f"read; {_sum(run.charges, run.cost.delta)}"
    )


def stage_line(
    stage: str, own: Sequence[Charge], drawn: Sequence[Charge], committed: Sequence[Charge], run: Reservation
) -> str:
    """Return a log line of the charges that a stage spent and that the run has committed.

    Args:
        stage: its title.
        own: the charges that it declared; all are committed, since the stage has ended.
        drawn: those that it drew; an earlier try of the run had committed the others.
        committed: the charges of the run that are committed and have come to its stages so far.
        run: the reservation.
    """
    earlier = [charge for charge in own if charge not in drawn]
    clauses = [] if earlier and not drawn else [f"declared and spent {_listed(drawn, run) or 'nothing'}"]
    clauses += [f"already committed by an earlier try {_listed(earlier, run)}"] if earlier else []
    return f"stage {stage}: {'; '.join(clauses)}; {committed_line(committed, run)}"


def committed_line(committed: Sequence[Charge], run: Reservation) -> str:
    """Say how many charges of a run are committed, and their sum beside that of all.

    It is the last line of a completed flow, from the ledger.
    """
    return (
        f"{len(committed)} of {len(run.charges)} charges of the flow's budget are committed: "
        f"{sum_text(committed, run.cost.delta)} of {sum_text(run.charges, run.cost.delta)}"
    )


def returned_line(run_id: str) -> str:
    """Say that a run was finished before, and that its release is that of the ledger."""
    return f"run {run_id} was finished before: its release comes from the ledger; nothing is drawn or charged"


def _sum(charges: Sequence[Charge], delta: Decimal) -> str:
    return f"its charges add up to {sum_text(charges, delta)}, the largest sum that one unit meets"


def _named(charge: Charge, run: Reservation) -> str:
    return f"{charge.name}: {sum_text([charge], run.cost.delta)} ({charge.scope})"


def _listed(charges: Sequence[Charge], run: Reservation) -> str:
    return ", ".join(_named(charge, run) for charge in charges)


def answer_markdown(release: Release, path: Path) -> str:
    """Return the answer and the release's path as a page of Markdown."""
    question = getattr(release, "estimand", release.kind)
    lines = [f"# {release.study}", ""]
    if release.headline is not None:
        lines += [f"**{release.headline}**", ""]
    if release.not_for_release:
        lines += ["**Simulated with seeded noise: not for release.**", ""]
    lines += [f"{question} by {release.estimator}, {release.units:,} units of {release.dataset}.", ""]
    lines += _answer(release)
    lines += ["", f"Release: `{path}`; as a page: `causalveil report {path}`", "", f"Run: `{release.run_id}`"]
    return "\n".join(lines)


def _answer(release: Release) -> list[str]:
    if isinstance(release, DirectionRelease):
        x, y = release.pair.x.name, release.pair.y.name
        direction = {"x_to_y": f"{x} → {y}", "y_to_x": f"{y} → {x}"}.get(str(release.verdict.favours))
        return ["No verdict." if direction is None else f"**{direction}**, as far as private scores tell."]
    if not isinstance(release, EffectRelease) or release.interval is None:
        return []
    first, interval = release.answers[0], release.interval
    lines = [
        f"| | estimate | {confidence_level(interval.confidence)} interval |",
        "|---|---|---|",
        *(f"| {row.outcome}{_place(release, row)} | {_estimate(release, row)} |" for row in release.answers[:ROWS]),
        "",
    ]
    if len(release.answers) > ROWS:
        lines += [f"{len(release.answers) - ROWS} more answers stand in the release.", ""]
    if first.confounding is not None:
        lines += [" ".join(first.confounding.sentences), ""]
    lines.append(f"Intervals cover {', '.join(limit.sentence for limit in interval.covers)}.")
    if interval.whole_range:
        lines.append("The privacy noise is too large: the interval is the whole declared range.")
    if release.not_covered:
        lines.append(f"They do not cover {'; '.join(limit.sentence for limit in release.not_covered)}.")
    return lines


def _place(release: EffectRelease, row: Answer) -> str:
    """Return subgroup and arm of an answer, after a comma, where a table has several."""
    several = [key for key in ("group", "arm") if len({getattr(answer, key) for answer in release.answers}) > 1]
    return "".join(f", {getattr(row, key)}" for key in several)


def _estimate(release: EffectRelease, row: Answer) -> str:
    """Return estimate and interval of an answer, with its unit of measure."""
    if row.estimate is None or row.interval is None:
        return "withheld | a gate failed"
    unit = f" {measure}" if (measure := units_in(release).get(row.outcome)) else ""
    return f"**{within(row.estimate, row.interval.lower, row.interval.upper)}{unit}** | **{span_of(row.interval)}**"


def budget_markdown(release: Release) -> str:
    """Return a Markdown page of a run's cost, its charges and the budget granted, used and left."""
    privacy, left = release.privacy, release.budget
    run = cost_text(privacy)
    lines = [f"# What {release.run_id} cost {release.dataset}", ""]
    if left is None:
        why = "it is a simulation, or its cap was taken away"
        lines.append(f"This run declared {run}. What is left is not known: {why}.")
    else:
        delta = f" at delta {amount_text(left.cap.delta)}" if left.cap.delta > 0 else ""
        lines += [
            f"Account: level {str(left.level).replace('_', ' ')}, block {left.block} (the one with the least room).",
            "",
            "| | epsilon |",
            "|---|---|",
            f"| **Total** that the owner granted{delta} | {amount_text(left.cap.epsilon)} |",
            f"| **Spent or reserved** by all runs together, this one included | {amount_text(left.used)} |",
            f"| **Left** | {left.share_left:.1%} of the total; {left.fits:,} more runs like this one |",
            "",
            f"This run alone declared and spent {run}.",
        ]
    lines += ["", "| stage | charge | mechanism | units | amount |", "|---|---|---|---|---|"]
    for charge in privacy.charges:
        amount = f"{charge.scope} | {sum_text([charge], privacy.delta)}"
        lines.append(f"| {charge.stage} | {charge.name} | {str(charge.mechanism).replace('_', ' ')} | {amount} |")
    lines += ["", f"Of this run: {_sum(privacy.charges, privacy.delta)}."]
    return "\n".join(lines)


def data_asset(dataset: str) -> str:
    """Return the asset key of a dataset as its owner declared it."""
    return f"causalveil://{dataset}/data"


def release_asset(release: Release) -> str:
    """Return the asset key of a study's releases; each run is a materialisation of it."""
    return f"causalveil://{release.dataset}/releases/{release.study}"


def asset_facts(release: Release) -> dict[str, str]:
    """Return an asset materialisation's metadata: run, estimator, budget and ledger entry."""
    return {
        "run": release.run_id,
        "estimator": release.estimator,
        "epsilon": amount_text(release.privacy.epsilon),
        "delta": amount_text(release.privacy.delta),
        "ledger": release.ledger.identity,
        "entry": release.ledger.entry_hash,
    }
