"""Credit accounts over any engine, as an operator looks at them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import CreditAccount
from mintscope.core.credits.ledger import ACCOUNTS_A_PAGE, FIRST, AccountLine, KindLine
from mintscope.edges.storage.credit_ledger import UNAVAILABLE
from mintscope.edges.storage.credit_tables import ListsCredits

T = TypeVar("T")

log = structlog.get_logger()


class TableCreditAccounts:
    """Implements CreditAccounts; reads are made in threads.

    errors   of the engine; they become ServiceUnavailable
    """

    def __init__(self, listing: ListsCredits, *, errors: type[Exception]) -> None:
        self._listing = listing
        self._errors = errors

    async def page(
        self, *, after: CreditAccount = FIRST, limit: int = ACCOUNTS_A_PAGE
    ) -> Sequence[AccountLine]:
        """Return up to *limit* accounts that follow the account *after*, oldest first."""
        return await self._read(lambda: self._listing.page(after, limit))

    async def ending_in(
        self, ending: str, *, after: CreditAccount = FIRST, limit: int = ACCOUNTS_A_PAGE
    ) -> Sequence[AccountLine]:
        """Return up to *limit* accounts after *after* whose credit token ends in *ending*."""
        return await self._read(lambda: self._listing.ending_in(ending, after, limit))

    async def summary(self, account: CreditAccount) -> Sequence[KindLine]:
        """Return the sums of the entries of *account* by kind, spends last."""
        return await self._read(lambda: self._listing.summary(account))

    async def contradictions(self) -> Sequence[CreditAccount]:
        """Return the accounts whose balance contradicts their entries since the last close."""
        return await self._read(self._listing.contradictions)

    async def close(self) -> None:
        """Let go of the connection."""
        self._listing.close()

    async def _read(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except self._errors as cause:
            log.exception("the ledger does not answer")
            raise ServiceUnavailable(UNAVAILABLE) from cause
