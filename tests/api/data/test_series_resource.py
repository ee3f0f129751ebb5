"""A payment for a page of a series names its resource: the path and query of the request."""

from mintscope.api.series.wire import CandlesQuery, IndicatorsQuery, SwapsQuery
from mintscope.api.x402 import series_resource
from mintscope.solana.blocks import WSOL


def test_the_resource_has_path_and_query_without_default_values() -> None:
    path = f"/v1/token/{WSOL}"
    asked = CandlesQuery(tf="m5", from_=7, limit=9, cursor="WyJ4Il0", fill="previous")
    assert series_resource(WSOL, "candles", asked) == (
        f"{path}/candles?tf=m5&from=7&limit=9&cursor=WyJ4Il0&fill=previous"
    )
    assert series_resource(WSOL, "candles", CandlesQuery(tf="m5")) == f"{path}/candles?tf=m5"
    assert series_resource(WSOL, "swaps", SwapsQuery(limit=5)) == f"{path}/swaps?limit=5"
    assert series_resource(WSOL, "swaps", SwapsQuery()) == f"{path}/swaps"
    names = IndicatorsQuery(tf="m1", names=["rsi", "atr"])
    assert series_resource(WSOL, "indicators", names) == (
        f"{path}/indicators?tf=m1&names=rsi%2Catr"
    )
