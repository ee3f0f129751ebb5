"""Clients of a mintscope service: they read, and pay within a budget.

    from mintscope.client import Client

    with Client("https://api.example", credential="svc_credit_...") as client:
        report = client.token("So11111111111111111111111111111111111111112")

Needs httpx and msgspec; what pays by a wallet (`auth`, `wallet`) needs solders and x402 as well.
"""

from mintscope.client.async_client import AsyncClient
from mintscope.client.budget import CreditBudget
from mintscope.client.client import Client
from mintscope.client.errors import ClientError

__all__ = ["AsyncClient", "Client", "ClientError", "CreditBudget"]
