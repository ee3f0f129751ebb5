"""E-mails of several api processes at one database: each is sent once."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows
from mintscope.app.stores.money import SqlAccountStore
from mintscope.app.stores.postgres import account_connections
from mintscope.kit.clock import SystemClock
from support.fakes.mail_server import MailRoom, mail_room_beside
from support.processes.api_process import api_process, settings
from support.scenes.postgres import dsn_in, url_in
from support.scenes.stores import PEPPER

EMAILS: Final = 2_000 if os.environ.get("STORM") == "full" else 300  # noqa: TID251 - only how many
PROCESSES: Final = 3
FACTS: Final = {"hint": "...12345678", "scopes": "trade:read"}
LEAVE_S_MAX: Final = 120.0
PAUSE_S: Final = 0.1


@pytest.fixture
def room() -> Iterator[MailRoom]:
    with mail_room_beside() as room:
        yield room


async def expect_emails(dsn: str, room: MailRoom, count: int) -> str:
    """Write *count* e-mails, and check that each is sent once; return a line of measurements."""
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
        while await store.read(lambda rows: rows.emails.count_waiting()):
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


def test_each_email_is_sent_once_by_one_of_three_processes(tmp_path: Path, room: MailRoom) -> None:
    environment = settings(
        tmp_path,
        MINTSCOPE_STORE=url_in(tmp_path),
        MINTSCOPE_CREDITS__PEPPER=PEPPER.hex(),
        MINTSCOPE_API__ORIGIN="https://mintscope.example",
        MINTSCOPE_MAIL__DELIVERY="smtp",
        MINTSCOPE_MAIL__PORT=str(room.port),
        MINTSCOPE_MAIL__SECURITY="none",
        MINTSCOPE_MAIL__SENDER="no-reply@example.org",
    )
    with ExitStack() as stack:
        for number in range(PROCESSES):
            stack.enter_context(api_process(environment, tmp_path / f"log-{number}"))
        asyncio.run(expect_emails(dsn_in(tmp_path), room, EMAILS))
