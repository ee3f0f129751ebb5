"""Under load, no order of faults stalls a stream, which delivers exactly the chain."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from random import Random
from typing import Final

import pytest
from served_stream import KINDS, Served, served

from mintscope.dex.token_accounts import signature_of
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block, Tip
from mintscope.solana.transaction import Transaction
from mintscope_devchain.blockstore import FINALITY_MS
from mintscope_devchain.faults import Knobs, Streaming
from support.processes.processes import start_process

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
SLICES: Final = 40 if FULL else 1
ORDERS: Final = 50 if FULL else 8  # of a slice
AT_ONCE: Final = 5 if FULL else 4
LOAD: Final = 8 if FULL else 2
STALL_S: Final = 60  # longer than any delay by the load; a stall never ends
OF_TOWER_MS: Final = 12_800


def busy() -> None:
    """Use all idle time of a processor."""
    os.nice(10)
    while True:
        pass


class Consumer:
    """A reader of a source, which checks that the blocks form one chain without holes."""

    def __init__(self, at: Served) -> None:
        self._at = at
        self.chain: dict[Slot, str] = {}

    @property
    def tip(self) -> Tip | None:
        if not self.chain:
            return None
        newest = max(self.chain)
        return Tip(newest, self.chain[newest])

    async def read(self) -> None:
        updates = self._at.source().updates(self.tip)
        assert isinstance(updates, AsyncGenerator)
        async with aclosing(updates):
            async for update in updates:
                if isinstance(update, Block):
                    self._append(update)

    def _append(self, block: Block) -> None:
        self.chain = {slot: each for slot, each in self.chain.items() if slot <= block.parent_slot}
        if self.chain:
            assert self.chain.get(block.parent_slot) == block.parent_blockhash, "a hole"
        self.chain[block.slot] = block.blockhash
        made = self._at.chain.blockstore.block(block.slot)
        if made is not None and made.blockhash == block.blockhash:
            signatures = {str(each) for each in self._at.chain.signatures(made)}
            read = [each for each in block.transactions if isinstance(each, Transaction)]
            assert {signature_of(each) for each in read} <= signatures, "of another bank"


async def one_order(at: Served, consumer: Consumer, random: Random) -> str | None:
    """Cause faults in a random order; return a description of the stall, or None."""
    chain = at.chain
    reading = asyncio.create_task(consumer.read())
    try:
        for _ in range(random.randint(2, 5)):
            kind = random.choice(KINDS)
            latency_ms = random.choice([0, 0, 5, 30])
            stream = Streaming(kind, random.choice([1, 1, 2]))
            chain.vm.faults.set(Knobs(stream=stream, latency_ms={"getBlock": latency_ms}))
            for _ in range(random.randint(1, 3)):
                chain.tick()
                await asyncio.sleep(random.uniform(0, 0.03))
            for _ in range(random.choice([0, 0, 1, 2])):
                chain.fork(random.randint(1, max(1, chain.blockstore.unfinalized() // 4)))
                await asyncio.sleep(random.uniform(0, 0.1))
            if not await has_caught_up(at, consumer, reading):
                confirmed = chain.blockstore.reached("confirmed")
                return f"after {kind} at {consumer.tip}; the chain is at {confirmed}"
        return None
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def has_caught_up(at: Served, consumer: Consumer, reading: asyncio.Task[None]) -> bool:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while loop.time() < began_s + STALL_S:
        if reading.done():
            reading.result()
        confirmed = at.chain.blockstore.reached("confirmed")
        made = at.chain.blockstore.block(confirmed)
        if made is not None and consumer.chain.get(confirmed) == made.blockhash:
            return True
        await asyncio.sleep(0.01)
    return False


async def orders_on_one_chain(seeds: list[int]) -> list[str]:
    """Cause one order of faults per seed on a shared chain; return descriptions of stalls."""
    first = seeds[0]
    stalls = []
    async with served(
        addresses_max=1 if first % 2 else 10,
        names_banks=first % 3 > 0,
        finality_ms=OF_TOWER_MS if first % 5 < 3 else FINALITY_MS,
    ) as at:
        consumer = Consumer(at)
        at.chain.tick()
        for seed in seeds:
            stall = await one_order(at, consumer, Random(seed))
            if stall is not None:
                stalls.append(f"order {seed}: {stall}")
        final = at.chain.blockstore.reached("finalized")
        made = {slot: at.chain.blockstore.block(slot) for slot in at.chain.blockstore.slots}
        expected = {slot: one.blockhash for slot, one in made.items() if one and slot <= final}
        assert {slot: each for slot, each in consumer.chain.items() if slot <= final} == expected
    return stalls


@pytest.mark.storm
@pytest.mark.process
@pytest.mark.parametrize("number", range(SLICES))
async def test_no_order_of_faults_lets_a_stream_stall(number: int) -> None:
    with ExitStack() as load:
        for _ in range(LOAD):
            load.callback(start_process(busy).kill)
        seeds = [*range(number * ORDERS, (number + 1) * ORDERS)]
        chains = [orders_on_one_chain(seeds[each::AT_ONCE]) for each in range(AT_ONCE)]
        stalls = [stall for each in await asyncio.gather(*chains) for stall in each]

    assert stalls == []
