"""policy.yaml: what the data's owner allows. It lies beside the data; without one nothing runs."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from causalveil.schemas.documents import read_yaml, validate
from causalveil.schemas.errors import BudgetRefused, PolicyError
from causalveil.schemas.privacy import Frozen, Guarantee, Half, Level, PrivacyCost
from causalveil.schemas.signatures.public_keys import PublicKey
from causalveil.schemas.studies import estimator_names
from causalveil.schemas.study import Slug, Study

POLICY_FILE = "policy.yaml"


class DataClass(StrEnum):
    """How the owner classes the data; ``sensitive`` data need an owner's grant and refuse seeded noise."""

    public = "public"
    synthetic = "synthetic"
    sensitive = "sensitive"


class Review(StrEnum):
    """Whether a release is held until the owner approves it."""

    none = "none"
    required = "required"


def _known_estimator(name: str) -> str:
    if name not in estimator_names():
        raise ValueError(f"unknown estimator; one of: {', '.join(estimator_names())}")
    return name


EstimatorName = Annotated[str, AfterValidator(_known_estimator)]


class Policy(Frozen):
    """The owner's word on one dataset."""

    dataset: Slug
    data_class: DataClass
    ledger: Annotated[str | None, Field(pattern=r"^[0-9a-f]{32}$")] = None
    caps: Annotated[dict[Level, PrivacyCost], Field(min_length=1)]
    estimators: Annotated[tuple[EstimatorName, ...], Field(min_length=1)]
    guarantees: Annotated[tuple[Guarantee, ...], Field(min_length=1)]
    units_span_blocks: bool = False
    unbounded_halves: Annotated[
        tuple[Half, ...],
        Field(description="halves of a split that a study may leave without any privacy bound"),
    ] = ()
    review: Review = Review.none
    owner_key: Annotated[
        PublicKey | None, Field(description="the owner's public key; grants of sensitive data are signed")
    ] = None
    # A share of the cap: once less is left of it, scheduled runs tell (event ``causalveil.budget.low``).
    warn_below: Annotated[float | None, Field(gt=0, lt=1, strict=False)] = None

    @model_validator(mode="after")
    def _somebody_can_review(self) -> Policy:
        if self.review is Review.required and self.owner_key is None:
            raise ValueError("'review: required' needs 'owner_key': the owner prints it by `causalveil owner key`")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 over what the policy allows: not the ledger's identity, nor when somebody is told."""
        # Left out where it says nothing, so that older policies keep their digest.
        fields = {name: type(self).model_fields[name] for name in ("unbounded_halves", "review", "owner_key")}
        silent = {name for name, field in fields.items() if getattr(self, name) == field.default}
        text = self.model_dump_json(exclude={"ledger", "warn_below"} | silent)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def for_simulation(self) -> Policy:
        """What a ledger that is thrown away is asked: no owner's hand, no review, no particular ledger."""
        return self.model_copy(update={"ledger": None, "review": Review.none, "owner_key": None})


def load_policy(path: Path) -> Policy:
    """Read and validate a policy file.

    Raises:
        PolicyError: missing or wrong.
    """
    if not path.exists():
        raise PolicyError(f"{path}: no policy; the data's owner must put one beside the data before anything runs")
    return validate(Policy, read_yaml(path, PolicyError), str(path), PolicyError)


def check_allowed(policy: Policy, study: Study, *, simulate: bool) -> None:
    """Check everything that a policy forbids but amounts, which are the ledger's.

    Args:
        policy: what the owner allows.
        study: what is asked.
        simulate: whether noise is to come from a seed.

    Raises:
        PolicyError: seeded noise on sensitive data; or the estimator, its guarantee or an unbounded half is forbidden.
        BudgetRefused: the level has no cap.
    """
    if simulate and policy.data_class is DataClass.sensitive:
        raise PolicyError(
            "--simulate is refused for sensitive data: noise that can be made again is no noise; "
            "use `causalveil simulate` for data to try things on"
        )
    if study.estimator.name not in policy.estimators:
        raise PolicyError(f"the policy of '{policy.dataset}' does not allow estimator '{study.estimator.name}'")
    if study.guarantee not in policy.guarantees:
        raise PolicyError(f"the policy of '{policy.dataset}' does not allow guarantee '{study.guarantee}'")
    forbidden = [half for half in study.unbounded if half not in policy.unbounded_halves]
    if forbidden:
        raise PolicyError(
            f"the policy of '{policy.dataset}' does not allow a study that leaves the {forbidden[0]} half without a "
            f"privacy bound; its owner may write 'unbounded_halves: [{forbidden[0]}]', or the study protect both halves"
        )
    if study.privacy.level not in policy.caps:
        raise BudgetRefused(
            f"the policy of '{policy.dataset}' names no cap for level '{study.privacy.level}', so it is forbidden; "
            f"levels allowed: {', '.join(sorted(policy.caps))}"
        )
