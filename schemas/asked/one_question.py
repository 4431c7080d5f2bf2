"""A plain study that asks what only a protocol answers becomes the protocol of one question.

Subgroups and eligibility are counted privately, which the joint releases of a protocol do; so whoever
adds such a key to a plain study has not to write it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalveil.schemas.documents import Document
from causalveil.schemas.errors import StudyError
from causalveil.schemas.studies import STUDIES

# Keys of a plain study that make it a protocol.
MAKE_A_PROTOCOL = ("where", "subgroups")


def as_protocol(document: Mapping[str, Any], where: str = "study") -> Mapping[str, Any]:
    """Return a plain study with subgroups or eligibility as a protocol of its outcome; any other study as it is.

    Raises:
        StudyError: its estimator answers no protocol; says which do.
    """
    if document.get("kind") != "effect":
        return document
    asked = [key for key in MAKE_A_PROTOCOL if document.get(key)]
    if not asked:
        return _without(document, MAKE_A_PROTOCOL)
    estimator = document.get("estimator")
    name = estimator.get("name") if isinstance(estimator, Mapping) else None
    if isinstance(name, str) and name in STUDIES["effect"] and name not in STUDIES["protocol"]:
        raise StudyError(
            f"{where}: '{asked[0]}': estimator '{name}' answers of everybody alone; use 'regression' or "
            "'difference_in_means' at level 'sample', 'balancing' or 'matching' at level 'label'. Or let the data's "
            "owner extract a table of the eligible alone: a 'query' with WHERE in source.yaml"
        )
    made = Document({"kind": "protocol"} | {key: value for key, value in document.items() if key != "kind"})
    if "outcome" in made:
        outcome = made.pop("outcome")
        named = {"name": outcome} if isinstance(outcome, str) else outcome
        made["outcomes"] = [{**named, "role": "primary"}] if isinstance(named, Mapping) else named
    if isinstance(document, Document):
        made.lines = {_moved(place): line for place, line in document.lines.items()}
    return made


def _moved(place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return ("outcomes", 0, *place[1:]) if place[:1] == ("outcome",) else place


def _without(document: Mapping[str, Any], keys: tuple[str, ...]) -> Mapping[str, Any]:
    """Leave out keys that say nothing."""
    if not any(key in document for key in keys):
        return document
    rest = Document({key: value for key, value in document.items() if key not in keys})
    if isinstance(document, Document):
        rest.lines = document.lines
    return rest
