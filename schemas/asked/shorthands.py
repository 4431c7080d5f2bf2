"""Complete shorthands of a study file: an automatic estimator, a protocol of one question.

``estimator: {name: auto}`` leaves the estimator to public facts. It becomes a study of one of the estimators below
before anything is declared, so no stage and no ledger entry knows it. Which one is decided where the number of units is
known (``flows/sequence/estimators.py``).

A plain study that asks what only a protocol answers becomes the protocol of one question. Subgroups and eligibility are
counted privately, and ratios need the means of both arms, which the joint releases of a protocol have. An analyst who
adds such a key to a plain study need not write it anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from causalveil.schemas.documents import Document
from causalveil.schemas.errors import StudyError
from causalveil.schemas.privacy import Level
from causalveil.schemas.studies import STUDIES
from causalveil.schemas.study import EstimatorSettings, Finite, PrivacyRequest

# What a study file says under ``estimator`` and ``privacy``.
Option = tuple[dict[str, Any], PrivacyRequest]


class AutoEstimator(EstimatorSettings):
    """The estimator of least expected error, by level, size, budget and design.

    ``trial``: treatment was randomised. ``known``: each unit's known chance of treatment in it.
    """

    name: Literal["auto"]
    trial: bool = False
    known: Annotated[Finite, Field(gt=0, lt=1)] | None = None


def options(auto: AutoEstimator, privacy: PrivacyRequest) -> list[Option]:
    """Return the estimators, with their privacy, that ``auto`` may choose, most usual first.

    All are of one level and design, so that a release identifies its study file. At label level no option spends a
    delta: a draw of two numbers gains nothing by it.
    """
    trial = auto.trial or auto.known is not None
    if privacy.level is Level.training_units:
        return [({"name": "ipw", "confounding_prior": {"outcome_r2": 0.0}} if trial else {"name": "ipw"}, privacy)]
    if privacy.level is Level.label:
        free = privacy.model_copy(update={"delta": Decimal(0)})
        return [({"name": "balancing", "allowance": 0.0} if trial else {"name": "balancing"}, free)]
    if not trial:
        return [({"name": "regression"}, privacy)]
    found: list[Option] = [
        ({"name": "regression", "trial": True}, privacy),
        ({"name": "difference_in_means", "trial": True}, privacy),
    ]
    if auto.known is not None:
        found.append(({"name": "aipw", "propensity": {"known": auto.known}}, privacy))
    return found


# Keys of a plain study that make it a protocol.
MAKE_A_PROTOCOL = ("where", "subgroups", "measure")
# What a plain study answers already.
PLAIN = ("difference", ["difference"])


def as_protocol(document: Mapping[str, Any], where: str = "study") -> Mapping[str, Any]:
    """Return a plain study with subgroups or eligibility as a protocol of its outcome.

    Any other study is returned as it is.

    Raises:
        StudyError: its estimator answers no protocol; says which do.
    """
    if document.get("kind") != "effect":
        return document
    estimator = document.get("estimator")
    name = estimator.get("name") if isinstance(estimator, Mapping) else None
    # An estimator whose own study has such a key means something else by it.
    own = STUDIES["effect"][name].model_fields if isinstance(name, str) and name in STUDIES["effect"] else {}
    keys = tuple(key for key in MAKE_A_PROTOCOL if key not in own)
    asked = [key for key in keys if document.get(key) and document[key] not in PLAIN]
    if not asked:
        return _without(document, [key for key in keys if not document.get(key) or document[key] in PLAIN])
    if isinstance(name, str) and name in STUDIES["effect"] and name not in STUDIES["protocol"]:
        raise StudyError(f"{where}: '{asked[0]}': {_instead(asked[0], name)}")
    made = Document({"kind": "protocol"} | {key: value for key, value in document.items() if key != "kind"})
    if "outcome" in made:
        outcome = made.pop("outcome")
        named = {"name": outcome} if isinstance(outcome, str) else outcome
        made["outcomes"] = [{**named, "role": "primary"}] if isinstance(named, Mapping) else named
    if isinstance(document, Document):
        made.lines = {_moved(place): line for place, line in document.lines.items()}
    return made


def _instead(key: str, name: str) -> str:
    """Say which estimators answer what another does not."""
    if key == "measure":
        return (
            f"estimator '{name}' does not release arm means with their errors; in a randomised trial use "
            "{name: difference_in_means, trial: true} at level 'sample', else leave 'measure' out"
        )
    said = (
        f"estimator '{name}' answers for all units alone; use 'regression' or 'difference_in_means' at level 'sample', "
        "'balancing' or 'matching' at level 'label'"
    )
    owner = "a table of the eligible alone: a 'query' with WHERE in source.yaml"
    return f"{said}. Or let the data's owner extract {owner}" if key == "where" else said


def _moved(place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return ("outcomes", 0, *place[1:]) if place[:1] == ("outcome",) else place


def _without(document: Mapping[str, Any], keys: Collection[str]) -> Mapping[str, Any]:
    """Leave out keys that say nothing."""
    if not any(key in document for key in keys):
        return document
    rest = Document({key: value for key, value in document.items() if key not in keys})
    if isinstance(document, Document):
        rest.lines = document.lines
    return rest
