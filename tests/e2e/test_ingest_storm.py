"""Repeated kill -9 of a real ingest: the market file equals that of an undisturbed run."""

import asyncio
import os
import signal
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Final

import apsw
import msgspec
import pytest
from based58 import b58encode

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.dex.outcome import Swap
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import SystemClock
from mintscope.market.ports import Floor
from mintscope.solana.blocks import WSOL, Block
from mintscope.solana.files import FileSource
from support.fakes.made_chain import decode_made, random_chain, swap_in
from support.oracles.market_file import kept
from support.processes.processes import running
from support.scenes.stores import market_in

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
KILLS: Final = 50 if FULL else 6
BLOCKS: Final = 150 * KILLS
WORK_S: Final = (0.003, 0.12)  # between the start of a replay and its kill
FLOOR: Final = Floor(swaps_min=30, volume_min=10**8, dead_after_days=1)


async def ingest(blocks: Path, folder: Path) -> None:
    """Replay *blocks* into the market in *folder*, after the slots that it already has."""
    async with market_in(folder, follows_all=True) as market:
        await Ingest(
            source=FileSource([blocks]),
            store=market.store,
            decode=decode_made,
            clock=SystemClock(),
            mints=[WSOL],
            floor=FLOOR,
            follows_files=True,
        ).run()
        while await market.store.trim(10_000):
            pass


def write_blocks(blocks: list[Block], path: Path) -> None:
    with path.open("wb") as file:
        for block in blocks:
            line = {
                "slot": block.slot,
                "parentSlot": block.parent_slot,
                "blockhash": block.blockhash,
                "previousBlockhash": block.parent_blockhash,
                "blockTime": block.time,
                "transactions": [made_entry(swap_in(one)) for one in block.transactions],
            }
            file.write(msgspec.json.encode(line) + b"\n")


def made_entry(swap: Swap) -> dict[str, Any]:
    """Return a transaction in the form of getBlock that carries *swap* for the fake decoder."""
    data = b58encode(msgspec.json.encode(swap)).decode()
    instruction = {"programIdIndex": 0, "accounts": [], "data": data}
    message = {"accountKeys": ["made"], "instructions": [instruction]}
    return {
        "transaction": {"signatures": [swap.signature], "message": message},
        "meta": {"err": None, "innerInstructions": None},
    }


def has_begun(folder: Path) -> bool:
    """Return whether the tables of the market exist.

    If ingest was killed before it created them, the file is empty or missing.  All tables are
    created in one transaction.  A kill during this transaction leaves a journal, which only a
    connection with write access can roll back.
    """
    path = folder / MARKET_FILE
    if not path.exists():
        return False
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        return bool(db.execute("SELECT count(*) FROM sqlite_schema").get)


@pytest.mark.storm
def test_repeated_kill_9_of_ingest_does_not_change_the_market(tmp_path: Path) -> None:
    random = Random(20)
    blocks, calm, stormy = (tmp_path / name for name in ("blocks.jsonl", "calm", "stormy"))
    write_blocks(random_chain(20, BLOCKS, spread_s=600), blocks)
    asyncio.run(ingest(blocks, calm))
    interrupted = 0
    for _ in range(KILLS):
        interrupted += killed_at_work(blocks, stormy, random.uniform(*WORK_S))
        if has_begun(stormy):
            kept(stormy)  # readable after every kill
    asyncio.run(ingest(blocks, stormy))

    assert interrupted >= KILLS // 2
    assert kept(stormy) == kept(calm)


def replay(at_work: Connection, blocks: Path, market: Path) -> None:
    at_work.send(None)
    asyncio.run(ingest(blocks, market))


def killed_at_work(blocks: Path, market: Path, after_s: float) -> bool:
    """Replay in another process, and kill it after *after_s*; return False if it had ended."""
    with running(replay, blocks, market) as (_, child):
        child.join(after_s)
    assert child.exitcode in {0, -signal.SIGKILL}
    return child.exitcode != 0
