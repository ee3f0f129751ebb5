"""Candle widths and bucket arithmetic."""

from enum import StrEnum
from typing import Final

from mintscope.base.primitives import UnixS


class Timeframe(StrEnum):
    """The candle widths of the specification, narrowest first."""

    M1 = "m1"
    M5 = "m5"
    M15 = "m15"
    H1 = "h1"


WIDTH_S: Final = {
    Timeframe.M1: 60,
    Timeframe.M5: 300,
    Timeframe.M15: 900,
    Timeframe.H1: 3600,
}


def bucket(timeframe: Timeframe, at: UnixS) -> UnixS:
    """Return the start of the bucket of *timeframe* that holds *at*."""
    width = WIDTH_S[timeframe]
    return UnixS(at - at % width)
