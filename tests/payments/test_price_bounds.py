"""The price at its limits, and the texts for a missing price."""

from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import InvalidBundle, PriceUnavailable
from mintscope.kit.primitives import UnixMs, UnixS
from mintscope.payments.price_cache import PriceCache
from mintscope.payments.pricing import (
    CHANGE_PER_MINUTE_MAX,
    Doubt,
    Minute,
    PriceList,
    Quote,
    TokenMarket,
    is_clock_right,
    is_jump,
    parse_bundle,
    price_of_feed,
    price_of_market,
    twap,
    vwap,
)

NOW_S: Final = 1_700_000_040
NOW: Final = UnixMs(NOW_S * 1000)


def ago(seconds: int, close: float, volume: int = 1_000_000) -> Minute:
    return Minute(start=UnixS(NOW_S - seconds), close=close, volume=volume)


def market(*minutes: Minute, **changes: Any) -> TokenMarket:
    healthy = TokenMarket(minutes=minutes, base_usd=1_000, quote_usd=1_000, lag_s=60)
    return replace(healthy, **changes)


def quote(usd: str, at: int = NOW) -> Quote:
    return Quote(usd=Decimal(usd), observed_at=UnixMs(at))


def test_one_side_of_the_pools_may_be_worth_twice_the_other() -> None:
    steady = [ago(60 * minute, 2.0) for minute in range(40, 0, -1)]

    for changes in ({"quote_usd": 2_000.0}, {"base_usd": 2_000.0}):
        assert price_of_market(market(*steady, **changes), NOW) == quote("2.0")


def test_the_averages_may_differ_by_a_twentieth() -> None:
    """10 minutes at 18 and 20 minutes at 21 are 20 on average; the recent average is 21."""
    rising = [ago(2_400, 18.0), ago(1_200, 21.0), ago(60, 21.0)]

    assert price_of_market(market(*rising), NOW) == quote("20.0")
    risen = [ago(2_400, 18.0), ago(1_200, 21.0), ago(60, 21.01)]
    assert price_of_market(market(*risen), NOW) is Doubt.DISAGREEMENT


def test_sides_are_compared_at_the_price_and_not_at_the_last_trade() -> None:
    """The last trade was a tenth above the price.

    So tokens worth 2,100 USD at the last trade are worth 1,909 USD at the price.
    """
    lifted = [*(ago(60 * minute, 2.0) for minute in range(40, 1, -1)), ago(60, 2.2, 1)]

    assert isinstance(price_of_market(market(*lifted, base_usd=2_100.0), NOW), Quote)
    assert price_of_market(market(*lifted, base_usd=2_300.0), NOW) is Doubt.LOPSIDED


def test_the_vwap_uses_the_last_five_minutes_or_else_the_last_trade() -> None:
    assert vwap([ago(300, 9.0), ago(299, 1.0)], UnixS(NOW_S)) == 1.0
    assert vwap([ago(301, 9.0), ago(300, 7.0)], UnixS(NOW_S)) == 7.0


def test_the_twap_ignores_a_minute_in_the_future() -> None:
    assert twap([ago(600, 1.0), ago(-30, 9.0)], UnixS(NOW_S)) == 1.0


def test_the_long_average_begins_thirty_minutes_ago() -> None:
    assert twap([ago(9_000, 100.0), ago(1_800, 1.0), ago(900, 3.0)], UnixS(NOW_S)) == 2.0
    assert twap([ago(9_000, 4.0), ago(900, 2.0)], UnixS(NOW_S)) == 3.0


@pytest.mark.parametrize(
    ("usd", "found"),
    [
        ("1e-30", quote("1e-30")),
        ("9e-31", Doubt.NOT_A_PRICE),
        ("1e30", quote("1e30")),
        ("1.1e30", Doubt.NOT_A_PRICE),
    ],
)
def test_a_feed_price_of_absurd_size_is_not_a_price(usd: str, found: Quote | Doubt) -> None:
    assert price_of_feed(Decimal(usd), NOW, now=NOW) == found


def test_a_feed_price_may_be_dated_five_seconds_ahead() -> None:
    found = price_of_feed(Decimal(2), UnixMs(NOW + 5_000), now=NOW)

    assert found == quote("2", NOW + 5_000)


def test_a_price_must_be_above_zero() -> None:
    assert quote("1e-9").usd == Decimal("1e-9")
    for usd in ("0", "-1", "NaN", "Infinity"):
        with pytest.raises(ValueError, match="above 0"):
            quote(usd)


@pytest.mark.parametrize(
    ("usd", "after_s", "is_one"), [("1.31", 0, True), ("1.29", 0, False), ("1.31", 59, True)]
)
def test_a_change_in_under_a_minute_is_compared_with_the_limit_of_a_minute(
    usd: str, after_s: int, *, is_one: bool
) -> None:
    assert is_jump(quote(usd, NOW + after_s * 1000), quote("1")) is is_one


def test_a_change_is_a_jump_only_above_30_percent_in_a_minute() -> None:
    most = Decimal(1 + CHANGE_PER_MINUTE_MAX) ** 1
    least, hair = 1 / most, Decimal("1e-20")

    for usd, is_one in ((most, False), (most + hair, True), (least, False), (least - hair, True)):
        assert is_jump(quote(str(usd), NOW + 60_000), quote("1")) is is_one


@pytest.mark.parametrize(
    ("skew_s", "is_right"),
    [(-5.0, True), (-5.01, False), (0.0, True), (10.0, True), (10.01, False)],
)
def test_a_clock_may_be_5_s_behind_or_10_s_ahead_of_the_newest_block(
    skew_s: float, *, is_right: bool
) -> None:
    assert is_clock_right(skew_s) is is_right


def test_every_doubt_has_this_text_for_operators() -> None:
    """Operators see these texts in metrics and in the log."""
    assert {each.name: each.value for each in Doubt} == {
        "NO_ANSWER": "the source does not answer",
        "BROKEN": "a bug, or an unforeseen answer",
        "LAGGING": "market data is more than 60 s behind",
        "NO_TRADE": "no trade within 24 h",
        "SHALLOW": "less than 1,000 USD on one side of its pools",
        "LOPSIDED": (
            "its pools hold more than twice as much of one side as of the other at its price"
        ),
        "DISAGREEMENT": "the averages of 5 and 30 minutes differ by more than 5 %",
        "JUMP": "it moved by more than 30 % in a minute",
        "STALE_FEED": "the feed's price is more than 60 s old, or dated ahead",
        "NOT_A_PRICE": "the source's figure is not a price",
        "TOO_LOW": "a bundle would cost more atoms than a payment can carry",
        "CLOCK": "this machine's clock and the chain's are too far apart",
        "OTHER_CHAIN": "payments settle on another chain than the one that is followed",
        "UNUSABLE": "the payment token or the treasury cannot be used, or could not be checked",
    }


class Source:
    """A price source that returns the answer that the test sets, and counts reads."""

    def __init__(self, answer: str | Doubt) -> None:
        self.answer = answer
        self.reads = 0

    async def read(self, now: UnixMs) -> Quote | Doubt:
        self.reads += 1
        return self.answer if isinstance(self.answer, Doubt) else quote(self.answer, now)


class Sol:
    async def read(self, now: UnixMs) -> Decimal | None:
        return Decimal(250) if now else None


async def test_a_cache_has_the_doubt_no_answer_until_its_first_read() -> None:
    price_cache = PriceCache(Source("1"), decimals=6, clock=ManualClock(NOW))

    assert price_cache.latest() is None
    assert price_cache.doubt is Doubt.NO_ANSWER
    assert (await price_cache.price_list()).quote.usd == 1
    assert price_cache.doubt is None


async def test_a_distrusted_price_is_read_again_at_once() -> None:
    source = Source("1")
    price_cache = PriceCache(source, decimals=6, clock=ManualClock(NOW))
    await price_cache.price_list()
    price_cache.distrust()
    assert price_cache.latest() is None
    await price_cache.price_list()

    assert source.reads == 2


async def test_the_fee_limit_of_a_request_exists_only_if_sol_has_a_price() -> None:
    clock = ManualClock(NOW)
    without = await PriceCache(Source("1"), decimals=6, clock=clock).price_list()
    with_sol = await PriceCache(Source("1"), decimals=6, clock=clock, sol=Sol()).price_list()

    assert without.request_fee_lamports_max is None
    assert with_sol.request_fee_lamports_max == 10_000
    by_default = PriceList(quote=quote("1"), decimals=6, sol_usd=Decimal(250))
    assert by_default.request_fee_lamports_max == 10_000


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Doubt.SHALLOW,
            (
                "The payment token has no reliable price right now; nothing was charged. Credit"
                " tokens keep working."
            ),
        ),
        (
            Doubt.CLOCK,
            (
                "This service's clock and the chain's are too far apart, so no payment is asked for"
                " until they agree again; nothing was charged. Credit tokens keep working."
            ),
        ),
        (
            "0.0000000000000001",
            (
                "The payment token is worth too little right now: a bundle would cost more atoms"
                " than a payment can carry. Nothing was charged. Credit tokens keep working."
            ),
        ),
    ],
)
async def test_the_error_of_an_unavailable_price_contains_the_reason(
    answer: str | Doubt, said: str
) -> None:
    price_cache = PriceCache(Source(answer), decimals=6, clock=ManualClock(NOW))
    with pytest.raises(PriceUnavailable) as caught:
        await price_cache.price_list()

    assert str(caught.value) == said
    assert price_cache.latest() is None


async def test_a_source_in_doubt_is_asked_every_five_seconds() -> None:
    source, clock = Source(Doubt.SHALLOW), ManualClock(NOW)
    price_cache = PriceCache(source, decimals=6, clock=clock)
    for after_ms in (0, 4_999, 1, 4_999, 1):
        clock.advance(after_ms)
        with pytest.raises(PriceUnavailable):
            await price_cache.price_list()

    assert source.reads == 3


@pytest.mark.parametrize(
    ("text", "was"),
    [
        (None, "it is missing"),
        ("11", "was '11'"),
        ("7" * 20, f"was '{'7' * 20}'"),
        ("7" * 21, f"was '{'7' * 20}'"),
    ],
)
def test_the_error_shows_at_most_20_characters_of_a_wrong_bundle(
    text: str | None, was: str
) -> None:
    with pytest.raises(InvalidBundle) as caught:
        parse_bundle(text)

    assert str(caught.value) == f"expected a bundle of 10, 50, 100 or 500 credits; {was}"
