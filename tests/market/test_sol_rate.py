"""The price of SOL in dollars: no pool, signer or transaction can move the price alone."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import sqrt
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mintscope.dex.outcome import RecognisedBy, Swap
from mintscope.history.backfill import decide_again
from mintscope.kit.primitives import Slot, UnixS
from mintscope.market.log import SlotHeader
from mintscope.market.pricing import Rate, price_slot, sol_usd_samples
from mintscope.market.quotes import Quotes
from mintscope.market.sol_rate import Sample, agreed, newest, third
from mintscope.market.store.log_reader import header_of, header_row
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.made_chain import MINTS, swap
from support.oracles import slow_market
from support.scenes.sol_pools import HONEST, SolMarket, sale

TOKEN: Final = MINTS[0]
OTHER: Final = MINTS[1]
NOW: Final = 1_700_000_000
WHOLE: Final = sum(HONEST.values())
TIE: Final = Fraction(1, 10**9)  # part of all weight: in it, floating point may decide either way


def moved(rate: float | None) -> float:
    """Return the difference between *rate* and 150 USD, as a fraction of 150 USD."""
    assert rate is not None
    return abs(rate / 150.0 - 1)


MANY: Final = 10**9  # US dollars: a hundred times the deepest pool


@settings(max_examples=30, deadline=None)
@given(
    usd=st.floats(0.01, 100.0),
    sol=st.floats(0.05, 10**6),
    depth=st.integers(0, MANY),
    signers=st.integers(1, 9),
    since_s=st.integers(0, 65),
    has_standing=st.booleans(),
)
@example(usd=2.0, sol=25.0, depth=MANY, signers=9, since_s=10, has_standing=True)
@example(usd=0.97, sol=25.0, depth=MANY, signers=9, since_s=0, has_standing=False)
def test_one_pool_moves_the_rate_by_at_most_a_thousandth(  # noqa: PLR0913 - what one may choose
    usd: float, sol: float, depth: int, signers: int, since_s: int, *, has_standing: bool
) -> None:
    """The limit holds for any reserves, signers and time: a pool has at most 1/3 of the votes."""
    market = SolMarket(has_standing=has_standing)
    for second in range(70):
        own = [
            sale("own", 150.0 * usd, signer=f"{number}", depth=depth, sol=sol, at=10 + at)
            for at, number in enumerate({(second + at) % signers for at in range(3)})
            if second >= since_s
        ]
        assert moved(market.slot(NOW + second, [*market.honest(), *own])) <= 0.001


@settings(max_examples=30, deadline=None)
@given(
    usd=st.floats(0.5, 2.0),
    often=st.integers(1, 5),
    pools=st.integers(1, 4),
    own=st.integers(0, 4),
    depth=st.integers(0, MANY),
)
@example(usd=1.04, often=1, pools=4, own=1, depth=MANY)
@example(usd=1.04, often=1, pools=4, own=3, depth=MANY)
def test_one_signer_moves_the_rate_by_at_most_a_thousandth(
    usd: float, often: int, pools: int, own: int, depth: int
) -> None:
    """The signer trades last in each slot, in honest pools and in pools of its own at once."""
    market = SolMarket()
    entered = [*list(HONEST.items())[:pools], *((f"own {at}", depth) for at in range(own))]
    for second in range(70):
        mine = [
            sale(pool, 150.0 * usd, signer="x", depth=stands, at=10 + turn * 10 + at)
            for turn in range(often)
            for at, (pool, stands) in enumerate(entered)
        ]
        rate = market.slot(NOW + second, [*market.honest(), *(mine if second >= 30 else [])])
        assert moved(rate) <= 0.001


@settings(max_examples=20, deadline=None)
@given(own=st.integers(0, 6), depth=st.integers(0, MANY), usd=st.floats(0.5, 2.0))
@example(own=3, depth=MANY, usd=1.04)
def test_one_transaction_moves_the_rate_by_at_most_a_thousandth(
    own: int, depth: int, usd: float
) -> None:
    """The transaction has many signers, and trades in all honest pools and in new pools."""
    market = SolMarket()
    for second in range(70):
        market.slot(NOW + second, market.honest())
    entered = [*HONEST.items(), *((f"own {at}", depth) for at in range(own))]
    mine = [
        sale(pool, 150.0 * usd, signer=f"{number} of {pool}", depth=stands, at=10)
        for number in range(9)
        for pool, stands in entered
    ]
    assert moved(market.slot(NOW + 70, [*market.honest(), *mine])) <= 0.001


def test_a_move_of_the_market_is_followed_in_the_second_slot() -> None:
    """By the second slot, two signers have traded at the new price in each pool."""
    market = SolMarket()
    for second in range(70):
        market.slot(NOW + second, market.honest())
    rates = [market.slot(NOW + 70 + second, market.honest(1.02)) for second in range(3)]
    assert moved(rates[0]) <= 0.001
    assert rates[1] == pytest.approx(153.0, rel=0.001)
    assert rates[2] == pytest.approx(153.0, rel=0.001)


def off_by(dollars: int, pools: int) -> float:
    """Return the change of the rate, as a fraction, after pools traded 1.2 % above it for a minute.

    dollars   the liquidity of all these pools
    pools     their number; they are equal
    """
    market = SolMarket()
    rate: float | None = None
    for second in range(65):
        own = [
            sale(
                f"own {at}",
                150.0 * 1.012,
                signer=f"{second % 3} of own {at}",
                depth=dollars // pools,
                at=10 + at,
            )
            for at in range(pools)
        ]
        rate = market.slot(NOW + second, [*market.honest(), *own])
    return moved(rate)


@pytest.mark.parametrize("pools", [2, 4, 8])
def test_a_move_of_one_percent_takes_as_much_as_all_other_pools_hold(pools: int) -> None:
    assert off_by(WHOLE * 99 // 100, pools) <= 0.001
    assert off_by(WHOLE * 101 // 100, pools) >= 0.01


def pushed(dollars: float, to: float) -> float:
    """Return the cost of multiplying the price in a pool of *dollars* by *to*, by buying SOL.

    The product of dollars and SOL stays constant, so dollars grow by the root of the price.
    """
    return dollars * (sqrt(to) - 1)


@pytest.mark.parametrize(
    ("pools", "is_moved"),
    [
        (("second", "third", "closed"), True),  # 14 of 24 million, and 14 of 21 parts of the votes
        (("first", "third"), True),  # 14 million, and 11 of 21
        (("second", "third"), False),  # 10 million, and 10 of 21
        (("first",), False),
        (("third", "closed"), False),
    ],
)
def test_a_push_of_honest_pools_moves_the_rate_only_with_half_of_the_votes(
    pools: Sequence[str], *, is_moved: bool
) -> None:
    """The first pool alone is over a third of all; it is reduced to 7 of 21 parts of the votes.

    With 0.5 % more dollars, the price in a pool is 1 % higher.  Three signers have to trade there,
    each as the last in a slot, without other trades in between.
    """
    market = SolMarket()
    for second in range(70):
        market.slot(NOW + second, market.honest())
    spent = sum(pushed(HONEST[pool], 1.01) for pool in pools)
    rate = 0.0
    for turn in range(3):
        mine = [
            sale(pool, 151.6, signer=f"own {turn}", depth=HONEST[pool], at=10 + at)
            for at, pool in enumerate(pools)
        ]
        assert rate <= 0.001
        rate = moved(market.slot(NOW + 70 + turn, [*market.honest(), *mine]))

    assert (rate >= 0.01) is is_moved
    assert is_moved or rate <= 0.001
    assert not is_moved or spent == pytest.approx(69_826, abs=1)


def test_the_rate_returns_with_the_next_trades_of_others() -> None:
    """Two honest trades in each pool, by two signers, undo an attacker's move of the rate."""
    market = SolMarket()
    for second in range(70):
        market.slot(NOW + second, market.honest())
    for turn in range(3):
        mine = [
            sale(pool, 151.6, signer=f"own {turn}", depth=depth, at=10 + at)
            for at, (pool, depth) in enumerate(HONEST.items())
        ]
        rate = market.slot(NOW + 70 + turn, mine)
    assert moved(rate) >= 0.01
    market.slot(NOW + 73, market.honest())
    assert moved(market.slot(NOW + 74, market.honest())) <= 0.001


def test_three_transactions_of_one_slot_are_one_vote() -> None:
    """A bundle can put transactions of three signers into one slot, in all pools."""
    market = SolMarket()
    for second in range(70):
        market.slot(NOW + second, market.honest())
    mine = [
        sale(pool, 151.6, signer=f"own {turn}", depth=depth, at=10 + turn)
        for turn in range(3)
        for pool, depth in HONEST.items()
    ]
    assert moved(market.slot(NOW + 70, [*market.honest(), *mine])) <= 0.001


def test_the_rate_is_the_middle_price_of_three_pools() -> None:
    """Two pools at fixed prices limit the rate; between these, the third pool sets it."""
    rates = []
    for closed in (149.0, 150.0, 151.0):
        samples = [
            Sample(usd, 10**9, 10**12, pool, f"{pool} {number}")
            for pool, usd in (("low", 149.5), ("high", 150.5), ("closed", closed))
            for number in range(3)
        ]
        rates.append(agreed([(0, samples)]))
    assert rates == [149.5, 150.0, 150.5]


def test_the_rate_of_a_single_pool_is_the_price_of_its_newest_swap() -> None:
    market = SolMarket()
    assert market.slot(NOW, [sale("only", 150.0), sale("only", 151.0, at=1)]) == 151.0
    assert market.slot(NOW + 1, [sale("only", 149.0, sol=0.05)]) == 149.0
    assert market.slot(NOW + 2, [sale("only", 170.0, sol=0.0499)]) == 149.0


def test_a_purchase_and_a_sale_of_one_pool_and_transaction_are_no_samples() -> None:
    bought = swap(WSOL, USDC, base_amount=10**9, quote_amount=155 * 10**6, base_decimals=9)
    both = [sale("first", 150.0), bought._replace(pool="first", signer="signer")]

    assert sol_usd_samples(both) == ()
    apart = [both[0], both[1]._replace(transaction_index=1, signer="other")]
    assert [one.usd for one in sol_usd_samples(apart)] == [150.0, 155.0]
    routed = [both[0], both[1]._replace(pool="second")]
    assert [one.usd for one in sol_usd_samples(routed)] == [150.0, 155.0]


def test_pools_of_unlisted_programs_and_empty_pools_have_no_weight() -> None:
    own = sale("own", 155.0, depth=10**9)._replace(recognised_by=RecognisedBy.TRANSFERS)
    empty = sale("empty", 156.0, depth=0, at=1)
    unknown = sale("book", 157.0, depth=None, sol=10**5, at=2)
    samples = sol_usd_samples([own, empty, unknown, sale("honest", 150.0, at=3)])

    assert [one.depth for one in samples] == [0, 0, None, 10**12]
    assert agreed([(0, samples)]) == 150.0


def test_pools_without_balances_are_weighted_by_their_traded_amounts() -> None:
    samples = [Sample(150.0, 3, None, "a", "a"), Sample(160.0, 5, None, "b", "b")]
    assert agreed([(0, samples)]) == 160.0


def test_a_silent_pool_weighs_an_eighth() -> None:
    first, second = Sample(150.0, 1, 10, "a", "a"), Sample(160.0, 1, 9, "b", "b")
    assert agreed([(8, [first, second])]) == 150.0
    assert agreed([(0, [second]), (9, [second, first])]) == 160.0


def test_a_pool_of_less_than_a_thousandth_is_left_out() -> None:
    deep = Sample(150.0, 1, 1_000, "deep", "a")
    for depth, rate in ((1, 160.0), (0, 150.0)):
        own = [Sample(160.0, 1, depth, f"own {at}", f"{at}") for at in range(2)]
        assert agreed([(0, [deep, *own])]) == rate


def test_a_slot_keeps_the_newest_samples_of_three_signers_with_least_depth() -> None:
    said = [
        Sample(150.0 + at, 10**9, depth, "pool", signer)
        for at, (signer, depth) in enumerate([("a", 7), ("b", 9), ("a", None), ("c", 9), ("d", 8)])
    ]
    kept = newest([*said, Sample(1.0, 5, None, "book", "a")])

    assert kept == (
        Sample(152.0, 10**9, 7, "pool", "a"),
        Sample(153.0, 10**9, 7, "pool", "c"),
        Sample(154.0, 10**9, 7, "pool", "d"),
        Sample(1.0, 5, None, "book", "a"),
    )


def test_a_signer_who_is_last_in_each_slot_has_one_vote() -> None:
    """In the earlier slots, the newest sample of another signer counts."""
    honest = Sample(150.0, 10**9, 10**12, "pool", "honest")
    other = Sample(151.0, 10**9, 10**12, "pool", "other")
    last = Sample(160.0, 10**9, 10**12, "pool", "last")
    beside = Sample(150.5, 10**9, 1, "beside", "x")  # with one pool, its newest price is the rate
    assert agreed([(0, [other, last]), (1, [honest, last]), (2, [other, beside])]) == 151.0


@given(st.lists(st.integers(0, 10**6), min_size=3, max_size=9))
def test_no_weight_is_over_a_third_once_it_is_reduced(weights: list[int]) -> None:
    most = third(weights)
    lowered = weights if most is None else [min(weight, most) for weight in weights]
    assert max(lowered) * 3 <= sum(lowered) * (1 + 1e-9)
    if most is not None:  # and no lower than that
        assert max(lowered) * 3 == pytest.approx(sum(lowered), rel=1e-9)


SAMPLES: Final = st.builds(
    sale,
    st.sampled_from("abcdef"),
    st.sampled_from([149.0, 150.0, 150.1, 151.0, 155.0]),
    signer=st.sampled_from("vwxyz"),
    depth=st.sampled_from([None, 0, 1, 8, 9, 10, 1_000, 10**6]),
    sol=st.sampled_from([0.04, 0.05, 1.0, 7.0]),
    at=st.integers(0, 3),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 70), st.lists(SAMPLES, max_size=6)), max_size=12))
def test_the_rate_agrees_with_its_definition(slots: list[tuple[int, list[Swap]]]) -> None:
    market, time = SolMarket(), NOW
    samples: list[list[slow_market.Sample]] = []
    for place, (pause_s, swaps) in enumerate(slots):
        time += pause_s
        usd = market.slot(time, sorted(swaps, key=lambda one: one.transaction_index))
        samples += slow_market.sol_samples(market.block_swaps[place:])
        defined = partial(slow_market.sol_price, samples, market.times(), place)
        if usd is None:
            assert defined() is None
        else:
            slacks = (Fraction(0), TIE, -TIE)
            assert any(usd == pytest.approx(defined(slack), rel=1e-15) for slack in slacks)


def test_a_log_that_begins_later_has_the_same_rate_after_a_minute() -> None:
    whole, late = SolMarket(seed=2), SolMarket(seed=2)
    for second in range(150):
        swaps = whole.honest()
        usd = whole.slot(NOW + second, swaps)
        if second >= 50:
            later = late.slot(NOW + second, swaps)
            assert later == usd or second <= 110


def test_headers_are_stored_and_headers_of_an_earlier_version_are_read() -> None:
    samples = sol_usd_samples([sale("first", 150.0), sale("book", 151.0, depth=None, at=1)])
    header = SlotHeader(Slot(2), Slot(1), "hash", UnixS(NOW), 150.0, UnixS(NOW), samples)
    assert header_of(header_row(header)) == header
    *columns, _ = header_row(header)
    old = header_of((*columns, b"\x91\x92\xcb\x40\x62\xc0\x00\x00\x00\x00\x00\x05"))
    assert old.samples == (Sample(150.0, 5, None, "", ""),)


def test_each_price_in_dollars_is_its_price_in_sol_times_the_rate() -> None:
    """This holds in each slot in which a token and SOL trade, whichever pool of SOL traded last."""
    market = SolMarket(spread=0.01, has_standing=True)
    sol_price: float | None = None
    seen: set[float] = set()
    for second in range(90):
        bought = swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9 + second, index=9)
        paid = swap(OTHER, USDC, base_amount=10**9, quote_amount=10**9 + second, index=10)
        made = [bought._replace(pool="token"), paid._replace(pool="other")]
        market.slot(NOW + second, [*market.honest(1 + second / 2_000), *made])
        for one in market.priced:
            if one.mint == WSOL and one.price_usd is not None:
                sol_price = one.price_usd
        assert sol_price == market.headers[-1].sol_usd
        for one in market.priced:
            if one.mint in (TOKEN, OTHER):
                assert one.price_usd is not None
                assert one.price_sol is not None
                assert one.price_usd / one.price_sol == pytest.approx(sol_price, rel=1e-15)
        assert sol_price is not None
        seen.add(sol_price)
    assert len(seen) > 60


def test_sol_in_one_pool_has_the_price_of_each_swap() -> None:
    """SOL is then priced like any other token; the rate is the price of the newest swap."""
    market = SolMarket(has_standing=True)
    market.slot(NOW, [sale("only", usd, at=at) for at, usd in enumerate([152.0, 150.0])])
    assert [one.price_usd for one in market.priced] == [152.0, 150.0]
    rate = market.slot(NOW + 1, [sale("only", usd, at=at) for at, usd in enumerate([151.0, 149.0])])
    assert [one.price_usd for one in market.priced] == [151.0, 149.0]
    assert rate == 149.0
    rate = market.slot(NOW + 2, [sale("only", 149.9), sale("other", 149.5, signer="a", at=1)])
    assert {one.price_usd for one in market.priced} == {rate, None}  # the new pool weighs nothing
    rate = market.slot(NOW + 3, [sale("only", 149.9), sale("only", 149.3, at=1)])
    assert {one.price_usd for one in market.priced} == {rate}


def test_the_price_of_sol_is_decided_in_the_same_way_from_the_log() -> None:
    """For a swap of SOL, the log stores the market's rate and also the price in the swap's pool."""
    market = SolMarket(has_standing=True)
    for number in range(60):
        market.slot(NOW + number, market.honest())
    before, standings = market.standings.of(WSOL), market.standings
    rate, at = Rate(150.5, UnixS(NOW + 60)), UnixS(NOW + 60)
    standings.begin(Slot(60))
    made = [sale("first", 150.9, depth=10**7), sale("second", 155.0, depth=6 * 10**6, at=1)]
    reported = price_slot(made, rate, standings.sets_price, Quotes(standings.of, at), at).swaps
    assert [(one.price_usd, one.offered) for one in reported] == [
        (150.5, (150.9, 1.0)),
        (None, (155.0, 1.0)),
    ]
    again, decided = decide_again(before, at, reported, rate.usd)

    assert again == reported
    assert decided == standings.of(WSOL)
    assert reported[0].volume == Fraction(2 * 1509, 10) * 10**6


def test_the_price_of_sol_in_one_pool_is_decided_the_same_way_from_the_log() -> None:
    market = SolMarket(has_standing=True)
    market.slot(NOW, [sale("only", 150.0)])
    before = market.standings.of(WSOL)
    rate = market.slot(NOW + 1, [sale("only", usd, at=at) for at, usd in enumerate([151.0, 149.0])])
    again, decided = decide_again(before, UnixS(NOW + 1), market.priced, rate)

    assert again == market.priced
    assert decided == market.standings.of(WSOL)
