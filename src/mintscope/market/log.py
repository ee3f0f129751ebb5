"""The swap log: its events, and the records in them.

All data of the analytics come from events.  The numbers of events, `seq`, have no gaps, so two
processes that have applied all events up to the same `seq` have the same data.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import msgspec

from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.sol_rate import Sample
from mintscope.market.standing import SIGNER_CHARS
from mintscope.market.timeframe import VOLUME_S_MAX, WIDTH_S, Timeframe

SIGNERS_MAX: Final = 16_384  # cached numbers, 150 bytes each
SLOT_VOLUME_MAX: Final = VOLUME_S_MAX * WIDTH_S[Timeframe.M1]  # micro-USD bought or sold of a mint


class SwapDetail(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Details of a swap on chain, which prices and candles do not need.

    program                    the short name of the program
    amount, quote_amount       traded raw units of the token and of the quote token
    decimals, quote_decimals   None if unknown
    """

    signature: Signature
    program: str
    amount: int
    decimals: int | None
    quote: Mint
    quote_amount: int
    quote_decimals: int | None = None


class Uncounted(IntEnum):
    """The reason why a swap adds no volume, even if its price is accepted.

    NOT          no reason: the swap adds volume if its price is accepted
    ROUND_TRIP   its signer bought and sold the token in one transaction
    QUOTE        trades against its quote token do not count as volume
    """

    NOT = 0
    ROUND_TRIP = 1
    QUOTE = 2


class Evidence(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The facts that a swap shows about its pool, by which `standing` weighs the pool.

    depth       micro-USD of the quote token in the pool after the swap; None if no balance shows
                it; 0 if the program of the pool is not listed
    flow        traded micro-USD, even if they do not count as volume
    signer      the start of the signer's address
    is_direct   whether the quote token is a dollar or SOL
    trip        the role of the swap in a round trip, a `standing.Trip`
    succeeds    for a migration, the bonding curve that the pool replaces; None for a swap
    uncounted   an `Uncounted`: the reason why *flow* is not volume; None in older logs
    progress    how far the curve is on the way to its pool, in millionths; None if unknown
    fee_bps     the fee that the trader paid, in basis points of the quote token; None if unknown
    """

    depth: int | None
    flow: int
    signer: str
    is_direct: bool = True
    trip: int = 0
    succeeds: str | None = None
    uncounted: int | None = None
    progress: int | None = None
    fee_bps: int | None = None


@lru_cache(maxsize=SIGNERS_MAX)  # most swaps of a market are those of a few thousand signers
def signer_number(signer: str) -> int:
    """Return *signer*, the start of an address, as a number of 64 bits."""
    return int.from_bytes(signer.encode()[:SIGNER_CHARS].ljust(SIGNER_CHARS, b"\0"))


class PricedSwap(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A logged swap of one mint; it never changes once it is in the log.

    volume       micro-USD, integer; 0 if it does not count, for example at a rejected price
    price_usd    USD for one whole token; None if the swap does not set the price
    price_sol    None exactly when price_usd is None
    pool         the name of the pool, as in `dex.outcome.Swap`; None in logs of earlier versions
    offered      (price_usd, price_sol) of a swap that did not set the price, for example because
                 its pool is no price pool, or the swap is part of a round trip; for a swap of SOL,
                 also its own price if that is not the rate
    detail       data that are stored apart from the log; readers of the log do not get them
    evidence     what the swap shows about its pool; None if decimals are unknown, and in logs of
                 earlier versions
    """

    mint: Mint
    transaction_index: int
    outer: int
    inner: int
    leg: int
    is_buy: bool
    volume: int
    price_usd: float | None
    price_sol: float | None
    pool: str | None = None
    offered: tuple[float, float] | None = None
    detail: SwapDetail | None = None
    evidence: Evidence | None = None


def volumes_of(swaps: Iterable[PricedSwap]) -> tuple[int, int]:
    """Return the bought and the sold micro-USD of *swaps*, the swaps of one mint in one slot.

    Each of the two is at most SLOT_VOLUME_MAX.
    """
    volumes = [0, 0]
    for swap in swaps:
        volumes[not swap.is_buy] += swap.volume
    return min(volumes[0], SLOT_VOLUME_MAX), min(volumes[1], SLOT_VOLUME_MAX)


class SlotHeader(msgspec.Struct, frozen=True):
    """One slot of the log.

    time            effective time: never before that of the previous slot
    sol_usd         the rate at which the swaps of this slot were priced; None: no rate
    sol_usd_time    the time of the newest swap that the rate is based on
    samples         the prices of SOL in this slot, from which rates of the next 60 s are computed
    """

    slot: Slot
    parent_slot: Slot
    blockhash: str
    time: UnixS
    sol_usd: float | None = None
    sol_usd_time: UnixS | None = None
    samples: tuple[Sample, ...] = ()


class Appended(msgspec.Struct, frozen=True):
    """The event that a slot was appended to the log.

    swaps       the swaps of tracked mints in the slot.  If mints are tracked by how much they
                trade, the swaps of all mints: a mint is then tracked from an earlier slot on
    standings   for each mint of *swaps* whose pools the slot changed: its pools after the slot,
                packed by `standings.pack`
    """

    seq: int
    header: SlotHeader
    swaps: tuple[PricedSwap, ...]
    standings: Mapping[Mint, bytes] = msgspec.field(default_factory=dict)


class SlotFinalized(msgspec.Struct, frozen=True):
    """The event that all slots up to *slot* have become final."""

    seq: int
    slot: Slot


class Retracted(msgspec.Struct, frozen=True):
    """The event that *slot* was retracted, because the chain abandoned it.

    mints   the mints with swaps in the slot
    """

    seq: int
    slot: Slot
    mints: tuple[Mint, ...]


class Tracked(msgspec.Struct, frozen=True):
    """The event that *mint* is tracked from now on."""

    seq: int
    mint: Mint


class Untracked(msgspec.Struct, frozen=True):
    """The event that *mint* is no longer tracked, and that its stored data are deleted."""

    seq: int
    mint: Mint


Event = Appended | SlotFinalized | Retracted | Tracked | Untracked


class CandleRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A stored candle.

    A span with volume but no price is stored, too, with count 0 and no prices.

    bucket                  the start of the candle
    open_sol to close_sol   prices in SOL; None if the candle was imported, or if an earlier version
                            stored a part of it without them
    """

    bucket: UnixS
    open: float | None
    high: float | None
    low: float | None
    close: float | None
    buy_volume: int
    sell_volume: int
    count: int
    open_sol: float | None = None
    high_sol: float | None = None
    low_sol: float | None = None
    close_sol: float | None = None


class Waypoint(NamedTuple):
    """The state of accumulators from which averages can continue.

    bucket   the start of the candle that comes next
    closed   the number of candles before it
    acc      the accumulators of `engine.kernels`: little-endian floats of 64 bits
    """

    bucket: UnixS
    closed: int
    acc: bytes


class TailSwap(msgspec.Struct, frozen=True, gc=False):
    """A logged swap of a mint that is loaded, with the effective time of its slot.

    folded   whether the stored state and candles include the swap; if so, this entry stands for all
             volume bought or sold in one second: it has no price, and the newest slot of that
             second
    """

    slot: Slot
    time: UnixS
    folded: bool
    swap: PricedSwap


class LoadedMint(msgspec.Struct, frozen=True, kw_only=True):
    """All data of a mint with which an engine can continue after event `seq`, read in one snapshot.

    state           the state of its fold, see `fold.read_state`; None before its first folded swap
    candles         by timeframe, its newest folded candles with a price, up to 101, oldest first
    minutes         (start, bought, sold) of its folded minutes in somewhat more than 24 h, oldest
                    first
    tail            its logged swaps in order: those that are not folded yet, and those since 15
                    minutes before the newest final slot, so that the pressure of m1 to m15 can be
                    computed even if all slots after the final ones are retracted
    imported_from   start of the first imported candle, stored or not; None: none was imported
    standings       (slot, its pools after that slot as packed by `standings.pack`), oldest first:
                    of the newest folded slot that changed its pools, and of each later slot that
                    did.  The slot is -1 if it is no longer stored
    frames          the requested frames as of the fold, packed by `engine.frames`
    """

    mint: Mint
    seq: int
    state: bytes | None
    candles: dict[Timeframe, Sequence[CandleRow]]
    minutes: Sequence[tuple[UnixS, int, int]]
    tail: Sequence[TailSwap]
    imported_from: UnixS | None = None
    standings: Sequence[tuple[Slot, bytes]] = ()
    frames: bytes | None = None


class LogTip(msgspec.Struct, frozen=True, kw_only=True):
    """The newest position of the log.

    seq             the position of the newest event
    slot, time      the newest block; None before the first
    follows_files   whether the clock of the market follows replayed files; if so, the age of the
                    data is not measured against the time of day
    final           the newest final slot; None before the first
    folded          the newest slot in candles and lists; None before the first
    genesis_hash    the genesis hash of the chain; None if no node has returned it
    """

    seq: int
    slot: Slot | None
    time: UnixS | None
    follows_files: bool
    final: Slot | None = None
    folded: Slot | None = None
    genesis_hash: str | None = None


class LogReader(Protocol):
    """Reads the swap log; safe while ingest writes.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def tip(self) -> LogTip:
        """Return the newest position of the log that is committed."""

    async def events(self, after_seq: int, limit: int) -> Sequence[Event]:
        """Return up to *limit* events of the swap log after position *after_seq*, oldest first.

        Raises LogTrimmed if the first of them is no longer stored.
        """

    async def tracked(self) -> tuple[int, frozenset[Mint]]:
        """Return the position of the newest event, and the mints that are tracked after it."""

    async def seconds(self, span_s: int) -> Sequence[tuple[Slot, UnixS]]:
        """Return (slot, time) of the first slot in each of the last *span_s* seconds, in order.

        Retracted slots, and seconds without a slot, are left out.
        """

    async def load(self, mint: Mint, timeframes: Collection[str] = ()) -> LoadedMint | None:
        """Return the stored data of *mint*, read in one snapshot; None if it is not tracked.

        timeframes   further timeframes to load, such as m30; each is an `AskedFrame`
        """


class LogTrimmed(Exception):
    """An event or slot that a reader needs was deleted: it must start again from the newest."""
