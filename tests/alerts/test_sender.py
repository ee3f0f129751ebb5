"""Webhooks as a receiver gets them: signed, retried for a day, and then disabled."""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import pytest
from typing_extensions import override

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.secrets import AccountSecrets
from mintscope.alerts.alert import Alert, AlertRule, Firing, FiringId, FiringKind, NewFiring
from mintscope.alerts.alerts import AlertBounds, Alerts
from mintscope.alerts.conditions import Direction, Field, SignalKind
from mintscope.alerts.deliveries import (
    FAILING_AT_ONCE,
    KEEP_MS,
    LEASE_MS,
    OF_EACH_AT_ONCE,
    TAKEN_IN_AT_ONCE,
    WAITING_MAX,
    Deliveries,
)
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.alerts.webhooks import NotAccepted, Receivers, WebhookPost, WebhookSender
from mintscope.kit.audit import UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.sql.database import Database
from mintscope.kit.time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from mintscope.solana.blocks import WSOL
from support.oracles.standard_webhooks import verified
from support.scenes.account_stores import ENGINES, QUEUES
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

URL: Final = "https://example.org/hook"


@dataclass(kw_only=True, eq=False)
class Receiver(WebhookPost):
    """Replaces the sending of webhooks: *answers* returns the outcome of each attempt."""

    timeout_s: float = 1.0
    answers: Callable[[], NotAccepted | None] = lambda: None
    got: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)

    @override
    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        self.got.append((url, headers, body))
        answer = self.answers()
        if answer is not None:
            raise answer


@dataclass
class Scene:
    store: AccountStore
    clock: ManualClock
    signals: Alerts
    receiver: Receiver
    user_id: UserId
    signal: Alert
    queue: SqlWebhookQueue
    receivers: Receivers

    def sender(
        self, receiver: Receiver | None = None, waiting_max: int = WAITING_MAX
    ) -> WebhookSender:
        deliveries = Deliveries(
            store=self.store,
            queue=self.queue,
            secrets=self.signals.secrets,
            clock=self.clock,
            retry_ms_max=DAY_MS,
            waiting_max=waiting_max,
        )
        return WebhookSender(
            deliveries=deliveries,
            post=receiver or self.receiver,
            receivers=self.receivers,
            clock=self.clock,
        )

    async def fire(self, signal: Alert | None = None, count: int = 1) -> None:
        now = self.clock.now()
        firing = NewFiring(
            signal_id=(signal or self.signal).signal_id,
            kind=FiringKind.FIRED,
            seq=7,
            slot=Slot(9),
            time=UnixS(now // 1000 - 1),
            value=10.5,
            direction=Direction.UP,
            reference=10.0,
            fired_at=now,
        )
        await self.store.transact(lambda rows: rows.firings.insert_many([(firing, now)] * count))

    async def firings(self) -> list[Firing]:
        found = await self.signals.firings(self.user_id, self.signal.signal_id, None, 99)
        assert found is not None
        return [*found]

    async def emails(self) -> list[EmailKind]:
        return [each.kind for each in await self.store.read(lambda rows: rows.emails.newest(9))]


@pytest.fixture(params=ENGINES)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with ENGINES[request.param](tmp_path) as store, QUEUES[request.param](tmp_path) as queue:
        clock = ManualClock(NOW)
        signals = Alerts(
            store=store,
            queue=queue,
            secrets=AccountSecrets.derive(PEPPER),
            clock=clock,
            entropy=Random(1).randbytes,
            bounds=AlertBounds(per_user_max=200),
        )
        new = NewUser(
            kind=UserKind.AGENT,
            username="a",
            email=EmailAddress("alice@example.org"),
            verified_at=NOW,
            created_at=NOW,
        )
        user_id = await store.transact(lambda rows: rows.users.insert(new))
        asked = AlertRule(
            name="up",
            mint=Mint(WSOL),
            field=Field("price.usd"),
            kind=SignalKind.ABOVE,
            level=10.0,
            webhook_url=URL,
        )
        made = await signals.make(user_id, asked)
        assert isinstance(made, Alert)
        receivers = Receivers(MemoryLimits(clock), clock, per_minute=1_000)
        yield Scene(store, clock, signals, Receiver(), user_id, made, queue, receivers)


async def send(sender: WebhookSender) -> int:
    """Send due webhooks; return their number."""
    count = await sender.take()
    await sender.settle()
    return count


async def test_a_webhook_is_signed_and_sent_once(scene: Scene) -> None:
    await scene.fire()
    sender = scene.sender()
    assert [await send(sender), await send(sender)] == [1, 0]
    ((url, headers, body),) = scene.receiver.got
    assert url == URL
    reported = verified(scene.signals.secret(scene.signal), headers, body, now_s=NOW // 1000)
    (firing,) = await scene.firings()
    assert headers["webhook-id"] == f"msg_{firing.firing_id}"
    assert reported["type"] == "signal.fired"
    assert reported["data"] == {
        "signalId": scene.signal.signal_id,
        "eventId": firing.firing_id,
        "name": "up",
        "mint": WSOL,
        "field": "price.usd",
        "kind": "above",
        "value": 10.5,
        "comparedWith": None,
        "direction": "up",
        "reference": 10.0,
        "slot": 9,
        "time": NOW // 1000 - 1,
        "message": "",
    }
    assert (firing.attempts, firing.delivered_at, firing.reason) == (1, NOW, None)
    with pytest.raises(AssertionError):
        verified("whsec_" + base64.b64encode(bytes(32)).decode(), headers, body, now_s=NOW // 1000)


async def test_a_failing_webhook_is_retried_for_a_day_and_then_disabled(scene: Scene) -> None:
    scene.receiver.answers = lambda: NotAccepted("expected a status of 200 to 299; was 500")
    await scene.fire()
    sender, sent_at = scene.sender(), []
    while scene.clock.now() < NOW + 2 * DAY_MS:
        before = len(scene.receiver.got)
        await send(sender)
        sent_at += [scene.clock.now() - NOW] * (len(scene.receiver.got) - before)
        waiting = [each for each in await scene.firings() if each.given_up_at is None]
        due = min((each.due_at or NOW for each in waiting), default=NOW + 2 * DAY_MS)
        scene.clock.advance(max(1, due - scene.clock.now()))
    assert sent_at[:4] == [0, 10 * SECOND_MS, 30 * SECOND_MS, 70 * SECOND_MS]
    assert sent_at[-1] == DAY_MS
    assert max(b - a for a, b in pairwise(sent_at)) <= 2 * HOUR_MS
    assert 15 <= len(sent_at) <= 40
    names = {headers["webhook-id"] for _, headers, _ in scene.receiver.got}
    assert len(names) == 1
    assert len({body for _, _, body in scene.receiver.got}) == 1
    (firing,) = await scene.firings()
    assert firing.given_up_at == NOW + DAY_MS
    assert firing.reason == "expected a status of 200 to 299; was 500"
    kept = await scene.signals.find(scene.user_id, scene.signal.signal_id)
    assert kept is not None
    assert kept.webhook_failed_at == NOW + DAY_MS
    assert await scene.emails() == [EmailKind.WEBHOOK_DISABLED]


async def test_a_failing_webhook_is_disabled_after_a_day_even_if_its_queue_is_full(
    scene: Scene,
) -> None:
    scene.receiver.answers = lambda: NotAccepted("no")
    sender, number = scene.sender(waiting_max=2), scene.signal.signal_id
    while scene.clock.now() <= NOW + DAY_MS:
        await scene.fire()
        await send(sender)
        scene.clock.advance(HOUR_MS)
    reasons = Counter(each.reason for each in await scene.firings())
    assert reasons == {"no": 1, "its webhook was disabled": 1, "2 others waited": 23}
    kept = await scene.signals.find(scene.user_id, number)
    assert kept is not None
    assert kept.webhook_failed_at == NOW + DAY_MS
    assert await scene.emails() == [EmailKind.WEBHOOK_DISABLED]


async def test_a_disabled_webhook_is_not_sent_until_it_is_enabled(scene: Scene) -> None:
    scene.receiver.answers = lambda: NotAccepted("gone", is_gone=True)
    await scene.fire()
    await scene.fire()
    sender = scene.sender()
    await send(sender)
    await send(sender)
    assert all(each.given_up_at == NOW for each in await scene.firings())
    assert await scene.emails() == [EmailKind.WEBHOOK_DISABLED]
    for is_active in (False, True):
        changed = await scene.signals.change(
            scene.user_id,
            scene.signal.signal_id,
            lambda asked, now=is_active: replace(asked, is_active=now),  # type: ignore[misc]
        )
        assert isinstance(changed, Alert)
    kept = await scene.signals.find(scene.user_id, scene.signal.signal_id)
    assert kept is not None
    assert kept.webhook_failed_at is None
    scene.receiver.answers = lambda: None
    await scene.fire()
    assert await send(sender) == 1
    assert (await scene.firings())[0].delivered_at == NOW


async def test_a_webhook_is_delivered_at_a_later_attempt(scene: Scene) -> None:
    outcomes: list[NotAccepted | None] = [NotAccepted("no answer: ConnectError"), None]
    scene.receiver.answers = lambda: outcomes.pop(0)
    await scene.fire()
    sender = scene.sender()
    await send(sender)
    assert (await scene.firings())[0].reason == "no answer: ConnectError"
    scene.clock.advance(10 * SECOND_MS)
    await send(sender)
    (firing,) = await scene.firings()
    assert (firing.attempts, firing.reason) == (2, None)
    assert firing.delivered_at == scene.clock.now()
    for _, headers, body in scene.receiver.got:
        verified(scene.signals.secret(scene.signal), headers, body, now_s=NOW // 1000)


async def test_both_secrets_sign_for_a_day_after_a_renewal(scene: Scene) -> None:
    old = scene.signals.secret(scene.signal)
    one = (scene.user_id, scene.signal.signal_id, "the same Idempotency-Key")
    renewed = await scene.signals.renew_secret(*one)
    assert isinstance(renewed, Alert)
    assert await scene.signals.renew_secret(*one) == renewed
    new = scene.signals.secret(renewed)
    await scene.fire()
    await send(scene.sender())
    _, headers, body = scene.receiver.got[-1]
    for secret in (old, new):
        verified(secret, headers, body, now_s=NOW // 1000)
    scene.clock.advance(DAY_MS)
    await scene.fire()
    await send(scene.sender())
    _, headers, body = scene.receiver.got[-1]
    now_s = scene.clock.now() // 1000
    verified(new, headers, body, now_s=now_s)
    with pytest.raises(AssertionError):
        verified(old, headers, body, now_s=now_s)


async def test_a_webhook_is_sent_again_with_the_same_id_if_its_process_dies(scene: Scene) -> None:
    class Death(BaseException):
        pass

    def die() -> NotAccepted | None:
        raise Death

    await scene.fire()
    dying = Receiver(answers=die)
    with pytest.raises(Death):
        await send(scene.sender(dying))
    assert await send(scene.sender()) == 0  # the dead process has its lease
    scene.clock.advance(LEASE_MS)
    assert await send(scene.sender()) == 1
    (_, first, _), (_, again, _) = *dying.got, *scene.receiver.got
    assert first["webhook-id"] == again["webhook-id"]
    assert LEASE_MS == MINUTE_MS


@dataclass(kw_only=True, eq=False)
class Stuck(Receiver):
    """A receiver of webhooks that never answers requests to URL."""

    @override
    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        await super().send(url, headers, body)
        if url == URL:
            await asyncio.Event().wait()


async def test_a_receiver_that_never_answers_delays_only_its_own_webhooks(scene: Scene) -> None:
    """There are 100 other receivers, each with two webhooks at once; the clock does not move."""
    signals = [scene.signal]
    for number in range(100):
        asked = replace(scene.signal.rule, webhook_url=f"{URL}/{number}")
        made = await scene.signals.make(scene.user_id, asked)
        assert isinstance(made, Alert)
        signals.append(made)
    for _ in range(40):
        await scene.fire()  # the oldest webhooks go to the silent receiver
    for signal in signals[1:] * 2:
        await scene.fire(signal)
    stuck = Stuck()
    sender = scene.sender(stuck)
    task = asyncio.create_task(sender.run())
    while (await scene.queue.read(lambda queue: queue.length())).waiting != 40:
        assert not task.done()
        await asyncio.sleep(0.01)
    sent = Counter(url for url, _, _ in stuck.got)
    assert sent[URL] == OF_EACH_AT_ONCE
    assert {count for url, count in sent.items() if url != URL} == {2}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    scene.clock.advance(LEASE_MS)
    assert await send(scene.sender()) == OF_EACH_AT_ONCE


async def test_a_webhook_in_progress_is_not_sent_twice_after_its_lease_ends(scene: Scene) -> None:
    await scene.fire()
    stuck = Stuck()
    sender = scene.sender(stuck)
    assert await sender.take() == 1
    await asyncio.sleep(0)
    scene.clock.advance(LEASE_MS + 1)  # its lease is over
    assert await sender.take() == 0
    assert len(stuck.got) == 1


async def test_retries_of_failing_webhooks_take_a_limited_number_of_places(scene: Scene) -> None:
    signals = [scene.signal]
    for _ in range(FAILING_AT_ONCE):
        made = await scene.signals.make(scene.user_id, scene.signal.rule)
        assert isinstance(made, Alert)
        signals.append(made)
    for signal in signals:
        await scene.fire(signal)
    sender = scene.sender(Receiver(answers=lambda: NotAccepted("no")))
    assert await send(sender) == len(signals)  # and all of them count as failing
    scene.clock.advance(10 * SECOND_MS)
    stuck = Stuck()
    sender = scene.sender(stuck)
    assert await sender.take() == FAILING_AT_ONCE
    assert await sender.take() == 0


async def test_webhooks_of_a_deleted_alert_are_not_sent(scene: Scene) -> None:
    await scene.fire()
    await scene.signals.delete(scene.user_id, scene.signal.signal_id)
    assert await send(scene.sender()) == 0
    assert scene.receiver.got == []


async def test_a_waiting_webhook_is_given_up_if_its_address_is_removed(scene: Scene) -> None:
    await scene.fire()
    await scene.signals.change(
        scene.user_id, scene.signal.signal_id, lambda asked: replace(asked, webhook_url=None)
    )
    await send(scene.sender())
    (firing,) = await scene.firings()
    assert (firing.given_up_at, firing.reason) == (NOW, "the alert no longer has a webhook")
    assert scene.receiver.got == []


async def test_an_alert_with_failing_webhooks_makes_one_attempt_at_a_time(scene: Scene) -> None:
    scene.receiver.answers = lambda: NotAccepted("no answer: ConnectError", is_silent=True)
    sender, attempts = scene.sender(), []
    for minute in range(60):
        for _ in range(2 if minute == 0 else 1):
            await scene.fire()
        attempts.append(await send(sender))
        scene.clock.advance(MINUTE_MS)
    assert attempts[0] == 2
    assert sum(attempts) <= 2 + 8, "later and later, however much fires"
    assert sum(1 for each in await scene.firings() if each.attempts) == 2
    scene.receiver.answers = lambda: None
    scene.clock.advance(2 * HOUR_MS)
    while await send(sender):
        pass
    assert {each.delivered_at is not None for each in await scene.firings()} == {True}


async def test_webhooks_to_a_host_are_limited_per_minute_over_all_accounts(scene: Scene) -> None:
    scene.receivers = Receivers(MemoryLimits(scene.clock), scene.clock, per_minute=10)
    signals = [scene.signal]
    for number in range(5):
        new = NewUser(
            kind=UserKind.AGENT,
            username=f"b{number}",
            email=EmailAddress(f"b{number}@example.org"),
            created_at=NOW,
        )
        other = await scene.store.transact(lambda rows, new=new: rows.users.insert(new))  # type: ignore[misc]
        made = await scene.signals.make(other, scene.signal.rule)
        assert isinstance(made, Alert)
        signals.append(made)
    for signal in signals:
        for _ in range(8):
            await scene.fire(signal)
    sender, got = scene.sender(), []
    for _ in range(8):
        before = len(scene.receiver.got)
        for _ in range(3):
            await send(sender)
        got.append(len(scene.receiver.got) - before)
        scene.clock.advance(MINUTE_MS)
    assert max(got) == 10
    assert sum(got) == 6 * 8
    assert {each.attempts for each in await scene.firings()} == {1}, "what waits was not tried"


async def test_an_account_gets_half_of_the_attempts_at_a_host(scene: Scene) -> None:
    scene.receivers = Receivers(MemoryLimits(scene.clock), scene.clock, per_minute=10)
    for _ in range(8):
        await scene.fire()
    sender = scene.sender()
    for _ in range(3):
        await send(sender)
    assert len(scene.receiver.got) == 5


async def test_a_silent_host_gets_one_attempt_after_its_pause(scene: Scene) -> None:
    scene.receiver.answers = lambda: NotAccepted("no answer: ConnectError", is_silent=True)
    for _ in range(20):
        made = await scene.signals.make(scene.user_id, scene.signal.rule)
        assert isinstance(made, Alert)
        await scene.fire(made)
    sender, before = scene.sender(), 0
    await send(sender)
    before = len(scene.receiver.got)
    scene.clock.advance(MINUTE_MS)
    await send(sender)
    assert len(scene.receiver.got) - before == 1, "one finds out whether it is back"


async def test_firings_older_than_a_day_are_given_up_and_newer_firings_are_sent(
    scene: Scene,
) -> None:
    await scene.fire()
    scene.clock.advance(DAY_MS + 1)
    await scene.fire()
    assert await send(scene.sender()) == 1
    new, old = await scene.firings()
    assert new.delivered_at == scene.clock.now()
    assert (old.given_up_at, old.reason) == (scene.clock.now(), "it was not sent in time")


async def test_firings_that_an_older_version_delivered_or_gave_up_are_not_sent(
    scene: Scene,
) -> None:
    for _ in range(4):
        await scene.fire()

    def note(rows: AccountRows) -> None:
        database: Database = vars(rows.firings)["_db"]
        database.execute("UPDATE signal_firing SET delivered_at = ? WHERE id = 3", (NOW,))
        database.execute("UPDATE signal_firing SET given_up_at = ? WHERE id = 1", (NOW,))
        database.execute("UPDATE signal_firing SET attempts = 5 WHERE id = 2")

    await scene.store.transact(note)
    assert await send(scene.sender()) == 2
    names = {headers["webhook-id"] for _, headers, _ in scene.receiver.got}
    assert names == {"msg_2", "msg_4"}
    reported = {each.firing_id: (each.attempts, each.given_up_at) for each in await scene.firings()}
    assert reported == {1: (0, NOW), 2: (6, None), 3: (0, None), 4: (1, None)}


async def test_a_firing_that_an_older_process_delivered_meanwhile_is_not_sent(scene: Scene) -> None:
    """During an upgrade of several processes, two versions run together for a while."""
    await scene.fire()
    sender = scene.sender()
    await sender.deliveries.take_in()

    def note(rows: AccountRows) -> None:
        database: Database = vars(rows.firings)["_db"]
        database.execute("UPDATE signal_firing SET delivered_at = ?, attempts = 1", (NOW + 1,))

    await scene.store.transact(note)
    assert await send(sender) == 0
    (firing,) = await scene.firings()
    assert (firing.delivered_at, firing.attempts) == (NOW + 1, 1)
    assert (await scene.queue.read(lambda queue: queue.length())).waiting == 0


async def test_old_outcomes_of_webhooks_are_deleted(scene: Scene) -> None:
    await scene.fire()
    await send(scene.sender())
    (firing,) = await scene.firings()
    scene.clock.advance(KEEP_MS + 1)
    deliveries = scene.sender().deliveries
    await deliveries.sweep()
    assert await scene.queue.read(lambda queue: queue.outcomes([firing.firing_id])) == {}


async def test_the_webhook_of_a_deleted_firing_is_dropped(scene: Scene) -> None:
    sender = scene.sender()
    scene.receiver.answers = lambda: NotAccepted("no")
    await scene.fire()
    await send(sender)
    await scene.store.transact(lambda rows: rows.firings.purge(UnixMs(NOW + 1), 9))
    scene.clock.advance(MINUTE_MS)
    assert await send(sender) == 0
    assert (await scene.queue.read(lambda queue: queue.length())).waiting == 0


async def test_waiting_webhooks_are_not_sent_after_their_account_was_taken_back(
    scene: Scene,
) -> None:
    """They are sent neither to the URL of the thief nor to a new URL of the owner."""
    sender, number = scene.sender(), scene.signal.signal_id
    for _ in range(3):
        await scene.fire()
    scene.receiver.answers = lambda: NotAccepted("no")
    await send(sender)  # all fail, and wait for the next attempt
    await scene.fire()  # the queue has not taken in this firing
    before = len(scene.receiver.got)
    scene.clock.advance(5 * SECOND_MS)
    ended_at = scene.clock.now()
    await scene.store.transact(
        lambda rows: rows.firings.give_up(number, ended_at, "the account was taken back")
    )
    assert {each.given_up_at for each in await scene.firings()} == {ended_at}
    assert {each.reason for each in await scene.firings()} == {"the account was taken back"}
    await scene.signals.change(
        scene.user_id, number, lambda asked: replace(asked, webhook_url="https://owner.example/")
    )
    scene.receiver.answers = lambda: None
    for _ in range(9):
        scene.clock.advance(MINUTE_MS)
        assert await send(sender) == 0
    assert len(scene.receiver.got) == before
    assert (await scene.queue.read(lambda queue: queue.length())).waiting == 0
    assert {each.reason for each in await scene.firings()} == {"the account was taken back"}
    await scene.fire()
    assert await send(sender) == 1, "what fires later is sent to the owner"
    assert scene.receiver.got[-1][0] == "https://owner.example/"


async def test_the_queue_keeps_nothing_of_a_deleted_alert(scene: Scene) -> None:
    other = await scene.signals.make(scene.user_id, scene.signal.rule)
    assert isinstance(other, Alert)
    await scene.fire()
    await scene.fire(other)
    sender = scene.sender()
    await send(sender)
    (firing,) = await scene.firings()
    await scene.signals.delete(scene.user_id, other.signal_id)
    await sender.deliveries.sweep()
    numbers = [firing.firing_id, FiringId(firing.firing_id + 1)]
    assert list(await scene.queue.read(lambda queue: queue.outcomes(numbers))) == numbers[:1]
    assert list(await scene.queue.read(lambda queue: queue.signals())) == [scene.signal.signal_id]


async def test_all_new_firings_are_taken_in_at_once_beyond_one_batch(scene: Scene) -> None:
    count = 2 * TAKEN_IN_AT_ONCE + 1
    await scene.fire(count=count)
    deliveries = scene.sender(waiting_max=count).deliveries
    assert await deliveries.take_in() == 0
    assert (await scene.queue.read(lambda queue: queue.length())).waiting == count
