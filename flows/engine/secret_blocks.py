"""Credentials that Prefect keeps for a worker, in its Secret blocks."""

from __future__ import annotations

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.warehouse import Credential


def secret_of(place: Credential) -> str | None:
    """The text of the Secret block that ``place`` names; None if there is no such block.

    Raises:
        CausalveilError: Prefect cannot be reached.
    """
    from prefect.blocks.system import Secret

    failure = None
    try:
        found = Secret.load(str(place.block)).get()  # type: ignore[union-attr]  # the call is synchronous here
    except ValueError:
        return None
    except Exception as problem:
        failure = type(problem).__name__
    if failure:
        raise CausalveilError(
            f"Prefect Secret block '{place.block}' cannot be loaded ({failure}); check PREFECT_API_URL"
        )
    return found if isinstance(found, str) else None
