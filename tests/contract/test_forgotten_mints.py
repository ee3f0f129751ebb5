"""Mints that no longer trade are forgotten in steps, on every engine and for any number."""

import re
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg
import pytest
from psycopg.raw_cursor import RawCursor

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.market import Market
from mintscope.ingest.fold import fold_once
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.sql.database import translate
from mintscope.kit.sql.postgres import HOT
from mintscope.kit.time import DAY_S
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, Floor, NewSlot
from mintscope.market.store import retention as forgetting
from mintscope.market.store.retention import MINTS_A_STEP
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of
from support.scenes.postgres import dsn_in

NOON: Final = 19_700 * DAY_S + DAY_S // 2
FLOOR: Final = Floor(swaps_min=100, volume_min=1, dead_after_days=9)
LISTED, REMOVED, QUIET, BUSY = (Mint(name) for name in ("listed", "removed", "quiet", "busy"))
ROWS: Final = """
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < {count})
"""
DEAD: Final = "INSERT INTO mint (address) {rows} SELECT 'dead' || n FROM count"
TRADED: Final = """
INSERT INTO activity (mint, day, swaps, volume)
SELECT id, {day}, 1, 1 FROM mint WHERE address LIKE 'dead%'
"""
EMPTY: Final = {"sqlite": "x''", "postgresql": "''::bytea"}
STEPS: Final = 3
PLANNED: Final = (forgetting.LAST, forgetting.FORGET_ACTIVITY, forgetting.FORGET_MINTS)


@pytest.fixture(params=MARKET_ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def slot(number: int, time: int, *mints: Mint) -> list[NewSlot | FinalSlot]:
    """Return a slot in which each of *mints* traded once, followed by its finality."""
    header = SlotHeader(
        Slot(number), Slot(number - 1), f"{number}", UnixS(time), 100.0, UnixS(time)
    )
    swaps = [
        PricedSwap(mint, 0, 0, -1, 0, is_buy=True, volume=9, price_usd=1.0, price_sol=0.01)
        for mint in mints
    ]
    return [NewSlot(header, swaps), FinalSlot(Slot(number))]


async def traded(market: Market, number: int, time: int, *mints: Mint) -> None:
    await market.store.write(slot(number, time, *mints))
    while await fold_once(market.store, FLOOR):
        pass


def insert_dead(engine: str, folder: Path, count: int) -> None:
    """Add *count* mints that traded on the day of NOON, but not later."""
    rows = ROWS.format(count=count)
    execute_in(engine, folder, DEAD.format(rows=rows))
    execute_in(engine, folder, TRADED.format(day=NOON // DAY_S))


@pytest.fixture
def one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each call of `trim` check only one part of the mints."""
    monkeypatch.setattr(forgetting, "STEPS_S", 0.0)


def mints_in(engine: str, folder: Path) -> set[str]:
    return {address for (address,) in execute_in(engine, folder, "SELECT address FROM mint")}


@pytest.mark.usefixtures("one_step")
async def test_mints_that_did_not_trade_for_a_day_are_forgotten_in_steps(
    engine: str, tmp_path: Path
) -> None:
    """The position is stored, so a restart continues there; mints that trade meanwhile stay."""
    count = (STEPS - 1) * MINTS_A_STEP
    ask = partial(execute_in, engine, tmp_path)
    async with market_of(engine, tmp_path, follows_all=True) as market:
        await market.store.start(mints=[LISTED], follows_files=False)
        await market.tracking.add(REMOVED)
        await market.tracking.remove(REMOVED)
        await traded(market, 1, NOON, QUIET, BUSY)
        for _ in range(2):  # until the first day has checked all its mints
            await market.store.trim(0)
        insert_dead(engine, tmp_path, count)
        await traded(market, 2, NOON + DAY_S, BUSY, Mint("dead7"))
        before = mints_in(engine, tmp_path)
        await market.store.trim(10)
        once = mints_in(engine, tmp_path)

    assert 0 < len(before - once) <= MINTS_A_STEP
    async with market_of(engine, tmp_path, follows_all=True) as market:
        await market.store.start(mints=[], follows_files=False)
        for _ in range(STEPS):
            await market.store.trim(10)
            now = mints_in(engine, tmp_path)
            assert len(once - now) <= MINTS_A_STEP
            once = now
        assert ask("SELECT forgotten_id FROM progress") == [(None,)]

    assert once == {LISTED, REMOVED, BUSY, "dead7"}
    kept = "SELECT address FROM activity JOIN mint ON mint.id = mint ORDER BY 1"
    assert ask(kept) == [(BUSY,), ("dead7",)]


async def test_a_call_checks_parts_until_its_time_is_over(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "STEPS_S", 60.0)
    async with market_of(engine, tmp_path, follows_all=True) as market:
        await market.store.start(mints=[], follows_files=False)
        await traded(market, 1, NOON, BUSY)
        insert_dead(engine, tmp_path, (STEPS - 1) * MINTS_A_STEP)
        await traded(market, 2, NOON + DAY_S, BUSY)
        await market.store.trim(1)

    assert mints_in(engine, tmp_path) == {BUSY}


async def test_a_forgotten_mint_that_trades_again_gets_a_new_number(
    engine: str, tmp_path: Path
) -> None:
    async with market_of(engine, tmp_path, follows_all=True) as market:
        await market.store.start(mints=[], follows_files=False)
        await traded(market, 1, NOON, QUIET)
        await traded(market, 2, NOON + DAY_S, BUSY)
        while await market.store.trim(100):
            pass
        assert mints_in(engine, tmp_path) == {BUSY}
        await traded(market, 3, NOON + DAY_S + 1, QUIET)
        swaps = execute_in(
            engine, tmp_path, "SELECT address FROM swap JOIN mint ON mint.id = mint ORDER BY seq"
        )
    assert swaps == [(BUSY,), (QUIET,)]


@pytest.mark.usefixtures("one_step")
async def test_a_day_that_begins_during_the_steps_continues_at_the_mark(
    engine: str, tmp_path: Path
) -> None:
    """If each day's checks began with the first mint, the last mints would never be checked."""
    async with market_of(engine, tmp_path, follows_all=True) as market:
        await market.store.start(mints=[], follows_files=False)
        await traded(market, 1, NOON, BUSY)
        insert_dead(engine, tmp_path, MINTS_A_STEP)
        await traded(market, 2, NOON + DAY_S, BUSY)
        await market.store.trim(1)
        mark = execute_in(engine, tmp_path, "SELECT forgotten_id FROM progress")
        await traded(market, 3, NOON + 2 * DAY_S, BUSY)

    assert mark == execute_in(engine, tmp_path, "SELECT forgotten_id FROM progress") != [(None,)]


def plan_of_sqlite(folder: Path, statement: str) -> list[str]:
    with closing(apsw.Connection(str(folder / MARKET_FILE))) as file:
        values = (1, 500, 2)[: 3 if "?3" in statement else 2]
        return [str(row[3]) for row in file.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


def plan_of_postgresql(connection: psycopg.Connection[Any], statement: str) -> Iterator[str]:
    """Yield the lines of PostgreSQL's plan of *statement* for any values, as the market uses it."""
    connection.execute(HOT.encode())
    text = translate(statement).text
    count = len(set(re.findall(r"\$\d", text)))
    kinds = ", ".join(["bigint"] * count)
    connection.execute("DEALLOCATE ALL")
    connection.execute(f"PREPARE planned ({kinds}) AS {text}".encode())
    values = ", ".join(["500"] * count)
    for (line,) in RawCursor(connection).execute(f"EXPLAIN EXECUTE planned ({values})".encode()):
        yield line


@pytest.mark.parametrize("count", [100, 30_000])
@pytest.mark.parametrize("statement", PLANNED, ids=lambda each: each.split()[0] + each.split()[2])
async def test_no_table_is_read_from_end_to_end(
    statement: str, count: int, engine: str, tmp_path: Path
) -> None:
    """The market has few or many mints: PostgreSQL plans by the statistics of its tables."""
    async with market_of(engine, tmp_path, follows_all=True) as market:
        await market.store.start(mints=[LISTED], follows_files=False)
        insert_dead(engine, tmp_path, count)
        execute_in(
            engine,
            tmp_path,
            "INSERT INTO swap (seq, mint, swaps, bought, sold)"
            f" SELECT 1000 + id, id % 50, {EMPTY[engine]}, 0, 0 FROM mint",
        )
        execute_in(engine, tmp_path, "ANALYZE")
    if engine == "sqlite":
        plan = plan_of_sqlite(tmp_path, statement)
        assert not [step for step in plan if step.startswith("SCAN") and "next" not in step], plan
        return
    with psycopg.connect(dsn_in(tmp_path), autocommit=True) as connection:
        plan = list(plan_of_postgresql(connection, statement))
    if count > 1_000:  # PostgreSQL reads a table of a few pages whole
        assert not [line for line in plan if "Seq Scan" in line or "Bitmap" in line], plan
    assert not [line for line in plan if "Hash" in line], plan
