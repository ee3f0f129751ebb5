"""Every engine that keeps accounts: one line adds another to all contract tests."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from mintscope.core.accounts.store import AccountStore
from mintscope.edges.storage.folder import MONEY_FILE
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.store import SqliteAccountStore

Opener = Callable[[Path], AbstractAsyncContextManager[AccountStore]]


@asynccontextmanager
async def open_sqlite(folder: Path) -> AsyncIterator[AccountStore]:
    """Open the accounts in *folder*; again, as another process would."""
    file = AccountFile(folder / MONEY_FILE)
    try:
        yield SqliteAccountStore(file)
    finally:
        await file.close()


ENGINES: Final[dict[str, Opener]] = {
    "sqlite": open_sqlite,
}
