"""The routes of series."""

from typing import Final

from mintscope.core.market.listing.listed import TokenLists
from mintscope.core.market.series.store import SeriesReader
from mintscope.edges.api.data.series.candles import CandleRoutes
from mintscope.edges.api.data.series.encoded import EncodedCandles
from mintscope.edges.api.data.series.indicator_wire import IndicatorPage, IndicatorsQuery
from mintscope.edges.api.data.series.indicators import IndicatorRoutes
from mintscope.edges.api.data.series.newest import NewestCandles
from mintscope.edges.api.data.series.pool_wire import PoolPage, PoolsQuery
from mintscope.edges.api.data.series.pools import PoolRoutes
from mintscope.edges.api.data.series.recent import RecentPages
from mintscope.edges.api.data.series.selling import SeriesShop
from mintscope.edges.api.data.series.swaps import SwapRoutes
from mintscope.edges.api.data.series.trader_wire import TraderPage, TradersQuery
from mintscope.edges.api.data.series.traders import TraderRoutes
from mintscope.edges.api.data.series.wire import CandlePage, CandlesQuery, SwapPage, SwapsQuery
from mintscope.edges.api.description import texts
from mintscope.edges.api.description.operation import OF_A_TOKEN, Operation
from mintscope.edges.api.v1 import V1
from mintscope.edges.api.wire import Wire
from mintscope.edges.server.routes import Endpoint

PROOFS: Final = (("creditToken",), ("apiKey",), ("x402",))


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
    # fmt: off
    sold: list[tuple[str, Endpoint, type[Wire], type[Wire], str]] = [
        ("candles", CandleRoutes(shop, EncodedCandles()).get_candles, CandlePage, CandlesQuery,
         "Candles of a token, up to 1,000 for a credit; none for a page without any"),
        ("indicators", IndicatorRoutes(shop).get_indicators, IndicatorPage, IndicatorsQuery,
         "Indicators candle by candle, up to 1,000 for a credit; none for a page without any"),
        ("swaps", SwapRoutes(shop).get_swaps, SwapPage, SwapsQuery,
         "The newest swaps of a token, up to 500 for a credit; none for a page without any"),
        ("traders", TraderRoutes(shop).get_traders, TraderPage, TradersQuery,
         "Traders of a token: buyers, sellers, concentration, and the traders with the most"),
    ]
    if lists is not None:
        sold.append((
            "pools", PoolRoutes(shop, lists).get_pools, PoolPage, PoolsQuery,
            "The pools of a token: what stands in each, what is traded, what a trade would move",
        ))
    # fmt: on
    return [
        Operation(
            "GET",
            f"/v1/token/{{tokenAddress}}/{kind}",
            endpoint,
            page,
            summary,
            description=texts.SERIES[kind],
            unit="a page",
            refusals=OF_A_TOKEN,
            proofs=PROOFS,
            is_charged=True,
            takes_key=True,
            query=query,
        )
        for kind, endpoint, page, query, summary in sold
    ]
