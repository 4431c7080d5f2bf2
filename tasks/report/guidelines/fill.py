"""The guidelines that apply to a release, with every item that its documents answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalveil.schemas.contract import Contract
from causalveil.schemas.release import EffectRelease, ProtocolRelease, Release
from causalveil.schemas.sites.pooled import Published
from causalveil.tasks.report.flow import UnitFlow, unit_flow
from causalveil.tasks.report.guidelines.facts import facts_of
from causalveil.tasks.report.guidelines.items import GUIDELINES, Checklist
from causalveil.tasks.report.guidelines.variables import rows_text


def checklists(
    release: Mapping[str, Any], arms: Mapping[str, Any], flow: UnitFlow, contract: Contract | None
) -> tuple[Checklist, ...]:
    """Return the checklists TARGET, STROBE and RECORD-PE of an observational study.

    There is none where treatment was randomised.

    Args:
        release: the document of a release of one effect or of a protocol.
        arms: how units came into the arms.
        flow: of its units.
        contract: the owner's, where it is at hand.
    """
    if arms["randomised"]:
        return ()
    facts = facts_of(release, arms, flow, contract)
    return tuple(
        Checklist(title, source, tuple(item.filled(facts) for item in items)) for title, source, items in GUIDELINES
    )


def guidelines_context(
    release: Published, document: Mapping[str, Any], arms: Mapping[str, Any], contract: Contract | None
) -> dict[str, Any]:
    """Return ``flow``, ``contract`` and ``checklists`` for the templates.

    A pooled release has no flow of its own, and only effects of one run, but those on times, have checklists.
    """
    if not isinstance(release, Release):
        return {"flow": None, "checklists": None}
    flow = unit_flow(document, rows_text(contract) if contract and contract.rows else "")
    of_times = isinstance(release, ProtocolRelease) and bool(release.curves)
    if of_times or not isinstance(release, EffectRelease | ProtocolRelease):
        return {"flow": flow, "checklists": None}
    return {"flow": flow, "contract": contract, "checklists": checklists(document, arms, flow, contract)}
