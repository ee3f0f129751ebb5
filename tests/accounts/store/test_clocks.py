"""Leases of machines whose clocks differ by minutes follow the clock of the database."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Final

import pytest
from typing_extensions import override

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.mail.email import Draft, EmailId, EmailKind
from mintscope.accounts.mail.outbox import Outbox
from mintscope.accounts.rows import AccountStore
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.store import AccountConnections
from mintscope.alerts.alert import Alert, AlertRule
from mintscope.alerts.alerts import Alerts, AlertWriter
from mintscope.alerts.conditions import Field, SignalKind
from mintscope.alerts.deliveries import Attempt, Deliveries, DeliveryBatch, Ended
from mintscope.alerts.emails import EmailBounds
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.sql.database import AccessAtOnce
from mintscope.kit.sql.postgres import PostgresDatabase, WriteLock
from mintscope.kit.time import DAY_MS, MINUTE_MS, SECOND_MS
from mintscope.solana.blocks import WSOL
from support.scenes.postgres import dsn_in
from support.scenes.stores import PEPPER

HERE: Final = SystemClock()
OFF_MS: Final = 7 * MINUTE_MS
PATIENCE_MS: Final = 30 * SECOND_MS  # the longest that a step of a test takes
NEAR_MS: Final = (
    2 * SECOND_MS
)  # the error of a clock is known only as exactly as the database is fast
ALICE: Final = EmailAddress("alice@example.org")


@dataclass
class OffClock(SystemClock):
    """A clock that is wrong by *off_ms*."""

    off_ms: int

    @override
    def now(self) -> UnixMs:
        return UnixMs(super().now() + self.off_ms)


@dataclass
class Machine:
    store: AccountStore
    queue: SqlWebhookQueue
    clock: OffClock

    async def email(self) -> EmailId:
        at = self.clock.now()
        return await self.store.transact(
            lambda rows: rows.emails.insert(EmailKind.NEW_KEY, ALICE, {}, None, at)
        )

    async def leased_emails(self) -> Sequence[Draft]:
        """Lease e-mails at a time NEAR_MS later, when new e-mails are surely due; return them."""
        return await Outbox(self.store).lease(UnixMs(self.clock.now() + NEAR_MS), limit=9)

    def signals(self) -> Alerts:
        secrets = AccountSecrets.derive(PEPPER)
        return Alerts(
            store=self.store,
            queue=self.queue,
            secrets=secrets,
            clock=self.clock,
            entropy=Random(1).randbytes,
        )

    def deliveries(self) -> Deliveries:
        """Return deliveries of webhooks whose clock is NEAR_MS ahead: new webhooks are due."""
        return Deliveries(
            store=self.store,
            queue=self.queue,
            secrets=AccountSecrets.derive(PEPPER),
            clock=OffClock(self.clock.off_ms + NEAR_MS),
            retry_ms_max=DAY_MS,
        )

    def writer(self) -> AlertWriter:
        holder = str(self.clock.off_ms).encode()
        return AlertWriter(
            store=self.store,
            clock=self.clock,
            holder=holder,
            bounds=EmailBounds(day_max=9),
            lease_ms=MINUTE_MS,
        )


@pytest.fixture
async def machines(tmp_path: Path) -> AsyncIterator[list[Machine]]:
    """Yield three machines with one database; only the clock of the first is right."""
    dsn, machines = dsn_in(tmp_path), []
    async with AsyncExitStack() as stack:
        for off_ms in (0, OFF_MS, -OFF_MS):
            clock = OffClock(off_ms)
            reading = AccessAtOnce(PostgresDatabase(dsn, now_ms=clock.now))
            connections = AccountConnections(PostgresDatabase(dsn, now_ms=clock.now), reading)
            stack.push_async_callback(connections.close)
            writing = PostgresDatabase(dsn, WriteLock.WEBHOOKS, now_ms=clock.now)
            reading = AccessAtOnce(PostgresDatabase(dsn, now_ms=clock.now))
            queue = SqlWebhookQueue(AccountConnections(writing, reading))
            stack.push_async_callback(queue.close)
            machines.append(Machine(SqlAccountStore(connections), queue, clock))
        yield machines


async def made(machine: Machine) -> Alert:
    at = machine.clock.now()
    new = NewUser(kind=UserKind.AGENT, username="a", email=ALICE, verified_at=at, created_at=at)
    user_id = await machine.store.transact(lambda rows: rows.users.insert(new))
    asked = AlertRule(
        name="up",
        mint=Mint(WSOL),
        field=Field("price.usd"),
        kind=SignalKind.ABOVE,
        webhook_url="https://example.org/hook",
    )
    signal = await machine.signals().make(user_id, asked)
    assert isinstance(signal, Alert)
    return signal


async def test_each_webhook_is_leased_once_and_without_delay(machines: list[Machine]) -> None:
    signal = await made(machines[0])
    for machine in machines:
        for takers in permutations(machines):
            tested = await machine.signals().test(signal.user_id, signal.signal_id)
            assert tested is not None
            for taker in takers:
                await taker.deliveries().take_in()
            first: list[DeliveryBatch] = []
            while not first:  # a busy machine may know the error of its clock less exactly
                first = list(await takers[0].deliveries().lease([]))
            others = [await taker.deliveries().lease([]) for taker in takers[1:]]
            assert [len(turns) for turns in (first, *others)] == [1, 0, 0]
            (webhook,) = first[0].webhooks
            sent_at_ms = int(webhook.headers["webhook-timestamp"]) * SECOND_MS
            assert -PATIENCE_MS < sent_at_ms - HERE.now() <= 2 * NEAR_MS
            ended = Ended(first[0], [Attempt(tested)])
            assert await takers[0].deliveries().note([ended]) == []


async def test_a_webhook_that_failed_is_due_again_in_ten_seconds(machines: list[Machine]) -> None:
    signal = await made(machines[0])
    for machine in machines:
        tested = await machine.signals().test(signal.user_id, signal.signal_id)
        assert tested is not None
        await machine.deliveries().take_in()
        batch = DeliveryBatch(signal.signal_id, signal.user_id, 0, [])
        await machine.deliveries().note([Ended(batch, [Attempt(tested, "no")])])
        kept = await machine.signals().firings(signal.user_id, signal.signal_id, None, 1)
        assert kept is not None
        assert kept[0].due_at is not None
        left_ms = kept[0].due_at - HERE.now()
        assert 10 * SECOND_MS - PATIENCE_MS < left_ms <= 10 * SECOND_MS + 2 * NEAR_MS


async def test_each_email_is_leased_once_and_without_delay(machines: list[Machine]) -> None:
    for machine in machines:
        for takers in permutations(machines):
            email_id = await machine.email()
            leased = [await taker.leased_emails() for taker in takers]
            assert [[draft.email_id for draft in each] for each in leased] == [[email_id], [], []]
            await Outbox(takers[0].store).sent(email_id, takers[0].clock.now())


async def test_one_machine_holds_the_lease_of_alerts_until_it_leaves(
    machines: list[Machine],
) -> None:
    for order in permutations(machines):
        writers = [machine.writer() for machine in order]
        standing = await writers[0].take()
        assert standing is not None
        left_ms = standing.held_until - order[0].clock.now()
        assert MINUTE_MS - PATIENCE_MS < left_ms <= MINUTE_MS + NEAR_MS
        assert [await writer.take() for writer in writers[1:]] == [None, None]
        await writers[0].leave()
