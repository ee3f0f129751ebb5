"""The expected pools of a mint and their candles, computed from a list of all trades."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.pool_book import BookedPool
from mintscope.market.log import PricedSwap

SPAN_S: Final = 300
DAY_S: Final = 86_400
POOLS_MAX: Final = 32
Timed = tuple[int, PricedSwap]
Trades = Mapping[str, Sequence[Timed]]


def trades_in_book(slots: Sequence[tuple[int, int, Sequence[PricedSwap]]]) -> Trades:
    """Return the trades of each pool since it entered the pool book.

    If the book is full, a new pool replaces the pool with the least volume of this UTC day and the
    day before; of pools with equal volume, the first by name.

    slots   the number, the time and the swaps of each slot
    """
    book: dict[str, list[Timed]] = {}
    for _, time, swaps in slots:
        for swap in swaps:
            assert swap.pool is not None
            if swap.pool not in book and len(book) == POOLS_MAX:
                yesterday = time // DAY_S - 1
                _, least = min(
                    (sum(one.volume for at, one in own if at // DAY_S >= yesterday), pool)
                    for pool, own in book.items()
                )
                del book[least]
            book.setdefault(swap.pool, []).append((time, swap))
    return book


def candles(own: Sequence[Timed]) -> list[list[Any]]:
    """Return the candles of one pool's trades, in order of time.

    Each is a list: start, open, high, low, close, bought, sold, number of swaps.
    """
    found = []
    for start in sorted({time - time % SPAN_S for time, _ in own}):
        swaps = [swap for time, swap in own if start <= time < start + SPAN_S]
        usd = [swap.price_usd for swap in swaps if swap.price_usd is not None]
        prices = [usd[0], max(usd), min(usd), usd[-1]] if usd else [None] * 4
        bought = sum(swap.volume for swap in swaps if swap.is_buy)
        sold = sum(swap.volume for swap in swaps) - bought
        found.append([UnixS(start), *prices, bought, sold, len(swaps)])
    return found


def booked_pools(trades: Trades) -> list[BookedPool]:
    """Return the pools of *trades* as a pool book should have them; swaps must have no evidence."""
    newest = max(time for own in trades.values() for time, _ in own)
    return [_booked(pool, own, newest - newest % SPAN_S) for pool, own in trades.items()]


def _booked(pool: str, own: Sequence[Timed], newest_span: int) -> BookedPool:
    day = own[-1][0] // DAY_S
    (venue,) = {swap.detail.program for _, swap in own if swap.detail}
    (quote,) = {swap.detail.quote for _, swap in own if swap.detail}
    newest = candles(own)[-1]
    return BookedPool(
        pool=pool,
        since=UnixS(own[0][0]),
        day=day,
        volume=sum(swap.volume for time, swap in own if time // DAY_S == day),
        volume_before=sum(swap.volume for time, swap in own if time // DAY_S == day - 1),
        venue=venue,
        quote=quote,
        candle=newest if newest[0] == newest_span else None,
    )


def pool_rows(trades: Trades, after: int) -> list[tuple[Any, ...]]:
    """Return the candles of all pools that begin after *after*, by start, then by pool number."""
    rows = []
    for pool, own in trades.items():
        digest = blake2b(pool.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big") >> 1
        rows += [(start, number, *rest) for start, *rest in candles(own) if start > after]
    return sorted(rows, key=lambda row: row[:2])
