"""The newest candles of the mints that are asked for, which need not be read again."""

from collections import OrderedDict
from typing import Final, NamedTuple

from mintscope.base.clock import Clock
from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.series.candles import narrowed
from mintscope.core.market.series.store import AskedCandles, KeptCandles, SeriesReader
from mintscope.core.market.timeframe import Timeframe

ROWS_MAX: Final = 40_000  # of all mints, 400 bytes each
ROWS_OF_MINT_MAX: Final = 4_000
AT_LAST: Final = UnixS(1 << 34)  # no candle begins later


class _Window(NamedTuple):
    asked: AskedCandles
    kept: KeptCandles


class NewestCandles:
    """Reads candles: the newest of a mint are read again once some of them were folded.

    Up to ROWS_MAX are kept, those of the mints that were asked for last.
    """

    def __init__(self, reader: SeriesReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._windows: OrderedDict[tuple[Mint, Timeframe], _Window] = OrderedDict()
        self._rows = 0

    async def read(self, mint: Mint, asked: AskedCandles) -> KeptCandles | None:
        """Return the candles of *mint* that are asked for; None if it is not tracked."""
        place = (mint, asked.timeframe)
        window = self._windows.get(place)
        is_newest = asked.until * 1000 >= self._clock.now()
        if window is not None and narrowed(window.kept, asked) is not None:
            kept = await self._reader.candles(mint, window.asked, window.kept)
            self._keep(place, window.asked, kept)
        elif is_newest and asked.rows_max <= ROWS_OF_MINT_MAX:
            wider = asked._replace(until=AT_LAST)
            kept = await self._reader.candles(mint, wider)
            self._keep(place, wider, kept)
        else:
            return await self._reader.candles(mint, asked)
        found = None if kept is None else narrowed(kept, asked)
        # Rows that have come since may have moved those that are asked for out of the window.
        return found if kept is None or found else await self._reader.candles(mint, asked)

    def _keep(
        self, place: tuple[Mint, Timeframe], asked: AskedCandles, kept: KeptCandles | None
    ) -> None:
        before = self._windows.pop(place, None)
        if before is not None:
            self._rows -= len(before.kept.rows)
        if kept is not None:
            self._windows[place] = _Window(asked, kept)
            self._rows += len(kept.rows)
        while self._rows > ROWS_MAX:
            _, oldest = self._windows.popitem(last=False)
            self._rows -= len(oldest.kept.rows)
