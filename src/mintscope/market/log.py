"""Swap log: events, records and retention.

Every fact the analytics rest on is an event with a `seq`, one apart, so two folds
that have applied all events up to the same `seq` can never differ.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

import msgspec

from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.sol_rate import Sample
from mintscope.market.standing import SIGNER_CHARS
from mintscope.market.timeframe import Timeframe


class SwapDetail(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Details of a swap on chain, which no analytics need.

    program            its short name
    amount, quote_amount   raw integer units that changed hands
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
    """The reason why a swap adds no volume, whatever its price.

    NOT          it is, if the price is not rejected
    ROUND_TRIP   its signer bought and sold the token in one transaction
    QUOTE        it was paid for with a token whose trades count no volume
    """

    NOT = 0
    ROUND_TRIP = 1
    QUOTE = 2


class Evidence(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Evidence of a swap on its pool: see `standing`.

    depth       micro-USD of the quote in the pool after it; None if no balance shows it
    flow        micro-USD that changed hands, even if it is no volume
    signer      the beginning of the address
    is_direct   its price was set in dollars or SOL
    trip        a `standing.Trip`
    succeeds    the curve whose place the pool takes; None for a swap
    uncounted   an `Uncounted`: why *flow* is no volume, whatever the price; None in older logs
    progress    of a curve, millionths of the way to its pool; None if not known
    fee_bps     basis points of the quote that the trader paid; None if not known
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


def signer_number(signer: str) -> int:
    """Return the beginning of an address, which the log keeps of a signer, as 64 bits."""
    return int.from_bytes(signer.encode()[:SIGNER_CHARS].ljust(SIGNER_CHARS, b"\0"))


class PricedSwap(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A swap as the analytics of one mint see it, fixed when it was appended.

    volume       micro-USD, integer; 0 if it must not count, as at a price that was rejected
    price_usd    per whole token, None if the swap sets no candle;
    price_sol    None exactly when price_usd is
    pool         its address, or its program if that has no pools; None in logs of earlier versions
    offered      (price_usd, price_sol) that it would have set, had its pool decided, or were it no
                 part of a round trip; of SOL itself, if its own is not the rate
    detail       written beside the log; what reads the log goes without it
    evidence     its evidence on its pool; None in logs of earlier versions
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


class SlotHeader(msgspec.Struct, frozen=True):
    """One slot of the log.

    time            effective: never before the previous slot's
    sol_usd         the rate every swap of this slot was priced at, if any
    sol_usd_time    the time of the newest swap behind that rate
    samples         of the SOL/USD rate in this slot: the next 60 s need them
    """

    slot: Slot
    parent_slot: Slot
    blockhash: str
    time: UnixS
    sol_usd: float | None = None
    sol_usd_time: UnixS | None = None
    samples: tuple[Sample, ...] = ()


class Appended(msgspec.Struct, frozen=True):
    """A slot joined the log, with the swaps of tracked mints in it.

    Where mints are followed by a floor, the swaps are those of every mint: one that
    reaches the floor is followed from a slot on that was appended before.

    standings   the pools after it, packed as by `basis.packed`, of mints whose pools it changed
    """

    seq: int
    header: SlotHeader
    swaps: tuple[PricedSwap, ...]
    standings: Mapping[Mint, bytes] = msgspec.field(default_factory=dict)


class SlotFinalized(msgspec.Struct, frozen=True):
    """Slots up to *slot* can no longer die."""

    seq: int
    slot: Slot


class Retracted(msgspec.Struct, frozen=True):
    """*slot* died; *mints* had swaps in it."""

    seq: int
    slot: Slot
    mints: tuple[Mint, ...]


class Tracked(msgspec.Struct, frozen=True):
    """*mint* is followed from here on."""

    seq: int
    mint: Mint


class Untracked(msgspec.Struct, frozen=True):
    """*mint* is no longer followed, and its stored data is dropped."""

    seq: int
    mint: Mint


Event = Appended | SlotFinalized | Retracted | Tracked | Untracked


class CandleRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A kept candle; a bucket with volume but no price has count 0 and no prices.

    open_sol to close_sol   in SOL; None if they were not kept for all of its swaps
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
    """The state after the candles before *bucket*: a series may begin with its candle.

    closed   how many candles came before
    acc      the accumulators of `engine.kernels`, little-endian floats of 64 bits
    """

    bucket: UnixS
    closed: int
    acc: bytes


class TailSwap(msgspec.Struct, frozen=True, gc=False):
    """One logged swap of a mint being loaded, with its slot's effective time.

    folded   True if the state and candles already contain it: then it is all the
             volume of a second on one side, without a price, and its slot the newest of these
    """

    slot: Slot
    time: UnixS
    folded: bool
    swap: PricedSwap


class LoadedMint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to continue from `seq`, read in one snapshot.

    state     the engine's accumulators of closed candles, None for a mint with none
    candles   per timeframe the newest 101 candles (count >= 1), oldest first, folded ones only
    minutes   (minute start, buy, sell) of the last 24 h and a bit, folded ones only, oldest first
    tail      logged swaps not yet folded, and the folded ones since 15 minutes before the newest
              final slot, in order: enough for every "now" that a retraction can go back to
    imported_from   start of the first imported candle, whether it is still kept; None: none was
    standings   the pools after slots, packed as by `basis.packed`, oldest first: those after the
              newest folded slot that changed them, and after each one since
    frames      the frames that were requested, packed as by `engine.frames`, after what is folded
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
    """The position of the log.

    follows_files   True when the market clock follows the files being replayed,
                    so that the age of the data is not measured against the wall
    final, folded   the newest slots that are final, and that candles and lists hold
    genesis_hash    of the chain that the log is read from; None if no node has named it
    """

    seq: int
    slot: Slot | None
    time: UnixS | None
    follows_files: bool
    final: Slot | None = None
    folded: Slot | None = None
    genesis_hash: str | None = None


class LogReader(Protocol):
    """The log as a follower reads it; safe while ingest writes.

    Raises ServiceUnavailable from every verb when the store does not answer.
    """

    async def tip(self) -> LogTip:
        """Return the newest committed position."""

    async def events(self, after_seq: int, limit: int) -> Sequence[Event]:
        """Return up to *limit* events after *after_seq*, in order.

        Raises LogTrimmed when the first of them is no longer kept.
        """

    async def tracked(self) -> tuple[int, frozenset[Mint]]:
        """Return a seq and the mints tracked at it."""

    async def seconds(self, span_s: int) -> Sequence[tuple[Slot, UnixS]]:
        """Return the first living slot of each second of the newest *span_s*, oldest first."""

    async def load(self, mint: Mint, timeframes: Collection[str] = ()) -> LoadedMint | None:
        """Return the stored data of *mint*, from one snapshot; None if it is not tracked.

        timeframes   each an `AskedFrame`: the frames to load beside those of the specification
        """


class LogTrimmed(Exception):
    """The requested events are deleted: start again from a fresh snapshot."""
