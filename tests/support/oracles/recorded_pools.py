"""Checks the pools of swaps by the balances of a transaction; recorded expectations have no pools.

The name of a pool is an account of the transaction, or its two vaults, sorted and joined by `+`.
There is one vault for each mint.  No signer owns a vault, except the maker of a quote, who also
signs.
"""

from typing import Any, Final

QUOTED: Final = {"jupiter_rfq", "jupiter_rfq_v2"}


def keys_of(entry: dict[str, Any]) -> list[str]:
    """Return all accounts of *entry*, a getTransaction result."""
    loaded = (entry.get("meta") or {}).get("loadedAddresses") or {"writable": [], "readonly": []}
    static = entry["transaction"]["message"]["accountKeys"]
    return [*static, *loaded["writable"], *loaded["readonly"]]


def pool_trouble(entry: dict[str, Any], swap: dict[str, Any]) -> str:
    """Return the problem with the pool of *swap*, a line of `decode`; "" if there is none."""
    keys = keys_of(entry)
    names = (swap["pool"] or "").split("+")
    if missing := [name for name in names if name not in keys]:
        return f"no accounts of the transaction: {missing}"
    if len(names) == 1:
        return ""
    if names != sorted(names) or len(set(names)) != len(names):
        return "not sorted"
    header = entry["transaction"]["message"].get("header") or {}
    signers = keys[: header.get("numRequiredSignatures", 1)]
    held = {
        keys[balance["accountIndex"]]: (balance["mint"], balance.get("owner"))
        for side in ("preTokenBalances", "postTokenBalances")
        for balance in entry["meta"].get(side) or ()
    }
    if {held[name][0] for name in names if name in held} - {swap["in_mint"], swap["out_mint"]}:
        return "a vault of another mint"
    if swap["program"] in QUOTED:
        signers = []
    if any(held[name][1] in signers for name in names if name in held):
        return "a vault that a signer owns"
    return ""
