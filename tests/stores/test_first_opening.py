"""Processes may open a fresh store in any order, and also all at once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Final

from mintscope.app.config.groups import Config
from mintscope.app.stores.stores import expect_own_stores, open_money
from mintscope.app.stores.upgrade import expect_upgraded
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import CredentialKind, make_credit_token
from mintscope.kit.sql.sqlite import open_store, waits_for

ROUNDS: Final = 4


def ingest(config: Config) -> None:
    expect_own_stores(config, writes=True)


def api(config: Config) -> None:
    async def written() -> None:
        async with open_money(config, SystemClock()) as money:
            await money.ledger.expect_writable()

    expect_own_stores(config, writes=True, uses_pepper=True)
    asyncio.run(written())


def command(config: Config) -> None:
    async def issued(number: int) -> None:
        async with open_money(config, SystemClock()) as money:
            await money.ledger.issue(
                make_credit_token(bytes([number]) * CredentialKind.CREDIT_TOKEN.entropy_bytes),
                1,
                "",
            )

    for number in range(3):
        expect_upgraded(config)
        expect_own_stores(config)
        asyncio.run(issued(number))


def looking(config: Config) -> None:
    for kind in ("money", "market"):
        for _ in range(50):
            assert not waits_for(config.data_dir / f"{kind}.sqlite", kind)


def opening(config: Config) -> None:
    for kind in ("money", "market"):
        open_store(config.data_dir / f"{kind}.sqlite", kind).close()


PROCESSES: Final[tuple[Callable[[Config], None], ...]] = (
    ingest,
    api,
    command,
    looking,
    opening,
    opening,
)


def test_processes_that_start_concurrently_on_a_fresh_folder_all_succeed(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        config = Config(data_dir=tmp_path / str(number))
        config.data_dir.mkdir(mode=0o700)
        together = Barrier(len(PROCESSES))

        def start(process: Callable[[Config], None], config: Config, together: Barrier) -> None:
            together.wait()
            process(config)

        with ThreadPoolExecutor(len(PROCESSES)) as threads:
            running = [threads.submit(start, each, config, together) for each in PROCESSES]
            for each in running:
                each.result()
