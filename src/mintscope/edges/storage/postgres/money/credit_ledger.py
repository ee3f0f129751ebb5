"""CreditLedger and CreditAccounts on PostgreSQL."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from mintscope.base.clock import Clock
from mintscope.base.primitives import CreditAccount
from mintscope.core.credits.ledger import AccountLine, KindLine
from mintscope.edges.storage.credit_ledger import UNAVAILABLE, GroupCreditLedger
from mintscope.edges.storage.database import (
    AccessInThreads,
    DatabaseError,
    unavailable_on_database_error,
)
from mintscope.edges.storage.group_commit import PATIENCE_S
from mintscope.edges.storage.postgres.money.credit_book import PostgresCreditBook

T = TypeVar("T")


class PostgresCreditLedger(GroupCreditLedger):
    """Implements InstantLedger; lives in one event loop.  Reads are made in threads."""

    def __init__(
        self, dsn: str, *, pepper: bytes, clock: Clock, patience_s: float = PATIENCE_S
    ) -> None:
        writing = PostgresCreditBook(dsn, pepper=pepper)
        super().__init__(
            writing,
            writing,
            AccessInThreads(partial(PostgresCreditBook, dsn, pepper=pepper)),
            clock=clock,
            errors=DatabaseError,
            patience_s=patience_s,
        )


class PostgresCreditAccounts:
    """Implements CreditAccounts."""

    def __init__(self, dsn: str, *, pepper: bytes) -> None:
        self._book = PostgresCreditBook(dsn, pepper=pepper)

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
        """Let go of the connection."""
        self._book.close()


async def _read(work: Callable[[], T]) -> T:
    with unavailable_on_database_error(UNAVAILABLE):
        return await asyncio.to_thread(work)
