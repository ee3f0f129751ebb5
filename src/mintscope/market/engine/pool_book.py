"""The pools in which a mint is traded, and the candles of each pool; the fold stores both.

Book      up to POOLS_MAX pools of a mint.  A further pool replaces the one with the least volume in
          this UTC day and the day before
Candle    five minutes of one pool: the prices that its swaps offered, even if they did not set
          the price of the mint, and the volume that counts.  The candles of the newest span are in
          the book; they are stored once the next span begins

The result is a function of the swaps in order: it is the same after a restart or a fork.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.engine.kernels import PRICE_MAX
from mintscope.market.log import PricedSwap
from mintscope.market.standing import SUM_MAX
from mintscope.market.timeframe import WIDTH_S, Timeframe

POOLS_MAX: Final = 32
POOL_CANDLES_S: Final = 2 * DAY_S  # stored candles are at most this much older than the newest
KEY_BYTES: Final = 8
KEYS_MAX: Final = 16_384  # cached keys, 150 bytes each
SPAN_S: Final = WIDTH_S[Timeframe.M5]


# The start of the span, open, high, low, close, micro-USD bought and sold, number of swaps.
OpenCandle: TypeAlias = list[Any]


class BookedPool(msgspec.Struct, array_like=True, gc=False):
    """A pool in which a mint is traded, as stored in its pool book.

    pool                   the name of the pool
    since                  the time of its first swap in the book
    day                    the newest UTC day on which it traded
    volume, volume_before  micro-USD traded on that day, and on the day before
    venue, quote           its program, and the mint of its quote token; None if unknown
    came_from              the bonding curve that the pool replaced; None if there was none
    went_to                the pool that replaced this one; None if no pool did
    moved_at               the slot of this replacement; None if there was none
    progress               how far a bonding curve is on the way to its pool, at its newest swap, in
                           millionths; None if unknown
    candle                 the candle of the newest span of the book; None if the pool did not trade
                           in it
    fee_bps                the fee of the newest swap that shows its fee, in basis points of the
                           quote token; None if no swap showed it
    """

    pool: str
    since: UnixS
    day: int
    volume: int = 0
    volume_before: int = 0
    venue: str | None = None
    quote: Mint | None = None
    came_from: str | None = None
    went_to: str | None = None
    moved_at: Slot | None = None
    progress: int | None = None
    candle: OpenCandle | None = None
    fee_bps: int | None = None

    def lively(self, today: int) -> int:
        """Return the volume of the UTC day *today* and of the day before, in micro-USD."""
        if today == self.day:
            return self.volume + self.volume_before
        return self.volume if today == self.day + 1 else 0

    def add(self, today: int, volume: int) -> None:
        """Add the volume of a swap, in micro-USD, to that of the UTC day *today*.

        *today* must not be before `day`.
        """
        if today != self.day:
            self.volume_before = self.volume if today == self.day + 1 else 0
            self.volume = 0
            self.day = today
        volume += self.volume
        self.volume = volume if volume < SUM_MAX else SUM_MAX  # noqa: FURB136 - a call costs more


class PoolRow(NamedTuple):
    """A candle of a pool; if no swap offered a price, all four prices are None.

    bucket      the start of the span
    key         the number of the pool, see `key_of`
    swaps       the number of swaps, including those that offered no price

    Volumes are in micro-USD.
    """

    bucket: UnixS
    key: int
    open: float | None
    high: float | None
    low: float | None
    close: float | None
    buy_volume: int
    sell_volume: int
    swaps: int


class BookChange(NamedTuple):
    """The changes that a batch of swaps makes to the stored pools of one mint.

    state     the new state of the pool book
    dropped   keys of at most POOLS_MAX pools, whose stored candles must be deleted first
    rows      candles of spans that have ended, oldest first, one for each span and pool.  If an
              earlier version stored a part of the span, the store merges both
    """

    state: bytes
    dropped: Sequence[int]
    rows: Sequence[PoolRow]


NO_NAMES: Final = frozenset[str]()
NO_POOLS: Final = BookChange(b"\x90", (), ())  # an empty list in MessagePack
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[BookedPool]).decode


def booked(state: bytes | None) -> list[BookedPool]:
    """Return the pools in *state*, the stored pool book of a mint; none if *state* is None."""
    return [] if state is None else _decode(state)


@lru_cache(maxsize=KEYS_MAX)
def key_of(pool: str) -> int:
    """Return the number under which the candles of *pool* are stored: 63 bits of a hash."""
    digest = blake2b(pool.encode(), digest_size=KEY_BYTES).digest()
    return int.from_bytes(digest, "big") >> 1  # integers of the database have a sign


def candles_of(pools: Iterable[BookedPool]) -> list[PoolRow]:
    """Return the newest candle of each of *pools*; those of pools with the same key are merged."""
    rows: dict[int, PoolRow] = {}
    for one in pools:
        if one.candle is not None:
            bucket, *values = one.candle
            key = key_of(one.pool)
            row = PoolRow(bucket, key, *values)
            rows[key] = merged(rows[key], row) if key in rows else row
    return list(rows.values())


def merged(first: PoolRow, then: PoolRow) -> PoolRow:
    """Return one candle of a pool, merged from *first* and *then*, two parts of the same span.

    The store merges candles in the same way.
    """
    low = then.low if first.low is None else first.low
    high = then.high if first.high is None else first.high
    return PoolRow(
        first.bucket,
        first.key,
        then.open if first.open is None else first.open,
        high if high is None or then.high is None else max(high, then.high),
        low if low is None or then.low is None else min(low, then.low),
        first.close if then.close is None else then.close,
        min(first.buy_volume + then.buy_volume, SUM_MAX),
        min(first.sell_volume + then.sell_volume, SUM_MAX),
        first.swaps + then.swaps,
    )


def with_open(stored: Iterable[PoolRow], newest: Iterable[PoolRow]) -> list[PoolRow]:
    """Return the stored candles of pools together with the newest ones, oldest first.

    Candles of the same span and pool are merged, because an earlier version stored candles before
    their span had ended.
    """
    rows = {(row.bucket, row.key): row for row in stored}
    for row in newest:
        place = row.bucket, row.key
        rows[place] = merged(rows[place], row) if place in rows else row
    return sorted(rows.values(), key=lambda row: (row.bucket, row.key))


class PoolBook:
    """The pools of one mint, with their candles, and what changed since the last write.

    unnamed   the pools of unknown program that have begun a candle since the last `name`, which
              sets their program and quote
    """

    __slots__ = ("_bucket", "_dropped", "_pools", "_rows", "_state", "_stored", "unnamed")

    # A batch may have 100,000 mints, most with one pool: rarely used parts are created on use.

    def __init__(self, state: bytes | None = None) -> None:
        self._state = state
        self._pools: dict[str, BookedPool] = {}
        self._bucket = 0
        for one in booked(state):
            self._pools[one.pool] = one
            if one.candle is not None:
                self._bucket = one.candle[0]
        self._stored: set[str] | None = None
        self._rows: Sequence[PoolRow] = ()
        self._dropped: Sequence[int] = ()
        self.unnamed: frozenset[str] = NO_NAMES

    def apply(  # noqa: C901 - the hottest loop: a call for each swap would cost as much as the rest
        self, slot: Slot, time: UnixS, swaps: Sequence[PricedSwap]
    ) -> None:
        """Add the swaps of one slot to the candles and volumes of their pools.

        Slots must be added in order of *time*.  Swaps whose pool is unknown are ignored.
        """
        today = time // DAY_S
        if time >= self._bucket + SPAN_S:
            self._begin(time)
        one: BookedPool | None = None
        for swap in swaps:  # this runs for each swap; most follow one of the same pool
            pool = swap.pool
            if pool is None:
                continue
            if one is None or one.pool != pool:
                one = self._pools.get(pool)
                if one is None:
                    one = self._enter(pool, time, today)
            evidence = swap.evidence
            if evidence is not None:
                if evidence.succeeds is not None:
                    self._moved(one, evidence.succeeds, slot)
                    continue
                if evidence.progress is not None:
                    one.progress = evidence.progress
                if evidence.fee_bps is not None:
                    one.fee_bps = evidence.fee_bps
            one.add(today, swap.volume)
            candle = one.candle
            if candle is None:
                candle = self._open(one)
            _add(candle, swap)

    def name(self, swaps: Sequence[PricedSwap]) -> None:
        """Set the program and the quote mint of `unnamed` pools from the details of *swaps*.

        Details are stored apart from the log, and are read only for swaps in such pools.
        """
        for swap in swaps:
            if swap.pool in self.unnamed and swap.detail is not None:
                one = self._pools[swap.pool]
                one.venue = swap.detail.program
                one.quote = swap.detail.quote
        self.unnamed = NO_NAMES

    def changed(self) -> BookChange:
        """Return the state of this book, with the changed candles and the pools that were dropped.

        A change is reported once: the next call returns only later ones.
        """
        self._state = _encode(list(self._pools.values()))
        change = BookChange(self._state, self._dropped, self._rows)
        self._rows = ()
        self._dropped = ()
        self._stored = None
        return change

    def _begin(self, time: UnixS) -> None:
        ended = candles_of(self._pools.values())
        if ended:
            self._rows = [*self._rows, *ended]
            for one in self._pools.values():
                one.candle = None
        self._bucket = time - time % SPAN_S

    def _open(self, one: BookedPool) -> OpenCandle:
        if one.venue is None:
            self.unnamed |= {one.pool}
        one.candle = [self._bucket, None, None, None, None, 0, 0, 0]
        return one.candle

    def _enter(self, pool: str, time: UnixS, today: int) -> BookedPool:
        if len(self._pools) >= POOLS_MAX:
            least = min(self._pools.values(), key=lambda one: (one.lively(today), one.pool))
            del self._pools[least.pool]
            key = key_of(least.pool)
            self._rows = [row for row in self._rows if row.key != key]
            if self._stored is None:  # the pools of the last state may have stored candles
                self._stored = {one.pool for one in booked(self._state)}
            if least.pool in self._stored:  # a pool that was added in this batch has none
                self._stored.discard(least.pool)
                self._dropped = [*self._dropped, key]
            self.unnamed -= {least.pool}
        one = self._pools[pool] = BookedPool(pool, time, today)
        return one

    def _moved(self, one: BookedPool, curve: str, slot: Slot) -> None:
        if one.came_from is not None:
            return
        one.came_from = curve
        one.moved_at = slot
        left = self._pools.get(curve)
        if left is not None:
            left.went_to = one.pool
            left.moved_at = slot


def _add(candle: OpenCandle, swap: PricedSwap) -> None:
    usd = swap.price_usd
    if usd is None and swap.offered is not None:
        usd = swap.offered[0]
    if usd is not None and 0.0 < usd <= PRICE_MAX:  # the same condition as in `kernels.apply`
        high = candle[2]
        low = candle[3]
        if high is None or low is None:
            candle[1] = candle[2] = candle[3] = usd
        elif usd > high:
            candle[2] = usd
        elif usd < low:
            candle[3] = usd
        candle[4] = usd
    side = 5 if swap.is_buy else 6
    volume = candle[side] + swap.volume
    candle[side] = volume if volume < SUM_MAX else SUM_MAX  # noqa: FURB136 - a call costs more
    candle[7] += 1
