"""Block files of the made markets of `prove.prices`: each trade a swap of a pool with its vaults.

What a trade moved and left follows from its price, size and depth, and nothing from the decoder.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from random import Random
from typing import Any, Final, NamedTuple

from prove.prices.market import SOL_USD, START, Trade, trade

from support.scenes.made_transactions import USDC, WSOL, Ix, Tx, address, b58, checked, u64

CPMM: Final = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
CPMM_AUTHORITY: Final = "GpMZbSM2GgvTKHJirzeGfMFoaZ8UR2X7F4v8vHTvxFbL"
SWAP_BASE_INPUT: Final = hashlib.sha256(b"global:swap_base_input").digest()[:8]
SOL_DECIMALS: Final = 9
OTHER_DECIMALS: Final = 6
SOL: Final = "SOL"  # the market in which the rate is made
FIRST_SLOT: Final = 1_000


class Swapped(NamedTuple):
    """A trade as a block holds it."""

    signature: str
    mint: str
    trade: Trade


def sol_market(seconds: int, *, every_s: int = 5) -> list[Trade]:
    """Return trades of SOL at one price, by many people in four pools of 1,000,000 USD."""
    random = Random(0)
    return [
        trade(
            second,
            f"rate-{second // every_s % 4}",
            SOL_USD,
            random.uniform(100, 2_000),
            1_000_000,
            signer=f"person-{random.randrange(10**6)}",
        )
        for second in range(0, seconds, every_s)
    ]


def mint_of(market: str) -> str:
    """Return the mint of the token that is traded in *market*."""
    return WSOL if market == SOL else address(f"token of {market}")


def block_file(markets: Mapping[str, Sequence[Trade]]) -> tuple[bytes, list[Swapped]]:
    """Return blocks with the trades of all *markets*, one a second, and the trades in order."""
    swapped: list[Swapped] = []
    lines = list(_blocks(markets, swapped))
    return b"".join(
        json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines
    ), swapped


def _blocks(
    markets: Mapping[str, Sequence[Trade]], swapped: list[Swapped]
) -> Iterator[dict[str, Any]]:
    together = sorted(
        ((one, name) for name, trades in markets.items() for one in trades),
        key=lambda pair: pair[0].offer.time,
    )
    for time, trades in groupby(together, key=lambda pair: pair[0].offer.time):
        entries = []
        for one, name in trades:
            signature = b58(hashlib.sha512(f"trade {len(swapped)}".encode()).digest())
            swapped.append(Swapped(signature, mint_of(name), one))
            entries.append(_entry(swapped[-1], name))
        yield {"slot": FIRST_SLOT + time - START, "blockTime": time, "transactions": entries}


def _entry(swapped: Swapped, market: str) -> dict[str, Any]:
    """Return the transaction of a purchase; what it leaves in the vaults is what counts."""
    offer = swapped.trade.offer
    quote, decimals, rate = (USDC, OTHER_DECIMALS, 1.0)
    base_decimals = SOL_DECIMALS
    if market != SOL:
        quote, decimals, rate = WSOL, SOL_DECIMALS, SOL_USD
        base_decimals = OTHER_DECIMALS
    paid = round(offer.volume / 1e6 / rate * 10**decimals)
    received = round(offer.volume / 1e6 / offer.usd * 10**base_decimals)
    left = round((offer.depth or 0) / 1e6 / rate * 10**decimals)
    held = round((offer.depth or 0) / 1e6 / offer.usd * 10**base_decimals)
    pool = f"{offer.pool} of {market}"
    vault_in, vault_out = f"quote of {pool}", f"base of {pool}"
    mine, theirs = f"paid by {offer.signer}", f"received by {offer.signer}"
    accounts = [
        offer.signer, CPMM_AUTHORITY, "config", pool, mine, theirs, vault_in, vault_out,
    ]  # fmt: skip
    moved = [
        checked(mine, quote, vault_in, paid, decimals),
        checked(vault_out, swapped.mint, theirs, received, base_decimals),
    ]
    call = Ix(CPMM, accounts, SWAP_BASE_INPUT + u64(paid, 0), moved)
    tx = Tx(call, signers=(offer.signer,))
    tx.holds(mine, quote, offer.signer, decimals, before=paid)
    tx.holds(theirs, swapped.mint, offer.signer, base_decimals, after=received)
    tx.holds(vault_in, quote, CPMM_AUTHORITY, decimals, before=left - paid, after=left)
    tx.holds(
        vault_out, swapped.mint, CPMM_AUTHORITY, base_decimals, before=held + received, after=held
    )
    entry = tx.entry()
    entry["transaction"]["signatures"] = [swapped.signature]
    return entry


def last_second(markets: Mapping[str, Iterable[Trade]]) -> int:
    """Return the seconds from START to the newest trade."""
    return max(one.offer.time for trades in markets.values() for one in trades) - START
