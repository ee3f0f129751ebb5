"""The stores of two ingests, each with half of the mints, equal that of one ingest of all mints."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from bench.whole_market.shard_tailers import ShardTailers

from mintscope.app.stores.market import Market
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import InsufficientData, TokenNotFound
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.ports import Floor
from mintscope.market.quotes import QuoteMints
from mintscope.market.report import Reports
from mintscope.market.shard import SHARDS_MAX, WHOLE, Shard, parse_shard, shard_of
from mintscope.solana.blocks import DOLLARS, WSOL, Block, Finalized, Tip, Update
from support.fakes.made_chain import START, block, decode_made, random_swaps, swap
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of

MINTS: Final = [Mint(f"Mint{n:02}{'1' * 38}") for n in range(1, 13)]
STAKED: Final = MINTS[:3]  # quotes of other mints, in both shards
POOLS: Final = ("made", "other", "third")
FLOOR: Final = Floor(swaps_min=2, volume_min=1, dead_after_days=1)
SEEDS: Final = range(4)
BLOCKS: Final = 220
FINAL_LAG: Final = 4
HALVES: Final = (Shard(1, 2), Shard(2, 2))

CANDLES: Final = """
SELECT address, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count,
       open_sol, high_sol, low_sol, close_sol
  FROM candle JOIN mint ON mint.id = mint WHERE since_slot IS NOT NULL ORDER BY 1, 2, 3
"""
STATES: Final = "SELECT address, state, in_sol FROM state JOIN mint ON mint.id = mint ORDER BY 1"
FOLLOWED: Final = """
SELECT address, since_slot, since_time, is_listed FROM mint WHERE since_slot IS NOT NULL ORDER BY 1
"""
HEADERS: Final = """
SELECT slot, blockhash, time, sol_usd, sol_usd_time, samples FROM header
 WHERE is_dead = 0 AND slot >= {first} ORDER BY 1
"""
SWAPS: Final = """
SELECT slot, address, swaps, deciding, bought, sold, details
  FROM swap JOIN header USING (seq) JOIN mint ON mint.id = mint
 WHERE is_dead = 0 AND slot >= {first} ORDER BY 1, 2
"""


class ForkingSource:
    """A source that yields the blocks after the tip, some after a block of a fork that dies."""

    def __init__(self, blocks: Sequence[Block], random: Random, *, is_last: bool) -> None:
        self._blocks = blocks
        self._random = random
        self._is_last = is_last

    async def genesis_hash(self) -> str | None:
        return None

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        for n, made in enumerate(self._blocks):
            if after is not None and made.slot <= after.slot:
                continue
            if n and self._random.random() < 0.2:
                swaps = random_swaps(self._random, MINTS, pools=POOLS)
                yield block(made.slot, self._blocks[n - 1], swaps, time=made.time, fork="x")
            yield made
            if n >= FINAL_LAG:
                yield Finalized(self._blocks[n - FINAL_LAG].slot)
        if self._is_last:
            yield Finalized(self._blocks[-1].slot)


def chain(random: Random) -> list[Block]:
    """Return blocks of some days; in some of them, mints are traded for tokens of STAKED."""
    blocks: list[Block] = []
    time: int = START
    for slot in range(100, 100 + BLOCKS):
        time += random.choice([1, 1, 2, 40, 200, 40_000 if random.random() < 0.06 else 3])
        swaps = random_swaps(random, MINTS, pools=POOLS) + [
            swap(
                random.choice(MINTS[3:]),
                random.choice(STAKED),
                base_amount=random.randrange(10**6, 10**9),
                quote_amount=random.randrange(10**6, 10**8),
                signer=f"staker-{number}",
            )
            for number in range(random.randrange(3))
        ]
        blocks.append(block(slot, blocks[-1] if blocks else None, swaps, time=time))
    return blocks


async def ingest(
    market: Market, shard: Shard, blocks: Sequence[Block], random: Random, *, is_last: bool
) -> None:
    await Ingest(
        source=ForkingSource(blocks, random, is_last=is_last),
        store=market.store,
        decode=decode_made,
        clock=ManualClock(UnixMs(0)),
        mints=[WSOL],
        floor=FLOOR,
        quote_mints=QuoteMints(DOLLARS, frozenset(STAKED)),
        shard=shard,
    ).run()


async def kept(engine: str, folder: Path, shard: Shard, blocks: Sequence[Block], seed: int) -> None:
    """Ingest *blocks* as *shard* into *folder*, with random restarts and forks."""
    random = Random(f"{seed} {shard}")
    ends = sorted(random.sample(range(10, BLOCKS), 4))
    for end in [*ends, BLOCKS]:
        async with market_of(engine, folder, follows_all=True) as market:
            await ingest(market, shard, blocks[:end], random, is_last=end == BLOCKS)


def rows(engine: str, folders: Sequence[Path], statement: str) -> list[tuple[Any, ...]]:
    return sorted(row for folder in folders for row in execute_in(engine, folder, statement))


def first_slot(engine: str, folders: Sequence[Path]) -> int:
    """Return the first slot that all logs still have."""
    found = (execute_in(engine, each, "SELECT min(slot) FROM header") for each in folders)
    return max(int(slot) for ((slot,),) in found)


async def answers(reports: Reports) -> list[object]:
    """Return the report of each mint, or the error in its place."""
    found: list[object] = []
    for mint in [WSOL, *MINTS]:
        try:
            read = await reports.read(mint)
        except (TokenNotFound, InsufficientData) as refusal:
            found.append(repr(refusal))
        else:
            found.append((read.body, read.slot))
    return found


@pytest.mark.storm
@pytest.mark.parametrize("engine", MARKET_ENGINES)
@pytest.mark.parametrize("seed", SEEDS)
async def test_two_ingests_of_half_the_mints_equal_an_ingest_of_all(
    engine: str, seed: int, tmp_path: Path
) -> None:
    blocks = chain(Random(seed))
    whole, *halves = folders = [tmp_path / name for name in ("whole", "first", "second")]
    for folder, shard in zip(folders, (WHOLE, *HALVES), strict=True):
        folder.mkdir()
        await asyncio.wait_for(kept(engine, folder, shard, blocks, seed), 120)

    first = first_slot(engine, folders)
    for statement in (CANDLES, STATES, FOLLOWED, SWAPS.format(first=first)):
        found = rows(engine, halves, statement)
        assert found == rows(engine, [whole], statement)
        assert len(found) > 2
    for half in halves:
        headers = HEADERS.format(first=first)
        assert rows(engine, [half], headers) == rows(engine, [whole], headers)
        assert rows(engine, [half], FOLLOWED)
    async with AsyncExitStack() as stack:
        followers = [
            LogTailer(
                (await stack.enter_async_context(market_of(engine, folder))).reader,
                LiveMarket(99),
                ManualClock(UnixMs(0)),
            )
            for folder in folders
        ]
        both = ShardTailers(followers[1:])
        for each in (followers[0], both):
            await each.catch_up()
        assert await answers(both) == await answers(followers[0])
        assert both.folded() == followers[0].folded() == blocks[-1].slot
        assert both.age_ms() == followers[0].age_ms()


def test_each_mint_belongs_to_exactly_one_shard() -> None:
    parts = [Shard(number, 3) for number in (1, 2, 3)]
    assert [sum(part.owns(mint) for part in parts) for mint in MINTS] == [1] * len(MINTS)
    assert {shard_of(mint, 3) for mint in MINTS} == {1, 2, 3}
    assert all(WHOLE.owns(mint) for mint in MINTS)


@pytest.mark.parametrize(
    "text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "a/b", f"1/{SHARDS_MAX + 1}"]
)
def test_an_invalid_shard_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=f"was {text!r}"):
        parse_shard(text)


def test_a_shard_is_written_as_the_text_that_was_parsed() -> None:
    assert str(parse_shard("2/3")) == "2/3"
