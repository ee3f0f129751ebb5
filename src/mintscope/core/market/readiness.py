"""When a timeframe has all its indicators: the longest average needs the most candles."""

from collections.abc import Mapping
from typing import Final

from mintscope.base.primitives import UnixS
from mintscope.core.market.engine.fold import read_state
from mintscope.core.market.timeframe import WIDTH_S, Timeframe, bucket

CANDLES_FOR_ALL: Final = 200  # of the longest, EMA-200


def ready_from(state: bytes | None, now: UnixS) -> Mapping[Timeframe, UnixS | None]:
    """Return when each timeframe is ready at the earliest: a swap in every bucket until then.

    A bucket without a swap has no candle, and moves the moment on.  One that has volume and no
    price yet counts as over: the moment is then said one bucket late.

    state   what the finalized fold kept of the mint, None before its first swap
    now     effective time of the newest slot
    None    it is ready
    """
    frames = [None] * len(Timeframe) if state is None else read_state(state)["frames"][0]
    return {
        timeframe: _first_bucket_with_all(
            timeframe,
            count=0 if frame is None else int(frame["count"]),
            newest=None if frame is None else UnixS(int(frame["bucket"])),
            now=now,
        )
        for timeframe, frame in zip(Timeframe, frames, strict=True)
    }


def _first_bucket_with_all(
    timeframe: Timeframe, *, count: int, newest: UnixS | None, now: UnixS
) -> UnixS | None:
    """Return the start of the bucket whose candle is the last that is needed."""
    missing = CANDLES_FOR_ALL - count
    if missing <= 0:
        return None
    width = WIDTH_S[timeframe]
    following = bucket(timeframe, now)
    if count and newest is not None:
        following = UnixS(max(following, newest + width))
    return UnixS(following + (missing - 1) * width)
