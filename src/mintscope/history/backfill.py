"""Backfills of tokens: jobs, the pricing of past swaps, gaps, and imported candles.

Swaps from before a mint was tracked are priced and folded as ingest would have done at the time.

Only swaps for SOL, USDC or USDT are used; a mint with over a tenth of its volume in other quotes is
not backfilled.  If the mint's pools have no other quotes, and every transaction of these pools and
of the pools of SOL and dollars was read, the resulting candles, state and price pools equal those
of a service that tracked the mint all along, bit for bit.

The states of a backfill that an administrator requests:

    asked -> estimated -> confirmed -> reading -> done
                                               -> failed
                                       cancelling -> cancelled

A backfill can also fail, or be cancelled at once, before it is read.  A backfill that was joined
before it could be cancelled is done.

The admin page requests, confirms and cancels backfills.  Ingest estimates their cost, and reads one
backfill at a time.  Each step is one database transaction, so after a kill the next process resumes
with the step that was interrupted.

Imported candles change only the candles and indicators of their own timeframe.  Their volume is not
divided into buys and sells, so they do not count in the pressure.

The states of a gap:

    open -> due -> mended
                -> failed, and due again after a longer pause -> given up
"""

from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Mint, Signature, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_S, SECOND_MS
from mintscope.market.engine.fold import MintFold, read_state
from mintscope.market.engine.frames import WAYPOINT_EVERY, waypoint
from mintscope.market.engine.kernels import ACC, SERVICE, close_candle
from mintscope.market.log import CandleRow, PricedSwap, SlotHeader, Waypoint
from mintscope.market.pricing import (
    PRICE_USD_MAX,
    PRICE_USD_MIN,
    RATE_WINDOW_S,
    VOLUME_MAX,
    Rate,
    dust_volume,
    offer_of,
    price_slot,
    sol_usd,
    sol_usd_samples,
)
from mintscope.market.quotes import Quotes, oriented
from mintscope.market.standing import Offer, Standing, counts_at, stand
from mintscope.market.standings import Standings
from mintscope.market.timeframe import Timeframe, bucket
from mintscope.solana.blocks import WSOL, Gap, SourceError
from mintscope.solana.wire import SlotNumber


class BackfillSlot(NamedTuple):
    """The swaps of one slot, in order; *time* is None if the node does not know the time."""

    slot: Slot
    time: UnixS | None
    swaps: Sequence[Swap]


class BackfillSwaps(NamedTuple):
    """The priced swaps of the mint in one slot, as the log stores them."""

    slot: Slot
    time: UnixS
    swaps: Sequence[PricedSwap]
    standing: Standing | None  # the mint's pools after the slot; None if it did not change them


class FoldedBackfill(NamedTuple):
    """The result of a backfill; fields that may be None are None if it has no swap of the mint.

    Only swaps that the log would store count.  *standing* is also None if no swap has changed the
    mint's pools.
    """

    since_slot: Slot  # the slot before the oldest slot
    time: UnixS  # effective time of the newest slot
    state: bytes | None  # the state of the fold
    in_sol: bytes | None  # the prices in SOL that belong to the state
    last_swap: UnixS | None  # time of the newest swap
    standing: Standing | None  # the pools after the newest slot
    recent: Sequence[BackfillSwaps]  # of the KEPT_S seconds up to the newest swap, oldest first


class Kind(StrEnum):
    """The kind of an address to read: a pool of the mint, or a pool that prices SOL."""

    POOL = "pool"
    RATE = "rate"


class Stage(StrEnum):
    """The stage of a backfill; ingest joins a READY backfill, or returns it to READING."""

    READING = "reading"
    READY = "ready"
    JOINED = "joined"


class Cursor(NamedTuple):
    """The progress of reading the list of an address's transactions, newest first.

    *before* is None at the start of the list, and *until* is None in the first round.
    """

    address: str
    before: Signature | None  # the oldest transaction listed so far, for the next page
    until: Signature | None  # the newest transaction that an earlier round listed


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """A transaction in the node's list of the transactions of an address.

    *err* is None if the transaction succeeded; *block_time* is None if the node does not know it.
    """

    signature: Annotated[Signature, msgspec.Meta(min_length=64, max_length=88)]
    slot: SlotNumber
    err: object = None
    block_time: SlotNumber | None = None


class ListPage(NamedTuple):
    """A page of the node's list of the transactions of an address, newest first."""

    address: str
    lines: Sequence[Line]  # the successful transactions of the round and the backfill
    before: Signature | None  # the oldest transaction, even a failed one; None: an empty page
    top: Signature | None  # newest transaction of the round since listing began or resumed, if any
    is_last: bool  # whether the round needs no older page


class UnreadTransaction(NamedTuple):
    """A listed transaction that was not read yet."""

    slot: Slot
    signature: Signature
    is_mixed: bool  # whether several lists have its slot, and only the block shows the order


class ReadTransaction(NamedTuple):
    """A transaction that was requested from the node."""

    slot: Slot
    signature: Signature
    position: int  # its place in its block if the block was read, otherwise 0
    swaps: Sequence[Swap] | None  # None if the node did not return the transaction, or its block


class HistoryJob(NamedTuple):
    """The progress of the backfill of a mint."""

    from_time: UnixS
    stage: Stage
    slot: Slot | None  # the last slot that was read; None before the end of the first round
    listed: int  # number of listed transactions; 0 after the join
    read: int  # number of listed transactions that were read; 0 after the join
    # number of listed transactions that the node did not return in three attempts; this number is
    # still stored after the join
    missing: int

    def goes_on(self, from_time: UnixS) -> bool:
        """Return whether this backfill is not joined, and starts within a day of *from_time*."""
        return self.stage is not Stage.JOINED and abs(self.from_time - from_time) < DAY_S


# Swaps of this number of seconds are kept for the log, which keeps at least the swaps of the 15
# minutes before its checkpoint.
KEPT_S: Final = 1_800


def concerns(swap: Swap, mint: Mint) -> bool:
    """Return whether a backfill of *mint* needs *swap*: it trades *mint* or prices SOL.

    Only swaps for SOL, USDC or USDT count.
    """
    seen = oriented(swap)
    return seen is not None and seen.base in (mint, WSOL)


class Backfill:
    """Computes candles, state and price pools of a token from its past swaps, oldest slot first."""

    def __init__(self, mint: Mint) -> None:
        self._mint = mint
        self._fold = MintFold()
        self._pools = Standings()
        self._headers: deque[SlotHeader] = deque()
        self._recent: deque[BackfillSwaps] = deque()
        self._since: Slot | None = None
        self._last_swap: UnixS | None = None
        self._standing: Standing | None = None

    def apply(self, slot: BackfillSlot) -> None:
        """Price and fold one slot; call this with slots in ascending order."""
        header = self._header(slot)
        if self._since is None:
            self._since = Slot(slot.slot - 1)
        self._pools.begin(slot.slot)
        rate = None
        if header.sol_usd is not None and header.sol_usd_time is not None:
            rate = Rate(header.sol_usd, header.sol_usd_time)
        quotes = Quotes(self._pools.of, header.time)
        priced = price_slot(slot.swaps, rate, self._pools.sets_price, quotes, header.time).swaps
        standing = self._pools.changed().get(self._mint)
        # Slots of a backfill are final: the pools need not be restored after a reorg.
        self._pools.finalize(slot.slot)
        own = [swap for swap in priced if swap.mint == self._mint]
        if own:
            self._keep(BackfillSwaps(slot.slot, header.time, own, standing))

    def changed(self) -> dict[Timeframe, list[CandleRow]]:
        """Return the candles that changed since the previous call, by timeframe, oldest first."""
        return self._fold.changed()

    def folded(self) -> FoldedBackfill | None:
        """Return the candles, state and price pools of all slots so far; None before the first."""
        if self._since is None:
            return None
        return FoldedBackfill(
            since_slot=self._since,
            time=self._headers[-1].time,
            state=None if self._last_swap is None else self._fold.state(),
            in_sol=None if self._last_swap is None else self._fold.in_sol(),
            last_swap=self._last_swap,
            standing=self._standing,
            recent=tuple(self._recent),
        )

    def _header(self, slot: BackfillSlot) -> SlotHeader:
        newest = self._headers[-1] if self._headers else None
        previous = UnixS(0) if newest is None else newest.time
        # As in the log, times do not decrease from slot to slot.
        time = previous if slot.time is None else max(slot.time, previous)
        samples = sol_usd_samples(slot.swaps, time, self._pools.agrees(WSOL))
        rate = sol_usd(reversed(self._headers), samples, time) if time else None
        header = SlotHeader(
            slot=slot.slot,
            parent_slot=Slot(-1) if newest is None else newest.slot,
            blockhash="",
            time=time,
            sol_usd=None if rate is None else rate.usd,
            sol_usd_time=None if rate is None else rate.at,
            samples=samples,
        )
        self._headers.append(header)
        while time - self._headers[0].time > RATE_WINDOW_S and len(self._headers) > 1:
            self._headers.popleft()
        return header

    def _keep(self, swaps: BackfillSwaps) -> None:
        for swap in swaps.swaps:
            self._fold.apply(swaps.time, swap)
        self._last_swap = swaps.time
        self._standing = swaps.standing or self._standing
        self._recent.append(swaps)
        while swaps.time - self._recent[0].time > KEPT_S:
            self._recent.popleft()


def decide_again(
    decided: Standing | None,  # the pools of the mint before these swaps; None: it has none
    time: UnixS,
    swaps: Sequence[PricedSwap],
    sol_usd: float | None = None,  # the rate in the slot, if any; used only for swaps of SOL
) -> tuple[list[PricedSwap], Standing | None]:
    """Decide again which logged *swaps* of one mint and slot set its price or count as its volume.

    The prices that the swaps offer do not change.  Return the swaps, and the pools after them.
    """
    again = []
    pools: set[str | None] = set() if decided is None else {one.pool for one in decided.pools}
    pools.update(one.pool for one in swaps if one.price_usd is not None or one.offered is not None)
    if len(pools) == 1:
        sol_usd = None  # each swap of SOL has its own price, as in `pricing`
    for swap in swaps:
        if swap.evidence is not None and swap.evidence.succeeds is not None:
            offer = offer_of(str(swap.pool), (0.0, 0.0), swap.evidence, time)
            decided, _ = stand(decided, offer)
            again.append(swap)
            continue
        price = swap.offered
        if price is None and swap.price_usd is not None and swap.price_sol is not None:
            price = swap.price_usd, swap.price_sol
        if price is None or swap.pool is None:
            again.append(_unpriced_again(swap, decided, time))
            continue
        decided, sets = stand(decided, _offer(swap, swap.pool, price, time))
        volume = _volume(swap, sets=sets)
        if sets:
            usd, sol = price
            if swap.mint == WSOL and sol_usd is not None:
                usd = sol_usd
            # As in `PricedSwap.offered`: only a price that differs from the one that was set.
            own = None if usd == price[0] else price
            new = replace(swap, volume=volume, price_usd=usd, price_sol=sol, offered=own)
        else:
            new = replace(swap, volume=volume, price_usd=None, price_sol=None, offered=price)
        again.append(new)
    return again, decided


def _unpriced_again(swap: PricedSwap, decided: Standing | None, time: UnixS) -> PricedSwap:
    """Return *swap*, which has no price or no pool, with its volume counted again.

    The volume counts only if the pool of the swap is a price pool.  Without a pool, or if the log
    has no evidence of the swap, the swap is returned unchanged.
    """
    evidence = swap.evidence
    if evidence is None or evidence.uncounted is None or swap.pool is None:
        return swap
    counts = counts_at(decided, swap.pool, time)
    return replace(swap, volume=dust_volume(evidence, counts=counts))


def _volume(swap: PricedSwap, *, sets: bool) -> int:
    """Return the volume of a logged *swap* in micro-USD, as if priced now.

    If the log does not record whether the swap counts, its volume is unchanged.

    sets   whether its pool sets the price; if not, or if the swap does not count, the volume is 0
    """
    evidence = swap.evidence
    if evidence is None or evidence.uncounted is None:
        return swap.volume
    return evidence.flow if sets and not evidence.uncounted else 0


def _offer(swap: PricedSwap, pool: str, price: tuple[float, float], time: UnixS) -> Offer:
    """Return the price that a logged *swap* offers in *pool*.

    Its depth is unknown if the log has no evidence of the swap.
    """
    if swap.evidence is None:
        return Offer(pool, pool, *price, swap.volume, None, time)
    return offer_of(pool, price, swap.evidence, time, is_buy=swap.is_buy)


OPEN_MAX: Final = 20  # maximum number of backfills that have not ended
ENDED_MAX: Final = 100  # maximum number of ended backfills that are stored and listed


class IncompleteBackfill(SourceError):
    """The node lists transactions that it does not return."""


class NoBackfill(ValueError):
    """A token has no backfill, because it was untracked or its backfill was cancelled."""

    def __init__(self, mint: Mint) -> None:
        super().__init__(
            f"expected a backfill of {mint}; it has none, because the token was untracked or the"
            " backfill was cancelled"
        )


class BackfillIsRead(ValueError):
    """Another backfill is being read; only one can be read at a time."""

    def __init__(self) -> None:
        super().__init__(
            "`mintscope history` or ingest is reading another backfill: wait until it"
            " is done, or cancel it at /admin/tokens/history"
        )


class BackfillState(StrEnum):
    """The states of a requested backfill."""

    ASKED = "asked"  # its cost is not estimated yet
    ESTIMATED = "estimated"  # it waits for the confirmation of an administrator
    CONFIRMED = "confirmed"  # it waits to be read
    READING = "reading"
    CANCELLING = "cancelling"  # ingest must still delete the data that it read
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Cost(NamedTuple):
    """The approximate cost of reading a backfill."""

    transactions: int  # number of transactions to list and read
    calls: int  # number of requests to the node
    seconds: float  # duration at the allowed number of calls a second


class Survey(NamedTuple):
    """The estimate of a backfill, made before it is read."""

    from_time: UnixS  # start of the backfill, no earlier than the oldest block of the node
    addresses: Mapping[str, Kind]  # the addresses to read
    cost: Cost


class BackfillJob(NamedTuple):
    """A backfill that an administrator requested."""

    ask_id: int
    mint: Mint
    from_time: UnixS  # start: as requested, then as estimated, then as begun
    asked_at: UnixMs
    state: BackfillState
    cost: Cost | None  # None before the estimate
    listed: int  # number of listed transactions
    read: int  # number of listed transactions that were read
    words: str  # why the backfill failed, waits, or could not be cancelled; "" otherwise
    ended_at: UnixMs | None  # None before the backfill has ended


class ImportedCandle(NamedTuple):
    """A candle of a provider; prices are USD per whole token."""

    bucket: UnixS  # start of the candle, Unix seconds
    open: float
    high: float
    low: float
    close: float
    volume: int  # micro-USD


class CannotImport(ValueError):
    """The candles are invalid, or cannot be put before the candles of the mint.

    The message is for the operator.
    """


class Imported(msgspec.Struct, frozen=True):
    """The numbers of imported candles of a timeframe, and their provider."""

    provider: str  # if there are several, the last one by name
    candles: int  # number of imported candles in the series
    waiting: int  # number of imported candles that are not in the series yet


def expect_candle(candle: ImportedCandle, timeframe: Timeframe) -> None:
    """Raise CannotImport if *candle* cannot be a candle of *timeframe*."""
    at = candle.bucket
    if at < 0 or bucket(timeframe, at) != at:
        raise CannotImport(f"expected t at the start of a candle of {timeframe}; was {at}")
    prices = candle[1:5]
    if not all(isfinite(price) and PRICE_USD_MIN <= price <= PRICE_USD_MAX for price in prices):
        raise CannotImport(
            f"expected prices at {at} from {PRICE_USD_MIN:g} to {PRICE_USD_MAX:g} USD;"
            f" were {prices}"
        )
    if candle.low > min(prices) or candle.high < max(prices):
        raise CannotImport(
            f"expected a low and a high that bound all prices at {at}; were {prices}"
        )
    if not 0 <= candle.volume <= VOLUME_MAX:
        raise CannotImport(f"expected a volume from 0 to {VOLUME_MAX} at {at}; was {candle.volume}")


def waypoints_of(closes: Sequence[tuple[UnixS, float]]) -> list[Waypoint]:
    """Return the stored states of the indicators between candles, from a complete series.

    closes   (start, close) of every candle, oldest first; the newest candle is still open
    """
    acc = np.zeros(ACC)
    found = []
    for closed, (at, _) in enumerate(closes):
        if closed:
            close_candle(acc, closed - 1, closes[closed - 1][1], SERVICE)
            if closed % WAYPOINT_EVERY == 0:
                found.append(waypoint(at, closed, acc))
    return found


def continued(state: bytes, timeframe: Timeframe, closes: Sequence[float]) -> bytes:
    """Return *state* with the indicators of *timeframe* computed again from *closes*.

    closes   the closes of all candles, imported or not, oldest first; the newest candle is open
    """
    record = read_state(state)
    frame = record["frames"][0][list(Timeframe).index(timeframe)]
    acc = np.zeros(ACC)
    for closed, close in enumerate(closes[:-1]):
        close_candle(acc, closed, close, SERVICE)
    frame["acc"] = acc
    frame["count"] = len(closes)
    return bytes(record.tobytes())


class NotMendable(SourceError):
    """A gap cannot be mended: another attempt would fail in the same way."""


class CallsSpent(SourceError):
    """The limit of requests for gaps in this UTC day is reached."""


class MendPlan(NamedTuple):
    """The schedule of attempts to mend a gap."""

    after_s: float  # seconds from a gap to the first attempt; each failure doubles the pause
    attempts_max: int  # number of failed attempts after which the gap is given up
    calls_per_day: int  # maximum number of requests of attempts in a UTC day; 0: no gap is mended

    def pause_ms(self, attempts: int) -> int:
        """Return the pause in milliseconds after *attempts* failed attempts, 0 for a new gap."""
        return round(self.after_s * SECOND_MS) << attempts


class GapMend(NamedTuple):
    """An open gap, and the state of its mending."""

    gap: Gap
    attempts: int  # number of failed attempts
    next_at: UnixMs | None  # time of the next attempt; None: ingest has not seen the gap yet
    given_up_at: UnixMs | None  # the time at which the gap was given up; None if it is not
    words: str  # why the newest attempt failed, or why the next attempt waits; "" otherwise


class GapCounts(NamedTuple):
    """The number of open gaps, and the number of those that are given up."""

    open: int
    given_up: int
