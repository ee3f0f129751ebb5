"""Prices from external sources are read or rejected; without a price, nothing is quoted."""

from decimal import Decimal

import httpx
import pytest
from structlog.testing import capture_logs

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, UnixMs, Wallet
from mintscope.market.log import PricedSwap
from mintscope.payments.ports import ChainUnavailable
from mintscope.payments.price_cache import PinnedPrice, TokenReserves
from mintscope.payments.price_sources import (
    FeedPrice,
    MarketPrice,
    OwnChain,
    SolPrice,
    TrueClock,
    UsableToken,
)
from mintscope.payments.pricing import Doubt, Quote
from mintscope.payments.protocol.memo import UnusablePaymentToken
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.log import FakeLog

NOW = UnixMs(1_800_000_000_000)


def hermes(price: str = "25000000", expo: int = -8, at: int = 1_799_999_990, count: int = 1) -> str:
    one = f'{{"price":{{"price":"{price}","conf":"9","expo":{expo},"publish_time":{at}}}}}'
    return f'{{"binary":{{}},"parsed":[{",".join([one] * count)}]}}'


async def read(text: str, status: int = 200) -> Quote | Doubt:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, text=text))
    feed = FeedPrice("http://feed/latest", transport=transport)
    try:
        return await feed.read(NOW)
    finally:
        await feed.aclose()


async def test_a_feed_is_read() -> None:
    quote = await read(hermes())

    assert quote == Quote(usd=Decimal("0.25"), observed_at=UnixMs(1_799_999_990_000))


@pytest.mark.parametrize(
    ("text", "status", "doubt"),
    [
        (hermes(at=1_799_999_939), 200, Doubt.STALE_FEED),
        (hermes(at=1_800_000_006), 200, Doubt.STALE_FEED),
        (hermes(price="0"), 200, Doubt.NOT_A_PRICE),
        (hermes(price="-5"), 200, Doubt.NOT_A_PRICE),
        (hermes(price="NaN"), 200, Doubt.NOT_A_PRICE),
        (hermes(price="1", expo=400), 200, Doubt.NOT_A_PRICE),
        (hermes(count=2), 200, Doubt.NOT_A_PRICE),
        (hermes(count=0), 200, Doubt.NOT_A_PRICE),
        (hermes(price="much"), 200, Doubt.NO_ANSWER),
        (hermes(), 500, Doubt.NO_ANSWER),
        ("{}", 200, Doubt.NO_ANSWER),
        ("[" * 100_000, 200, Doubt.NO_ANSWER),
        (" " * 300_000 + hermes(), 200, Doubt.NO_ANSWER),
    ],
)
async def test_an_invalid_answer_of_a_feed_is_a_doubt(text: str, status: int, doubt: Doubt) -> None:
    assert await read(text, status) is doubt


async def test_a_market_that_cannot_be_read_is_a_doubt() -> None:
    class NoPools:
        async def read(self) -> TokenReserves:
            raise ChainUnavailable("no node")

    source = MarketPrice(FakeLog(), NoPools(), asset=USDC, decimals=6)

    assert await source.read(NOW) is Doubt.NO_ANSWER


class FakeChain:
    """A fake `PaymentChain`; each check of a token ends with the next of *looks*, an error or None.

    late_s    age of the newest block by this machine's clock; None: no node answers
    """

    def __init__(self, clock: ManualClock, *looks: Exception | None) -> None:
        self._clock = clock
        self._looks = list(looks)
        self.late_s: int | None = 1
        self.genesis: str | None = "this chain"

    def stop(self) -> None:
        raise AssertionError("expected no stop")

    async def expect_usable(self, _asset: Mint | None = None) -> None:
        answer = self._looks.pop(0)
        if answer is not None:
            raise answer

    async def genesis_hash(self) -> str:
        if self.genesis is None:
            raise ChainUnavailable("no node")
        return self.genesis

    async def refresh_offer(self) -> None:
        raise NotImplementedError

    async def lamports(self, wallet: Wallet) -> int:
        raise NotImplementedError(wallet)

    async def block_time_s(self) -> int:
        if self.late_s is None:
            raise ChainUnavailable("no node")
        return self._clock.now() // 1000 - self.late_s


async def test_no_price_is_quoted_while_the_clock_disagrees_with_the_chain() -> None:
    """Quotes expire by this machine's clock, so sales close, and open again by themselves."""
    clock = ManualClock(NOW)
    chain = FakeChain(clock)
    source = TrueClock(PinnedPrice(Decimal(1)), chain, clock)
    closed = []
    for late_s in (1, 10, 11, None, -5, -6, None, 3_600, 0):
        chain.late_s = late_s
        closed.append(await source.read(NOW) is Doubt.CLOCK)

    # Confirmed blocks are some seconds late; none is from the future.  Without an answer of the
    # node nothing changes.
    assert closed == [False, False, True, True, False, True, True, True, False]


async def test_no_price_is_quoted_if_payments_settle_on_another_chain() -> None:
    """A silent node changes nothing, and neither does a log from files, which names no chain."""
    chain, reader = FakeChain(ManualClock(NOW)), FakeLog()
    source = OwnChain(PinnedPrice(Decimal(1)), chain, reader)
    closed = []
    for settled_on, followed in [
        *(("this chain", None), ("this chain", "this chain"), (None, "this chain")),
        *(("another", "this chain"), (None, "this chain"), ("this chain", "this chain")),
        ("another", None),
    ]:
        chain.genesis, reader.genesis = settled_on, followed
        closed.append(await source.read(NOW) is Doubt.OTHER_CHAIN)

    assert closed == [False, False, False, True, True, False, False]


async def test_an_error_of_a_price_source_is_logged_and_gives_no_price() -> None:
    class Broken:
        async def read(self, _now: UnixMs) -> Quote | Doubt:
            raise ZeroDivisionError("a bug")

    clock = ManualClock(NOW)
    with capture_logs() as logs:
        found = await UsableToken(Broken(), FakeChain(clock, None)).read(NOW)

    assert found is Doubt.BROKEN
    (event,) = logs
    assert event["event"] == "request for the price of the payment token failed"
    assert event["log_level"] == "error"


async def test_sol_has_the_price_of_its_last_trade_for_an_hour() -> None:
    market = FakeLog()
    sol = SolPrice(market)
    assert await sol.read(NOW) is None
    market.track(WSOL)
    now_s = NOW // 1000
    swap = PricedSwap(WSOL, 0, 0, 0, 0, True, 1_000_000, 171.5, 1.0)  # noqa: FBT003
    market.append(1, now_s - 1_800, swap)

    assert await sol.read(NOW) == Decimal("171.5")
    assert await sol.read(UnixMs(NOW + 3_600_000)) is None
    market.meanwhile = raising
    assert await sol.read(NOW) is None


async def raising() -> None:
    raise ServiceUnavailable("the store does not answer")


async def test_no_price_is_quoted_until_the_payment_token_was_found_usable() -> None:
    clock = ManualClock(NOW)
    away, unfit = ChainUnavailable("away"), UnusablePaymentToken("it has a transfer fee")
    chain = FakeChain(clock, away, None, away, unfit, away, None)
    source = UsableToken(PinnedPrice(Decimal(1)), chain)
    sells = [isinstance(await source.read(NOW), Quote) for _ in range(6)]

    # No answer at first: closed.  Usable: open.  No answer later: still open.  Unusable: closed
    # until a look finds the token usable.
    assert sells == [False, True, True, False, False, True]
