"""Candle widths and bucket arithmetic."""

from enum import StrEnum
from typing import Final

from mintscope.kit.primitives import UnixS
from mintscope.kit.time import HOUR_S, MINUTE_S


class Timeframe(StrEnum):
    """The candle widths of the specification, narrowest first."""

    M1 = "m1"
    M5 = "m5"
    M15 = "m15"
    H1 = "h1"


TIMEFRAMES: Final = tuple(Timeframe)  # to iterate over an enumeration takes ten times as long

WIDTH_S: Final = {
    Timeframe.M1: MINUTE_S,
    Timeframe.M5: 5 * MINUTE_S,
    Timeframe.M15: 15 * MINUTE_S,
    Timeframe.H1: HOUR_S,
}


def bucket(timeframe: Timeframe, at: UnixS) -> UnixS:
    """Return the start of the bucket of *timeframe* that holds *at*."""
    width = WIDTH_S[timeframe]
    return UnixS(at - at % width)
