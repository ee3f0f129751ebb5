"""The position up to which an audit has read never lies between the two entries of a rotation.

A rotation moves the credits of a credit token to a new token, by two entries of the journal.
On PostgreSQL debits hold only the locks of their accounts: a debit may be committed, with a number
between those of the two entries, while the rotation is in progress.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from mintscope.app.stores import postgres as openers
from mintscope.credits.statements import ADD
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.postgres import PostgresDatabase

NOW: Final = UnixMs(1_700_000_000_000)
FROM = 1
ONTO = 2
OTHER = 3
LOOK_S: Final = 0.5  # an audit that does not wait for the rotation has ended by then


@pytest.fixture
def rotating(dsn: str) -> Iterator[Database]:
    with closing(PostgresDatabase(dsn)) as database:
        for account in (FROM, ONTO, OTHER):
            database.execute(
                "INSERT INTO credit_account (token_hash, hint, note, issued_at)"
                " VALUES (?, '', '', 0)",
                (bytes([account] * 32),),
            )
        for account in (FROM, OTHER):
            database.execute(ADD, (account, "grant", 9, NOW))
        yield database


async def test_a_debit_between_the_entries_of_a_rotation_is_no_violation(
    dsn: str, rotating: Database
) -> None:
    books = openers.payment_books(dsn)
    mark = (await books.check(after_entry=None)).entry_mark
    with closing(PostgresDatabase(dsn)) as debiting, rotating.transaction():
        rotating.execute(ADD, (FROM, "rotate", -9, NOW))
        with debiting.transaction(beside=True):
            debiting.execute(ADD, (OTHER, "spend", -1, NOW))
        audit = asyncio.create_task(books.check(after_entry=mark))
        await asyncio.wait([audit], timeout=LOOK_S)
        rotating.execute(ADD, (ONTO, "rotate", 9, NOW))
    first = await audit
    second = await books.check(after_entry=first.entry_mark)
    await books.close()

    assert [*first.violations, *second.violations] == []
