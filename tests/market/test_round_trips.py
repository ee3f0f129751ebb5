"""Only prices at which someone else could have traded make candles."""

from collections.abc import Sequence
from typing import Final

import pytest

from mintscope.dex.outcome import Swap
from mintscope.history.backfill import decide_again
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.engine import as_trades
from mintscope.market.engine.fold import MintFold
from mintscope.market.log import PricedSwap, Uncounted
from mintscope.market.pricing import Priced, Rate, Unpriced, price_slot
from mintscope.market.quotes import BASIC
from mintscope.market.standing import Standing, Trip
from mintscope.market.standings import Standings
from mintscope.market.store.log_reader import swaps_blob, swaps_of
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.made_chain import MINTS, swap

TOKEN: Final = MINTS[0]
START: Final = 1_700_000_000
RATE: Final = Rate(150.0, UnixS(START))
DEPTH: Final = 100_000


def leg(  # noqa: PLR0913 - what a swap says
    usd: float,
    *,
    pool: str = "honest",
    signer: str = "trader",
    tokens: float = 100.0,
    is_buy: bool = True,
    inner: int = 0,
    depth: int | None = DEPTH,
    quote: Mint = USDC,
) -> Swap:
    """Return an exchange of *tokens* at *usd* each, one leg of the first transaction."""
    decimals, worth = (6, usd) if quote == USDC else (9, usd / RATE.usd)
    made = swap(
        TOKEN,
        quote,
        base_amount=int(tokens * 10**6),
        quote_amount=int(tokens * worth * 10**decimals),
        is_buy=is_buy,
        signer=signer,
        inner=inner,
    )
    left = None if depth is None else depth * 10**6
    if is_buy:
        return made._replace(pool=pool, in_left=left)
    return made._replace(pool=pool, out_left=left)


def begun(*pools: str, depth: int | None = DEPTH) -> Standings:
    """Return the standings after twenty minutes of trades in *pools* at 2 USD."""
    standings = Standings()
    for number in range(600):
        standings.begin(Slot(number))
        for pool in pools:
            made = leg(2.0, pool=pool, signer=f"{number % 5}", depth=depth)
            price_slot([made], RATE, standings.sets_price, BASIC, UnixS(START + number * 2))
    return standings


def then(standings: Standings, *swaps: Swap) -> Priced:
    """Price *swaps* as the swaps of a slot that follows those in *standings*."""
    standings.begin(Slot(1_000))
    return price_slot(swaps, RATE, standings.sets_price, BASIC, UnixS(START + 1_201))


def prices(priced: Priced) -> list[float | None]:
    return [one.price_usd for one in priced.swaps]


def pool_prices(standings: Standings) -> dict[str, float]:
    standing = standings.of(TOKEN)
    assert standing is not None
    return {one.pool: one.usd for one in standing.pools}


def test_a_round_trip_in_a_pool_sets_no_price() -> None:
    standings = begun("honest")
    trip = leg(10.0, signer="x"), leg(9.9, signer="x", is_buy=False, inner=1)
    reported = then(standings, *trip, leg(2.25, inner=2)._replace(transaction_index=1))

    assert prices(reported) == [None, None, 2.25]
    assert [one.offered and one.offered[0] for one in reported.swaps] == [10.0, 9.9, None]
    assert [one.volume > 0 for one in reported.swaps] == [False, False, True]
    assert reported.unpriced[Unpriced.ROUND_TRIP] == 2


def test_a_round_trip_does_not_change_the_price_of_its_pool() -> None:
    """Afterwards, an honest trade in another pool of the mint sets the price."""
    standings = begun("honest", "second")
    then(standings, leg(10.0, signer="x"), leg(9.9, signer="x", is_buy=False, inner=1))
    assert pool_prices(standings) == {"honest": 2.0, "second": 2.0}
    standings.begin(Slot(1_001))
    reported = price_slot(
        [leg(2.02, pool="second")], RATE, standings.sets_price, BASIC, UnixS(START + 1_202)
    )
    assert prices(reported) == [2.02]


def test_a_sandwich_in_one_transaction_sets_no_price() -> None:
    """The swap of its victim sets no price and adds no volume either."""
    reported = then(
        begun("honest"),
        leg(4.0, signer="x"),
        leg(8.0, signer="victim", inner=1),
        leg(7.0, signer="x", is_buy=False, inner=2),
    )
    assert prices(reported) == [None, None, None]
    assert [one.volume for one in reported.swaps] == [0, 0, 0]
    victim = reported.swaps[1].evidence
    assert victim is not None
    assert (victim.flow, victim.uncounted) == (800 * 10**6, Uncounted.NOT)


def test_an_arbitrage_loop_sets_no_price_and_moves_its_pools() -> None:
    standings = begun("honest", "second")
    reported = then(
        standings,
        leg(2.03, signer="x"),
        leg(2.035, pool="second", signer="x", is_buy=False, inner=1),
    )
    assert prices(reported) == [None, None]
    assert pool_prices(standings) == pytest.approx({"honest": 2.03, "second": 2.035})


def test_a_route_through_a_token_is_no_round_trip() -> None:
    reported = then(
        begun("honest", "second"),
        leg(2.01, signer="x", quote=WSOL),
        leg(2.0, pool="second", signer="x", is_buy=False, inner=1),
    )
    assert None not in prices(reported)


def test_a_loop_over_three_mints_sets_no_price() -> None:
    """SOL buys the token, which is sold for dollars, which buy SOL: the loop is closed."""
    legs = (
        leg(2.2, signer="x", quote=WSOL),
        leg(2.3, pool="second", signer="x", is_buy=False, inner=1),
    )
    home = swap(
        WSOL, USDC, base_amount=10**9, quote_amount=150 * 10**6, base_decimals=9, signer="x"
    )._replace(inner=2, pool="sol", in_left=10**12)
    reported = then(begun("honest", "second"), *legs, home)
    assert prices(reported) == [None, None, None]
    assert [one.evidence and one.evidence.trip for one in reported.swaps] == [Trip.LOOP] * 3

    another = home._replace(signer="y")
    reported = then(begun("honest", "second"), *legs, another)
    assert [one.evidence and one.evidence.trip for one in reported.swaps] == [Trip.NONE] * 3


def test_a_loop_through_a_token_without_a_price_sets_no_price() -> None:
    """The swap of the token for another token has no price, but it is a part of the loop."""
    other = MINTS[1]
    legs = (
        leg(2.2, signer="x"),
        swap(
            TOKEN, other, base_amount=10**8, quote_amount=10**8, is_buy=False, signer="x", inner=1
        ),
        swap(other, USDC, base_amount=10**8, quote_amount=10**8, is_buy=False, signer="x", inner=2),
    )
    reported = then(begun("honest"), *legs)
    assert prices(reported) == [None, None]
    assert prices(then(begun("honest"), *legs[:2])) == [2.2]


def test_a_split_purchase_is_no_loop() -> None:
    """A part is bought with SOL, the rest with dollars that were bought with SOL."""
    reported = then(
        begun("honest", "second"),
        leg(2.01, signer="x", quote=WSOL),
        swap(WSOL, USDC, base_amount=10**9, quote_amount=150 * 10**6, base_decimals=9, signer="x",
             is_buy=False, inner=1)._replace(pool="sol", out_left=10**12),
        leg(2.0, pool="second", signer="x", inner=2),
    )  # fmt: skip
    assert None not in prices(reported)


def test_two_keys_of_one_transaction_are_a_round_trip() -> None:
    """No one else could trade between the two swaps of one transaction."""
    reported = then(
        begun("honest"),
        leg(4.0, signer="x"),
        leg(3.9, signer="x too", is_buy=False, inner=1),
        leg(2.02, signer="z", inner=2)._replace(transaction_index=1),
    )
    assert prices(reported) == [None, None, 2.02]
    assert [one.volume for one in reported.swaps] == [0, 0, 202 * 10**6]


def test_a_purchase_and_a_sale_in_two_transactions_set_prices() -> None:
    reported = then(
        begun("honest"),
        leg(2.5, signer="x"),
        leg(2.4, signer="x", is_buy=False)._replace(transaction_index=1),
    )
    assert prices(reported) == [2.5, 2.4]


def test_a_round_trip_is_no_first_price() -> None:
    standings = Standings()
    reported = then(standings, leg(10.0, signer="x"), leg(9.9, signer="x", is_buy=False, inner=1))

    assert prices(reported) == [None, None]
    assert standings.of(TOKEN) is None


def test_five_cents_at_a_price_far_off_set_no_price_in_the_only_pool() -> None:
    def cent(usd: float, *, depth: int | None = DEPTH, tokens: float = 0.0) -> list[float | None]:
        made = leg(usd, tokens=tokens or 0.05 / usd, depth=depth)
        return prices(then(begun("honest", depth=depth), made))

    assert cent(20.0) == cent(2.101) == cent(1.904) == cent(0.2) == [None]
    for usd in (2.099, 1.906):  # as far off as fees may be
        assert cent(usd) == pytest.approx([usd], rel=1e-4)
    assert cent(20.0, tokens=0.00499) == [None]
    assert cent(20.0, tokens=0.005) == [20.0]  # ten cents
    assert cent(20.0, tokens=1.0) == [20.0]  # it may have moved the pool
    assert cent(20.0, depth=None) == [20.0]
    assert cent(20.0, depth=100) == [20.0]


def folded(swaps: Sequence[PricedSwap]) -> MintFold:
    fold = MintFold()
    for one in swaps:
        fold.apply(UnixS(START), one)
    return fold


def test_the_legs_of_a_round_trip_make_no_candle() -> None:
    """The legs are in the log because they are evidence about their pool."""
    trip = leg(10.0, signer="x"), leg(9.9, signer="x", is_buy=False, inner=1)
    reported = then(begun("honest"), *trip).swaps

    assert len(reported) == 2
    assert swaps_blob(swaps_of(TOKEN, swaps_blob(reported))) == swaps_blob(reported)
    assert not any(folded(reported).changed().values())
    assert len(as_trades([(0, UnixS(START), one) for one in reported]).rows) == 0


def test_round_trips_are_decided_in_the_same_way_from_the_log() -> None:
    standings = begun("honest", "second")
    before: Standing | None = standings.of(TOKEN)
    reported = then(
        standings,
        leg(10.0, signer="x"),
        leg(9.9, signer="x", is_buy=False, inner=1),
        leg(2.03, signer="y", inner=2),
        leg(2.035, pool="second", signer="y", is_buy=False, inner=3),
        leg(50.0, tokens=0.001, signer="z", inner=4)._replace(transaction_index=1),
    )
    again, decided = decide_again(before, UnixS(START + 1_201), reported.swaps)

    assert again == reported.swaps
    assert decided == standings.of(TOKEN)


def test_a_route_through_a_token_adds_no_volume_if_decided_from_the_log() -> None:
    """The swaps of the route set prices; only their evidence in the log keeps their volume out."""
    standings = begun("honest", "second")
    before = standings.of(TOKEN)
    reported = then(
        standings,
        leg(2.01, signer="x", quote=WSOL),
        leg(2.0, pool="second", signer="x", is_buy=False, inner=1),
    ).swaps
    assert [one.evidence and one.evidence.uncounted for one in reported] == [
        Uncounted.ROUND_TRIP
    ] * 2
    assert [one.volume for one in reported] == [0, 0]
    logged = swaps_of(TOKEN, swaps_blob(reported))
    again, _ = decide_again(before, UnixS(START + 1_201), logged)

    assert None not in [one.price_usd for one in again]
    assert [one.volume for one in again] == [0, 0]
