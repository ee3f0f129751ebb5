"""Webhooks as a receiver sees them: signed, tried again for a day, disabled then."""

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

from mintscope.base.clock import ManualClock
from mintscope.base.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.base.solana import WSOL
from mintscope.base.time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.signals.deliveries import (
    FAILING_AT_ONCE,
    LEASE_MS,
    OF_EACH_AT_ONCE,
    Deliveries,
)
from mintscope.core.accounts.signals.signal import (
    Firing,
    FiringKind,
    NewFiring,
    Signal,
    SignalRule,
)
from mintscope.core.accounts.signals.signals import SignalBounds, Signals
from mintscope.core.accounts.store import AccountStore
from mintscope.core.accounts.user import NewUser, UserId, UserKind
from mintscope.core.market.signals.fields import Field
from mintscope.core.market.signals.rule import Direction, SignalKind
from mintscope.edges.webhooks.post import NotAccepted, WebhookPost
from mintscope.edges.webhooks.sender import WebhookSender
from support.oracles.standard_webhooks import verified
from support.scenes.account_stores import ENGINES
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

URL: Final = "https://example.org/hook"


@dataclass(kw_only=True, eq=False)
class Receiver(WebhookPost):
    """Receives instead of the network; *answers* says what each attempt ends with."""

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
    signals: Signals
    receiver: Receiver
    user_id: UserId
    signal: Signal

    def sender(self, receiver: Receiver | None = None) -> WebhookSender:
        deliveries = Deliveries(
            store=self.store,
            secrets=self.signals.secrets,
            clock=self.clock,
            retry_ms_max=DAY_MS,
        )
        return WebhookSender(
            deliveries=deliveries, post=receiver or self.receiver, clock=self.clock
        )

    async def fire(self, signal: Signal | None = None) -> None:
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
        await self.store.transact(lambda rows: rows.firings.insert(firing, now))

    async def firings(self) -> list[Firing]:
        found = await self.signals.firings(self.user_id, self.signal.signal_id, None, 99)
        assert found is not None
        return [*found]

    async def emails(self) -> list[EmailKind]:
        return [each.kind for each in await self.store.read(lambda rows: rows.outbox.newest(9))]


@pytest.fixture(params=ENGINES)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with ENGINES[request.param](tmp_path) as store:
        clock = ManualClock(NOW)
        signals = Signals(
            store=store,
            secrets=AccountSecrets.derive(PEPPER),
            clock=clock,
            entropy=Random(1).randbytes,
            bounds=SignalBounds(per_user_max=200),
        )
        new = NewUser(
            kind=UserKind.AGENT,
            username="a",
            email=EmailAddress("alice@example.org"),
            verified_at=NOW,
            created_at=NOW,
        )
        user_id = await store.transact(lambda rows: rows.users.insert(new))
        asked = SignalRule(
            name="up",
            mint=Mint(WSOL),
            field=Field("price.usd"),
            kind=SignalKind.ABOVE,
            level=10.0,
            webhook_url=URL,
        )
        made = await signals.make(user_id, asked)
        assert isinstance(made, Signal)
        yield Scene(store, clock, signals, Receiver(), user_id, made)


async def send(sender: WebhookSender) -> int:
    """Send what is due; return how many that were."""
    count = await sender.take()
    await sender.settle()
    return count


async def test_a_webhook_is_signed_and_sent_once(scene: Scene) -> None:
    await scene.fire()
    sender = scene.sender()
    assert [await send(sender), await send(sender)] == [1, 0]
    ((url, headers, body),) = scene.receiver.got
    assert url == URL
    told = verified(scene.signals.secret(scene.signal), headers, body, now_s=NOW // 1000)
    (firing,) = await scene.firings()
    assert headers["webhook-id"] == f"msg_{firing.firing_id}"
    assert told["type"] == "signal.fired"
    assert told["data"] == {
        "signalId": scene.signal.signal_id,
        "eventId": firing.firing_id,
        "name": "up",
        "mint": WSOL,
        "field": "price.usd",
        "kind": "above",
        "value": 10.5,
        "direction": "up",
        "reference": 10.0,
        "slot": 9,
        "time": NOW // 1000 - 1,
    }
    assert (firing.attempts, firing.delivered_at, firing.reason) == (1, NOW, None)
    with pytest.raises(AssertionError):
        verified("whsec_" + base64.b64encode(bytes(32)).decode(), headers, body, now_s=NOW // 1000)


async def test_it_is_tried_again_for_a_day_and_then_disabled(scene: Scene) -> None:
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


async def test_it_is_disabled_after_a_day_though_more_fires_than_can_wait(scene: Scene) -> None:
    scene.receiver.answers = lambda: NotAccepted("no")
    sender, number = scene.sender(), scene.signal.signal_id
    while scene.clock.now() <= NOW + DAY_MS:
        now = scene.clock.now()
        await scene.fire()
        await scene.store.transact(
            lambda rows, now=now: rows.webhooks.drop_oldest([number], 2, now, "dropped")  # type: ignore[misc]
        )
        await send(sender)
        scene.clock.advance(HOUR_MS)
    reasons = Counter(each.reason for each in await scene.firings())
    assert reasons == {"no": 2, "dropped": 23}
    kept = await scene.signals.find(scene.user_id, number)
    assert kept is not None
    assert kept.webhook_failed_at == NOW + DAY_MS
    assert await scene.emails() == [EmailKind.WEBHOOK_DISABLED]


async def test_when_it_is_disabled_nothing_more_is_sent_until_it_is_enabled(scene: Scene) -> None:
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
        assert isinstance(changed, Signal)
    kept = await scene.signals.find(scene.user_id, scene.signal.signal_id)
    assert kept is not None
    assert kept.webhook_failed_at is None
    scene.receiver.answers = lambda: None
    await scene.fire()
    assert await send(sender) == 1
    assert (await scene.firings())[0].delivered_at == NOW


async def test_it_is_accepted_at_a_later_attempt(scene: Scene) -> None:
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


async def test_for_a_day_both_secrets_sign(scene: Scene) -> None:
    old = scene.signals.secret(scene.signal)
    renewed = await scene.signals.renew_secret(scene.user_id, scene.signal.signal_id)
    assert renewed is not None
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


async def test_a_process_that_dies_after_it_has_sent_sends_again_under_the_same_name(
    scene: Scene,
) -> None:
    class Death(BaseException):
        pass

    def die() -> NotAccepted | None:
        raise Death

    await scene.fire()
    dying = Receiver(answers=die)
    with pytest.raises(Death):
        await send(scene.sender(dying))
    assert await send(scene.sender()) == 0  # it is leased
    scene.clock.advance(LEASE_MS)
    assert await send(scene.sender()) == 1
    (_, first, _), (_, again, _) = *dying.got, *scene.receiver.got
    assert first["webhook-id"] == again["webhook-id"]
    assert LEASE_MS == MINUTE_MS


@dataclass(kw_only=True, eq=False)
class Stuck(Receiver):
    """Never answers what is sent to URL."""

    @override
    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        await super().send(url, headers, body)
        if url == URL:
            await asyncio.Event().wait()


async def test_one_that_never_answers_delays_only_itself(scene: Scene) -> None:
    """Beside 100 others, all of which have two webhooks at once; no clock moves meanwhile."""
    signals = [scene.signal]
    for number in range(100):
        asked = replace(scene.signal.rule, webhook_url=f"{URL}/{number}")
        made = await scene.signals.make(scene.user_id, asked)
        assert isinstance(made, Signal)
        signals.append(made)
    for _ in range(40):
        await scene.fire()  # the oldest of all are those to the one that never answers
    for signal in signals[1:] * 2:
        await scene.fire(signal)
    stuck = Stuck()
    sender = scene.sender(stuck)
    task = asyncio.create_task(sender.run())
    while (await scene.store.read(lambda rows: rows.webhooks.queue())).waiting > 40:
        assert not task.done()
        await asyncio.sleep(0)
    sent = Counter(url for url, _, _ in stuck.got)
    assert sent[URL] == OF_EACH_AT_ONCE
    assert {count for url, count in sent.items() if url != URL} == {2}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    scene.clock.advance(LEASE_MS)
    assert await send(scene.sender()) == OF_EACH_AT_ONCE


async def test_what_is_still_being_sent_is_not_sent_beside_that(scene: Scene) -> None:
    await scene.fire()
    stuck = Stuck()
    sender = scene.sender(stuck)
    assert await sender.take() == 1
    await asyncio.sleep(0)
    scene.clock.advance(LEASE_MS + 1)  # its lease is over
    assert await sender.take() == 0
    assert len(stuck.got) == 1


async def test_those_that_fail_leave_places_to_others(scene: Scene) -> None:
    signals = [scene.signal]
    for _ in range(FAILING_AT_ONCE):
        made = await scene.signals.make(scene.user_id, scene.signal.rule)
        assert isinstance(made, Signal)
        signals.append(made)
    for signal in signals:
        await scene.fire(signal)
    sender = scene.sender(Receiver(answers=lambda: NotAccepted("no")))
    assert await send(sender) == len(signals)
    scene.clock.advance(10 * SECOND_MS)
    stuck = Stuck()
    sender = scene.sender(stuck)
    assert await sender.take() == FAILING_AT_ONCE
    assert await sender.take() == 0


async def test_what_was_deleted_is_not_sent(scene: Scene) -> None:
    await scene.fire()
    await scene.signals.delete(scene.user_id, scene.signal.signal_id)
    assert await send(scene.sender()) == 0
    assert scene.receiver.got == []


async def test_without_an_address_what_waits_is_given_up(scene: Scene) -> None:
    await scene.fire()
    await scene.signals.change(
        scene.user_id, scene.signal.signal_id, lambda asked: replace(asked, webhook_url=None)
    )
    await send(scene.sender())
    (firing,) = await scene.firings()
    assert (firing.given_up_at, firing.reason) == (NOW, "there is no webhook any more")
    assert scene.receiver.got == []


async def test_what_was_done_with_long_ago_is_forgotten_and_what_waits_is_not(scene: Scene) -> None:
    await scene.fire()
    await send(scene.sender())
    scene.receiver.answers = lambda: NotAccepted("no")
    await scene.fire()
    await send(scene.sender())
    later = UnixMs(NOW + DAY_MS)
    await scene.store.transact(lambda rows: rows.firings.purge(later))
    (firing,) = await scene.firings()
    assert firing.delivered_at is None
