"""The lengths of candles (timeframes), and the start of the candle at a given time."""

from enum import StrEnum
from typing import Final, TypeAlias

from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S


class Timeframe(StrEnum):
    """The timeframes of the specification, by length of their candles, the shortest first."""

    M1 = "m1"
    M5 = "m5"
    M15 = "m15"
    H1 = "h1"


TIMEFRAMES: Final = tuple(Timeframe)  # iterating over the enumeration takes ten times as long

WIDTH_S: Final = {
    Timeframe.M1: MINUTE_S,
    Timeframe.M5: 5 * MINUTE_S,
    Timeframe.M15: 15 * MINUTE_S,
    Timeframe.H1: HOUR_S,
}


class AskedFrame(StrEnum):
    """The timeframes that are computed only on request."""

    S15 = "s15"
    M30 = "m30"
    H4 = "h4"
    D1 = "d1"


AnyFrame: TypeAlias = Timeframe | AskedFrame

FRAME_S: Final[dict[AnyFrame, int]] = {
    AskedFrame.S15: 15,
    Timeframe.M1: MINUTE_S,
    Timeframe.M5: 5 * MINUTE_S,
    Timeframe.M15: 15 * MINUTE_S,
    AskedFrame.M30: 30 * MINUTE_S,
    Timeframe.H1: HOUR_S,
    AskedFrame.H4: 4 * HOUR_S,
    AskedFrame.D1: DAY_S,
}
# The most micro-USD bought, and the most sold, that a candle has for each second of its width.  So
# both sides of a day have less than 2^63 together.  No real token is near it.
VOLUME_S_MAX: Final = 5 * 10**13
FRAMES: Final = tuple(FRAME_S)  # narrowest first
BY_NAME: Final = {each.value: each for each in FRAMES}


def bucket(timeframe: Timeframe, at: UnixS) -> UnixS:
    """Return the start of the candle of *timeframe* in whose span the time *at* lies."""
    width = WIDTH_S[timeframe]
    return UnixS(at - at % width)
