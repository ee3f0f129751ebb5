"""The contract of PriceSource: it returns a quote or a doubt, and raises nothing.

To test another engine, add it to `ENGINES`.
"""

from collections.abc import Callable
from decimal import Decimal

import httpx
import pytest
from test_pool_reserves import Pools

from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.log import PricedSwap
from mintscope.payments.price_cache import PinnedPrice, PriceSource
from mintscope.payments.price_sources import FeedPrice, MarketPrice
from mintscope.payments.pricing import Doubt, Quote
from mintscope.solana.blocks import WSOL
from support.fakes.log import FakeLog

NOW = UnixMs(1_800_000_000_000)
TOKEN = Mint("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
HERMES = '{"parsed":[{"price":{"price":"2000000","expo":-6,"publish_time":1799999999}}]}'


def pinned(*, answers: bool) -> PriceSource:
    assert answers
    return PinnedPrice(Decimal(2))


def feed(*, answers: bool) -> PriceSource:
    def answer(request: httpx.Request) -> httpx.Response:
        if not answers:
            raise httpx.ConnectError("no feed", request=request)
        return httpx.Response(200, text=HERMES)

    return FeedPrice("http://feed/", transport=httpx.MockTransport(answer))


def market(*, answers: bool) -> PriceSource:
    log, prices = FakeLog(), {TOKEN: 2.0, WSOL: 100.0}
    for mint in prices:
        log.track(mint)
    for minute in range(40):
        swaps = [
            PricedSwap(mint, 0, 0, 0, 0, True, 10**9, usd, 1.0)  # noqa: FBT003
            for mint, usd in prices.items()
        ]
        log.append(minute + 1, NOW // 1000 - 60 * (39 - minute), *swaps)
    return MarketPrice(log, Pools(answers=answers), asset=TOKEN, decimals=6)


ENGINES: dict[str, Callable[..., PriceSource]] = {"pinned": pinned, "feed": feed, "market": market}


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_source_that_answers_quotes_a_price_in_usd_of_the_last_hour(engine: str) -> None:
    found = await ENGINES[engine](answers=True).read(NOW)

    assert isinstance(found, Quote), found
    assert found.usd == 2
    assert NOW - 3_600_000 <= found.observed_at <= NOW


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"pinned"}))
async def test_a_source_that_does_not_answer_returns_a_doubt(engine: str) -> None:
    assert await ENGINES[engine](answers=False).read(NOW) is Doubt.NO_ANSWER
