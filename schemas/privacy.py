"""The vocabulary of the guarantee: who is protected, against what, and what it costs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from schemas.amounts import Amount


class Frozen(BaseModel):
    """Base of all contracts: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Neighbours(StrEnum):
    """The neighbouring relation. One for the whole house; ``docs/privacy.md`` says what depends on it."""

    replace_one = "replace_one"


class Level(StrEnum):
    """What may differ between neighbours.

    ``sample``: a unit's whole row. ``label``: its outcome alone (covariates and treatment are public by
    declaration). ``training_units``: the whole row of a unit in the training half; the other half is unbounded.
    """

    sample = "sample"
    label = "label"
    training_units = "training_units"


class Guarantee(StrEnum):
    """On what the privacy proof rests: this sample size, or a limit argument."""

    finite_sample = "finite_sample"
    asymptotic = "asymptotic"


class Scope(StrEnum):
    """The set of units that a release reads. ``train`` and ``estimation`` are disjoint; ``all`` meets both."""

    all = "all"
    train = "train"
    estimation = "estimation"


class Norm(StrEnum):
    """The norm in which a sensitivity is measured."""

    l1 = "l1"
    l2 = "l2"
    bit = "bit"


class PrivacyCost(Frozen):
    """An (epsilon, delta) pair in exact decimals."""

    epsilon: Amount
    delta: Amount


class Charge(Frozen):
    """One declared draw of noise: what it is, whom it touches, what it costs.

    ``sensitivity`` and ``noise_scale`` are None in a plan whose number of units is unknown; ``formula`` then says
    what they will be. In a release both are numbers.
    """

    name: Annotated[str, Field(description="release name; with the run id, the key under which it is drawn once")]
    stage: str
    mechanism: str
    scope: Scope
    norm: Norm
    sensitivity: float | None
    formula: str
    noise_scale: float | None
    epsilon: Amount
    delta: Amount
