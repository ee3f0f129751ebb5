"""Checks the arguments of a new client before its first request."""

import random
from typing import Final

import httpx

from mintscope_client.budget import CreditBudget
from mintscope_client.calls.clock import SystemClock
from mintscope_client.calls.conversation import PATIENCE_S, TIMEOUT_S, CallSession, PayingAuth
from mintscope_client.wire import CredentialKind, is_well_formed

SPENDING: Final = (CredentialKind.CREDIT_TOKEN, CredentialKind.API_KEY)


def open_session(  # noqa: PLR0913 - one argument for each setting
    url: str,
    *,
    credential: str | None = None,
    payer: PayingAuth | None = None,
    budget: CreditBudget | None = None,
    patience_s: float = PATIENCE_S,
    timeout_s: float = TIMEOUT_S,
    retries_max: int | None = None,
) -> CallSession:
    """Return a session with the service at *url*, for all calls of a client.

    Raises ValueError if *url* or *credential* does not have the expected form.
    """
    expected = f"expected a URL as in https://api.example; was {url[:100]!r}"
    try:
        origin = httpx.URL(url)
    except httpx.InvalidURL as cause:  # it is no ValueError
        raise ValueError(f"{expected}: {cause}") from cause
    if origin.scheme not in {"http", "https"} or not origin.host:
        raise ValueError(expected)
    if credential is not None and not any(is_well_formed(kind, credential) for kind in SPENDING):
        raise ValueError(
            "expected a credit token, svc_credit_ and 64 hex digits, or an API key, svc_live_ and"
            " 80; a digit is wrong or missing"
        )
    return CallSession(
        origin=origin.copy_with(raw_path=b"/", fragment=None),
        credential=credential,
        payer=payer,
        budget=CreditBudget() if budget is None else budget,
        patience_s=patience_s,
        timeout_s=timeout_s,
        retries_max=retries_max,
        clock=SystemClock(),
        chance=random.random,
    )
