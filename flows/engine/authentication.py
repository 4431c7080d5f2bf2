"""A deployed run wants a server that asks for a password.

Whoever reaches the API of a Prefect server may have its workers run any code. A server that answers an unauthenticated
call has been set up without ``PREFECT_SERVER_API_AUTH_STRING``, and no run is to make that useful.
"""

from __future__ import annotations

import os

from causalveil.schemas.errors import SiteError

# Set to "test", a run takes an open server: of a test, with made-up data.
OPEN_SERVER = "CAUSALVEIL_OPEN_SERVER"


def refuse_open_server() -> None:
    """End a deployed run whose server answers a call without a password.

    A run from the command line may use an open server of its own machine, or Prefect's temporary one: nothing there
    waits to be told what to run.

    Raises:
        SiteError: the server is open.
    """
    from prefect import runtime
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if not runtime.deployment.id or not url or os.environ.get(OPEN_SERVER) == "test":
        return
    if lets_anybody_in(url):
        raise SiteError(
            "the Prefect server answers calls without a password, and whoever reaches it runs code as this worker; "
            "start it with PREFECT_SERVER_API_AUTH_STRING, give its clients PREFECT_API_AUTH_STRING (deploy/README.md)"
        )


def lets_anybody_in(url: str) -> bool:
    """Return whether the API at ``url`` answers a call that carries no credentials.

    A server that hangs up on such a call does not: it wants a client certificate, say.
    """
    import httpx

    # Nothing secret is sent and nothing that comes back is believed, so the certificate may be anybody's.
    try:
        with httpx.Client(verify=False, timeout=30, trust_env=False) as client:
            return client.get(f"{url.rstrip('/')}/admin/version").is_success
    except httpx.HTTPError:
        return False
