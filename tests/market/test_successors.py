"""The pool that a migration names sets the price from its first swap on."""

from collections.abc import Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from mintscope.dex.outcome import Swap
from mintscope.history.backfill import decide_again
from mintscope.kit.primitives import Slot, UnixS
from mintscope.market.engine.pool_book import PoolBook, booked
from mintscope.market.log import PricedSwap
from mintscope.market.pricing import Rate, Unpriced, price_slot
from mintscope.market.quotes import BASIC
from mintscope.market.series.store import details_blob, with_details
from mintscope.market.standing import Standing
from mintscope.market.standings import Standings, unpack
from mintscope.market.store.log_reader import standing_blob, swaps_blob, swaps_of
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.made_chain import MINTS, swap

TOKEN: Final = MINTS[0]
START: Final = 1_700_000_000
RATE: Final = Rate(150.0, UnixS(START))


def trade(  # noqa: PLR0913 - what a swap says
    pool: str,
    usd: float,
    *,
    tokens: float = 100.0,
    depth: float = 17_000.0,
    signer: str = "",
    at: int = 0,
) -> Swap:
    """Return a purchase of *tokens* in *pool* for *usd* each, transaction *at* of its slot."""
    made = swap(
        TOKEN,
        USDC,
        base_amount=int(tokens * 10**6),
        quote_amount=int(tokens * usd * 10**6),
        signer=signer or pool,
        index=at,
    )
    return made._replace(pool=pool, in_left=int(depth * 10**6))


def leaves(curve: str, pool: str, *, at: int = 0) -> Swap:
    """Return the migration of TOKEN from the bonding curve *curve* to *pool*."""
    return trade(pool, 1.0, at=at)._replace(
        in_mint=TOKEN, in_amount=0, out_mint=WSOL, out_amount=0, succeeds=curve, in_left=None
    )


class Market:
    """A market of successive slots; `rows` has the swaps of each, as they are logged."""

    def __init__(self) -> None:
        self.standings = Standings()
        self.rows: list[tuple[int, list[PricedSwap]]] = []
        self.time = START

    def slot(self, *swaps: Swap, wait_s: int = 1, rate: Rate | None = RATE) -> list[PricedSwap]:
        self.time += wait_s
        self.standings.begin(Slot(len(self.rows)))
        reported = price_slot(swaps, rate, self.standings.sets_price, BASIC, UnixS(self.time)).swaps
        self.rows.append((self.time, reported))
        return reported

    def curve(self, seconds: int, *, stranger: float | None = None) -> None:
        """Trade each second on the curve at 2 USD, and at 3 USD in a pool with *stranger* USD."""
        for number in range(seconds):
            swaps = [trade("curve", 2.0, signer=f"{number % 5}")]
            if stranger is not None:
                own = trade("stranger", 3.0, depth=stranger, signer=f"{number % 3} s", at=1)
                swaps.append(own)
            self.slot(*swaps)


def prices(swaps: Sequence[PricedSwap]) -> list[float | None]:
    return [one.price_usd for one in swaps]


@pytest.mark.parametrize("usd", [1.2, 1.9, 2.16, 2.5, 6.0])
@pytest.mark.parametrize("is_in_one_slot", [True, False])
def test_a_new_pool_sets_the_price_at_its_first_swap(usd: float, is_in_one_slot: bool) -> None:  # noqa: FBT001
    market = Market()
    market.curve(300, stranger=4_000.0)
    moved, first = leaves("curve", "pool"), trade("pool", usd, at=1)
    if is_in_one_slot:
        reported = market.slot(moved, first)
        assert prices(reported) == [None, usd]
    else:
        market.slot(moved)
        assert prices(market.slot(first)) == [usd]
    for _ in range(30):
        assert prices(market.slot(trade("pool", usd))) == [usd]
        assert prices(market.slot(trade("stranger", 3.0, depth=4_000.0))) == [None]


@pytest.mark.parametrize("rate", [RATE, None], ids=["a rate", "no rate"])
def test_a_migration_is_known_even_if_sol_had_no_rate_at_the_time(rate: Rate | None) -> None:
    market = Market()
    market.curve(300, stranger=4_000.0)
    market.slot(leaves("curve", "pool"), trade("other", 1.0, at=1), rate=rate)
    assert prices(market.slot(trade("pool", 2.5))) == [2.5]

    book = PoolBook()
    for time, rows in market.rows:
        book.apply(Slot(time), UnixS(time), rows)
    pools = {one.pool: one for one in booked(book.changed().state)}
    assert (pools["curve"].went_to, pools["pool"].came_from) == ("pool", "curve")
    assert pools["pool"].moved_at == market.time - 1


def test_a_migration_without_a_rate_is_logged_and_not_counted_as_unpriced() -> None:
    priced = price_slot([leaves("curve", "pool"), trade("other", 1.0, at=1)], None)

    assert [one.pool for one in priced.swaps] == ["pool"]
    assert priced.unpriced == {Unpriced.NO_RATE: 1}


def test_the_first_swap_of_a_pool_without_a_migration_sets_no_price() -> None:
    """A control: in the other tests, the migration lets the first swap set the price."""
    market = Market()
    market.curve(300, stranger=4_000.0)

    assert prices(market.slot(trade("pool", 2.5))) == [None]


def test_the_curve_sets_the_price_until_the_migration() -> None:
    market = Market()
    market.curve(300)
    reported = market.slot(
        trade("curve", 2.02), leaves("curve", "pool", at=1), trade("pool", 3.0, at=2)
    )

    assert prices(reported) == [2.02, None, 3.0]


def test_a_migration_from_an_unknown_curve_changes_nothing() -> None:
    market = Market()
    market.curve(300)
    before = market.standings.of(TOKEN)
    reported = market.slot(leaves("another curve", "private"))

    assert prices(reported) == [None]
    assert market.standings.of(TOKEN) == before
    assert prices(market.slot(trade("private", 9.0, depth=10**6))) == [None]


def test_only_the_first_migration_of_a_curve_counts() -> None:
    """A second migration, to a pool of the caller, has no effect: the curve is gone."""
    market = Market()
    market.curve(300)
    market.slot(leaves("curve", "pool"), trade("pool", 2.4, at=1))
    before = market.standings.of(TOKEN)
    market.slot(leaves("curve", "private"))

    assert market.standings.of(TOKEN) == before
    assert prices(market.slot(trade("private", 9.0, depth=10**6))) == [None]
    assert prices(market.slot(trade("pool", 2.4))) == [2.4]


def test_a_new_pool_does_not_inherit_the_small_depth_shown_on_its_curve() -> None:
    """Trades move the curve by a tenth, so its depth seems below a stranger's 4,000 USD.

    The new pool holds 17,000 USD, and no trade has shown less.
    """
    market = Market()
    market.curve(300, stranger=4_000.0)
    stranger = trade("stranger", 3.0, depth=4_000.0, at=1)
    for number in range(60):
        market.slot(trade("curve", (2.0, 2.2)[number // 2 % 2], tokens=1.0), stranger)
    assert prices(market.slot(trade("curve", 2.2, tokens=1.0), stranger)) == [None, 3.0]
    market.slot(leaves("curve", "pool"))

    for _ in range(3):
        assert prices(market.slot(trade("pool", 2.2), stranger)) == [2.2, None]


def test_small_trades_far_from_the_curve_do_not_reduce_a_new_pool() -> None:
    """The move from curve to pool is due to the migration, not to the small trades after it."""
    market = Market()
    market.curve(300, stranger=4_000.0)
    market.slot(leaves("curve", "pool"))

    for _ in range(5):
        assert prices(market.slot(trade("pool", 1.2, tokens=2.0))) == [1.2]


def test_a_migration_is_no_side_of_a_round_trip() -> None:
    """A signer that migrates, and buys in the same transaction, has not sold."""
    market = Market()
    market.curve(300)
    moved = leaves("curve", "pool")._replace(signer="sniper")
    bought = trade("pool", 2.5, signer="sniper")._replace(inner=1)
    reported = market.slot(moved, bought)

    assert prices(reported) == [None, 2.5]
    assert reported[1].volume == 250 * 10**6


def test_a_retracted_migration_restores_the_standing() -> None:
    market = Market()
    market.curve(300)
    before = market.standings.of(TOKEN)
    market.slot(leaves("curve", "pool"))
    assert market.standings.of(TOKEN) != before
    market.standings.retract(Slot(len(market.rows) - 1))

    assert market.standings.of(TOKEN) == before


def test_a_restart_between_a_migration_and_the_first_swap_changes_nothing() -> None:
    market = Market()
    market.curve(300, stranger=4_000.0)
    reported = market.slot(leaves("curve", "pool"))
    assert reported  # so that the log has a row, with the standing after it
    state = market.standings.changed()[TOKEN]
    blob = standing_blob(state)
    assert blob is not None
    assert unpack(blob) == state
    restarted = Standings([(Slot(300), TOKEN, unpack(blob))])
    restarted.begin(Slot(301))
    again = price_slot(
        [trade("pool", 1.2)], RATE, restarted.sets_price, BASIC, UnixS(market.time + 1)
    )

    assert prices(again.swaps) == prices(market.slot(trade("pool", 1.2))) == [1.2]
    assert restarted.of(TOKEN) == market.standings.of(TOKEN)


def test_a_migration_is_decided_in_the_same_way_from_the_log() -> None:
    market = Market()
    market.curve(100, stranger=4_000.0)
    market.slot(leaves("curve", "pool"), trade("pool", 1.2, at=1))
    for _ in range(20):
        market.slot(trade("pool", 1.3), trade("stranger", 3.0, depth=4_000.0, at=1))
    decided: Standing | None = None
    for time, rows in market.rows:
        logged = [replace(one, detail=None) for one in rows]
        assert swaps_blob(swaps_of(TOKEN, swaps_blob(rows))) == swaps_blob(logged)
        again, decided = decide_again(decided, UnixS(time), logged)
        assert again == logged

    assert decided == market.standings.of(TOKEN)


def test_a_migration_is_not_shown_as_a_swap() -> None:
    """The migration's row has no details, and must not get those of the swap in its slot."""
    market = Market()
    market.curve(10)
    rows = market.slot(leaves("curve", "pool"), trade("pool", 1.2, at=1))
    shown = with_details(swaps_of(TOKEN, swaps_blob(rows)), details_blob(rows))

    assert shown == rows[1:]
