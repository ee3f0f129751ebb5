"""States of version 1 become, byte for byte, what the fold of today would have written."""

import asyncio
from pathlib import Path

import apsw
import pytest

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.ingest.fold import fold_once
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.sql.sqlite import CANDLE, FRAME_BYTES, HEAD_BYTES, VERSION, state_2
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, NewSlot
from support.fakes.made_chain import MINTS
from support.oracles.definitions import Trade
from support.scenes import made_swaps
from support.scenes.stores import market_in

THREE = MINTS[:3]


async def trade(folder: Path, first: int, last: int) -> None:
    """Let each mint trade once a slot, and fold all of it."""
    async with market_in(folder) as market:
        await market.store.start(mints=THREE, follows_files=True)
        for n in range(first, last):
            slot, time = Slot(n), UnixS(1_700_000_000 + n * 97)
            swaps = [swap(mint, n) for mint in THREE]
            header = SlotHeader(slot, Slot(n - 1), str(n), time)
            await market.store.write([NewSlot(header, swaps), FinalSlot(slot)])
            while await fold_once(market.store, None):
                pass


def swap(mint: Mint, n: int) -> PricedSwap:
    """Return a trade, of the second mint now and then without a price, of the third always."""
    has_price = {MINTS[0]: True, MINTS[1]: n % 5 > 0, MINTS[2]: False}[mint]
    price = 1.0 + n % 7 / 10 if has_price else None
    return made_swaps.swap(Trade(0, price, price, 5 + n, is_buy=n % 3 == 0), mint=mint)


def volumes(folder: Path) -> list[tuple[int, ...]]:
    """Return the amounts bought and sold of each mint in each slot of the log."""
    db = apsw.Connection(str(folder / MARKET_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    found = list(db.execute("SELECT mint, seq, bought, sold FROM swap ORDER BY seq, mint"))
    db.close()
    return found


def states(folder: Path) -> list[tuple[int, bytes]]:
    db = apsw.Connection(str(folder / MARKET_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    found = list(db.execute("SELECT mint, state FROM state ORDER BY mint"))
    db.close()
    return found


def version_1(state: bytes) -> bytes:
    """Return *state* without the open candles."""
    frames = [HEAD_BYTES + n * (FRAME_BYTES + CANDLE.size) for n in range(4)]
    head = VERSION.pack(1) + state[VERSION.size : HEAD_BYTES]
    return head + b"".join(state[at : at + FRAME_BYTES] for at in frames)


def age(folder: Path) -> None:
    """Make the market what the version before wrote."""
    db = apsw.Connection(str(folder / MARKET_FILE))
    for mint, state in states(folder):
        db.execute("UPDATE state SET state = ? WHERE mint = ?", (version_1(state), mint))
    db.execute("DELETE FROM migration WHERE name LIKE '%open_candles%'")
    db.close()


def test_they_are_what_the_fold_would_have_written_and_go_on_so(tmp_path: Path) -> None:
    aged, calm = tmp_path / "aged", tmp_path / "calm"
    for folder in (aged, calm):
        asyncio.run(trade(folder, 1, 120))
    written = states(aged)
    age(aged)
    assert states(aged) != written

    asyncio.run(trade(aged, 120, 120))
    assert states(aged) == written

    for folder in (aged, calm):
        asyncio.run(trade(folder, 120, 160))
    assert states(aged) == states(calm)


def test_the_volumes_of_logged_slots_are_what_would_have_been_written(tmp_path: Path) -> None:
    asyncio.run(trade(tmp_path, 1, 9))
    written = volumes(tmp_path)
    assert {bought + sold for *_, bought, sold in written} > {6, 7}
    db = apsw.Connection(str(tmp_path / MARKET_FILE))
    db.execute("DROP INDEX swap_by_mint")
    for column in ("bought", "sold"):
        db.execute(f"ALTER TABLE swap DROP COLUMN {column}")
    db.execute("CREATE INDEX swap_by_mint ON swap (mint, seq)")
    db.execute("DELETE FROM migration WHERE name LIKE '%volumes_of_slots%'")
    db.close()

    asyncio.run(trade(tmp_path, 9, 9))
    assert volumes(tmp_path) == written


def test_what_is_no_state_of_version_1_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a state of version 1, were 3 bytes"):
        state_2(bytes(3), None, None, None, None)
