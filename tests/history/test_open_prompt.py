"""While `mintscope history` waits for a confirmation, other backfills are read."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import typer
from pydantic import SecretStr
from test_late_mint import addresses

from mintscope.app.cli.history import Giving
from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config
from mintscope.app.engine import engine_of
from mintscope.app.stores.stores import Market, opened
from mintscope.history.backfill import BackfillIsRead, Kind
from mintscope.kit.errors import FolderInUse
from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S
from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import NOW
from support.processes.listening import listening
from support.scenes.stores import market_in

FROM: Final = UnixS(NOW // 1_000 - 10_000)  # before the chain began
OTHER: Final = UnixS(FROM - 2 * DAY_S)
BEGIN: Final = """
INSERT INTO history_job (mint, from_time, stage)
SELECT id, ?, 'reading' FROM mint WHERE address = ?
"""


@dataclass
class Terminal:
    """Standard input; a read calls *meanwhile*, and then returns the line *answer*."""

    meanwhile: Callable[[], None]
    answer: str

    def readline(self) -> str:
        self.meanwhile()
        return f"{self.answer}\n"


@asynccontextmanager
async def asking(folder: Path) -> AsyncIterator[tuple[Giving, Market, Config]]:
    """Yield a backfill command that asks for confirmation, its market, and its configuration."""
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01)
    mint = chain.world.listed[0].token.mint
    found = addresses(chain, mint)
    async with market_in(folder) as market, listening(chain.app) as url:
        await market.tracking.add(mint)
        giving = Giving(
            mint=mint,
            from_time=FROM,
            pools=[address for address, kind in found.items() if kind is Kind.POOL],
            rate_pools=[address for address, kind in found.items() if kind is Kind.RATE],
            calls_per_s=10_000,
            yes=False,
        )
        yield giving, market, Config(data_dir=folder, chain=ChainConfig(rpc_url=SecretStr(url)))


async def test_another_backfill_can_be_read_while_the_prompt_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    async with asking(tmp_path) as (giving, market, config):

        def read_another() -> None:
            with engine_of(config).backfill_lock():
                read.append("another")

        monkeypatch.setattr(sys, "stdin", Terminal(read_another, "n"))
        with pytest.raises(typer.Exit):
            await giving.run(market, config)
        assert await market.history.one(giving.mint) is None

    assert read == ["another"]


def test_the_backfill_lock_passes_on_an_error_of_its_block(tmp_path: Path) -> None:
    lock = engine_of(Config(data_dir=tmp_path)).backfill_lock
    with pytest.raises(FolderInUse, match="another folder"), lock():
        raise FolderInUse("another folder")
    with lock(), pytest.raises(BackfillIsRead), lock():
        pass


async def test_a_backfill_of_the_mint_begun_while_the_prompt_is_open_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as (giving, market, config):

        def begin_another() -> None:
            with opened(config, "market") as database, database.transaction():
                database.execute(BEGIN, (OTHER, giving.mint))

        monkeypatch.setattr(sys, "stdin", Terminal(begin_another, "y"))
        with pytest.raises(ValueError, match="was started or has ended in the meantime"):
            await giving.run(market, config)
        job = await market.history.one(giving.mint)

    assert job is not None
    assert job.from_time == OTHER
