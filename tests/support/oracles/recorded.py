"""Expected swaps of recorded transactions, as their files have them, and checks of swaps' pools.

The amount that a pool receives is the gain of its vault, without a fee that the mint withholds.
One recorded swap of a mint with a transfer fee was written with the fee: 358,800 instead of
344,448; `with_gain` corrects it.

Recorded expectations name no pools.  In a decoded swap, a pool is named by an account of the
transaction, or by its two vaults, sorted and joined by `+`.  There is one vault for each mint.  No
signer owns a vault, except the maker of a quote, who also signs.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from mintscope.dex.outcome import Swap
from mintscope.market.quotes import oriented

SIGNATURE: Final = (
    "2bhr1FWqeL28zH1BJR1h3PxkVorh5GD3koPUgzKMKFtxUKK5k3R3UraU8YRoB5yxKDi5AZafp3Xf74AXTf9LDqWc"
)
SENT, GAINED = "358800", "344448"
QUOTED: Final = {"jupiter_rfq", "jupiter_rfq_v2"}


def with_gain(line: dict[str, Any]) -> dict[str, Any]:
    """Return *line* with the amount that the vault gained, and the values computed from it.

    Only the recorded line with a fee differs; others are returned unchanged.
    """
    if line["signature"] != SIGNATURE or line["in_amount"] != SENT:
        return line
    volume = Decimal(GAINED).scaleb(-line["in_decimals"])
    price = Decimal(line["quote_volume"]) / volume
    return {
        **line,
        "in_amount": GAINED,
        "base_volume": str(volume),
        "price": str(price.normalize()),
    }


def keys_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the accounts of *entry*, a transaction, in the order of their indexes."""
    loaded = (entry.get("meta") or {}).get("loadedAddresses") or {"writable": [], "readonly": []}
    static = entry["transaction"]["message"]["accountKeys"]
    return [*static, *loaded["writable"], *loaded["readonly"]]


def pool_trouble(entry: dict[str, Any], swap: dict[str, Any]) -> str:
    """Return an error about the pool of *swap*, a line printed by `decode`; "" if there is none."""
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


def facts(swap: Swap) -> dict[str, Any]:
    """Return *swap* in the form of the files of expected swaps."""
    seen = oriented(swap)
    if seen is None:
        base = quote = quote_kind = side = None
    else:
        base, quote, quote_kind = seen.base, seen.quote, seen.quote_kind
        side = "buy" if seen.is_buy else "sell"
    return {
        "signature": swap.signature,
        "ix": [swap.outer, swap.inner],
        "program": swap.program,
        "pool": swap.pool,
        "in_mint": swap.in_mint,
        "in_amount": str(swap.in_amount),
        "in_decimals": swap.in_decimals,
        "out_mint": swap.out_mint,
        "out_amount": str(swap.out_amount),
        "out_decimals": swap.out_decimals,
        "base": base,
        "quote": quote,
        "quote_kind": quote_kind,
        "side": side,
    }
