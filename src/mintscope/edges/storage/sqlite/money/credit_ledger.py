"""CreditLedger and CreditAccounts on SQLite: the tables behind a group commit."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import apsw

from mintscope.base.clock import Clock
from mintscope.base.primitives import CreditAccount
from mintscope.core.credits.ledger import AccountLine, KindLine
from mintscope.edges.storage.credit_ledger import UNAVAILABLE, GroupCreditLedger
from mintscope.edges.storage.database import AccessAtOnce
from mintscope.edges.storage.group_commit import PATIENCE_S
from mintscope.edges.storage.sqlite.connection import unavailable_on_error
from mintscope.edges.storage.sqlite.money.credit_book import CreditBook

T = TypeVar("T")

READ_PATIENCE_MS: Final = 100  # readers wait only for a recovery


class SqliteCreditLedger(GroupCreditLedger):
    """Implements InstantLedger; lives in one event loop.

    Reads are made on the loop itself: indexed, of pages in memory, and never blocked by a writer.
    """

    def __init__(
        self, path: Path, *, pepper: bytes, clock: Clock, patience_s: float = PATIENCE_S
    ) -> None:
        reading = CreditBook(path, pepper=pepper)
        reading.wait_at_most(READ_PATIENCE_MS)
        writing = CreditBook(path, pepper=pepper)
        with suppress(apsw.Error):  # it is tried again
            writing.rest(clock.now())  # what the process before has left behind
        super().__init__(
            writing,
            writing,
            AccessAtOnce(reading),
            clock=clock,
            errors=apsw.Error,
            patience_s=patience_s,
        )


class SqliteCreditAccounts:
    """Implements CreditAccounts."""

    def __init__(self, path: Path, *, pepper: bytes) -> None:
        self._book = CreditBook(path, pepper=pepper)

    async def accounts(self, ending: str = "") -> Sequence[AccountLine]:
        """Return the accounts whose credit token ends in *ending*, oldest first."""
        return await _read(lambda: self._book.accounts(ending))

    async def summary(self, account: CreditAccount) -> Sequence[KindLine]:
        """Return what moved the balance of *account*, by kind."""
        return await _read(lambda: self._book.summary(account))

    async def contradictions(self) -> Sequence[CreditAccount]:
        """Return the accounts whose balance is not what their entries say; always none."""
        return await _read(self._book.contradictions)

    async def close(self) -> None:
        """Let go of the file."""
        self._book.close()


async def _read(work: Callable[[], T]) -> T:
    with unavailable_on_error(UNAVAILABLE):
        return await asyncio.to_thread(work)
