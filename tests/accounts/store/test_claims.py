"""Several api processes deliver from one outbox: each e-mail is sent once."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.delivery import Delivery
from mintscope.accounts.mail.email import Draft, Email, EmailId, EmailKind
from mintscope.accounts.mail.outbox import Outbox
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.store import AccountConnections
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import AccessAtOnce
from mintscope.kit.sql.postgres import PostgresDatabase
from support.fakes.mail_server import SentEmails
from support.scenes.postgres import dsn_in

NOW: Final = UnixMs(1_700_000_000_000)
ALICE: Final = EmailAddress("alice@example.org")
EMAILS: Final = 240
PROCESSES: Final = 3


@asynccontextmanager
async def store_in(folder: Path) -> AsyncIterator[AccountStore]:
    dsn = dsn_in(folder)
    reading = AccessAtOnce(PostgresDatabase(dsn))
    connections = AccountConnections(PostgresDatabase(dsn), reading)
    try:
        yield SqlAccountStore(connections)
    finally:
        await connections.close()


async def written(store: AccountStore, count: int) -> list[EmailId]:
    def write(rows: AccountRows) -> list[EmailId]:
        kind = EmailKind.NEW_KEY
        return [rows.emails.insert(kind, ALICE, {}, None, NOW) for _ in range(count)]

    return await store.transact(write)


async def test_emails_that_another_process_is_leasing_are_skipped_without_waiting(
    tmp_path: Path,
) -> None:
    async with store_in(tmp_path) as one, store_in(tmp_path) as other:
        ids = await written(one, 3)
        is_taken, go_on = threading.Event(), threading.Event()

        def take(rows: AccountRows) -> list[EmailId]:
            taken = [draft.email_id for draft in rows.emails.claim(NOW, 2)]
            is_taken.set()
            assert go_on.wait(10)
            return taken

        taking = asyncio.create_task(one.claim(take))
        assert await asyncio.to_thread(is_taken.wait, 10)
        leased = await Outbox(other).lease(NOW, limit=3)
        go_on.set()
        assert await taking == ids[:2]
        assert [draft.email_id for draft in leased] == ids[2:]


async def test_leases_do_not_wait_for_the_lock_of_writers(tmp_path: Path) -> None:
    async with store_in(tmp_path) as one, store_in(tmp_path) as other:
        await written(one, 1)
        is_held, go_on = threading.Event(), threading.Event()

        def hold(_: AccountRows) -> None:
            is_held.set()
            assert go_on.wait(10)

        holding = asyncio.create_task(one.transact(hold))
        assert await asyncio.to_thread(is_held.wait, 10)
        assert len(await Outbox(other).lease(NOW, limit=3)) == 1
        go_on.set()
        await holding


def composed(draft: Draft) -> Email:
    message_id = f"<{draft.email_id}@example.org>"
    return Email(recipient=ALICE, subject="a key", text="text", message_id=message_id)


async def test_three_processes_send_every_email_exactly_once(tmp_path: Path) -> None:
    sent, clock = SentEmails(), ManualClock(NOW)
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(store_in(tmp_path)) for _ in range(PROCESSES)]
        await written(stores[0], EMAILS)

        async def deliver(store: AccountStore) -> None:
            outbox = Outbox(store)
            delivery = Delivery(outbox=outbox, transport=sent, compose=composed, clock=clock)
            while await delivery.round():
                pass

        await asyncio.gather(*map(deliver, stores))
        assert await Outbox(stores[0]).count_waiting() == 0
    left = Counter(email.message_id for email in sent.arrived)
    assert len(left) == EMAILS
    assert set(left.values()) == {1}
