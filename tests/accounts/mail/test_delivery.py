"""Delivery from a real outbox to a real SMTP server, until an e-mail arrives or is given up."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from prometheus_client import REGISTRY
from typing_extensions import override

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.delivery import Delivery, PageTransport, SmtpTransport, Transport
from mintscope.accounts.mail.email import EmailId, EmailKind
from mintscope.accounts.mail.outbox import GIVE_UP_MS, LEASE_MS, Outbox
from mintscope.accounts.mail.templates import compose
from mintscope.accounts.rows import AccountStore
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs
from support.fakes.mail_server import MailRoom, mail_room, mail_room_beside
from support.fakes.raw_server import raw_server
from support.processes.processes import start_process
from support.scenes.people_service import NOW, SECRETS
from support.scenes.stores import money_in

HOUR_MS = 3_600_000
ALICE = EmailAddress("alice@example.org")
FACTS = {"hint": "...12345678", "scopes": "trade:read"}


def count(outcome: str) -> float:
    return REGISTRY.get_sample_value("mintscope_letters_total", {"outcome": outcome}) or 0.0


@dataclass
class Station:
    """An outbox, its deliveries, and their clock, which only the tests advance."""

    store: AccountStore
    outbox: Outbox
    clock: ManualClock
    path: Path

    def delivery(self, post: Transport | None) -> Delivery:
        write = partial(compose, origin="https://example.org", secrets=SECRETS, name="mintscope")
        return Delivery(outbox=self.outbox, transport=post, compose=write, clock=self.clock)

    def to(self, room: MailRoom, **changes: Any) -> Delivery:
        return self.delivery(SmtpTransport(room.server(**changes), self.clock))

    async def write(self, recipient: EmailAddress = ALICE) -> EmailId:
        at = self.clock.now()
        kind = EmailKind.NEW_KEY
        return await self.store.transact(
            lambda rows: rows.emails.insert(kind, recipient, FACTS, None, at)
        )

    def email(self) -> tuple[int, Any, Any, Any]:
        """Return (attempts, sent_at, given_up_at, reason) of the only stored e-mail."""
        statement = "SELECT attempts, sent_at, given_up_at, reason FROM letter"
        db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        rows: list[Any] = db.execute(statement).fetchall()
        db.close()
        ((attempts, sent_at, given_up_at, reason),) = rows
        return attempts, sent_at, given_up_at, reason


@pytest.fixture
async def station(tmp_path: Path) -> AsyncIterator[Station]:
    clock = ManualClock(NOW)
    async with money_in(tmp_path, clock=clock) as money:
        store = money.accounts
        yield Station(store, Outbox(store), clock, tmp_path / MONEY_FILE)


async def test_an_email_is_sent_once(station: Station) -> None:
    await station.write()
    sent_before = count("sent")
    async with mail_room() as room:
        delivery = station.to(room)
        assert [await delivery.round() for _ in range(3)] == [1, 0, 0]

    (message,) = room.messages
    assert message["To"] == ALICE
    assert "svc_live_...12345678" in message.get_content()
    assert station.email() == (1, NOW, None, None)
    assert count("sent") == sent_before + 1
    assert REGISTRY.get_sample_value("mintscope_letters_waiting") == 0


async def test_every_email_goes_only_to_its_own_recipient(station: Station) -> None:
    readers = [EmailAddress(f"reader{number}@example.org") for number in range(9)]
    for reader in readers:
        await station.write(reader)
    async with mail_room() as room:
        delivery = station.to(room)
        while await delivery.round():
            pass

    assert sorted(room.recipients) == [[reader] for reader in readers]
    assert sorted(message["To"] for message in room.messages) == readers


@pytest.mark.storm
async def test_the_pauses_between_attempts_double_up_to_six_hours_until_giving_up(
    station: Station,
) -> None:
    await station.write()
    pauses_ms = []
    async with mail_room(rcpt="451 Later") as room:
        delivery = station.to(room)
        last_at = NOW
        given_up_at = None
        while given_up_at is None:
            assert station.clock.now() - NOW <= GIVE_UP_MS
            if await delivery.round():
                pauses_ms.append(station.clock.now() - last_at)
                last_at = station.clock.now()
                _, _, given_up_at, _ = station.email()
            station.clock.advance(60_000)

    assert pauses_ms[:6] == [0, *(60_000 * 2**times for times in range(5))]
    assert set(pauses_ms[10:-1]) == {6 * HOUR_MS}
    assert sum(pauses_ms) == GIVE_UP_MS
    assert room.raw == []


async def test_invalid_bytes_in_a_refusal_are_stored_as_question_marks(station: Station) -> None:
    await station.write()
    async with mail_room() as room, raw_server(b"554 \xff\xfe go away\r\n", says_first=True) as url:
        await station.to(room, port=int(url.rpartition(":")[2].rstrip("/"))).round()

    attempts, sent_at, given_up_at, reason = station.email()
    assert (attempts, sent_at, given_up_at) == (1, None, None)
    assert reason == "554 ?? go away"


async def test_a_deferred_email_is_sent_again_after_a_minute(station: Station) -> None:
    await station.write()
    async with mail_room(rcpt="451 Later") as room:
        delivery = station.to(room)
        await delivery.round()
        room.rcpt = "250 OK"
        assert await delivery.round() == 0  # a minute has not passed
        station.clock.advance(60_000)
        assert await delivery.round() == 1

    assert len(room.raw) == 1
    assert station.email() == (2, NOW + 60_000, None, None)


async def test_an_email_to_an_unknown_address_is_given_up_at_once(station: Station) -> None:
    await station.write()
    given_up_before = count("given_up")
    async with mail_room(rcpt="550 5.1.1 No such user") as room:
        await station.to(room).round()

    attempts, sent_at, given_up_at, reason = station.email()
    assert (attempts, sent_at, given_up_at) == (1, None, NOW)
    assert "No such user" in reason
    assert count("given_up") == given_up_before + 1
    assert await station.outbox.count_waiting() == 0


async def test_an_email_is_sent_later_if_the_server_is_down(station: Station) -> None:
    await station.write()
    async with mail_room() as gone:
        pass
    await station.to(gone).round()
    assert station.email()[1:3] == (None, None)
    station.clock.advance(60_000)
    async with mail_room() as room:
        await station.to(room).round()

    assert len(room.raw) == 1


async def test_an_email_that_cannot_be_composed_does_not_stop_others(station: Station) -> None:
    await station.write()
    await station.store.transact(  # this kind needs a link, and has none
        lambda rows: rows.emails.insert(EmailKind.VERIFY_EMAIL, ALICE, {}, None, NOW)
    )
    async with mail_room() as room:
        await station.to(room).round()

    assert len(room.raw) == 1
    assert await station.outbox.count_waiting() == 0


async def test_emails_that_are_shown_on_a_page_count_as_sent(station: Station) -> None:
    await station.write()
    await station.delivery(PageTransport()).round()

    assert station.email()[1] == NOW
    assert len(await station.outbox.recent(limit=10)) == 1


async def test_emails_wait_and_are_counted_without_a_transport(station: Station) -> None:
    await station.write()
    assert await station.delivery(None).round() == 0

    assert station.email() == (0, None, None, None)
    assert REGISTRY.get_sample_value("mintscope_letters_waiting") == 1


async def test_waiting_emails_are_counted_at_most_once_a_minute(station: Station) -> None:
    class Counted(Outbox):
        count = 0

        @override
        async def count_waiting(self) -> int:
            self.count += 1
            return await super().count_waiting()

    outbox = Counted(station.store)
    for post in [None, PageTransport()]:
        outbox.count = 0
        delivery = replace(station, outbox=outbox).delivery(post)
        for _ in range(600):  # five minutes, twice a second
            await delivery.round()
            station.clock.advance(500)
        assert outbox.count == 5


async def test_emails_are_given_up_after_three_days_without_a_transport(station: Station) -> None:
    await station.write()
    given_up_before = count("given_up")
    delivery = station.delivery(None)
    station.clock.advance(GIVE_UP_MS - 1)
    await delivery.round()
    assert station.email()[2] is None
    station.clock.advance(60_000)
    await delivery.round()

    assert station.email()[1:] == (None, station.clock.now(), "mail.delivery is none")
    assert count("given_up") == given_up_before + 1
    assert REGISTRY.get_sample_value("mintscope_letters_waiting") == 0


async def test_emails_beyond_the_hourly_limit_wait_for_the_next_hour(station: Station) -> None:
    for _ in range(11):
        await station.write()
    delivery = replace(station.delivery(PageTransport()), per_hour_max=6)
    tried = [await delivery.round() for _ in range(4)]
    assert tried == [4, 2, 0, 0]
    station.clock.advance(HOUR_MS)
    assert [await delivery.round() for _ in range(3)] == [4, 1, 0]


async def test_two_deliveries_send_no_email_twice(station: Station) -> None:
    for _ in range(20):
        await station.write()
    async with money_in(station.path.parent) as second, mail_room() as room:
        colleague = replace(station, outbox=Outbox(second.accounts))
        for _ in range(4):
            await asyncio.gather(station.to(room).round(), colleague.to(room).round())

    assert len({message["Message-ID"] for message in room.messages}) == len(room.raw) == 20


async def test_an_email_sent_but_not_recorded_is_sent_again_with_the_same_message_id(
    station: Station,
) -> None:
    class Forgetful(Outbox):
        @override
        async def sent(self, email_id: EmailId, now: UnixMs) -> None:
            del email_id, now
            raise ServiceUnavailable("the disk is full")

    await station.write()
    async with mail_room() as room:
        forgetful = replace(station, outbox=Forgetful(station.store))
        with pytest.raises(ServiceUnavailable):
            await forgetful.to(room).round()
        station.clock.advance(LEASE_MS)
        await station.to(room).round()

    first, second = room.messages
    assert first["Message-ID"] == second["Message-ID"]
    assert first.get_content() == second.get_content()
    assert station.email()[1] == NOW + LEASE_MS


def deliver(path: Path, port: int) -> None:
    """Deliver the e-mails of the file at *path* until the process is killed."""
    asyncio.run(_deliver(path, port))


async def _deliver(path: Path, port: int) -> None:
    clock = ManualClock(SystemClock().now())
    async with money_in(path.parent, clock=clock) as money:
        station = Station(money.accounts, Outbox(money.accounts), clock, path)
        await station.to(MailRoom(port=port)).run()


@pytest.mark.process
async def test_an_email_is_sent_again_if_the_process_is_killed_before_recording_it(
    station: Station,
) -> None:
    clock = SystemClock()
    at = clock.now()
    await station.store.transact(
        lambda rows: rows.emails.insert(EmailKind.NEW_KEY, ALICE, FACTS, None, at)
    )
    with mail_room_beside() as room:
        process = start_process(deliver, station.path, room.port)
        pid = process.pid
        assert pid is not None
        room.accepted = lambda: os.kill(pid, signal.SIGKILL)  # before the answer "250 OK"
        await asyncio.to_thread(process.join, 30)
        assert process.exitcode == -signal.SIGKILL
        assert station.email()[1:3] == (None, None)
        room.accepted = lambda: None
        station.clock.advance(clock.now() + LEASE_MS - NOW)
        assert await station.to(room).round() == 1

    first, second = room.messages
    assert first["Message-ID"] == second["Message-ID"]
    assert station.email()[1] is not None


async def test_a_running_delivery_sends_new_emails_by_itself(station: Station) -> None:
    is_there = asyncio.Event()
    async with mail_room(accepted=is_there.set) as room:
        running = asyncio.create_task(station.to(room).run())
        await station.write()
        async with asyncio.timeout(10):
            await is_there.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
