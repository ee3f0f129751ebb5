"""Makes the report of a mint as it was after a past slot, from stored data.

A mint is loaded as of the start of the slot's minute, or as of the newest folded slot if the past
slot is not folded yet.  Then the kernels of the live engine apply the swaps up to the slot, so the
report has the same bits as at that time.

Wider candles that were open at the start of the minute are computed from the minutes before.  The
accumulators of the newest waypoint are continued with the candles after the waypoint.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from mintscope.kit.primitives import Slot, UnixS
from mintscope.market.engine.engine import CANDLES_LOADED, Engine, frames_of
from mintscope.market.engine.fold import STATE, STATE_VERSION, read_state
from mintscope.market.engine.given import Floats
from mintscope.market.engine.kernels import ACC, SERVICE, close_candle
from mintscope.market.log import CandleRow, LoadedMint, Waypoint
from mintscope.market.report import NO_FRAMES, ReportKind, TokenReport, token_report
from mintscope.market.standings import basis_of
from mintscope.market.timeframe import TIMEFRAMES, WIDTH_S, Timeframe

ROWS_READ: Final = CANDLES_LOADED + 1  # the newest candle may have begun after all known minutes


class Moment(NamedTuple):
    """A requested moment in the past: a slot, or a time, which means the newest slot up to it."""

    slot: Slot | None = None
    time: UnixS | None = None


class SlotTime(NamedTuple):
    """A slot of the log and its effective time."""

    slot: Slot
    time: UnixS


class OutOfReach(NamedTuple):
    """No exact report can be made of the requested moment, because too little is stored.

    since   the first time with an exact report; None: there is no such time
    until   the newest slot with an exact report; None: there is no such slot
    """

    since: UnixS | None
    until: SlotTime | None


class PastMint(msgspec.Struct, frozen=True):
    """The data of a mint as they were at the slot *at*.

    loaded   the stored data; its tail has the swaps up to *at* that its state does not contain
    """

    at: SlotTime
    loaded: LoadedMint


class FrameRows(NamedTuple):
    """Stored candles of one timeframe around a requested time.

    rows       the newest candles with a price that begin before that time, up to ROWS_READ, oldest
               first
    newer      the number of candles with a price that begin at that time or later
    waypoints  the accumulators stored for some of *rows*, oldest first
    """

    rows: Sequence[CandleRow]
    newer: int
    waypoints: Sequence[Waypoint]


class Unreached(Exception):
    """Too few rows are stored to compute the state of a mint at the requested time."""


def rebuilt(
    state: bytes, frames: Mapping[Timeframe, FrameRows], before: UnixS
) -> tuple[bytes | None, dict[Timeframe, Sequence[CandleRow]]]:
    """Return the fold state and the candles of a mint as they were at *before*.

    The returned state is None if the mint had no price before then.  Raises Unreached if too few
    rows are stored.

    state    a stored state of the mint, from *before* or later
    frames   by timeframe, the stored candles around the time *before*
    before   the start of a minute
    """
    kept = read_state(state)[0]
    minutes = frames[Timeframe.M1].rows
    record = np.zeros(1, STATE)
    candles: dict[Timeframe, Sequence[CandleRow]] = {}
    for k, timeframe in enumerate(TIMEFRAMES):
        frame = frames[timeframe]
        shown = _as_of(frame.rows, minutes, before - WIDTH_S[timeframe])
        # The state counts also the candles that began since *before*.
        known = int(kept["frames"][k]["count"]) - frame.newer - (len(frame.rows) - len(shown))
        candles[timeframe] = shown[-CANDLES_LOADED:]
        if len(candles[timeframe]) != min(known, CANDLES_LOADED):
            raise Unreached
        record["frames"][0][k]["count"] = known
        if shown:
            record["frames"][0][k]["acc"] = _closed(shown, frame.waypoints, known - 1)
    if not minutes:
        return None, candles
    in_sol = minutes[-1].close_sol
    if in_sol is None:
        raise Unreached
    record["version"] = STATE_VERSION
    record["first"] = kept["first"]
    record["price_sol"] = in_sol
    return record.tobytes(), candles


def _as_of(
    rows: Sequence[CandleRow], minutes: Sequence[CandleRow], whole: int
) -> Sequence[CandleRow]:
    """Return *rows*, the newest of which is computed from *minutes* if it has not ended.

    If it would have no candle in *minutes*, it is left out.

    whole   the latest start of a candle that has ended
    """
    if not rows or rows[-1].bucket <= whole:
        return rows
    newest = rows[-1]
    within = [one for one in minutes if one.bucket >= newest.bucket]
    if not within:
        return rows[:-1]
    return [*rows[:-1], _merged(newest.bucket, within)]


def _merged(bucket: UnixS, minutes: Sequence[CandleRow]) -> CandleRow:
    highs = [one.high for one in minutes if one.high is not None]
    lows = [one.low for one in minutes if one.low is not None]
    count = sum(one.count for one in minutes)
    first = minutes[0]
    last = minutes[-1]
    return CandleRow(bucket, first.open, max(highs), min(lows), last.close, 0, 0, count)


def _closed(rows: Sequence[CandleRow], waypoints: Sequence[Waypoint], closed: int) -> Floats:
    """Return the accumulators before the newest of *rows*, the candles of a mint.

    Raises Unreached if *rows* and *waypoints* do not suffice to compute them.

    closed   the number of candles that they must include
    """
    newest = rows[-1].bucket
    acc = np.zeros(ACC)
    seen = 0
    since = UnixS(0)
    for waypoint in waypoints:
        if waypoint.bucket <= newest:
            acc = np.frombuffer(waypoint.acc, "<f8").astype(np.float64)
            seen = waypoint.closed
            since = waypoint.bucket
    closes = [one.close for one in rows if since <= one.bucket < newest and one.close is not None]
    if seen + len(closes) != closed:
        raise Unreached
    for n, close in enumerate(closes):
        close_candle(acc, seen + n, close, SERVICE)
    return acc


def past_report(past: PastMint, kind: ReportKind) -> TokenReport:
    """Return the report of a mint as it was in the past, without coverage.

    Raises InsufficientData if the mint had too few candles, and ValueError if *past* contradicts
    itself.
    """
    loaded = past.loaded
    now = past.at.time
    engine = Engine(1)
    engine.load(0, loaded)
    values = engine.snapshot(0, now, leaves_out_open=kind.is_closed)
    basis = basis_of(loaded.standings[-1][1] if loaded.standings else None)
    made = frames_of(loaded)
    frames = NO_FRAMES
    if made is not None:
        frames = made.read(kind.timeframes, now, leaves_out_open=kind.is_closed)
    return token_report(
        loaded.mint, values, now, basis=basis, is_partial=kind.is_partial, frames=frames
    )
