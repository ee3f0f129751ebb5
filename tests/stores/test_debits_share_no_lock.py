"""Debits wait only for the rows of their accounts, and for no lock that all replicas share."""

from contextlib import closing
from typing import Final

import pytest

from mintscope.credits.ledger import Debit, Debited, Spent
from mintscope.credits.postgres import PostgresCreditBook
from mintscope.kit.credentials import make_credit_token
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import DatabaseError
from mintscope.kit.sql.postgres import PostgresDatabase

NOW: Final = UnixMs(1_700_000_000_000)
PEPPER: Final = bytes(range(32))


def test_a_debit_does_not_wait_for_the_write_lock(dsn: str) -> None:
    with closing(PostgresCreditBook(dsn, pepper=PEPPER)) as book:
        account = book.issue(make_credit_token(bytes(28)), 10, note="", at=NOW)
        with closing(PostgresDatabase(dsn)) as other, other.transaction():
            assert book.spend([account], NOW) == [Spent(9)]
            outcome = book.debit([Debit(account, 2)], NOW)
    assert isinstance(outcome[0], Debited)
    assert outcome[0].balance == 7


def test_a_debit_does_not_wait_for_the_row_of_another_account(dsn: str) -> None:
    with closing(PostgresCreditBook(dsn, pepper=PEPPER)) as book:
        first, second = (
            book.issue(make_credit_token(bytes([n]) * 28), 10, note="", at=NOW) for n in (1, 2)
        )
        with closing(PostgresDatabase(dsn)) as other, other.transaction(beside=True):
            other.execute("SELECT 1 FROM credit_account WHERE id = ? FOR UPDATE", (first,))
            assert book.spend([second], NOW) == [Spent(9)]
            impatient = PostgresDatabase(dsn, lock_ms=100)
            with closing(impatient), pytest.raises(DatabaseError, match="lock timeout"):
                impatient.execute(
                    "SELECT 1 FROM credit_account WHERE id = ? FOR NO KEY UPDATE", (first,)
                )
