"""Purchases while the disk is full or `money.sqlite` is locked, and the flushes before a sale."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import httpx
import pytest
from paying_service import FLUSH, FlushTrace
from selling_service import Manner, Seller, ask_books, market_town, tokens_issued, visiting
from shopping import redeem

from mintscope.app.stores.folder import MONEY_FILE

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
FLUSHED = 5
LOCKS, LOCKED_S = (20, 12.0) if FULL else (2, 1.0)  # 12 s are longer than the store's patience
AT_ONCE = 8


@pytest.mark.storm
async def test_a_locked_file_loses_no_payment(tmp_path: Path) -> None:
    """Another connection holds the write lock while payments begin, land and are issued."""
    with market_town(tmp_path) as (chain, [seller]):
        async with visiting(chain, [seller]) as (shopper, [shop]):
            for number in range(LOCKS):
                buying = [
                    asyncio.create_task(shopper.buy(shop, f"the-secret-{number:04}-{n:04}"))
                    for n in range(AT_ONCE)
                ]
                await asyncio.sleep(0.05 * (number % 4))
                with locked(tmp_path):
                    await asyncio.sleep(LOCKED_S)
                await asyncio.gather(*buying)
            unanswered = [each for each in shopper.paid if each.token is None]
            await asyncio.gather(*(redeem(shop, each) for each in unanswered))

        # A blockhash is valid for six seconds here; payments that began later were never sent.
        tokens = {each.token for each in shopper.paid if each.token is not None}
        landed = chain.paid_by(chain.landed())
        assert {each.payer_signature for each in shopper.paid if each.token} == landed
        assert len(tokens) == len(landed) == tokens_issued(tmp_path) >= LOCKS // 4


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the write lock of `money.sqlite` in *folder*."""
    db = apsw.Connection(str(folder / MONEY_FILE))
    db.set_busy_timeout(10_000)
    db.execute("BEGIN IMMEDIATE")
    yield
    db.execute("ROLLBACK")
    db.close()


async def test_a_full_disk_stops_sales_until_it_has_room_again(tmp_path: Path) -> None:
    with market_town(tmp_path) as (chain, [seller]):
        async with visiting(chain, [seller]) as (shopper, [shop]):
            assert (await shopper.buy(shop, None)).token is not None
            landed = chain.landed()
            with disk_full(seller):
                refused = [await shopper.buy(shop, None) for _ in range(20)]
                ready = await shop.get("/readyz")
            assert {each.answer.status_code for each in refused if each.answer} == {503}
            assert chain.landed() == landed
            assert ready.status_code == 503
            healed = await shopper.buy(shop, None)

        assert healed.token is not None
        assert len(chain.landed()) == 2
        assert ask_books(tmp_path, "PRAGMA integrity_check") == "ok"


@contextmanager
def disk_full(seller: Seller) -> Iterator[None]:
    """Let no write of the process reach a file, as on a disk without room."""
    pid = seller.process.pid
    assert pid is not None
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


async def flushes_before_each_sale(folder: Path, mistake: str) -> list[int]:
    """Buy several times; return the number of flushes to disk between each 402 and its 201."""
    trace = folder / "trace"
    notes = FlushTrace(trace)

    async def noted(answer: httpx.Response) -> None:
        notes.note(str(answer.status_code))

    manner = Manner(mistake=mistake, trace=trace)
    with market_town(folder, manner=manner) as (chain, sellers):
        async with visiting(chain, sellers) as (shopper, [shop]):
            shop.event_hooks = {"response": [noted]}
            for _ in range(FLUSHED):
                assert (await shopper.buy(shop, None)).token is not None
    until_each = trace.read_text().split("201\n")[:FLUSHED]
    return [lines.rpartition("402\n")[2].count(FLUSH) for lines in until_each]


async def test_every_sale_waits_for_the_disk_twice(tmp_path: Path) -> None:
    """A sale flushes the pending row, before the broadcast, and then the sold credits."""
    assert min(await flushes_before_each_sale(tmp_path, "")) >= 2


async def test_the_trace_finds_a_store_that_does_not_flush(tmp_path: Path) -> None:
    assert min(await flushes_before_each_sale(tmp_path, "NeverFlushes")) < 2
