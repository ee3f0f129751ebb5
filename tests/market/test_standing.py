"""The reserves of a pool decide the price; a private pool cannot move it."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.dex.outcome import RecognisedBy, Swap
from mintscope.history.backfill import decide_again
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.log import PricedSwap
from mintscope.market.pricing import Rate, price_slot, sol_usd_samples
from mintscope.market.quotes import BASIC
from mintscope.market.standing import Standing, weights
from mintscope.market.standings import Standings, before_standing, unpack
from mintscope.market.store.log_reader import standing_blob
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.made_chain import MINTS, swap

TOKEN: Final = MINTS[0]
START: Final = 1_700_000_000
RATE: Final = Rate(150.0, UnixS(START))
DEPTH: Final = 100_000.0
Trade = tuple[int, Swap]  # its time, its swap


def trade(  # noqa: PLR0913 - what a swap says
    pool: str,
    usd: float,
    *,
    tokens: float = 100.0,
    mint: Mint = TOKEN,
    depth: float | None = DEPTH,
    signer: str = "",
) -> Swap:
    """Return a purchase of *tokens* in *pool* for *usd* each that leaves *depth* USD there."""
    decimals = 9 if mint == WSOL else 6
    base, quote = int(tokens * 10**decimals), int(tokens * usd * 10**6)
    made = swap(mint, USDC, base_amount=base, quote_amount=quote, base_decimals=decimals)
    left = None if depth is None else int(depth * 10**6)
    return made._replace(pool=pool, signer=signer or pool, in_left=left)


def priced(trades: Iterable[Trade], pools: Standings | None = None) -> list[tuple[int, PricedSwap]]:
    """Price *trades*, one in each slot; return the priced swaps with their times."""
    pools, rows = pools or Standings(), []
    for slot, (time, one) in enumerate(trades):
        pools.begin(Slot(slot))
        reported = price_slot([one], RATE, pools.sets_price, BASIC, UnixS(time))
        rows += [(time, row) for row in reported.swaps]
    return rows


def of(pool: str, rows: Sequence[tuple[int, PricedSwap]]) -> list[tuple[int, PricedSwap]]:
    return [(time, row) for time, row in rows if row.pool == pool]


def steady(  # noqa: PLR0913 - what a market is made of
    count: int,
    *,
    every_s: int = 2,
    pool: str = "honest",
    usd: float = 2.0,
    mint: Mint = TOKEN,
    depth: float | None = DEPTH,
    since: int = START,
) -> list[Trade]:
    """Return trades of five signers in one pool."""
    signed = [trade(pool, usd, mint=mint, depth=depth, signer=f"{n} of {pool}") for n in range(5)]
    return [(since + number * every_s, signed[number % 5]) for number in range(count)]


def shown(rows: Iterable[tuple[int, PricedSwap]]) -> list[float | None]:
    return [row.price_usd for _, row in rows]


@pytest.mark.storm
@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_a_pool_that_holds_little_moves_no_price(data: st.DataObject) -> None:
    """The honest pool's prices are the same with and without the small pools, which set none."""
    honest, time, usd = [], START, 2.0
    for number in range(data.draw(st.integers(10, 60))):
        time += data.draw(st.integers(1, 600))
        usd *= data.draw(st.floats(0.9, 1.1))
        honest.append((time, trade("honest", usd, signer=f"{number % 5}")))
    attack = []
    for _ in range(data.draw(st.integers(1, 60))):
        when = data.draw(st.integers(honest[3][0] + 60, max(honest[3][0] + 60, time)))
        now = [made for at, made in honest if at <= when][-1]
        factor = data.draw(st.sampled_from([1e-6, 0.01, 0.4, 2.5, 100.0, 1e6]))
        made = trade(
            data.draw(st.sampled_from(["private", "private too"])),
            now.in_amount / now.out_amount * factor,
            tokens=data.draw(st.floats(1, 10**7)),
            depth=data.draw(st.sampled_from([None, 0.0, 10.0, DEPTH / 2_000])),
            signer=data.draw(st.sampled_from(["a", "b", "c"])),
        )
        attack.append((when, made))
    both = sorted([*honest, *attack], key=lambda one: one[0])

    rows = priced(both)
    assert shown(of("honest", rows)) == shown(priced(honest))
    assert all(row.price_usd is None for _, row in rows if row.pool != "honest")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    moves=st.sampled_from([-0.4, -0.08, 0.08, 0.25, 2.0]),
    curve_s=st.integers(60, 1_200),
    part=st.floats(0.2, 2.0),
)
def test_a_token_that_leaves_its_curve_is_followed_within_ten_seconds(
    moves: float, curve_s: int, part: float
) -> None:
    curve = steady(curve_s, every_s=1, pool="curve", depth=17_000.0)
    end = curve[-1][0]
    usd = 2.0 * (1 + moves)
    pool = steady(60, every_s=1, pool="pool", usd=usd, depth=17_000.0 * part, since=end + 2)
    rows = priced([*curve, *pool])

    assert all(row.price_usd == usd for at, row in of("pool", rows) if at >= end + 2 + 10)


def test_liquidity_of_a_moment_moves_no_price() -> None:
    honest = steady(100)
    flash = [(START + 150, trade("private", 9.0, depth=10**8, signer=each)) for each in "abcd"]
    rows = priced(sorted([*honest, *flash], key=lambda one: one[0]))

    assert shown(of("private", rows)) == [None] * 4


def test_a_pool_of_an_unlisted_program_sets_no_price() -> None:
    """For an unlisted program, one vault may be shown as the reserve of many pools."""
    honest = steady(400)
    own = [
        (at, one._replace(recognised_by=RecognisedBy.TRANSFERS))
        for at, one in steady(400, pool="private", usd=9.0, depth=10**8)
    ]
    rows = priced(sorted([*honest, *own], key=lambda one: one[0]))

    assert set(shown(of("private", rows))) == {None}
    assert set(shown(of("honest", rows))) == {2.0}


def test_the_first_pool_sets_the_price_until_it_is_left_if_no_pool_has_balances() -> None:
    honest = steady(30, depth=None)
    end = honest[-1][0]
    own = steady(400, pool="private", usd=9.0, depth=None, since=START + 10)
    after = [(end + 4_000, trade("private", 9.0, depth=None))]
    rows = priced(sorted([*honest, *own], key=lambda one: one[0]) + after)

    assert shown(of("private", rows)) == [None] * 400 + [9.0]


def test_a_round_trip_does_not_remove_the_weight_of_its_pool() -> None:
    """The trades of a round trip add no volume, but show the amount that moves the price."""
    honest = steady(100)
    at = honest[-1][0]
    pools = Standings()
    priced(honest, pools)
    pools.begin(Slot(1_000))
    trip = [
        trade("honest", 3.0, tokens=10_000.0, signer="x")._replace(inner=0),
        trade("honest", 3.0, tokens=10_000.0, signer="x")._replace(inner=1),
        swap(TOKEN, USDC, base_amount=10**6, quote_amount=3 * 10**6, is_buy=False, signer="x")
        ._replace(pool="honest", out_left=int(DEPTH * 10**6), inner=2),
    ]  # fmt: skip
    reported = price_slot(trip, RATE, pools.sets_price, BASIC, UnixS(at + 1)).swaps
    state = pools.of(TOKEN)
    assert state is not None

    assert [one.volume for one in reported] == [0, 0, 0]
    assert weights(state.pools, UnixS(at + 1))[0] > DEPTH * 10**6 / 8


def test_wash_trades_do_not_move_the_price_of_sol() -> None:
    honest = steady(700, every_s=1, usd=150.0, mint=WSOL)
    pools = Standings()
    priced(honest, pools)
    swaps = [trade("private", 15.0, tokens=10**6, mint=WSOL, depth=100.0), honest[-1][1]]
    samples = sol_usd_samples(swaps, UnixS(START + 700), pools.agrees(WSOL))

    assert [(one.usd, one.pool) for one in samples] == [(150.0, "honest")]
    assert pools.changed()[WSOL].at == START + 699


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0.01, 100.0)), min_size=1))
def test_one_pool_alone_always_sets_the_price(steps: list[tuple[int, float]]) -> None:
    time, trades = START, []
    for pause_s, usd in steps:
        time += pause_s
        trades.append((time, trade("only", usd, depth=None if pause_s % 2 else usd)))

    assert None not in shown(priced(trades))


def test_a_retracted_slot_restores_the_standing() -> None:
    pools = Standings()
    priced(steady(20), pools)
    before = pools.of(TOKEN)
    pools.begin(Slot(100))
    dead = price_slot([trade("honest", 4.0)], RATE, pools.sets_price, BASIC, UnixS(START + 50))
    assert shown((0, one) for one in dead.swaps) == [4.0]
    assert pools.of(TOKEN) != before
    pools.retract(Slot(100))

    assert pools.of(TOKEN) == before


def three_pools() -> list[Trade]:
    """Return trades of three pools whose prices do not agree."""
    first, second = steady(30), steady(30, pool="second", usd=2.5, depth=80_000.0)
    third = steady(30, pool="third", usd=2.01, depth=None)
    return sorted([*first, *second, *third], key=lambda one: one[0])


def test_a_restart_does_not_change_decisions() -> None:
    """The standings are written and read again in the same way as in the store."""
    pools, kept = Standings(), []
    for slot, (time, one) in enumerate(three_pools()):
        pools.begin(Slot(slot))
        price_slot([one], RATE, pools.sets_price, BASIC, UnixS(time))
        for mint, state in pools.changed().items():
            blob = standing_blob(state)
            assert blob is not None
            kept.append((Slot(slot), mint, unpack(blob)))
    again = Standings(kept)
    for each in (pools, again):
        each.retract(Slot(len(kept) - 1))
        each.begin(Slot(1_000))
        price_slot([trade("second", 2.6)], RATE, each.sets_price, BASIC, UnixS(START + 100))

    assert again.changed() == pools.changed() != {}


def test_rows_of_the_log_are_decided_again_with_the_same_result() -> None:
    """When a backfill is joined, later swaps are priced again from the rows of the log."""
    trades, pools = three_pools(), Standings()
    rows = priced(trades, pools)
    decided: Standing | None = None
    again = []
    for time, row in rows:
        swaps, decided = decide_again(decided, UnixS(time), [row])
        again += [(time, one) for one in swaps]

    assert again == rows
    assert None in shown(rows)
    assert decided == pools.of(TOKEN)


def test_a_price_pool_stored_by_an_earlier_version_still_sets_the_price() -> None:
    """In this older format, a pool counts as deep until a swap shows its reserves."""
    old = msgspec.msgpack.encode(["honest", 2.0, START, 1.5, START - 9_000, 7, None, 0, True])
    kept = unpack(old)
    assert kept == before_standing(
        "honest", 2.0, UnixS(START), 1.5, UnixS(START - 9_000), is_direct=True
    )
    pools = Standings([(Slot(1), TOKEN, kept)])
    own = steady(60, pool="private", usd=9.0, since=START + 1)
    rows = priced(sorted([*steady(30, since=START + 1), *own], key=lambda one: one[0]), pools)

    assert set(shown(of("honest", rows))) == {2.0}
    assert shown(of("private", rows))[:28] == [None] * 28
