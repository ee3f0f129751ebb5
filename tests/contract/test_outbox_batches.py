"""A lease takes, and gives up on, a limited number of e-mails, on every engine of accounts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import EmailId, EmailKind, EmailLimit
from mintscope.accounts.mail.outbox import GIVE_UP_MAX, LEASE_MS, Outbox
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.session import NewProof, Purpose
from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_MS
from support.scenes.account_stores import ENGINES

NOW: Final = UnixMs(1_700_000_000_000)
EXPIRED: Final = UnixMs(NOW - 2 * HOUR_MS)
ALICE: Final = EmailAddress("alice@example.org")


@pytest.fixture(params=ENGINES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AccountStore]:
    async with ENGINES[request.param](tmp_path) as store:
        yield store


def write_expired(rows: AccountRows, count: int) -> None:
    """Add *count* e-mails whose links have expired."""
    for _ in range(count):
        proof = rows.proofs.insert(NewProof(Purpose.RESET_PASSWORD, 7, ALICE, b"n", EXPIRED))
        rows.emails.insert(EmailKind.RESET_PASSWORD, ALICE, {}, proof, EXPIRED)


async def given_up(store: AccountStore) -> list[EmailId]:
    found = await store.read(lambda rows: rows.emails.newest(10_000))
    return [draft.email_id for draft in found if draft.given_up_at is not None]


async def test_given_up_emails_do_not_raise_the_number_of_leased_emails(
    store: AccountStore,
) -> None:
    def write(rows: AccountRows) -> list[EmailId]:
        write_expired(rows, 3)
        return [rows.emails.insert(EmailKind.NEW_KEY, ALICE, {}, None, NOW) for _ in range(5)]

    good = await store.transact(write)
    leased = await Outbox(store).lease(NOW, limit=2)

    assert [draft.email_id for draft in leased] == good[:2]
    assert len(await given_up(store)) == 3


async def test_a_lease_gives_up_at_most_500_emails(store: AccountStore) -> None:
    await store.transact(lambda rows: write_expired(rows, GIVE_UP_MAX + 200))

    assert await Outbox(store).lease(NOW, limit=300) == []
    assert len(await given_up(store)) == GIVE_UP_MAX == 500
    assert LEASE_MS == 60_000


async def test_an_email_that_was_not_written_does_not_count_to_the_limit() -> None:
    limit = EmailLimit(MemoryLimits(ManualClock(NOW)))
    assert await limit.take(ALICE)
    assert not await limit.take(ALICE)
    await limit.give_back(ALICE)

    assert await limit.take(ALICE)
