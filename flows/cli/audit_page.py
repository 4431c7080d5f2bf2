"""What happened in a run, from the ledger's verified chain and from Prefect's record, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from causalveil.flows.cli.audit_prefect import prefect_trail
from causalveil.schemas.errors import RunConflict
from causalveil.schemas.ledger import Sum
from causalveil.schemas.oversight import FlowRecord, LedgerTrail, Stamp, Trail
from causalveil.schemas.privacy import amount_text


def trail_of(run_id: str) -> Trail:
    """Verify the whole chain, then gather what ledger and Prefect hold of one run.

    Raises:
        LedgerError: the ledger cannot be used, or its chain does not hold.
        RunConflict: neither of the two knows the run.
    """
    from causalveil.tasks.privacy.ledger.ledger import open_ledger
    from causalveil.tasks.privacy.outlook.history import ledger_trail, refusals_of

    ledger = open_ledger()
    chain = ledger.verify()
    trail = Trail(
        run_id=run_id,
        chain=chain,
        ledger=ledger_trail(ledger, run_id),
        refused=refusals_of(ledger, run_id),
        prefect=prefect_trail(run_id),
    )
    if trail.ledger is None and not trail.refused and not trail.prefect.flow_runs:
        raise RunConflict(f"run {run_id} is not in this ledger, and {trail.prefect.missing}")
    return trail


def lines(trail: Trail) -> Iterator[str]:
    """The trail as a page of Markdown."""
    chain = trail.chain
    yield f"# Run {trail.run_id}"
    yield ""
    yield f"The chain of ledger {chain.ledger} holds: {chain.entries} entries, head {chain.head_hash}."
    yield ""
    if trail.ledger is None:
        yield "The ledger has no reservation of this run: it reserved nothing, and nothing was drawn or charged."
    else:
        yield from _ledger_lines(trail.ledger)
    for refusal in trail.refused:
        yield ""
        yield f"Refused by the ledger, {_at(refusal.entry)}, asked by {_by(refusal.entry)}: {refusal.why}"
    yield ""
    yield "## What Prefect recorded"
    yield ""
    if trail.prefect.missing:
        yield f"{trail.prefect.missing}. All above comes from the ledger alone, which is the record."
    for flow_run in trail.prefect.flow_runs:
        yield from _flow_lines(flow_run)


def _ledger_lines(run: LedgerTrail) -> Iterator[str]:
    yield f"| study | {run.study} (SHA-256 {run.study_digest}) |"
    yield "|---|---|"
    yield f"| estimator, guarantee | {run.estimator}, {run.guarantee} |"
    yield f"| dataset, level, units | {run.dataset}, {run.level}, {run.units:,} |"
    yield f"| blocks | {', '.join(run.blocks)} |"
    yield f"| data layout, contract | SHA-256 {run.layout_digest}, {run.policy_digest} |"
    code = "not recorded, since the run has no release" if run.software is None else _versions(run.software)
    yield f"| code | {code} |"
    yield f"| reserved | {_sum(run.cost)}; {_at(run.reserved)} |"
    yield f"| by | {_by(run.reserved)} |"
    yield f"| spent | {_sum(run.spent)} |"
    ended = {"finished": run.finished, "voided": run.voided}.get(run.state)
    yield f"| state | {run.state}{'' if ended is None else ', ' + _at(ended)} |"
    if run.void_reason is not None:
        yield f"| voided because | {run.void_reason} |"
    if run.reviewed is not None:
        because = "" if run.review_reason is None else f": {run.review_reason}"
        yield f"| reviewed by its owner | {_at(run.reviewed)}{because} |"
    yield ""
    yield "## Charges"
    yield ""
    yield "| name | stage | mechanism | units touched | epsilon | delta | entry | written at | hash |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for record in run.charges:
        charge, entry = record.charge, record.entry
        yield (
            f"| {charge.name} | {charge.stage} | {charge.mechanism} | {charge.scope} | {amount_text(charge.epsilon)} "
            f"| {amount_text(charge.delta)} | {entry.seq} | {entry.written_at} | {entry.hash} |"
        )
    for name in run.not_drawn:
        yield f"| {name} | never drawn | | | | | | | |"


def _flow_lines(run: FlowRecord) -> Iterator[str]:
    source = f"deployment {run.deployment}" if run.deployment else "no deployment"
    yield f"Flow run {run.id} of flow {run.flow}, {source}: begun {run.tries} time(s)."
    yield ""
    yield "| stage | tries | state | at | message |"
    yield "|---|---|---|---|---|"
    for name, tries, states in [("(flow)", run.tries, run.states), *((s.name, s.tries, s.states) for s in run.stages)]:
        for state in states:
            message = " ".join((state.message or "").split()).replace("|", "\\|")
            yield f"| {name} | {tries} | {state.name} | {state.at.isoformat()} | {message} |"
    yield ""
    for state in run.refusals:
        yield f"Refused by the budget at {state.at.isoformat()}: {' '.join((state.message or '').split())}"


def _versions(software: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in software.items())


def _sum(amount: Sum) -> str:
    return f"epsilon {amount_text(amount.epsilon)}, delta {amount_text(amount.delta)}"


def _at(stamp: Stamp) -> str:
    return f"entry {stamp.seq} at {stamp.written_at}, hash {stamp.hash}"


def _by(stamp: Stamp) -> str:
    purpose = "" if stamp.purpose is None else f", for: {stamp.purpose}"
    return f"{stamp.actor or 'unknown'} on {stamp.host or 'unknown'}{purpose}"
