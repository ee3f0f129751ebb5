"""CreditLedger and CreditAccounts on PostgreSQL."""

from functools import partial

from mintscope.base.clock import Clock
from mintscope.edges.storage.credit_accounts import TableCreditAccounts
from mintscope.edges.storage.credit_ledger import GroupCreditLedger
from mintscope.edges.storage.database import AccessInThreads, DatabaseError
from mintscope.edges.storage.group_commit import PATIENCE_S
from mintscope.edges.storage.postgres.money.credit_book import PostgresCreditBook


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


class PostgresCreditAccounts(TableCreditAccounts):
    """Implements CreditAccounts."""

    def __init__(self, dsn: str, *, pepper: bytes) -> None:
        super().__init__(PostgresCreditBook(dsn, pepper=pepper), errors=DatabaseError)
