"""Checks that a cluster sends each e-mail exactly once."""

import asyncio
import time
from collections import Counter
from typing import Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows
from mintscope.app.stores.money import SqlAccountStore
from mintscope.app.stores.postgres import account_connections
from mintscope.kit.clock import SystemClock
from support.fakes.mail_server import MailRoom

FACTS: Final = {"hint": "...12345678", "scopes": "trade:read"}
LEAVE_S_MAX: Final = 120.0
PAUSE_S: Final = 0.1


async def expect_emails(dsn: str, room: MailRoom, count: int) -> str:
    """Write *count* e-mails at once, and check that each is sent once; return a line of figures."""
    at = SystemClock().now()

    def write(rows: AccountRows) -> None:
        for number in range(count):
            reader = EmailAddress(f"reader{number}@example.org")
            rows.emails.insert(EmailKind.NEW_KEY, reader, FACTS, None, at)

    connections = account_connections(dsn, patience_s=LEAVE_S_MAX)
    try:
        store = SqlAccountStore(connections)
        await store.transact(write)
        start_s = time.monotonic()
        while await store.read(lambda rows: rows.outbox.count_waiting()):
            assert time.monotonic() < start_s + LEAVE_S_MAX, f"{len(room.raw)} of {count} left"
            await asyncio.sleep(PAUSE_S)
    finally:
        await connections.close()
    took_s = time.monotonic() - start_s
    ids = Counter(str(message["Message-ID"]) for message in room.messages)
    assert len(ids) == len(room.raw) == count, ids.most_common(3)
    assert {reader for readers in room.recipients for reader in readers} == {
        f"reader{number}@example.org" for number in range(count)
    }
    return f"e-mails: {count} left in {took_s:.1f} s, with {len(ids)} different Message-IDs"
