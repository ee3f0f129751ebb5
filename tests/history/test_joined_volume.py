"""After a backfill is joined, its price pools decide which swaps of the log count as volume.

Its swaps from before the log are not in the log.
"""

from pathlib import Path

import apsw
import pytest

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.dex.outcome import Swap
from mintscope.history.backfill import FoldedBackfill, Kind
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import RECENT_S, FinalSlot, NewSlot
from mintscope.market.pricing import Rate, price_slot
from mintscope.market.quotes import BASIC
from mintscope.market.series.past import Moment, OutOfReach, PastMint, SlotTime
from mintscope.market.standings import Standings
from mintscope.market.store.log_reader import swaps_of
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.made_chain import MINTS, swap
from support.scenes.stores import market_in
from support.scenes.traded import fold_all

TOKEN = MINTS[0]
START = 1_700_000_000
JOINED = 100  # the last slot of the backfill
DEPTH = 100_000


def trade(mint: Mint, pool: str, usd: float, signer: str, depth: int = DEPTH) -> Swap:
    """Return a purchase of 100 whole tokens in *pool*, for *usd* US dollars each."""
    decimals = 9 if mint == WSOL else 6
    base, quote = 100 * 10**decimals, int(100 * usd * 10**6)
    made = swap(mint, USDC, base_amount=base, quote_amount=quote, base_decimals=decimals)
    return made._replace(pool=pool, signer=signer, in_left=depth * 10**6)


def header(number: int, usd: float | None = 150.0) -> SlotHeader:
    at = UnixS(START + number)
    return SlotHeader(Slot(number), Slot(number - 1), f"{number}", at, usd, at)


def priced(standings: Standings, number: int, *swaps: Swap) -> list[PricedSwap]:
    standings.begin(Slot(number))
    at, rate = UnixS(START + number), Rate(150.0, UnixS(START + number))
    return price_slot(swaps, rate, standings.sets_price, BASIC, at).swaps


def logged(folder: Path, mint: Mint) -> list[tuple[int, int, list[PricedSwap]]]:
    """Return (volume bought, volume sold, swaps) for each row of *mint* in the log, in order."""
    with apsw.Connection(str(folder / MARKET_FILE), flags=apsw.SQLITE_OPEN_READONLY) as db:
        of = "WHERE mint = (SELECT id FROM mint WHERE address = ?) ORDER BY seq"
        rows = list(db.execute(f"SELECT bought, sold, swaps FROM swap {of}", (mint,)))
    return [(bought, sold, swaps_of(mint, blob)) for bought, sold, blob in rows]


async def join(
    folder: Path, mint: Mint, late: list[PricedSwap], older: Standings, fold: MintFold | None = None
) -> None:
    """Log the swaps *late*, and join a backfill that ends before them.

    older   the standings of pools that the backfill has found
    fold    the fold of the swaps that the backfill has found; None: it has found none
    """
    async with market_in(folder) as market:
        await market.store.start(mints=[mint], follows_files=False)
        await market.store.write([NewSlot(header(number), ()) for number in range(1, JOINED + 1)])
        await market.history.begin(mint, UnixS(START), {"honest": Kind.POOL})
        await market.history.round(mint, Slot(JOINED))
        past = FoldedBackfill(
            since_slot=Slot(0),
            time=UnixS(START + JOINED),
            state=None if fold is None else fold.state(),
            in_sol=None if fold is None else fold.in_sol(),
            last_swap=None,
            standing=older.of(mint),
            recent=(),
        )
        await market.history.finish(mint, past)
        last = Slot(JOINED + 1)
        await market.store.write([NewSlot(header(last), late), FinalSlot(last)])
        await fold_all(market)
        assert await market.history_join.join() == mint


async def test_a_join_recounts_volume_by_the_standings_of_the_backfill(tmp_path: Path) -> None:
    older = Standings()
    for number in range(1, JOINED):
        priced(older, number, trade(TOKEN, "honest", 2.0, f"{number % 5}"))
    swaps = [
        trade(TOKEN, "private", 9.0, "own", depth=10),
        trade(TOKEN, "honest", 2.0, "a")._replace(transaction_index=1),
    ]
    late = priced(Standings(), JOINED + 1, *swaps)
    assert [one.volume for one in late] == [900 * 10**6, 0]
    await join(tmp_path, TOKEN, late, older)

    ((bought, sold, rows),) = logged(tmp_path, TOKEN)
    assert (bought, sold) == (200 * 10**6, 0)
    assert [one.volume for one in rows] == [0, 200 * 10**6]
    assert [one.price_usd for one in rows] == [None, 2.0]


async def test_a_sol_swap_that_sets_the_price_after_a_join_is_priced_at_the_rate(
    tmp_path: Path,
) -> None:
    older = Standings()
    for number in range(1, JOINED):
        pool = ("honest", "second")[number % 2]
        priced(older, number, trade(WSOL, pool, 150.0, f"{number % 5}"))
    swaps = [
        trade(WSOL, "private", 140.0, "own", depth=10),
        trade(WSOL, "honest", 150.5, "a")._replace(transaction_index=1),
    ]
    late = priced(Standings(), JOINED + 1, *swaps)
    assert [one.price_usd for one in late] == [150.0, None]
    await join(tmp_path, WSOL, late, older)

    ((bought, _, rows),) = logged(tmp_path, WSOL)
    assert [one.price_usd for one in rows] == [None, 150.0]
    assert [one.offered and one.offered[0] for one in rows] == [140.0, 150.5]
    assert bought == 15_050 * 10**6


@pytest.mark.parametrize("has_traded", [False, True])
async def test_a_log_that_begins_after_a_backfill_has_all_swaps_only_if_the_backfill_has_none(
    tmp_path: Path, *, has_traded: bool
) -> None:
    older = Standings()
    fold = MintFold()
    for one in priced(older, 0, trade(TOKEN, "honest", 2.0, "b")):
        fold.apply(UnixS(START), one)
    late = priced(Standings(), JOINED + 1, trade(TOKEN, "honest", 2.0, "a"))
    await join(tmp_path, TOKEN, late, older, fold if has_traded else None)

    async with market_in(tmp_path) as market:
        swaps = await market.series.swaps(TOKEN, None, 100)
        kept_swaps = await market.series.kept_swaps(TOKEN, UnixS(START + JOINED + 1), 100)
        past = await market.series.past(TOKEN, Moment(slot=Slot(JOINED + 1)))
    assert swaps is not None
    assert kept_swaps is not None
    assert (swaps.has_older, kept_swaps.has_older) == (False, False)
    assert (swaps.is_whole, kept_swaps.is_whole) == (not has_traded, not has_traded)
    newest = SlotTime(Slot(JOINED + 1), UnixS(START + JOINED + 1))
    if has_traded:
        assert past == OutOfReach(UnixS(START + 1 + RECENT_S), newest)
    else:
        assert isinstance(past, PastMint)
        assert past.at == newest
