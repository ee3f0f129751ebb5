"""Which of several ingests writes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.extras import extra


class Turn(Protocol):
    """The right to write the market, and the epoch that its holder writes in."""

    @property
    def epoch(self) -> int | None:
        """The epoch, once the right is had; None where there are none."""

    def held(self) -> AbstractAsyncContextManager[None]:
        """Wait for it, and have it during the block.  Raises StoreUnavailable."""

    async def keep(self) -> None:
        """Keep it until cancelled.  Raises StoreUnavailable once it is lost."""


class _OnlyOne:
    """Implements Turn for the one process that holds the folder of all files."""

    epoch = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        yield

    async def keep(self) -> None:
        await asyncio.Event().wait()


def turn(config: Config) -> Turn:
    """Return what says when this process may write.  Raises UnusableStore."""
    if config.store is None:
        return _OnlyOne()
    with extra("postgres", "psycopg", "store"):
        from mintscope.edges.storage.postgres.processes.ingest_lock import (  # noqa: PLC0415 - an extra
            IngestLock,
        )
    return IngestLock(config.store.get_secret_value())
