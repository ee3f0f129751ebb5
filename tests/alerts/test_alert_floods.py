"""A flood of crossings: limits hold, no alert silences another, and no firing is lost."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import apsw
import pytest
from typing_extensions import override
from watching import Scene, opened, swap, trade

from mintscope.accounts.mail.email import Draft, EmailKind
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.alerts.alert import (
    EmailState,
    Fires,
    Firing,
    FiringKind,
    Gathered,
    NewFiring,
    SignalId,
)
from mintscope.alerts.alerts import DUE_AT_ONCE, LEASE_MS, AlertBounds
from mintscope.alerts.conditions import Direction, SignalKind
from mintscope.alerts.emails import EmailBounds, tell_by_email
from mintscope.alerts.evaluation import FIRINGS_HOUR_MAX, LISTED_FACTOR
from mintscope.alerts.evaluator import TIDY_S, AlertEvaluator
from mintscope.alerts.messages import hour_limit
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.kit.time import HOUR_MS, MINUTE_MS
from support.scenes.account_stores import CountedAccounts
from support.scenes.service import NOW

CROSSINGS: Final = 600
AT_ONCE: Final = CROSSINGS // 60  # crossings in a minute, between two evaluations
AROUND_60: Final = 2  # crossings that are missing because one price is 60 instead of 9
FIRST_LOOKS: Final = 10  # swaps; more would put all firings of the hour into one e-mail
MANY: Final = 1_100  # firings; an e-mail once had only the first 1,000
HOUR_NOTE: Final = f"limit of {FIRINGS_HOUR_MAX} an hour reached"
KILLS: Final = (7, 90, 250)  # statements after which a process dies


class Flood:
    """An hour of trades around the level of an alert, evaluated by processes that die."""

    def __init__(self, scene: Scene, folder: Path, bounds: EmailBounds) -> None:
        self._scene = scene
        self._folder = folder
        self._bounds = bounds
        self._slot = 100
        self._began_s = NOW // 1_000
        self._left = 0
        self._file: CountedAccounts | None = None  # of the process that is to die
        self.deaths = 0

    async def pour(self) -> None:
        """Trade for an hour while alerts are evaluated; if a process dies, another continues."""
        kills, watcher = list(KILLS), self._scene.watcher(bounds=self._bounds)
        await watcher.round()
        for minute in range(60):
            if kills and minute % 15 == 5:
                watcher = self._dying(kills.pop())
            watcher = await self._minute(minute, watcher)
        self._scene.clock.advance(6 * MINUTE_MS)
        for _ in range(3):
            await watcher.round()
            self._scene.clock.advance(int(TIDY_S * 1_000))

    async def _minute(self, minute: int, watcher: AlertEvaluator) -> AlertEvaluator:
        for number in range(AT_ONCE):
            price = 60.0 if (minute, number) == (40, 3) else 11.0 - 2 * (number % 2)
            self._slot += 1
            self._scene.log.append(self._slot, self._began_s + 60 * minute, swap(price))
            if minute == 0 and number % FIRST_LOOKS == FIRST_LOOKS - 1:
                await watcher.round()
        self._scene.clock.advance(HOUR_MS // 62)
        try:
            await watcher.round()
        except (apsw.Error, ServiceUnavailable):
            assert self._file is not None
            await self._file.close()
            self._file = None
            self.deaths += 1
            self._scene.clock.advance(LEASE_MS + 1)
            watcher = self._scene.watcher(1, bounds=self._bounds)
            await watcher.round()
        return watcher

    def _dying(self, statements: int) -> AlertEvaluator:
        """Return the evaluator of a process that dies before its SQL statement *statements*."""
        self._left = statements

        def count(_statement: str) -> None:
            self._left -= 1
            if self._left <= 0:
                raise apsw.AbortError

        file = CountedAccounts(self._folder / MONEY_FILE, count)
        self._file = file
        self._scene.clock.advance(LEASE_MS + 1)
        return self._scene.watcher(0, SqlAccountStore(file), bounds=self._bounds)


async def flooded(scene: Scene, folder: Path, bounds: EmailBounds) -> dict[str, SignalId]:
    """Run a flood of trades on alerts of every kind; return the alerts by name."""
    make = partial(scene.make, SignalKind.CROSSES, by_email=True)
    alerts = {
        **{f"each {n}": await make(fires=Fires.EACH) for n in range(3)},
        "hourly": await make(fires=Fires.HOURLY),
        "once": await make(fires=Fires.ONCE),
        "important": await scene.make(level=50.0, by_email=True),
    }
    flood = Flood(scene, folder, bounds)
    await flood.pour()
    assert flood.deaths == len(KILLS)
    return alerts


async def written(scene: Scene, kind: EmailKind) -> Sequence[Draft]:
    emails = await scene.store.read(lambda rows: rows.emails.newest(9_999))
    return [each for each in emails if each.kind is kind]


def by_alert(emails: Sequence[Draft]) -> Counter[int]:
    return Counter(int(each.facts["signal"]) for each in emails)


def lines_of(emails: Sequence[Draft], alert: SignalId) -> int:
    """Return the number of firings of *alert* that *emails* list or summarize."""
    found = 0
    for each in emails:
        if int(each.facts["signal"]) == alert:
            lines = each.facts["lines"].splitlines()
            more = [line for line in lines if line.startswith("and ")]
            found += len(lines) - len(more)
            found += sum(int(line.split()[1].replace(",", "")) for line in more)
    return found


async def test_the_firings_of_a_flood_are_gathered_and_every_alert_is_delivered(
    tmp_path: Path,
) -> None:
    async with opened("sqlite", tmp_path) as scene:
        alerts = await flooded(scene, tmp_path, EmailBounds(pause_ms=5 * MINUTE_MS))
        emails = await written(scene, EmailKind.SIGNAL_FIRED)
        fired = {name: await scene.fired(alert) for name, alert in alerts.items()}
        sent = dict.fromkeys(alerts, 1) | {f"each {n}": FIRINGS_HOUR_MAX for n in range(3)}

        for name, alert in alerts.items():
            listed = sent[name] * (LISTED_FACTOR if name.startswith("each") else 1)
            rest = [email_of(each) for each in fired[name] if not is_reported(each)]
            assert len(fired[name]) == listed, name
            assert rest == [(EmailState.NOT_SENT, HOUR_NOTE)] * (listed - sent[name]), name
            assert lines_of(emails, alert) == sent[name], "each firing is in one e-mail"
        assert max(by_alert(emails).values()) <= 60 // 5 + 2
        assert not await written(scene, EmailKind.SIGNAL_LIMIT)
        limits = by_alert(await written(scene, EmailKind.SIGNAL_HOUR_LIMIT))
        assert limits == {alerts[f"each {n}"]: 1 for n in range(3)}
        owned = {each.signal_id: each for each in await scene.signals.of_user(scene.user_id)}
        for n in range(3):
            reached = hour_limit(owned[alerts[f"each {n}"]], FIRINGS_HOUR_MAX, UnixMs(NOW))
            assert reached is not None
            assert hour_limit(owned[alerts[f"each {n}"]], FIRINGS_HOUR_MAX, reached.until) is None
            assert reached.more == CROSSINGS - AROUND_60 - FIRINGS_HOUR_MAX, "each is counted"


@pytest.mark.parametrize(("of_alert", "of_account"), [(2, 99), (20, 8)])
async def test_one_email_announces_a_limit_and_each_firing_notes_its_reason(
    tmp_path: Path, of_alert: int, of_account: int
) -> None:
    async with opened("sqlite", tmp_path) as scene:
        bounds = EmailBounds(day_max=of_account, of_alert_max=of_alert, pause_ms=0)
        alerts = await flooded(scene, tmp_path, bounds)
        emails = await written(scene, EmailKind.SIGNAL_FIRED)
        limits = await written(scene, EmailKind.SIGNAL_LIMIT)
        fired = {name: await scene.fired(alert) for name, alert in alerts.items()}

        assert len(emails) <= of_account
        assert max(by_alert(emails).values()) <= of_alert
        for name in ("important", "once", "hourly"):
            assert states(fired[name]) == {EmailState.WRITTEN}, name
        refused = [each for events in fired.values() for each in events if not is_reported(each)]
        limit = min(of_alert, of_account)
        notes = {each.email and each.email.note for each in refused}
        assert notes == {f"limit of {limit} reached", HOUR_NOTE}
        assert await scene.signals.refused(scene.user_id) == len(refused)
        reported = Counter(each.facts["of"] for each in limits)
        by_name = {str(alerts[f"each {n}"]): 1 for n in range(3)}
        assert reported == (by_name if of_alert == limit else {"": 1})


async def test_waiting_firings_are_not_sent_after_a_pause_or_without_emails(tmp_path: Path) -> None:
    """An alert may be paused, or its e-mails turned off; its unsent firings count for no limit."""
    async with opened("sqlite", tmp_path) as scene:
        bounds = EmailBounds(pause_ms=5 * MINUTE_MS)
        make = partial(scene.make, SignalKind.CROSSES, by_email=True, fires=Fires.EACH)
        paused, turned_off, going = [await make() for _ in range(3)]
        watcher = scene.watcher(bounds=bounds)
        await watcher.round()
        for number, price in enumerate((9.0, 11.0, 9.0)):
            scene.log.append(101 + number, NOW // 1_000 + number, swap(price))
            await watcher.round()
        before = by_alert(await written(scene, EmailKind.SIGNAL_FIRED))
        change = partial(scene.signals.change, scene.user_id)
        await change(paused, lambda asked: replace(asked, is_active=False))
        await change(turned_off, lambda asked: replace(asked, by_email=False))
        scene.clock.advance(6 * MINUTE_MS)
        for _ in range(3):
            await watcher.round()
            scene.clock.advance(int(TIDY_S * 1_000))
        after = by_alert(await written(scene, EmailKind.SIGNAL_FIRED))

        assert before == {paused: 1, turned_off: 1, going: 1}
        assert after == {paused: 1, turned_off: 1, going: 2}
        notes = {
            alert: [each.email and each.email.note for each in await scene.fired(alert)]
            for alert in (paused, turned_off, going)
        }
        assert notes[paused] == [None, "the alert was paused"]
        assert notes[turned_off] == [None, "its e-mails were turned off"]
        assert notes[going] == [None, None]
        assert await scene.signals.refused(scene.user_id) == 0


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_all_waiting_firings_are_in_one_email(tmp_path: Path, engine: str) -> None:
    """This holds even for more than 1,000 firings; once a limit is reached, no firing waits."""
    async with opened(engine, tmp_path) as scene:
        alert = await scene.make(SignalKind.CROSSES, by_email=True, fires=Fires.EACH)
        bounds = EmailBounds(of_alert_max=1, pause_ms=0)
        left = {}
        for at in (NOW, NOW + MINUTE_MS):
            fire = partial(fire_many, alert, UnixMs(at), bounds)
            left[at] = await scene.store.transact(fire)
        (email,) = await written(scene, EmailKind.SIGNAL_FIRED)

        assert set(left.values()) == {None}
        assert lines_of([email], alert) == MANY
        assert email.facts["title"].endswith(f", {MANY:,} times")
        assert await scene.signals.refused(scene.user_id) == MANY
        assert len(await written(scene, EmailKind.SIGNAL_LIMIT)) == 1


T = TypeVar("T")


@dataclass
class CountedEmails(AccountStore):
    """A store that records the largest number of e-mails written in one transaction."""

    store: AccountStore
    most: int = 0

    @override
    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        def counted(rows: AccountRows) -> T:
            before = rows.emails.count_waiting()
            answer = work(rows)
            self.most = max(self.most, rows.emails.count_waiting() - before)
            return answer

        return await self.store.transact(counted)

    @override
    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.claim(work)

    @override
    async def read(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.read(work)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_alerts_that_fire_at_once_write_their_emails_in_parts_in_the_same_round(
    tmp_path: Path, engine: str
) -> None:
    async with opened(engine, tmp_path) as scene:
        scene.signals = replace(scene.signals, bounds=AlertBounds(per_user_max=999))
        alerts = [await scene.make(by_email=True) for _ in range(2 * DUE_AT_ONCE + 1)]
        store = CountedEmails(scene.store)
        watcher = scene.watcher(store=store, bounds=EmailBounds(day_max=999))
        await watcher.round()
        scene.log.append(101, NOW // 1_000, swap(11.0))
        await watcher.round()
        emails = by_alert(await written(scene, EmailKind.SIGNAL_FIRED))

        assert emails == dict.fromkeys(alerts, 1)
        assert store.most == DUE_AT_ONCE


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_an_alert_sends_at_most_thirty_firings_an_hour_and_lists_the_others(
    tmp_path: Path, engine: str
) -> None:
    """The hour of each alert begins with a firing, and continues if another process takes over."""
    async with opened(engine, tmp_path) as scene:
        bounds = EmailBounds(day_max=999, of_alert_max=999, pause_ms=0)
        make = partial(scene.make, webhook_url="https://example.org/", by_email=True)
        alerts = [await make() for _ in range(2)]
        watcher, began = scene.watcher(bounds=bounds), scene.clock.now()

        async def cross() -> None:
            for price in (11.0, 9.0):
                trade(scene.log, price)
                await watcher.round()

        await watcher.round()
        for number in range(60):
            if number == 15:
                scene.clock.advance(LEASE_MS + 1)
                watcher = scene.watcher(1, bounds=bounds)
            await cross()
        for at in (began + HOUR_MS - 1, began + HOUR_MS):
            scene.clock.advance(at - scene.clock.now())
            await cross()
        emails = await written(scene, EmailKind.SIGNAL_FIRED)

        for alert in alerts:
            fired = await scene.fired(alert)
            are_sent = [True] * 30 + [False] * 31 + [True]
            assert [each.given_up_at is None for each in fired] == are_sent, "webhooks"
            assert [is_reported(each) for each in fired] == are_sent
            assert lines_of(emails, alert) == 31


async def test_alerts_that_reach_the_hourly_limit_at_once_write_their_emails_in_parts(
    tmp_path: Path,
) -> None:
    async with opened("sqlite", tmp_path) as scene:
        scene.signals = replace(scene.signals, bounds=AlertBounds(per_user_max=999))
        make = partial(scene.make, SignalKind.CROSSES, by_email=True, fires=Fires.EACH)
        alerts = [await make() for _ in range(2 * DUE_AT_ONCE + 1)]
        store = CountedEmails(scene.store)
        watcher = scene.watcher(store=store, bounds=EmailBounds(day_max=999))
        await watcher.round()
        for number in range(FIRINGS_HOUR_MAX + 1):
            price = 9.0 if number % 2 else 11.0
            scene.log.append(101 + number, NOW // 1_000 + number, swap(price))
        await watcher.round()
        limits = by_alert(await written(scene, EmailKind.SIGNAL_HOUR_LIMIT))

        assert limits == dict.fromkeys(alerts, 1)
        assert store.most == DUE_AT_ONCE


def fire_many(
    alert: SignalId, at: UnixMs, bounds: EmailBounds, rows: AccountRows
) -> Gathered | None:
    """Fire *alert* MANY times in a transaction; return the firings that are in no e-mail yet."""
    signal = rows.signals.get(alert)
    assert signal is not None
    fired = [(firing_at(alert, at, number), None) for number in range(MANY)]
    rows.firings.insert_many(fired, by_email={alert})
    tell_by_email(rows, signal, at, bounds, {})
    return rows.firings.for_email(alert, 1)


def firing_at(alert: SignalId, at: int, number: int) -> NewFiring:
    return NewFiring(
        signal_id=alert,
        kind=FiringKind.FIRED,
        seq=number,
        slot=Slot(number),
        time=UnixS(at // 1_000),
        value=11.0,
        direction=Direction.UP,
        reference=10.0,
        fired_at=UnixMs(at),
    )


def states(firings: Sequence[Firing]) -> set[EmailState]:
    return {each.email.state for each in firings if each.email is not None}


def email_of(firing: Firing) -> tuple[EmailState, str | None]:
    assert firing.email is not None
    return firing.email.state, firing.email.note


def is_reported(firing: Firing) -> bool:
    return firing.email is not None and firing.email.state is EmailState.WRITTEN
