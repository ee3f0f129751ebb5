"""A backfill without one of the pools, or without a rate of SOL, replaces no recorded candles."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from mintscope.app.config.config import ChainConfig
from mintscope.app.sources import open_backfill
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import (
    Backfill,
    BackfillSlot,
    Kind,
    Line,
    ListPage,
    ReadTransaction,
    Stage,
)
from mintscope.history.worker import fold_backfill
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.kit.time import SECOND_MS
from mintscope.market.log import SlotHeader
from mintscope.market.ports import FinalSlot, NewSlot
from mintscope.market.pricing import Rate, price_slot
from mintscope.market.quotes import BASIC
from mintscope.solana.blocks import USDC, WSOL
from mintscope_devchain.chain import Devchain
from support.fakes.made_chain import MINTS, sol_sale, swap
from support.oracles.devchain_blocks import NOW
from support.processes.listening import listening
from support.scenes.made_transactions import address
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of
from support.scenes.stores import config_in, market_in
from support.scenes.traded import fold_all

MINT: Final = MINTS[0]
OLDEST, CURVE, POOL, SOL_POOL = map(address, ("oldest curve", "curve", "pool", "pool of SOL"))
SLOTS: Final = 200  # one a second; the token is traded in each
START: Final = NOW // SECOND_MS - 300
CANDLES: Final = "SELECT * FROM candle ORDER BY mint, timeframe, bucket"

WHOLE: Final = range(1, SLOTS + 1)
WITHOUT_ITS_CURVE: Final = range(150, SLOTS + 1)
WITHOUT_A_BUSY_POOL: Final = range(1, SLOTS + 1, 3)


def slots_of(
    mint: Mint, numbers: Collection[int], *, small: Collection[int] = ()
) -> Iterator[BackfillSlot]:
    """Yield slots in which SOL is sold; in the slots *numbers*, *mint* is bought for 100 USDC.

    small    the slots in which *mint* is bought for 1 USDC instead
    """
    for number in WHOLE:
        amount = 10**6 if number in small else 10**8
        bought = swap(mint, USDC, base_amount=amount, quote_amount=amount, index=1)
        sold = sol_sale(150.0, sol=100.0)._replace(pool=SOL_POOL)
        own = [bought._replace(pool=POOL)] if number in numbers else []
        yield BackfillSlot(Slot(number), UnixS(START + number), [sold, *own])


async def record(
    market: Market, mint: Mint, numbers: Collection[int] = WHOLE, *, small: Collection[int] = ()
) -> None:
    """Log *mint*'s swaps in the slots *numbers*, and fold them into its candles, as ingest does."""
    await market.store.start(mints=[WSOL, mint], follows_files=False)
    written = []
    for slot, time, swaps in slots_of(mint, numbers, small=small):
        assert time is not None
        header = SlotHeader(slot, Slot(slot - 1), f"{slot}", time, 150.0, time)
        priced = price_slot(swaps, Rate(150.0, time), None, BASIC, time).swaps
        written.append(NewSlot(header, priced))
    await market.store.write([*written, FinalSlot(Slot(SLOTS))])
    await fold_all(market)


@pytest.mark.parametrize(
    ("read", "is_joined"),
    [(WHOLE, True), (WITHOUT_ITS_CURVE, False), (WITHOUT_A_BUSY_POOL, False)],
    ids=["whole", "without_its_curve", "without_a_busy_pool"],
)
@pytest.mark.parametrize("engine", MARKET_ENGINES)
async def test_a_join_keeps_candles_that_the_backfill_lacks(
    engine: str, read: Collection[int], tmp_path: Path, *, is_joined: bool
) -> None:
    async with market_of(engine, tmp_path) as market:
        await record(market, MINT)
        before = execute_in(engine, tmp_path, CANDLES)
        await market.history.begin(MINT, UnixS(START), {POOL: Kind.POOL})
        await market.history.round(MINT, Slot(SLOTS))
        past = Backfill(MINT)
        for slot in slots_of(MINT, read):
            past.apply(slot)
        await market.history.candles(MINT, past.changed())
        await market.history.finish(MINT, past.folded())

        joined = await market.history_join.join()
        after = execute_in(engine, tmp_path, CANDLES)
        job = await market.history.one(MINT)
    assert len(after) == len(before)
    assert joined == (MINT if is_joined else None)
    assert job is not None
    assert job.stage is (Stage.JOINED if is_joined else Stage.READING)


async def test_a_backfill_may_lack_a_small_swap_before_all_others(tmp_path: Path) -> None:
    """Otherwise, one small swap by a stranger would prevent the mending of the token's gaps."""
    others = range(100, SLOTS + 1)
    async with market_in(tmp_path) as market:
        await record(market, MINT, [1, *others], small=[1])
        await market.history.begin(MINT, UnixS(START), {POOL: Kind.POOL})
        await market.history.round(MINT, Slot(SLOTS))
        past = Backfill(MINT)
        for slot in slots_of(MINT, others):
            past.apply(slot)
        await market.history.candles(MINT, past.changed())
        await market.history.finish(MINT, past.folded())
        assert await market.history_join.join() == MINT


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (WITHOUT_ITS_CURVE, "expected m1 candles from .*, because these were recorded; those of"),
        (WITHOUT_A_BUSY_POOL, "expected at least 80% of the volume.*; the backfill has 3"),
    ],
    ids=["without_its_curve", "without_a_busy_pool"],
)
@pytest.mark.parametrize("engine", MARKET_ENGINES)
async def test_a_backfill_that_lacks_candles_ends_with_the_reason(
    engine: str, read: Collection[int], reason: str, tmp_path: Path
) -> None:
    async with market_of(engine, tmp_path) as market:
        history = market.history
        await record(market, MINT)
        await history.begin(MINT, UnixS(START), {POOL: Kind.POOL})
        await history.round(MINT, Slot(SLOTS))
        found = list(slots_of(MINT, read))
        lines = [
            Line(Signature(f"{one.slot:064}"), one.slot, block_time=Slot(one.time or 0))
            for one in reversed(found)
        ]
        await history.listed(MINT, ListPage(POOL, lines, None, None, is_last=True))
        names = [line.signature for line in reversed(lines)]
        transactions = (
            ReadTransaction(one.slot, name, 0, one.swaps)
            for one, name in zip(found, names, strict=True)
        )
        await history.save(MINT, list(transactions))
        with pytest.raises(ValueError, match=reason):
            await fold_backfill(history, MINT)
        assert await history.one(MINT) is None, "the next one may read other pools"


async def test_pools_that_traded_long_ago_are_read(tmp_path: Path) -> None:
    """The log has swaps of only 15 minutes; older pools are known from the pool book."""
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01)
    mint = chain.world.listed[0].token.mint
    async with market_in(tmp_path) as market, listening(chain.app) as url:
        await record(market, mint)
        at = UnixS(START + SLOTS + 1)
        bought = swap(mint, USDC, base_amount=10**8, quote_amount=10**8)._replace(pool=CURVE)
        moved = swap(mint, WSOL, base_amount=0, quote_amount=0, index=1)
        moved = moved._replace(pool=POOL, in_mint=mint, out_mint=WSOL, succeeds=OLDEST)
        header = SlotHeader(Slot(SLOTS + 1), Slot(SLOTS), "moved", at, 150.0, at)
        priced = price_slot([bought, moved], Rate(150.0, at), None, BASIC, at).swaps
        await market.store.write([NewSlot(header, priced), FinalSlot(header.slot)])
        await fold_all(market)
        execute_in(
            "sqlite",
            tmp_path,
            f"DELETE FROM swap WHERE mint = (SELECT id FROM mint WHERE address = '{mint}')",
        )
        config = config_in(tmp_path, chain=ChainConfig(rpc_url=SecretStr(url)))
        async with open_backfill(config, market, 10_000) as reading:
            found = await reading.survey(mint, UnixS(START - 200))
    pools = {address for address, kind in found.addresses.items() if kind is Kind.POOL}
    assert {OLDEST, CURVE, POOL} <= pools
