"""The routes of series."""

from mintscope.core.market.listing.listed import TokenLists
from mintscope.core.market.series.store import SeriesReader
from mintscope.edges.api.data.series.candles import CandleRoutes
from mintscope.edges.api.data.series.encoded import EncodedCandles
from mintscope.edges.api.data.series.indicators import IndicatorRoutes
from mintscope.edges.api.data.series.newest import NewestCandles
from mintscope.edges.api.data.series.pools import PoolRoutes
from mintscope.edges.api.data.series.recent import RecentPages
from mintscope.edges.api.data.series.selling import SeriesShop
from mintscope.edges.api.data.series.swaps import SwapRoutes
from mintscope.edges.api.data.series.traders import TraderRoutes
from mintscope.edges.api.description.operation import Operation, operations_of
from mintscope.edges.api.v1 import V1


def series_operations(reader: SeriesReader, v1: V1, lists: TokenLists | None) -> list[Operation]:
    """Return the routes, which share gate, freshness and refusals with the report of a token.

    lists    the source of the pools; None: they are not shown
    """
    shop = SeriesShop(
        reader=reader,
        newest=NewestCandles(reader, v1.clock),
        gate=v1.gate,
        clock=v1.clock,
        freshness=v1.freshness,
        resource_server=v1.resource_server,
        recent=RecentPages(reader, v1.clock),
    )
    every: list[object] = [
        CandleRoutes(shop, EncodedCandles()),
        IndicatorRoutes(shop),
        SwapRoutes(shop),
        TraderRoutes(shop),
    ]
    if lists is not None:
        every.append(PoolRoutes(shop, lists))
    return [operation for handlers in every for operation in operations_of(handlers)]
