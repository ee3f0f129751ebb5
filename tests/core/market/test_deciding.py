"""A private pool cannot move a price, whatever is traded in it."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.base.solana import USDC, WSOL
from mintscope.core.market.deciding import (
    NEW_START_AFTER_S,
    PROBATION_S,
    SUCCESSOR_AFTER_S,
    DecidingPools,
)
from mintscope.core.market.log import PricedSwap
from mintscope.core.market.pricing import Rate, price_slot, sol_usd_samples
from mintscope.core.market.swap import Swap
from support.fakes.made_chain import MINTS, swap

TOKEN: Final = MINTS[0]
START: Final = 1_700_000_000
RATE: Final = Rate(150.0, UnixS(START))
Trade = tuple[int, Swap]  # when, what


def trade(pool: str, usd: float, *, tokens: float = 1_000.0, mint: Mint = TOKEN) -> Swap:
    """Return a purchase of *tokens* in *pool* for *usd* each."""
    decimals = 9 if mint == WSOL else 6
    base, quote = int(tokens * 10**decimals), int(tokens * usd * 10**6)
    made = swap(mint, USDC, base_amount=base, quote_amount=quote, base_decimals=decimals)
    return made._replace(pool=pool, signer=pool)


def priced(
    trades: Iterable[Trade], pools: DecidingPools | None = None
) -> list[tuple[int, PricedSwap]]:
    """Return what the log has of *trades*, one slot for each."""
    pools, rows = pools or DecidingPools(), []
    for slot, (time, one) in enumerate(trades):
        pools.begin(Slot(slot))

        sets_price = partial(pools.sets_price, UnixS(time))
        rows += [(time, row) for row in price_slot([one], RATE, sets_price).swaps]
    return rows


def of(pool: str, rows: Sequence[tuple[int, PricedSwap]]) -> list[tuple[int, PricedSwap]]:
    return [(time, row) for time, row in rows if row.pool == pool]


def steady(count: int, *, every_s: int = 60, pool: str = "honest") -> list[Trade]:
    """Return trades at 2 USD."""
    return [(START + number * every_s, trade(pool, 2.0)) for number in range(count)]


@pytest.mark.storm
@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
@pytest.mark.storm
def test_wash_trades_at_absurd_prices_in_private_pools_move_no_price(data: st.DataObject) -> None:
    """The honest rows are what they would be without them, bit for bit; no other has a price."""
    honest, time, usd = [], START, 2.0
    for _ in range(data.draw(st.integers(10, 60))):
        time += data.draw(st.integers(1, NEW_START_AFTER_S))
        usd *= data.draw(st.floats(0.7, 1.4))
        honest.append((time, trade("honest", usd, tokens=data.draw(st.floats(1, 10**6)))))
    since = honest[0][0] + PROBATION_S
    attack = []
    for _ in range(data.draw(st.integers(1, 60))):
        when = data.draw(st.integers(since, max(since, time)))
        now = [made for at, made in honest if at <= when][-1]
        shown = now.in_amount / now.out_amount
        factor = data.draw(st.sampled_from([1e-6, 0.01, 0.4, 2.5, 100.0, 1e6]))
        pool = data.draw(st.sampled_from(["private", "private too"]))
        tokens = data.draw(st.floats(1, 10**7))
        attack.append((when, trade(pool, shown * factor, tokens=tokens)))
    both = sorted([*honest, *attack], key=lambda one: one[0])

    rows = priced(both)
    assert of("honest", rows) == priced(honest)
    assert all(row.price_usd is None for _, row in rows if row.pool != "honest")


def test_wash_trades_do_not_move_what_sol_costs() -> None:
    honest = [(START + second, trade("honest", 150.0, mint=WSOL)) for second in range(700)]
    pools = DecidingPools()
    priced(honest, pools)
    now = UnixS(START + 700)
    swaps = [trade("private", 15.0, tokens=10**6, mint=WSOL), honest[-1][1]]
    samples = sol_usd_samples(swaps, lambda pool, usd: pools.agrees(WSOL, pool, usd, now))

    assert samples == ((150.0, 1_000 * 10**9),)


def test_pools_that_agree_all_set_the_price() -> None:
    honest = steady(30)
    other = [(START + 1_000, trade("other", 2.09)), (START + 1_001, trade("other", 1.91))]
    rows = priced(sorted([*honest, *other], key=lambda one: one[0]))

    assert all(row.price_usd is not None for _, row in rows)


def test_the_pool_with_most_volume_of_the_first_minutes_decides() -> None:
    thin = [(START + second, trade("thin", 3.0, tokens=10)) for second in range(0, 590, 10)]
    deep = [(START + second, trade("deep", 2.0)) for second in range(5, 590, 50)]
    late = [(START + 700, trade("thin", 3.0)), (START + 701, trade("deep", 2.0))]
    rows = priced(sorted([*thin, *deep], key=lambda one: one[0]) + late)

    assert [row.price_usd for _, row in rows[-2:]] == [None, 2.0]
    assert all(row.price_usd for _, row in rows[:-2])


def test_a_pool_that_is_left_is_followed_by_one_that_agrees() -> None:
    """As when a token leaves its bonding curve."""
    curve = steady(700, every_s=1, pool="curve")
    end = curve[-1][0]
    early, late = end + SUCCESSOR_AFTER_S, end + SUCCESSOR_AFTER_S + 11
    moved = [
        (early, trade("pool", 2.05)),
        (late, trade("pool", 2.0)),
        (late + 1, trade("pool", 9.0)),
    ]
    rows = priced([*curve, *moved])

    assert [row.price_usd for _, row in rows[-3:]] == [2.05, 2.0, 9.0]


def test_a_pool_that_decides_because_it_agreed_loses_it_when_the_previous_one_trades() -> None:
    """To agree during a pause and then to trade at another price lasts until an honest swap."""
    honest = steady(20)
    end = honest[-1][0]
    took = [(end + 700, trade("private", 2.0)), (end + 701, trade("private", 200.0))]
    back = [(end + 720, trade("honest", 2.1)), (end + 721, trade("private", 200.0))]
    rows = priced([*honest, *took, *back])

    assert [row.price_usd for _, row in rows[-2:]] == [2.1, None]


def test_a_slot_that_dies_decides_nothing() -> None:
    honest = steady(20)
    pools = DecidingPools()
    priced(honest, pools)
    now = UnixS(honest[-1][0] + 1)
    pools.begin(Slot(100))
    assert pools.sets_price(now, TOKEN, "honest", 4.0, 10**6)
    assert pools.agrees(TOKEN, "other", 4.0, now)
    pools.retract(Slot(100))

    assert not pools.agrees(TOKEN, "other", 4.0, now)
    assert pools.agrees(TOKEN, "other", 2.0, now)


def test_a_restart_decides_as_if_there_had_been_none() -> None:
    pools, kept = DecidingPools(), []
    for slot, (time, one) in enumerate(steady(20)):
        pools.begin(Slot(slot))
        pools.sets_price(UnixS(time), TOKEN, str(one.pool), 2.0, 10**6)
        kept += [(Slot(slot), mint, state) for mint, state in pools.changed().items()]
    again = DecidingPools(kept)
    for each in (pools, again):
        each.retract(Slot(19))
        each.begin(Slot(20))
        each.sets_price(UnixS(START + 1_300), TOKEN, "honest", 2.2, 10**6)

    assert again.changed() == pools.changed() != {}
