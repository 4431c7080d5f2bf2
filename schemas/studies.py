"""Every kind of study and every estimator by name: what a study file may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from causalveil.schemas.documents import read_yaml, validate
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.study import Study

# kind -> estimator name -> the study that declares it.
STUDIES: dict[str, dict[str, type[Study]]] = {
    "effect": {
        "ipw": IpwStudy,
        "matching": MatchingStudy,
        "aipw": AipwStudy,
        "difference_in_means": DifferenceStudy,
        "regression": RegressionStudy,
    },
    "direction": {"direction": DirectionStudy},
}


def estimator_names() -> tuple[str, ...]:
    """Every estimator that a policy may allow."""
    return tuple(name for names in STUDIES.values() for name in names)


def parse_study(document: Mapping[str, Any], where: str = "study") -> Study:
    """A study from a document: its kind and the name of its estimator choose the model.

    Raises:
        StudyError: with every problem in one line.
    """
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in STUDIES:
        raise StudyError(f"{where}: 'kind' must be one of: {', '.join(STUDIES)}")
    known = STUDIES[kind]
    estimator = document.get("estimator")
    name = estimator.get("name") if isinstance(estimator, Mapping) else None
    if not isinstance(name, str) or name not in known:
        raise StudyError(f"{where}: 'estimator.name' must be one of: {', '.join(known)}")
    return validate(known[name], document, where)


def load_study(path: Path) -> Study:
    """Read and validate a study file.

    Raises:
        StudyError: with every problem in one line.
    """
    return parse_study(read_yaml(path), str(path))
