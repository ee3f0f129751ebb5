"""The pools in which a mint is traded, and the candles of each: kept by the fold.

Book      up to POOLS_MAX pools of a mint.  A new one takes the place of the one with the least
          volume of this UTC day and the one before
Candle    of five minutes, of one pool: prices that its swaps offered, whether they set the price of
          the mint or not, and the volume that counts

The outcome is a function of the swaps in order: it is the same after a restart or a fork.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.engine.kernels import PRICE_MAX
from mintscope.market.log import PricedSwap
from mintscope.market.standing import SUM_MAX
from mintscope.market.timeframe import WIDTH_S, Timeframe

POOLS_MAX: Final = 32
POOL_CANDLES_S: Final = 2 * DAY_S  # that are kept, behind the newest of the mint
KEY_BYTES: Final = 8
KEYS_MAX: Final = 16_384  # 150 bytes each
SPAN_S: Final = WIDTH_S[Timeframe.M5]


class BookedPool(msgspec.Struct, array_like=True, gc=False):
    """A pool of the book.

    venue, quote   its program, and the mint that the token is traded for; None if not known
    since          of its first swap since it is in the book
    day, volume, volume_before   its newest UTC day, micro-USD of it and of the day before
    came_from, went_to, moved_at   curve whose place it took, or pool that took its place, and slot
    progress   of a curve, millionths of the way to its pool after its newest swap that shows it
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

    def lively(self, today: int) -> int:
        """Return the micro-USD of *today* and of the day before."""
        if today == self.day:
            return self.volume + self.volume_before
        return self.volume if today == self.day + 1 else 0

    def add(self, today: int, volume: int) -> None:
        """Add *volume* to that of *today*."""
        if today != self.day:
            self.volume_before = self.volume if today == self.day + 1 else 0
            self.volume = 0
            self.day = today
        self.volume = min(self.volume + volume, SUM_MAX)


class PoolRow(NamedTuple):
    """A candle of a pool; without a price all four are None.

    key         of the pool: see `key_of`
    swaps       those that offered no price included
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
    """Changes of a batch to the pools of one mint.

    state     of the book
    dropped   keys of pools whose stored candles go first, at most POOLS_MAX
    rows      to be merged with those that are stored, oldest first; each place once
    """

    state: bytes
    dropped: Sequence[int]
    rows: Sequence[PoolRow]


NO_NAMES: Final = frozenset[str]()
NO_POOLS: Final = BookChange(b"\x90", (), ())
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[BookedPool]).decode


def booked(state: bytes | None) -> list[BookedPool]:
    """Return the pools in *state*."""
    return [] if state is None else _decode(state)


@lru_cache(maxsize=KEYS_MAX)
def key_of(pool: str) -> int:
    """Return the number of *pool* in stored candles, of 63 bits: no two share one by chance."""
    digest = blake2b(pool.encode(), digest_size=KEY_BYTES).digest()
    return int.from_bytes(digest, "big") >> 1


_Row = list[Any]  # open, high, low, close, bought, sold, swaps


class PoolBook:
    """The pools of one mint between two writes.

    unnamed   pools with new swaps whose program is not known: `name` them
    """

    __slots__ = ("_asked", "_dropped", "_pools", "_rows", "_state", "_stored", "unnamed")

    # A batch may touch 100,000 mints, most of one pool each: what few need is made when it is.

    def __init__(self, state: bytes | None = None) -> None:
        self._state = state
        self._pools = {one.pool: one for one in booked(state)}
        self._stored: set[str] | None = None
        # By bucket and key, as they are stored: a stranger can find two pools with the same key.
        self._rows: dict[tuple[int, int], _Row] = {}
        self._dropped: Sequence[int] = ()
        self._asked: frozenset[str] = NO_NAMES
        self.unnamed: frozenset[str] = NO_NAMES

    def apply(self, slot: Slot, time: UnixS, swaps: Sequence[PricedSwap]) -> None:
        """Add the next *swaps*, those of one slot; times never go back."""
        today = time // DAY_S
        one: BookedPool | None = None
        row: _Row = []
        for swap in swaps:  # all swaps pass here, most after another one of the same pool
            pool = swap.pool
            if pool is None:
                continue
            if one is None or one.pool != pool:
                one = self._pools.get(pool)
                if one is None:
                    one = self._enter(pool, time, today)
                row = []
            evidence = swap.evidence
            if evidence is not None:
                if evidence.succeeds is not None:
                    self._moved(one, evidence.succeeds, slot)
                    continue
                if evidence.progress is not None:
                    one.progress = evidence.progress
            one.add(today, swap.volume)
            if not row:
                row = self._row_at(time, one)
            _merge(row, swap)

    def name(self, swaps: Sequence[PricedSwap]) -> None:
        """Take program and quote of the pools without a name from the details of *swaps*."""
        for swap in swaps:
            if swap.pool in self.unnamed and swap.detail is not None:
                one = self._pools[swap.pool]
                one.venue = swap.detail.program
                one.quote = swap.detail.quote
        self._asked |= {pool for pool in self.unnamed if self._pools[pool].venue is None}
        self.unnamed = NO_NAMES

    def changed(self) -> BookChange:
        """Return the changes since the last call."""
        rows = [PoolRow(UnixS(at), key, *row) for (at, key), row in self._rows.items()]
        self._state = _encode(list(self._pools.values()))
        change = BookChange(self._state, self._dropped, rows)
        self._rows = {}
        self._dropped = ()
        self._stored = None
        return change

    def _row_at(self, time: UnixS, one: BookedPool) -> _Row:
        if one.venue is None and one.pool not in self._asked:
            self.unnamed |= {one.pool}
        place = time - time % SPAN_S, key_of(one.pool)
        row = self._rows.get(place)
        if row is None:
            row = self._rows[place] = [None, None, None, None, 0, 0, 0]
        return row

    def _enter(self, pool: str, time: UnixS, today: int) -> BookedPool:
        if len(self._pools) >= POOLS_MAX:
            least = min(self._pools.values(), key=lambda one: (one.lively(today), one.pool))
            del self._pools[least.pool]
            key = key_of(least.pool)
            self._rows = {place: row for place, row in self._rows.items() if place[1] != key}
            if self._stored is None:  # pools that may have stored candles
                self._stored = {one.pool for one in booked(self._state)}
            if least.pool in self._stored:  # the others came and go within the batch
                self._stored.discard(least.pool)
                self._dropped = [*self._dropped, key]
            self.unnamed -= {least.pool}
        one = self._pools[pool] = BookedPool(pool, time, today)
        self._asked -= {pool}
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


def _merge(row: _Row, swap: PricedSwap) -> None:
    """Add *swap* to *row*, in its place: all swaps pass here."""
    usd = swap.price_usd
    if usd is None and swap.offered is not None:
        usd = swap.offered[0]
    if usd is not None and 0.0 < usd <= PRICE_MAX:  # as in candles of the mint, without a kernel
        high = row[1]
        low = row[2]
        if high is None or low is None:
            row[0] = row[1] = row[2] = usd
        elif usd > high:
            row[1] = usd
        elif usd < low:
            row[2] = usd
        row[3] = usd
    if swap.is_buy:
        row[4] = min(row[4] + swap.volume, SUM_MAX)
    else:
        row[5] = min(row[5] + swap.volume, SUM_MAX)
    row[6] += 1
