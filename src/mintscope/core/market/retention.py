"""How long the market is kept."""

from collections.abc import Mapping
from typing import Final

import msgspec

from mintscope.base.time import DAY_S
from mintscope.core.market.store import MINUTES_S, RECENT_S
from mintscope.core.market.timeframe import WIDTH_S, Timeframe


class Retention(msgspec.Struct, frozen=True):
    """How long candles are kept, seconds behind a mint's newest; the newest 101 always are.

    swaps_s   how long swaps are kept, seconds behind the newest that is folded
    """

    keep_s: Mapping[Timeframe, int]
    swaps_s: int = RECENT_S

    def __post_init__(self) -> None:
        """Refuse less than loading a mint needs."""
        for timeframe in Timeframe:
            floor = MINUTES_S if timeframe is Timeframe.M1 else WIDTH_S[timeframe]
            if self.keep_s.get(timeframe, 0) < floor:
                raise ValueError(
                    f"expected at least {floor} seconds of {timeframe} candles;"
                    f" was {self.keep_s.get(timeframe)}"
                )


DEFAULT_RETENTION: Final = Retention(
    {
        Timeframe.M1: 3 * DAY_S,
        Timeframe.M5: 14 * DAY_S,
        Timeframe.M15: 45 * DAY_S,
        Timeframe.H1: 180 * DAY_S,
    }
)
