"""Maintenance of accounts, which deletes old rows and stores uses of keys; over a real file."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
from typing_extensions import override

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.outbox import Outbox
from mintscope.accounts.mail.store import SqlEmailRows
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.session import ABSOLUTE_MS, IDLE_MS, Lifetimes, Purpose
from mintscope.accounts.signups.application import LAPSE_MS, Form, UserType
from mintscope.accounts.signups.signups import Signups
from mintscope.app.accounts import FORGOTTEN_AT_ONCE, AccountMaintenance
from support.scenes.people_service import (
    ALICE,
    HERE,
    PASSWORD,
    SECRETS,
    PeopleService,
    open_people_service,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FORM = Form(
    email=ALICE, telegram=None, twitter=None, user_type=UserType.TRADER, motivation="To trade."
)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


def signup_of(service: PeopleService) -> Signups:
    return Signups(store=service.store, secrets=SECRETS, clock=service.clock, entropy=os.urandom)


def maintenance_of(service: PeopleService) -> AccountMaintenance:
    return AccountMaintenance(
        keys=service.keys,
        signups=signup_of(service),
        store=service.store,
        lifetimes=Lifetimes(),
        clock=service.clock,
    )


async def test_only_sessions_that_have_ended_are_deleted(service: PeopleService) -> None:
    await service.people.sign_up(ALICE, PASSWORD, HERE)
    service.clock.advance(IDLE_MS - 1)
    await service.signed_in()
    maintenance = maintenance_of(service)
    await maintenance.round()
    assert service.rows("SELECT count(*) FROM session") == [(2,)]

    service.clock.advance(1)
    await maintenance_of(service).round()
    assert service.rows("SELECT count(*) FROM session") == [(1,)]

    service.change("UPDATE session SET seen_at = ?", service.clock.now() + ABSOLUTE_MS)
    service.clock.advance(ABSOLUTE_MS)
    await maintenance_of(service).round()
    assert service.rows("SELECT count(*) FROM session") == [(0,)]


async def test_an_unconfirmed_application_is_deleted_after_three_days(
    service: PeopleService,
) -> None:
    await signup_of(service).apply(FORM, redelivery_key=None)
    service.clock.advance(LAPSE_MS - 1)
    await maintenance_of(service).round()
    assert service.rows("SELECT count(*) FROM application") == [(1,)]

    service.clock.advance(2)
    await maintenance_of(service).round()

    assert service.rows("SELECT count(*) FROM application") == [(0,)]
    assert service.rows("SELECT actor FROM account_event ORDER BY id DESC LIMIT 1") == [
        ("service",)
    ]


async def test_sent_emails_and_used_links_are_deleted_after_a_month(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    await service.people.reset(link, "another password")
    outbox = Outbox(service.store)
    for draft in await outbox.recent(limit=10):
        await outbox.sent(draft.email_id, service.clock.now())

    service.clock.advance(30 * DAY_MS)
    await maintenance_of(service).round()
    assert service.rows("SELECT count(*) FROM letter") == [(2,)]

    service.clock.advance(1)
    await maintenance_of(service).round()
    assert service.rows("SELECT count(*) FROM letter") == [(0,)]
    assert service.rows("SELECT count(*) FROM proof") == [(0,)]


async def test_waiting_emails_are_kept_with_their_links(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    service.clock.advance(365 * DAY_MS)
    await maintenance_of(service).round()

    assert service.rows("SELECT count(*) FROM letter JOIN proof ON proof.id = letter.proof") == [
        (1,)
    ]


async def test_maintenance_sweeps_once_an_hour_and_writes_uses_of_keys_every_round(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    scopes = frozenset({Scope.TRADE_READ})
    key = await service.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    maintenance = maintenance_of(service)
    await maintenance.round()
    service.clock.advance(HOUR_MS - 1)
    await service.keys.find(key.api_key)

    await maintenance.round()
    assert service.rows("SELECT last_used_at FROM api_key") == [(service.clock.now(),)]
    assert service.rows("SELECT count(*) FROM session") == [(1,)]
    service.clock.advance(1)
    await maintenance.round()
    assert service.rows("SELECT count(*) FROM session") == [(0,)]


async def test_maintenance_continues_after_failed_writes(service: PeopleService) -> None:
    session = await service.signed_up()
    scopes = frozenset({Scope.TRADE_READ})
    key = await service.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    await service.keys.find(key.api_key)
    trigger = "BEGIN SELECT raise(FAIL, 'full'); END"
    service.change(f"CREATE TRIGGER full_keys BEFORE UPDATE ON api_key {trigger}")
    service.change(f"CREATE TRIGGER full_sessions BEFORE DELETE ON session {trigger}")
    service.clock.advance(DAY_MS)
    maintenance = maintenance_of(service)

    await maintenance.round()

    service.change("DROP TRIGGER full_keys")
    await maintenance.round()
    assert service.rows("SELECT last_used_at IS NOT NULL FROM api_key") == [(1,)]


@pytest.mark.parametrize("refusing", ["application", "session"])
async def test_a_failed_step_of_a_sweep_does_not_stop_the_other_steps(
    service: PeopleService, refusing: str
) -> None:
    await service.signed_up()
    await signup_of(service).apply(FORM, redelivery_key=None)
    made = "INSERT INTO made_thing (key_hash, asked, thing, made_at) VALUES (x'00', x'00', 1, 0)"
    service.change(made)
    trigger = "BEGIN SELECT raise(FAIL, 'full'); END"
    service.change(f"CREATE TRIGGER full BEFORE DELETE ON {refusing} {trigger}")
    service.clock.advance(LAPSE_MS + 1)
    await maintenance_of(service).round()

    tables = ("application", "session", "made_thing")
    left = [name for name in tables if service.rows(f"SELECT 1 FROM {name}")]
    assert left == [refusing]


T = TypeVar("T")


@dataclass
class WatchedStore(AccountStore):
    """A store that calls *look* after each transaction, and keeps the results in *seen*."""

    store: AccountStore
    look: Callable[[], tuple[int, int]]
    seen: list[tuple[int, int]] = field(default_factory=list)

    @override
    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        answer = await self.store.transact(work)
        self.seen.append(self.look())
        return answer

    @override
    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.claim(work)

    @override
    async def read(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.read(work)


async def test_old_emails_and_links_are_deleted_in_parts(service: PeopleService) -> None:
    """Links without an e-mail, requested for addresses without an account, are deleted, too."""
    for purpose, subject, expires_at in (
        ("verify_email", 1, 0),
        ("reset_password", 0, service.clock.now() - 1),
    ):
        service.change(
            "WITH RECURSIVE key (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM key WHERE n < ?)"
            " INSERT INTO proof (purpose, subject, email, nonce, made_at, expires_at)"
            " SELECT ?, ?, 'a@example.org', x'00', 0, ? FROM key",
            FORGOTTEN_AT_ONCE + 1,
            purpose,
            subject,
            expires_at,
        )
    service.change(
        f"INSERT INTO {SqlEmailRows.NAME}"
        " (kind, recipient, facts, proof, written_at, due_at, sent_at)"
        " SELECT 'verify_email', email, '{}', id, 0, 0, 0 FROM proof WHERE subject = 1"
    )

    def look() -> tuple[int, int]:
        return len(service.emails()), len(service.rows("SELECT id FROM proof"))

    maintenance = maintenance_of(service)
    maintenance.store = store = WatchedStore(service.store, look, [look()])
    await maintenance.round()

    gone = [(old[0] - new[0], old[1] - new[1]) for old, new in pairwise(store.seen)]
    assert store.seen[-1] == (0, 0)
    assert max(emails for emails, _ in gone) == FORGOTTEN_AT_ONCE
    assert max(links for _, links in gone) == 2 * FORGOTTEN_AT_ONCE


async def test_the_last_uses_of_keys_are_written_when_maintenance_ends(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    scopes = frozenset({Scope.TRADE_READ})
    key = await service.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    running = asyncio.create_task(maintenance_of(service).run())
    await asyncio.sleep(0)
    await service.keys.find(key.api_key)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert service.rows("SELECT last_used_at FROM api_key") == [(service.clock.now(),)]


async def test_usage_of_400_days_ago_is_deleted_and_later_usage_is_kept(
    service: PeopleService,
) -> None:
    service.change(
        "INSERT INTO credit_account (id, token_hash, hint, note, issued_at)"
        " VALUES (9, zeroblob(32), '00000009', '', 0)"
    )
    today = service.clock.now() // DAY_MS
    service.change(
        "WITH RECURSIVE key (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM key WHERE n < ?)"
        " INSERT INTO usage_day SELECT 9, day, n, 0, 1, 1 FROM key,"
        " (SELECT ? AS day UNION ALL SELECT ?)",
        FORGOTTEN_AT_ONCE + 1,
        today - 400,
        today - 399,
    )
    await maintenance_of(service).round()
    kept = FORGOTTEN_AT_ONCE + 1
    assert service.rows("SELECT day, count(*) FROM usage_day GROUP BY day") == [(today - 399, kept)]
