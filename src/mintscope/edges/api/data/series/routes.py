"""The routes of series."""

from mintscope.base.errors import ErrorCode
from mintscope.core.market.series.store import SeriesReader
from mintscope.edges.api.data.series.candles import CandleRoutes
from mintscope.edges.api.data.series.selling import SeriesShop
from mintscope.edges.api.data.series.swaps import SwapRoutes
from mintscope.edges.api.data.series.wire import CandlePage, CandlesQuery, SwapPage, SwapsQuery
from mintscope.edges.api.description.operation import Operation
from mintscope.edges.api.v1 import V1


def series_operations(
    reader: SeriesReader, v1: V1, refusals: tuple[ErrorCode, ...]
) -> list[Operation]:
    """Return the routes, which share gate and freshness with the report of a token.

    refusals   those of the report
    """
    shop = SeriesShop(
        reader=reader,
        gate=v1.gate,
        clock=v1.clock,
        freshness=v1.freshness,
        resource_server=v1.resource_server,
    )
    proofs = (("creditToken",), ("apiKey",), ("x402",))
    return [
        Operation(
            "GET",
            "/v1/token/{tokenAddress}/candles",
            CandleRoutes(shop).get_candles,
            CandlePage,
            "Candles of a token, up to 1,000 for a credit; none for a page without any",
            refusals=refusals,
            proofs=proofs,
            is_charged=True,
            query=CandlesQuery,
        ),
        Operation(
            "GET",
            "/v1/token/{tokenAddress}/swaps",
            SwapRoutes(shop).get_swaps,
            SwapPage,
            "The newest swaps of a token, up to 500 for a credit; none for a page without any",
            refusals=refusals,
            proofs=proofs,
            is_charged=True,
            query=SwapsQuery,
        ),
    ]
