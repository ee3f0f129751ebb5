"""Swaps that programs publish as events: a program writes an event by calling itself.

The data of an event are the bytes e445a52e51cb9a1d, 8 bytes for its kind, and its fields.  Later
versions of a program append fields, so an event may be longer than its layout.  Each layout belongs
to one program, because another program may use the same name for another event.

If the amounts of an event and of the transfers differ, the call cannot be read.  The fee of a swap
is read only from its event.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from mintscope.dex.base58 import data_of
from mintscope.dex.outcome import QuarantineReason, Swap, Unreadable
from mintscope.dex.program import Call

SELF_CALL: Final = bytes.fromhex("e445a52e51cb9a1d")


FIELDS_AT: Final = 16


U64: Final = struct.Struct("<Q").unpack_from


class Layout(NamedTuple):
    """The layout of a swap event: offsets of its fields in bytes, counted from the first field.

    received   amounts that the pool received, before or after fees: one of them must agree with the
               transfers
    aside      share of a referrer, which may leave the pool in either mint together with the swap;
               None if the event has no such field
    decides    whether an unknown instruction is read with the amounts of the event, because fees
               stay in the vault, so that the transfers differ

    Amounts are u64.
    """

    received: tuple[int, ...]  # before or after fees: one must agree with the transfers
    paid: int  # amount that the pool paid
    aside: int | None = None
    pool: int = 0  # address of the pool
    decides: bool = False  # whether the amounts of an unknown instruction are those of the event
    fees: tuple[int, ...] = ()  # none, some or all may leave the vault together with the swap


LAYOUTS: Final = {
    "pumpswap": {
        bytes.fromhex("67f4521f2cf57777"): Layout((96,), 8, pool=112, decides=True),  # BuyEvent
        bytes.fromhex("3e2f370aa503dc2a"): Layout((8,), 96, pool=112, decides=True),  # SellEvent
    },
    "raydium_launchlab": {
        # TradeEvent: fees of the protocol, the platform, the creator and the referrer.
        bytes.fromhex("bddb7fd34ee661ee"): Layout((88,), 96, fees=(104, 112, 120, 128))
    },
    "meteora_dlmm": {bytes.fromhex("516ce3becdd00ac4"): Layout((72,), 80, aside=121)},
    "meteora_damm_v2": {
        bytes.fromhex("1b3c15d58aaabb93"): Layout((34, 106), 50, aside=98),  # EvtSwap
        bytes.fromhex("bd4233a826507599"): Layout((132,), 140, aside=124),  # EvtSwap2
    },
    "meteora_dbc": {
        bytes.fromhex("1b3c15d58aaabb93"): Layout((138, 82), 90, aside=130),
        bytes.fromhex("bd4233a826507599"): Layout((83,), 107, aside=147),
        bytes.fromhex("863ba8785e3372e7"): Layout((83,), 107, aside=147),  # of mints with hooks
    },
}


class FeeLayout(NamedTuple):
    """The position of the fees in a swap event.

    Each fee is a rate in basis points and an amount, both u64.

    fields     reads the event from its first byte: the rates of protocol and liquidity providers
               (of a curve: only the protocol), then the rate and the amount of the creator's fee
    cashback   offset of the fee that the trader can claim later, in place of the creator; older
               events end before it.  It is counted from the end of a string of variable length, or
               from the first byte if *text* is None
    text       offset of that string; None if the event has none
    """

    fields: struct.Struct
    cashback: int
    text: int | None = None


# The buyback is a part of the protocol fee, and rewards of holders are the creator fee, so neither
# is added.
POOL_FEES: Final = struct.Struct("<80xQ8xQ248xQQ")
CURVE_FEES: Final = struct.Struct("<169xQ40xQQ")
FEE: Final = struct.Struct("<QQ")
FEE_BPS_MAX: Final = 10_000

# The progress of a bonding curve towards its pool, from the event of a swap.
#
# pump.fun     1 - tokens left to sell / INITIAL_TOKENS, the initial number of every curve
# LaunchLab    tokens sold / tokens to be sold
# Meteora DBC  quote in the curve / quote at which it migrates

WHOLE: Final = 1_000_000  # complete, in millionths
INITIAL_TOKENS: Final = 793_100_000_000_000  # raw units of 6 decimals
TOKENS_LEFT: Final = struct.Struct("<129xQ")
TOKENS_SOLD: Final = struct.Struct("<48xQ32xQ")  # tokens to be sold, tokens sold
QUOTE_HELD: Final = struct.Struct("<171xQQ")  # quote held, quote at which the curve migrates


def _of_pumpfun(event: bytes) -> int | None:
    if len(event) < TOKENS_LEFT.size:
        return None
    (left,) = TOKENS_LEFT.unpack_from(event)
    return _progress(INITIAL_TOKENS - left, INITIAL_TOKENS)


def _of_launchlab(event: bytes) -> int | None:
    if len(event) < TOKENS_SOLD.size:
        return None
    whole, done = TOKENS_SOLD.unpack_from(event)
    return _progress(done, whole)


def _of_dbc(event: bytes) -> int | None:
    if len(event) < QUOTE_HELD.size:
        return None
    done, whole = QUOTE_HELD.unpack_from(event)
    return _progress(done, whole)


def _progress(done: int, whole: int) -> int | None:
    """Return *done* / *whole* in millionths, limited to 0 to WHOLE; None if *whole* is 0."""
    return max(0, min(WHOLE, done * WHOLE // whole)) if whole else None


class Report(NamedTuple):
    """The functions that read progress and fee from an event; None if the event lacks the value."""

    progress: Callable[[bytes], int | None] | None = None
    fee: FeeLayout | None = None


REPORTS: Final[Mapping[str, Mapping[bytes, Report]]] = {
    "pumpfun": {
        SELF_CALL + bytes.fromhex("bddb7fd34ee661ee"): Report(
            _of_pumpfun, FeeLayout(CURVE_FEES, 1, text=266)
        )
    },
    "pumpswap": {
        SELF_CALL + bytes.fromhex("67f4521f2cf57777"): Report(
            fee=FeeLayout(POOL_FEES, 0, text=409)  # BuyEvent
        ),
        SELF_CALL + bytes.fromhex("3e2f370aa503dc2a"): Report(
            fee=FeeLayout(POOL_FEES, 368)  # SellEvent
        ),
    },
    "raydium_launchlab": {SELF_CALL + bytes.fromhex("bddb7fd34ee661ee"): Report(_of_launchlab)},
    "meteora_dbc": {
        SELF_CALL + bytes.fromhex("bd4233a826507599"): Report(_of_dbc),  # EvtSwap2
        SELF_CALL + bytes.fromhex("863ba8785e3372e7"): Report(_of_dbc),  # mints with transfer hooks
    },
}
"""The reports by the name of the program, and by the first FIELDS_AT bytes of the event."""
NOTHING: Final = (None, None)


def reported(call: Call) -> tuple[int | None, int | None]:
    """Return the progress of a launch curve and the trader's fee, from the event of *call*.

    The program of *call* must be in REPORTS.  The progress is in millionths, at most WHOLE.  The
    fee is 0 to FEE_BPS_MAX, in basis points of the quote.  Either is None if the event does not
    show it.
    """
    reports = REPORTS[call.program.name]
    for instruction in call.events:
        event = data_of(instruction)
        report = reports.get(event[:FIELDS_AT])
        if report is not None:
            progress, layout = report
            return (
                None if progress is None else progress(event),
                None if layout is None else _fee(event, layout),
            )
    return NOTHING


def _fee(event: bytes, layout: FeeLayout) -> int | None:
    fields, at, text = layout
    size = len(event)
    if size < fields.size:
        return None
    *rates, amount = fields.unpack_from(event)
    if not amount:  # amounts are rounded up: an amount of 0 means no fee
        rates.pop()
    total = sum(rates)
    if text is not None:
        at += text + 4 + int.from_bytes(event[text : text + 4], "little")
    if size >= at + FEE.size:
        rate, amount = FEE.unpack_from(event, at)
        if amount:
            total += rate
    # No fee exceeds the whole amount: such an event does not have this layout.
    return total if total <= FEE_BPS_MAX else None


def verify(call: Call, swaps: list[Swap]) -> None:
    """Compare the swap of *call* with its event, if there is one swap and the layout is known.

    Raises Unreadable if they differ, or if the event is too short.
    """
    layouts = LAYOUTS.get(call.program.name)
    if layouts is None or len(swaps) != 1:
        return
    for instruction in call.events:
        data = data_of(instruction)
        layout = layouts.get(data[8:FIELDS_AT])
        if layout is not None and data.startswith(SELF_CALL):
            _compare(data, layout, swaps[0])
            return


def _compare(event: bytes, layout: Layout, swap: Swap) -> None:
    """Raise Unreadable if *event* and *swap* differ, or if *event* is too short."""
    gained = swap.in_amount
    lost = swap.out_amount
    aside = 0
    agrees = False
    try:
        if layout.aside is not None:
            (aside,) = U64(event, FIELDS_AT + layout.aside)
        for at in layout.received:
            (received,) = U64(event, FIELDS_AT + at)
            # If the share of a referrer left the pool in this mint, the pool gained less.
            agrees |= received in (gained, gained + aside)
        (paid,) = U64(event, FIELDS_AT + layout.paid)
    except struct.error:
        raise Unreadable(QuarantineReason.TRUNCATED_EVENT) from None
    if agrees and lost in (paid, paid + aside):
        return
    # Older events lack the last of these fields.
    fees = [u64(event, at) for at in layout.fees if FIELDS_AT + at + 8 <= len(event)]
    # Each fee either stays in the vault or leaves it together with the payment.
    if not agrees or lost - paid not in _sums(fees):
        raise Unreadable(QuarantineReason.EVENT_DISAGREES)


def _sums(fees: list[int]) -> set[int]:
    sums = {0}
    for fee in fees:
        sums |= {each + fee for each in sums}
    return sums


def published(call: Call) -> Iterator[tuple[bytes, Layout]]:
    """Yield each swap event of *call*, with its layout."""
    layouts = LAYOUTS.get(call.program.name)
    if layouts is None:
        return
    for instruction in call.events:
        data = data_of(instruction)
        layout = layouts.get(data[8:FIELDS_AT])
        if layout is not None and data.startswith(SELF_CALL):
            yield data, layout


def u64(event: bytes, at: int) -> int:
    """Return the unsigned 64-bit number in *event*, *at* bytes after the start of its fields.

    Raises Unreadable if *event* is too short.
    """
    try:
        (field,) = U64(event, FIELDS_AT + at)
    except struct.error:
        raise Unreadable(QuarantineReason.TRUNCATED_EVENT) from None
    return int(field)
