"""What is done to accounts now and then; over a real file."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.core.accounts.application import LAPSE_MS, Form, UserType
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.mail.outbox import Outbox
from mintscope.core.accounts.people.session import ABSOLUTE_MS, IDLE_MS, Lifetimes
from mintscope.core.accounts.proof import Purpose
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.maintenance.account_maintenance import AccountMaintenance
from support.scenes.desks import ALICE, HERE, PASSWORD, SECRETS, Desks, open_desks

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[Desks]:
    async with open_desks(tmp_path) as desks:
        yield desks


def signup_of(desks: Desks) -> Signups:
    return Signups(desks.store, secrets=SECRETS, clock=desks.clock, entropy=os.urandom)


def housekeeping_of(desks: Desks) -> AccountMaintenance:
    return AccountMaintenance(
        keys=desks.keys,
        signups=signup_of(desks),
        store=desks.store,
        lifetimes=Lifetimes(),
        clock=desks.clock,
    )


async def test_sessions_that_are_over_are_deleted_and_no_others(desks: Desks) -> None:
    await desks.people.sign_up(ALICE, PASSWORD, HERE)
    desks.clock.advance(IDLE_MS - 1)
    await desks.signed_in()
    housekeeping = housekeeping_of(desks)
    await housekeeping.round()
    assert desks.rows("SELECT count(*) FROM session") == [(2,)]

    desks.clock.advance(1)
    await housekeeping_of(desks).round()
    assert desks.rows("SELECT count(*) FROM session") == [(1,)]

    desks.change("UPDATE session SET seen_at = ?", desks.clock.now() + ABSOLUTE_MS)
    desks.clock.advance(ABSOLUTE_MS)
    await housekeeping_of(desks).round()
    assert desks.rows("SELECT count(*) FROM session") == [(0,)]


async def test_an_application_nobody_confirms_goes_after_three_days(desks: Desks) -> None:
    form = Form(
        email=ALICE,
        telegram=None,
        twitter=None,
        user_type=UserType.TRADER,
        motivation="To trade.",
    )
    await signup_of(desks).apply(form, redelivery_key=None)
    desks.clock.advance(LAPSE_MS - 1)
    await housekeeping_of(desks).round()
    assert desks.rows("SELECT count(*) FROM application") == [(1,)]

    desks.clock.advance(2)
    await housekeeping_of(desks).round()

    assert desks.rows("SELECT count(*) FROM application") == [(0,)]
    assert desks.rows("SELECT actor FROM account_event ORDER BY id DESC LIMIT 1") == [("service",)]


async def test_letters_and_links_go_a_month_after_they_are_done_with(desks: Desks) -> None:
    await desks.signed_up()
    await desks.people.request_reset(ALICE, HERE)
    link = desks.link(Purpose.RESET_PASSWORD)
    await desks.people.reset(link, "another password")
    outbox = Outbox(desks.store)
    for draft in await outbox.recent(limit=10):
        await outbox.sent(draft.email_id, desks.clock.now())

    desks.clock.advance(30 * DAY_MS)
    await housekeeping_of(desks).round()
    assert desks.rows("SELECT count(*) FROM letter") == [(2,)]

    desks.clock.advance(1)
    await housekeeping_of(desks).round()
    assert desks.rows("SELECT count(*) FROM letter") == [(0,)]
    assert desks.rows("SELECT count(*) FROM proof") == [(0,)]


async def test_letters_that_wait_stay_with_their_links(desks: Desks) -> None:
    await desks.signed_up()
    await desks.people.request_reset(ALICE, HERE)
    desks.clock.advance(365 * DAY_MS)
    await housekeeping_of(desks).round()

    assert desks.rows("SELECT count(*) FROM letter JOIN proof ON proof.id = letter.proof") == [(1,)]


async def test_it_sweeps_once_an_hour_and_writes_uses_every_time(desks: Desks) -> None:
    session = await desks.signed_up()
    scopes = frozenset({Scope.TRADE_READ})
    key = await desks.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    housekeeping = housekeeping_of(desks)
    await housekeeping.round()
    desks.clock.advance(HOUR_MS - 1)
    await desks.keys.find(key.api_key)

    await housekeeping.round()
    assert desks.rows("SELECT last_used_at FROM api_key") == [(desks.clock.now(),)]
    assert desks.rows("SELECT count(*) FROM session") == [(1,)]
    desks.clock.advance(1)
    await housekeeping.round()
    assert desks.rows("SELECT count(*) FROM session") == [(0,)]


async def test_a_store_that_does_not_answer_ends_nothing(desks: Desks) -> None:
    session = await desks.signed_up()
    scopes = frozenset({Scope.TRADE_READ})
    key = await desks.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    await desks.keys.find(key.api_key)
    trigger = "BEGIN SELECT raise(FAIL, 'full'); END"
    desks.change(f"CREATE TRIGGER full_keys BEFORE UPDATE ON api_key {trigger}")
    desks.change(f"CREATE TRIGGER full_sessions BEFORE DELETE ON session {trigger}")
    desks.clock.advance(DAY_MS)
    housekeeping = housekeeping_of(desks)

    await housekeeping.round()

    desks.change("DROP TRIGGER full_keys")
    await housekeeping.round()
    assert desks.rows("SELECT last_used_at IS NOT NULL FROM api_key") == [(1,)]


async def test_the_last_uses_are_written_when_it_ends(desks: Desks) -> None:
    session = await desks.signed_up()
    scopes = frozenset({Scope.TRADE_READ})
    key = await desks.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    running = asyncio.create_task(housekeeping_of(desks).run())
    await asyncio.sleep(0)
    await desks.keys.find(key.api_key)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert desks.rows("SELECT last_used_at FROM api_key") == [(desks.clock.now(),)]
