"""The changed parts of a report, and the events in which a stream sends them."""

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from mintscope.kit.errors import ServiceError
from mintscope.kit.primitives import Mint, Slot, UnixS, about, on_request
from mintscope.market.report import (
    REPORTED,
    CandleCounts,
    Pressure,
    Price,
    ReportKind,
    TokenReport,
    absent_indicators,
)
from mintscope.market.timeframe import TIMEFRAMES, AskedFrame
from mintscope.solana.blocks import WSOL

Changes = int  # a bit is set for each changed part of a report, in the order of `_parts`
NOTHING: Final[Changes] = 0
FRAME_PARTS: Final = len(REPORTED)
FRAMES: Final = (*TIMEFRAMES, *AskedFrame)
NO_PARTS: Final = (UNSET,) * FRAME_PARTS


_Changed: Any = msgspec.defstruct("_Changed", absent_indicators(), frozen=True, gc=False)


class TimeframeUpdate(_Changed):  # type: ignore[misc]  # its fields are those of a report
    """The indicators of one timeframe that have changed; None: too few candles for a value."""


class IndicatorsUpdate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The changed indicators: the timeframes with a change, and the pressure."""

    m1: Annotated[TimeframeUpdate | UnsetType, about("Changes in candles of 1 minute.")] = UNSET
    m5: Annotated[TimeframeUpdate | UnsetType, about("Changes in candles of 5 minutes.")] = UNSET
    m15: Annotated[TimeframeUpdate | UnsetType, about("Changes in candles of 15 minutes.")] = UNSET
    h1: Annotated[TimeframeUpdate | UnsetType, about("Changes in candles of 1 hour.")] = UNSET
    buy_sell_pressure: Annotated[
        Pressure | UnsetType, about("The share of volume that was bought, all windows.")
    ] = UNSET
    s15: Annotated[
        TimeframeUpdate | UnsetType, on_request("Changes of 15 seconds; if asked for.")
    ] = UNSET
    m30: Annotated[
        TimeframeUpdate | UnsetType, on_request("Changes of 30 minutes; if asked for.")
    ] = UNSET
    h4: Annotated[TimeframeUpdate | UnsetType, on_request("Changes of 4 hours; if asked for.")] = (
        UNSET
    )
    d1: Annotated[TimeframeUpdate | UnsetType, on_request("Changes of a day; if asked for.")] = (
        UNSET
    )


class DataSpanUpdate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The changed span of the data: the block time of the last slot, and candle counts."""

    to: Annotated[UnixS, about("Block time of the last applied slot, Unix seconds.", 1_763_460_000)]
    candle_counts: Annotated[
        CandleCounts | UnsetType, about("Candles since tracking began, of every timeframe.")
    ] = UNSET


class ReportUpdate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The data of an `update` event: each field that is present replaces the value sent before.

    An absent field has not changed; `macd`, `fibonacci`, `buySellPressure` and `candleCounts` are
    present as a whole or absent.
    """

    token: Annotated[Mint, about("The mint, base58.", WSOL)]
    slot: Annotated[Slot, about("The slot as of which this is so.", 350_000_000)]
    price: Annotated[Price, about("Price at the newest accepted swap.")]
    indicators: Annotated[IndicatorsUpdate, about("Changes by timeframe.")]
    data_span: Annotated[DataSpanUpdate, about("How far the data reaches.")]


class ReportSnapshot(TokenReport, frozen=True, gc=False, rename="camel", kw_only=True):
    """The data of a `snapshot` event: the whole report, as of *slot*."""

    slot: Annotated[Slot, about("The slot as of which this is so.", 350_000_000)]


def changes(reported: TokenReport, now: TokenReport) -> Changes:
    """Return the parts of a report that changed from *reported* to *now*, a bit for each part."""
    found = NOTHING
    for place, (before, after) in enumerate(zip(_parts(reported), _parts(now), strict=True)):
        if before != after:
            found |= 1 << place
    return found


def update_of(now: TokenReport, slot: Slot, changed: Changes) -> ReportUpdate:
    """Return the `update` event with the price of a report and those of its parts that changed.

    now       the report
    slot      the slot as of which it was made
    changed   which parts have changed, a bit for each
    """
    parts = [part if changed >> place & 1 else UNSET for place, part in enumerate(_parts(now))]
    pressure, counts, *of_frames = parts
    frames = (
        _timeframe(of_frames[at : at + FRAME_PARTS]) for at in range(0, len(of_frames), FRAME_PARTS)
    )
    return ReportUpdate(
        now.token,
        slot,
        now.price,
        IndicatorsUpdate(**dict(zip(FRAMES, frames, strict=True)), buy_sell_pressure=pressure),
        DataSpanUpdate(now.data_span.to, counts),
    )


def _timeframe(parts: Sequence[Any]) -> TimeframeUpdate | UnsetType:
    return UNSET if all(part is UNSET for part in parts) else TimeframeUpdate(*parts)


def _parts(report: TokenReport) -> list[Any]:
    """Return those parts of *report* that an update leaves out if they did not change."""
    indicators = report.indicators
    parts: list[Any] = [indicators.buy_sell_pressure, report.data_span.candle_counts]
    for name in FRAMES:
        frame = getattr(indicators, name)
        parts += NO_PARTS if frame is UNSET else msgspec.structs.astuple(frame)
    return parts


class Listener(Hashable, Protocol):
    """Receives the events of a stream in the event loop; its methods must return quickly.

    kind    the options of the reports that the listener receives
    """

    kind: ReportKind

    def tell(self, mint: Mint, event: bytes, *, is_whole: bool) -> None:
        """Receive *event* about *mint*: the whole report if *is_whole*, otherwise its changes."""

    def lose(self, mint: Mint, failure: ServiceError) -> None:
        """Receive the notice that no more events of *mint* follow, because of *failure*."""
