"""Which of several ingests writes, and which process reads a past."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from typing import Protocol

from mintscope.base.errors import FolderInUse
from mintscope.core.market.history.asking import PastIsRead
from mintscope.edges.storage import folder
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


@asynccontextmanager
async def reading_turn(config: Config) -> AsyncIterator[None]:
    """Be the one process of the installation that reads a past, during the block.

    Raises PastIsRead while another one is, StoreUnavailable.
    """
    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, _reading(config))
        yield


@contextmanager
def _reading(config: Config) -> Iterator[None]:
    if config.store is None:
        try:
            with folder.held(config.data_dir, "history", may_be_open=True):
                yield
        except FolderInUse:
            raise PastIsRead from None
        return
    with extra("postgres", "psycopg", "store"):
        from mintscope.edges.storage.postgres.processes.reading_lock import (  # noqa: PLC0415 - an extra
            reading,
        )
    with reading(config.store.get_secret_value()) as is_ours:
        if not is_ours:
            raise PastIsRead
        yield
