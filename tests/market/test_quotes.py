"""Tokens other than SOL, USDC and USDT in which swaps are paid, and their values."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mintscope.dex.outcome import QuoteKind, Swap
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.pricing import Rate, price_slot, sol_usd_samples
from mintscope.market.quotes import BASIC, Quotes, oriented
from mintscope.market.standing import Offer
from mintscope.market.standings import Standings, before_standing
from mintscope.solana.blocks import (
    CASH,
    JITOSOL,
    JUPUSD,
    MSOL,
    PYUSD,
    USD1,
    USDC,
    USDG,
    USDS,
    USDT,
    WSOL,
)

NOW = UnixS(1_790_000_000)
TOKEN = Mint("DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263")
OTHER = Mint("7atgF8KQo4wJrD5ATGX7t1V2zVvykPJbFfNeVf1icFv1")
RATE = Rate(150.0, NOW)
FURTHER = [PYUSD, USDS, USD1, USDG, CASH]


def market(
    prices: Mapping[Mint, float], *, age_s: int = 5, since_s: int = 7_200, pause_s: float = 2.0
) -> Quotes:
    """Return quotes that know the price of each mint from its own market."""
    decided = {
        mint: before_standing(
            "pool", price, UnixS(NOW - age_s), pause_s, UnixS(NOW - since_s), is_direct=True
        )
        for mint, price in prices.items()
    }
    return Quotes(decided.get, NOW)


def swap(  # noqa: PLR0913
    received: Mint, gained: int, paid: Mint, lost: int, *, decimals: tuple[int, int] = (6, 6),
    index: int = 0,
) -> Swap:  # fmt: skip
    return Swap(
        Signature("s"), index, 0, -1, 0, "made", "pool", received, gained, decimals[0],
        paid, lost, decimals[1], "signer",
    )  # fmt: skip


def offer(usd: float, time: UnixS, *, is_direct: bool = True) -> Offer:
    return Offer("pool", "signer", usd, usd / RATE.usd, 10**6, 10**9, time, is_direct)


def test_only_usdc_usdt_and_sol_are_quotes_without_known_prices() -> None:
    assert BASIC.dollars == {USDC, USDT}
    assert [BASIC.kind(mint) for mint in (USDC, USDT, WSOL, USD1, JITOSOL, TOKEN)] == [
        QuoteKind.USD, QuoteKind.USD, QuoteKind.SOL, None, None, None,
    ]  # fmt: skip


def test_a_dollar_token_is_an_anchor_once_its_own_market_agrees() -> None:
    assert USD1 not in market({}).dollars
    assert USD1 in market({USD1: 0.9995}).dollars
    assert USD1 in market({USD1: 1.0099}).dollars
    assert USD1 not in market({USD1: 1.011}).dollars
    assert USD1 not in market({USD1: 0.5}).dollars
    assert USD1 not in market({USD1: 1.0}, age_s=901).dollars


@pytest.mark.parametrize("off", [USDC, USDT, *FURTHER])
@pytest.mark.parametrize("price", [0.88, 0.985, 1.02])
def test_a_dollar_that_leaves_its_peg_is_no_anchor_until_it_is_back(
    off: Mint, price: float
) -> None:
    prices = dict.fromkeys([USDC, USDT, *FURTHER], 1.0)
    assert market(prices | {off: price}).dollars == prices.keys() - {off}
    assert market(prices).dollars == prices.keys()


def test_a_fall_of_usdc_removes_no_other_dollar() -> None:
    """With USDC at 0.88, the other dollars, most of them traded in USDC, show 1.136."""
    prices = dict.fromkeys([USDT, *FURTHER], 1 / 0.88) | {USDC: 0.88}
    assert market(prices).dollars == {USDT, *FURTHER}


@pytest.mark.parametrize("price", [0.5, 0.97, 1.03, 2.0])
@pytest.mark.parametrize("count", [2, 4])
def test_wrong_prices_of_half_of_the_dollars_remove_no_other_dollar(
    count: int, price: float
) -> None:
    """An attacker can move the prices of thin dollar tokens; the other tokens stay dollars."""
    mints = [USDC, USDT, CASH, JUPUSD, PYUSD, USDS, USD1, USDG]
    honest = dict.fromkeys(mints[:count], 1.0)
    bought = dict.fromkeys(mints[-count:], price)
    assert market(honest | bought).dollars == honest.keys()


def test_the_deviation_of_each_dollar_token_is_reported() -> None:
    off = market({USDC: 1.0, PYUSD: 1.0, USD1: 0.9}).off_peg

    assert off == {USDC: 0.0, USDT: 0.0, PYUSD: 0.0, USD1: pytest.approx(-0.1)}
    assert market({USD1: 0.9}, age_s=901).off_peg == {}
    assert BASIC.off_peg == {}


def test_two_dollars_alone_are_not_compared() -> None:
    assert market({USDC: 0.9, USDT: 1.1}).dollars == {USDC, USDT}


def test_a_token_quoted_in_another_dollar_has_a_price() -> None:
    quotes = market({USD1: 1.0})
    (priced,) = price_slot([swap(USD1, 5_000_000, TOKEN, 2_000_000)], RATE, None, quotes).swaps

    assert (priced.mint, priced.price_usd, priced.volume) == (TOKEN, 2.5, 5_000_000)
    assert priced.detail is not None
    assert (priced.detail.quote, priced.detail.quote_decimals) == (USD1, 6)


def test_a_swap_of_sol_for_another_dollar_is_a_sample_of_the_rate() -> None:
    one = swap(WSOL, 10**9, USD1, 151_000_000, decimals=(9, 6))
    (sample,) = sol_usd_samples([one], NOW, None, market({USD1: 1.0}))
    assert (sample.usd, sample.lamports) == (151.0, 10**9)
    assert sol_usd_samples([one], NOW, None, market({USD1: 0.9})) == ()
    assert sol_usd_samples([one]) == ()


def test_a_token_quoted_in_a_staking_token_has_a_price_and_volume() -> None:
    quotes = market({JITOSOL: 187.5})
    one = swap(JITOSOL, 2 * 10**9, TOKEN, 4_000_000, decimals=(9, 6))
    (priced,) = price_slot([one], RATE, None, quotes).swaps

    assert (priced.price_usd, priced.price_sol) == (93.75, 0.625)
    assert priced.volume == 375_000_000
    assert price_slot([one], RATE, None, market({JITOSOL: 187.5}, age_s=301)).swaps == []
    assert price_slot([one], RATE).swaps == []


@pytest.mark.parametrize("usd", [119.0, 121.0, 299.0, 301.0])
def test_a_staking_token_is_a_quote_only_at_0_8_to_2_sol(usd: float) -> None:
    """An attacker can move a thin staking token, and reserves quoted in it have no upper limit."""
    is_quote = market({WSOL: 150.0, JITOSOL: usd}).kind(JITOSOL) is QuoteKind.TOKEN
    assert is_quote is (120 <= usd <= 300)
    assert market({JITOSOL: usd}).kind(JITOSOL) is QuoteKind.TOKEN


def test_a_token_quoted_in_a_robust_token_has_a_price_but_no_volume() -> None:
    one = swap(OTHER, 3_000_000, TOKEN, 1_000_000)
    (priced,) = price_slot([one], RATE, None, market({OTHER: 0.5})).swaps

    assert (priced.mint, priced.price_usd, priced.volume) == (TOKEN, 1.5, 0)
    for fragile in (
        market({OTHER: 0.5}, age_s=61),
        market({OTHER: 0.5}, since_s=3_599),
        market({OTHER: 0.5}, pause_s=11.0),
    ):
        assert price_slot([one], RATE, None, fragile).swaps == []


def test_a_token_priced_by_another_token_is_no_quote() -> None:
    """Otherwise a price could be two tokens away from SOL or a dollar, or depend on itself."""
    pools, time = Standings(), NOW
    for slot in range(4_000):
        time = UnixS(NOW + slot)
        pools.begin(Slot(slot))
        assert pools.sets_price(OTHER, offer(0.5, time))
        assert pools.sets_price(TOKEN, offer(1.5, time, is_direct=False))
        pools.finalize(Slot(slot))
    quotes = Quotes(pools.of, time)

    assert quotes.kind(OTHER) is QuoteKind.TOKEN
    assert quotes.kind(TOKEN) is None
    seen = oriented(swap(TOKEN, 1, OTHER, 1), quotes)
    assert seen is not None
    assert seen.base == TOKEN


def test_two_tokens_of_the_same_rank_do_not_price_each_other() -> None:
    robust = market({TOKEN: 1.0, OTHER: 2.0})
    staking = market({JITOSOL: 187.5, MSOL: 190.0})
    mixed = market({JITOSOL: 187.5, OTHER: 2.0})

    assert oriented(swap(TOKEN, 1, OTHER, 1), robust) is None
    assert oriented(swap(MSOL, 1, JITOSOL, 1), staking) is None
    seen = oriented(swap(JITOSOL, 1, OTHER, 1), mixed)
    assert seen is not None
    assert (seen.base, seen.quote) == (OTHER, JITOSOL)


def test_swaps_of_a_slot_do_not_change_the_quotes_of_the_slot() -> None:
    """The quotes of a slot are those before the slot, so the order of its swaps does not matter."""
    pools = Standings()
    pools.begin(Slot(1))
    pools.sets_price(JITOSOL, offer(187.5, NOW))
    pools.begin(Slot(2))
    quotes = Quotes(pools.of, UnixS(NOW + 1))
    assert quotes.worth(JITOSOL) == 187.5
    pools.sets_price(JITOSOL, offer(200.0, UnixS(NOW + 1)))
    assert quotes.worth(JITOSOL) == 187.5


@given(
    amount=st.integers(1_000, 2**64 - 1),
    base=st.integers(1_000, 2**64 - 1),
    worth=st.floats(1e-9, 1e9),
    decimals=st.tuples(st.integers(0, 18), st.integers(0, 18)),
)
def test_amounts_in_a_staking_token_are_exact(
    amount: int, base: int, worth: float, decimals: tuple[int, int]
) -> None:
    one = swap(JITOSOL, amount, TOKEN, base, decimals=decimals)
    reported = price_slot([one], RATE, None, market({JITOSOL: worth}))

    exact = Fraction(amount, 10 ** decimals[0]) * Fraction(worth) * 10**6
    if not reported.swaps:
        assert reported.unpriced
        return
    (priced,) = reported.swaps
    is_rejected = priced.price_usd is None and exact > 100_000  # its price is absurd
    assert priced.volume == (0 if is_rejected else int(exact))
    if priced.price_usd is not None:
        ratio = Fraction(amount * 10 ** decimals[1], base * 10 ** decimals[0])
        assert priced.price_usd == pytest.approx(float(ratio * Fraction(worth)), rel=1e-14)


class TestMadeUpQuote:
    """Attacks by someone who makes a token, trades it in a ten-dollar pool, and holds a billion."""

    def began(
        self, depth_of_quote: int, *, moment: int = 0, moments: range = range(0)
    ) -> tuple[Standings, UnixS]:
        """Return the standings, and the time, after an hour of honest trades.

        A pool of TOKEN at 2 USD holds 100,000 USD; a pool of OTHER at 1 USD holds *depth_of_quote*
        micro-USD.

        moment   the micro-USD in a second pool of OTHER, at its swaps in the slots *moments*
        """
        pools, time = Standings(), NOW
        for number in range(1_801):
            time = UnixS(NOW + 2 * number)
            pools.begin(Slot(number))
            signer = f"{number % 7}"
            seen = offer(2.0, time)
            honest = replace(seen, pool="honest", signer=signer, depth=100_000 * 10**6)
            if number % 10 == 0:  # too seldom for a robust price, which no other token could quote
                pools.sets_price(TOKEN, honest)
            made = replace(offer(1.0, time), signer=signer, depth=depth_of_quote)
            pools.sets_price(OTHER, made)
            if number in moments:
                pools.sets_price(OTHER, replace(made, pool="moment", depth=moment))
            pools.finalize(Slot(number))
        return pools, time

    def sets_price(
        self,
        depth_of_quote: int,
        *,
        usd: float,
        seconds: int = 900,
        moment: int = 0,
        moments: range = range(0),
    ) -> bool:
        """Return whether a swap in a pool with a million OTHER sets the price of TOKEN."""
        pools, time = self.began(depth_of_quote, moment=moment, moments=moments)
        sets = False
        for number in range(seconds):
            pools.begin(Slot(10_000 + number))
            quotes = Quotes(pools.of, UnixS(time + number))
            assert quotes.kind(OTHER) is QuoteKind.TOKEN
            own = swap(OTHER, int(100 * usd * 10**6), TOKEN, 100 * 10**6)
            own = own._replace(pool="own", in_left=10**12, signer=f"own {number % 3}")
            priced = price_slot([own], RATE, pools.sets_price, quotes, UnixS(time + number)).swaps
            sets = sets or priced[0].price_usd is not None
            later = offer(1.0, UnixS(time + number))
            pools.sets_price(OTHER, replace(later, depth=depth_of_quote))
        return sets

    def test_a_made_up_quote_buys_no_price(self) -> None:
        """The honest pool has not traded since, so it has only an eighth of its weight."""
        assert not self.sets_price(10 * 10**6, usd=6.0)
        assert not self.sets_price(90_000 * 10**6, usd=6.0)

    @pytest.mark.parametrize("moments", [range(1_800, 1_801), range(1_000, 1_601, 20)])
    def test_temporary_liquidity_does_not_back_a_made_up_quote(self, moments: range) -> None:
        """A second pool holds 120,000 USD at one swap, or for twenty minutes, and then nothing."""
        moment = 120_000 * 10**6
        assert not self.sets_price(2_000 * 10**6, usd=6.0, moment=moment, moments=moments)

    def test_a_pool_quoted_in_a_deep_token_can_set_the_price(self) -> None:
        assert self.sets_price(1_000_000 * 10**6, usd=6.0)


def test_the_depth_of_a_pool_is_bounded_by_the_liquidity_of_its_quote() -> None:
    deep = market({OTHER: 0.5, JITOSOL: 187.5})
    assert deep.behind(OTHER) == 10**15 // 10
    assert deep.behind(JITOSOL) is None
    pools = Standings()
    for slot in range(1_801):
        pools.begin(Slot(slot))
        reported = offer(0.5, UnixS(NOW + 2 * slot))
        pools.sets_price(OTHER, replace(reported, depth=10_000 * 10**6))
        far = replace(reported, pool="far", usd=0.6, depth=1_000 * 10**6)
        pools.sets_price(OTHER, far)
        pools.finalize(Slot(slot))
    quotes = Quotes(pools.of, UnixS(NOW + 3_600))
    assert quotes.behind(OTHER) == 1_000 * 10**6
    one = swap(OTHER, 3_000_000, TOKEN, 1_000_000)._replace(in_left=10**10)
    (priced,) = price_slot([one], RATE, None, quotes).swaps
    assert priced.evidence is not None
    assert (priced.evidence.depth, priced.evidence.flow) == (1_000 * 10**6, 1_500_000)
    (staked,) = price_slot(
        [swap(JITOSOL, 10**6, TOKEN, 10**6, decimals=(6, 6))._replace(in_left=10**13)], RATE, None,
        market({JITOSOL: 187.5}),
    ).swaps  # fmt: skip
    assert staked.evidence is not None
    assert staked.evidence.depth == 1_875_000_000 * 10**6
