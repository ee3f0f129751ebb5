"""A flood of crossings in an hour, stored in real files, while processes get SIGKILL.

At full length the flood has 100,000 crossings and 20 kills.  The hour takes no real time.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Final

import apsw
import pytest
from watching import MINT, TRACKS, Scene, begun_log, swap

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.mail.email import EmailKind
from mintscope.alerts.alert import Fires, SignalId
from mintscope.alerts.alerts import LEASE_MS, AlertWriter
from mintscope.alerts.conditions import SignalKind
from mintscope.alerts.emails import EmailBounds
from mintscope.alerts.evaluation import Evaluation
from mintscope.alerts.evaluator import TIDY_S, AlertEvaluator
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.kit.time import HOUR_MS, MINUTE_MS
from mintscope.market.ports import FinalSlot
from support.processes.processes import processes, start_process
from support.scenes.account_stores import CountedAccounts, open_sqlite
from support.scenes.market_engines import market_of
from support.scenes.service import NOW
from support.scenes.traded import TradedStore, new_slot, traded_on

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
CROSSINGS: Final = 100_020 if FULL else 1_200
AT_ONCE: Final = CROSSINGS // 60  # crossings in a minute, between two evaluations
KILLS: Final = 20 if FULL else 2
STATEMENTS_MAX: Final = 300  # the most statements of a process before it dies
ROUND_S: Final = 600.0 if FULL else 60.0
OF_ALERT: Final = 12
OF_ACCOUNT: Final = 20
WHO: Final = ("ann", "ben")
LOG: Final = """
SELECT slot, email, email_note, fired_at FROM signal_firing WHERE signal = ? ORDER BY id
"""
BOUNDS: Final = EmailBounds(day_max=OF_ACCOUNT, of_alert_max=OF_ALERT, pause_ms=MINUTE_MS)
NEVER: Final = 1 << 60


def watch(folder: Path, holder: int, left: int, parent: Connection) -> None:
    """Evaluate alerts at each time that *parent* sends, and return the time; end at the time 0.

    The process kills itself before its SQL statement number *left* on the accounts.
    """
    asyncio.run(_watch(folder, holder, left, parent))


async def _watch(folder: Path, holder: int, left: int, parent: Connection) -> None:
    def count(_statement: str) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store = SqlAccountStore(CountedAccounts(folder / MONEY_FILE, count))
    clock = ManualClock(UnixMs(parent.recv()))

    async def next_look() -> None:
        parent.send(clock.now())
        if not (now := parent.recv()):
            raise asyncio.CancelledError
        clock.advance(now - clock.now())

    async with market_of("sqlite", folder) as market:
        evaluator = AlertEvaluator(
            reader=market.reader,
            writer=AlertWriter(
                store=store, clock=clock, holder=holder.to_bytes(2, "big"), bounds=BOUNDS
            ),
            evaluation=Evaluation(tracks=TRACKS[0], firings_hour_max=CROSSINGS),
            clock=clock,
            wait=next_look,
        )
        with suppress(asyncio.CancelledError):
            await evaluator.run()


@dataclass
class Flood:
    """An hour of trades around a level, and the process that evaluates them until it dies."""

    market: TradedStore
    folder: Path
    random: Random = field(default_factory=lambda: Random(31))
    now: int = NOW
    slot: int = 9
    deaths: int = 0
    holder: int = 0

    def __post_init__(self) -> None:
        self._begin(NEVER)

    async def pour(self) -> None:
        """Trade for an hour, in which a process dies KILLS times and is replaced each time."""
        self.look()
        for minute in range(60):
            while self.deaths < KILLS * minute // 60:
                self.die()
            await self.trade(minute)
            self.now += MINUTE_MS
            self.look()
        while self.deaths < KILLS:
            self.die()
        for _ in range(20):  # until all e-mails that wait for a pause are written
            self.now += MINUTE_MS
            self.look()

    async def trade(self, minute: int) -> None:
        """Store AT_ONCE swaps in *minute*, with prices that alternate across the alerts' level.

        In minute 40, one price is 60.
        """
        slots = []
        for number in range(AT_ONCE):
            self.slot += 1
            price = 60.0 if (minute, number) == (40, 4) else 11.0 - 2 * (self.slot % 2)
            at = NOW // 1_000 + 60 * minute + 60 * number // AT_ONCE
            slots.append(new_slot(self.slot, at, [swap(price)]))
        await self.market.market.store.write([*slots, FinalSlot(Slot(self.slot - 64))])
        await self.market.finalize(self.slot - 32)

    def look(self) -> bool:
        """Let the process evaluate once; if it dies, let a new one do so, and return False."""
        self.parent.send(self.now)
        try:
            assert self.parent.poll(ROUND_S)
            assert self.parent.recv() == self.now
        except EOFError:
            self.process.join()
            assert self.process.exitcode == -signal.SIGKILL
            self.deaths += 1
            self.now += LEASE_MS + 1
            self._begin(NEVER)
            self.look()
            return False
        return True

    def die(self) -> None:
        """Start another process, and let it evaluate until it has killed itself."""
        self.end()
        self.now += LEASE_MS + 1
        self._begin(self.random.randint(1, STATEMENTS_MAX))
        while self.look():
            self.now += int(TIDY_S * 1_000)

    def end(self) -> None:
        self.parent.send(0)
        self.process.join()
        assert self.process.exitcode == 0

    def _begin(self, left: int) -> None:
        self.holder += 1
        self.parent, theirs = processes.Pipe()
        self.process = start_process(watch, self.folder, self.holder, left, theirs)
        theirs.close()


@asynccontextmanager
async def flooded(folder: Path) -> AsyncIterator[tuple[Scene, dict[str, SignalId]]]:
    """Let many trades fire the alerts of two accounts; yield the scene, and the alerts by name."""
    async with traded_on("sqlite", folder, [MINT]) as market, open_sqlite(folder) as store:
        scene = Scene(store, begun_log(), ManualClock(NOW))
        for slot in range(1, 10):
            await market.slot(slot, NOW // 1_000 - 600 + 60 * slot, swap(9.0))
        alerts = {}
        for person, floods in (("ann", ["each"]), ("ben", ["each 1", "each 2"])):
            await open_user(scene, person)
            make = partial(scene.make, SignalKind.CROSSES, by_email=True)
            for name in floods:
                alerts[f"{person} {name}"] = await make(fires=Fires.EACH)
            alerts[f"{person} important"] = await scene.make(level=50.0, by_email=True)
            alerts[f"{person} once"] = await make(fires=Fires.ONCE)
        alerts["ben hourly"] = await make(fires=Fires.HOURLY)
        assert isinstance(market, TradedStore)
        flood = Flood(market, folder)
        await flood.pour()
        flood.end()
        assert flood.deaths == KILLS
        yield scene, alerts


async def open_user(scene: Scene, name: str) -> None:
    new = NewUser(
        kind=UserKind.AGENT,
        username=name,
        email=EmailAddress(f"{name}@example.org"),
        verified_at=UnixMs(NOW),
        created_at=UnixMs(NOW),
    )
    scene.user_id = await scene.store.transact(lambda rows: rows.users.insert(new))


@pytest.mark.process
@pytest.mark.storm
@pytest.mark.timeout(3_600 if FULL else 300)
async def test_each_firing_of_a_flood_is_logged_once_and_each_limit_is_reported_once(
    tmp_path: Path,
) -> None:
    async with flooded(tmp_path) as (scene, alerts):
        emails = await scene.store.read(lambda rows: rows.emails.newest(9_999))
    with closing(apsw.Connection(str(tmp_path / MONEY_FILE))) as db:
        logs = {name: list(db.execute(LOG, (number,))) for name, number in alerts.items()}

    reported = [each.facts for each in emails if each.kind is EmailKind.SIGNAL_FIRED]
    written = Counter(int(facts["signal"]) for facts in reported)
    floods = {name for name in alerts if " each" in name}
    for name in floods:
        assert [row[0] for row in logs[name]] == [*range(10, 10 + CROSSINGS)], "none lost or twice"
    for name in alerts.keys() - floods:
        assert logs[name][0][1] == "written", "an alert that floods silences no other"
    assert [len(logs[f"{who} {what}"]) for who in WHO for what in ("important", "once")] == [1] * 4
    assert all(after - before >= HOUR_MS for before, after in pairwise(fired(logs["ben hourly"])))
    for name, number in alerts.items():
        assert 1 <= written[number] <= OF_ALERT, name
        states = Counter((state, note) for _, state, note, _ in logs[name])
        assert lines_of(reported, number) == states.pop(("written", None), 0), name
        note = f"limit of {OF_ALERT if name.startswith('ann') else OF_ACCOUNT} reached"
        assert states.keys() <= {("not_sent", note)}, name
    to_ben = sum(written[number] for name, number in alerts.items() if name.startswith("ben"))
    assert to_ben == OF_ACCOUNT
    assert written[alerts["ann each"]] == OF_ALERT
    limits = Counter(e.facts["of"] for e in emails if e.kind is EmailKind.SIGNAL_LIMIT)
    assert limits == {str(alerts["ann each"]): 1, "": 1}


def fired(log: Sequence[Any]) -> list[int]:
    return [row[3] for row in log]


def lines_of(reported: Sequence[Mapping[str, str]], alert: SignalId) -> int:
    """Return the number of firings of *alert* that the e-mails in *reported* list or count."""
    found = 0
    for facts in reported:
        if int(facts["signal"]) == alert:
            lines = facts["lines"].splitlines()
            more = [line for line in lines if line.startswith("and ")]
            found += len(lines) - len(more)
            found += sum(int(line.split()[1].replace(",", "")) for line in more)
    return found
