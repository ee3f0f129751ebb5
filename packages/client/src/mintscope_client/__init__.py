"""Clients of a mintscope service: they read data, and pay within a budget.

    from mintscope_client import Client

    with Client("https://api.example", credential="svc_credit_...") as client:
        report = client.token("So11111111111111111111111111111111111111112")

Needs httpx, msgspec and typing-extensions; payments by a wallet (`auth`, `wallet`) also need
solders and x402.
A public name is imported when it is first used, so a program loads only the parts that it uses.
`__init__.pyi` declares the names to type checkers.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "AsyncClient": "async_client",
    "Client": "client",
    "ClientError": "errors",
    "CreditBudget": "budget",
}
__all__ = ["AsyncClient", "Client", "ClientError", "CreditBudget"]


def __getattr__(name: str) -> Any:
    """Import and return the public object *name* when it is first used (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
