"""CreditLedger and CreditAccounts on SQLite: the tables behind a group commit."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from mintscope.base.clock import Clock
from mintscope.edges.storage.credit_accounts import TableCreditAccounts
from mintscope.edges.storage.credit_ledger import GroupCreditLedger
from mintscope.edges.storage.database import AccessAtOnce
from mintscope.edges.storage.group_commit import PATIENCE_S
from mintscope.edges.storage.sqlite.money.credit_book import CreditBook

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


class SqliteCreditAccounts(TableCreditAccounts):
    """Implements CreditAccounts."""

    def __init__(self, path: Path, *, pepper: bytes) -> None:
        super().__init__(CreditBook(path, pepper=pepper), errors=apsw.Error)
