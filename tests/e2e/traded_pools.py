"""Block files of the made-up markets of `prove.prices`: each trade is a swap in a pool with vaults.

The amounts of a trade follow from its price, size and depth; no code comes from the decoder.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
from prove.prices.market import SOL_USD, START, UNNAMED, Trade, trade

from support.scenes.made_transactions import USDC, WSOL, Ix, Tx, address, b58, checked, u64

CPMM: Final = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
CPMM_AUTHORITY: Final = "GpMZbSM2GgvTKHJirzeGfMFoaZ8UR2X7F4v8vHTvxFbL"
SWAP_BASE_INPUT: Final = hashlib.sha256(b"global:swap_base_input").digest()[:8]
SOL_DECIMALS: Final = 9
OTHER_DECIMALS: Final = 6
SOL: Final = "SOL"  # the name of the market that sets the SOL rate
FIRST_SLOT: Final = 1_000
# A fake venue that names the vaults of another pool
BORROWED: Final = f"{UNNAMED}, with the vaults of "
PUMPFUN: Final = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
MIGRATE: Final = hashlib.sha256(b"global:migrate").digest()[:8]


class Swapped(NamedTuple):
    """A trade, with the signature of its transaction and the mint of its token."""

    signature: str
    mint: str
    trade: Trade


class Leg(NamedTuple):
    """One exchange of several in a transaction.

    given   the amount that the pool receives: (mint, raw units)
    got     the amount that the pool pays: (mint, raw units)
    """

    pool: str
    signer: str
    given: tuple[str, int]
    got: tuple[str, int]


class Together(NamedTuple):
    """A transaction of several exchanges.

    at_s   its time in seconds after START
    """

    at_s: int
    legs: Sequence[Leg]
    left: Mapping[str, int]  # raw units in the vaults after the transaction, by mint


class _Side:
    """One token of a pool in a trade: the raw units that are exchanged, and those that are left."""

    def __init__(self, name: str, mint: str, traded: float, left: float) -> None:
        self.name = name
        self.mint = mint
        self.decimals = _decimals(mint)
        self.traded = round(traded * 10**self.decimals)
        self.left = round(left * 10**self.decimals)


def sol_market(seconds: int, *, every_s: int = 5) -> list[Trade]:
    """Return trades of SOL at one price, by many signers in four pools of 1,000,000 USD."""
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


def block_file(
    markets: Mapping[str, Sequence[Trade]],
    curves: Mapping[str, Mapping[str, str]] | None = None,
    together: Sequence[Together] = (),
) -> tuple[bytes, list[Swapped]]:
    """Return blocks, one per second, with the trades of *markets*; and these trades in order.

    curves     by market and pool, the curve that the pool replaces: a migration is added just
               before the pool's first trade
    together   transactions of several exchanges; they come first in their block
    """
    swapped: list[Swapped] = []
    replaced = {name: dict(pools) for name, pools in (curves or {}).items()}
    lines = list(_blocks(markets, swapped, replaced))
    for number, one in enumerate(together):
        line = next(each for each in lines if each["blockTime"] >= START + one.at_s)
        line["transactions"].insert(0, _atomic(one, number))
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines), swapped


def _blocks(
    markets: Mapping[str, Sequence[Trade]],
    swapped: list[Swapped],
    curves: Mapping[str, dict[str, str]],
) -> Iterator[dict[str, Any]]:
    together = sorted(
        ((one, name) for name, trades in markets.items() for one in trades),
        key=lambda pair: pair[0].offer.time,
    )
    for time, trades in groupby(together, key=lambda pair: pair[0].offer.time):
        entries = []
        for one, name in trades:
            curve = curves.get(name, {}).pop(one.offer.pool, None)
            if curve is not None:
                entries.append(_migration(name, curve, one.offer.pool))
            signature = _signature(f"trade {len(swapped)}")
            swapped.append(Swapped(signature, mint_of(name), one))
            entries.append(_entry(swapped[-1], name))
        yield {"slot": FIRST_SLOT + time - START, "blockTime": time, "transactions": entries}


def _entry(swapped: Swapped, market: str) -> dict[str, Any]:
    """Return the transaction of a purchase or a sale, with the balances of the vaults after it."""
    offer = swapped.trade.offer
    quote, rate = (USDC, 1.0) if market == SOL else (WSOL, SOL_USD)
    volume = offer.volume / 1e6
    depth = (offer.depth or 0) / 1e6
    sides = [
        _Side("quote", quote, volume / rate, depth / rate),
        _Side("base", swapped.mint, volume / offer.usd, depth / offer.usd),
    ]
    given, got = sides if offer.is_buy else sides[::-1]
    pool = f"{offer.pool} of {market}"
    holder = pool.removeprefix(BORROWED)
    vault_in = f"{given.name} of {holder}"
    vault_out = f"{got.name} of {holder}"
    mine, theirs = f"paid by {offer.signer}", f"received by {offer.signer}"
    accounts = [
        offer.signer, CPMM_AUTHORITY, "config", pool, mine, theirs, vault_in, vault_out,
    ]  # fmt: skip
    moved = [
        checked(mine, given.mint, vault_in, given.traded, given.decimals),
        checked(vault_out, got.mint, theirs, got.traded, got.decimals),
    ]
    program = address("venue") if offer.pool.startswith(UNNAMED) else CPMM
    call = Ix(program, accounts, SWAP_BASE_INPUT + u64(given.traded, 0), moved)
    tx = Tx(call, signers=(offer.signer,))
    tx.holds(mine, given.mint, offer.signer, given.decimals, before=given.traded)
    tx.holds(theirs, got.mint, offer.signer, got.decimals, after=got.traded)
    for vault, side, gained in ((vault_in, given, given.traded), (vault_out, got, -got.traded)):
        before = side.left - gained
        tx.holds(vault, side.mint, CPMM_AUTHORITY, side.decimals, before=before, after=side.left)
    return _signed(tx, swapped.signature)


def _migration(market: str, curve: str, pool: str) -> dict[str, Any]:
    """Return a pump.fun transaction that moves the token of *market* from *curve* to *pool*."""
    accounts = [
        "global", "withdraw authority", mint_of(market), f"{curve} of {market}", "its vault",
        "user", "system", "tokens", "amm", f"{pool} of {market}", "pool authority",
    ]  # fmt: skip
    left = f"quote of {curve} of {market}"
    filled = f"quote of {pool} of {market}"
    sol = 10**SOL_DECIMALS
    moved = checked(left, WSOL, filled, sol, SOL_DECIMALS)
    tx = Tx(Ix(PUMPFUN, accounts, MIGRATE, [moved]))
    tx.holds(left, WSOL, "curves", SOL_DECIMALS, before=sol)
    tx.holds(filled, WSOL, CPMM_AUTHORITY, SOL_DECIMALS, after=sol)
    return _signed(tx, _signature(f"migration of {market} to {pool}"))


def _atomic(one: Together, number: int) -> dict[str, Any]:
    """Return the transaction of *one*; the change of each vault is the sum of the legs."""
    calls: list[Ix] = []
    moved = Counter[tuple[str, str]]()
    for pool, signer, (paid, given), (received, got) in one.legs:
        vaults = {mint: f"{mint} of {pool}" for mint in (paid, received)}
        mine = {mint: f"{mint} of {signer}" for mint in (paid, received)}
        accounts = [
            signer, CPMM_AUTHORITY, "config", pool, mine[paid], mine[received], vaults[paid],
            vaults[received],
        ]  # fmt: skip
        transfers = [
            checked(mine[paid], paid, vaults[paid], given, _decimals(paid)),
            checked(vaults[received], received, mine[received], got, _decimals(received)),
        ]
        calls.append(Ix(CPMM, accounts, SWAP_BASE_INPUT + u64(given, 0), transfers))
        moved[pool, paid] += given
        moved[pool, received] -= got
        moved[signer, paid] -= given
        moved[signer, received] += got
    signers = tuple(dict.fromkeys(leg.signer for leg in one.legs))
    tx = Tx(*calls, signers=signers)
    for (holder, mint), gained in moved.items():
        owner = holder if holder in signers else CPMM_AUTHORITY
        after = one.left[mint]
        account = f"{mint} of {holder}"
        tx.holds(account, mint, owner, _decimals(mint), before=after - gained, after=after)
    return _signed(tx, _signature(f"together {number}"))


def _signature(text: str) -> str:
    return b58(hashlib.sha512(text.encode()).digest())


def _signed(tx: Tx, signature: str) -> dict[str, Any]:
    entry = tx.entry()
    entry["transaction"]["signatures"] = [signature]
    return entry


def _decimals(mint: str) -> int:
    return SOL_DECIMALS if mint == WSOL else OTHER_DECIMALS


def last_second(markets: Mapping[str, Iterable[Trade]]) -> int:
    """Return the number of seconds from START to the newest trade."""
    return max(one.offer.time for trades in markets.values() for one in trades) - START
