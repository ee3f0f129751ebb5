"""Candles of a provider, put before a mint's own ones: one continuous series.

Each timeframe has accumulators of its own, so only that of the imported candles changes.  They
have no sides, so they say nothing of pressure.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.engine.fold import read_state
from mintscope.core.market.engine.frame import WAYPOINT_EVERY, waypoint
from mintscope.core.market.engine.kernels import ACC, SERVICE, close_candle
from mintscope.core.market.log import Waypoint
from mintscope.core.market.pricing import PRICE_USD_MAX, PRICE_USD_MIN, VOLUME_MAX
from mintscope.core.market.timeframe import Timeframe, bucket


class ImportedCandle(NamedTuple):
    """A candle as a provider has it.

    bucket   its start, Unix seconds
    prices   USD per whole token
    volume   micro-USD
    """

    bucket: UnixS
    open: float
    high: float
    low: float
    close: float
    volume: int


class CannotImport(ValueError):
    """The candles cannot come before the mint's own ones; the message is for the operator."""


class Imported(msgspec.Struct, frozen=True):
    """Imported candles of one timeframe; *waiting* of them are not joined yet."""

    provider: str
    candles: int
    waiting: int


class Imports(Protocol):
    """Imports of an operator.  Raises ServiceUnavailable from every verb."""

    async def add(
        self, mint: Mint, timeframe: Timeframe, provider: str, candles: Sequence[ImportedCandle]
    ) -> None:
        """Let ingest put *candles* before the own ones of *mint*, once it has one.

        Those in or after the first own bucket are left out.  Raises CannotImport for a mint that
        is not tracked, or whose own candles are no longer all kept.
        """

    async def counts(self, mint: Mint) -> Mapping[Timeframe, Imported]:
        """Return what was imported for *mint*."""


def expect_candle(candle: ImportedCandle, timeframe: Timeframe) -> None:
    """Raise CannotImport for what cannot be a candle of *timeframe*."""
    at = candle.bucket
    if at < 0 or bucket(timeframe, at) != at:
        raise CannotImport(f"expected t at the start of a candle of {timeframe}; was {at}")
    prices = candle[1:5]
    if not all(isfinite(price) and PRICE_USD_MIN <= price <= PRICE_USD_MAX for price in prices):
        raise CannotImport(f"expected prices of the candle at {at} that are some; were {prices}")
    if candle.low > min(prices) or candle.high < max(prices):
        raise CannotImport(
            f"expected low and high of the candle at {at} to bound it; were {prices}"
        )
    if not 0 <= candle.volume <= VOLUME_MAX:
        raise CannotImport(f"expected a volume of the candle at {at}; was {candle.volume}")


def waypoints_of(closes: Sequence[tuple[UnixS, float]]) -> list[Waypoint]:
    """Return the waypoints of a whole series.

    closes   (bucket, close) of every candle, oldest first; the newest is still open
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
    """Return *state* with the accumulators of *timeframe* as of one series of candles.

    closes   of every candle, imported and own, oldest first; the newest is still open
    """
    record = read_state(state)
    frame = record["frames"][0][list(Timeframe).index(timeframe)]
    acc = np.zeros(ACC)
    for closed, close in enumerate(closes[:-1]):
        close_candle(acc, closed, close, SERVICE)
    frame["acc"] = acc
    frame["count"] = len(closes)
    return bytes(record.tobytes())
