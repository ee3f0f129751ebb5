"""A backfill prices only swaps for USDC, USDT and SOL: it replaces no candles of other swaps."""

from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from mintscope.app.config.config import ChainConfig
from mintscope.app.sources import backfill_queue, open_backfill
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import (
    BackfillState,
    FoldedBackfill,
    Kind,
    Line,
    ListPage,
    ReadTransaction,
    Stage,
)
from mintscope.history.worker import fold_backfill
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Signature, Slot, UnixMs, UnixS
from mintscope.kit.time import SECOND_MS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, NewSlot
from mintscope.market.pricing import Rate, price_slot
from mintscope.market.quotes import Quotes
from mintscope.market.standings import before_standing
from mintscope.solana.blocks import USD1, USDC, WSOL
from mintscope_devchain.chain import Devchain
from support.fakes.made_chain import swap
from support.oracles.devchain_blocks import NOW
from support.processes.listening import listening
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of
from support.scenes.stores import config_in, market_in
from support.scenes.traded import fold_all

SLOTS: Final = 100  # one a second; the token is traded in each
START: Final = NOW // SECOND_MS - 200
CANDLES: Final = "SELECT * FROM candle ORDER BY mint, timeframe, bucket"


@pytest.fixture(scope="module")
def chain() -> Devchain:
    return Devchain(seed=7, now=NOW, mints=1, history_days=0.01)


@pytest.fixture
def mint(chain: Devchain) -> Mint:
    return chain.world.listed[0].token.mint


def traded(chain: Devchain, mint: Mint, number: int, quote: Mint) -> list[PricedSwap]:
    """Return a purchase of *mint* for *quote*, and three of SOL: one for USDC, two for USD1.

    The purchases have the prices that ingest computes.
    """
    at = UnixS(START + number)
    usd1 = before_standing("usd1", 1.0, at, 1.0, UnixS(at - 10_000), is_direct=True)
    quotes = Quotes({USD1: usd1}.get, at)
    quiet, busy = (pool.address for pool in chain.world.sol_pools[:2])
    own = USD1 if quote == USD1 else chain.world.listed[0].pools[0].address
    swaps = [swap(mint, quote, base_amount=10**8, quote_amount=10**8)._replace(pool=own)]
    for index, (pool, paid) in enumerate([(quiet, USDC), (busy, USD1), (busy, USD1)], 1):
        sol = swap(
            WSOL, paid, base_amount=10**9, quote_amount=150 * 10**6, base_decimals=9, index=index
        )
        swaps.append(sol._replace(pool=pool))
    return price_slot(swaps, Rate(150.0, at), None, quotes, at).swaps


async def follow(
    chain: Devchain, market: Market, mint: Mint, quote: Mint, *, usd1_until: int = 0
) -> None:
    """Log and fold slots in which *mint* is traded for *quote*, as ingest does.

    usd1_until    the last slot in which *mint* is traded for USD1 instead
    """
    await market.store.start(mints=[WSOL, mint], follows_files=False)
    slots = []
    for number in range(1, SLOTS + 1):
        at = UnixS(START + number)
        header = SlotHeader(Slot(number), Slot(number - 1), f"{number}", at, 150.0, at)
        paid = quote if number > usd1_until else USD1
        slots.append(NewSlot(header, traded(chain, mint, number, paid)))
    await market.store.write([*slots, FinalSlot(Slot(SLOTS))])
    await fold_all(market)


@pytest.mark.parametrize("quote", [USD1, USDC])
@pytest.mark.parametrize("engine", MARKET_ENGINES)
async def test_a_join_deletes_no_candles_that_it_cannot_replace(
    engine: str, quote: Mint, chain: Devchain, mint: Mint, tmp_path: Path
) -> None:
    async with market_of(engine, tmp_path) as market:
        await follow(chain, market, mint, quote)
        before = execute_in(engine, tmp_path, CANDLES)
        await market.history.begin(mint, UnixS(START), {"pool": Kind.POOL})
        await market.history.round(mint, Slot(SLOTS))
        nothing = FoldedBackfill(Slot(0), UnixS(START + SLOTS), None, None, None, None, ())
        await market.history.finish(mint, nothing)

        joined = await market.history_join.join()
        assert execute_in(engine, tmp_path, CANDLES) == before
        assert joined is None
        job = await market.history.one(mint)
        assert job is not None
        assert job.stage is Stage.READING


@pytest.mark.parametrize(
    ("quote", "state"), [(USDC, BackfillState.ESTIMATED), (USD1, BackfillState.FAILED)]
)
async def test_an_administrator_sees_why_a_token_is_refused(
    quote: Mint, state: BackfillState, chain: Devchain, mint: Mint, tmp_path: Path
) -> None:
    async with market_in(tmp_path) as market, listening(chain.app) as url:
        await follow(chain, market, mint, quote)
        config = config_in(tmp_path, chain=ChainConfig(rpc_url=SecretStr(url)))
        assert await market.backfill_jobs.ask(mint, UnixS(START - 300), UnixMs(NOW))
        async with backfill_queue(config, market, ManualClock(UnixMs(NOW))) as backfills:
            await backfills.estimate_one()
        (job,) = await market.backfill_jobs.newest(1)
    assert job.state is state, job.words
    assert (USD1 in job.words) == (quote == USD1)


# Of 100 swaps with equal volume.
@pytest.mark.parametrize(("for_others", "is_refused"), [(10, False), (11, True)])
async def test_a_token_is_refused_if_over_a_tenth_of_its_volume_has_other_quotes(
    for_others: int, chain: Devchain, mint: Mint, tmp_path: Path, *, is_refused: bool
) -> None:
    """A small share is accepted, so that one swap of a stranger prevents no backfill."""
    async with market_in(tmp_path) as market:
        await follow(chain, market, mint, USDC, usd1_until=for_others)
        assert await market.history.other_quotes(mint) == ([USD1] if is_refused else ())


async def test_a_backfill_that_has_begun_is_refused_if_its_token_has_another_quote(
    chain: Devchain, mint: Mint, tmp_path: Path
) -> None:
    async with market_in(tmp_path) as market, listening(chain.app) as url:
        await follow(chain, market, mint, USD1)
        pool = chain.world.listed[0].pools[0].address
        await market.history.begin(mint, UnixS(START), {pool: Kind.POOL})
        config = config_in(tmp_path, chain=ChainConfig(rpc_url=SecretStr(url)))
        async with open_backfill(config, market, 10_000) as reading:
            with pytest.raises(ValueError, match=f"to trade against USDC, USDT and SOL.*{USD1}"):
                await reading.read(mint, UnixS(START))
            assert reading.calls == 0


async def test_the_rate_pool_of_a_backfill_trades_sol_for_usdc(
    chain: Devchain, mint: Mint, tmp_path: Path
) -> None:
    """The busiest pool of SOL trades USD1, from which a backfill gets no SOL price."""
    async with market_in(tmp_path) as market, listening(chain.app) as url:
        await follow(chain, market, mint, USDC)
        config = config_in(tmp_path, chain=ChainConfig(rpc_url=SecretStr(url)))
        async with open_backfill(config, market, 10_000) as reading:
            found = await reading.survey(mint, UnixS(START - 300))
    rates = [address for address, kind in found.addresses.items() if kind is Kind.RATE]
    assert rates == [chain.world.sol_pools[0].address]


async def test_a_backfill_without_a_price_replaces_no_candles(
    chain: Devchain, mint: Mint, tmp_path: Path
) -> None:
    """Without swaps of SOL its price is unknown; the fold fails only if candles are recorded."""
    read = Line(Signature("s" * 64), Slot(SLOTS), block_time=Slot(START + 300))
    bought = swap(mint, USDC, base_amount=10**8, quote_amount=10**8)
    async with market_in(tmp_path) as market:
        history = market.history
        await market.tracking.add(mint)
        await history.begin(mint, UnixS(0), {"pool": Kind.POOL})
        await history.round(mint, Slot(SLOTS))
        await history.listed(mint, ListPage("pool", [read], None, None, is_last=True))
        await history.save(mint, [ReadTransaction(read.slot, read.signature, 0, [bought])])
        await fold_backfill(history, mint)

        await follow(chain, market, mint, USDC)
        with pytest.raises(ValueError, match="expected swaps with a price"):
            await fold_backfill(history, mint)
        assert await history.one(mint) is None, "the next one may read other pools"
